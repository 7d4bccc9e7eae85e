"""`tdd gate`: the two gates alone, in any worktree; for other agents and for CI.

The red gate's record is kept in the worktree's own state folder (`tdd-gate.json` in `Location.state_dir`), which is in
no commit: one JSON document with a MAC by the user's key. Its keys are `version` (1), the fields of `gates.RedRecord`,
and `tests` (what was run). A red gate that does not hold leaves an earlier record as it was: to that, the tests in
question are new, and a veto.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import TddError, UsageError
from git_agentos.git import process, state_dir
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.tdd.gate import gates
from git_agentos.tdd.gate.gates import RedRecord, Verdict
from git_agentos.tdd.gate.pytest_run import Control
from git_agentos.tdd.gate.setup import PytestSetup, prepare
from git_agentos.util import files

_NAME = "tdd-gate.json"
_KIND = "tdd-gate"
_VERSION = 1
_MAX_BYTES = 64 << 20
_REPEAT = "repeat git agentos tdd gate red -- TESTS..., before the code is written"


@dataclass(frozen=True)
class GateResult:
    """The result of a gate; the fields are the keys of the JSON kind `tdd-gate`.

    `gate` is `red` or `green`; `holds` is the command's exit code. `exit_code` is pytest's, None if a veto stood
    before the run. `red` are the tests that were red, `frozen` the hashes of what is frozen; empty if the red gate
    does not hold. `tests` are those that were asked for, empty for all that the project's configuration names.
    `feedback` is for the author of the code, `output` is pytest's, bounded and without secrets. `seconds` and `command`
    are those of the run, None if there was none.
    """

    gate: str
    holds: bool
    exit_code: int | None
    vetoes: tuple[str, ...]
    collect_error: bool
    red: tuple[str, ...]
    frozen: Mapping[str, str]
    tests: tuple[str, ...]
    feedback: str
    output: str
    seconds: float | None
    command: tuple[str, ...] | None
    python: str
    worktree_path: str
    interrupted: bool


@dataclass(frozen=True)
class GateOptions:
    """How the tests are run: the environment, the limit in seconds, in a sandbox or not, and how the run is watched."""

    environment: Mapping[str, str]
    timeout: float = 300.0
    sandbox: bool = False
    control: Control | None = None


def red(context: OpenWorktree, directory: str, tests: Sequence[str], options: GateOptions) -> GateResult:
    """Whether `tests` (files, folders, node ids; relative to the folder `directory`) fail as new tests should. If they
    do, they are frozen."""
    wanted = _relative_to_root(context.location, directory, tests)
    setup = _setup(context, options)
    verdict = gates.red(context, setup, wanted, control=options.control)
    if verdict.record is not None:
        _write_record(context.location, verdict.record, wanted)
    return _result(setup, verdict, wanted)


def green(context: OpenWorktree, directory: str, tests: Sequence[str], options: GateOptions) -> GateResult:
    """Whether what was red passes now, unchanged, and `tests` as well (none: all of the project's). TddError if
    nothing was red in this worktree."""
    record, red_tests = _read_record(context.location)
    wanted = _relative_to_root(context.location, directory, tests)
    if wanted:
        wanted += tuple(each for each in record.red if not _covers(wanted, each))
    if not wanted or not all(_covers(red_tests, each) for each in wanted):
        record = replace(record, skipped=None)  # more is run than at red
    setup = _setup(context, options)
    verdict = gates.green(context, setup, wanted, record, control=options.control)
    return _result(setup, verdict, wanted)


def _setup(context: OpenWorktree, options: GateOptions) -> PytestSetup:
    return prepare(
        context, options.environment, timeout=options.timeout, sandbox=options.sandbox, mark=uuid.uuid4().hex
    )


def _result(setup: PytestSetup, verdict: Verdict, tests: Sequence[str]) -> GateResult:
    result, record = verdict.result, verdict.record
    return GateResult(
        gate=verdict.gate,
        holds=verdict.holds,
        exit_code=verdict.exit_code,
        vetoes=verdict.vetoes,
        collect_error=verdict.collect_error,
        red=record.red if record is not None else (),
        frozen=record.frozen if record is not None else {},
        tests=tuple(tests),
        feedback=verdict.feedback,
        output=result.output if result is not None else "",
        seconds=result.seconds if result is not None else None,
        command=result.command if result is not None else None,
        python=setup.interpreter.path,
        worktree_path=setup.location.root,
        interrupted=result is not None and result.interrupted,
    )


def _relative_to_root(location: Location, directory: str, tests: Sequence[str]) -> tuple[str, ...]:
    """Tests by their paths in the worktree; UsageError for one that is not in it."""
    found = []
    for each in tests:
        path, colons, rest = each.partition("::")
        folder, name = os.path.split(os.path.join(directory, path))
        path = os.path.relpath(os.path.join(os.path.realpath(folder), name), location.root)
        if path == ".." or path.startswith("../"):
            raise UsageError(f"'{each}' is not in the worktree '{location.root}'")
        found.append(path + colons + rest)
    return tuple(found)


def _covers(tests: Sequence[str], node_id: str) -> bool:
    return any(each == "." or node_id == each or node_id.startswith((each + "::", each + "/")) for each in tests)


# -- the record of the red gate ----------------------------------------------------------------------------------------


def _path(location: Location) -> str:
    return os.path.join(location.state_dir, _NAME)


def _write_record(location: Location, record: RedRecord, tests: Sequence[str]) -> None:
    body = {"version": _VERSION, **record.to_json(), "tests": list(tests)}
    signed = signing.sign_document(_KIND, _worktree(location), body, signing.key(process.environment()))
    with state_dir.lock(location, "tdd-gate"):
        files.replace(_path(location), json.dumps(signed).encode("ascii") + b"\n")


def _read_record(location: Location) -> tuple[RedRecord, tuple[str, ...]]:
    """The record of the red gate, and the tests that it was asked about."""
    path = _path(location)
    try:
        body = files.read_object(path, limit=_MAX_BYTES)
        if body["version"] != _VERSION:
            raise ValueError(body["version"])
        record, tests = RedRecord.from_json(body), tuple(map(str, body["tests"]))
    except FileNotFoundError:
        raise TddError(
            "no tests were red in this worktree", "git agentos tdd gate red -- TESTS..., before the code is written"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TddError(f"'{path}' cannot be read: {error}", _REPEAT) from error
    key = signing.key(process.environment(), make=False)
    if key is None and body.get("mac") is not None:
        raise TddError(f"the key that '{path}' is signed with cannot be read", _REPEAT)
    if key is not None and not signing.verify_document(_KIND, _worktree(location), body, key):
        raise TddError(f"'{path}' is not as the red gate wrote it", _REPEAT)
    return record, tests


def _worktree(location: Location) -> str:
    """A name of a worktree in its repository that stays when either is moved."""
    return os.path.relpath(location.git_dir, location.common_dir)
