"""Whether bubblewrap makes sandboxes on this machine."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def _works() -> bool:
    program = shutil.which("bwrap")
    if program is None:
        return False
    argv = [program, "--dev-bind", "/", "/", "--unshare-user", "true"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


needs_bubblewrap = pytest.mark.skipif(
    not _works(), reason="bubblewrap is not installed, or may not make a sandbox here"
)
