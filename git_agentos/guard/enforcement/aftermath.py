"""What a git command has changed before a hook stops it.

A hook can come too late: `git -c core.fsmonitor=false reset --hard` overwrites files, and is stopped only when it moves
its branch. So the guard looks before it says "nothing has changed": at files, at the index, and at reflogs that were
written since the command was started.

Start times have a resolution of 10 ms, and file times lag behind by up to as much. What was written around the start
counts only if the index has the tree of a commit that the command names or was about to move a ref to.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs
from git_agentos.git.repository import Repository
from git_agentos.guard.messages import printable
from git_agentos.process import table
from git_agentos.util import git_command_line, times
from git_agentos.util.named_tuple import NamedTuple

_STEP = 10_000_000  # ns
_SHOWN = 3
# Commands that write neither files of the worktree nor its index before they move a ref.
_LEAVES_FILES = frozenset(
    "branch commit commit-tree config fetch notes push reflog remote replace send-pack symbolic-ref tag "
    "update-ref".split()
)


class Aftermath(NamedTuple):
    """What was written since a command was started: `files` of the worktree (folders end with a slash), the index
    (`in_index`), `reflogs` that lost entries. `earlier` is the newest checkpoint of a different state, from before."""

    files: tuple[bytes, ...] = ()
    in_index: bool = False
    reflogs: bool = False
    earlier: Checkpoint | None = None

    def __bool__(self) -> bool:
        return bool(self.files or self.in_index or self.reflogs)

    def lines(self) -> list[str]:
        """The changes as lines of a message; none if nothing was written."""
        if not self:
            return []
        names = [f"'{printable(os.fsdecode(path))}'" for path in self.files[:_SHOWN]]
        names += [f"{len(self.files) - _SHOWN} more"] if len(self.files) > _SHOWN else []
        names += ["the index"] if self.in_index else []
        names += ["shorter reflogs"] if self.reflogs else []
        text = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
        lines = [f"stopped late: since it was started, it has written {text}"]
        if self.earlier is None:
            return [*lines, "there is no checkpoint of another state from before"]
        short = self.earlier.id[:8]
        return [*lines, f"the newest checkpoint from before: {short} (git agentos restore {short})"]


def may_write_files(argv: Sequence[str]) -> bool:
    """Whether a git command may write files of the worktree, or its index, before a hook stops it."""
    return git_command_line.parse(argv).command not in _LEAVES_FILES


def find_changes(
    context: OpenWorktree, pid: int, argv: Sequence[str], now: Checkpoint | None, targets: Sequence[str]
) -> Aftermath | None:
    """What the git process `pid`, which runs `argv`, has written; None if that cannot be known.

    `now` is a checkpoint of the present state, needed if the command `may_write_files`; `targets` are the commits to
    which it was about to move refs.
    """
    started = _started_at(pid)
    if started is None:
        return None
    repository, location = context.repository, context.location
    reflogs = any(not name.startswith("refs/agentos/") for name in refs.shortened_logs(location, started - _STEP))
    if not may_write_files(argv):
        return Aftermath(reflogs=reflogs, earlier=_earlier(context, None, started) if reflogs else None)
    if now is None:
        return None
    index_tree = repository.commit(format.open_checkpoint(repository, now.id).index_commit).tree
    since = started + _STEP
    named = (word for word in git_command_line.parse(argv).args if not word.startswith("-"))
    if index_tree in _trees(repository, ["HEAD", *targets, *named]):
        since = started - _STEP
    files, first = _written(repository, since, now)
    index_at = _changed_at(os.path.join(location.git_dir, "index"))
    earlier = _earlier(context, now, first or started)
    index = index_at >= since and earlier is not None and _index_tree(repository, earlier) != index_tree
    return Aftermath(files, index, reflogs, earlier)


def _started_at(pid: int) -> int | None:
    """When a process was started, in ns since the epoch, at most 10 ms too early; None if that is not known."""
    process = table.identify(pid)
    if process is None or not process.start.isdigit() or not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    since_boot = int(process.start) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + since_boot


def _written(repository: Repository, since: int, now: Checkpoint) -> tuple[tuple[bytes, ...], int]:
    """The tracked files that were written since then and match the index, and the folders from which something
    vanished; and the time of the first of them."""
    root = os.fsencode(repository.location.root)
    tracked = [name for name in repository.git("ls-files", "-z").split(b"\0") if name]
    own = {os.fsencode(path) for path in now.unstaged_changes}
    found: dict[bytes, int] = {}
    for name in tracked:
        at = _changed_at(os.path.join(root, name))
        if at >= since and name not in own:
            found[name] = at
    folders = {os.path.dirname(name) for name in tracked}
    busy = {os.path.dirname(name) for name in (*found, *own, *(os.fsencode(path) for path in now.untracked_files))}
    for folder in sorted(folders - busy):
        at = _changed_at(os.path.join(root, folder))
        if at >= since:
            found[folder + b"/" if folder else b"./"] = at
    return tuple(sorted(found)), min(found.values(), default=0)


def _earlier(context: OpenWorktree, now: Checkpoint | None, first: int) -> Checkpoint | None:
    """The newest checkpoint that was created before `first` and holds another state than `now`."""
    repository = context.repository
    with contextlib.suppress(AgentosError):
        present = format.open_checkpoint(repository, now.id).meta.get("state") if now is not None else None
        for link in timeline.walk(repository, context.worktree_id):
            meta = format.open_checkpoint(repository, link.checkpoint).meta
            found = format.describe(link.checkpoint, meta)
            if meta.get("state") != present and _nanoseconds(found.created_at) <= first + _STEP:
                return found
    return None


def _nanoseconds(text: str) -> int:
    return int(times.to_seconds(text) * 1000) * 1_000_000


def _trees(repository: Repository, commits: Sequence[str]) -> set[str]:
    """The trees of these commits; names of anything else are left out."""
    lines = "".join(f"{name}^{{tree}}\n" for name in dict.fromkeys(commits) if name and "\n" not in name)
    out = repository.git("cat-file", "--batch-check=%(objectname) %(objecttype)", data=os.fsencode(lines))
    return {line.split(" ")[0] for line in out.decode("ascii", "replace").splitlines() if line.endswith(" tree")}


def _index_tree(repository: Repository, checkpoint: Checkpoint) -> str:
    return repository.commit(format.open_checkpoint(repository, checkpoint.id).index_commit).tree


def _changed_at(path: str | bytes) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0
