"""Running the tool one step at a time (see `injector`), and what must hold wherever it ended."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.support import at_rest
from tests.support.repo import Repo, git_run
from tests.support.sampling import EXHAUSTIVE, budget, evenly
from tests.support.state import State, complete_state, differences
from tests.support.tool import UNPRIVILEGED

CHILD = Path(__file__).with_name("injector.py")

_RESTORE_BRANCH = re.compile(r"refs/heads/restore/[0-9a-f]{8}/\d{8}T\d{6}Z(-\d+)?$")
# Names of what is being written, or is no more than a sign that something is under way.
_UNFINISHED = re.compile(r"^journal|^crash|\.(\d+|new|tmp|lock)$|tmp.*[0-9a-f]{8}")
# The places where being killed, or failing, has always been worst.
_WEIGHTY = re.compile(r"journal|last-restore|/index\b|/HEAD|refs/|_HEAD|rebase|sequencer|BISECT|sparse-checkout|kept/")


@dataclass(frozen=True)
class Ended:
    """How a command ended: `code` is negative for a signal; `steps` names the steps it made."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    steps: list[str]

    def __str__(self) -> str:
        last = self.steps[-1] if self.steps else "none"
        return (
            f"git agentos {' '.join(self.argv)} ended with {self.code} after {len(self.steps)} steps (last: {last})\n"
            f"stdout: {self.out}\nstderr: {self.err}"
        )


class Runner:
    """A server that has imported everything and runs command lines in forks of itself; `unprivileged`: modes bind it,
    even as root."""

    def __init__(self, *, unprivileged: bool = False) -> None:
        self._prefix = UNPRIVILEGED if unprivileged and os.geteuid() == 0 else []

    def __enter__(self) -> Runner:
        self._server = subprocess.Popen(
            [*self._prefix, sys.executable, str(CHILD), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(timeout=60)
        self._server.stdout.close()

    stdin = ""  # of each command

    def run(
        self, cwd: Path, *argv: str, step: int = 0, mode: str = "count", env: Mapping[str, str] | None = None
    ) -> Ended:
        """Run `git agentos ARGV` in `cwd`; at `step`, what `mode` says happens."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"cwd": str(cwd), "argv": argv, "step": step, "mode": mode, "stdin": self.stdin}
        request["env"] = {"PWD": str(cwd), **(env or {})}
        print(json.dumps(request), file=self._server.stdin, flush=True)
        answer = self._server.stdout.readline()
        assert answer, "the server ended"
        return Ended(argv=argv, **json.loads(answer))

    def run_ok(self, cwd: Path, *argv: str, env: Mapping[str, str] | None = None) -> Ended:
        done = self.run(cwd, *argv, env=env)
        assert done.code == 0, str(done)
        return done


@dataclass(frozen=True)
class FaultCase:
    """A command on a prepared repository: `before` and `after` are the complete states, `steps` those of a run to
    the end. Each attempt starts from a copy of `template` at the same place."""

    template: Path
    place: Path
    argv: tuple[str, ...]
    before: State
    after: State
    steps: list[str]

    @property
    def repo(self) -> Repo:
        return Repo(self.place)

    def fresh(self) -> Repo:
        at_rest.copy(self.template, self.place)
        return self.repo


def prepare(runner: Runner, repo: Repo, *argv: str) -> FaultCase:
    """Make a case of `repo` as it is now and a command; the command must succeed. The repository is used up."""
    template = repo.path.with_name(repo.path.name + ".template")
    at_rest.copy(repo.path, template)
    before = snapshot(repo)
    done = runner.run_ok(repo.path, *argv)
    after = snapshot(repo)
    return FaultCase(template, repo.path, argv, before, after, done.steps)


def sample_steps(case: FaultCase, most: int) -> Iterator[int]:
    """The steps to strike at: every one when exhaustive; else the weighty ones first, then evenly, up to `most`."""
    total, most = len(case.steps), budget(most)
    if EXHAUSTIVE or total <= most:
        yield from range(1, total + 1)
        return
    weighty = {n for n, step in enumerate(case.steps, 1) if _is_weighty(case, step)}
    if len(weighty) > most * 3 // 4:
        # The end, where the journal, the index and HEAD are, counts more than the locks of the save.
        weighty = set(sorted(weighty)[-(most * 3 // 4) :])
    others = [n for n in range(1, total + 1) if n not in weighty]
    yield from sorted(weighty | set(evenly(others, most - len(weighty))))


def _is_weighty(case: FaultCase, step: str) -> bool:
    """Whether a step concerns the journal, the index, HEAD, a ref or the operation in progress."""
    return _WEIGHTY.search(step.replace(str(case.place), "")) is not None and not step.startswith("subprocess")


def snapshot(repo: Repo, *, strict: bool = False) -> State:
    """The complete state; a restore branch is called by what it is, its name holds the time."""
    return _normal(complete_state(repo.path, strict=strict))


def _normal(state: State) -> State:
    head = state.head
    if head.branch is not None:
        head = dataclasses.replace(head, branch=_RESTORE_BRANCH.sub("refs/heads/restore", head.branch))
    refs: dict[str, str] = {}
    for name, oid in state.refs.items():
        plain = _RESTORE_BRANCH.sub("refs/heads/restore", name)
        while plain in refs:
            plain += "+"
        refs[plain] = oid
    nested = {path: _normal(inner) for path, inner in state.nested.items()}
    return dataclasses.replace(state, head=head, refs=refs, nested=nested)


def differing(wanted: State, found: State) -> list[str]:
    """What differs, refs and all permission bits included."""
    return differences(wanted, found, permissions="all", refs=True)


def assert_like(wanted: State, found: State, what: str) -> None:
    lines = differing(wanted, found)
    assert not lines, "\n  ".join([what, *lines[:30]])


def has_journal(repo: Repo) -> bool:
    return (repo.path / ".git/agentos/journal.json").exists()


def assert_sound(repo: Repo, what: str) -> None:
    """git finds nothing wrong, and nothing of ours lies about: no lock, no scratch file, no journal."""
    for git_dir in _git_dirs(repo.path):
        worktree = git_dir.parent
        checked = git_run(worktree, "fsck", "--strict", "--no-dangling", "--no-progress")
        assert checked.returncode == 0, f"{what}: git fsck: {checked.stderr.decode()}{checked.stdout.decode()}"
        left = [path for path in git_dir.rglob("*.lock") if "objects" not in path.parts]
        for folder in ("agentos/tmp", "agentos/locks"):
            left += (git_dir / folder).glob("*") if (git_dir / folder).is_dir() else []
        left += [path for path in (git_dir / "agentos").glob("*") if _UNFINISHED.search(path.name)]
        left += [path for path in git_dir.rglob("*.agentos-*") if "agentos" not in path.parts]
        assert not left, f"{what}: left behind: {', '.join(str(path) for path in left)}"


def _git_dirs(root: Path) -> Iterator[Path]:
    for path in root.rglob(".git"):
        if path.is_dir() and (path / "HEAD").exists() and "agentos" not in path.parts:
            yield path


def assert_works(runner: Runner, repo: Repo, what: str) -> None:
    """A checkpoint, a restore and an undo do what they always do."""
    before = snapshot(repo)
    runner.run_ok(repo.path, "checkpoint", "-m", "after the wreck")
    assert_like(before, snapshot(repo), f"{what}: a checkpoint changed something")
    repo.write("written-after-the-wreck.txt", "new\n")
    runner.run_ok(repo.path, "restore", "latest", "--no-branch")
    lines = differences(before, snapshot(repo), branch="ignore")
    assert not lines, "\n  ".join([f"{what}: a restore afterwards", *lines])
    runner.run_ok(repo.path, "undo")
    assert repo.read("written-after-the-wreck.txt") == b"new\n", what
    assert_sound(repo, f"{what}: then checkpoint, restore, undo")


def command_line(argv: Sequence[str]) -> str:
    return " ".join(argv)
