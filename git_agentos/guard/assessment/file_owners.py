"""Whose the files are that a command names: the agent's own, another worktree's, the guard's settings.

An agent may change its own worktree freely, and files in no repository. `file-outside` are files in another repository,
and a folder that is deleted with a repository, the user's home or the system in it; `other-worktree` are files in
another worktree of the agent's own repository; `guard-change` are files from which git or a harness reads its settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos.git import gitfile, worktrees
from git_agentos.guard import identity, ownership, protected_files
from git_agentos.guard.call import Call
from git_agentos.guard.decision import Operation
from git_agentos.guard.identity import Identity
from git_agentos.guard.paths import is_below, nearest_folder
from git_agentos.process import table

_MOST_SEARCHED = 100_000  # entries of a folder that is looked through for repositories
_SYSTEM = frozenset(
    """/etc /usr /var /home /root /opt /srv /boot /bin /sbin /lib /lib64 /tmp /dev /proc /sys /run /mnt /media /Users
    /Applications /Library /System""".split()
)


class FileOwners:
    """Answers about the files of one command that `identity` gives as `call`."""

    def __init__(self, call: Call, identity: Identity) -> None:
        self.call = call
        self.identity = identity
        found = gitfile.find(call.cwd)
        self.root = os.path.realpath(found[0]) if found is not None else None
        self._settings = settings_files(call.environment)
        self._owned: dict[str, bool] = {}

    def operation(self, path: str, *, whole: bool = False, follows: bool = True) -> Operation | None:
        """The operation of writing to `path` (absolute), or, with `whole`, of deleting it with all that is below. If it
        is a link and `follows`, the file that it leads to counts too."""
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        for each in dict.fromkeys((real, os.path.realpath(path)) if follows else (real,)):
            if self._is_setting(each, whole):
                return Operation("guard-change", path)
            found = self._of(each, whole)
            if found is not None:
                return Operation(found, path)
        return None

    def worktree(self, path: str) -> str | None:
        """The root of the worktree that a path is in; for a link, that of the link itself."""
        folder = nearest_folder(os.path.dirname(path) if os.path.islink(path) else path)
        found = gitfile.find(folder)
        return os.path.realpath(found[0]) if found is not None else None

    def _of(self, path: str, whole: bool) -> str | None:
        if whole and (_is_precious(path, self.call.environment) or self._has_own(path)):
            return "file-outside"
        root = self.worktree(path)
        if root is not None and self.root is None and self.identity.source == "harness":
            return None  # a person's harness outside of worktrees has no other worktree
        if root is not None and not self._owns(root):
            return "other-worktree" if self.is_sibling(root) else "file-outside"
        if whole and os.path.isdir(path) and not os.path.islink(path):
            if any(is_below(each, path) and not self._owns(each) for each in self._worktrees()):
                return "other-worktree"
            # Other repositories inside of the agent's own worktree are saved with it.
            inner = _repository_below(path) if root is None else None
            if inner is not None and not self._owns(inner):
                return "other-worktree" if self.is_sibling(inner) else "file-outside"
        return None

    def _worktrees(self) -> list[str]:
        """The roots of the linked worktrees of the agent's repository."""
        found = gitfile.find(self.call.cwd)
        entries = worktrees.linked_git_dirs(gitfile.common_dir(found[1])) if found is not None else ()
        return [os.path.realpath(root) for entry in entries if (root := gitfile.root_or_none(entry)) is not None]

    def _has_own(self, path: str) -> bool:
        """Whether a folder contains the agent's own worktree."""
        return self.root is not None and self.root != path and is_below(self.root, path)

    def _is_setting(self, path: str, whole: bool) -> bool:
        if protected_files.contains_protected(path) if whole else protected_files.is_protected(path):
            return True
        if self._is_state(path):
            return True
        return any(
            is_below(path, each) or (whole and is_below(each, path) and os.path.lexists(each))
            for each in self._settings
        )

    def _is_state(self, path: str) -> bool:
        """Whether a path is in the folder that holds a worktree's log and the records of its runs."""
        before, found, _ = (path + os.sep).partition(os.sep + ".agentos" + os.sep)
        return bool(found) and os.path.lexists(os.path.join(before, ".git"))

    def _owns(self, root: str) -> bool:
        if root not in self._owned:
            found = gitfile.find(root)
            git_dir = os.path.realpath(found[1]) if found is not None else None
            caller = ownership.Caller(self.identity, self.call.environment, self.call.cwd, table.own_pid())
            self._owned[root] = git_dir is not None and (
                ownership.owns(caller, git_dir) or self._is_inside(root, identity.worktree_agent_id(git_dir))
            )
        return self._owned[root]

    def _is_inside(self, root: str, managed: str | None) -> bool:
        """Whether a repository is in the agent's own worktree, and is not another agent's."""
        own = self.root
        return managed is None and own is not None and own != root and is_below(root, own) and self._owns(own)

    def is_sibling(self, root: str) -> bool:
        """Whether a worktree belongs to the same repository as the agent's."""
        own, other = gitfile.find(self.call.cwd), gitfile.find(root)
        return own is not None and other is not None and gitfile.common_dir(own[1]) == gitfile.common_dir(other[1])


def settings_files(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Files and folders outside of repositories from which git takes its configuration, and the guard its key."""
    home = environment.get("HOME") or os.path.expanduser("~")
    xdg = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    found = [os.path.join(home, ".gitconfig"), os.path.join(xdg, "git", "config"), os.path.join(xdg, "git-agentos")]
    found += [os.path.join(home, ".config", "git", "config"), "/etc/gitconfig"]
    found += [environment[name] for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if environment.get(name)]
    plain = [os.path.normpath(each) for each in found if os.path.isabs(each) and each != os.devnull]
    return tuple(dict.fromkeys([*plain, *(os.path.realpath(each) for each in plain)]))


def _is_precious(path: str, environment: Mapping[str, str]) -> bool:
    """Whether a folder is the system's, or contains the user's home."""
    home = environment.get("HOME", "")
    return path == os.sep or path in _SYSTEM or (os.path.isabs(home) and is_below(os.path.realpath(home), path))


def _repository_below(folder: str) -> str | None:
    """A worktree or a bare repository at or below a folder; the folder itself if it has too many entries to look
    through."""
    pending = [folder]
    seen = 0
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as entries:
                found = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        except OSError:
            continue
        if ".git" in found or ("HEAD" in found and found.get("objects") and found.get("refs")):
            return current
        seen += len(found)
        if seen > _MOST_SEARCHED:
            return folder
        pending += [os.path.join(current, name) for name, is_folder in found.items() if is_folder]
    return None
