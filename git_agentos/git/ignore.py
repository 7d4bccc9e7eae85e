"""Ignore rules, as git applies them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from git_agentos.git import locks, scan, trees
from git_agentos.git.repository import Repository
from git_agentos.git.trees import TreeSource
from git_agentos.util import directories, files


def matching(repository: Repository, patterns: Sequence[str]) -> list[bytes]:
    """Untracked files that match one of the gitignore `patterns`, whether ignored or not."""
    args = ["ls-files", "--others", "--ignored", "-z", *(f"--exclude={pattern}" for pattern in patterns)]
    out = repository.git(*args)
    return [path for path in out.split(b"\0") if path and not path.endswith(b"/") and not scan.own(path)]


def everything(repository: Repository) -> tuple[list[bytes], list[bytes]]:
    """All untracked files, ignored ones included, and the directories that are repositories of their own."""
    out = repository.git("ls-files", "--others", "-z")
    found = [path for path in out.split(b"\0") if path and not scan.own(path)]
    return [path for path in found if not path.endswith(b"/")], [path[:-1] for path in found if path.endswith(b"/")]


def excluded(
    repository: Repository, store: TreeSource, now: str, tree: str, paths: Iterable[bytes], users: bytes | None
) -> dict[bytes, bool]:
    """Those of `paths` that would be ignored if the worktree became `tree`, being `now`: by its `.gitignore` files
    (True), or by rules outside of the worktree (False), which are those of now. `users` is the `excludes_file`.

    A file of rules that is itself ignored is in no tree: what is there stays, and counts.
    """
    wanted = list(paths)
    if not wanted:
        return {}
    options: tuple[str | bytes, ...] = ()
    names = [folder + b"/.gitignore" if folder else b".gitignore" for folder in trees.folders_above(wanted)]
    with locks.scratch(repository.location) as root:
        if users is not None:
            names.append(users)
            options = ("-c", b"core.excludesFile=" + os.path.join(os.fsencode(root), users))
        for name in names:
            rules = _rules(repository, store, now, tree, name)
            if rules is None:
                continue
            target = os.path.join(os.fsencode(root), name)
            directories.make(os.path.dirname(target))
            with open(target, "wb") as file:
                file.write(rules)
        env = {"GIT_WORK_TREE": root, "GIT_LITERAL_PATHSPECS": "0"}
        data = b"\0".join(wanted) + b"\0"
        args = (*options, "check-ignore", "--no-index", "--verbose", "-z", "--stdin")
        fields = repository.git(*args, data=data, env=env, cwd=root, ok=(0, 1)).split(b"\0")
    # source, line number, pattern, path
    found = {}
    for n in range(0, len(fields) - 3, 4):
        source, _, pattern, path = fields[n : n + 4]
        if not pattern.startswith(b"!"):
            # `.gitignore` files are named from the top of the worktree; the others, here, by their full path.
            found[path] = not os.path.isabs(source) or source.startswith(os.path.join(os.fsencode(root), b""))
    return found


def _rules(repository: Repository, store: TreeSource, now: str, tree: str, name: bytes) -> bytes | None:
    """The content of a file of rules, where there is one when the worktree has become `tree`."""
    entry = trees.find(store, tree, name)
    if entry is not None:
        return repository.blob(entry[1]) if entry[0] in (trees.REGULAR, trees.EXECUTABLE) else None
    if trees.find(store, now, name) is not None:
        return None
    try:
        return files.read(os.path.join(os.fsencode(repository.location.root), name))
    except OSError:
        return None


def excludes_file(repository: Repository) -> bytes | None:
    """core.excludesFile, or where git looks without it, relative to the worktree; None where it lies outside.

    It can lie inside: `core.excludesFile=rules`, or a worktree that is the user's home.
    """
    out = repository.git("config", "--null", "--type=path", "--get", "core.excludesFile", ok=(0, 1))
    if out:
        path = os.path.join(repository.location.root, os.fsdecode(out.removesuffix(b"\0")))
    else:
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        path = os.path.join(home, "git", "ignore")
    real = os.path.realpath(path)
    top = os.path.join(os.path.realpath(repository.location.root), "")
    if not real.startswith(top) or real.startswith(os.path.join(repository.location.git_dir, "")):
        return None
    return os.fsencode(real.removeprefix(top))
