"""Which Python runs the tests, where it imports from, and which plugins of pytest there are not the project's.

agentos.tdd.python names it; otherwise it is that of a `.venv` in the worktree or in the main checkout, else that of
VIRTUAL_ENV, else the one that git-agentos runs with. It is run once to find out whether it has pytest.

A project without an environment of its own is tested by the interpreter of git-agentos. pytest loads every plugin that
is installed there, and some dependencies of git-agentos bring one (anyio, langsmith). Those are disabled, so that tests
do what they would do without git-agentos. Plugins that were installed there for another reason are loaded, unless the
environment is one for working on git-agentos itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from git_agentos.errors import TddError, system_reason
from git_agentos.process import programs

_TIMEOUT = 120.0  # seconds for the probe
_PREFIX = "agentos-probe:"
# Any Python 3 can run it. An editable project of setuptools' has a module of its own, which knows its packages' paths.
_PROBE = f"""
import json, sys
folders = [each for each in sys.path[1:] if each]
for module in list(sys.modules.values()):
    mapping = getattr(module, "MAPPING", None)
    if getattr(module, "__name__", "").startswith("__editable__") and isinstance(mapping, dict):
        folders += [path.rpartition("/")[0] for name, path in mapping.items() if path.endswith("/" + name)]
finders = [each for each in sys.meta_path if getattr(each, "__module__", "").partition(".")[0] != "_frozen_importlib"
           and getattr(each, "__module__", "") != "_frozen_importlib_external"]
answer = dict(prefix=sys.prefix, base=sys.base_prefix, folders=folders, finders=bool(finders), pytest=None, why="")
try:
    import pytest
    answer["pytest"] = str(getattr(pytest, "__version__", "?"))
except Exception as error:
    import importlib.util
    answer["why"] = "%s: %s" % (type(error).__name__, error)
    answer["pip"] = importlib.util.find_spec("pip") is not None
print({_PREFIX!r} + json.dumps(answer))
"""
_OURS = "git-agentos"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CHOOSE_ANOTHER = "name another interpreter: git config agentos.tdd.python PATH"


@dataclass(frozen=True)
class Interpreter:
    """A Python that has pytest. `prefix` is that of its virtual environment, None if it is in none; `home` are the
    folders where it is installed; `folders` are those that it imports from, `has_finders` tells whether something else
    finds modules too; `hidden_plugins` are plugins of pytest that are not to be loaded."""

    path: str
    prefix: str | None
    home: tuple[str, ...]
    folders: tuple[str, ...]
    has_finders: bool
    hidden_plugins: tuple[str, ...]


def find_interpreter(
    root: str, main_root: str | None, configured: str, environment: Mapping[str, str], cleaned: Mapping[str, str]
) -> Interpreter:
    """The interpreter for the worktree at `root`. `configured` is agentos.tdd.python, `cleaned` the environment that it
    is run with. TddError if it does not exist, cannot be run, or has no pytest."""
    path = choose_python(root, main_root, configured, environment)
    venvs = [os.path.join(each, ".venv", "") for each in (root, main_root) if each is not None]
    is_projects = bool(configured) or any(path.startswith(each) for each in venvs)
    return _probe(path, cleaned, () if is_projects else plugins_of_git_agentos(path))


def choose_python(root: str, main_root: str | None, configured: str, environment: Mapping[str, str]) -> str:
    """The path of the interpreter; TddError if the configured one does not exist."""
    roots = [each for each in (root, main_root) if each is not None]
    if configured:
        return _configured_python(configured, roots, environment)
    venvs = [os.path.join(each, ".venv") for each in roots]
    if environment.get("VIRTUAL_ENV"):
        venvs.append(environment["VIRTUAL_ENV"])
    candidates = (os.path.join(each, "bin", "python") for each in venvs)
    return next((each for each in candidates if _is_executable(each)), sys.executable)


def _configured_python(configured: str, roots: Sequence[str], environment: Mapping[str, str]) -> str:
    if os.sep not in configured:
        path = shutil.which(configured, path=environment.get("PATH", os.defpath))
    else:
        path = next((each for root in roots if _is_executable(each := os.path.join(root, configured))), None)
    if path is None:
        raise TddError(
            f"there is no interpreter '{configured}' (agentos.tdd.python)",
            "git config agentos.tdd.python PATH; a relative path is searched in the worktree and in the main checkout",
        )
    return path


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _probe(path: str, environment: Mapping[str, str], hidden_plugins: tuple[str, ...]) -> Interpreter:
    try:
        ended = programs.run([path, "-c", _PROBE], cwd="/", env=environment, timeout=_TIMEOUT)
    except OSError as error:
        raise TddError(f"cannot run '{path}': {system_reason(error)}", _CHOOSE_ANOTHER) from error
    lines = ended.output.decode("utf-8", "replace").splitlines()
    line = next((each for each in reversed(lines) if each.startswith(_PREFIX)), None)
    if line is None:
        why = lines[-1].strip() if lines else f"exit code {ended.code}"
        raise TddError(f"'{path}' is not a usable Python: {why}", _CHOOSE_ANOTHER)
    answer = json.loads(line.removeprefix(_PREFIX))
    if answer["pytest"] is None:
        install = f"{path} -m pip install" if answer["pip"] else f"uv pip install --python {path}"
        raise TddError(
            f"'{path}' cannot import pytest ({answer['why']})",
            f"install it ({install} pytest), or {_CHOOSE_ANOTHER}",
        )
    is_venv = answer["prefix"] != answer["base"]
    return Interpreter(
        path,
        answer["prefix"] if is_venv else None,
        (os.path.dirname(os.path.realpath(path)), answer["prefix"], answer["base"]),
        tuple(answer["folders"]),
        answer["finders"],
        hidden_plugins,
    )


# -- where modules of the worktree are ---------------------------------------------------------------------------------


def import_folders(root: str, others: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    """The folders that modules of the worktree at `root` are imported from: what an interpreter imports from `others`
    (other checkouts; `folders` are all of its folders), but in the worktree; then the worktree, and `src` in it."""
    found = [_translate(root, others, os.path.realpath(each)) for each in folders]
    found.append(root)
    source = os.path.join(root, "src")
    if not os.path.exists(os.path.join(source, "__init__.py")):
        found.append(source)
    return tuple(dict.fromkeys(each for each in found if each is not None and os.path.isdir(each)))


def _translate(root: str, others: Sequence[str], real: str) -> str | None:
    parts = real.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts or _is_below(real, root):
        return None
    found = [each for each in others if _is_below(real, each)]
    return os.path.normpath(os.path.join(root, os.path.relpath(real, max(found, key=len)))) if found else None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# -- plugins of git-agentos' own environment ---------------------------------------------------------------------------


def plugins_of_git_agentos(path: str) -> tuple[str, ...]:
    """The plugins of pytest that are installed only for git-agentos, where `path` is the interpreter that it runs with;
    none for another interpreter."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if path != sys.executable and os.path.realpath(prefix) != os.path.realpath(sys.prefix):
        return ()
    installed = {_normalize(each.metadata["Name"]): each for each in metadata.distributions() if each.metadata["Name"]}
    ours = installed.get(_OURS)
    plugins = {
        name: [point.name for point in each.entry_points if point.group == "pytest11"]
        for name, each in installed.items()
    }
    if ours is None or not any(plugins.values()):
        return ()
    others: set[str] = set() if _is_editable(ours) else _installed_for_others(installed)
    return tuple(sorted(plugin for name, each in plugins.items() if name not in others for plugin in each))


def _installed_for_others(installed: Mapping[str, metadata.Distribution]) -> set[str]:
    """The distributions that git-agentos does not need: those requested by name, those that nothing requires, and what
    they require."""
    required = {each for name, one in installed.items() for each in _requirements(name, one)}
    ours = {_OURS, *_requirements(_OURS, installed[_OURS])}  # its extras may have been requested one by one
    waiting = [
        name
        for name, each in installed.items()
        if name not in ours and (name not in required or each.read_text("REQUESTED") is not None)
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and name in installed:
            found.add(name)
            waiting += _requirements(name, installed[name])
    return found


def _requirements(name: str, distribution: metadata.Distribution) -> list[str]:
    """The distributions that one requires; of git-agentos, those of its extras too."""
    wanted = (each for each in distribution.requires or () if name == _OURS or "extra ==" not in each)
    return [_normalize(found[0]) for each in wanted if (found := _NAME.match(each)) is not None]


def _is_editable(distribution: metadata.Distribution) -> bool:
    try:
        body = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(body.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
