"""Runs a command where other programs stand in the place of the system's: another sh, busybox's or toybox's tools.

The scripts name no path but `/bin/sh`, and `command -p` searches the system's own folders, so that PATH cannot replace
what they run. Here the files themselves are covered by bind mounts, in a mount namespace of the command alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_MOUNT = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit 125; shift 2; done; shift; exec "$@"'


def can_mount() -> bool:
    """Whether this user may mount in a namespace of its own."""
    command = ["unshare", "--mount", "--propagation", "private", "true"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def other_sh(program: str) -> dict[str, str]:
    """What covers `/bin/sh` by `program`."""
    return {os.path.realpath("/bin/sh"): program}


def tools_of(program: str, names: Sequence[str]) -> dict[str, str]:
    """What covers the programs in `names` by one that has them all in it; those that it does not have are left out."""
    option = "--list" if os.path.basename(program) == "busybox" else "--long"
    listed = subprocess.run([program, option], capture_output=True, text=True, check=True).stdout.split()
    has = {Path(name).name for name in listed}
    found = ((name, shutil.which(name, path="/usr/bin:/bin")) for name in names if name in has)
    return {os.path.realpath(path): program for name, path in found if path is not None and Path(path).name == name}


def run_with(
    substitutes: Mapping[str, str], command: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run `command` in `cwd` with each file (key) covered by another program (value)."""
    pairs = [word for target, source in substitutes.items() for word in (source, target)]
    words = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", _MOUNT, "sh", *pairs, "--", *command]
    return subprocess.run(words, capture_output=True, text=True, env=dict(environment), cwd=cwd, check=False)
