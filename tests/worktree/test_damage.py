"""One damaged file of a worktree: it is named, mended, and in nobody's way.

`tests/crash/test_damage.py` looks at what every command answers; here it is what becomes of the worktree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import worktrees
from git_agentos.worktree import agent_merge, conflicts, creation, journal, pool, pool_filling, repair, status
from tests.support.repo import Repo, filled
from tests.support.state import complete_state, differences
from tests.support.tool import run
from tests.support.waiting import wait_until

ENTRY = "repo/.git/worktrees/dev-001"
FILES = {
    "HEAD": f"{ENTRY}/HEAD",
    "index": f"{ENTRY}/index",
    "gitdir": f"{ENTRY}/gitdir",
    "commondir": f"{ENTRY}/commondir",
    "id": f"{ENTRY}/agentos/id",
    "record": f"{ENTRY}/agentos/worktree.json",
    "git file": "repo.worktrees/dev-001/.git",
    "intent": "repo/.git/agentos/worktrees/dev-001.json",
}


def _half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "half": _half,
    "folder": _instead(lambda path: path.mkdir()),
    "full folder": _instead(lambda path: (path / "in/it").mkdir(parents=True)),
    "dangling link": _instead(lambda path: path.symlink_to("nowhere")),
    "link": _instead(lambda path: path.symlink_to("/etc/passwd")),
    "pipe": _instead(os.mkfifo),
    "null": lambda path: path.write_bytes(b"null\n"),
    "list": lambda path: path.write_bytes(b"[]\n"),
    "number": lambda path: path.write_bytes(b'{"id": 7, "operation": 7, "fields": 7, "branch": null}\n'),
    "zeros": lambda path: path.write_bytes(bytes(10 << 20)),
}


def context(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two worktrees with a checkpoint and changes each, and an archive that was killed before it did anything."""
    place = tmp_path_factory.mktemp("damage") / "place"
    repo = filled(place / "repo")
    for id_ in ("dev-001", "dev-002"):
        there = Repo(Path(str(creation.create(context(repo), id_, guard=False).path)))
        there.write("committed.txt", f"of {id_}\n")
        there.commit("work")
        there.write("staged.txt", "staged\n")
        there.add("staged.txt")
        there.append("notes.txt", "edited\n")
        open_workspace(there.path).checkpoint("saved")
    with worktrees.lock(context(repo).location):
        journal.release(journal.start(context(repo).location, "dev-001", "archive"))
    place.rename(place.with_name("template"))
    return place


@pytest.fixture
def repo(template: Path) -> Iterator[Repo]:
    subprocess.run(["cp", "-a", str(template.with_name("template")), str(template)], check=True)
    yield Repo(template / "repo")
    _wait_for_deletions(template)
    shutil.rmtree(template)


def _wait_for_deletions(place: Path) -> None:
    """Until no process in the background deletes below `place`, where the next test has its repository."""
    wait_until(lambda: not _is_named_by_others(os.fsencode(f"{place}/")), f"nothing deletes below {place}")


def _is_named_by_others(place: bytes) -> bool:
    return any(place in _command_line(each) for each in Path("/proc").glob("[0-9]*") if each.name != _SELF)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


_SELF = str(os.getpid())


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_mended(repo: Repo, file: str, damage: str) -> None:
    place = repo.path.parent
    there, other = (Repo(place / "repo.worktrees" / id_) for id_ in ("dev-001", "dev-002"))
    before = complete_state(there.path)
    passwd = Path("/etc/passwd").read_bytes()
    if file != "intent":
        journal.remove(journal.find_all(context(repo).location)[0]._replace(owner=-1))
    DAMAGES[damage](place / FILES[file])

    # In nobody's way.
    listed = {each.id: each.state for each in status.list_worktrees(context(repo)).worktrees}
    assert listed.keys() == {"dev-001", "dev-002"}
    assert listed["dev-002"] == "active"
    assert agent_merge.merge(context(repo), ["dev-002"], dry_run=True).merged
    compared = conflicts.conflicts(context(repo))
    assert {*(each.id for each in compared.agents), *(each.id for each in compared.left_out)} == {"dev-001", "dev-002"}
    open_workspace(other.path).checkpoint("beside the damage")

    # Named, and mended.
    named = {each.id for each in repair.examine(context(repo))}
    assert named == ({"dev-001"} if (file, damage) != ("intent", "gone") else set())
    creation.create(context(repo), "dev-003", guard=False)
    found = repair.repair(context(repo)).findings
    assert all(each.fixed for each in found), found
    assert {each.id for each in found} <= {"dev-001"}
    assert repair.repair(context(repo)).findings == []
    assert not differences(before, complete_state(there.path), permissions="all")
    assert status.show(context(repo), "dev-001").state == "active"
    assert (repo.path / ".git/worktrees/dev-001/agentos/id").read_text() == "dev-001\n"
    assert Path("/etc/passwd").read_bytes() == passwd
    if damage in ("zeros", "full folder", "list"):
        assert list((repo.path / ".git/agentos/damaged").iterdir()), "what stood there is kept"


@pytest.mark.parametrize("file", ["HEAD", "index", "record", "intent"])
def test_unreadable_file_is_reported(repo: Repo, file: str) -> None:
    """A mode keeps us out: other worktrees work, and nobody meets a traceback."""
    (repo.path.parent / FILES[file]).chmod(0)
    for argv in (("worktree", "list"), ("worktree", "conflicts"), ("doctor",), ("worktree", "repair")):
        done = run(repo.path, *argv, unprivileged=True)
        assert done.code in (0, 1), str(done)
        assert b"Traceback" not in done.err
        assert argv[1:] != ("list",) or b"dev-002  active" in done.out


@pytest.mark.parametrize("damage", ["emptied", "list", "null", "zeros", "folder", "link"])
def test_a_damaged_mark_of_a_prepared_worktree(repo: Repo, damage: str) -> None:
    repo.config("agentos.pool", "1")
    assert pool_filling.fill(context(repo)) == 1
    [prepared] = pool.prepared(context(repo).location)
    DAMAGES[damage](Path(prepared.git_dir) / "agentos/pool.json")
    assert pool.prepared(context(repo).location) == []
    assert pool_filling.fill(context(repo)) == 1
    repo.config("agentos.pool", "0")  # nothing goes on in the background
    assert creation.create(context(repo), "dev-004", guard=False).state == "active"
    assert [each.id for each in status.list_worktrees(context(repo)).worktrees] == ["dev-001", "dev-002", "dev-004"]


@pytest.mark.parametrize("damage", ["emptied", "list", "folder", "link", "zeros"])
def test_a_damaged_mark_in_the_trash(repo: Repo, damage: str) -> None:
    """What lies there is deleted, and nothing else."""
    entry = repo.path / ".git/agentos/trash/dev-009-abcd"
    (entry / "agentos").mkdir(parents=True)
    (entry / "agentos/trashed").write_text(str(repo.path.parent / "repo.worktrees/.agentos-trash/dev-009-abcd") + "\n")
    DAMAGES[damage](entry / "agentos/trashed")
    (entry.with_name("linked")).symlink_to(repo.path / "src")
    (entry.with_name("a file")).write_text("a file\n")
    found = {each.code: each.fixed for each in repair.repair(context(repo)).findings}
    assert found == {"interrupted": True, "trash": True}
    assert repo.read("src/app.py") == b"print('app')\n"


def test_a_journal_whose_fields_are_missing_removes_nothing(repo: Repo, tmp_path: Path) -> None:
    """A record of a creation names a folder that is to be removed: only one that it can have made."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "work.txt").write_text("work\n")
    fields = '{"path": %s, "entries": [], "branch": null, "timeline": null, "worktree_config": false, "parents": []}'
    folder = repo.path / ".git/agentos/worktrees"
    for number, path in enumerate(("null", f'"{repo.path.parent}"', f'"{repo.path}"', '"src"')):
        body = f'{{"version": 1, "id": "dev-1{number}", "operation": "create", "fields": {fields % path}}}'
        (folder / f"dev-1{number}.json").write_text(body)
    (folder / "dev-20.json").write_text('{"id": "dev-20", "operation": "remove", "fields": {"git_dir": "/"}}')
    (folder / "dev-21.json").write_text('{"id": "dev-21", "operation": "merge", "fields": {}}')
    (folder / "dev-22.json").write_text('{"id": "dev-22", "operation": "unheard of", "fields": {}}')
    found = repair.repair(context(repo)).findings
    assert {each.id for each in found if not each.fixed} >= {"dev-11", "dev-12", "dev-13", "dev-20", "dev-21", "dev-22"}
    assert repo.read("src/app.py") == b"print('app')\n"
    assert (precious / "work.txt").exists()
    assert status.show(context(repo), "dev-002").state == "active"
