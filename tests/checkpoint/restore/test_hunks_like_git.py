"""`restore --patch` leaves the bytes that `git restore --patch` leaves after the same answers; `--hunks` does, too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from git_agentos import open_workspace
from tests.support.hunk_answers import by_git, by_tool
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE
from tests.support.state import index_entries

# Few different lines, so that a hunk fits in many places.
_LINES = st.sampled_from(
    [b"a\n", b"b\n", b"\n", b"}\n", b"c\r\n", b"\xff\xfe\n", b"- x\n", b"+ y\n", b"\\ z\n", b"@@ -1 +1 @@\n"]
)
_LAST = st.sampled_from([b"", b"", b"end", b"a", b"\r"])
_EDIT = st.tuples(st.integers(0, 60), st.integers(0, 3), st.lists(_LINES, max_size=3))
_ANSWERS = st.lists(st.sampled_from("yyynnnsssadq"), max_size=24)


@st.composite
def _versions(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """A file before and after, and whether its mode changes."""
    before = draw(st.lists(_LINES, max_size=50))
    after = list(before)
    for at, gone, lines in draw(st.lists(_EDIT, max_size=8)):
        after[at : at + gone] = lines
    return b"".join(before) + draw(_LAST), b"".join(after) + draw(_LAST), draw(st.booleans())


def _set_up(folder: Path, files: list[tuple[bytes, bytes, bool]], deleted: bool) -> tuple[Repo, str]:
    repo = Repo.init(folder)
    for n, (before, _, _) in enumerate(files):
        repo.write(b"f%d\xff" % n, before)
    repo.write("z-deleted", "one\ntwo\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "before")
    checkpoint = open_workspace(repo.path).checkpoint().id
    for n, (_, after, executable) in enumerate(files):
        repo.write(b"f%d\xff" % n, after, 0o755 if executable else 0o644)
    if deleted:
        repo.remove("z-deleted")
    return repo, checkpoint


def _files(repo: Repo) -> dict[bytes, tuple[bytes, int]]:
    names = sorted(os.listdir(repo.at("")))
    return {name: (repo.read(name), os.stat(repo.at(name)).st_mode) for name in names if name != b".git"}


_settings = settings(
    max_examples=400 if EXHAUSTIVE else 60,
    deadline=None,
    derandomize=not EXHAUSTIVE,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_settings
@given(files=st.lists(_versions(), min_size=1, max_size=3), deleted=st.booleans(), answers=_ANSWERS)
def test_the_same_answers(tmp_path: Path, files: list[tuple[bytes, bytes, bool]], deleted: bool, answers: str) -> None:
    shutil.rmtree(tmp_path)
    ours, checkpoint = _set_up(tmp_path / "ours", files, deleted)
    shutil.copytree(ours.path, tmp_path / "gits", symlinks=True)
    gits = Repo(tmp_path / "gits")
    before, index = _files(ours), index_entries(ours.path)
    by_git(gits, answers)
    planned, _ = by_tool(ours, checkpoint, answers, dry_run=True)
    assert _files(ours) == before
    done, _ = by_tool(ours, checkpoint, answers)
    assert _files(ours) == _files(gits)
    assert (planned.changed, planned.removed) == (done.changed, done.removed)
    assert index_entries(ours.path) == index
    if done.saved is not None:
        open_workspace(ours.path).undo()
    assert _files(ours) == before


@_settings
@given(files=st.lists(_versions(), min_size=1, max_size=2), chosen=st.lists(st.booleans(), min_size=30, max_size=30))
def test_numbers_are_the_hunks_that_are_answered(
    tmp_path: Path, files: list[tuple[bytes, bytes, bool]], chosen: list[bool]
) -> None:
    shutil.rmtree(tmp_path)
    ours, checkpoint = _set_up(tmp_path / "ours", files, deleted=True)
    shutil.copytree(ours.path, tmp_path / "gits", symlinks=True)
    numbered = [
        (each.path, hunk.number) for each in open_workspace(ours.path).diff(checkpoint).files for hunk in each.hunks
    ]
    answers = dict(zip(numbered, [*chosen, *[False] * len(numbered)], strict=False))
    by_git(Repo(tmp_path / "gits"), ["y" if each else "n" for each in answers.values()])
    specs = [f"{path}:{number}" for (path, number), answer in answers.items() if answer]
    if specs:
        open_workspace(ours.path).restore(checkpoint, hunks=specs)
    assert _files(ours) == _files(Repo(tmp_path / "gits"))
