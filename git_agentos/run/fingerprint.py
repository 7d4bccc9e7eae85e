"""What a run depends on beside its commit."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from git_agentos import __version__
from git_agentos.git import process


def fingerprint() -> Mapping[str, Any]:
    """What a run depends on beside its commit: the system, versions of git, Python and this tool, and which variables
    are set."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "encoding": sys.getfilesystemencoding(),
        "git": process.run(["--version"]).decode("utf-8", "replace").strip().removeprefix("git version "),
        "tool": f"git-agentos {__version__}",
        "variables": sorted(os.environ),
    }
