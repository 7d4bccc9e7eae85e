"""Runs a command without what only Linux has: `python -m tests.support.without_linux FEATURE -- COMMAND...`.

    proc      no /proc; ps(1), lsof(8) and mount(8) go on to work, as on macOS
    memfd     memfd_create(2) fails as on a kernel that does not have it
    prctl     no subreaper and no signal at the end of a parent
    tmpfile   open(2) with O_TMPFILE fails as on a file system that does not have it

The command and all its children are concerned, sh scripts included: system calls are refused by a seccomp filter
(seccomp(2)), /proc is covered in a mount namespace.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support import substitutes

FEATURES = ("proc", "memfd", "prctl", "tmpfile")


class _Call(NamedTuple):
    """A system call to refuse with an error, if the argument of this number has one of the values, or these bits; with
    neither, always."""

    number: int
    error: int
    argument: int = 0
    values: tuple[int, ...] = ()
    bits: int = 0


# x86-64 (asm/unistd_64.h): memfd_create, prctl with PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER, openat with O_TMPFILE.
_REFUSED = {
    "memfd": _Call(319, errno.ENOSYS),
    "prctl": _Call(157, errno.EINVAL, 0, (1, 36)),
    "tmpfile": _Call(257, errno.EOPNOTSUPP, 2, bits=0o20000000),
}
_LOAD, _IS_EQUAL, _HAS_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # bpf(2)
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_ARGUMENTS = 16  # where they begin in struct seccomp_data

_WITHOUT_PROC = r"""
set -e
mkdir -p "$1/proc" && mount --rbind /proc "$1/proc"
for name in ps lsof mount; do
path=$(command -v $name) || continue
cp "$path" "$1/real-$name"
cat >"$1/$name" <<EOF
#!/bin/sh
# Making a mount needs no /proc, and has to be seen outside.
if [ $name = mount ] && [ \$# -gt 0 ]; then exec "$1/real-mount" "\$@"; fi
exec unshare --mount --propagation private /bin/sh -c '
umount /proc; "$1/real-mount" --rbind "$1/proc" /proc; exec "$1/real-$name" "\$@"' $name "\$@"
EOF
chmod +x "$1/$name"
done
for name in ps lsof mount; do
[ ! -e "$1/$name" ] || "$1/real-mount" --bind "$1/$name" "$(readlink -f "$(command -v $name)")"
done
"$1/real-mount" -t tmpfs -o ro none /proc
shift
exec "$@"
"""


def can_be_without(feature: str) -> bool:
    """Whether this system allows it: a mount namespace, or a filter on x86-64."""
    if feature != "proc":
        return os.uname().machine == "x86_64"
    return substitutes.can_mount()


@functools.cache
def has_subreaper() -> bool:
    """Whether a process here can have the orphans below it as its children."""
    script = "import ctypes, sys; sys.exit(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) != 0)"
    return sys.platform == "linux" and subprocess.run([sys.executable, "-c", script]).returncode == 0


def _filter(call: _Call) -> bytes:
    """A program of the kernel's filter language that refuses one system call."""
    refuse = _step(_RETURN, _ERROR | call.error)
    tests = [_step(_IS_EQUAL, value, 0, 1) + refuse for value in call.values]
    if call.bits:
        tests = [_step(_HAS_BIT, call.bits, 0, 1) + refuse]
    body = b"".join([_step(_LOAD, _ARGUMENTS + 8 * call.argument), *tests]) if tests else refuse
    return b"".join([_step(_LOAD, 0), _step(_IS_EQUAL, call.number, 0, len(body) // 8), body, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _refuse(call: _Call) -> None:
    """Refuse a system call in this process and all that it starts."""
    steps = _filter(call)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(steps) // 8, steps)), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the filter is not accepted")


def main(feature: str, *command: str) -> None:
    """Replace this process by the command, without the feature."""
    if feature == "proc":
        folder = Path(tempfile.mkdtemp(prefix="without-proc-"))
        words = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", _WITHOUT_PROC, "sh", str(folder)]
        os.execvp(words[0], [*words, *command])
    _refuse(_REFUSED[feature])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], *sys.argv[3:])
