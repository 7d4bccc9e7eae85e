"""The law behind the table: what is allowed loses nothing that is not saved first.

Commands of the table are run by git in a copy of the field. Whatever the worktree and the index held, every commit and
every entry of the stash must be somewhere after it: in a file, in the index, or reachable from a ref. Where it is not,
the judgement must have said what has to be saved; and what is said to be savable must be all that was lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.policy import subcommands
from tests.support.guard import policy_repository
from tests.support.guard.table import AGENT, ROWS, Row, call_of
from tests.support.repo import Repo, blob_id, git, git_run
from tests.support.sampling import EXHAUSTIVE

# Not run: what only a shell could finish, our own commands, the network, and what waits for somebody.
_LEFT_OUT = ("␀", "agentos", "https://", "help", "<", "bisect view", "vim", "nano", "code", "-p", "--patch", "-i")
# Of each family's spellings, which come to the same, one, or with `make soak` some.
_OF_EACH = 3 if EXHAUSTIVE else 1


def chosen() -> list[Row]:
    counts: Counter[tuple[frozenset[str], str]] = Counter()
    found = []
    for row in ROWS:
        words = row.command.split()
        # `git-NAME` is not on everybody's PATH.
        if (
            row.command.startswith("git-")
            or any(word in row.command for word in _LEFT_OUT[:-3])
            or any(word in words for word in _LEFT_OUT[-3:])
        ):
            continue
        if any(subcommands.only_reads(word, ()) for word in words):
            continue
        kind = (row.operations, next((word for word in words if subcommands.is_known(word)), ""))
        counts[kind] += 1
        if counts[kind] <= _OF_EACH:
            found.append(row)
    return found


RUN = chosen()


class Held(NamedTuple):
    """What a worktree holds: contents of files, by their blob's id, and where ignored ones are; commits."""

    files: dict[str, bytes]
    staged: set[str]
    commits: set[str]


def files(folder: Path) -> dict[str, bytes]:
    """The id of each file's content -> a path of it, relative to the folder."""
    found = {}
    top = os.fsencode(folder)
    for where, folders, names in os.walk(top):
        if b".git" in folders:
            folders.remove(b".git")
        for name in names:
            path = os.path.join(where, name)
            if name != b".git":
                data = os.fsencode(os.readlink(path)) if os.path.islink(path) else Path(os.fsdecode(path)).read_bytes()
                found[blob_id(data)] = os.path.relpath(path, top)
    return found


def held(repo: Repo) -> Held:
    staged = {line.split()[1].decode() for line in repo.git("ls-files", "-s", "-z").split(b"\0") if line}
    stashes = git_run(repo.path, "rev-list", "--walk-reflogs", "refs/stash").stdout.decode().split()
    return Held(files(repo.path), staged, set(repo.git("rev-list", "--all", *head(repo), *stashes).decode().split()))


def head(repo: Repo) -> list[str]:
    """HEAD, where it is born."""
    return ["HEAD"] if repo.try_git("rev-parse", "--verify", "--quiet", "HEAD") == 0 else []


def reachable(repo: Repo) -> set[str]:
    """Every object that a ref or HEAD reaches."""
    out = repo.git("rev-list", "--objects", "--all", *head(repo))
    return {line.split(b" ")[0].decode() for line in out.splitlines()}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("law")
    policy_repository.build(folder)
    return folder


@pytest.mark.sampled(one_in=2)
@pytest.mark.slow
@pytest.mark.parametrize("row", RUN, ids=lambda row: f"{row.decision}: {row.command}"[:90])
def test_every_loss_is_saved_first(row: Row, original: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(original, folder, symlinks=True)
    repo = Repo(folder / "repo")
    asked = call_of(row.command, repo.path)
    before = held(repo)
    judged = assess_git(asked, AGENT)
    if row.decision != "allow" and not judged.fully_saved:
        return  # stopped, or let through by somebody who knows
    subprocess.run(
        asked.argv,
        cwd=repo.path,
        env=dict(asked.environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )

    after = held(repo)
    there = after.files.keys() | after.staged | reachable(repo)
    for line in git(repo.path, "worktree", "list", "--porcelain").decode().splitlines():
        if line.startswith("worktree ") and os.path.isdir(line[9:]):
            there |= files(Path(line[9:])).keys()
    lost = {oid for oid in before.files.keys() | before.staged if oid not in there}
    gone = before.commits - after.commits
    if judged.save is None:
        assert (lost, gone) == (set(), set())
        return
    # A checkpoint holds all but ignored files, and commits that nothing keeps.
    ignored = {path for oid, path in before.files.items() if oid in lost and path.startswith(b"cache/")}
    assert judged.save.everything_ignored or ignored <= judged.save.ignored
    tips = judged.save.commits
    kept = set(repo.git("rev-list", *tips).decode().split()) if tips else set()
    assert gone <= kept
