"""`tdd gate`: the two gates alone, in any worktree; for other agents and for CI.

What `red` froze is kept in the worktree's own state folder (`tdd-gate.json` in `Location.state_dir`), which no commit
holds, as one JSON document with a MAC by the user's key: `version` 1; `red`, `frozen`, `plugins`, `skipped`, `rest` as
in `gates.Verdict`; `tests`, what was run. A red gate that does not hold leaves the one before as it was: what it was
asked about is new to that, and a veto.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import TddError, UsageError
from git_agentos.git import process, state_dir
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.tdd.gate import gates
from git_agentos.tdd.gate import setup as grounds
from git_agentos.tdd.gate.gates import Verdict
from git_agentos.tdd.gate.setup import Ground
from git_agentos.util import files
from git_agentos.worktree import record

_NAME = "tdd-gate.json"
_KIND = "tdd-gate"
_ANEW = "git agentos tdd gate red -- TESTS... makes it anew, before the code is written"
_VERSION = 1
_MOST = 64 << 20


@dataclass(frozen=True)
class Gate:
    """What a gate says; the fields are the keys of the JSON kind `tdd-gate`.

    `gate` is `red` or `green`; `holds` what the command's exit code says. `exit_code` is pytest's, None where a veto
    stood before the run. `red` are the tests that were red, `frozen` the sha256 of what is frozen; empty where the red
    gate does not hold. `tests` is what was asked to be run, empty for all that the project's configuration says.
    `feedback` is for the one who wrote it, `output` what pytest said, bounded and without secrets. `seconds` and
    `command` are those of the run, None where there was none.
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


def red(
    here: OpenWorktree,
    directory: str,
    tests: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout: float = 300.0,
    sandbox: bool = False,
    show: Callable[[bytes], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Gate:
    """Whether `tests` (files, folders, node ids; relative to the folder `directory`) fail as new tests should; then
    everything is frozen."""
    wanted = _below_root(here.location, directory, tests)
    ground = _ground(here, environment, timeout, sandbox)
    verdict = gates.red(ground, None, wanted, show=show, stop=stop)
    if verdict.holds:
        _keep(here.location, verdict, wanted)
    return _told(ground, verdict, wanted)


def green(
    here: OpenWorktree,
    directory: str,
    tests: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout: float = 300.0,
    sandbox: bool = False,
    show: Callable[[bytes], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Gate:
    """Whether what was red passes now, unchanged, and `tests` beside it (none: all of the project's). TddError where
    nothing was red in this worktree."""
    kept = _kept(here.location)
    wanted = _below_root(here.location, directory, tests)
    if wanted:
        wanted += tuple(each for each in kept.red if not _covers(wanted, each))
    ground = _ground(here, environment, timeout, sandbox)
    verdict = gates.green(
        ground,
        kept.red,
        kept.frozen,
        kept.plugins,
        wanted,
        skipped=_skipped(kept, wanted),
        rest=kept.rest,
        show=show,
        stop=stop,
    )
    return _told(ground, verdict, wanted)


@dataclass(frozen=True)
class _Kept:
    """What the red gate left."""

    frozen: Mapping[str, str]
    red: tuple[str, ...]
    plugins: tuple[str, ...]
    skipped: tuple[str, ...]
    tests: tuple[str, ...]
    rest: str | None


def _ground(here: OpenWorktree, environment: Mapping[str, str], timeout: float, sandbox: bool) -> Ground:
    return grounds.of(here, environment, timeout=timeout, sandbox=sandbox, mark=uuid.uuid4().hex)


def _told(ground: Ground, verdict: Verdict, tests: Sequence[str]) -> Gate:
    tested = verdict.tested
    return Gate(
        verdict.gate,
        verdict.holds,
        verdict.exit_code,
        verdict.vetoes,
        verdict.collect_error,
        verdict.red,
        verdict.frozen,
        tuple(tests),
        verdict.feedback,
        tested.output if tested is not None else "",
        tested.seconds if tested is not None else None,
        tested.command if tested is not None else None,
        ground.python,
        ground.here.location.root,
        tested is not None and tested.interrupted,
    )


def _below_root(location: Location, directory: str, tests: Sequence[str]) -> tuple[str, ...]:
    """Tests as they are called from the worktree's root; UsageError for one that is not in it."""
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


def _skipped(kept: _Kept, tests: Sequence[str]) -> Sequence[str] | None:
    """What did not run at red; not known where more is run now than then."""
    return kept.skipped if tests and all(_covers(kept.tests, each) for each in tests) else None


# -- what is kept --------------------------------------------------------------------------------------------------


def _path(location: Location) -> str:
    return os.path.join(location.state_dir, _NAME)


def _keep(location: Location, verdict: Verdict, tests: Sequence[str]) -> None:
    body = {
        "version": _VERSION,
        "red": list(verdict.red),
        "frozen": dict(verdict.frozen),
        "plugins": list(verdict.plugins),
        "skipped": list(verdict.skipped),
        "tests": list(tests),
        "rest": verdict.rest,
    }
    signed = signing.sign_document(_KIND, _worktree(location), body, signing.key(process.environment()))
    with state_dir.lock(location, "tdd-gate"):
        record.put(_path(location), json.dumps(signed) + "\n")


def _kept(location: Location) -> _Kept:
    path = _path(location)
    try:
        body = json.loads(files.read(path, limit=_MOST))
        if body["version"] != _VERSION:
            raise ValueError(body["version"])
        red, plugins, skipped, tests = (
            tuple(str(each) for each in body[key]) for key in ("red", "plugins", "skipped", "tests")
        )
        frozen = {str(key): str(value) for key, value in body["frozen"].items()}
        rest = body.get("rest")
    except FileNotFoundError:
        raise TddError(
            "no tests were red in this worktree", "git agentos tdd gate red -- TESTS..., before the code is written"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TddError(f"'{path}' cannot be read: {error}", _ANEW) from error
    known = signing.key(process.environment(), make=False)
    if known is None and body.get("mac") is not None:
        raise TddError(f"the key that '{path}' is signed with cannot be read", _ANEW)
    if known is not None and not signing.verify_document(_KIND, _worktree(location), body, known):
        raise TddError(f"'{path}' is not as the red gate wrote it", _ANEW)
    return _Kept(frozen, red, plugins, skipped, tests, rest if isinstance(rest, str) else None)


def _worktree(location: Location) -> str:
    """What tells a worktree from others of its repository, wherever that is moved."""
    return os.path.relpath(location.git_dir, location.common_dir)
