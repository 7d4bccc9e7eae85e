"""Rewriting the index by git: entries, stages and the flags that trees cannot contain.

git makes every edit (`update-index`), on a copy of the index. So git maintains split and sparse indexes, versions, the
untracked cache and extensions; entries that do not change keep their stat data; and the real index is replaced by one
rename while `index.lock` is held.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from git_agentos.git import index_entries, trees
from git_agentos.git.repository import Repository
from git_agentos.util import directories

# What a file system says of a name that it does not allow, or that is that of another file or folder to it.
_IMPOSSIBLE = (errno.EILSEQ, errno.EINVAL, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_FSMONITOR = b"FSMN"  # the signature of that extension (gitformat-index(5))


@dataclass(frozen=True)
class IndexEdit:
    """The changes to make in an index; paths are bytes."""

    remove: Iterable[bytes] = ()
    entries: Mapping[bytes, trees.Entry] = field(default_factory=dict)
    stages: Mapping[bytes, Mapping[int, trees.Entry]] = field(default_factory=dict)
    intent_to_add: Mapping[bytes, int] = field(default_factory=dict)  # path -> mode
    assume_unchanged: Iterable[bytes] = ()
    no_assume_unchanged: Iterable[bytes] = ()
    skip_worktree: Iterable[bytes] = ()
    no_skip_worktree: Iterable[bytes] = ()


def copy(repository: Repository, to: str, config: Mapping[str, list[str]]) -> None:
    """Copy the index, if there is one, with its modification time (by which git recognizes racy entries), but without
    the marks of a file system monitor: files that they say are unchanged are about to be changed."""
    try:
        shutil.copy2(os.path.join(repository.location.git_dir, "index"), to)
    except FileNotFoundError:
        return
    with open(to, "rb") as file:
        is_marked = _FSMONITOR in file.read()
    if is_marked:
        # git takes the extension away where no monitor is configured.
        found = os.stat(to)
        repository.git(*stat_options(config), "update-index", env={"GIT_INDEX_FILE": to})
        os.utime(to, ns=(found.st_atime_ns, found.st_mtime_ns))


def stat_options(config: Mapping[str, list[str]]) -> tuple[str, ...]:
    """git options for a command that writes a worktree's index: the user's own settings for comparing stat data.

    An entry as young as the index may differ from its file (Documentation/technical/racy-git.txt). When git writes the
    index, it marks such entries if they look unmodified. What looks unmodified to the user's git may look modified to
    a git that compares more of the stat data.
    """
    chosen = [(key, config[key.lower()][-1]) for key in ("core.checkStat", "core.trustctime") if key.lower() in config]
    return tuple(word for key, value in chosen for word in ("-c", f"{key}={value}"))


def apply(repository: Repository, index: str, edit: IndexEdit, scratch: str, config: Mapping[str, list[str]]) -> None:
    """Apply an edit to the index file `index`; `scratch` is an empty directory to work in."""
    env = {"GIT_INDEX_FILE": index}
    plain = (*stat_options(config), "-c", "core.ignoreStat=false", "update-index", "-z")
    null, empty = repository.hash.zero.encode(), repository.hash.hash_blob(b"").encode()
    rows = [b"0 %b\t%b\0" % (null, path) for path in edit.remove]
    for path, (mode, oid) in edit.entries.items():
        rows.append(b"0 %b\t%b\0" % (null, path))
        rows.append(b"%o %b\t%b\0" % (mode, oid.encode(), path))
    for path, stages in edit.stages.items():
        rows.append(b"0 %b\t%b\0" % (null, path))
        rows += [b"%o %b %d\t%b\0" % (mode, oid.encode(), n, path) for n, (mode, oid) in sorted(stages.items())]
    for path, mode in edit.intent_to_add.items():
        rows.append(b"0 %b\t%b\0" % (null, path))
        rows.append(b"%o %b 2\t%b\0" % (mode, empty, path))
    if rows:
        # All removals first: a file that becomes a directory must be removed before paths below it are added.
        rows.sort(key=lambda row: not row.startswith(b"0 "))
        repository.git(*plain, "--index-info", data=b"".join(rows), env=env)
    if edit.intent_to_add:
        _intend(repository, edit.intent_to_add, env, scratch, config)
    flags = (
        ("--no-assume-unchanged", edit.no_assume_unchanged),
        ("--assume-unchanged", edit.assume_unchanged),
        ("--no-skip-worktree", edit.no_skip_worktree),
        ("--skip-worktree", edit.skip_worktree),
    )
    for flag, paths in flags:
        data = b"".join(path + b"\0" for path in paths)
        if data:
            repository.git(*plain, flag, "--stdin", data=data, env=env)


def _intend(
    repository: Repository,
    paths: Mapping[bytes, int],
    env: Mapping[str, str],
    scratch: str,
    config: Mapping[str, list[str]],
) -> None:
    """`git add -N` in a scratch working tree: it requires the file to exist.

    Not every file system has modes and symbolic links. So all files are plain ones, and git is told that modes and
    links are missing: then it takes the mode of the entry that it replaces, here that of a conflict (see `apply`).
    `git reset -N` requires no file, but makes all entries those of plain files: it is for names that the file system
    does not allow, or cannot have beside another one.
    """
    possible, impossible = [], []
    for path in paths:
        target = os.path.join(os.fsencode(scratch), path)
        try:
            directories.make(os.path.dirname(target))
            with open(target, "wb"):
                pass
        except OSError as error:
            if error.errno not in _IMPOSSIBLE:
                raise
            impossible.append(path)
        else:
            possible.append(path)
    options = (
        *stat_options(config), "-c", "core.fileMode=false", "-c", "core.symlinks=false", "-c", "core.ignoreCase=false",
    )  # fmt: skip
    for command, chosen in (
        (("add", "--intent-to-add", "--force", "--sparse"), possible),
        (("reset", "--quiet", "--no-refresh", "--intent-to-add", repository.hash.empty_tree), impossible),
    ):
        if chosen:
            repository.git(
                *options,
                *command,
                "--pathspec-from-file=-",
                "--pathspec-file-nul",
                data=b"\0".join(chosen) + b"\0",
                env={**env, "GIT_WORK_TREE": scratch},
                cwd=scratch,
            )


def refresh(repository: Repository, index: str, paths: Iterable[bytes], config: Mapping[str, list[str]]) -> None:
    """Update the stat data of these unmodified paths, so that git need not read the files again."""
    data = b"".join(path + b"\0" for path in paths)
    if data:
        options = (*stat_options(config), "-c", "core.ignoreStat=false", "-c", "core.safecrlf=false")
        repository.git(*options, "update-index", "-z", "--stdin", data=data, env={"GIT_INDEX_FILE": index})


def set_stat_data(
    repository: Repository,
    index: str,
    entries: Mapping[bytes, trees.Entry],
    scratch: str,
    config: Mapping[str, list[str]],
) -> None:
    """Update the stat data of these entries, even if `git add` would store another blob for their files (because they
    were committed before an attribute asked for another form, or past a filter). `scratch` is a directory to work in.

    Every git command that reads a file's stat data also cleans the file. So git is made to clean it to the blob in the
    index: it gets a common directory of its own, whose attributes override those in the worktree (gitattributes(5)).
    Most such blobs equal the file; for the others, a filter prints the blob.

    git still reads files that are not older than the index, by the second.
    """
    common = os.path.join(scratch, "common")
    os.makedirs(os.path.join(common, "refs"))
    os.mkdir(os.path.join(common, "info"))
    _include_config(repository, os.path.join(common, "config"))
    env = {"GIT_INDEX_FILE": index, "GIT_COMMON_DIR": common, "GIT_OBJECT_DIRECTORY": repository.objects_dir}
    options = (*stat_options(config), "-c", "core.ignoreStat=false", "-c", "core.autocrlf=false")
    left = dict(entries)
    # git quotes %f itself.
    for rule, driver in (("!filter", ""), ("filter=agentos-index", "git cat-file blob :0:%f")):
        with open(os.path.join(common, "info", "attributes"), "w", encoding="ascii") as file:
            file.write(f"* -text -ident -working-tree-encoding {rule}\n")
        apply(repository, index, IndexEdit(entries=left), scratch, config)  # without stat data
        data = b"".join(path + b"\0" for path in left)
        if data:
            filtered = (*options, "-c", f"filter.agentos-index.clean={driver}")
            repository.git(*filtered, "update-index", "-z", "--stdin", data=data, env=env)
        out = repository.git("ls-files", "--stage", "-z", env={"GIT_INDEX_FILE": index})
        found = {entry.path: (entry.mode, entry.oid) for entry in index_entries.parse(out)}
        left = {path: entry for path, entry in left.items() if found.get(path) != entry}
    apply(repository, index, IndexEdit(entries=left), scratch, config)


def _include_config(repository: Repository, place: str) -> None:
    """Write a configuration file that replaces the common directory's."""
    own = os.path.join(repository.location.common_dir, "config")
    args = ("config", "--type=bool", "--get", "extensions.worktreeConfig")
    worktree = repository.git(*args, ok=(0, 1)).strip() == b"true"
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.objectFormat", repository.hash.name),
        ("extensions.worktreeConfig", str(worktree).lower()),
        ("include.path", own),
    ):
        repository.git("config", "--file", place, name, value)


def differences(repository: Repository, index: str, tree: str) -> list[bytes]:
    """Paths at which the index differs from `tree`, conflicts included."""
    args = ("diff-index", "--cached", "--name-only", "-z", "--no-renames", "--ita-invisible-in-index", tree)
    return [path for path in repository.git(*args, env={"GIT_INDEX_FILE": index}).split(b"\0") if path]


def stages(repository: Repository, index: str) -> dict[bytes, dict[int, trees.Entry]]:
    """The paths in conflict, with their stages."""
    found: dict[bytes, dict[int, trees.Entry]] = {}
    out = repository.git("ls-files", "--unmerged", "-z", env={"GIT_INDEX_FILE": index})
    for entry in index_entries.parse(out):
        found.setdefault(entry.path, {})[entry.stage] = (entry.mode, entry.oid)
    return found
