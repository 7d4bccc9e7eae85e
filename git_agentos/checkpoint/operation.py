"""The operation in progress (merge, rebase, cherry-pick, revert, am, bisect): its files and its refs.

git keeps it in files of the worktree's git directory and in `refs/bisect/`; they are saved as bytes, so an operation
can continue after a restore whichever version of git wrote them. `CHERRY_PICK_HEAD` and others are refs that may be in
no file (`refs.is_file`): these are saved as the files would be.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping

from git_agentos.errors import CheckpointFormatError
from git_agentos.git import refs
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.util import files

_FILES = (
    "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "MERGE_AUTOSTASH", "AUTO_MERGE", "SQUASH_MSG",
    "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD",
)  # fmt: skip
_ORIG_HEAD = "ORIG_HEAD"
_DIRECTORIES = ("rebase-merge", "rebase-apply", "sequencer")
_REFS = (
    _ORIG_HEAD, "AUTO_MERGE", "BISECT_EXPECTED_REV", "BISECT_HEAD", "CHERRY_PICK_HEAD", "MERGE_AUTOSTASH", "MERGE_HEAD",
    "REBASE_HEAD", "REVERT_HEAD",
)  # fmt: skip
_BISECT = "BISECT_"
_BISECT_REFS = "refs/bisect/"
# Files that show which operation is in progress, the outermost operation first.
_SIGNS = (
    ("am", "rebase-apply/applying"),
    ("rebase", "rebase-merge/"),
    ("rebase", "rebase-apply/"),
    ("cherry-pick", "CHERRY_PICK_HEAD"),
    ("revert", "REVERT_HEAD"),
    ("merge", "MERGE_HEAD"),
    ("bisect", "BISECT_LOG"),
)
_HEX = rb"(?<![0-9a-f])[0-9a-f]{7,}(?![0-9a-f])"
_MOST_PINS = 2000


def read(location: Location) -> dict[str, bytes]:
    """Name (relative to the git directory) -> content of everything that belongs to an operation in progress."""
    found: dict[str, bytes] = {}
    with os.scandir(location.git_dir) as entries:
        names = {entry.name: entry for entry in entries}
    for name in sorted(names):
        if name in _FILES or (name.startswith(_BISECT) and not name.endswith(".lock")):
            with contextlib.suppress(FileNotFoundError), open(names[name].path, "rb") as file:
                found[name] = file.read()
        elif name in _DIRECTORIES:
            for folder, _, files in os.walk(names[name].path):
                for file_name in sorted(files):
                    path = os.path.join(folder, file_name)
                    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                        found[os.path.relpath(path, location.git_dir)] = file.read()
    kept = {name: oid.encode() + b"\n" for name, oid in refs.root_refs(location).items() if name in _REFS}
    found.update({name: data for name, data in kept.items() if name != _ORIG_HEAD})
    # The refs are read only if there is a log: git leaves none behind, and listing them takes time.
    if any(name.startswith(_BISECT) for name in found) or os.path.isdir(os.path.join(location.git_dir, _BISECT_REFS)):
        for name, oid in refs.list_refs(location, _BISECT_REFS).items():
            found[name] = oid.encode() + b"\n"
    # `git am --abort` resets to ORIG_HEAD. For other operations it is a by-product that the next command moves.
    if "rebase-apply/applying" in found:
        if _ORIG_HEAD in kept:
            found[_ORIG_HEAD] = kept[_ORIG_HEAD]
        with contextlib.suppress(FileNotFoundError), open(os.path.join(location.git_dir, _ORIG_HEAD), "rb") as file:
            found[_ORIG_HEAD] = file.read()
    # The message file of an aborted command is not an operation, but it belongs to the state.
    return found


def name_of(files: Mapping[str, object]) -> str | None:
    """The operation's name; None if none is in progress."""
    for operation, sign in _SIGNS:
        if any(name == sign or (sign.endswith("/") and name.startswith(sign)) for name in files):
            return operation
    if any(name.startswith("sequencer/") for name in files):
        return "cherry-pick"
    return None


def detaches_head(operation: str | None) -> bool:
    """Whether the operation works with a HEAD that it has detached from the user's branch."""
    return operation in ("rebase", "bisect")


def store(files: Mapping[str, bytes], writer: Writer) -> dict[str, str]:
    """Write the files' contents as blobs: name -> oid."""
    return {name: writer.write("blob", data) for name, data in files.items()}


def pins(repository: Repository, files: Mapping[str, bytes]) -> tuple[list[str], dict[str, str]]:
    """The commits that the operation needs, heads first and without those that others reach; and the trees."""
    if not files:
        return [], {}
    commits: dict[str, None] = {}
    found_trees: dict[str, str] = {}
    order = sorted(files, key=lambda name: (len(files[name]), name))
    for name in order:
        if name == "MERGE_RR" or name.endswith(("message", "MSG", "patch", "author-script")):
            continue
        for match in re.findall(_HEX, files[name]):
            if len(commits) >= _MOST_PINS:
                break
            found = repository.lookup(match.decode())
            if found is None:
                continue
            kind, oid = found
            if kind == "commit":
                commits.setdefault(oid)
            elif kind == "tree" and oid != repository.hash.empty_tree:
                found_trees[name.replace("/", "-")] = oid
    return repository.independent(list(commits)), found_trees


def check_names(names: Iterable[str]) -> None:
    """Refuse names that no operation has: a checkpoint may be from another repository, and writing `config` or `hooks/`
    would let it run programs."""
    for name in names:
        top = name.split("/")[0]
        known = (
            name in (*_FILES, _ORIG_HEAD)
            or (top in _DIRECTORIES and "/" in name)
            or name.startswith((_BISECT, _BISECT_REFS))
        )
        if not known or ".." in name.split("/") or (name.startswith(_BISECT) and "/" in name):
            raise CheckpointFormatError(f"the checkpoint names the file '{name}' in the git directory")


def write(location: Location, wanted: Mapping[str, bytes], *, scratch: str) -> None:
    """Make the operation in progress exactly `wanted`, file by file; `scratch` is an empty directory beside them."""
    present = read(location)
    for name in present.keys() - wanted.keys():
        if _is_ref(location, name):
            refs.delete(location, name)
    for name, data in wanted.items():
        if present.get(name) == data:
            continue
        if _is_ref(location, name):
            refs.update(location, name, data.strip().decode(), refs.resolve(location, name))
            continue
        target = os.path.join(location.git_dir, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        files.replace(target, data, temporary=os.path.join(scratch, "operation-file"))
    # Remove files last, so that a directory such as rebase-merge is never incomplete.
    for name in sorted(present.keys() - wanted.keys()):
        if not _is_ref(location, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(location.git_dir, name))
    for directory in _DIRECTORIES:
        if not any(name.startswith(directory + "/") for name in wanted):
            import shutil  # only a restore needs it

            shutil.rmtree(os.path.join(location.git_dir, directory), ignore_errors=True)


def _is_ref(location: Location, name: str) -> bool:
    """Whether a part of an operation is a ref, which is not changed as a file."""
    return name.startswith(_BISECT_REFS) or (name in _REFS and not refs.is_file(location, name))
