"""Conversion between worktree and object store: line endings, encodings, ident, clean and smudge filters.

libgit2 runs no external filters, so git converts: `hash-object` into the store, `checkout-index` out of it. Most paths
are not converted; `paths_to_convert` finds those that are, by looking for attribute files and, if there are any, by one
`check-attr`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Mapping, Sequence

from git_agentos.errors import GitCommandError
from git_agentos.git import trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.util.named_tuple import NamedTuple

_ATTRIBUTES = (b"text", b"eol", b"crlf", b"ident", b"filter", b"working-tree-encoding")
_LINE_ENDS = {"core.autocrlf": "false", "core.eol": "native"}
_IDLE = (b"unspecified", b"unset")


class AttributeSource(NamedTuple):
    """Where git takes attributes and filters from: the working tree `root` (None: the worktree's own), the environment
    that names its index, and `options` of git."""

    root: str | None = None
    env: Mapping[str, str] | None = None
    options: Sequence[str] = ()

    def check(self, repository: Repository, names: Sequence[bytes | str], paths: Iterable[bytes]) -> list[list[bytes]]:
        """The values of attributes, as rows of path, name and value."""
        words = (*self.options, "check-attr", "-z", "--stdin", *names)
        data = b"".join(path + b"\0" for path in paths)
        fields = repository.git(*words, data=data, env=self.env, cwd=self.root).split(b"\0")
        return [fields[n : n + 3] for n in range(0, len(fields) - 2, 3)]


_OF_THE_WORKTREE = AttributeSource()


def paths_to_convert(
    repository: Repository,
    paths: Sequence[bytes],
    config: Mapping[str, list[str]],
    *,
    tracks_attributes: bool,
    source: AttributeSource = _OF_THE_WORKTREE,
) -> set[bytes]:
    """The `paths` whose bytes may differ between worktree and object store."""
    if not paths:
        return set()
    if _line_ends_everywhere(config):
        return set(paths)
    top = os.fsencode(source.root or repository.location.root)
    if not (tracks_attributes or _outside_attributes(repository, config) or _attribute_files(top, paths)):
        return set()
    return {path for path, _name, value in source.check(repository, _ATTRIBUTES, paths) if value not in _IDLE}


def named_filters(repository: Repository, paths: Iterable[bytes], source: AttributeSource) -> dict[bytes, str]:
    """Path -> filter, for the paths that have one."""
    rows = source.check(repository, ["filter"], paths)
    return {path: os.fsdecode(value) for path, _name, value in rows if value not in _IDLE}


def any_configured(repository: Repository, config: Mapping[str, list[str]], *, tracks_attributes: bool) -> bool:
    """Whether any tracked file may be converted; reads no file."""
    return tracks_attributes or _line_ends_everywhere(config) or _outside_attributes(repository, config)


def _line_ends_everywhere(config: Mapping[str, list[str]]) -> bool:
    return config.get("core.autocrlf", ["false"])[-1].lower() not in ("false", "no", "off", "0", "")


def _outside_attributes(repository: Repository, config: Mapping[str, list[str]]) -> bool:
    """Whether there may be attributes outside the worktree."""
    files = outside_files(repository.location)
    return "core.attributesfile" in config or any(os.path.exists(file) for file in files)


def outside_files(location: Location) -> list[str]:
    """Where attributes outside the worktree are: info/attributes, the user's file (if core.attributesFile names no
    other) and the system's (gitattributes(5))."""
    xdg = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return [
        os.path.join(location.common_dir, "info", "attributes"),
        os.path.join(xdg, "git", "attributes"),
        "/etc/gitattributes",
    ]


def _attribute_files(top: bytes, paths: Iterable[bytes]) -> bool:
    return any(os.path.lexists(os.path.join(top, each, b".gitattributes")) for each in trees.folders_above(paths))


def drivers(config: Mapping[str, list[str]]) -> set[str]:
    """The filters that change what is written to the worktree."""
    keys = (key.removeprefix("filter.").rpartition(".") for key in config if key.startswith("filter."))
    return {name for name, _, kind in keys if kind in ("smudge", "process")}


def line_ends(config: Mapping[str, list[str]]) -> dict[str, str]:
    """The settings for the line endings that a checkout writes, if they are set."""
    return {key: config[key][-1] for key in _LINE_ENDS if key in config}


def with_line_ends(config: Mapping[str, list[str]], values: Mapping[str, str]) -> dict[str, list[str]]:
    """`config` with the line-ending settings of another configuration."""
    return {**config, **{key: [values.get(key, default)] for key, default in _LINE_ENDS.items()}}


def options(config: Mapping[str, list[str]]) -> list[str]:
    """git options with which it converts line endings as in `config`."""
    return [word for key, value in line_ends(config).items() for word in ("-c", f"{key}={value}")]


def attribute_files(repository: Repository, paths: Iterable[bytes], config: Mapping[str, list[str]]) -> list[bytes]:
    """The paths of possible attributes files for `paths`: `.gitattributes` files, and core.attributesFile."""
    names = [folder + b"/.gitattributes" if folder else b".gitattributes" for folder in trees.folders_above(paths)]
    users = users_attributes(repository, config)
    return [*names, users] if users is not None else names


def users_attributes(repository: Repository, config: Mapping[str, list[str]]) -> bytes | None:
    """core.attributesFile, relative to the worktree; None if it is not inside."""
    users = config.get("core.attributesfile", [""])[-1]
    if not users:
        return None
    root = os.path.realpath(repository.location.root)  # git resolves a relative path from there
    path = os.path.relpath(os.path.realpath(os.path.join(root, os.path.expanduser(users))), root)
    return None if path.split("/")[0] in ("..", ".", ".git") else os.fsencode(path)


def to_blobs(writer: Writer, paths: Sequence[bytes]) -> dict[bytes, str | None]:
    """Store worktree files as `git add` would, to the store of `writer`: path -> blob oid, None if a required filter
    fails."""
    if not paths:
        return {}
    git = functools.partial(writer.repository.git, env=writer.environment)
    args = ["-c", "core.fsync=loose-object", "hash-object", "-w", "--stdin-paths"]
    try:
        out = git(*args, data=b"".join(_line(path) + b"\n" for path in paths))
        oids = out.decode().split()
        if len(oids) == len(paths):
            return dict(zip(paths, oids, strict=True))
    except GitCommandError:
        pass
    result: dict[bytes, str | None] = {}
    for path in paths:
        try:
            result[path] = git(*args, data=_line(path) + b"\n").decode().strip()
        except GitCommandError:
            result[path] = None
    return result


def _line(path: bytes) -> bytes:
    """A path as one line of `--stdin-paths`, in git's C quoting if necessary."""
    if not path.startswith(b'"') and b"\n" not in path and b"\r" not in path:
        return path
    quoted = b"".join(
        b"\\%03o" % byte if byte < 0x20 or byte in b'"\\' or byte >= 0x7F else bytes([byte]) for byte in path
    )
    return b'"' + quoted + b'"'


def to_files(
    repository: Repository,
    files: Mapping[bytes, tuple[int, str]],
    into: str,
    *,
    base_index: str | None,
    source: AttributeSource = _OF_THE_WORKTREE,
) -> None:
    """Write blobs (path -> mode, oid) below the directory `into`, converted as a checkout would.

    Attributes are taken from the `.gitattributes` files of `source`, or, if a folder has none, from `base_index`; its
    environment also names the object store. GitCommandError if a required filter fails.
    """
    index = os.path.join(os.path.dirname(into), os.path.basename(into) + ".index")
    root = source.root or repository.location.root
    env = {**(source.env or {}), "GIT_INDEX_FILE": index, "GIT_WORK_TREE": root}
    try:
        if base_index is not None and os.path.exists(base_index):
            import shutil  # few repositories have filters

            shutil.copy2(base_index, index)
        null = repository.hash.zero.encode()
        rows = b"".join(
            b"0 %b\t%b\0%o %b\t%b\0" % (null, path, mode, oid.encode(), path) for path, (mode, oid) in files.items()
        )
        # A split index would leave a shared index file in the git directory.
        args = ("-c", "core.splitIndex=false", "update-index", "-z", "--index-info")
        repository.git(*args, data=rows, env=env, cwd=root)
        names = b"\0".join(files) + b"\0"
        checkout = (*source.options, "checkout-index", "-f", "-z", "--stdin", f"--prefix={into}/")
        repository.git(*checkout, data=names, env=env, cwd=root)
    finally:
        for leftover in (index, index + ".lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leftover)
