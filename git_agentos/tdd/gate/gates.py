"""The two gates: the exit code decides, and a veto takes its yes back.

A veto never makes a yes of a no. What it is looked for:

    before the red run    tests that were there are changed or gone, new ones are none (`against`)
    after it              something else fails than new tests in their call phase, or a new one passes; a test is in a
                          file that is not frozen; no report that can be believed
    before the green run  what was frozen has changed (`freeze`), or nothing else has
    after it              what was red did not run and pass; something is skipped that was not; another plugin; code
                          from another checkout, or that nobody would get (`unseen`); the exit code cannot be
                          believed (the canary)
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from git_agentos.git import refs
from git_agentos.tdd.gate import frozen_files, helpers, pytest_run
from git_agentos.tdd.gate.cases import ERROR, FAILED, SKIPPED, XFAILED, Case
from git_agentos.tdd.gate.cases import PASSED as WENT_WELL
from git_agentos.tdd.gate.comparison import Base, Worktree
from git_agentos.tdd.gate.pytest_run import Tested
from git_agentos.tdd.gate.setup import Ground
from git_agentos.tdd.gate.uncommitted import Work, unseen
from git_agentos.tdd.state import BAD_USAGE, INTERRUPTED, NOTHING_COLLECTED, PASSED, TIMED_OUT
from git_agentos.tdd.state import FAILED as EXIT_FAILED

RED, GREEN = "red", "green"
_MOST_TOLD = 20
_WHERE = "put it below 'tests', call it test_*.py, or name it in python_files"
_NO_REPORT = "pytest left no report that can be believed: the process was ended from within"


@dataclass(frozen=True)
class Verdict:
    """What a gate says. `holds`: the exit code is right and nothing took it back. `exit_code` is None where a veto
    stood before the tests could run. `red` are the node ids that failed as they should, `frozen` what is frozen from
    here on, `skipped` what did not run, `rest` how everything else was (all of the red gate, where it holds);
    `feedback` is what a model is told where it does not hold, without the output."""

    gate: str
    holds: bool
    exit_code: int | None
    vetoes: tuple[str, ...]
    collect_error: bool
    red: tuple[str, ...]
    frozen: Mapping[str, str]
    plugins: tuple[str, ...]
    feedback: str
    tested: Tested | None
    canary: Tested | None = None
    skipped: tuple[str, ...] = ()
    rest: str | None = None


def red(
    ground: Ground,
    base: str | None,
    tests: Sequence[str],
    *,
    python: str | None = None,
    work: Work | None = None,
    output: str | None = None,
    show: Callable[[bytes], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Do the new tests fail, in their call phase, and nothing else?

    What is new is told against the commit `base`. Existing tests that were changed or removed since then, and tests
    that are none (`hollow`), are vetoes that stand before the run. With None, everything failing has to be among
    `tests`, and what is not in HEAD is new. `tests` as in `pytest_run.run`: they may be more than the new ones.
    `python` is how the interpreter was (`python_of`) before anybody worked, `work` what
    would be committed (None: not known).
    """
    root = ground.here.location.root
    before = look(ground)
    worktree = Worktree(root)
    commit = base if base is not None else refs.read_head(ground.here.location).commit
    compared = Base(ground.here, commit, worktree, before) if commit is not None else None
    vetoes = (
        list(
            frozen_files.compare(
                {frozen_files.PYTHON: python}, {frozen_files.PYTHON: before.get(frozen_files.PYTHON, "")}
            )
        )
        if python
        else []
    )
    if compared is not None:
        vetoes += compared.vetoes() if base is not None else compared.interference()
    if vetoes:
        return _refused(RED, vetoes)
    is_new: Callable[[Case], bool] = compared.is_new if compared is not None else lambda _: True
    may_fail = is_new if base is not None else partial(_is_named, tests)
    began = time.time()
    tested = pytest_run.run(ground, tests, output=output, show=show, stop=stop)
    if tested.interrupted:
        return _interrupted(RED, tested)
    after = frozen_files.unstable(before, look(ground))
    vetoes = [f"{each}, while the tests ran" for each in frozen_files.compare(before, after)]
    failing: list[str] = []
    if tested.exit_code == EXIT_FAILED:
        new_ones = [each for each in tested.cases or () if each.outcome == FAILED and may_fail(each)]
        failing = [each.node_id for each in new_ones]
        vetoes += [*_not_red(tested, failing), *_unseen(ground, work, tested, began), *_early(tested, is_new)]
        vetoes += _not_frozen(root, after, new_ones)
        vetoes += worktree.hollow([(each.node_id, each.path) for each in new_ones])
    verdict = _judged(RED, tested, vetoes, EXIT_FAILED)
    if not verdict.holds:
        return verdict
    frozen = look(ground, _helpers(root, after, worktree, new_ones))
    frozen = {**frozen, **after}  # what the tests have written themselves is noted there
    skipped = tuple(each.node_id for each in tested.cases or () if each.outcome in (SKIPPED, XFAILED))
    return replace(
        verdict,
        red=tuple(failing),
        frozen=frozen,
        plugins=tested.plugins,
        skipped=skipped,
        rest=frozen_files.rest(root, frozen),
    )


def green(
    ground: Ground,
    red: Sequence[str],
    frozen: Mapping[str, str],
    plugins: Sequence[str],
    tests: Sequence[str],
    *,
    skipped: Sequence[str] | None = None,
    rest: str | None = None,
    work: Work | None = None,
    output: str | None = None,
    show: Callable[[bytes], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Do the tests that were red pass, all of them, and no other test fail?

    What was frozen is looked at before and after; a second run with a canary (only the files of `red`) tells whether
    the exit code can be believed. `skipped` are those that did not run at red, `rest` as the red gate left it; None:
    not known. `work` as of `red`.
    """
    before = look(ground, frozen_files.wholly(frozen))
    unchanged = rest is not None and frozen_files.rest(ground.here.location.root, frozen) == rest
    if vetoes := _since_red(frozen, before):
        return _refused(GREEN, vetoes, red, frozen)
    began = time.time()
    tested = pytest_run.run(ground, tests, output=output, show=show, stop=stop)
    if tested.interrupted:
        return _interrupted(GREEN, tested, red, frozen)
    vetoes = _while_running(ground, frozen, before)
    canary: Tested | None = None
    if tested.exit_code == PASSED:
        vetoes += _not_green(tested, red, skipped) + _unseen(ground, work, tested, began)
        vetoes += _plugged(tested, plugins, frozen)
        if unchanged:
            vetoes.append("nothing was changed since the tests were red: what they ask for is not the code's")
        if not vetoes:
            canary = pytest_run.run(ground, _files(tested, red), canary=True, stop=stop)
            if canary.interrupted:
                return _interrupted(GREEN, canary, red, frozen)
            vetoes += [*_unbelievable(canary), *_while_running(ground, frozen, before)]
    return replace(_judged(GREEN, tested, vetoes, PASSED), red=tuple(red), frozen=dict(frozen), canary=canary)


def python_of(ground: Ground) -> str:
    """How the interpreter is: which one, its startup files, pytest and its plugins."""
    places = ground.interpreter.places if ground.interpreter is not None else ()
    prefix = ground.interpreter.prefix if ground.interpreter is not None else None
    named = (
        f"{frozen_files.environment(places, prefix, ground.python)}\0{ground.python}\0{os.path.realpath(ground.python)}"
    )
    return hashlib.sha256(os.fsencode(named)).hexdigest()


def look(ground: Ground, more: Sequence[str] = ()) -> Mapping[str, str]:
    """What decides how the tests come out, the files `more` too; another interpreter than before is one that was
    changed."""
    found = dict(frozen_files.freeze(ground.here.location.root, (), more))
    if ground.interpreter is not None and ground.interpreter.places:
        found[frozen_files.PYTHON] = python_of(ground)
    return found


# -- what speaks against it ------------------------------------------------------------------------------------------


def _since_red(frozen: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [f"{each} since the tests were red" for each in frozen_files.compare(frozen, now)]


def _while_running(ground: Ground, frozen: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    after = frozen_files.unstable(before, look(ground, frozen_files.wholly(frozen)))
    return [f"{each}, while the tests ran" for each in frozen_files.compare(frozen, after)]


def _is_named(names: Sequence[str], case: Case) -> bool:
    """Whether a test is one of those named: by node id, file or folder."""
    for name in names:
        plain = name.removeprefix("./").rstrip("/")
        if plain in (".", "", case.node_id) or case.node_id.startswith((plain + "::", plain + "/", plain + "[")):
            return True
    return False


def _not_red(tested: Tested, failing: Sequence[str]) -> list[str]:
    """Why an exit code of 1 is not red for the right reason."""
    if tested.cases is None:
        return [_NO_REPORT]
    said = []
    for case in tested.cases:
        if case.outcome == ERROR:
            where = "while it was collected" if case.collecting else "in a fixture, and not in the test itself"
            said.append(f"{case.node_id} failed {where}: {case.message}")
        elif case.outcome == FAILED and case.node_id not in failing:
            said.append(f"{case.node_id} fails, and is not one of the new tests")
    if not failing:
        said.append("no new test failed")
    return said + _foreign(tested)


def _early(tested: Tested, is_new: Callable[[Case], bool]) -> list[str]:
    """The new tests that pass before there is any code."""
    return [
        f"{each.node_id} passes already: before the code is written, each new test has to fail"
        for each in tested.cases or ()
        if each.outcome == WENT_WELL and is_new(each)
    ]


def _not_frozen(root: str, frozen: Mapping[str, str], failing: Sequence[Case]) -> list[str]:
    """The files of red tests that could be rewritten until they pass."""
    paths = sorted({each.path for each in failing if not frozen_files.holds(frozen, root, each.path)})
    return [f"{path} has a test that fails, and is not frozen: {_WHERE}" for path in paths]


def _helpers(root: str, frozen: Mapping[str, str], worktree: Worktree, failing: Sequence[Case]) -> Sequence[str]:
    """What the red tests use, and what every test does by conftests and plugins."""
    conftests = [each for each in frozen if os.path.basename(each) == "conftest.py"]
    starts = [*dict.fromkeys(each.path for each in failing), *conftests]
    return helpers.find(root, starts, partial(frozen_files.holds, frozen, root), worktree.names)


def _not_green(tested: Tested, red: Sequence[str], skipped: Sequence[str] | None) -> list[str]:
    """Why an exit code of 0 is not green for the right reason."""
    if tested.cases is None:
        return [_NO_REPORT]
    outcomes = {case.node_id: case.outcome for case in tested.cases}
    said = [
        f"{node_id} was red, and " + ("did not run" if node_id not in outcomes else f"is {outcomes[node_id]} now")
        for node_id in red
        if outcomes.get(node_id) != WENT_WELL
    ]
    for case in tested.cases:
        if case.outcome in (FAILED, ERROR) and case.node_id not in red:
            said.append(f"{case.node_id} fails, whatever the exit code says")
        elif (
            case.outcome in (SKIPPED, XFAILED) and case.node_id not in (*red, *(skipped or ())) and skipped is not None
        ):
            said.append(f"{case.node_id} is {case.outcome}, and was not when the tests were red")
    return said + _foreign(tested)


def _plugged(tested: Tested, plugins: Sequence[str], frozen: Mapping[str, str]) -> list[str]:
    """The plugins that were not there at red. One that is frozen may be met later: more tests may be run now."""
    said = []
    for name in tested.plugins:
        module = name.replace(".", "/")
        if name not in plugins and not {name, f"{module}.py", f"{module}/__init__.py"}.intersection(frozen):
            said.append(f"the plugin '{name}' was not there when the tests were red")
    return said


def _foreign(tested: Tested) -> list[str]:
    return [f"{each} was imported, which is not in this worktree" for each in tested.foreign]


def _unseen(ground: Ground, work: Work | None, tested: Tested, began: float) -> list[str]:
    return list(unseen(ground, work, tested.own, began)) if work is not None else []


def _unbelievable(canary: Tested) -> list[str]:
    """Why the exit code of a run with a test that has to fail cannot be believed."""
    failed = [each.node_id for each in canary.cases or () if each.outcome in (FAILED, ERROR)]
    if canary.exit_code == EXIT_FAILED and failed == [canary.canary]:
        return []
    return [
        "the exit code cannot be believed: with a test that has to fail, pytest "
        + (
            f"ended with {canary.exit_code}"
            if canary.exit_code != EXIT_FAILED
            else "did not report exactly that one as failed"
        )
    ]


def _files(tested: Tested, red: Sequence[str]) -> Sequence[str]:
    wanted = set(red)
    return sorted({each.path for each in tested.cases or () if each.node_id in wanted})


# -- what is said of it ------------------------------------------------------------------------------------------------


def _judged(gate: str, tested: Tested, vetoes: Sequence[str], wanted: int) -> Verdict:
    collect_error = tested.exit_code == INTERRUPTED and any(
        each.collecting and each.outcome == ERROR for each in tested.cases or ()
    )
    holds = tested.exit_code == wanted and not vetoes
    told = "" if holds else _told(gate, tested, vetoes, collect_error=collect_error)
    return Verdict(gate, holds, tested.exit_code, tuple(vetoes), collect_error, (), {}, tested.plugins, told, tested)


def _refused(
    gate: str, vetoes: Sequence[str], red: Sequence[str] = (), frozen: Mapping[str, str] | None = None
) -> Verdict:
    told = _list("The tests were not run, because:", vetoes) + _advice(gate)
    return Verdict(gate, False, None, tuple(vetoes), False, tuple(red), dict(frozen or {}), (), told, None)


def _interrupted(
    gate: str, tested: Tested, red: Sequence[str] = (), frozen: Mapping[str, str] | None = None
) -> Verdict:
    code = tested.exit_code
    return Verdict(gate, False, code, (), False, tuple(red), dict(frozen or {}), (), "It was interrupted.\n", tested)


def _told(gate: str, tested: Tested, vetoes: Sequence[str], *, collect_error: bool) -> str:
    """What came of it, and what to do, for the one who wrote it."""
    said = _EXITS.get((gate, tested.exit_code), f"pytest ended with {tested.exit_code}.")
    if collect_error:
        failed = [
            f"{each.node_id}: {each.message}"
            for each in tested.cases or ()
            if each.collecting and each.outcome == ERROR
        ]
        said = _list("These could not be collected, since they, or what they import, cannot be imported:", failed)
    elif gate == GREEN and tested.exit_code == EXIT_FAILED:
        failed = [f"{each.node_id}: {each.message}" for each in tested.cases or () if each.outcome in (FAILED, ERROR)]
        said = _list("These tests do not pass:", failed) if failed else said
    said = said if said.endswith("\n") else said + "\n"
    if not vetoes:
        return said
    return said + _list("The exit code does not count, because:", vetoes) + _advice(gate)


def _list(heading: str, items: Sequence[str]) -> str:
    shown = [f"- {each}" for each in items[:_MOST_TOLD]]
    more = [f"- and {len(items) - _MOST_TOLD} more"] if len(items) > _MOST_TOLD else []
    return "\n".join([heading, *shown, *more]) + "\n"


def _advice(gate: str) -> str:
    return _ADVICE[gate]


_ADVICE = {
    RED: "Only add tests that call the code and fail because it is not written yet. Leave tests that were there, hooks,"
    " and pytest's configuration alone.\n",
    GREEN: "Leave tests, conftests and pytest's configuration as they are, and make them pass by the code alone.\n",
}
_EXITS = {
    (RED, PASSED): "The tests passed prematurely (exit 0): before the code is written, each new test has to fail.",
    (RED, EXIT_FAILED): "Tests failed (exit 1).",
    (RED, BAD_USAGE): "pytest could not be started as it was (exit 4): a path that is not there, or a conftest that"
    " cannot be imported.",
    (RED, NOTHING_COLLECTED): "No tests were collected (exit 5).",
    (GREEN, PASSED): "pytest ended with 0.",
    (GREEN, EXIT_FAILED): "Tests failed (exit 1).",
    (GREEN, BAD_USAGE): "pytest could not be started as it was (exit 4).",
    (GREEN, NOTHING_COLLECTED): "No tests were collected (exit 5).",
    (RED, TIMED_OUT): "The tests took too long.",
    (GREEN, TIMED_OUT): "The tests took too long.",
}
