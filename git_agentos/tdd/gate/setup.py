"""Where tests run: the worktree, the interpreter, the environment, the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import authorship, worktrees
from git_agentos.git.location import Location
from git_agentos.process.contained import MARK
from git_agentos.tdd.gate import environment as environments
from git_agentos.tdd.gate import own_plugins
from git_agentos.tdd.gate import python as interpreters
from git_agentos.tdd.gate import sandbox as sandboxes
from git_agentos.tdd.gate.python import Interpreter


@dataclass(frozen=True)
class Ground:
    """`here` is the worktree (its root is where pytest starts), `main_root` the main checkout whose copies must not be
    imported (None: there is no other); `python` the interpreter's path, `environment` what the process gets (no keys,
    nothing of git's); `timeout` in seconds; `sandbox` for no network and writes in the worktree alone. `mark` is the
    run's (`process.contained.MARK`). `interpreter` is what `python` said when it was asked."""

    here: OpenWorktree
    main_root: str | None
    python: str
    environment: Mapping[str, str]
    timeout: float
    sandbox: bool
    mark: str
    interpreter: Interpreter | None = None


@dataclass(frozen=True)
class Site:
    """What one run needs, of a ground or of a folder that is in no repository. `others` are the checkouts whose copies
    must not be imported, `bwrap` is where bubblewrap is (None: no sandbox)."""

    location: Location
    agent: str
    others: tuple[str, ...]
    interpreter: Interpreter
    environment: Mapping[str, str]
    timeout: float
    bwrap: str | None


def of(
    here: OpenWorktree, environment: Mapping[str, str], *, timeout: float = 300.0, sandbox: bool = False, mark: str
) -> Ground:
    """The ground of a worktree: the interpreter is agentos.tdd.python, else that of a `.venv` in the worktree or in the
    main checkout, else of VIRTUAL_ENV, else this one. TddError where it has no pytest, or bubblewrap is wanted and not
    there."""
    values = here.settings.values
    main_root = _main_of(here.location)
    configured = config.tdd_python(values) or ""
    clean = environments.clean(environment, config.tdd_pass_environment(values))
    clean |= authorship.variables(here.location.root, environment, clean)
    found = _interpreter(here.location.root, main_root, configured, environment, clean)
    if sandbox:
        sandboxes.program(clean)
    clean = environments.activated(clean, found.prefix)
    return Ground(here, main_root, found.python, {**clean, MARK: mark}, timeout, sandbox, mark, found)


def of_folder(root: str, environment: Mapping[str, str], *, timeout: float, mark: str) -> Site:
    """Where tests of a folder run that is in no repository."""
    clean = environments.clean(environment)
    found = _interpreter(root, None, "", environment, clean)
    clean = environments.activated(clean, found.prefix)
    return Site(Location(root, root, root), "", (), found, {**clean, MARK: mark}, timeout, None)


def _interpreter(
    root: str, main_root: str | None, configured: str, environment: Mapping[str, str], clean: Mapping[str, str]
) -> Interpreter:
    python = interpreters.choose(root, main_root, configured, environment)
    found = interpreters.look(python, clean)
    if interpreters.is_projects_own(python, root, main_root, configured):
        return found
    return replace(found, hidden=own_plugins.names(python))


def site(ground: Ground) -> Site:
    """What one run on a ground needs."""
    location = ground.here.location
    found = ground.interpreter or interpreters.look(ground.python, ground.environment)
    bwrap = sandboxes.program(ground.environment) if ground.sandbox else None
    others = tuple(each.root for each in worktrees.list_existing(location) if each.root != location.root)
    return Site(location, ground.here.agent, others, found, ground.environment, ground.timeout, bwrap)


def _main_of(location: Location) -> str | None:
    """The main checkout; None where this is it, or there is none."""
    if location.is_main:
        return None
    return next((each.root for each in worktrees.list_existing(location) if each.is_main), None)
