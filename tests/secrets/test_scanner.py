"""What a scan of a blob reports: lines, kinds, fingerprints, and never a secret."""

from __future__ import annotations

import random
import string

import pytest

from git_agentos.secrets import detectors, fingerprints, rules, scanner
from git_agentos.secrets.scanner import Finding, Scanner
from tests.support.made_up_keys import BASE62, HEX, text

KEY = bytes(range(32))
RNG = random.Random(5)
TOKENS = ["gh" + "p_" + text(RNG, BASE62, 36) for _ in range(3)]


def of(secret: str) -> str:
    return fingerprints.of(secret.encode(), KEY)


def test_lines_kinds_and_fingerprints() -> None:
    one, two, _ = TOKENS
    data = f"a\n{one}\n\n  {two} {one} {one}\r\nlast {two}".encode()
    assert Scanner(KEY).scan(b"a/b.txt", data) == tuple(
        Finding(b"a/b.txt", line, "GitHub token", of(token)) for line, token in ((2, one), (4, two), (4, one), (5, two))
    )


def test_the_path_may_be_text_or_bytes() -> None:
    name = b"caf\xe9.txt"
    [found] = Scanner(KEY).scan(name.decode("utf-8", "surrogateescape"), TOKENS[0].encode())
    assert found == Scanner(KEY).scan(name, TOKENS[0].encode())[0]
    assert found.path == name


def test_what_is_allowed_is_not_reported() -> None:
    data = "\n".join(TOKENS).encode()
    allowed = Scanner(KEY, allowed=[of(TOKENS[1])]).scan(b"x", data)
    assert [each.line for each in allowed] == [1, 3]
    assert Scanner(KEY, allowed=[of(each) for each in TOKENS]).scan(b"x", data) == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
def test_encodings(encoding: str) -> None:
    data = f"größe\nname = '{TOKENS[0]}'\n".encode(encoding)
    assert [each.line for each in Scanner(KEY).scan(b"x", data)] == [2]


def test_both_byte_orders() -> None:
    content = f"a\n{TOKENS[0]}\n"
    for data in (b"\xff\xfe" + content.encode("utf-16-le"), b"\xfe\xff" + content.encode("utf-16-be")):
        assert [(each.line, each.fingerprint) for each in Scanner(KEY).scan(b"x", data)] == [(2, of(TOKENS[0]))]


def test_a_binary_file_is_looked_at_for_what_has_a_form() -> None:
    data = b"\x7fELF\0\0" + TOKENS[0].encode() + b"\0password = 'v8Kq3zT1mX7pLw9sR2dN'\0"
    assert [each.kind for each in Scanner(KEY).scan(b"a.out", data)] == ["GitHub token"]


def test_of_a_large_blob_the_beginning_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "MAX_BYTES", 1 << 20)
    data = f"{TOKENS[0]}\n".encode() + b"x\n" * (1 << 19) + TOKENS[1].encode()
    assert [each.line for each in Scanner(KEY).scan(b"x", data)] == [1]
    assert scanner.unread(data) == f"only its first 1 MiB are looked at, of {len(data)} bytes"


def test_what_is_not_looked_at_is_said() -> None:
    assert scanner.unread(b"text") is None
    assert scanner.unread(b"") is None
    assert scanner.unread(b"\x7fELF\0") is None
    assert scanner.unread(b"\x1f\x8b\x08\0") == "it is compressed (gzip): what it holds is not looked at"
    assert scanner.unread(b"PK\x03\x04\x14") == "it is compressed (zip): what it holds is not looked at"


def test_no_finding_reveals_a_secret() -> None:
    secrets = [*TOKENS, "v8Kq3zT1mX7pLw9sR2dN", "x9-Trombone"]
    data = "\n".join([*TOKENS, f"password = '{secrets[3]}'", f"https://ci:{secrets[4]}@git.acme.io"]).encode()
    found = Scanner(KEY).scan(b"x", data)
    assert [each.line for each in found] == [1, 2, 3, 4, 5]
    for each in found:
        assert set(each.fingerprint) <= set(HEX)
        assert not any(part in str(each) for secret in secrets for part in (secret, secret[4:14]))


def test_detect_secrets_is_a_second_opinion() -> None:
    mailchimp = text(RNG, string.ascii_lowercase + string.digits, 32) + "-us12"
    data = f"one\n{TOKENS[0]}\nchimp: {mailchimp}\n".encode()
    assert [(each.line, each.kind) for each in Scanner(KEY).scan(b"x", data)] == [
        (2, "GitHub token"),
        (3, "Mailchimp Access Key"),
    ]
    assert [each.line for each in Scanner(KEY, detect_secrets=False).scan(b"x", data)] == [2]
    assert Scanner(KEY).scan(b"x", b"account A" + b"C" + text(RNG, HEX, 32).encode()) == ()


def test_without_detect_secrets_our_rules_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detectors, "installed", lambda names: ())
    assert [each.line for each in Scanner(KEY).scan(b"x", TOKENS[0].encode())] == [1]


def test_the_version_says_who_looks() -> None:
    assert Scanner(KEY, detect_secrets=False).version == "1"
    assert Scanner(KEY).version.startswith("1+1.")


@pytest.mark.parametrize("size", [0, 700, 5000, 300_000])
def test_detect_secrets_gets_parts_of_long_lines(size: int) -> None:
    mailchimp = text(RNG, string.ascii_lowercase + string.digits, 32) + "-us12"
    data = b"x\n" + b"- " * (size // 2) + mailchimp.encode() + b" -" * (size // 2)
    assert [each.line for each in Scanner(KEY).scan(b"x", data)] == [2]


def test_a_secret_that_others_found_is_the_same_secret() -> None:
    token = TOKENS[0].encode()
    assert rules.normal(token) == ("GitHub token", token)
    assert rules.normal(b"whatever") == (None, b"whatever")
