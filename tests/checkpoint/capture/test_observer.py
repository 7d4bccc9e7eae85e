"""Very many untracked files, or a repository in the home folder: the folder to ignore is named, progress is shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from git_agentos import open_repository, open_workspace
from git_agentos.checkpoint.capture.observer import CaptureObserver, largest_folder
from git_agentos.errors import AgentosWarning
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.terminal import at_terminal
from tests.support.tool import run, run_ok


def _fill(repo: Repo, folder: str, number: int) -> None:
    for n in range(number):
        repo.write(f"{folder}/{n % 3}/{n}.js" if folder else f"{n}.js", "x\n")


def _warnings(repo: Repo, *args: str, env: Mapping[str, str] | None = None) -> list[str]:
    done = run(repo.path, *args, "checkpoint", env=env)
    assert done.code == 0, str(done)
    return [line for line in done.err.decode().splitlines() if "untracked" in line]


def test_more_than_the_limit_is_a_warning_that_names_the_folder(repo: Repo) -> None:
    repo.config("agentos.maxUntracked", "20")
    _fill(repo, "src/node_modules", 12)
    _fill(repo, "docs/built", 8)
    assert _warnings(repo) == []
    repo.write("one-more.txt", "x\n")
    before = complete_state(repo.path)
    words = (
        "warning: checkpoints hold 21 untracked files, 12 of them in 'src/node_modules/'; if these are no work,"
        " list 'src/node_modules/' in .gitignore (agentos.maxUntracked = 0: no such warning)"
    )
    assert _warnings(repo) == [words]
    assert _warnings(repo, "--json") == [words]
    assert _warnings(repo, "-q") == [words]
    with pytest.warns(AgentosWarning, match="src/node_modules"):
        saved = open_repository(repo.path).checkpoints.create("all of it is saved")
    assert len(saved.untracked) == 21
    assert_same(before, complete_state(repo.path), "a checkpoint with a warning")
    repo.config("agentos.maxUntracked", "0")
    assert _warnings(repo) == []


def test_what_the_warning_asks_for_ends_it(repo: Repo) -> None:
    repo.config("agentos.maxUntracked", "5")
    _fill(repo, "build", 10)
    [warning] = _warnings(repo)
    assert "list 'build/' in .gitignore" in warning
    repo.write(".gitignore", "build/\n")
    assert _warnings(repo) == []


def test_automatic_checkpoints_do_not_warn(repo: Repo) -> None:
    """Hooks and the daemon would say it all the time."""
    repo.config("agentos.maxUntracked", "5")
    repo.write("safe.txt", "x\n")
    run_ok(repo.path, "worktree", "create", "dev-001")
    dev = Repo(repo.path.parent / "repo.worktrees/dev-001")
    _fill(dev, "build", 10)
    done = run(repo.path, "worktree", "archive", "dev-001")
    assert done.code == 0
    assert b"agentos.maxUntracked" not in done.err


@pytest.mark.parametrize("spelling", ["", "/../repo/", "link"])
def test_a_repository_in_the_home_folder(repo: Repo, spelling: str) -> None:
    home = str(repo.path) + spelling
    if spelling == "link":
        home = str(repo.scratch / "link")
        os.symlink(repo.path, home)
    assert _warnings(repo, env={"HOME": home}) == []
    _fill(repo, ".cache", 2)
    repo.write("letter.txt", "x\n")
    [warning] = _warnings(repo, env={"HOME": home})
    assert warning.startswith(
        "warning: the repository is in your home folder: checkpoints hold 3 untracked files, 2 of"
    )
    assert "in '.cache/'; if these are no work, list '.cache/' in .gitignore" in warning
    assert _warnings(repo, env={"HOME": str(repo.path.parent)}) == []
    repo.config("agentos.maxUntracked", "0")
    assert _warnings(repo, env={"HOME": home}) == []


def test_a_repository_at_the_top_of_the_file_system(repo: Repo) -> None:
    class AtTop:
        location = repo_location = open_workspace(repo.path).context.location._replace(root=os.sep)

        def commit_tree(self, oid: str | None) -> str:
            return open_workspace(repo.path).context.repository.commit_tree(oid)

        def entries(self, oid: str) -> object:
            return open_workspace(repo.path).context.repository.entries(oid)

    with pytest.warns(AgentosWarning, match="the repository is in the top of the file system: .* 1 of them in 'srv/'"):
        CaptureObserver(50_000, "/home/ada").scanned(AtTop(), repo.oid(), [b"srv/x"])  # type: ignore[arg-type]


def test_a_bad_value_prevents_no_checkpoint(repo: Repo) -> None:
    repo.config("agentos.maxUntracked", "lots")
    repo.write("new.txt", "x\n")
    done = run(repo.path, "checkpoint")
    assert done.code == 0
    assert b"warning: bad value 'lots' for 'agentos.maxUntracked'" in done.err


@pytest.mark.parametrize(
    ("paths", "folder", "number"),
    [
        (["a"], "", 1),
        (["a", "b", "x/c"], "", 2),
        (["x/y/1", "x/y/2", "z/1"], "x", 2),  # the highest one that has no committed file
        (["src/new/1", "src/new/2", "src/1"], "src/new", 2),
        (["src/1", "src/2", "src/new/1"], "src", 2),
        (["src/lib/deep/er/1", "src/lib/deep/er/2"], "src/lib/deep", 2),
        (["docs.d/1", "docs.d/2", "docs/1"], "docs.d", 2),
        (["web/index.js", *(f"web/node_modules/{n}/x.js" for n in range(20))], "web/node_modules", 20),
        ([f"web/node_modules/{n}/x.js" for n in range(20)], "web", 20),
        (["web/a.js", "web/b.js", *(f"web/lib/{n}.js" for n in range(8))], "web", 10),
    ],
)
def test_the_largest_folder(repo: Repo, paths: list[str], folder: str, number: int) -> None:
    repository = open_workspace(repo.path).context.repository
    found = largest_folder(repository, repository.commit_tree(repo.oid()), [each.encode() for each in paths])
    assert found == (folder.encode(), number)


def test_a_name_that_is_not_utf_8(repo: Repo) -> None:
    repo.config("agentos.maxUntracked", "1")
    for n in range(3):
        repo.write(b"odd\xff\n/%d" % n, "x\n")
    done = run(repo.path, "checkpoint")
    assert done.code == 0
    assert b"odd\\377\\n/" in done.err
    assert b"\xff" not in done.err


def test_files_that_git_converts(repo: Repo) -> None:
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.config("filter.slow.clean", "cat")
    repo.write("new.slow", "x\n")
    assert "Filtering content" in at_terminal(repo.path, "checkpoint").phases


def test_a_pipe_among_the_files_is_not_waited_for(repo: Repo) -> None:
    repo.config("agentos.maxUntracked", "3")
    _fill(repo, "many", 5)
    os.mkfifo(Path(os.fsdecode(repo.at("many/pipe"))))
    assert len(_warnings(repo)) == 1
