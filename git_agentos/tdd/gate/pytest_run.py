"""One run of pytest in a process group of its own, and what it left.

pytest is started as the project would (`python -m pytest`, in the worktree), with three differences: it is imported
before anything of the worktree can stand in for it; `evidence_plugin` is loaded; and what it writes beside its output
goes elsewhere (`desk`).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from git_agentos.errors import RepositoryError, UnsupportedRepository
from git_agentos.process import contained
from git_agentos.process.contained import Command
from git_agentos.tdd.gate import bounded, run_folder
from git_agentos.tdd.gate import setup as grounds
from git_agentos.tdd.gate.cases import Case
from git_agentos.tdd.gate.run_folder import Desk
from git_agentos.tdd.gate.setup import Ground, Site
from git_agentos.tdd.state import TIMED_OUT


@dataclass(frozen=True)
class Tested:
    """What came of it: `exit_code` is the process's (128 + N for signal N, `state.TIMED_OUT` where it took too long);
    `output` what it said, redacted and bounded; `cases` None where no report was written. `plugins` are the names of
    what was registered with pytest, `foreign` the files of modules that were imported from the main checkout, `own`
    those of modules of the worktree (relative), `left_behind` how many processes had to be ended. `canary` is the node
    id of the test that has to fail, where there was one."""

    exit_code: int
    seconds: float
    output: str
    cases: tuple[Case, ...] | None
    plugins: tuple[str, ...]
    foreign: tuple[str, ...]
    command: tuple[str, ...]
    interrupted: bool = False
    left_behind: int = 0
    canary: str | None = None
    own: tuple[str, ...] = ()


def run(
    ground: Ground,
    tests: Sequence[str],
    *,
    canary: bool = False,
    output: str | None = None,
    show: Callable[[bytes], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Tested:
    """Run pytest on `tests` (node ids, files, folders; none: what the project's configuration says). `output` is the
    path of a file that everything said is written to, bounded. With `canary`, a test that has to fail is run beside
    them: an exit code of 0 is then a lie."""
    return _run(grounds.site(ground), tests, canary=canary, output=output, show=show, stop=stop)


def run_pytest_subprocess(worktree_path: str, timeout: float = 300) -> tuple[int, str]:
    """Run the tests of the worktree at `worktree_path`: pytest's exit code (128 + N for signal N, -1 where it took
    longer than `timeout` seconds), and what it said. For tools that want nothing else."""
    mark = uuid.uuid4().hex
    try:
        from git_agentos.workspace import open_workspace

        here = open_workspace(worktree_path).context
    except (RepositoryError, UnsupportedRepository):
        folder = os.path.realpath(worktree_path)
        if not os.path.isdir(folder):
            raise
        site = grounds.of_folder(folder, os.environ, timeout=timeout, mark=mark)
    else:
        site = grounds.site(grounds.of(here, os.environ, timeout=timeout, mark=mark))
    tested = _run(site, ())
    return tested.exit_code, tested.output


def _run(
    site: Site,
    tests: Sequence[str],
    *,
    canary: bool = False,
    output: str | None = None,
    show: Callable[[bytes], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Tested:
    with run_folder.folder() as folder:
        laid = Desk.lay(folder, site, canary=canary)
        command = laid.command(site, tests)
        with _said(output) as said:
            words = contained.shell(f"exec 2>&1; exec {shlex.join([*laid.wrapped(site), *command])}")
            test_run = Command(words, site.location.root, laid.environment(site), site.timeout)
            file = cast(BinaryIO, said)
            ended = contained.run(test_run, file, file, show=show, stop=stop)
            if ended.timed_out:
                said.write(b"\n[git-agentos: ended after %g seconds]\n" % site.timeout)
            text = said.text()
        evidence = laid.evidence()
        return Tested(
            TIMED_OUT if ended.timed_out else ended.exit_code,
            ended.seconds,
            text,
            laid.cases(evidence),
            _all(evidence, "plugins"),
            _all(evidence, "foreign"),
            tuple(command),
            ended.interrupted,
            ended.left_behind,
            f"::{laid.canary}" if laid.canary else None,
            _all(evidence, "own"),
        )


@contextlib.contextmanager
def _said(path: str | None) -> Iterator[bounded.Bounded]:
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "wb")) if path is not None else None
        yield stack.enter_context(bounded.Bounded(file))


def _all(evidence: Sequence[Mapping[str, Any]], key: str) -> tuple[str, ...]:
    lists = [each[key] for each in evidence if isinstance(each.get(key), list)]
    return tuple(sorted({item for found in lists for item in found if isinstance(item, str)}))
