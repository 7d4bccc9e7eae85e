"""How pytest is run: the worktree, the interpreter, the environment, the sandbox.

Tests get the environment without keys, without variables of git and of git-agentos, and without what changes how
Python or pytest work. A variable is a key by its name (`redact.is_secret_name`), by its prefix (those of model, cloud
and code-host providers), or by its value (`redact`). agentos.tdd.passEnvironment names what tests need all the same
(the password of a database for tests).

With `--sandbox`, bubblewrap runs them: they have no network, and can write only to the worktree. All files are visible
and read-only, except the worktree (without git's files in it) and the folder of the results. The sandbox has its own
`/tmp` and `/dev`, and an empty `/run`: a socket of a service there could be used to write outside. What is needed and
lies below these (the interpreter, the repository) is visible, read-only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from git_agentos import config, redact
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import TddError
from git_agentos.git import authorship, worktrees
from git_agentos.git.location import Location
from git_agentos.process import programs
from git_agentos.process.marked import MARK
from git_agentos.tdd.gate import python
from git_agentos.tdd.gate.python import Interpreter
from git_agentos.worktree import ports

_NEVER_PASSED = ("GIT_", "AGENTOS_", "PYTEST_")
# PYTHONOPTIMIZE removes asserts; the others add code, or leave some out.
_PYTHON_VARIABLES = (
    "PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONINSPECT PYTHONSAFEPATH PYTHONBREAKPOINT PYTHONWARNINGS"
    " PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONPYCACHEPREFIX PYTHONDEBUG PYTHONVERBOSE __PYVENV_LAUNCHER__"
).split()
_PROVIDERS = tuple(
    (
        "ANTHROPIC_ OPENAI_ AZURE_ AWS_ GOOGLE_ GCP_ GCLOUD_ CLOUDSDK_ GEMINI_ VERTEX_ MISTRAL_ COHERE_ CO_API_ GROQ_"
        " XAI_ DEEPSEEK_ OPENROUTER_ TOGETHER_ FIREWORKS_ REPLICATE_ PERPLEXITY_ PPLX_ HF_ HUGGINGFACE_ HUGGINGFACEHUB_"
        " LANGCHAIN_ LANGSMITH_ LANGGRAPH_ CLAUDE_ CODEX_ CURSOR_ COPILOT_ GH_ GITHUB_ GITLAB_ BITBUCKET_ NPM_TOKEN"
        " TWINE_ SSH_ GPG_ VAULT_ DOCKER_AUTH_ KUBECONFIG NETRC"
    ).split()
)
_HARMLESS = ("PWD", "OLDPWD")  # their names look like those of secrets
# Of the sandbox: what is empty in it, what is not the machine's, and what of the worktree cannot be written.
_HIDDEN = ("/tmp", "/run", "/var/tmp")
_REPLACED = (*_HIDDEN, "/dev")
_NOT_WRITTEN = (".git", ".agentos")


@dataclass(frozen=True)
class PytestSetup:
    """What a run of pytest needs. `main_root` is the main checkout (None: this is it, or there is none);
    `other_checkouts` are all others of the repository, whose copies must not be imported; `environment` is the
    process's, with the mark of the run (`process.marked.MARK`); `timeout` is in seconds; `bwrap` is the path of
    bubblewrap (None: no sandbox)."""

    location: Location
    main_root: str | None
    other_checkouts: tuple[str, ...]
    interpreter: Interpreter
    environment: Mapping[str, str]
    timeout: float
    bwrap: str | None


def prepare(
    context: OpenWorktree, environment: Mapping[str, str], *, timeout: float = 300.0, sandbox: bool = False, mark: str
) -> PytestSetup:
    """The setup of a worktree. TddError if the interpreter has no pytest, or the sandbox cannot be made."""
    location, values = context.location, context.settings.values
    main_root = _main_root(location)
    configured = config.tdd_python(values) or ""
    cleaned = clean_environment(environment, config.tdd_pass_environment(values))
    cleaned |= authorship.variables(location.root, environment, cleaned)
    cleaned |= ports.variables_of(location.git_dir)
    interpreter = python.find_interpreter(location.root, main_root, configured, environment, cleaned)
    bwrap = _find_bubblewrap(cleaned) if sandbox else None
    others = tuple(each.root for each in worktrees.list_existing(location) if each.root != location.root)
    activated = {**_activate(cleaned, interpreter.prefix), MARK: mark}
    return PytestSetup(location, main_root, others, interpreter, activated, timeout, bwrap)


def prepare_folder(root: str, environment: Mapping[str, str], *, timeout: float, mark: str) -> PytestSetup:
    """The setup of a folder that is in no repository."""
    cleaned = clean_environment(environment)
    interpreter = python.find_interpreter(root, None, "", environment, cleaned)
    activated = {**_activate(cleaned, interpreter.prefix), MARK: mark}
    return PytestSetup(Location.read(root, root, root), None, (), interpreter, activated, timeout, None)


def clean_environment(base: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """The variables of `base` that tests get. Those named in `passed` may be keys."""
    allowed = set(passed)
    cleaned = {
        name: value
        for name, value in base.items()
        if not name.startswith(_NEVER_PASSED)
        and name not in _PYTHON_VARIABLES
        and (name in allowed or not _is_key(name, value))
    }
    cleaned["PYTHONDONTWRITEBYTECODE"] = "1"
    cleaned["PYTHONUNBUFFERED"] = "1"  # no output is lost if the process ends at once
    return cleaned


def _is_key(name: str, value: str) -> bool:
    if name in _HARMLESS:
        return False
    return name.upper().startswith(_PROVIDERS) or redact.is_secret_name(name) or redact.redact(value)[1] > 0


def _activate(environment: Mapping[str, str], prefix: str | None) -> dict[str, str]:
    """The environment of an activated virtual environment at `prefix`; None: of none."""
    activated = {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"}
    if prefix is not None:
        activated["VIRTUAL_ENV"] = prefix
        folders = [each for each in activated.get("PATH", os.defpath).split(os.pathsep) if each]
        activated["PATH"] = os.pathsep.join(dict.fromkeys([os.path.join(prefix, "bin"), *folders]))
    return activated


def _main_root(location: Location) -> str | None:
    if location.is_main:
        return None
    return next((each.root for each in worktrees.list_existing(location) if each.is_main), None)


# -- the sandbox -------------------------------------------------------------------------------------------------------


def _find_bubblewrap(environment: Mapping[str, str]) -> str:
    """The path of bubblewrap. TddError if it is missing, or cannot make a sandbox."""
    found = programs.find_bubblewrap(environment, TddError)
    programs.require_sandbox([found, *_bare()], environment, TddError)
    return found


def within_sandbox(bwrap: str, location: Location, needed: Sequence[str], writable: str) -> list[str]:
    """The words before a command. `needed` are folders that must be visible, `writable` is one outside of the worktree
    that can be written."""
    words = [bwrap, *_bare()]
    for path in _outer_first((location.common_dir, *needed)):
        if _is_hidden(path):
            words += ["--ro-bind", path, path]
    for path in _outer_first((location.root, writable)):
        words += ["--bind", path, path]
    for name in _NOT_WRITTEN:
        path = os.path.join(location.root, name)
        if os.path.exists(path) and not os.path.islink(path):
            words += ["--ro-bind", path, path]
    return [*words, "--chdir", location.root, "--"]


def _bare() -> list[str]:
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--unshare-user", "--unshare-net", "--unshare-pid"]
    words += ["--unshare-ipc", "--proc", "/proc", "--die-with-parent", "--cap-drop", "ALL"]
    for path in _HIDDEN:
        if os.path.isdir(path) and not os.path.islink(path):
            words += ["--tmpfs", path]
    return [*words, "--setenv", "TMPDIR", "/tmp"]


def _outer_first(paths: Sequence[str]) -> list[str]:
    real = {os.path.realpath(path) for path in paths if path}
    return sorted((path for path in real if os.path.exists(path)), key=lambda path: (path.count(os.sep), path))


def _is_hidden(path: str) -> bool:
    return any(path.startswith(each + os.sep) for each in _REPLACED)
