"""One run of pytest in a process group of its own, and what it left.

pytest is started as the project would (`python -m pytest`, in the worktree), with three differences: it is imported
before anything of the worktree can stand in for it; `evidence_plugin` is loaded; and what it writes beside its output
(report, cache, coverage, temporary folders) goes into a folder that is removed afterwards. The report counts only if the plugin has sealed
it: who ends the process from within, and leaves a report of his own making, has left none.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import secrets
import shlex
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from git_agentos import processes
from git_agentos.errors import RepositoryError, UnsupportedRepository
from git_agentos.run.kernel import children
from git_agentos.run.kernel.children import Child
from git_agentos.tdd.arbiter import bounded, interpreter, report, sandbox
from git_agentos.tdd.arbiter import ground as grounds
from git_agentos.tdd.arbiter.ground import Ground, Site
from git_agentos.tdd.arbiter.report import Case
from git_agentos.tdd.state import TIMED_OUT

_PLUGIN = "agentos_evidence"
_LAUNCHER = f"""\
if __name__ == "__main__":
    import sys

    import pytest
    import {_PLUGIN}

    sys.exit(int(pytest.main()))
"""
# Run by every Python that tests start, where a finder would win over PYTHONPATH; then the one whose place this has.
_CUSTOMIZE = """\
import sys
from importlib import machinery, util

def _load(name, spec):
    sys.modules[name] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

_ours = _load("agentos_imports", util.spec_from_file_location("agentos_imports", {path!r}))
_ours.arrange()
_theirs = machinery.PathFinder.find_spec("sitecustomize", _ours.installed())
if _theirs is not None and _theirs.loader is not None:
    _load("sitecustomize", _theirs)
"""
_OPTIONS = ("-v", "--tb=short", "--color=no", "--maxfail=0")
_MOST_EVIDENCE = 4 << 20


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
    with _folder() as folder:
        desk = _Desk.lay(folder, site, canary=canary)
        command = desk.command(site, tests)
        with _said(output) as said:
            child = Child(
                f"exec 2>&1; exec {shlex.join([*desk.wrapped(site), *command])}",
                site.location, site.agent, desk.environment(site), site.timeout, guarded=False,
            )  # fmt: skip
            file = cast(BinaryIO, said)
            ended = children.run(child, file, file, show=show, stop=stop)
            if ended.timed_out:
                said.write(b"\n[git-agentos: ended after %g seconds]\n" % site.timeout)
            text = said.text()
        evidence = desk.evidence()
        return Tested(
            TIMED_OUT if ended.timed_out else ended.exit_code,
            ended.seconds,
            text,
            desk.cases(evidence),
            _all(evidence, "plugins"),
            _all(evidence, "foreign"),
            tuple(command),
            ended.interrupted,
            ended.left_behind,
            f"::{desk.canary}" if desk.canary else None,
            _all(evidence, "own"),
        )


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    folder = os.path.realpath(tempfile.mkdtemp(prefix="agentos-tests-"))
    try:
        yield folder
    finally:
        processes.remove_folder(folder)


@contextlib.contextmanager
def _said(path: str | None) -> Iterator[bounded.Bounded]:
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "wb")) if path is not None else None
        yield stack.enter_context(bounded.Bounded(file))


@dataclass(frozen=True)
class _Desk:
    """The folder of one run: the launcher and the plugin in one part of it, what comes of the run in another."""

    folder: str
    token: bytes
    canary: str | None
    places: tuple[str, ...]

    @classmethod
    def lay(cls, folder: str, site: Site, *, canary: bool) -> _Desk:
        root = site.location.root
        places = interpreter.places(root, site.others, site.interpreter.places)
        name = f"agentos-canary-{secrets.token_hex(4)}" if canary else None
        customizes = bool(site.others) and site.interpreter.finders
        desk = cls(folder, secrets.token_hex(32).encode(), name, places)
        for each in (desk.tools, desk.below, desk.left):
            os.mkdir(each)
        order = {
            "root": root, "others": list(site.others), "places": list(places), "canary": name,
            "below": [desk.below] if customizes else [], "report": desk.report, "evidence": desk.left,
        }  # fmt: skip
        customize = _CUSTOMIZE.format(path=os.path.join(desk.tools, "agentos_imports.py"))
        for file_name, data in (
            ("pytest", _LAUNCHER.encode()),
            (f"{_PLUGIN}.py", _own("evidence_plugin.py")),
            ("agentos_imports.py", _own("evidence_imports.py")),
            ("below/sitecustomize.py", customize.encode()),
            ("order.json", json.dumps(order).encode()),
            ("../left/token", desk.token),
        ):
            with open(os.path.join(desk.tools, file_name), "wb") as file:
                file.write(data)
        return desk

    @property
    def tools(self) -> str:
        return os.path.join(self.folder, "tools")

    @property
    def below(self) -> str:
        return os.path.join(self.tools, "below")

    @property
    def left(self) -> str:
        return os.path.join(self.folder, "left")

    @property
    def report(self) -> str:
        return os.path.join(self.left, "report.xml")

    def command(self, site: Site, tests: Sequence[str]) -> list[str]:
        """pytest's command line. A test whose name begins as an option would, or as a file of options, is named by its
        folder."""
        settings = {
            "junit_family": "xunit1",
            "junit_logging": "no",
            "cache_dir": os.path.join(self.left, "cache"),
        }
        words = [site.interpreter.python, os.path.join(self.tools, "pytest"), *_OPTIONS]
        words += [f"--rootdir={site.location.root}", f"--junitxml={self.report}", "-p", _PLUGIN]
        for name, value in settings.items():
            words += ["-o", f"{name}={value}"]
        return [*words, *(f"./{each}" if each.startswith(("-", "@")) else each for each in tests)]

    def wrapped(self, site: Site) -> list[str]:
        if site.bwrap is None:
            return []
        needed = [*site.interpreter.home, *site.interpreter.places, *site.others, self.tools]
        return sandbox.within(site.bwrap, site.location, needed, [self.left])

    def environment(self, site: Site) -> dict[str, str]:
        """Other things that tools of tests would leave in the worktree go where the report is. So do the folders of
        `tmp_path`: pytest removes old ones of all its runs in the end, however long that takes, and is not to be at
        those of runs that are not ours."""
        kept = {
            "PYTEST_DEBUG_TEMPROOT": self.left,
            "COVERAGE_FILE": os.path.join(self.left, "coverage"),
            "HYPOTHESIS_STORAGE_DIRECTORY": os.path.join(self.left, "hypothesis"),
        }
        return {**kept, **site.environment}

    def evidence(self) -> list[Mapping[str, Any]]:
        """What the plugin wrote, in each process of the run."""
        found: list[Mapping[str, Any]] = []
        for name in sorted(os.listdir(self.left)):
            if name.endswith(".json"):
                with contextlib.suppress(ValueError, OSError):
                    each = json.loads(_read(os.path.join(self.left, name)))
                    if isinstance(each, dict):
                        found.append(each)
        return found

    def cases(self, evidence: Sequence[Mapping[str, Any]]) -> tuple[Case, ...] | None:
        """Those of the report, if the plugin has sealed it."""
        try:
            data = _read(self.report, most=128 << 20)
        except OSError:
            return None
        seal = hmac.new(self.token, data, hashlib.sha256).hexdigest()
        return report.read(data) if any(each.get("seal") == seal for each in evidence) else None


def _own(name: str) -> bytes:
    """A file that lies beside this one."""
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()


def _read(path: str, most: int = _MOST_EVIDENCE) -> bytes:
    """A file that tests may have put anything in the place of."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def _all(evidence: Sequence[Mapping[str, Any]], key: str) -> tuple[str, ...]:
    lists = [each[key] for each in evidence if isinstance(each.get(key), list)]
    return tuple(sorted({item for found in lists for item in found if isinstance(item, str)}))
