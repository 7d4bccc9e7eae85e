"""The objects, refs and reflogs of a nested repository: kept in the main store, and recreated from there.

The main store keeps what git itself keeps in that repository: everything that its refs, its HEAD, its reflogs (and so
every stash) and the HEADs and reflogs of its other worktrees reach. `describe` puts into the description (see `nested`)

    refs      {name: oid}     all refs
    symbolic  {name: target}  the symbolic refs, also those whose target does not exist
    tags      {oid: text}     annotated tag objects (latin-1)
    logs      {name: oid}     reflogs, a blob each
    elsewhere [oid]           what the HEADs, refs and reflogs of its other worktrees name
    config    text            the configuration file (latin-1)
    info      {name: text}    `info/exclude` and `info/attributes`, if they contain rules (latin-1)

and returns a commit N that keeps the objects: its parents are the commits; its tree has, as `objects/<oid>`, the
blobs and trees that something names directly, and the reflogs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from git_agentos.errors import GitCommandError, MissingObjectsError, RepositoryError
from git_agentos.git import configuration, process, refs, state_dir, trees, worktrees
from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.git.location import Location, locate
from git_agentos.git.refs import Head
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.repository_format import FILES, REFTABLE
from git_agentos.util import files

_LIMIT = 1 << 30
_WHO = "git-agentos <git-agentos@localhost>"
_ROOT_LOG = re.compile(r"[A-Z][A-Z_]*")
_INFO = ("exclude", "attributes")


class _Roots:
    """The objects that refs, HEADs and reflogs of a repository name, by kind."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.commits: dict[str, None] = {}
        self.others: dict[str, trees.Entry] = {}
        self.tags: dict[str, str] = {}

    def add(self, oid: str) -> None:
        """Add an object, and the target of a tag; MissingObjectsError if it is missing."""
        kind, data = self._kind(oid)
        while kind == "tag":
            self.tags[oid] = data.decode("latin-1")
            oid = data.partition(b"\n")[0].removeprefix(b"object ").decode()
            kind, data = self._kind(oid)
        if kind == "commit":
            self.commits.setdefault(oid)
        else:
            self.others[oid] = (trees.DIRECTORY if kind == "tree" else trees.REGULAR, oid)

    def _kind(self, oid: str) -> tuple[str, bytes]:
        kind = self.repository.kind(oid)
        return self.repository.read(oid) if kind in (None, "tag") else (str(kind), b"")


def describe(
    repository: Repository, writer: Writer, location: Location, head: Head, record: dict[str, Any], *, keep: bool = True
) -> tuple[str | None, str | None]:
    """Copy a nested repository's objects into the main store, and add to `record` how to recreate it.

    Returns the commit that keeps the objects, or None and the reason. Without `keep`, nothing is copied.
    """
    inner = Repository(location)
    roots = _Roots(inner)
    record["refs"] = refs.list_refs(location, "refs/")
    record["symbolic"] = refs.symbolic(location)
    if location.format.refs != FILES:
        record["ref_format"] = location.format.refs
    with contextlib.suppress(OSError), open(os.path.join(location.common_dir, "config"), "rb") as file:
        record["config"] = file.read().decode("latin-1")
    record["info"] = dict(_info(location.common_dir))
    for oid in [*record["refs"].values(), *([head.commit] if head.commit else [])]:
        roots.add(oid)
    logs = dict(_logs(location))
    elsewhere = {oid for oid in _of_other_worktrees(location) if inner.kind(oid) is not None}
    _add_logged(inner, roots, _logged(logs.values()) | elsewhere)
    record["elsewhere"] = sorted(elsewhere)
    record["tags"] = roots.tags
    record["logs"] = {name: writer.write("blob", data) for name, data in logs.items()}
    if not keep:
        return None, None
    reason = _bring_in(repository, location, [*roots.commits, *roots.others])
    if reason is not None:
        return None, reason
    kept = {oid: (trees.REGULAR, oid) for oid in record["logs"].values()} | roots.others
    tree = trees.build(writer, {b"objects/" + oid.encode(): entry for oid, entry in kept.items()})
    return writer.write_commit(tree, list(roots.commits), b"nested repository\n", _WHO.encode(), 0), None


def _info(folder: str) -> Iterator[tuple[str, str]]:
    """Name and content of the files of ignore rules and attributes in a git directory."""
    for name in _INFO:
        with contextlib.suppress(OSError):
            data = files.read(os.path.join(folder, "info", name))
            if any(line.strip() and not line.startswith(b"#") for line in data.splitlines()):
                yield name, data.decode("latin-1")


def _logs(location: Location) -> Iterator[tuple[str, bytes]]:
    """Name and content of every reflog of a repository, without those of its linked worktrees."""
    main = location.worktree(location.root, location.common_dir)
    for name, lines in refs.logs(main).items():
        yield name, b"".join(line + b"\n" for line in lines)


def _logged(logs: Iterable[bytes]) -> set[str]:
    """Every object that reflogs name."""
    words = {word for data in logs for line in data.split(b"\n") for word in line.split(b" ", 2)[:2]}
    return {text for word in words if is_any_oid(text := word.decode("latin-1")) and text.strip("0")}


def _of_other_worktrees(location: Location) -> set[str]:
    """The objects that the HEADs, refs and reflogs of a repository's linked worktrees name."""
    found: set[str] = set()
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        other = location.worktree("", git_dir)
        found |= _logged(refs.read_log(other, "HEAD"))
        with contextlib.suppress(RepositoryError):
            found |= set(refs.own_refs(other).values())
        with contextlib.suppress(RepositoryError):
            found |= {refs.read_head(other).commit or ""} - {""}
    return found


def _add_logged(inner: Repository, roots: _Roots, oids: set[str]) -> None:
    """Add the objects that reflogs name, if they exist (git may have pruned what an old entry names).

    Of the commits, only those that nothing else reaches are added: a reflog can name thousands.
    """
    logged = _Roots(inner)
    for oid in sorted(oids - roots.commits.keys()):
        if inner.kind(oid) is not None:
            logged.add(oid)
    roots.tags.update(logged.tags)
    roots.others.update(logged.others)
    if not logged.commits:
        return
    data = "".join([f"{oid}\n" for oid in logged.commits] + [f"^{oid}\n" for oid in roots.commits]).encode()
    lines = [line.split() for line in inner.git("rev-list", "--parents", "--stdin", data=data).decode().splitlines()]
    reached = {parent for line in lines for parent in line[1:]}
    for line in lines:
        if line[0] in logged.commits and line[0] not in reached:
            roots.commits.setdefault(line[0])


def other_worktrees(location: Location) -> list[str]:
    """The existing folders of a repository's linked worktrees."""
    roots = [worktrees.root_or_none(git_dir) for git_dir in worktrees.linked_git_dirs(location.common_dir)]
    return [root for root in roots if root is not None and os.path.lexists(os.path.join(root, ".git"))]


# -- objects from store to store -----------------------------------------------------------------------------------


def _bring_in(repository: Repository, location: Location, oids: Sequence[str]) -> str | None:
    """Copy what `oids` reach into the main store; the reason if that is not done."""
    there = [oid for oid in oids if repository.exists(oid)]
    if there and not is_whole(repository, there):
        there = []
    missing = sorted(set(oids) - set(there))
    if missing:
        if os.path.exists(os.path.join(location.common_dir, "shallow")):
            return "nested repository with a shallow history, which cannot be kept (git fetch --unshallow completes it)"
        if _size(location) > _LIMIT:
            return "nested repository too large to be kept in this one's object store"
        _copy_objects(location, missing, there, repository.location)
    return None


def is_whole(repository: Repository, oids: Iterable[str]) -> bool:
    """Whether everything that `oids` reach is in the store. What timelines reach is assumed to be."""
    data = "".join(f"{oid}\n" for oid in oids).encode()
    args = ("rev-list", "--objects", "--quiet", "--stdin", "--not", "--glob=refs/agentos/timelines/*")
    try:
        repository.git(*args, data=data)
    except GitCommandError:
        return False
    return True


def _size(location: Location) -> int:
    out = process.run(["count-objects", "-v"], env=location.environment())
    sizes = dict(line.split(b": ") for line in out.splitlines() if b": " in line)
    return (int(sizes.get(b"size", 0)) + int(sizes.get(b"size-pack", 0))) * 1024


def _copy_objects(source: Location, wanted: Iterable[str], have: Iterable[str], target: Location) -> None:
    """Copy everything that `wanted` reaches and `have` does not, as one pack."""
    lines = "".join([f"{oid}\n" for oid in wanted] + [f"^{oid}\n" for oid in have])
    pack = process.spawn(
        ["pack-objects", "--revs", "--stdout", "--quiet"], env=source.environment(), stdin=process.PIPE
    )
    assert pack.stdin is not None and pack.stdout is not None and pack.stderr is not None
    index = process.spawn(["index-pack", "--stdin"], env=target.environment(), stdin=pack.stdout.fileno())
    with contextlib.suppress(BrokenPipeError):  # its exit code shows the error
        pack.stdin.write(lines.encode())
        pack.stdin.close()
    pack.stdout.close()
    status, _, err = process.finish(index)
    said = pack.stderr.read()
    pack.stderr.close()
    if pack.wait() != 0:
        raise process.failure(["pack-objects"], pack.returncode, said)
    if status != 0:
        raise process.failure(["index-pack"], status, err)


# -- recreating -----------------------------------------------------------------------------------------------

# The settings of a nested repository that are restored. Others can name programs that git would run, and a checkpoint
# may be from another repository.
_SAFE_CONFIG = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|abbrev)|extensions\.worktreeconfig|user\.(name|email)|remote\..+\.(url|fetch|pushurl|push|tagopt"
    r"|prune|mirror)|branch\..+\.(remote|merge|rebase|pushremote)|init\.defaultbranch|pull\.(rebase|ff)|push\.default"
    r"|submodule\..+\.(url|active|branch)"
)


def recreate(repository: Repository, path: bytes, record: Mapping[str, Any]) -> list[str]:
    """Create the repository that `record` describes at `path`, with its refs, reflogs and objects.

    Returns the refs that could not be created, because a checkpoint of an older version does not keep what they name.
    The repository is created in another place and moved by one rename, so it is never incomplete.
    """
    directory = os.path.join(repository.location.root, os.fsdecode(path))
    lost = _lost(repository, record)
    logs = {name: repository.blob(oid) for name, oid in record.get("logs", {}).items() if _is_safe(name, log=True)}
    with state_dir.scratch(repository.location) as folder:
        made = os.path.join(folder, "made")
        process.run(
            ["init", "--quiet", "--template=", f"--object-format={repository.hash.name}", made],
            cwd=folder,
            env=process.environment({"GIT_DEFAULT_REF_FORMAT": FILES}),
        )
        location = locate(made, use_environment=False)
        _write_config(location, folder, record["config"])
        for name, text in record.get("info", {}).items():
            if name in _INFO:
                os.makedirs(os.path.join(location.git_dir, "info"), exist_ok=True)
                files.replace(os.path.join(location.git_dir, "info", name), text.encode("latin-1"), durable=False)
        _import(repository, location, record, lost, logs)
        found = {name: oid for name, oid in record["refs"].items() if name not in lost and _is_safe(name)}
        _write_refs(location, found, record.get("symbolic", {}))
        head = Head(record["head"]["ref"], record["head"]["commit"])
        refs.set_head(location, head, reason="git-agentos: made again", who=_WHO)
        for name, data in logs.items():
            target = os.path.join(location.git_dir, "logs", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            files.replace(target, data, durable=False)
        if record.get("ref_format", FILES) == REFTABLE:
            # An older git cannot do it; it has the same refs, in files.
            with contextlib.suppress(GitCommandError):
                args = ["refs", "migrate", f"--ref-format={record['ref_format']}"]
                process.run(args, cwd=made, env=location.environment())
        os.makedirs(directory, exist_ok=True)
        os.rename(os.path.join(made, ".git"), os.path.join(directory, ".git"))
    return sorted(lost)


def _is_safe(name: str, *, log: bool = False) -> bool:
    """Whether a ref (a reflog) can have this name: a checkpoint may be from another repository."""
    return refs.is_well_formed(name) or (log and _ROOT_LOG.fullmatch(name) is not None)


def _target(record: Mapping[str, Any], oid: str) -> str:
    """The object to which an object of the description leads, through tags."""
    while oid in record["tags"]:
        oid = record["tags"][oid].partition("\n")[0].removeprefix("object ")
    return oid


def _lost(repository: Repository, record: Mapping[str, Any]) -> set[str]:
    """The refs that cannot be recreated; MissingObjectsError if the repository itself cannot."""
    needed = {oid for oid in (record["head"]["commit"], record["checkpoint"]) if oid}
    targets = {name: _target(record, oid) for name, oid in record["refs"].items()}
    if is_whole(repository, needed | set(targets.values())):
        return set()
    if not is_whole(repository, needed):
        raise MissingObjectsError("its objects are not in this repository's object store")
    return {name for name, oid in targets.items() if not is_whole(repository, [oid])}


def _import(
    repository: Repository, location: Location, record: Mapping[str, Any], lost: set[str], logs: Mapping[str, bytes]
) -> None:
    """Copy the objects, and write the tags."""
    wanted = {_target(record, oid) for name, oid in record["refs"].items() if name not in lost}
    wanted |= {oid for oid in [record["head"]["commit"]] if oid}
    wanted |= {target for oid in record["tags"] if repository.exists(target := _target(record, oid))}
    named = {*_logged(logs.values()), *record.get("elsewhere", ())}
    logged = {oid for oid in named - wanted if oid not in record["tags"] and repository.exists(oid)}
    if not logged or is_whole(repository, logged):
        wanted |= logged
    if wanted:
        _copy_objects(repository.location, sorted(wanted), (), location)
    for text in record["tags"].values():
        args = ["hash-object", "-t", "tag", "-w", "--stdin"]
        process.run(args, env=location.environment(), data=text.encode("latin-1"))


def _write_refs(location: Location, found: Mapping[str, str], symbolic: Mapping[str, str]) -> None:
    packed = {
        name: oid for name, oid in found.items() if name not in symbolic and not name.startswith(refs.PER_WORKTREE)
    }
    if packed:
        lines = "".join(f"{oid} {name}\n" for name, oid in sorted(packed.items()))
        files.replace(os.path.join(location.common_dir, "packed-refs"), os.fsencode(lines))
    for name, oid in found.items():
        if name.startswith(refs.PER_WORKTREE):
            refs.update(location, name, oid, None)
    for name, target in symbolic.items():
        if _is_safe(name) and _is_safe(target):
            path = os.path.join(location.common_dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            files.replace(path, os.fsencode(f"ref: {target}\n"))


def _write_config(location: Location, folder: str, text: str) -> None:
    """Write the settings of a saved configuration file that are safe (`_SAFE_CONFIG`)."""
    saved = os.path.join(folder, "config")
    with open(saved, "w", encoding="latin-1") as file:
        file.write(text)
    try:
        values_by_key = configuration.read_file(saved)
    except GitCommandError:
        return
    target = os.path.join(location.git_dir, "config")
    for key, values in values_by_key.items():
        if _SAFE_CONFIG.fullmatch(key):
            process.run(["config", "--file", target, "--replace-all", key, values[0]], cwd=folder, ok=(0, 1, 5))
            for value in values[1:]:
                process.run(["config", "--file", target, "--add", key, value], cwd=folder, ok=(0, 1, 5))
