"""File systems that are not ext4: FUSE file systems that behave as others do (`passthrough`), and mounts of others.

A kind of file system is a name in MODES, or modes of `passthrough`; or one of IMAGES; or `overlay`.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.support import elsewhere
from tests.support.command_line import Answer
from tests.support.repo import Repo
from tests.support.tool import IN_PROCESS

Fill = Callable[[Repo], object]


class MakeRepo(Protocol):
    """Makes a repository on a file system of this kind, with what `fill` writes into it: on an overlay, that is in the
    lower layer, which is read-only."""

    def __call__(self, kind: str, fill: Fill = ...) -> Repo: ...


MODES = {
    "apfs": "nocase,noform,utf8",
    "exfat": "nocase,nolinks,nosymlinks,nochmod,coarse,nodirsync",
    "share": "nocase,norecase,nolinks,nosymlinks,nomodes,busy,nodirsync",
}
IMAGES = ("btrfs", "xfs", "ntfs")
_IMAGE = 320 << 20  # bytes; xfs wants 300 MB


def mounted(kind: str) -> contextlib.AbstractContextManager[Path]:
    """The root of a file system of this kind, but `overlay`."""
    return _image(kind) if kind in IMAGES else _fuse(MODES.get(kind, kind))


def key(modes: frozenset[str], name: str) -> str:
    """What a file system with these modes compares."""
    if "noform" in modes:
        name = unicodedata.normalize("NFC", name)
    if "nocase" in modes:
        name = name.casefold()
    return unicodedata.normalize("NFC", name) if "noform" in modes else name


def distinct(names: Iterable[bytes]) -> list[bytes]:
    """Those of the names that the file system of the tests allows, and one of each two that are one file there."""
    modes = modes_of(elsewhere.KIND)
    found: dict[str, bytes] = {}
    for name in names:
        with contextlib.suppress(UnicodeEncodeError):
            text = os.fsdecode(name)
            if "utf8" in modes:
                text.encode()
            found.setdefault(key(modes, text), name)
    return list(found.values())


def modes_of(kind: str) -> frozenset[str]:
    """How a kind behaves, in the words of `passthrough`."""
    return frozenset(MODES.get(kind, kind).split(","))


@contextlib.contextmanager
def _fuse(modes: str) -> Iterator[Path]:
    _need_mounts()
    if not os.path.exists("/dev/fuse"):
        pytest.skip("/dev/fuse is missing")
    if not (ctypes.util.find_library("fuse3") or ctypes.util.find_library("fuse")):
        pytest.skip("libfuse is missing (apt install fuse3)")
    with tempfile.TemporaryDirectory(prefix="agentos-fuse-") as folder:
        source, mount, log = (Path(folder, name) for name in ("source", "mount", "log"))
        source.mkdir()
        mount.mkdir()
        with open(log, "wb") as err:
            command = [sys.executable, "-m", "tests.support.passthrough", modes, str(source), str(mount)]
            server = subprocess.Popen(
                command, cwd=Path(__file__).parents[2], stdin=subprocess.DEVNULL, stdout=err, stderr=err
            )
        try:
            deadline = time.monotonic() + 20
            while not os.path.ismount(mount):
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.skip(f"FUSE does not mount here: {log.read_text()[-300:]}")
                time.sleep(0.02)
            yield mount
        finally:
            subprocess.run(["umount", "-l", str(mount)], capture_output=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(5)
            server.kill()
            server.wait()


@contextlib.contextmanager
def _image(kind: str) -> Iterator[Path]:
    """A file system from an image in a file."""
    _need_mounts()
    maker = {
        "btrfs": ["mkfs.btrfs", "-q"],
        "xfs": ["mkfs.xfs", "-q"],
        "ntfs": ["mkfs.ntfs", "-q", "-F", "-f"],
    }[kind]
    mounter = ["mount", "-o", "loop"] if kind != "ntfs" else ["ntfs-3g"]
    with tempfile.TemporaryDirectory(prefix=f"agentos-{kind}-") as folder:
        file, mount = Path(folder, "image"), Path(folder, "mount")
        mount.mkdir()
        with open(file, "wb") as stream:
            stream.truncate(_IMAGE)
        for command in ([*maker, str(file)], [*mounter, str(file), str(mount)]):
            try:
                done = subprocess.run(command, capture_output=True, text=True)
            except FileNotFoundError:
                pytest.skip(f"{command[0]} is missing")
            if done.returncode != 0:
                pytest.skip(f"{kind} cannot be mounted here: {done.stderr.strip()[-200:]}")
        try:
            yield mount
        finally:
            _unmount(mount)


@contextlib.contextmanager
def quota(mebibytes: int) -> Iterator[Path]:
    """A folder in which no more may be written: more is refused with EDQUOT."""
    with _image("btrfs") as mount:
        folder = mount / "limited"
        for command in (
            ["btrfs", "quota", "enable", str(mount)],
            ["btrfs", "subvolume", "create", str(folder)],
            ["btrfs", "qgroup", "limit", f"{mebibytes}M", str(folder)],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"this kernel has no quotas for btrfs: {done.stderr.strip()[-200:]}")
        yield folder


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """While this lasts, `folder` is mounted read-only."""
    _need_mounts()
    for command in (["mount", "--bind", str(folder), str(folder)], ["mount", "-o", "remount,ro,bind", str(folder)]):
        if subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("cannot mount a folder read-only here")
    try:
        yield
    finally:
        _unmount(folder)


@contextlib.contextmanager
def overlay(fill: Callable[[Path], object]) -> Iterator[Path]:
    """The root of an overlay, with what `fill` writes into the folder that becomes its read-only lower layer."""
    _need_mounts()
    # The layers must not be on an overlay themselves.
    with tempfile.TemporaryDirectory(prefix="agentos-overlay-") as folder:
        base = Path(folder)
        if subprocess.run(["mount", "-t", "tmpfs", "agentos-test", folder], capture_output=True).returncode != 0:
            pytest.skip("cannot mount a file system here")
        try:
            lower, upper, work, merged = (base / name for name in ("lower", "upper", "work", "merged"))
            for each in (lower, upper, work, merged):
                each.mkdir()
            fill(lower)
            options = f"lowerdir={lower},upperdir={upper},workdir={work}"
            command = ["mount", "-t", "overlay", "-o", options, "agentos-test", str(merged)]
            if subprocess.run(command, capture_output=True).returncode != 0:
                pytest.skip("this kernel mounts no overlay here")
            try:
                yield merged
            finally:
                _unmount(merged)
        finally:
            _unmount(base)


def _unmount(mount: Path) -> None:
    if subprocess.run(["umount", str(mount)], capture_output=True).returncode != 0:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def _need_mounts() -> None:
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("needs root on Linux, to mount a file system")


def spelt(repo: Repo) -> dict[str, bytes | None]:
    """Every path below the root, as it is spelt on disk, with the bytes of files; without git's and our own."""
    found: dict[str, bytes | None] = {}
    for folder, names, files in os.walk(repo.path):
        names[:] = [name for name in names if name not in (".git", ".agentos")]
        for name in set(files) - {".git"}:
            path = Path(folder, name)
            found[str(path.relative_to(repo.path))] = path.read_bytes()
        for name in names:
            if not any(Path(folder, name).iterdir()):
                found[str(Path(folder, name).relative_to(repo.path)) + "/"] = None
    return found


def ok(done: Answer) -> Answer:
    assert done.code == 0, done.talk
    return done


def checkpoint_from_elsewhere(repo: Repo, folder: Path, fill: Fill) -> str:
    """A checkpoint, in this repository, of the state that `fill` makes of its HEAD on the file system of `folder`."""
    other = Repo.init(folder / "elsewhere")
    other.git("pull", "-q", str(repo.path), "HEAD")
    fill(other)
    taken = IN_PROCESS.checkpoint(other.path)
    repo.git("fetch", "-q", str(other.path), "refs/agentos/timelines/main:refs/agentos/timelines/elsewhere")
    return str(taken["id"])
