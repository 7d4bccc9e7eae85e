"""One damaged file stops nothing else: every file that we write below a git directory, damaged in every way.

Each command answers with 0, 1 or 4 and a sentence, never with a traceback; worktrees whose files are whole work as
always. By default a sample of the table is run, by the soak all of it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import at_rest, run_notes
from tests.support.faults.server import Ended, Runner
from tests.support.repo import Repo, filled
from tests.support.sampling import is_sampled

# In the main worktree: what only looks comes first, so that it meets the damage before anything mends it.
_IN_MAIN: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("worktree", "list"),
    ("worktree", "show", "dev-1"),
    ("worktree", "conflicts"),
    ("worktree", "merge", "dev-3", "--dry-run"),
    ("checkpoint", "list"),
    ("checkpoint", "list", "--all"),
    ("checkpoint", "show", "latest"),
    ("run", "list"),
    ("run", "show", "passed-1"),
    ("run", "logs", "passed-1"),
    ("run", "diff", "passed-1"),
    ("run", "verify", "passed-1"),
    ("run", "show", "killed-1"),
    ("rollback", "passed-1", "--dry-run"),
    ("log", "list", "--all"),
    ("log", "timeline", "dev-1"),
    ("memory", "list"),
    ("approvals", "list", "--all"),
    ("guard", "status", "dev-1"),
    ("hooks", "status"),
    ("db", "path"),
    ("restore", "latest", "--dry-run"),
    ("doctor",),
    ("checkpoint", "-m", "beside the damage"),
    ("log", "add", "action", "beside the damage"),
    ("worktree", "create", "new-1"),
    ("run", "resume", "killed-1"),
    ("recover",),
    ("worktree", "repair"),
    ("doctor", "--fix"),
    ("worktree", "list"),
    ("worktree", "remove", "new-1"),
    ("worktree", "archive", "dev-1"),
    ("worktree", "create", "old-1", "--revive"),
)
# In a worktree whose own files are whole.
_IN_SOUND: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("checkpoint", "-m", "beside the damage"),
    ("checkpoint", "list"),
    ("restore", "latest", "--dry-run"),
    ("log", "add", "action", "beside the damage"),
    ("log", "list"),
)
# In the worktree that the damage is in.
_IN_DAMAGED: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("doctor",),
    ("checkpoint", "-m", "in the damage"),
    ("checkpoint", "list"),
    ("log", "add", "action", "in the damage"),
    ("log", "list"),
    ("restore", "latest"),
    ("undo",),
    ("recover",),
)
_WORKTREES = ("dev-1", "dev-2", "dev-3")
# A file of each kind is enough.
_LEFT_OUT = re.compile(r"/guard/hooks/(?!fsmonitor$|guard\.sh$|pre-commit$)|\.turn$|/locks/|/tmp/|\.db\.lock$")


@dataclass(frozen=True)
class Site:
    """A repository with one of everything in it; each case is a fresh copy of `template` at `place`."""

    runner: Runner
    template: Path
    place: Path
    put_notes_back: Callable[[], None]

    def files(self) -> list[str]:
        """Every file of ours, and those of git's in a linked worktree's git directory, relative to the place."""
        found = []
        for folder, _, names in os.walk(self.template):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.template)
                if "objects/" not in path and not _LEFT_OUT.search(path) and _is_of_interest(path):
                    found.append(path)
        return sorted(found)

    def fresh(self) -> None:
        at_rest.copy(self.template, self.place)
        self.put_notes_back()


def _is_of_interest(path: str) -> bool:
    in_worktree_dir = re.search(r"\.git/worktrees/[^/]+/(HEAD|index|gitdir|commondir|config\.worktree)$", path)
    return "agentos/" in path.replace("refs/heads/agentos", "") or in_worktree_dir is not None


def _half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


_DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": _half,
    "folder": _instead(lambda path: path.mkdir()),
    "full-folder": _instead(lambda path: (path / "in" / "it").mkdir(parents=True)),
    "dangling-link": _instead(lambda path: path.symlink_to("nowhere")),
    "link": _instead(lambda path: path.symlink_to("/etc/passwd")),
    "null": lambda path: path.write_bytes(b"null\n"),
    "list": lambda path: path.write_bytes(b"[]\n"),
    "zeros": lambda path: path.write_bytes(bytes(10 << 20)),
    "pipe": _instead(os.mkfifo),
    "unreadable": lambda path: path.chmod(0),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("damage") / "site"
    place.mkdir()
    with Runner(unprivileged=True) as runner:
        _build(runner, filled(place / "repo"))
        template = place.with_name("template")
        place.rename(template)
        yield Site(runner, template, place, run_notes.remember())


def _build(runner: Runner, repo: Repo) -> None:
    """Checkpoints, worktrees, runs, requests, an archive; a restore, a run and a create that were killed."""
    for name in (*_WORKTREES, "old-1"):
        runner.run_ok(repo.path, "worktree", "create", name)
        inside = repo.path.parent / "repo.worktrees" / name
        (inside / "new.txt").write_bytes(b"new\n")
        (inside / "large.bin").write_bytes(bytes(1 << 20))
        runner.run_ok(inside, "checkpoint", "-m", "first")
        runner.run_ok(inside, "log", "add", "decision", "a decision")
        (inside / "new.txt").write_bytes(b"newer\n")
        runner.run_ok(inside, "checkpoint", "-m", "second")
    runner.run_ok(repo.path, "worktree", "archive", "old-1")
    runner.run_ok(repo.path, "checkpoint", "-m", "first")
    restored = repo.path.parent / "repo.worktrees" / "dev-2"
    runner.run_ok(restored, "restore", "@{1}", "--no-branch")
    (restored / "new.txt").write_bytes(b"newest\n")
    _kill(runner, restored, "rename", "restore", "latest", "--no-branch")
    repo.git("commit", "-q", "--allow-empty", "-m", "later")
    asked = runner.run(repo.path.parent / "repo.worktrees/dev-1", "guard", "exec", "--", "git", "merge", "main")
    assert asked.code != 0, str(asked)
    runner.run_ok(repo.path, "run", "start", "--id", "passed-1", "--agent", "echo x >new.txt", "--validate", "true")
    _kill(runner, repo.path, "002-", "run", "start", "--id", "killed-1", "--agent", "echo x >y", "--validate", "true")
    _kill(runner, repo.path, "worktrees/half-1", "worktree", "create", "half-1")


def _kill(runner: Runner, cwd: Path, step: str, *argv: str) -> None:
    """Kill a command at the first step whose name has `step` in it, counted on a copy."""
    root = cwd
    while root.name != "site":
        root = root.parent
    copy = root.with_name("copy")
    at_rest.copy(root, copy)
    put_notes_back = run_notes.remember()
    steps = runner.run(cwd, *argv).steps
    put_notes_back()
    shutil.rmtree(root)
    copy.rename(root)
    number = next(n for n, name in enumerate(steps, 1) if step in name)
    assert runner.run(cwd, *argv, step=number, mode="kill").code == -9


def _is_worktrees_own(path: str) -> str | None:
    """The worktree whose own file it is."""
    found = re.search(r"repo(?:/\.git/worktrees|\.worktrees)/([^/]+)/|refs/agentos/timelines/([^/]+)$", path)
    return None if found is None else found.group(1) or found.group(2)


def _answers(done: Ended) -> str | None:
    """What is wrong with how a command ended; None where nothing is."""
    talk = done.out + done.err
    if done.code not in (0, 1, 4):
        return f"exit code {done.code}: {talk[-2000:]}"
    if "Traceback" in talk:
        return talk[-2000:]
    if done.code and not talk.strip():
        return f"exit code {done.code} without a word"
    return None


def _run(site: Site, cwd: str, commands: Sequence[tuple[str, ...]], *, sound: bool = False) -> Iterator[str]:
    for argv in commands:
        done = site.runner.run(site.place / cwd, *argv)
        wrong = _answers(done)
        if wrong is None and sound and done.code:
            wrong = f"exit code {done.code} in a sound worktree: {(done.out + done.err)[-1000:]}"
        if wrong is not None:
            yield f"in {cwd}: git agentos {' '.join(argv)}: {wrong}"


@pytest.mark.parametrize("damage", _DAMAGES)
def test_damaged_file_stops_nothing_else(site: Site, damage: str) -> None:
    wrong: list[str] = []
    for number, path in enumerate(site.files()):
        if not is_sampled(number, list(_DAMAGES).index(damage), one_in=144):
            continue
        site.fresh()
        _DAMAGES[damage](site.place / path)
        owner = _is_worktrees_own(path)
        found: list[str] = []
        sound = "dev-3" if owner != "dev-3" else "dev-1"
        if owner is not None:
            found += _run(site, f"repo.worktrees/{sound}", _IN_SOUND, sound=True)
        if owner in _WORKTREES and (site.place / "repo.worktrees" / owner).is_dir():
            found += _run(site, f"repo.worktrees/{owner}", _IN_DAMAGED)
            site.fresh()
            _DAMAGES[damage](site.place / path)
        found += _run(site, "repo", _IN_MAIN)
        wrong += [f"{path} {damage}: {each}" for each in found]
    assert not wrong, "\n\n".join([f"{len(wrong)} wrong answers", *wrong])
