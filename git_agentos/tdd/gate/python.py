"""Which Python the tests run with, and where what is installed editable there comes from.

agentos.tdd.python says it; else it is that of a `.venv` in the worktree or in the main checkout, else of VIRTUAL_ENV,
else the one that this runs with. It is asked by running it: whether pytest is there, and from where it imports.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from git_agentos.errors import TddError
from git_agentos.process import programs

_PATIENCE = 120.0
_MARK = "agentos-probe:"
# Run by any Python 3 that may be there. An editable project of setuptools' has a module of its own for it, which knows
# where its packages are.
_PROBE = f"""
import json, sys
places = [each for each in sys.path[1:] if each]
for module in list(sys.modules.values()):
    mapping = getattr(module, "MAPPING", None)
    if getattr(module, "__name__", "").startswith("__editable__") and isinstance(mapping, dict):
        places += [path.rpartition("/")[0] for name, path in mapping.items() if path.endswith("/" + name)]
others = [each for each in sys.meta_path if getattr(each, "__module__", "").partition(".")[0] != "_frozen_importlib"
          and getattr(each, "__module__", "") != "_frozen_importlib_external"]
found = dict(prefix=sys.prefix, base=sys.base_prefix, places=places, finders=bool(others), pytest=None, why="")
try:
    import pytest
    found["pytest"] = str(getattr(pytest, "__version__", "?"))
except Exception as error:
    import importlib.util
    found["why"] = "%s: %s" % (type(error).__name__, error)
    found["pip"] = importlib.util.find_spec("pip") is not None
print({_MARK!r} + json.dumps(found))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that has pytest. `prefix` is that of its virtual environment, None where it is in none; `home` where it
    is installed; `places` are what it imports from by itself, `finders` whether something else finds modules too;
    `hidden` are plugins of pytest there that are not to be loaded."""

    python: str
    prefix: str | None
    home: tuple[str, ...]
    places: tuple[str, ...]
    finders: bool
    hidden: tuple[str, ...] = ()


def is_projects_own(python: str, root: str, main_root: str | None, configured: str) -> bool:
    """Whether an interpreter that was chosen is one of the project: named by its configuration, or in a `.venv`."""
    folders = [os.path.join(each, ".venv", "") for each in (root, main_root) if each is not None]
    return bool(configured) or any(python.startswith(each) for each in folders)


def choose(root: str, main_root: str | None, configured: str, environment: Mapping[str, str]) -> str:
    """The path of the interpreter. TddError where agentos.tdd.python (`configured`) names none."""
    if configured:
        return _configured(configured, root, main_root, environment)
    folders = [os.path.join(each, ".venv") for each in (root, main_root) if each is not None]
    if environment.get("VIRTUAL_ENV"):
        folders.append(environment["VIRTUAL_ENV"])
    candidates = (os.path.join(folder, "bin", "python") for folder in folders)
    return next((each for each in candidates if _can_run(each)), sys.executable)


def _configured(text: str, root: str, main_root: str | None, environment: Mapping[str, str]) -> str:
    if os.sep not in text:
        found = shutil.which(text, path=environment.get("PATH", os.defpath))
    else:
        places = [os.path.join(each, text) for each in (root, main_root) if each is not None]
        found = next((each for each in places if _can_run(each)), None)
    if found is None:
        raise TddError(
            f"there is no interpreter '{text}' (agentos.tdd.python)",
            "git config agentos.tdd.python PATH; a relative one is looked for in the worktree and in the main checkout",
        )
    return found


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def look(python: str, environment: Mapping[str, str]) -> Interpreter:
    """Ask an interpreter. TddError where it cannot be run, or has no pytest."""
    try:
        ended = programs.run([python, "-c", _PROBE], cwd="/", env=environment, timeout=_PATIENCE)
    except OSError as error:
        raise TddError(f"cannot run '{python}': {(error.strerror or str(error)).lower()}", _ANOTHER) from error
    lines = ended.output.decode("utf-8", "replace").splitlines()
    told = next((line[len(_MARK) :] for line in reversed(lines) if line.startswith(_MARK)), None)
    if told is None:
        said = lines[-1].strip() if lines else f"exit code {ended.code}"
        raise TddError(f"'{python}' is no Python that can be used: {said}", _ANOTHER)
    found = json.loads(told)
    if found["pytest"] is None:
        install = f"{python} -m pip install" if found["pip"] else f"uv pip install --python {python}"
        raise TddError(
            f"'{python}' has no pytest that can be imported ({found['why']})",
            f"install it ({install} pytest), or name another interpreter: git config agentos.tdd.python PATH",
        )
    is_venv = found["prefix"] != found["base"]
    home = (os.path.dirname(os.path.realpath(python)), found["prefix"], found["base"])
    return Interpreter(python, found["prefix"] if is_venv else None, home, tuple(found["places"]), found["finders"])


_ANOTHER = "name another interpreter: git config agentos.tdd.python PATH"


def places(root: str, others: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Where modules of the worktree at `root` are imported from: what an interpreter imports from other checkouts
    (`own` are all its places), as it is in the worktree; then the worktree itself, and `src` in it."""
    found = [_translated(root, others, os.path.realpath(each)) for each in own]
    found.append(root)
    source = os.path.join(root, "src")
    if not os.path.exists(os.path.join(source, "__init__.py")):
        found.append(source)
    return tuple(dict.fromkeys(each for each in found if each is not None and os.path.isdir(each)))


def _translated(root: str, others: Sequence[str], real: str) -> str | None:
    folders = real.split(os.sep)
    if "site-packages" in folders or "dist-packages" in folders or _is_below(real, root):
        return None
    found = [each for each in others if _is_below(real, each)]
    return os.path.normpath(os.path.join(root, os.path.relpath(real, max(found, key=len)))) if found else None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
