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
    return _python(), _arguments("git_agentos.hooks", "git_agentos.hooks.entry")


def fsmonitor_client() -> bytes:
    """The arguments with which our Python prints what the watch daemon knows, quoted for sh. Without the site's
    packages it starts in two thirds of the time, and it needs none."""
    home = os.path.dirname(PACKAGE)
    script = f"import sys; sys.path.insert(0, {home!r}); from git_agentos.watch.fsmonitor import main; main()"
    return b"-I -S -c " + quote(script)


def command() -> str:
    """The command that starts `git agentos`, quoted for sh: for other programs' settings."""
    return (quote(_python()) + b" " + _arguments("git_agentos", "git_agentos.cli.entry")).decode(
        "utf-8", "surrogateescape"
    )


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


def _arguments(module: str, entry: str) -> bytes:
    """`-I` (nothing in the current folder is imported) and the module, which need not be installed."""
    home = os.path.dirname(PACKAGE)
    if _is_importable(home):
        return b"-I -m " + module.encode("ascii")
    # `main` of the hooks takes its arguments, that of the command line reads them itself.
    call = "sys.exit(main(sys.argv[1:]))" if entry.endswith("hooks.entry") else "main()"
    return b"-I -c " + quote(f"import sys; sys.path.insert(0, {home!r}); from {entry} import main; {call}")


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
