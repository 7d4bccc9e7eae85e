"""Ignore rules, applied by git: the current ones, and those of past or future states of a worktree."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from git_agentos.git import state_dir, trees, untracked
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean

FILE_NAME = b".gitignore"


class Outside(NamedTuple):
    """The rules that are not in files of a worktree: `info/exclude`, and the user's own (core.excludesFile).

    The user's file can be inside the worktree (`core.excludesFile=rules`, or a worktree that is the user's home): then
    `users_path` is its path, and `users` is empty. `any_case`: names match in any case (core.ignoreCase).
    """

    exclude: bytes = b""
    users: bytes = b""
    users_path: bytes | None = None
    any_case: bool = False

    def is_rules(self, path: bytes) -> bool:
        """Whether a path of the worktree is a rule file."""
        return path == self.users_path or path.rpartition(b"/")[2] == FILE_NAME


class Rules(NamedTuple):
    """All rules for one worktree: `content` reads a rule file in it, and returns None if there is none."""

    content: Callable[[bytes], bytes | None]
    outside: Outside


def matching(repository: Repository, patterns: Sequence[str]) -> list[bytes]:
    """Untracked files that match one of the gitignore `patterns`, whether ignored or not."""
    args = ["ls-files", "--others", "--ignored", "-z", *(f"--exclude={pattern}" for pattern in patterns)]
    out = repository.git(*args)
    return [
        path for path in out.split(b"\0") if path and not path.endswith(b"/") and not untracked.is_agentos_path(path)
    ]


def untracked_files(repository: Repository) -> tuple[list[bytes], list[bytes]]:
    """All untracked files, ignored ones included, and the directories that are repositories of their own."""
    out = repository.git("ls-files", "--others", "-z")
    found = [path for path in out.split(b"\0") if path and not untracked.is_agentos_path(path)]
    return [path for path in found if not path.endswith(b"/")], [path[:-1] for path in found if path.endswith(b"/")]


def ignored_among(repository: Repository, paths: Iterable[bytes]) -> list[bytes]:
    """The paths (folders with a trailing slash) that git ignores; tracked files are never ignored."""
    # check-ignore refuses literal pathspecs; with `./`, a path that begins with a colon is not a magic one.
    data = b"".join(b"./" + path + b"\0" for path in paths)
    env = {"GIT_LITERAL_PATHSPECS": "0"}
    out = repository.git("check-ignore", "-z", "--stdin", data=data, env=env, ok=(0, 1)) if data else b""
    return [path.removeprefix(b"./") for path in out.split(b"\0") if path]


def matching_among(repository: Repository, paths: Iterable[bytes], patterns: Sequence[str]) -> set[bytes]:
    """The paths of files that match one of the gitignore `patterns`, or are below a folder that does. They need not
    exist; tracked files are treated like others."""
    data = b"".join(b"./" + path + b"\0" for path in paths)
    lines = b"".join((b"\\" if pattern.startswith("#") else b"") + os.fsencode(pattern) + b"\n" for pattern in patterns)
    with state_dir.scratch(repository.location) as scratch:
        root = os.path.join(scratch, "worktree")
        os.mkdir(root)
        git_dir = _repository_with(Outside(exclude=lines), scratch)
        env = {"GIT_WORK_TREE": root, "GIT_DIR": git_dir, "GIT_COMMON_DIR": git_dir, "GIT_LITERAL_PATHSPECS": "0"}
        env["GIT_INDEX_FILE"] = os.path.join(git_dir, "index")
        args = ("-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin")
        out = repository.git(*args, data=data, env=env, cwd=root, ok=(0, 1))
    return {path.removeprefix(b"./") for path in out.split(b"\0") if path}


def ignored(repository: Repository, below: Collection[bytes]) -> list[bytes]:
    """The ignored files, and wholly ignored folders (with a trailing slash), in the folders `below`."""
    narrowing = () if b"" in below else sorted(below)
    args = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", "--", *narrowing)
    out = repository.git(*args)
    return [path for path in out.split(b"\0") if path and not untracked.is_agentos_path(path)]


def ignored_in_tree(
    repository: Repository, paths: Iterable[bytes], rules: Rules, *, folders: Iterable[bytes] = ()
) -> dict[bytes, bytes]:
    """The `paths` and `folders` that `rules` ignore -> the rule file that does: its path in the worktree, or empty for
    rules outside. Tracked files are treated like others."""
    folders = list(folders)
    wanted = [*paths, *folders]
    if not wanted:
        return {}
    names = [folder + b"/" + FILE_NAME if folder else FILE_NAME for folder in trees.folders_above(wanted)]
    if rules.outside.users_path is not None:
        names.append(rules.outside.users_path)
    with state_dir.scratch(repository.location) as scratch:
        root = os.path.join(scratch, "worktree")
        for name in names:
            content = rules.content(name)
            if content is not None:
                _write(os.path.join(os.fsencode(root), name), content)
        for folder in (b"", *folders):
            directories.make(os.path.join(os.fsencode(root), folder))
        git_dir = _repository_with(rules.outside, scratch)
        users = rules.outside.users_path
        users_file = os.path.join(os.fsencode(scratch), b"users" if users is None else b"worktree/" + users)
        env = {"GIT_WORK_TREE": root, "GIT_DIR": git_dir, "GIT_COMMON_DIR": git_dir, "GIT_LITERAL_PATHSPECS": "0"}
        env["GIT_INDEX_FILE"] = os.path.join(git_dir, "index")
        options = (b"-c", b"core.excludesFile=" + users_file)
        args = (*options, "check-ignore", "--no-index", "--verbose", "-z", "--stdin")
        out = repository.git(*args, data=b"\0".join(wanted) + b"\0", env=env, cwd=root, ok=(0, 1))
    fields = out.split(b"\0")
    found = {}
    top = os.path.join(os.fsencode(root), b"")
    for n in range(0, len(fields) - 3, 4):  # source, line number, pattern, path
        source, _, pattern, path = fields[n : n + 4]
        if pattern.startswith(b"!"):
            continue
        if source == users_file and users is not None:
            found[path] = users
        else:
            # `.gitignore` files are named relative to the top of the worktree; the others here by their full path.
            found[path] = source.removeprefix(top) if not os.path.isabs(source) or source.startswith(top) else b""
    return found


def _repository_with(outside: Outside, scratch: str) -> str:
    """Create an empty repository with these outside rules; its git directory."""
    git_dir = os.path.join(scratch, "git")
    for name in ("objects", "refs", "info"):
        os.makedirs(os.path.join(git_dir, name))
    _write(os.path.join(os.fsencode(git_dir), b"HEAD"), b"ref: refs/heads/main\n")
    _write(os.path.join(os.fsencode(git_dir), b"info/exclude"), outside.exclude)
    _write(os.path.join(os.fsencode(scratch), b"users"), outside.users)
    config = b"[core]\n\trepositoryformatversion = 0\n\tignorecase = %s\n" % (b"true" if outside.any_case else b"false")
    _write(os.path.join(os.fsencode(git_dir), b"config"), config)
    return git_dir


def _write(path: bytes, content: bytes) -> None:
    directories.make(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(content)


def read_file(repository: Repository, path: bytes) -> bytes | None:
    """The content of a rule file in the worktree; None if there is none. As in git, symlinks are not followed."""
    try:
        return files.read(os.path.join(os.fsencode(repository.location.root), path))
    except OSError:
        return None


def outside(location: Location, config: Mapping[str, list[str]]) -> Outside:
    """The current rules outside the worktree; `config` is git's, from `configuration.read`."""
    any_case = parse_boolean(config.get("core.ignorecase", [""])[-1]) is True
    exclude = _read(os.path.join(location.common_dir, "info", "exclude"))
    path = users_file(location, config)
    real = os.path.realpath(path)
    top = os.path.join(os.path.realpath(location.root), "")
    if real.startswith(top) and not real.startswith(os.path.join(location.git_dir, "")):
        return Outside(exclude, b"", os.fsencode(real.removeprefix(top)), any_case)
    return Outside(exclude, _read(path), None, any_case)


def users_file(location: Location, config: Mapping[str, list[str]]) -> str:
    """The path of core.excludesFile, or git's default."""
    if "core.excludesfile" in config:
        return os.path.join(location.root, os.path.expanduser(config["core.excludesfile"][-1]))
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "git", "ignore")


def _read(path: str) -> bytes:
    """The content of a rule file outside the worktree; empty if it has only comments (as git's template has)."""
    try:
        data = files.read(path, follow=True)  # git follows symlinks to these files
    except OSError:
        return b""
    return data if any(line.strip() and not line.startswith(b"#") for line in data.splitlines()) else b""
