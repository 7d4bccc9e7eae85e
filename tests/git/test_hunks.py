"""Hunks of real patches: parsed in git's order, split as git splits, edited, and taken back as `git apply -R` does."""

from __future__ import annotations

import pytest

from git_agentos.git import hunks
from git_agentos.git.hunks import FilePatch, Hunk, HunkKind, NotApplicableError
from tests.support.repo import Repo

OLD = b"".join(b"%d\n" % n for n in range(1, 31))
NEW = OLD.replace(b"\n4\n", b"\nfour\n").replace(b"\n7\n", b"\n").replace(b"\n25\n", b"\n25\nmore\n")


def parsed(repo: Repo, *options: str) -> tuple[FilePatch, ...]:
    """What is staged, from HEAD."""
    fields = repo.git("diff-index", "--cached", "-z", "--name-status", "HEAD").split(b"\0")
    names = [(fields[n + 1], fields[n].decode()) for n in range(0, len(fields) - 1, 2)]
    return hunks.parse(repo.git(*options, "diff-index", "--cached", "-p", "--binary", "HEAD"), names)


def of(repo: Repo, old: bytes, new: bytes, *options: str) -> tuple[Hunk, ...]:
    repo.write("file", old)
    repo.git("add", "-A")
    repo.git("commit", "-q", "--allow-empty", "-m", "old")
    repo.write("file", new)
    repo.git("add", "-A")
    (found,) = parsed(repo, *options)
    return found.hunks


def test_parts_of_a_patch(repo: Repo) -> None:
    first, last = of(repo, OLD, NEW)
    assert (first.kind, first.header, first.old, first.new) == (HunkKind.TEXT, b"@@ -1,10 +1,9 @@", 0, 0)
    assert first.body[:5] == (b" 1", b" 2", b" 3", b"-4", b"+four")
    assert (last.header, last.old, last.new) == (b"@@ -23,6 +22,7 @@ four", 22, 21) or last.body[3] == b"+more"
    assert hunks.take_back(NEW, [last]) == OLD.replace(b"\n4\n", b"\nfour\n").replace(b"\n7\n", b"\n")
    assert hunks.take_back(NEW, [last, first]) == OLD


def test_no_line_end(repo: Repo) -> None:
    (hunk,) = of(repo, b"one\ntwo", b"one\ntwo\nthree")
    assert hunk.body == (b" one", b"-two", b"\\ No newline at end of file", b"+two", b"+three", hunk.body[2])
    assert hunks.take_back(b"one\ntwo\nthree", [hunk]) == b"one\ntwo"


def test_empty_context_without_its_mark(repo: Repo) -> None:
    """`diff.suppressBlankEmpty`."""
    old, new = b"\n\na\n\n\n", b"\n\nb\n\n\n"
    (hunk,) = of(repo, old, new, "-c", "diff.suppressBlankEmpty=true")
    assert hunk.body == (b"", b"", b"-a", b"+b", b"", b"")
    assert hunks.take_back(new, [hunk]) == old


def test_lines_that_look_like_headers(repo: Repo) -> None:
    old = b"diff --git a/x b/x\n@@ -1 +1 @@\nGIT binary patch\n"
    new = b"@@ -1 +1 @@\n-- a\ndiff --git a/y b/y\n"
    (hunk,) = of(repo, old, new)
    assert hunks.take_back(new, [hunk]) == old


def test_a_split_has_gits_parts(repo: Repo) -> None:
    first, last = of(repo, OLD, NEW)
    one, two = hunks.split(first)
    assert one.header == b"@@ -1,6 +1,6 @@"
    assert one.body == (b" 1", b" 2", b" 3", b"-4", b"+four", b" 5", b" 6")
    assert two.header == b"@@ -5,6 +5,5 @@"
    assert two.body == (b" 5", b" 6", b"-7", b" 8", b" 9", b" 10")
    assert hunks.split(last) == [last]
    assert hunks.take_back(NEW, [two]) == OLD.replace(b"\n4\n", b"\nfour\n").replace(b"\n25\n", b"\n25\nmore\n")
    assert hunks.take_back(NEW, [one, two]) == hunks.take_back(NEW, [first])


def test_an_edited_hunk(repo: Repo) -> None:
    first, _ = of(repo, OLD, NEW)
    rows = [*first.body]
    rows[rows.index(b"+four")] = b" four"  # it stays
    rows[rows.index(b"-4")] = b"-4 and"
    text = b"# a comment\n" + b"\n".join([first.header, *rows]) + b"\n# more\n"
    edited = hunks.edited(first, text)
    assert edited is not None
    assert (edited.is_edited, edited.header) == (True, b"@@ -1,11 +1,9 @@")
    assert hunks.fits(NEW, edited)
    assert hunks.take_back(NEW, [edited]).startswith(b"1\n2\n3\n4 and\nfour\n5\n6\n7\n8\n")
    assert hunks.edited(first, b"# nothing\n") is None


@pytest.mark.parametrize("text", [b"@@ -1 +1 @@\nno mark\n", b" 1\n*2\n"])
def test_an_edited_hunk_without_marks(repo: Repo, text: bytes) -> None:
    first, _ = of(repo, OLD, NEW)
    with pytest.raises(NotApplicableError):
        hunks.edited(first, text)


def test_what_does_not_fit(repo: Repo) -> None:
    first, last = of(repo, OLD, NEW)
    wrong = first._replace(body=tuple(row.replace(b"+four", b"+five") for row in first.body))
    assert not hunks.fits(NEW, wrong)
    with pytest.raises(NotApplicableError):
        hunks.take_back(NEW, [wrong])
    with pytest.raises(NotApplicableError):
        hunks.take_back(NEW, [first, first])
    with pytest.raises(NotApplicableError):
        hunks.take_back(NEW, [last._replace(new=400)])
    ended = first._replace(body=(*first.body[:4], b"\\ No newline at end of file", *first.body[4:]))
    with pytest.raises(NotApplicableError):
        hunks.take_back(NEW, [ended])


def test_line_ends_on_disk() -> None:
    hunk = Hunk(HunkKind.TEXT, b"@@ -1,3 +1,2 @@", (b" a", b"-b", b" c"))
    assert hunks.same_lines(b"a\nc\n", b"a\r\nc\n")
    assert not hunks.same_lines(b"a\nc\n", b"a\r\nd\n")
    assert not hunks.same_lines(b"a\nc\n", b"a\n")
    assert hunks.take_back(b"a\nc\n", [hunk], b"a\r\nc\n") == b"a\r\nb\r\nc\n"
    assert hunks.take_back(b"a\nc\n", [hunk], b"a\nc\r\n") == b"a\nb\nc\r\n"
    assert (
        hunks.take_back(b"a\r\nc\n", [hunk._replace(body=(b" a\r", b"-b", b" c"))], b"a\r\nc\r\n") == b"a\r\nb\nc\r\n"
    )
