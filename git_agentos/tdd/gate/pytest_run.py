"""One run of pytest, in a process group of its own, and its results.

pytest is started as the project would start it (`python -m pytest`, in the worktree), with three differences: it is
imported before anything of the worktree can take its place; `plugin` is loaded; and what it writes besides its output
goes to a scratch folder. That folder has two parts: `tools` (launcher, plugin and job, not written by tests) and
`results` (what the plugin writes, caches, temporary folders). It is removed afterwards.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import shlex
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from git_agentos.errors import RepositoryError, UnsupportedRepository
from git_agentos.process import contained, deletion
from git_agentos.redact import redact
from git_agentos.tdd.gate import python
from git_agentos.tdd.gate import setup as setups
from git_agentos.tdd.gate.setup import PytestSetup
from git_agentos.tdd.state import ExitCode
from git_agentos.util import directories, files

FILE_HEAD, FILE_TAIL = 512 << 10, 512 << 10  # bytes of the output that are kept in a file: collection errors stand at
_TEXT_HEAD, _TEXT_TAIL = 16 << 10, 48 << 10  # its beginning, the summary at its end; bytes that are returned as text
PASSED, FAILED, ERROR, SKIPPED, XFAILED = "passed", "failed", "error", "skipped", "xfailed"
# A test may be reported twice (it failed, and so did its fixture afterwards): the outcome that comes last here counts.
_PRECEDENCE = (PASSED, XFAILED, SKIPPED, ERROR, FAILED)
_MAX_MESSAGE = 500
_MAX_RESULTS = 128 << 20
_PREFIX = "agentos-tests-"
_PLUGIN = "agentos_evidence"
_OPTIONS = ("-v", "--tb=short", "--color=no", "--maxfail=0")
_LAUNCHER = f"""\
if __name__ == "__main__":
    import sys

    import pytest
    import {_PLUGIN}

    sys.exit(int(pytest.main()))
"""
# Used if the interpreter has finders that come before PYTHONPATH: every Python that tests start runs this, and then
# the `sitecustomize` that this one hides.
_SITECUSTOMIZE = """\
import sys
from importlib import machinery, util

def _load(name, spec):
    sys.modules[name] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

_imports = _load("agentos_imports", util.spec_from_file_location("agentos_imports", {path!r}))
_imports.redirect_imports()
_hidden = machinery.PathFinder.find_spec("sitecustomize", _imports.installed_folders())
if _hidden is not None and _hidden.loader is not None:
    _load("sitecustomize", _hidden)
"""


@dataclass(frozen=True)
class Control:
    """How a run is watched: `output` is the path of a file for its output, bounded; `show` gets each line; `stop` is
    asked whether to end it."""

    output: str | None = None
    show: Callable[[bytes], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Case:
    """One test that was run, or one file that was not collected: pytest's node id, the outcome (`failed`: in its call;
    `error`: in a fixture or while collecting), and the first line of its message. `path` is relative to the worktree.
    """

    node_id: str
    path: str
    outcome: str
    message: str
    collecting: bool = False


@dataclass(frozen=True)
class PytestResult:
    """`exit_code` is the process's (128 + N for signal N, `ExitCode.TIMED_OUT` where it took too long); `output` is
    redacted and bounded; `cases` is None if the results are missing, or were not written by the plugin. `plugins`
    are the names of the plugins that pytest had, `own` the files of modules of the worktree (relative), `foreign` those
    of modules of another checkout. `canary` is the end of the node id of the test that has to fail, where there was
    one."""

    exit_code: int
    seconds: float
    output: str
    cases: tuple[Case, ...] | None
    plugins: tuple[str, ...]
    foreign: tuple[str, ...]
    own: tuple[str, ...]
    command: tuple[str, ...]
    interrupted: bool
    canary: str | None


def run_pytest(
    setup: PytestSetup, tests: Sequence[str], *, canary: bool = False, control: Control | None = None
) -> PytestResult:
    """Run pytest on `tests` (node ids, files, folders; none: what the project's configuration says). With `canary`, a
    test that has to fail is run beside them: an exit code of 0 is wrong then."""
    control = control or Control()
    with _scratch_folder() as path:
        folder = _RunFolder.create(path, setup, canary=canary)
        command = folder.command(setup, tests)
        with open(os.path.join(path, "output"), "w+b") as file:
            finished = _run(folder, setup, command, file, control)
            if finished.timed_out:
                file.write(b"\n[git-agentos: ended after %g seconds]\n" % setup.timeout)
            file.seek(0)
            data = file.read()
        if control.output is not None:
            with open(control.output, "wb") as file:
                file.write(_shorten(data, FILE_HEAD, FILE_TAIL))
        results = folder.results()
        return PytestResult(
            exit_code=int(ExitCode.TIMED_OUT) if finished.timed_out else finished.exit_code,
            seconds=finished.seconds,
            # NUL is replaced because databases do not take it.
            output=_shorten(data, _TEXT_HEAD, _TEXT_TAIL).decode("utf-8", "replace").replace("\0", "\ufffd"),
            cases=folder.cases(results),
            plugins=_collect(results, "plugins"),
            foreign=_collect(results, "foreign"),
            own=_collect(results, "own"),
            command=tuple(command),
            interrupted=finished.interrupted,
            canary=f"::{folder.canary}" if folder.canary else None,
        )


def run_pytest_subprocess(worktree_path: str, timeout: float = 300) -> tuple[int, str]:
    """Run the tests of the worktree at `worktree_path`; return pytest's exit code (128 + N for signal N, -1 where it
    took longer than `timeout` seconds) and its output. For tools that use nothing else of the gates."""
    mark = uuid.uuid4().hex
    try:
        from git_agentos.workspace import open_workspace

        context = open_workspace(worktree_path).context
    except (RepositoryError, UnsupportedRepository):
        folder = os.path.realpath(worktree_path)
        if not os.path.isdir(folder):
            raise
        setup = setups.prepare_folder(folder, os.environ, timeout=timeout, mark=mark)
    else:
        setup = setups.prepare(context, os.environ, timeout=timeout, mark=mark)
    result = run_pytest(setup, ())
    return result.exit_code, result.output


def _run(
    folder: _RunFolder, setup: PytestSetup, command: Sequence[str], output: BinaryIO, control: Control
) -> contained.Result:
    words = contained.shell(f"exec 2>&1; exec {shlex.join([*folder.sandbox_command(setup), *command])}")
    contained_command = contained.Command(words, setup.location.root, folder.environment(setup), setup.timeout)
    return contained.run(contained_command, output, output, show=control.show, stop=control.stop)


def _shorten(data: bytes, head: int, tail: int) -> bytes:
    """The beginning and the end of an output that is too long, cut where lines end, with a note between them."""
    if len(data) <= head + tail:
        return data
    first, last = data[:head], data[-tail:]
    first = first[: first.rfind(b"\n") + 1] or first
    last = last[last.find(b"\n") + 1 :] or last
    omitted = len(data) - len(first) - len(last)
    return first + b"\n[git-agentos: %d bytes are left out here]\n" % omitted + last


def _collect(results: Sequence[Mapping[str, Any]], key: str) -> tuple[str, ...]:
    """What all processes of the run have under a key."""
    lists = [each[key] for each in results if isinstance(each.get(key), list)]
    return tuple(sorted({item for each in lists for item in each if isinstance(item, str)}))


# -- the folder of a run -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _scratch_folder() -> Iterator[str]:
    """A scratch folder. Those that killed processes left are removed first."""
    parent = os.path.realpath(tempfile.gettempdir())
    directories.remove_abandoned(parent, _PREFIX, delete=deletion.remove_folder)
    with directories.scratch(parent, _PREFIX, delete=deletion.remove_folder) as path:
        yield path


@dataclass(frozen=True)
class _RunFolder:
    """The scratch folder of one run."""

    path: str
    token: str
    canary: str | None

    @classmethod
    def create(cls, path: str, setup: PytestSetup, *, canary: bool) -> _RunFolder:
        """Write the launcher, the plugin, the job and the token."""
        folder = cls(path, secrets.token_hex(32), f"agentos-canary-{secrets.token_hex(4)}" if canary else None)
        sitecustomize = os.path.join(folder.tools, "sitecustomize")
        for each in (folder.tools, sitecustomize, folder.results_path):
            os.mkdir(each)
        root, interpreter = setup.location.root, setup.interpreter
        job = {
            "root": root,
            "others": list(setup.other_checkouts),
            "folders": list(python.import_folders(root, setup.other_checkouts, interpreter.folders)),
            "canary": folder.canary,
            "results": folder.results_path,
            "sitecustomize": [sitecustomize] if setup.other_checkouts and interpreter.has_finders else [],
        }
        imports = os.path.join(folder.tools, "agentos_imports.py")
        for file, data in (
            (os.path.join(folder.tools, "pytest"), _LAUNCHER.encode()),
            (os.path.join(folder.tools, f"{_PLUGIN}.py"), _read_sibling("plugin.py")),
            (imports, _read_sibling("plugin_imports.py")),
            (os.path.join(sitecustomize, "sitecustomize.py"), _SITECUSTOMIZE.format(path=imports).encode()),
            (os.path.join(folder.tools, "job.json"), json.dumps(job).encode()),
            (os.path.join(folder.results_path, "token"), folder.token.encode()),
        ):
            with open(file, "wb") as opened:
                opened.write(data)
        return folder

    @property
    def tools(self) -> str:
        return os.path.join(self.path, "tools")

    @property
    def results_path(self) -> str:
        return os.path.join(self.path, "results")

    def command(self, setup: PytestSetup, tests: Sequence[str]) -> list[str]:
        """pytest's command line. A test whose name begins like an option, or like a file of options, gets a `./`."""
        words = [setup.interpreter.path, os.path.join(self.tools, "pytest"), *_OPTIONS]
        words += [f"--rootdir={setup.location.root}", "-p", _PLUGIN]
        words += [word for name in setup.interpreter.hidden_plugins for word in ("-p", f"no:{name}")]
        words += ["-o", f"cache_dir={os.path.join(self.results_path, 'cache')}"]
        return [*words, *(f"./{each}" if each.startswith(("-", "@")) else each for each in tests)]

    def sandbox_command(self, setup: PytestSetup) -> list[str]:
        """The words before the command line, if a sandbox is wanted."""
        if setup.bwrap is None:
            return []
        interpreter = setup.interpreter
        needed = [*interpreter.home, *interpreter.folders, *setup.other_checkouts, self.tools]
        return setups.within_sandbox(setup.bwrap, setup.location, needed, self.results_path)

    def environment(self, setup: PytestSetup) -> dict[str, str]:
        """The environment, with what tools of tests would write into the worktree going to the results. So do the
        folders of `tmp_path`: at its end pytest removes old ones of all its runs, which can take long and concerns
        runs of others."""
        redirected = {
            "PYTEST_DEBUG_TEMPROOT": self.results_path,
            "COVERAGE_FILE": os.path.join(self.results_path, "coverage"),
            "HYPOTHESIS_STORAGE_DIRECTORY": os.path.join(self.results_path, "hypothesis"),
        }
        return {**redirected, **setup.environment}

    def results(self) -> list[Mapping[str, Any]]:
        """What the plugin wrote, in each process of the run. Tests may have put anything there."""
        results: list[Mapping[str, Any]] = []
        for name in sorted(os.listdir(self.results_path)):
            if name.endswith(".json"):
                with contextlib.suppress(ValueError, OSError):
                    results.append(files.read_object(os.path.join(self.results_path, name), limit=_MAX_RESULTS))
        return results

    def cases(self, results: Sequence[Mapping[str, Any]]) -> tuple[Case, ...] | None:
        """The outcomes that carry the token of this run."""
        for each in results:
            if hmac.compare_digest(str(each.get("token")).encode("utf-8", "replace"), self.token.encode()):
                return read_cases(each.get("cases") or ())
        return None


def read_cases(recorded: Sequence[Any]) -> tuple[Case, ...] | None:
    """The cases that the plugin recorded, one for each node id; None if that is not what it writes."""
    cases: dict[str, Case] = {}
    try:
        for node_id, outcome, message, collecting in recorded:
            line = next((each.strip() for each in message.splitlines() if each.strip()), "")
            case = Case(node_id, node_id.partition("::")[0], outcome, redact(line)[0][:_MAX_MESSAGE], bool(collecting))
            earlier = cases.setdefault(node_id, case)
            if _PRECEDENCE.index(outcome) > _PRECEDENCE.index(earlier.outcome):
                cases[node_id] = case
    except (ValueError, TypeError, AttributeError):
        return None
    return tuple(cases.values())


def _read_sibling(name: str) -> bytes:
    """The content of a file beside this one."""
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()
