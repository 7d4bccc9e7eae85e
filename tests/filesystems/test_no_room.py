"""A full disk, and an exceeded quota: a command succeeds, or reports the error and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import filesystems
from tests.support.disk import fill_disk, mounted
from tests.support.filesystems import spelt
from tests.support.repo import Repo, filled
from tests.support.tool import run

_SIZE = 24  # MiB
_PAGE = 4096
_ROOMS = (0, 12, 48, 400)  # pages: from no write at all to all of them
# In our words, in SQLite's, or in git's, which do not always name the cause.
_SAID = {
    "full": re.compile("no space left|disk i/o error|out of diskspace|git [a-z-]+ failed", re.IGNORECASE),
    "quota": re.compile("quota|disk i/o error|no space left|git [a-z-]+ failed", re.IGNORECASE),
}
_COMMANDS = {
    "checkpoint": ["checkpoint"],
    "restore": ["restore", "latest", "--no-branch"],
    "log": ["log", "add", "action", "noted"],
    "create": ["worktree", "create", "dev-2"],
    "archive": ["worktree", "archive", "dev-1"],
    "merge": ["worktree", "merge", "dev-1"],
    "guard": ["guard", "enable"],
    "run": ["run", "start", "--id", "one", "--agent", "echo 1 >answer", "--validate", "test -s answer"],
}


@pytest.fixture(params=["full", "quota"])
def disk(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    with mounted(_SIZE) if request.param == "full" else filesystems.quota(_SIZE) as folder:
        yield request.param, folder


def _state(*repos: Repo) -> list[object]:
    return [
        (spelt(each), each.git("ls-files", "-s"), each.git("--no-optional-locks", "status", "--porcelain"))
        for each in repos
    ]


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize("name", _COMMANDS)
def test_a_command_without_room(disk: tuple[str, Path], name: str) -> None:
    kind, folder = disk
    main = filled(folder / "repo")
    assert run(main.path, "worktree", "create", "dev-1").code == 0
    dev = Repo(folder / "repo.worktrees/dev-1")
    dev.write("work", "committed\n")
    dev.commit("work")
    dev.write("notes", "untracked\n" * 1000)
    main.write("more", "untracked\n" * 1000)
    assert run(main.path, "checkpoint").code == 0
    main.write("more", "later\n" * 1000)
    before = _state(main, dev)
    branch, command = main.oid(), _COMMANDS[name]
    for pages in _ROOMS:
        filler = fill_disk(folder, pages * _PAGE)
        done = run(main.path, *command)
        filler.unlink()
        what = f"{pages} pages: {done}"
        assert done.code in (0, 1), what
        assert b"Traceback" not in done.err, what
        if done.code == 0:
            break
        assert _SAID[kind].search(done.err.decode()), what
        assert done.err.decode().count("error: ") == 1, what
        if name == "run" and (made := folder / "repo.worktrees/run-one").exists():
            assert b"nothing was changed" not in done.err, what
            assert f"the run has the worktree '{made}'" in done.err.decode(), what
        for words in (["recover"], ["worktree", "repair"]):
            assert run(main.path, *words).code == 0, what
        assert (_state(main, dev), main.oid()) == (before, branch), what
        if name == "run" and run(main.path, "--json", "run", "list").json["runs"]:  # it has begun, and is on record
            command = ["run", "resume", "one"]
    else:
        pytest.fail("the last room is meant to be large enough")
    assert run(main.path, "doctor").code == 0
    for repo in (main, dev) if dev.path.exists() else (main,):
        repo.git("fsck", "--strict")
