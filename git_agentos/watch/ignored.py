"""The folders that are not watched, because a rule ignores them and git tracks nothing there. `.agentos` is one of them
without a rule: our own commands write there, also the checkpoints that the daemon creates.

What git ignores changes with files of rules, with the configuration, and with the index: a file in an ignored folder
that is added to the index is ignored no longer. All of these are looked at before an answer is given.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from git_agentos.git import configuration, index_entries, process
from git_agentos.git.location import Location

_LIST = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
_MATCH = ("check-ignore", "-z", "--stdin")
_OWN = b".agentos/"
_MOST_PATHS = 200  # on a command line; of more, the whole worktree is asked for
_Stamp = tuple[int, ...]


class IgnoredFolders:
    """The ignored folders of one worktree as they were when they were last read: bytes with a trailing slash."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._index: _Stamp = ()
        self._rules: list[tuple[str, _Stamp]] = []
        self.folders: set[bytes] = set()

    def read(self) -> None:
        """Read all of them anew."""
        self._index, self._rules = index_entries.stamp(self._location), self._files_of_rules()
        self.folders = self.below(())

    def below(self, paths: Collection[bytes]) -> set[bytes]:
        """The ignored folders among and below these paths (of the whole worktree for none, or for many)."""
        out = self._git(*_LIST, "--", *_few(paths))
        # git lists a folder, too, of which no more is ignored than the files that are in it now.
        data = b"".join(b"./" + path[:-1] + b"\0" for path in out.split(b"\0") if path.endswith(b"/"))
        out = self._git(*_MATCH, data=data) if data else b""
        return {path.removeprefix(b"./") + b"/" for path in out.split(b"\0") if path} | self._own(paths)

    def _own(self, paths: Collection[bytes]) -> set[bytes]:
        """Our own folder, if it is among these paths (or there, for none) and git tracks nothing in it."""
        there = _OWN in paths or (not paths and os.path.isdir(os.path.join(self._location.root, os.fsdecode(_OWN))))
        return {_OWN} if there and not self._git("ls-files", "-z", "--", _OWN) else set()

    def forget_rules(self) -> None:
        """A file of rules in the worktree was changed."""
        self._rules = [("", (0,))]

    def has_same_rules(self) -> bool:
        """Whether no file of rules was written since."""
        return all(_stamp(path) == stamp for path, stamp in self._rules)

    def unsettled(self) -> frozenset[bytes]:
        """The folders, if the index was written since `no_longer` was asked; else none."""
        return frozenset() if index_entries.stamp(self._location) == self._index else frozenset(self.folders)

    def no_longer(self) -> set[bytes]:
        """Those folders that must be watched from now on: they are not among `folders` any more."""
        index = index_entries.stamp(self._location)
        before = self.folders
        if not self.has_same_rules():
            self.read()
        elif index != self._index:
            self._index = index
            if before:
                tracked = self._git("ls-files", "-z", "--", *_few(before)).split(b"\0")
                self.folders = {each for each in before if not any(path.startswith(each) for path in tracked)}
        return before - self.folders

    def _files_of_rules(self) -> list[tuple[str, _Stamp]]:
        """The files of rules outside of the worktree and those of the configuration, which name some, as they are
        now."""
        location = self._location
        entries = configuration.read_with_origins(location.root, location.environment())
        own = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        paths = [
            os.path.expanduser("~/.gitconfig"),
            os.path.join(own, "git", "config"),
            os.path.join(own, "git", "ignore"),
            os.path.join(location.common_dir, "info", "exclude"),
            os.path.join(location.git_dir, "config.worktree"),
            *(entry.file for entry in entries if entry.file),
            *(os.path.expanduser(entry.value) for entry in entries if entry.key == "core.excludesfile" and entry.value),
        ]
        unique = dict.fromkeys(os.path.join(location.root, path) for path in paths)
        return [(path, _stamp(path)) for path in unique]

    def _git(self, *args: str | bytes, data: bytes | None = None) -> bytes:
        # check-ignore, which alone gets data, refuses literal pathspecs.
        env = self._location.environment(None if data is None else {"GIT_LITERAL_PATHSPECS": "0"})
        return process.run(args, cwd=self._location.root, env=env, data=data, ok=(0,) if data is None else (0, 1))


def _few(paths: Collection[bytes]) -> Collection[bytes]:
    return paths if len(paths) <= _MOST_PATHS else ()


def _stamp(path: str) -> _Stamp:
    if not path:
        return ()
    try:
        return index_entries.stamp_of(os.stat(path))
    except OSError:
        return ()
