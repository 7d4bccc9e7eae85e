"""Facts of a repository on which a decision depends, read when they are asked for.

Each question is a git process or a look at a file, so each is answered once, and only if a command's analysis asks. git
is asked as the command itself would be: in its folder, with its `--git-dir` and GIT_*, so the answers are true for it.
What cannot be found out counts as the worse case.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from git_agentos.errors import RepositoryError
from git_agentos.git import gitfile, process
from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.configuration.settings import GuardSettings, Remote
from git_agentos.guard.paths import is_in_git_directory, is_really_below
from git_agentos.guard.policy.git_line import GitLine
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean

# With these variables of the command's environment, our own git would do more than answer.
_LEFT_OUT = (
    "GIT_EXTERNAL_DIFF",
    "GIT_TRACE",
    "GIT_REDIRECT_",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_EXEC_PATH",
)


class StatusEntry(NamedTuple):
    """One entry of `git status --porcelain=v2`: `x` is index against HEAD, `y` worktree against index (`.`: same)."""

    path: bytes
    x: str
    y: str
    unmerged: bool = False


class Facts:
    """What a command line may ask about the repository in which it works."""

    def __init__(self, line: GitLine, cwd: str, environment: Mapping[str, str], settings: GuardSettings) -> None:
        self.settings = settings
        unclear = any(UNKNOWN in word for word in line.location_options)
        self.folder = cwd if unclear else os.path.normpath(os.path.join(cwd, *line.folders))
        self._line = line
        self._cwd = cwd
        self._variables = environment
        self._environment = {
            **{key: value for key, value in environment.items() if not key.startswith(_LEFT_OUT)},
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }
        self._given_dir = line.option("--git-dir") or environment.get("GIT_DIR") or ""
        self._given_tree = line.option("--work-tree") or environment.get("GIT_WORK_TREE") or ""
        # GIT_REFERENCE_BACKEND (git 2.54) says where the refs are.
        self._given_common = environment.get("GIT_COMMON_DIR") or environment.get("GIT_REFERENCE_BACKEND") or ""
        self._given_objects = environment.get("GIT_OBJECT_DIRECTORY") or ""
        self._given_index = environment.get("GIT_INDEX_FILE") or ""
        self._answers: dict[tuple[str, ...], tuple[int, bytes]] = {}

    def git(self, *args: str, data: bytes | None = None) -> tuple[int, bytes]:
        """The exit code and the output of git where the command works, at one moment: it is asked once for each thing;
        128 if it cannot be run."""
        if data is None and args in self._answers:
            return self._answers[args]
        if any(UNKNOWN in word for word in (*self._line.location_options, *args)):
            return 128, b""
        stdin = process.PIPE if data is not None else None
        words = [*self._line.location_options, *args]
        try:
            child = process.spawn(words, cwd=self._cwd, env=self._environment, stdin=stdin)
        except RepositoryError:
            return 128, b""
        status, out, _ = process.finish(child, data)
        return self._answers.setdefault(args, (status, out)) if data is None else (status, out)

    def config(self, key: str) -> str | None:
        """A configuration value (key in lower case) as the command would see it."""
        given = [item for item in self._line.overrides if item.key == key]
        if given:
            return "true" if given[-1].value is None else given[-1].value
        values = self.settings.values.get(key)
        return values[-1] if values else None

    def configured(self, keys: re.Pattern[str]) -> list[str]:
        """The values of all keys that a pattern matches (in lower case), as the command would see them."""
        names = dict.fromkeys([*self.settings.values, *(item.key for item in self._line.overrides)])
        return [value for key in names if keys.fullmatch(key.lower()) and (value := self.config(key)) is not None]

    def variable(self, name: str) -> str:
        """An environment variable as the command sees it; empty if it is not set."""
        return self._variables.get(name, "")

    @property
    def has_template(self) -> bool:
        """Whether the command brings a template folder, whose hooks a new repository would have."""
        return bool(self.variable("GIT_TEMPLATE_DIR")) or (
            self.is_overridden("init.templatedir") and bool(self.config("init.templatedir"))
        )

    def is_overridden(self, key: str) -> bool:
        """Whether a configuration value comes with the command."""
        return any(item.key == key for item in self._line.overrides)

    # -- where -----------------------------------------------------------------------------------------------------

    @cached_property
    def root(self) -> str | None:
        """The top of the worktree; None outside of one."""
        if len(self._places) <= 3:
            return os.path.realpath(self._places[2]) if len(self._places) == 3 else None
        status, out = self.git("rev-parse", "--show-toplevel")  # a path has a newline
        return os.path.realpath(os.fsdecode(out.removesuffix(b"\n"))) if status == 0 and out.strip() else None

    @cached_property
    def git_dirs(self) -> tuple[str, ...]:
        """The worktree's own git directory and the common one; empty outside of a repository."""
        found = self._places[:2] if len(self._places) <= 3 else self._places
        return tuple(os.path.realpath(line) for line in found)

    @cached_property
    def _places(self) -> tuple[str, ...]:
        """The lines of both git directories and, in a worktree, its top: git prints what it knows before it fails."""
        names = ("--git-dir", "--git-common-dir", "--show-toplevel")
        _, out = self.git("rev-parse", "--path-format=absolute", *names)
        return tuple(os.fsdecode(line) for line in out.split(b"\n") if line)

    @cached_property
    def redirected(self) -> bool:
        """Whether a variable or an option makes the command work in another repository than that of its folder."""
        if not (self._given_dir or self._given_tree or self._given_common or self._given_objects):
            return False
        if (natural := gitfile.find(self.folder)) is None:
            return False
        objects = os.path.join(self.git_dirs[1], "objects") if len(self.git_dirs) > 1 else ""
        if self._given_objects and os.path.realpath(os.path.join(self.folder, self._given_objects)) != objects:
            return True
        if self._given_common or UNKNOWN in self._given_dir + self._given_tree:
            return True
        given = os.path.realpath(os.path.join(self.folder, self._given_dir)) if self._given_dir else natural[1]
        if given != natural[1]:
            return True
        tree = os.path.realpath(os.path.join(self.folder, self._given_tree)) if self._given_tree else natural[0]
        return tree != natural[0]

    @cached_property
    def uses_private_index(self) -> bool:
        """Whether the command works on an index file that is no worktree's."""
        if not self._given_index or not self.git_dirs:
            return False
        # Relative to the top, as git takes it.
        path = os.path.realpath(os.path.join(self.root or self.folder, self._given_index))
        return os.path.basename(path) not in ("index", "index.lock") or not self.in_git_dir(path)

    @cached_property
    def changed_worktrees(self) -> tuple[str, ...]:
        """The git directories of the worktrees whose HEAD, files or index the command works on: variables and options
        can name those of different ones."""
        found: list[str] = []
        if self._given_dir or self._given_tree or self._given_common:
            found += self.git_dirs[:1]
            natural = gitfile.find(self.root) if self.root is not None else None
        else:
            natural = gitfile.find(self.folder)
        if natural is not None:
            found.append(natural[1])
        if self._given_index:
            path = os.path.realpath(os.path.join(self.root or self.folder, self._given_index))
            if os.path.basename(path) == "index" and self.in_git_dir(path):
                found.append(os.path.dirname(path))
        return tuple(dict.fromkeys(found))

    def path(self, name: str) -> str:
        """The absolute path of a file name on the command line."""
        return os.path.normpath(os.path.join(self.folder, name))

    def exists(self, name: str) -> bool:
        return UNKNOWN not in name and os.path.lexists(self.path(name))

    def is_nonempty(self, name: str) -> bool:
        """Whether overwriting a file would lose something. git creates an empty file before it asks."""
        try:
            found = os.stat(self.path(name))
        except OSError:
            return self.exists(name)
        return not stat.S_ISREG(found.st_mode) or found.st_size > 0

    def names_in(self, name: str) -> list[str]:
        """The names in a folder; none if it is not a folder."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def is_in_worktree(self, name: str) -> bool:
        """Whether a file name is below the top of the worktree; true outside of a worktree."""
        return self.root is None or is_really_below(self.path(name), self.root)

    def from_root(self, name: str) -> frozenset[bytes]:
        """The path of a file relative to the top, as a checkpoint lists it; empty if there is no such file."""
        path = os.path.realpath(self.path(name))
        if self.root is None or not is_really_below(path, self.root) or not os.path.isfile(path):
            return frozenset()
        return frozenset({os.fsencode(os.path.relpath(path, self.root))})

    def in_git_dir(self, name: str) -> bool:
        """Whether a file name is in some git directory."""
        return is_in_git_directory(os.path.realpath(self.path(name)), self.git_dirs)

    def in_objects(self, name: str) -> bool:
        """Whether a file name is where git keeps its objects."""
        path = os.path.realpath(self.path(name))
        return any(is_really_below(path, os.path.join(each, "objects")) for each in self.git_dirs)

    @cached_property
    def exec_path(self) -> str:
        """The folder of git's own programs. It does not depend on where the command works, which may be unknown."""
        env = {key: value for key, value in self._environment.items() if key != "GIT_EXEC_PATH"}
        status, out, _ = process.finish(process.spawn(["--exec-path"], cwd=os.sep, env=env))
        return os.path.realpath(os.fsdecode(out.strip())) if status == 0 else ""

    # -- names -----------------------------------------------------------------------------------------------------

    @cached_property
    def branch(self) -> str | None:
        """The branch that HEAD is on, short; None if HEAD is detached or cannot be read."""
        status, out = self.git("symbolic-ref", "--quiet", "HEAD")
        name = os.fsdecode(out.strip())
        return name.removeprefix("refs/heads/") if status == 0 and name.startswith("refs/heads/") else None

    @property
    def protected(self) -> tuple[str, ...]:
        return self.settings.protected

    def is_protected(self, branch: str) -> bool:
        return self.settings.is_protected(branch)

    def commit(self, revision: str) -> str | None:
        """The commit that a revision names; None if it names none."""
        text = "@{-1}" if revision == "-" else revision
        if not text or text.startswith("-"):
            return None
        if "..." in text:
            status, out = self.git("merge-base", *(side or "HEAD" for side in text.split("...", 1)))
        else:
            status, out = self.git("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
        return out.split(b"\n")[0].decode("ascii", "replace") if status == 0 and out.strip() else None

    def is_revision(self, word: str) -> bool:
        """Whether a word names a commit or a tree."""
        if self.commit(word) is not None:
            return True
        return not word.startswith("-") and self.git("rev-parse", "--verify", "--quiet", f"{word}^{{tree}}")[0] == 0

    def ref(self, name: str) -> str | None:
        """The value of a ref by its full name; None if there is no such ref."""
        status, out = self.git("rev-parse", "--verify", "--quiet", name)
        return out.strip().decode("ascii", "replace") if status == 0 else None

    def remote_branch(self, name: str) -> str | None:
        """The remote-tracking ref of this name on some remote (`git checkout NAME` makes a branch that follows it)."""
        status, out = self.git("for-each-ref", "--format=%(refname)", "refs/remotes")
        found = [line for line in os.fsdecode(out).splitlines() if line.split("/", 3)[3:] == [name]]
        return found[0] if status == 0 and found else None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` contains everything that `old` has."""
        return old == new or self.git("merge-base", "--is-ancestor", old, new)[0] == 0

    # -- files -----------------------------------------------------------------------------------------------------

    def changed(self, pathspecs: Sequence[str], *, submodules: bool = False) -> list[StatusEntry] | None:
        """Tracked files that differ from HEAD or the index, among those that the pathspecs match (all files without
        pathspecs); None if git reports an error."""
        args = ["status", "--porcelain=v2", "-z", "--untracked-files=no", "--no-renames"]
        args += ["--ignore-submodules=none" if submodules else "--ignore-submodules=all", "--", *pathspecs]
        status, out = self.git(*args)
        if status != 0:
            return None
        found = []
        for record in out.split(b"\0"):
            if record[:2] in (b"1 ", b"u "):
                fields = record.split(b" ", 8 if record[:1] == b"1" else 10)
                state = fields[1].decode("ascii", "replace")
                found.append(StatusEntry(fields[-1], state[0], state[1], record[:1] == b"u"))
        # status does not list changes of files with assume-unchanged or skip-worktree.
        status, out = self.git("ls-files", "-v", "-z", "--", *pathspecs)
        for record in out.split(b"\0") if status == 0 else ():
            tag, _, path = record.partition(b" ")
            if tag in (b"S", b"h", b"s") and os.path.lexists(os.path.join(os.fsencode(self.folder), path)):
                found.append(StatusEntry(path, ".", "M"))
        return found

    def has_staged_over(self, pathspecs: Sequence[str]) -> bool:
        """Whether a file has a staged version that neither HEAD nor the worktree has."""
        if self.git("diff-index", "--cached", "--quiet", "HEAD", "--", *pathspecs)[0] == 0:
            return False
        found = self.changed(pathspecs)
        if found is None:
            return self.root is not None
        return any(each.x != "." and each.y != "." for each in found)

    def untracked_in(self, revision: str, pathspecs: Sequence[str]) -> list[bytes]:
        """Files that git does not track, and that a commit has under the same name."""
        status, out = self.git("ls-files", "--others", "-z", "--", *pathspecs)
        others = {path for path in out.split(b"\0") if path} if status == 0 else set()
        if not others:
            return []
        status, out = self.git("ls-tree", "-r", "-z", "--name-only", revision, "--", *pathspecs)
        if status != 0:
            # Pathspec magic, which ls-tree does not know.
            _, out = self.git("ls-tree", "-r", "-z", "--name-only", revision)
        return sorted(others.intersection(out.split(b"\0")))

    def in_tree(self, revision: str, path: bytes) -> bool:
        """Whether a commit has a file (by its path from the top)."""
        return self.git("rev-parse", "--verify", "--quiet", f"{revision}:{os.fsdecode(path)}")[0] == 0

    def ignored_in_the_way(self, revision: str) -> frozenset[bytes]:
        """Ignored files at paths where the files of a commit would be checked out, relative to the top."""
        commit = self.commit(revision)
        if commit is None and (other := self.remote_branch(revision)) is not None:
            commit = self.commit(other)
        root = self.root
        if commit is None or root is None:
            return frozenset()
        args = ("diff-index", "--cached", "--name-only", "-z", "--no-renames", "--diff-filter=D", commit)
        status, out = self.git("-C", root, *args) if not self._given_tree else self.git(*args)
        top = os.fsencode(root)
        paths = [path for path in out.split(b"\0") if path] if status == 0 else []
        found = {each for path in paths for each in _occupants(top, path)}
        if not found:
            return frozenset()
        data = b"".join(b"./" + path + b"\0" for path in sorted(found))
        _, out = self.git("-C", root, "check-ignore", "-z", "--stdin", data=data)
        return frozenset(path.removeprefix(b"./") for path in out.split(b"\0") if path)

    def ignored(self, pathspecs: Sequence[str]) -> frozenset[bytes]:
        """The ignored files that the pathspecs match, relative to the top."""
        args = ("ls-files", "--others", "--ignored", "--exclude-standard", "--full-name", "-z", "--")
        _, out = self.git(*args, *(pathspecs or ["."]))
        return frozenset(path for path in out.split(b"\0") if path and not path.endswith(b"/"))

    def has_nested_repository(self, pathspecs: Sequence[str]) -> bool:
        """Whether there are repositories among the untracked folders."""
        status, out = self.git("ls-files", "--others", "-z", "--", *(pathspecs or ["."]))
        return status != 0 or any(path.endswith(b"/") for path in out.split(b"\0") if path)

    def staged_below(self, folder: str) -> list[bytes]:
        """Files below a folder (from the top) whose staged version differs from HEAD's."""
        base = "HEAD"
        if self.commit("HEAD") is None:
            base = os.fsdecode(self.git("hash-object", "-t", "tree", "--stdin", data=b"")[1].strip())
        args = ("diff-index", "--cached", "--name-only", "-z", "--no-renames", "--diff-filter=d", base)
        _, out = self.git(*args, "--", f":(top,literal){folder}")
        return [path for path in out.split(b"\0") if path]

    # -- commits ---------------------------------------------------------------------------------------------------

    def unreachable_without(self, refs: Iterable[str], *, head: bool = False, new: str | None = None) -> list[str]:
        """The commits that these refs (full names) are at and that no other ref, and not `new`, reaches; with `head`,
        HEAD moves too."""
        names = list(dict.fromkeys(refs))
        tips = dict.fromkeys(oid for name in [*names, *(["HEAD"] if head else [])] if (oid := self.commit(name)))
        found = []
        for tip in tips:
            others = [f"--exclude={name}" for name in names]
            args = ["rev-list", "-n", "1", tip, "--not", *others, "--glob=refs/*"]
            if not head:
                args.append("HEAD")
            if new is not None:
                args.append(new)
            status, out = self.git(*args)
            if status != 0 or out.strip():
                found.append(tip)
        return found

    def commits_only_in(self, refs: Collection[str]) -> list[str]:
        """The tips of everything that only these refs reach (full names, `refs/remotes/origin/` for all below it); one
        question for any number of refs."""
        status, out = self.git("for-each-ref", "--format=%(objectname) %(refname)")
        rows = [os.fsdecode(line).split(" ", 1) for line in out.splitlines()] if status == 0 else []
        folders = tuple(each for each in refs if each.endswith("/"))
        tips = {oid: "" for oid, name in rows if name in refs or name.startswith(folders)}
        others = {oid for oid, name in rows if not (name in refs or name.startswith(folders))}
        data = "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in others), "^HEAD\n"])
        if not tips:
            return []
        status, out = self.git("rev-list", "--ignore-missing", "--parents", "--stdin", data=data.encode())
        if status != 0:
            return list(tips)
        found = [line.split() for line in out.decode("ascii", "replace").splitlines()]
        parents = {parent for row in found for parent in row[1:]}
        return [row[0] for row in found if row[0] not in parents]

    def unreferenced_head(self, new: str | None = None) -> list[str]:
        """The commit that HEAD is at, if only HEAD and its branch, and not the revision `new`, keep it."""
        names = [f"refs/heads/{self.branch}"] if self.branch is not None else []
        return self.unreachable_without(names, head=True, new=self.commit(new) if new is not None else None)

    def stashes(self) -> list[str]:
        """The commits of the stash, the newest first."""
        status, out = self.git("rev-list", "--walk-reflogs", "refs/stash")
        return out.decode("ascii", "replace").split() if status == 0 else []

    # -- remotes ---------------------------------------------------------------------------------------------------

    def push_remote(self, word: str | None) -> tuple[str, Remote]:
        """The remote of a push, and what its configuration says (nothing for a URL)."""
        name = word
        if name is None and self.branch is not None:
            name = self.config(f"branch.{self.branch}.pushremote")
        name = name or self.config("remote.pushdefault")
        if name is None and self.branch is not None:
            name = self.config(f"branch.{self.branch}.remote")
        name = name or "origin"
        return name, self.remote(name)

    def remote(self, name: str) -> Remote:
        """What configuration says about a remote, `-c` included, or about all of a group (`remotes.<group>`)."""
        group = " ".join(self.settings.values.get(f"remotes.{name.lower()}", ())).split()
        known = [self.settings.remotes.get(each, Remote()) for each in (name, *group)]
        push, fetch = sum((each.push for each in known), ()), sum((each.fetch for each in known), ())
        found = Remote(any(each.mirror for each in known), push, fetch)
        for item in self._line.overrides:
            if item.key == f"remote.{name}.push" and item.value is not None:
                found = found._replace(push=(*found.push, item.value))
            if item.key == f"remote.{name}.fetch" and item.value is not None:
                found = found._replace(fetch=(*found.fetch, item.value))
            if item.key == f"remote.{name}.mirror":
                found = found._replace(mirror=parse_boolean(item.value or "true") is not False)
        return found


def _occupants(top: bytes, path: bytes) -> list[bytes]:
    """The files in the way of `path`: itself, those below it, or a file in place of one of its folders."""
    found = os.path.join(top, path)
    if os.path.isdir(found) and not os.path.islink(found):
        return [
            os.path.relpath(os.path.join(folder, name), top) for folder, _, names in os.walk(found) for name in names
        ]
    if os.path.lexists(found):
        return [path]
    parent = path
    while parent := parent.rpartition(b"/")[0]:
        there = os.path.join(top, parent)
        if os.path.islink(there) or os.path.isfile(there):
            return [parent]
        if os.path.isdir(there):
            break
    return []
