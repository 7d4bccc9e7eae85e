"""Deleting folders, whatever their permissions; also in a process that outlives this one.

Run as a script (`deletion.py FOLDER…`), it deletes folders: `remove_in_background` does so.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence

if not __package__:  # as a script with -I: the package is not on the path
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from git_agentos.process import mounts, programs


def remove_in_background(folders: Iterable[str]) -> None:
    """Delete folders, one after the other, in a process of low priority that outlives this one.

    If one cannot be deleted, it stays, and so do those after it. The parent of a folder is deleted too if that
    leaves it empty.
    """
    paths = [os.path.abspath(folder) for folder in folders]
    if paths:
        programs.start_in_background([sys.executable or "python3", "-I", "-S", os.path.abspath(__file__), *paths])


def remove_folder(path: str) -> bool:
    """Delete a folder and everything in it, folders without write permission included; whether it is gone.

    A folder that has a mount point in it stays as it is.
    """
    if mounts.mounted_below(path):
        return False
    if os.path.islink(path) or not os.path.isdir(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return not os.path.lexists(path)
    import shutil  # it takes long to import

    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        for top, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(top, 0o700)  # before its entries are listed
        shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def remove_folders(folders: Iterable[str]) -> None:
    """Delete folders in this process, as `remove_in_background` does."""
    for folder in folders:
        if not remove_folder(folder):
            return
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(folder))


def _main(folders: Sequence[str]) -> None:
    with contextlib.suppress(OSError):
        os.nice(15)
    remove_folders(folders)


if __name__ == "__main__":
    _main(sys.argv[1:])
