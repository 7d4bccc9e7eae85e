"""The first look at many blobs: none that has a finding gets past it."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_agentos import secret_forms
from git_agentos.secrets import detectors, suspects
from git_agentos.secrets.scanner import Scanner
from tests.support import made_up_keys

SCANNER = Scanner(bytes(32))
BY_FORM = [(each.kind, each.pattern) for each in secret_forms.FORMS if each.kind != "AWS identity"]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("detect_secrets", [True, False])
def test_many_at_once_are_as_one_after_the_other(seed: int, detect_secrets: bool) -> None:
    """Made-up keys among ordinary files, whatever stands before and behind."""
    scanner = Scanner(bytes(32), detect_secrets=detect_secrets)
    files = [(each.path, each.data) for each in made_up_keys.hidden(seed, 200)]
    files += [(each.path, each.data) for each in made_up_keys.ordinary(seed, 100)]
    random.Random(seed).shuffle(files)
    alone = [scanner.scan(*each) for each in files]
    assert scanner.scan_all(iter(files)) == alone
    assert sum(bool(each) for each in alone) >= 190


def test_more_than_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    key = made_up_keys.hidden(4, 1)[0]
    files = [(b"a", b"x" * 50), (key.path, key.data), (b"b", b""), (b"c", b"y" * 300), (key.path, key.data)]
    alone = [SCANNER.scan(*each) for each in files]
    for size in (1, 60, 1 << 20):
        monkeypatch.setattr("git_agentos.secrets.scanner._PASS", size)
        assert SCANNER.scan_all(files) == alone
    assert SCANNER.scan_all([]) == []


def test_most_files_are_none() -> None:
    """Otherwise it would save nothing."""
    lines = [f"for each in range({n}): # src/module_{n}/password_{n}/token_{n}.py\n" for n in range(40)]
    assert suspects.find(["".join(lines[:n]).encode() for n in range(40)], "1.5.0") == set()


@pytest.mark.parametrize("kind, pattern", BY_FORM, ids=lambda value: value[:20])
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_token_gets_past(kind: str, pattern: str, data: Any) -> None:
    """Of each form, in the middle of a text, beside a longer run with the same word."""
    token = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True)).encode("latin-1", "ignore")
    text = data.draw(st.sampled_from([b"%s", b'x = "%s"\n', b"a\\n%s", b"%s %sxxxxxxxxxxxxxxxxxxxxxxx"]))
    text = text.replace(b"%s", token)
    if SCANNER.scan(b"x", text):
        assert suspects.find([b"before", text, b"behind"], None) == {1}


@pytest.mark.parametrize("detector", detectors.installed(), ids=lambda each: each[0])
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_nothing_that_a_detector_finds_gets_past(detector: Any, data: Any) -> None:
    """Whatever matches one of its patterns, in a line that it would be given."""
    kind, analyze = detector
    patterns = list(analyze.__self__.denylist)
    pattern = data.draw(st.sampled_from(patterns))
    alphabet = st.characters(max_codepoint=255)
    match = data.draw(st.from_regex(pattern, alphabet=alphabet)).replace("\n", " ")
    text = f"a0123456789abcdefghij {match} behind".encode("latin-1")
    if any(analyze(text.decode("latin-1"))):
        assert suspects.may_be_detected(text, "1.5.0"), kind
        assert suspects.find([b"before", text, b"behind"], "1.5.0") >= {1}
        assert suspects.find([b"before", text, b"behind"], "1.6.0") >= {1}, "of another release, every line counts"


def test_each_detector_is_tried() -> None:
    assert len(detectors.installed()) == len(detectors.NAMES)


@given(st.lists(st.binary(max_size=200), max_size=6), st.integers(0, 3))
def test_any_bytes(blobs: list[bytes], spread: int) -> None:
    files = [(b"x", each * (spread + 1)) for each in blobs]
    assert SCANNER.scan_all(files) == [SCANNER.scan(*each) for each in files]


@pytest.mark.parametrize(
    "text",
    [
        "name:password={}", '{{"api_key":\n"x", "api_key": "{}"}}', "api_key\t=\t'{}'", "--token {}",
        "?access_token={}", "Authorization: Bearer {}", "<secret>{}</secret>",
        '"DB_PASSWORD",  "{}"', "client_secret => \"{}\"",
    ],
)  # fmt: skip
def test_values_with_the_name_of_a_secret(text: str) -> None:
    value = made_up_keys.text(random.Random(5), made_up_keys.BASE62, 40)
    blob = b"\n\n" + text.format(value).encode() + b"\n"
    assert SCANNER.scan(b"x", blob)
    assert suspects.find([b"", blob], None) == {1}
    assert suspects.find([blob.decode().encode("utf-16"), b"x"], None) == {0}


def test_what_is_left_and_right_of_a_long_line() -> None:
    """detect-secrets gets what is near a run: so does the look, also where a hash stands before."""
    secret = "AP" + "5" + made_up_keys.text(random.Random(3), made_up_keys.BASE62, 30)
    for distance in (0, 90, 150, 195, 250):
        text = f"{'0a' * 20} {'. ' * 95}a1b2c3d4e5f6g7h8i9j0k1{'. ' * (distance // 2)} {secret[:14]} x".encode()
        assert SCANNER.scan_all([(b"x", text)]) == [SCANNER.scan(b"x", text)]


@pytest.mark.parametrize("at", range(5))
def test_what_needs_no_run_of_characters(at: int) -> None:
    password = made_up_keys.text(random.Random(8), made_up_keys.BASE62, 18)
    key = "\n".join(made_up_keys.text(random.Random(each), made_up_keys.BASE62, 16) for each in range(8))
    text = (
        f"see ftp://ci:{password[:9]}!~@git.acme.io now",
        f"-----BEGIN {'RSA '}PRIVATE KEY-----\n{key}\n",
        f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 8\n{key}\n",
        f"hooks.slack.com/services/T123/B234/{password}",
        f"//registry.acme.io/:_auth = {password}",
    )[at].encode()
    assert SCANNER.scan(b"x", text)
    assert suspects.find([b"before", text, b"behind"], None) == {1}
