"""Git directories of submodules that are not checked out, when their worktree is removed.

A submodule's git directory lies in that of its worktree (`<git dir>/modules/<name>`), and goes with it. All that a
submodule has that is checked out is in the worktree's last checkpoint. The others may have commits of their own that no
checkpoint could reach: they are copied, and put back when the worktree is revived.

    <common dir>/agentos/kept-modules/<id>-<8 hexadecimal digits>/
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

from git_agentos.git import process, worktrees
from git_agentos.git.location import Location
from git_agentos.util import directories

_FOLDER = "kept-modules"
_MODULES = "modules"


def keep(location: Location, id_: str, git_dir: str) -> str | None:
    """Copy the submodules of the worktree `id_`, whose git directory is `git_dir`, where one of them is not checked
    out; where they are kept. OSError where they cannot be copied."""
    modules = os.path.join(git_dir, _MODULES)
    if all(_is_checked_out(each) for each in _git_dirs(modules)):
        return None
    folder = directories.make_own(os.path.join(location.shared_state_dir, _FOLDER))
    target = os.path.join(folder, f"{id_}-{os.urandom(4).hex()}")
    temporary = f"{target}.tmp"
    try:
        shutil.copytree(modules, temporary, symlinks=True)
        os.rename(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    os.sync()
    return target


def drop(kept: str | None) -> None:
    """Remove a copy that `keep` has made: the worktree stays, or is back."""
    if kept is not None:
        shutil.rmtree(kept, ignore_errors=True)


def put_back(location: Location, id_: str, git_dir: str) -> bool:
    """Give the new git directory of the worktree `id_` the submodules that were kept of it last, each that is not there
    already; whether there were any. The copy stays until `forget`."""
    kept = _kept(location, id_)
    if not kept:
        return False
    source, target = kept[-1], os.path.join(git_dir, _MODULES)
    for each in list(_git_dirs(source, inner=False)):
        place = os.path.join(target, os.path.relpath(each, source))
        if not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            shutil.copytree(each, place, symlinks=True)
    return True


def forget(location: Location, id_: str) -> None:
    """Remove what was kept last of the worktree `id_`: it is back."""
    drop(next(reversed(_kept(location, id_)), None))


def _kept(location: Location, id_: str) -> list[str]:
    """The copies of the submodules of the worktree `id_`, the newest last."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    name = re.compile(re.escape(id_) + r"-[0-9a-f]{8}")
    try:
        found = [
            each for each in os.scandir(folder) if name.fullmatch(each.name) and each.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return []
    return [each.path for each in sorted(found, key=lambda each: each.stat().st_ctime_ns)]


def _git_dirs(folder: str, *, inner: bool = True) -> Iterator[str]:
    """The git directories below `folder`; with `inner` those of submodules inside of submodules too."""
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError:
        return
    for each in entries:
        if not each.is_dir(follow_symlinks=False):
            continue
        if not os.path.lexists(os.path.join(each.path, "HEAD")):
            yield from _git_dirs(each.path, inner=inner)
            continue
        yield each.path
        if inner:
            yield from _git_dirs(os.path.join(each.path, _MODULES))


def _is_checked_out(git_dir: str) -> bool:
    """Whether the folder that a submodule's git directory names as its worktree names it as its git directory."""
    asked = ["config", "--file", os.path.join(git_dir, "config"), "--null", "core.worktree"]
    root = os.fsdecode(process.run(asked, cwd=git_dir, ok=(0, 1, 128)).partition(b"\0")[0])
    if not root:
        return False
    pointed = worktrees.read_gitfile(os.path.join(git_dir, root))
    return pointed is not None and os.path.realpath(pointed) == os.path.realpath(git_dir)
