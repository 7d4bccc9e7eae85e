"""The red and the green gate: pytest's exit code decides, and vetoes can refuse what it accepts.

A veto never accepts what the exit code refuses. They are looked for

    before the red run    existing tests that were changed or removed, new trivial tests (`comparison`)
    after it              failures other than those of new tests in their call; new tests that pass; red tests in files
                          that are not frozen; missing results
    before the green run  changes of what was frozen (`frozen_files`)
    after it              red tests that did not run and pass; new skips and plugins; modules of another checkout, or
                          that would not be committed (`find_uncommitted`); no change at all since red; an exit code of
                          0 although a test that always fails was added (the canary)
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs, trees
from git_agentos.git.repository import Repository
from git_agentos.tdd.gate import frozen_files, helpers
from git_agentos.tdd.gate.comparison import BaseTests, WorktreeTests
from git_agentos.tdd.gate.pytest_run import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
    XFAILED,
    Case,
    Control,
    PytestResult,
    run_pytest,
)
from git_agentos.tdd.gate.setup import PytestSetup
from git_agentos.tdd.state import ExitCode

RED, GREEN = "red", "green"
_MAX_LISTED = 20
_FREEZE_HINT = "put it below 'tests', call it test_*.py, or name it in python_files"
_NO_RESULTS = "pytest exited before it reported its results"


@dataclass(frozen=True)
class RedRecord:
    """What the red gate recorded: the node ids that failed, the hashes of what is frozen, the names of pytest's
    plugins, the tests that did not run, and a hash of all other files. None: not known."""

    red: tuple[str, ...]
    frozen: Mapping[str, str]
    plugins: tuple[str, ...]
    skipped: tuple[str, ...] | None
    rest: str | None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> RedRecord:
        """The record in a JSON object that `to_json` made."""
        skipped, rest = body.get("skipped"), body.get("rest")
        return cls(
            red=tuple(map(str, body["red"])),
            frozen={str(key): str(value) for key, value in body["frozen"].items()},
            plugins=tuple(map(str, body.get("plugins", ()))),
            skipped=tuple(map(str, skipped)) if skipped is not None else None,
            rest=rest if isinstance(rest, str) else None,
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object whose keys are the fields."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Verdict:
    """The judgement of a gate. `holds`: the exit code is right, and there is no veto. `exit_code` is None if a veto
    stood before the tests could run. `record` is that of the red gate (None if it does not hold). `feedback` tells a
    model why the gate does not hold, without the output."""

    gate: str
    holds: bool
    exit_code: int | None
    vetoes: tuple[str, ...]
    collect_error: bool
    feedback: str
    result: PytestResult | None
    record: RedRecord | None = None
    canary: PytestResult | None = None

    @property
    def interrupted(self) -> bool:
        return any(each is not None and each.interrupted for each in (self.result, self.canary))


@dataclass(frozen=True)
class Base:
    """Where a workflow began: its commit, and a hash of the interpreter (None: not known)."""

    commit: str
    interpreter: str | None


@dataclass(frozen=True)
class Candidate:
    """What would be committed: `tree` is of all visible files, `since` when the work on them began (seconds)."""

    tree: str
    since: float


def red(
    context: OpenWorktree,
    setup: PytestSetup,
    tests: Sequence[str],
    *,
    base: Base | None = None,
    candidate: Candidate | None = None,
    control: Control | None = None,
) -> Verdict:
    """Whether the new tests fail, in their call, and nothing else does.

    Tests are new if `base` does not have them; then changes of existing tests, and trivial tests, are vetoes before the
    run. Without `base`, tests are new if HEAD does not have them, and those that may fail are named by `tests`. `tests`
    as in `run_pytest`; `candidate` is what would be committed (None: not known).
    """
    before = hash_inputs(setup)
    worktree = WorktreeTests(setup.location.root)
    commit = base.commit if base is not None else refs.read_head(context.location).commit
    base_tests = BaseTests(context.repository, commit, worktree, before) if commit is not None else None
    vetoes = _interpreter_vetoes(base, before)
    if base_tests is not None:
        vetoes += base_tests.vetoes() if base is not None else base_tests.hook_vetoes()
    if vetoes:
        return _refuse(RED, vetoes, None)
    is_new: Callable[[Case], bool] = base_tests.is_new if base_tests is not None else lambda _: True
    may_fail = is_new if base is not None else partial(_is_named, tests)
    began = time.time()
    result = run_pytest(setup, tests, control=control)
    if result.interrupted:
        return _interrupted(RED, result, None)
    after = frozen_files.ignore_written(before, hash_inputs(setup))
    vetoes = [f"{each}, while the tests ran" for each in frozen_files.diff(before, after)]
    failed: list[Case] = []
    if result.exit_code == ExitCode.FAILED:
        failed = [each for each in result.cases or () if each.outcome == FAILED and may_fail(each)]
        vetoes += _red_vetoes(result, failed)
        vetoes += _candidate_vetoes(context, setup, candidate, result, began)
        vetoes += _passing_already(result, is_new)
        vetoes += _unfrozen_files(setup.location.root, after, failed)
        vetoes += worktree.trivial_cases(failed)
    verdict = _judge(RED, result, vetoes, ExitCode.FAILED)
    return replace(verdict, record=_record(setup, worktree, result, failed, after)) if verdict.holds else verdict


def green(
    context: OpenWorktree,
    setup: PytestSetup,
    tests: Sequence[str],
    record: RedRecord,
    *,
    candidate: Candidate | None = None,
    control: Control | None = None,
) -> Verdict:
    """Whether the tests that were red pass, all of them, and no other test fails.

    What was frozen is compared before and after each run; a second run with a canary (of the files of the red tests)
    shows whether the exit code is true. `candidate` as of `red`.
    """
    before = hash_inputs(setup, frozen_files.whole_files(record.frozen))
    is_unchanged = record.rest is not None and frozen_files.hash_rest(setup.location.root, record.frozen) == record.rest
    if vetoes := [f"{each} since the tests were red" for each in frozen_files.diff(record.frozen, before)]:
        return _refuse(GREEN, vetoes, record)
    began = time.time()
    result = run_pytest(setup, tests, control=control)
    if result.interrupted:
        return _interrupted(GREEN, result, record)
    vetoes = _changes_while_running(setup, record, before)
    canary: PytestResult | None = None
    if result.exit_code == ExitCode.PASSED:
        vetoes += _green_vetoes(result, record)
        vetoes += _candidate_vetoes(context, setup, candidate, result, began)
        vetoes += _new_plugins(result, record)
        if is_unchanged:
            vetoes.append("nothing was changed since the tests were red: they do not depend on the code")
        if not vetoes:
            red_files = sorted({each.path for each in result.cases or () if each.node_id in set(record.red)})
            stop = Control(stop=control.stop) if control is not None else None
            canary = run_pytest(setup, red_files, canary=True, control=stop)
            if canary.interrupted:
                return _interrupted(GREEN, canary, record)
            vetoes += [*_canary_vetoes(canary), *_changes_while_running(setup, record, before)]
    return replace(_judge(GREEN, result, vetoes, ExitCode.PASSED), record=record, canary=canary)


def hash_interpreter(setup: PytestSetup) -> str:
    """A hash of the interpreter: its path, its startup files, pytest and its plugins."""
    path, folders = setup.interpreter.path, setup.interpreter.folders
    environment = frozen_files.hash_environment(folders, setup.interpreter.prefix, path)
    return hashlib.sha256(os.fsencode(f"{environment}\0{path}\0{os.path.realpath(path)}")).hexdigest()


def hash_inputs(setup: PytestSetup, more: Sequence[str] = ()) -> Mapping[str, str]:
    """The hashes of everything that decides the outcome of the tests, of the files `more` too."""
    hashes = dict(frozen_files.hash_inputs(setup.location.root, more))
    if setup.interpreter.folders:
        hashes[frozen_files.PYTHON] = hash_interpreter(setup)
    return hashes


def _record(
    setup: PytestSetup, worktree: WorktreeTests, result: PytestResult, failed: Sequence[Case], after: Mapping[str, str]
) -> RedRecord:
    """What a red gate that holds freezes: the inputs, and the helpers of the red tests and of all conftests."""
    root = setup.location.root
    conftests = [each for each in after if os.path.basename(each) == "conftest.py"]
    starts = [*dict.fromkeys(each.path for each in failed), *conftests]
    more = helpers.find_helpers(root, starts, partial(frozen_files.has_content, after, root), worktree.options)
    frozen = {**hash_inputs(setup, more), **after}  # `after` has marked what the tests write themselves
    return RedRecord(
        red=tuple(each.node_id for each in failed),
        frozen=frozen,
        plugins=result.plugins,
        skipped=tuple(each.node_id for each in result.cases or () if each.outcome in (SKIPPED, XFAILED)),
        rest=frozen_files.hash_rest(root, frozen),
    )


# -- vetoes ------------------------------------------------------------------------------------------------------------


def _interpreter_vetoes(base: Base | None, hashes: Mapping[str, str]) -> list[str]:
    if base is None or not base.interpreter:
        return []
    key = frozen_files.PYTHON
    return list(frozen_files.diff({key: base.interpreter}, {key: hashes.get(key, "")}))


def _changes_while_running(setup: PytestSetup, record: RedRecord, before: Mapping[str, str]) -> list[str]:
    after = frozen_files.ignore_written(before, hash_inputs(setup, frozen_files.whole_files(record.frozen)))
    return [f"{each}, while the tests ran" for each in frozen_files.diff(record.frozen, after)]


def _is_named(names: Sequence[str], case: Case) -> bool:
    """Whether a test is among those that are named by node id, file or folder."""
    for name in names:
        plain = name.removeprefix("./").rstrip("/")
        if plain in (".", "", case.node_id) or case.node_id.startswith((plain + "::", plain + "/", plain + "[")):
            return True
    return False


def _red_vetoes(result: PytestResult, failed: Sequence[Case]) -> list[str]:
    """Failures of the wrong kind; `failed` are those of new tests in their call."""
    if result.cases is None:
        return [_NO_RESULTS]
    vetoes = []
    for case in result.cases:
        if case.outcome == ERROR:
            where = "while it was collected" if case.collecting else "in a fixture, and not in the test itself"
            vetoes.append(f"{case.node_id} failed {where}: {case.message}")
        elif case.outcome == FAILED and case not in failed:
            vetoes.append(f"{case.node_id} fails, and is not one of the new tests")
    if not failed:
        vetoes.append("no new test failed")
    return vetoes + _foreign_modules(result)


def _passing_already(result: PytestResult, is_new: Callable[[Case], bool]) -> list[str]:
    return [
        f"{each.node_id} passes already: before the code is written, each new test has to fail"
        for each in result.cases or ()
        if each.outcome == PASSED and is_new(each)
    ]


def _unfrozen_files(root: str, hashes: Mapping[str, str], failed: Sequence[Case]) -> list[str]:
    """The files of red tests that could be rewritten until the tests pass."""
    paths = sorted({each.path for each in failed if not frozen_files.has_content(hashes, root, each.path)})
    return [f"{path} has a test that fails, and is not frozen: {_FREEZE_HINT}" for path in paths]


def _green_vetoes(result: PytestResult, record: RedRecord) -> list[str]:
    """Tests that were red and did not pass, and others that fail or are skipped."""
    if result.cases is None:
        return [_NO_RESULTS]
    outcomes = {case.node_id: case.outcome for case in result.cases}
    vetoes = [
        f"{node_id} was red, and " + ("did not run" if node_id not in outcomes else f"is {outcomes[node_id]} now")
        for node_id in record.red
        if outcomes.get(node_id) != PASSED
    ]
    for case in result.cases:
        if case.node_id in record.red:
            continue
        if case.outcome in (FAILED, ERROR):
            vetoes.append(f"{case.node_id} fails, although pytest exited with 0")
        elif case.outcome in (SKIPPED, XFAILED) and record.skipped is not None and case.node_id not in record.skipped:
            vetoes.append(f"{case.node_id} is {case.outcome}, and was not when the tests were red")
    return vetoes + _foreign_modules(result)


def _new_plugins(result: PytestResult, record: RedRecord) -> list[str]:
    """The plugins that were not there at red. A frozen one may load later: more tests may be run now."""
    vetoes = []
    for name in result.plugins:
        module = name.replace(".", "/")
        if name not in record.plugins and not {name, f"{module}.py", f"{module}/__init__.py"} & record.frozen.keys():
            vetoes.append(f"the plugin '{name}' was not there when the tests were red")
    return vetoes


def _foreign_modules(result: PytestResult) -> list[str]:
    return [f"{each} was imported, which is not in this worktree" for each in result.foreign]


def _candidate_vetoes(
    context: OpenWorktree, setup: PytestSetup, candidate: Candidate | None, result: PytestResult, began: float
) -> Sequence[str]:
    return find_uncommitted(context.repository, setup, candidate, result.own, began) if candidate is not None else []


def _canary_vetoes(canary: PytestResult) -> list[str]:
    """Whether a run with a test that always fails reported it, and nothing else, as failed."""
    if canary.exit_code != ExitCode.FAILED:
        return [f"pytest exited with {canary.exit_code} although an always-failing test was added"]
    failed = [each.node_id for each in canary.cases or () if each.outcome in (FAILED, ERROR)]
    return [] if failed == [canary.canary] else ["pytest did not report exactly the always-failing test that was added"]


# -- code that would not be committed ----------------------------------------------------------------------------------


def find_uncommitted(
    repository: Repository, setup: PytestSetup, candidate: Candidate, modules: Sequence[str], until: float
) -> Sequence[str]:
    """Those of `modules` (relative paths) that would not be committed as they are, a sentence each; `until` is when the
    tests began.

    What git ignores is neither shown at review nor merged, and a filter of git's may commit something else. Modules
    that existed before the work began (the worktree's preparation made them), those that the tests make themselves, and
    those that the main checkout has as well (generated, and ignored there, too) are not reported.
    """
    root = setup.location.root
    found = []
    for path in modules:
        entry = trees.find(repository, candidate.tree, os.fsencode(path))
        if entry is not None:
            if not _is_same(repository, root, path, entry[1]):
                found.append(
                    f"{path} differs from what would be committed: a filter of git's, or the tests, changed it"
                )
            continue
        if setup.main_root is not None and os.path.lexists(os.path.join(setup.main_root, path)):
            continue
        if _appeared_between(os.path.join(root, path), candidate.since, until):
            found.append(f"{path} was imported, but would not be committed: git ignores it, or has it elsewhere")
    return found


def _is_same(repository: Repository, root: str, path: str, oid: str) -> bool:
    """Whether a checkout of the blob gives the file that the tests ran; line ends may differ."""
    full = os.fsencode(os.path.join(root, path))
    try:
        if repository.hash.hash_file(full) == oid:
            return True
        with open(full, "rb") as file:
            current = file.read()
        checked_out = repository.git("cat-file", "--filters", f"--path={path}", oid)
    except (OSError, AgentosError):
        return False
    return current.replace(b"\r\n", b"\n") == checked_out.replace(b"\r\n", b"\n")


def _appeared_between(path: str, since: float, until: float) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and since <= status.st_ctime < until


# -- verdicts ----------------------------------------------------------------------------------------------------------


def _judge(gate: str, result: PytestResult, vetoes: Sequence[str], wanted: int) -> Verdict:
    collect_error = result.exit_code == ExitCode.INTERRUPTED and any(
        each.collecting and each.outcome == ERROR for each in result.cases or ()
    )
    holds = result.exit_code == wanted and not vetoes
    feedback = "" if holds else _feedback(gate, result, vetoes, collect_error=collect_error)
    return Verdict(gate, holds, result.exit_code, tuple(vetoes), collect_error, feedback, result)


def _refuse(gate: str, vetoes: Sequence[str], record: RedRecord | None) -> Verdict:
    feedback = _list("The tests were not run, because:", vetoes) + _ADVICE[gate]
    return Verdict(gate, False, None, tuple(vetoes), False, feedback, None, record)


def _interrupted(gate: str, result: PytestResult, record: RedRecord | None) -> Verdict:
    return Verdict(gate, False, result.exit_code, (), False, "It was interrupted.\n", result, record)


def _feedback(gate: str, result: PytestResult, vetoes: Sequence[str], *, collect_error: bool) -> str:
    """Why a gate does not hold, and what to do, for the author of the code."""
    text = _EXIT_TEXTS.get(result.exit_code, f"pytest exited with {result.exit_code}.")
    if gate == RED and result.exit_code == ExitCode.PASSED:
        text = _PREMATURE
    failed = [each for each in result.cases or () if each.outcome in (FAILED, ERROR)]
    if collect_error:
        listed = [f"{each.node_id}: {each.message}" for each in failed if each.collecting and each.outcome == ERROR]
        text = _list("These could not be collected, since they, or what they import, cannot be imported:", listed)
    elif gate == GREEN and result.exit_code == ExitCode.FAILED and failed:
        text = _list("These tests do not pass:", [f"{each.node_id}: {each.message}" for each in failed])
    text = text if text.endswith("\n") else text + "\n"
    if not vetoes:
        return text
    return text + _list("The exit code does not count, because:", vetoes) + _ADVICE[gate]


def _list(heading: str, items: Sequence[str]) -> str:
    shown = [f"- {each}" for each in items[:_MAX_LISTED]]
    more = [f"- and {len(items) - _MAX_LISTED} more"] if len(items) > _MAX_LISTED else []
    return "\n".join([heading, *shown, *more]) + "\n"


_ADVICE = {
    RED: "Only add tests that call the code and fail because it is not written yet. Leave existing tests, hooks and"
    " pytest's configuration alone.\n",
    GREEN: "Leave tests, conftests and pytest's configuration as they are, and make them pass by the code alone.\n",
}
_EXIT_TEXTS: Mapping[int, str] = {
    ExitCode.PASSED: "pytest exited with 0.",
    ExitCode.FAILED: "Tests failed (exit 1).",
    ExitCode.BAD_USAGE: "pytest could not start (exit 4): a path does not exist, or a conftest cannot be imported.",
    ExitCode.NOTHING_COLLECTED: "No tests were collected (exit 5).",
    ExitCode.TIMED_OUT: "The tests took too long.",
}
_PREMATURE = "The tests passed prematurely (exit 0): before the code is written, each new test has to fail."
