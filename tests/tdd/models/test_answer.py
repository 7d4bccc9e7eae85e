"""Answers of text models: reading them, edits by search and replace, and doing them all or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_agentos.tdd.models import answer, file_changes
from git_agentos.tdd.models.answer import Change, Edit, InvalidAnswer
from git_agentos.workspace import open_workspace
from tests.support import model_requests
from tests.support.model_requests import ModelWorktree
from tests.support.repo import Repo

MARK = "abc123"


def parsed(text: str) -> tuple[Change, ...]:
    """An answer in which `@` stands for the mark."""
    return answer.parse(text.replace("@", f"[{MARK}]"), MARK)


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidAnswer) as error:
        parsed(text)
    return error.value.problems


# -- reading -----------------------------------------------------------------------------------------------------------


def test_every_kind_of_block() -> None:
    text = """Talk before.
@ file a.py
x = 1

    [other] end
@ end
Talk between.
@ edit b.py
@ search
one
@ replace
two
three
@ search
four
@ replace
@ end
@ delete c.py
Talk after.
"""
    assert parsed(text) == (
        Change("a.py", lines=("x = 1", "", "    [other] end")),
        Change("b.py", edits=(Edit(("one",), ("two", "three")), Edit(("four",), ()))),
        Change("c.py", delete=True),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@ file a.py\n@ end\n", Change("a.py", lines=())),
        ("@ file a.py\r\nx\r\n@ end\r\n", Change("a.py", lines=("x",))),
        ("  @ file a b.py \nx\n  @ end", Change("a b.py", lines=("x",))),
        ("@ file `a.py`\nx\n@ end", Change("a.py", lines=("x",))),
        ("```\n@ file a.py\nx\n@ end\n```\n", Change("a.py", lines=("x",))),
        ("@ file a.py\n```python\nx\n```\n@ end", Change("a.py", lines=("x",))),
        ("@ file a.py\n```python\nx\n````\n@ end", Change("a.py", lines=("```python", "x", "````"))),
        ("@ file a.md\n```python\nx\n```\n@ end", Change("a.md", lines=("```python", "x", "```"))),
        ("@ file a.py\nx = '''\n```\n'''\n@ end", Change("a.py", lines=("x = '''", "```", "'''"))),
        (
            "@ edit a.py\n@ search\na\n@ replace\nb\n@ end\n@ edit a.py\n@ search\nc\n@ replace\nd\n@ end",
            Change("a.py", edits=(Edit(("a",), ("b",)), Edit(("c",), ("d",)))),
        ),
    ],
)
def test_answers_as_models_write_them(text: str, expected: Change) -> None:
    assert parsed(text) == (expected,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the answer has no block: no line begins with @"),
        ("x [abc123] file a.py", "the answer has no block: no line begins with @"),
        ("@ file a.py\nx", "line 1 of the answer: the block of 'a.py' has no end: the answer may have been cut off"),
        ("@ file a.py\nx\n@ delete b.py", "line 1 of the answer: the block of 'a.py' has no end: "),
        ("@ file\nx\n@ end", "line 1 of the answer: 'file' without a path"),
        ("@ write a.py", "line 1 of the answer: 'write' is none of file, edit, search, replace, delete, end"),
        ("@ end", "line 1 of the answer: 'end' without a block"),
        ("@ search\nx", "line 1 of the answer: 'search' outside of an edit"),
        ("@ edit a.py\n@ end", "line 2 of the answer: 'a.py' is to be edited, but there is nothing to search for"),
        ("@ edit a.py\n@ search\nx\n@ end", "line 4 of the answer: 'a.py' has a 'search' without a 'replace' after it"),
        (
            "@ edit a.py\n@ search\nx\n@ search\ny\n@ replace\nz\n@ end",
            "line 4 of the answer: 'a.py' has a 'search' without a 'replace' after it",
        ),
        (
            "@ edit a.py\n@ replace\nx\n@ end",
            "line 2 of the answer: 'a.py' has a 'replace' without a 'search' before it",
        ),
        ("@ edit a.py\nx = 1\n@ search\nx\n@ replace\n@ end", "line 2 of the answer: 'a.py' has text before its first"),
        ("@ file a.py\n@ end\n@ delete a.py", "'a.py' has two blocks that do not go together"),
        ("@ file a.py\n@ end\n@ file a.py\n@ end", "'a.py' has two blocks that do not go together"),
        ("x" * (answer.MAX_LENGTH + 1), f"the answer has {answer.MAX_LENGTH + 1} characters"),
    ],
)
def test_malformed_answers_are_refused(text: str, problem: str) -> None:
    found = problems(text)
    assert any(each.startswith(problem.replace("@", f"[{MARK}]")) for each in found), found


def test_all_problems_of_an_answer_are_reported() -> None:
    assert len(problems("@ nonsense\n@ end\n@ file a.py\nx\n")) == 3


def test_instructions_describe_what_is_read() -> None:
    mark = answer.mark_for("the prompt")
    found = answer.parse(answer.instructions(mark), mark)
    assert [(each.path, each.lines is not None, each.edits is not None, each.delete) for each in found] == [
        ("path/to/new.py", True, False, False),
        ("path/to/present.py", False, True, False),
        ("path/to/gone.py", False, False, True),
    ]


@pytest.mark.law
@settings(deadline=None)
@given(st.text(max_size=60))
def test_a_mark_is_not_in_the_prompt(prompt: str) -> None:
    mark = answer.mark_for(prompt)
    assert mark not in prompt
    assert answer.mark_for(prompt) == mark


def test_a_prompt_that_was_made_for_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "_marks", lambda prompt: iter(["aaaaaa", "bbbbbb", "cccccc"]))
    assert answer.mark_for("[aaaaaa] file x\nBEGIN bbbbbb") == "cccccc"


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=8)
LINES = st.lists(st.one_of(LINE, st.sampled_from(["", "@", "[abc123", "[ABC123] end", "```", "=======", " x"])))


@pytest.mark.law
@settings(deadline=None)
@given(LINES)
def test_any_file_can_be_said(lines: list[str]) -> None:
    if answer._unfenced("a.rst", lines) != tuple(lines) or any(each.strip().startswith("[abc123]") for each in lines):
        return
    text = "\n".join([f"[{MARK}] file a.rst", *lines, f"[{MARK}] end"])
    assert answer.parse(text, MARK) == (Change("a.rst", lines=tuple(lines)),)


@pytest.mark.law
@settings(deadline=None)
@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["[abc123] ", "file", "a", "\n", "edit", "end", "search"])).map("".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert answer.parse(text, MARK)
    except InvalidAnswer as error:
        assert error.problems


# -- search and replace ------------------------------------------------------------------------------------------------


def edited(text: str, *pairs: tuple[str, str]) -> str:
    made, wrong = answer.apply_edits(text, [Edit(_split(search), _split(replace)) for search, replace in pairs])
    assert wrong == []
    return made


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        ("a\nb\nc\n", "b", "x", "a\nx\nc\n"),
        ("a\nb\nc\n", "a\nb", "", "c\n"),
        ("a\nb\nc", "c", "x", "a\nb\nx"),
        ("a\nb\nc", "b", "x\ny", "a\nx\ny\nc"),
        ("a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\nc\r\n", "b", "x", "a\r\nx\nc\r\n"),
        ("a\r\nb", "b", "x\ny", "a\r\nx\r\ny"),
        ("\ufeffa\nb\n", "a", "x", "\ufeffx\nb\n"),
        ("a\x0bb\u2028c\x85d\n", "a\x0bb\u2028c\x85d", "x", "x\n"),
        ("a\rb\n", "a\rb", "x", "x\n"),
        ("ab\nb\n", "b", "x", "ab\nx\n"),
        ("only", "only", "", ""),
        ("a\n\nb\n", "a\n", "x", "x\nb\n"),
    ],
)
def test_lines_are_replaced_and_ends_are_kept(text: str, search: str, replace: str, expected: str) -> None:
    assert edited(text, (search, replace)) == expected


def test_edits_are_done_one_after_the_other() -> None:
    assert edited("a\nb\n", ("a", "b\nc"), ("c", "d")) == "b\nd\nb\n"


@pytest.mark.parametrize(
    ("text", "search", "problem"),
    [
        ("a\nb\na\n", "a", "its search block matches 2 times, at lines 1, 3: add lines around it"),
        ("a\na\na\n", "a\na", "its search block matches 2 times, at lines 1, 2: "),
        ("a\n" * 9, "a", "its search block matches 9 times, at lines 1, 2, 3, 4, 5 …: "),
        ("value = 1\n", "  value = 1", "matches nothing in the file; the nearest lines are\n      1  value = 1"),
        ("a\n", "something else", "matches nothing in the file (of 1 lines), nor anything like its line something"),
        ("", "x", "matches nothing in the file"),
        ("a\n", "", "its search block is empty"),
        ("a\n\n", "\n", "its search block is empty"),
    ],
)
def test_edits_that_do_not_match_once_are_refused(text: str, search: str, problem: str) -> None:
    made, wrong = answer.apply_edits(text, [Edit(_split(search), ("x",))])
    assert made == text
    assert len(wrong) == 1
    assert problem in wrong[0]


def test_the_nearest_lines_are_bounded() -> None:
    text = "".join(f"{'long ' * 100}{n}\n" for n in range(3000))
    search = [f"{'long ' * 100}{n}!" for n in range(1000, 1200)]
    _, wrong = answer.apply_edits(text, [Edit(tuple(search), ())])
    assert len(wrong[0]) < 2500


WORDS = st.sampled_from(["a", "b", "c", " a", ""])


def _bare(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


@pytest.mark.law
@settings(deadline=None)
@given(
    st.lists(WORDS, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.lists(WORDS, min_size=1, max_size=3),
    st.lists(st.sampled_from(["a", "x", "y"]), max_size=3),
)
def test_an_edit_is_done_exactly_where_it_matches_once(
    lines: list[str], end: str, is_ended: bool, search: list[str], replace: list[str]
) -> None:
    text = end.join(lines) + (end if is_ended else "")
    made, wrong = answer.apply_edits(text, [Edit(tuple(search), tuple(replace))])
    bare, count = _bare(text), len(search)
    places = [at for at in range(len(bare) - count + 1) if bare[at : at + count] == search]
    if len(places) != 1 or not any(line.strip() for line in search):
        assert (made, len(wrong)) == (text, 1)
        return
    expected = [*bare[: places[0]], *replace, *bare[places[0] + count :]]
    assert (_bare(made), wrong) == (expected, [])
    if end in text:
        assert made.count("\n") == made.count(end)


@pytest.mark.parametrize(
    ("lines", "present", "expected"),
    [
        (("a", "b"), None, "a\nb\n"),
        ((), None, ""),
        (("a",), "x\r\ny\r\n", "a\r\n"),
        (("a",), "x\r\ny\nz\n", "a\n"),
        (("a",), "", "a\n"),
        (("a",), "\ufeffx\n", "\ufeffa\n"),
        (("\ufeffa",), "\ufeffx\n", "\ufeffa\n"),
    ],
)
def test_a_whole_file_gets_the_ends_of_the_one_that_it_replaces(
    lines: tuple[str, ...], present: str | None, expected: str
) -> None:
    assert answer.whole_text(lines, present) == expected


# -- doing it ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(empty_repo: Repo) -> ModelWorktree:
    return model_requests.plain_worktree(empty_repo)


def whole(path: str, *lines: str) -> Change:
    return Change(path, lines=lines)


def refused(site: ModelWorktree, *changes: Change) -> str:
    """Why changes are refused; that nothing has changed is looked at."""
    before = {path: look(site.root / path) for path in everything(site.root)}
    with pytest.raises(InvalidAnswer) as error:
        file_changes.apply(changes, site.here)
    assert {path: look(site.root / path) for path in everything(site.root)} == before
    return "; ".join(error.value.problems)


def everything(root: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(top, name), root) for top, dirs, files in os.walk(root) for name in dirs + files
    }


def look(path: Path) -> tuple[int, bytes]:
    found = os.lstat(path)
    return found.st_mode, path.read_bytes() if stat.S_ISREG(found.st_mode) else b""


def test_new_changed_and_deleted_files(site: ModelWorktree) -> None:
    (site.root / "old.sh").write_bytes(b"one\r\ntwo\r\n\xff\r\n")
    (site.root / "old.sh").chmod(0o750)
    (site.root / "gone.py").write_text("x\n")
    done = file_changes.apply(
        [
            whole("a/b/new é.py", "x = 1"),
            Change("./old.sh", edits=(Edit(("two",), ("three", "four")),)),
            Change("gone.py", delete=True),
        ],
        site.here,
    )
    assert done == ["a/b/new é.py", "old.sh", "gone.py"]
    assert (site.root / "a/b/new é.py").read_bytes() == b"x = 1\n"
    assert stat.S_IMODE((site.root / "a/b/new é.py").stat().st_mode) == 0o644
    assert (site.root / "old.sh").read_bytes() == b"one\r\nthree\r\nfour\r\n\xff\r\n"
    assert stat.S_IMODE((site.root / "old.sh").stat().st_mode) == 0o750
    assert not (site.root / "gone.py").exists()
    assert not [path for path in everything(site.root) if ".agentos-" in path]


WHERE_NOT = [
    ("", "is no path of a file"),
    (".", "is no path of a file"),
    ("a/", "is no path of a file"),
    ("/etc/passwd", "is not relative"),
    ("~/x", "is not relative"),
    ("C:/x", "is not relative"),
    ("../x", "leads upwards"),
    ("a/../../x", "leads upwards"),
    ("a/../x", "leads upwards"),
    ("a\\b", "has a backslash"),
    ("a\nb", "a control character"),
    ("a\0b", "a control character"),
    ("\ud800", "cannot be the name"),
    ("x" * 5000, "is too long"),
    ("x" * 300, "cannot be checked"),
    (".git", "is not yours to write"),
    (".git/hooks/pre-commit", "is not yours to write"),
    (".GIT/config", "is not yours to write"),
    ("a/.Git/config", "is not yours to write"),
    (".git./config", "is not yours to write"),
    (".git /config", "is not yours to write"),
    (".g\u200cit/config", "is not yours to write"),
    (".\uff47\uff49\uff54/config", "is not yours to write"),
    ("git~1/config", "is not yours to write"),
    (".git::$INDEX_ALLOCATION/config", "is not yours to write"),
    (".agentos/x", "is not yours to write"),
    (".AgentOS/x", "is not yours to write"),
    ("to/x", "lies behind the symbolic link 'to'"),
    ("out", "is a symbolic link"),
    ("inner/link/x", "lies behind the symbolic link 'inner/link'"),
    ("plain/x", "lies below 'plain', which is a file"),
    ("inner", "is a folder"),
    ("pipe", "is no regular file"),
    ("nested/x", "lies in 'nested', which is another repository"),
    ("build/x", "is ignored by git"),
]


def test_paths_that_must_not_be_written(site: ModelWorktree, tmp_path: Path) -> None:
    (site.root / "to").symlink_to(tmp_path)
    (site.root / "out").symlink_to(tmp_path / "mine")
    (site.root / "inner").mkdir()
    (site.root / "inner/link").symlink_to(".")
    (site.root / "plain").write_text("")
    (site.root / ".gitignore").write_text("build/\n")
    os.mkfifo(site.root / "pipe")
    Repo.init(site.root / "nested")
    (tmp_path / "mine").write_text("mine")
    for path, why in WHERE_NOT:
        assert why in refused(site, whole(path, "x"), whole("good.py", "x")), path
        if "ignored" not in why:
            assert why in refused(site, Change(path, delete=True)), path
            assert why in refused(site, Change(path, edits=(Edit(("x",), ()),))), path
    assert (tmp_path / "mine").read_text() == "mine"
    assert file_changes.apply([whole(":(glob)build/x", "x")], site.here) == [":(glob)build/x"]


DOES_NOT_GO = [
    ([Change("nothing.py", delete=True)], "'nothing.py' does not exist, so it cannot be deleted"),
    ([Change("nothing.py", edits=(Edit(("a",), ()),))], "so it cannot be edited: give a new file whole"),
    ([whole("long.py", "x")], "'long.py' has 401 lines: change it with an edit block"),
    ([whole("a.py", "x"), whole("./a.py", "y")], "'a.py' has more than one block"),
    ([whole("a", "x"), whole("a/b", "y")], "'a' cannot be both a file and a folder"),
    ([whole("a.py", "half \ud800")], "'a.py': the contents have half a character"),
    ([Change("long.py", edits=(Edit(("x",), ()),))], "'long.py': its search block matches 401 times"),
    (
        [Change("long.py", edits=(Edit(("y",), ()), Edit(("z",), ())))],
        "'long.py': search block 2 matches nothing",
    ),
]


def test_changes_that_do_not_fit_the_files_are_refused(site: ModelWorktree) -> None:
    (site.root / "long.py").write_text("x\n" * 401)
    for changes, why in DOES_NOT_GO:
        assert why in refused(site, whole("good.py", "x"), *changes), changes


def test_all_problems_are_told(site: ModelWorktree) -> None:
    said = refused(site, whole("../a", "x"), whole(".git/b", "x"), Change("c", delete=True))
    assert all(each in said for each in ("'../a'", "'.git/b'", "'c'"))


def test_a_disk_that_fails_in_the_middle(site: ModelWorktree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one.py", "two.py"):
        (site.root / name).write_text("before\n")
    changes = [whole("one.py", "x"), whole("new/three.py", "x"), Change("two.py", delete=True), whole("four.py", "x")]
    for failing in (1, 2, 3, 4, 5):
        left, real = [failing], os.rename

        def rename(source: str, target: str, left: list[int] = left, real: Callable[..., None] = real) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(28, "No space left on device")
            real(source, target)

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", rename)
            assert "it cannot be written: No space left on device" in refused(site, *changes)
    assert len(file_changes.apply(changes, site.here)) == 4


def test_a_folder_that_may_not_be_written(site: ModelWorktree, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.mkdir

    def mkdir(path: str, mode: int = 0o777) -> None:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert "Permission denied" in refused(site, whole("open/a.py", "x"), whole("open/closed/b.py", "x"))


def test_a_tracked_file_that_matches_an_ignore_pattern_can_be_changed(site: ModelWorktree) -> None:
    (site.root / "tracked").write_text("")
    site.here.repository.git("add", "tracked")
    (site.root / ".gitignore").write_text("*\n")
    assert file_changes.apply([whole("tracked", "x")], site.here) == ["tracked"]


def test_the_worktree_of_somebody_in_a_folder_with_quotes(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / 'it\'s a "place"')
    here = open_workspace(repo.path).context
    assert file_changes.apply([whole("a.py", "x")], here) == ["a.py"]
    assert (repo.path / "a.py").read_text() == "x\n"
