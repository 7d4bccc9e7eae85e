"""The patches of evidence hold no secret, wherever it stands, and are otherwise those of git."""

from __future__ import annotations

import base64
import re
import zlib

import pytest

from git_agentos.git.location import locate
from git_agentos.git.repository import Repository
from git_agentos.run import patches
from tests.support.repo import Repo

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
OTHER = "sk-ant-api03-" + "Zz9Yy8Xx7" * 4
BODY = [base64.b64encode(bytes((n * 7 + k) % 256 for k in range(48))).decode() for n in range(20)]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "c2hvcnQ=", "-----END RSA PRIVATE KEY-----"]
VALUE = b"of-the-environment-42"


def redacted(repo: Repo, before: dict[str, str | bytes], after: dict[str, str | bytes]) -> tuple[bytes, bytes]:
    """git's patch from one state of some files to another, and the same without secrets."""
    trees = []
    for state in (before, after):
        for name in before.keys() | after.keys():
            repo.path.joinpath(name).unlink(missing_ok=True)
        for name, content in state.items():
            repo.write(name, content)
        repo.git("add", "-A")
        trees.append(repo.text("write-tree"))
    store = Repository(locate(str(repo.path)))
    plain = patches.patch(store, trees[0], trees[1])
    return plain, patches.without_secrets(store, plain, frozenset([VALUE]))


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_a_patch_without_secrets_is_gits(repo: Repo) -> None:
    before: dict[str, str | bytes] = {"a.txt": "one\ntwo\n", "b.bin": b"\0\1", "gone": "", "no newline": "x"}
    after: dict[str, str | bytes] = {
        "a.txt": "one\n2\n",
        "b.bin": b"\0\2",
        "new": lines(*map(str, range(90))),
        "no newline": "y",
        "p\t": "q\r\n",
    }
    plain, clean = redacted(repo, before, after)
    assert clean == plain
    assert clean.count(b"diff --git") == 6


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x\n", lines("x", f"key = '{TOKEN}'", "y"), id="added"),
        pytest.param(lines(f"key = '{TOKEN}'", "y"), "y\n", id="removed"),
        pytest.param(lines("old", f"a {OTHER}"), lines("new", f"a {OTHER}"), id="context"),
        pytest.param(lines(f"k={TOKEN}"), lines(f"k={OTHER}"), id="replaced"),
        pytest.param("", f"password = '{VALUE.decode()}'", id="no newline at the end"),
        pytest.param("a\r\n", f"a\r\nv: {VALUE.decode()}\r\n", id="a value of the environment"),
        pytest.param("a\n", lines("db_password =", "  'hunter2-and-more'"), id="a value in the next line"),
    ],
)  # fmt: skip
def test_a_secret_in_a_line(repo: Repo, before: str, after: str) -> None:
    plain, clean = redacted(repo, {"f.py": before}, {"f.py": after})
    for secret in (TOKEN, OTHER, VALUE.decode(), "hunter2"):
        assert secret.encode() not in clean
    assert b"[redacted]" in clean
    assert shape(clean) == shape(plain)


def shape(patch: bytes) -> list[bytes]:
    """The signs of the lines, and the headers but for what follows the numbers of a hunk."""
    found = []
    for line in patch.split(b"\n"):
        header = re.match(rb"@@.*?@@|diff .*|index .*", line)
        found.append(header[0] if header else line[:1])
    return found


@pytest.mark.parametrize(("first", "last"), [(0, 1), (5, 6), (10, 14), (19, 22), (0, 23), (22, 23)], ids=str)
@pytest.mark.parametrize("indent", ["", "    ", '  "'])
def test_a_private_key_of_which_a_part_changed(repo: Repo, first: int, last: int, indent: str) -> None:
    """A hunk in the middle of a key shows neither its begin nor its end; its header may show a line of it."""
    other = [line[::-1] if n % 23 in range(first, last) and "-" not in line else line for n, line in enumerate(KEY)]
    before = lines("top", *(indent + each for each in KEY), "bottom", *map(str, range(8)))
    after = lines("top", *(indent + each for each in other), "changed", *map(str, range(8)))
    plain, clean = redacted(repo, {"id_rsa": before}, {"id_rsa": after})
    for line in (*BODY, *(each[::-1] for each in BODY)):
        assert line[:16].encode() not in clean
    assert b"+changed" in clean
    assert shape(clean) == shape(plain)


def test_names_of_files(repo: Repo) -> None:
    _, clean = redacted(repo, {}, {f"{TOKEN}.txt": "x\n"})
    assert TOKEN.encode() not in clean
    assert b"+x\n" in clean


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_binary_file(repo: Repo, encoding: str) -> None:
    secret = b"\0\1\2" + f"token={TOKEN}".encode(encoding) + bytes(200)
    plain, clean = redacted(repo, {"f.bin": b"\0plain", "g.bin": b"\0"}, {"f.bin": secret, "g.bin": b"\0\1"})
    assert clean.count(b"GIT binary patch") == 1  # g.bin's
    assert b"left out" in clean
    packed = [_literal(each) for each in plain.split(b"diff --git")[1:]]
    assert secret in packed  # what would have been there


def _literal(section: bytes) -> bytes:
    data = b""
    for line in section.split(b"literal ", 1)[1].split(b"\n\n", 1)[0].split(b"\n")[1:]:
        length = line[0] - 64 if line[0] < 97 else line[0] - 96 + 26
        data += base64.b85decode(line[1:])[:length]
    return zlib.decompress(data)


def test_a_submodule(repo: Repo) -> None:
    Repo.init(repo.path / "sub").git("commit", "-q", "--allow-empty", "-m", "x")
    repo.git("add", "sub")
    store = Repository(locate(str(repo.path)))
    plain = patches.patch(store, "HEAD", repo.text("write-tree"))
    assert b"+Subproject commit" in plain
    assert patches.without_secrets(store, plain, frozenset([VALUE])) == plain


def test_bytes_that_are_no_utf_8(repo: Repo) -> None:
    _, clean = redacted(repo, {}, {"latin": b"\xe4\xf6\xfc\n", "latin secret": b"\xe4 " + TOKEN.encode() + b"\n"})
    assert b"+\xe4\xf6\xfc\n" in clean
    assert b"+\xe4 [redacted]\n" in clean
    assert TOKEN.encode() not in clean
