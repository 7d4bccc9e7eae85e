"""A folder in which git has objects of its own, beside those of the store: what is looked at before it is kept, or is
sent away and not kept at all.

`GIT_OBJECT_DIRECTORY` is the folder, and the store is an alternate of it. `GIT_SHALLOW_FILE` names the commits whose
parents are not here, of which a remote is told when something is fetched; `GIT_GRAFT_FILE` those whose parents are left
out of everything, of which nobody is told.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from git_agentos.git import process, refs, state_dir
from git_agentos.git.objects import alternates
from git_agentos.git.repository import Repository
from git_agentos.util.named_tuple import NamedTuple

_FEWEST_IN_A_PACK = 100  # git's own fetch.unpackLimit
_OBJECTS, _SHALLOW, _GRAFTS, _PACK = "objects", "shallow", "grafts", "kept.pack"


class Quarantine(NamedTuple):
    """A quarantine: its folder, and the environment of git commands in it."""

    repository: Repository
    folder: str
    environment: Mapping[str, str]

    def git(self, *args: str | bytes, data: bytes | None = None, ok: Sequence[int] = (0,)) -> bytes:
        """Run a git command that sees what is in it, and writes into it; its stdout."""
        return self.repository.git(*args, data=data, env=self.environment, ok=ok)

    def write(self, kind: str, data: bytes) -> str:
        """Write an object; its id."""
        args = ("-c", "core.looseCompression=0", "hash-object", "-w", "-t", kind, "--stdin")
        return self.git(*args, data=data).decode("ascii").strip()

    def leave_out_parents(self, commit: str) -> None:
        """From now on, git takes a commit for one without parents. It is pushed as it is, and its parents never are."""
        with open(self.environment["GIT_GRAFT_FILE"], "a") as file:
            file.write(f"{commit}\n")

    def path(self, name: str) -> str:
        """A file in its folder, which is removed with it."""
        return os.path.join(self.folder, name)


def environment(repository: Repository, folder: str) -> dict[str, str]:
    """The environment in which git writes objects to `folder` (created here), and still reads the store."""
    os.makedirs(os.path.join(folder, "pack"), exist_ok=True)
    folders = alternates.folders(repository.objects_dir)
    # C quoting, since colons separate the paths: see git(1), GIT_ALTERNATE_OBJECT_DIRECTORIES.
    stores = ['"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in folders]
    return {"GIT_OBJECT_DIRECTORY": folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(stores)}


@contextlib.contextmanager
def opened(repository: Repository, boundary: Mapping[str, bytes] | None = None) -> Iterator[Quarantine]:
    """A new quarantine, removed at the end. It has the commits of `boundary` (oid -> raw commit), as commits whose
    parents are not here."""
    location = repository.location
    with state_dir.scratch(location) as folder:
        env = environment(repository, os.path.join(folder, _OBJECTS))
        known = boundary or {}
        lines = b"".join(each.encode("ascii") + b"\n" for each in known)
        with contextlib.suppress(FileNotFoundError), open(os.path.join(location.common_dir, _SHALLOW), "rb") as file:
            lines += file.read()
        env["GIT_SHALLOW_FILE"] = os.path.join(folder, _SHALLOW)
        with open(env["GIT_SHALLOW_FILE"], "wb") as file:
            file.write(lines)
        env["GIT_GRAFT_FILE"] = os.path.join(folder, _GRAFTS)
        with open(env["GIT_GRAFT_FILE"], "wb"):
            pass
        made = Quarantine(repository, folder, env)
        for data in known.values():
            made.write("commit", data)
        yield made


def keep(quarantine: Quarantine, tip: str) -> None:
    """Write what a commit reaches, and the refs do not, to the store: all of it or, if an object is missing or damaged
    (GitCommandError), nothing."""
    repository = quarantine.repository
    location = repository.location
    have = dict.fromkeys(refs.list_refs(location, "refs/", skip_broken=True).values())
    wanted = f"{tip}\n" + "".join(f"^{each}\n" for each in have if repository.exists(each))
    path = quarantine.path(_PACK)
    # Reused deltas are not looked into: what is damaged in the quarantine shows when the pack is read again.
    args = ["pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"]
    with open(path, "wb") as file:
        run(quarantine, args, data=wanted.encode("ascii"), stdout=file.fileno())
    with open(path, "rb") as file:
        count = int.from_bytes(file.read(12)[8:], "big")
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        args = ["unpack-objects", "-q"] if count < _FEWEST_IN_A_PACK else ["index-pack", "--stdin"]
        child = process.spawn(args, cwd=location.root, env=location.environment(), stdin=file.fileno())
        _require(args, child)


def run(
    quarantine: Quarantine,
    args: Sequence[str],
    *,
    data: bytes | None = None,
    stdin: int | None = None,
    stdout: int = process.PIPE,
) -> bytes:
    """Run git in a quarantine, with files as its standard input or output; its stdout. GitCommandError if it fails."""
    location = quarantine.repository.location
    env = location.environment(quarantine.environment)
    child = process.spawn(
        args, cwd=location.root, env=env, stdin=process.PIPE if data is not None else stdin, stdout=stdout
    )
    return _require(args, child, data)


def _require(args: Sequence[str], child: subprocess.Popen[bytes], data: bytes | None = None) -> bytes:
    status, out, err = process.finish(child, data)
    if status != 0:
        raise process.failure(args, status, err)
    return out or b""
