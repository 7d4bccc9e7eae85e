"""How our Python is started: by the hooks that are placed in a repository, and from the settings of other programs."""

from __future__ import annotations

import contextlib
import os
import site
import sys

import git_agentos
from git_agentos.util import files

PACKAGE = os.path.dirname(os.path.abspath(git_agentos.__file__))


def hook_launcher() -> tuple[str, bytes]:
    """The Python with which a hook is run, and its arguments before the hook's name, quoted for sh."""
    return _python(), b"-I -S -c " + quote(_call("git_agentos.launch", "hook"))


def fsmonitor_client() -> bytes:
    """The arguments with which our Python prints what the watch daemon knows, quoted for sh."""
    return b"-I -S -c " + quote(_call("git_agentos.watch.fsmonitor", "main"))


def command() -> str:
    """The command that starts `git agentos`, quoted for sh: for other programs' settings."""
    arguments = b"-I -m git_agentos"
    if not _is_importable(os.path.dirname(PACKAGE)):
        arguments = b"-I -c " + quote(_call("git_agentos.launch", "main"))
    return (quote(_python()) + b" " + arguments).decode("utf-8", "surrogateescape")


def quote(text: str) -> bytes:
    """`text` as one word for sh."""
    return b"'" + os.fsencode(text).replace(b"'", b"'\\''") + b"'"


def _python() -> str:
    """The path of our Python. In an environment that `install.sh` made, it goes by the link to the current environment,
    which stays when that is replaced."""
    python = sys.executable or "/usr/bin/python3"
    link = os.path.join(os.path.dirname(sys.prefix), "venv")
    if os.path.islink(link) and os.path.realpath(link) == os.path.realpath(sys.prefix):
        stable = os.path.join(link, os.path.relpath(python, sys.prefix))
        if os.path.exists(stable):
            return stable
    return python


def _call(module: str, function: str) -> str:
    """A script that calls a function of ours, which need not be installed. With -I, nothing in the current folder is
    imported. With -S as well, Python starts in two thirds of the time; `launch` finds other packages if it needs them.
    """
    home = os.path.dirname(PACKAGE)
    return f"import sys; sys.path.insert(0, {home!r}); from {module} import {function}; {function}()"


def _is_importable(home: str) -> bool:
    """Whether an isolated Python finds packages in `home`: a folder of installed packages, or in a .pth file of one."""
    for packages in site.getsitepackages():
        if os.path.realpath(packages) == os.path.realpath(home):
            return True
        with contextlib.suppress(OSError):
            for name in os.listdir(packages):
                if name.endswith(".pth") and _has_line(os.path.join(packages, name), os.fsencode(home)):
                    return True
    return False


def _has_line(path: str, line: bytes) -> bool:
    try:
        return line in files.read(path).split(b"\n")
    except OSError:
        return False
