"""The stash, which all worktrees share: who owns an entry, and what `git stash` does to entries.

An entry belongs to the worktree that pushed it. The reference-transaction hook sees each push and writes a record into
that worktree's own git directory:

    <git dir>/agentos/stash/<commit>        JSON: {"commit", "worktree", "mac"}

The record is signed (`guard.signing`), so an agent cannot make another's entry its own, and it is removed with the
worktree. An entry without a record belongs to the worktree that was made with the branch from which it was pushed, or
else to the main worktree, where the person pushes and hooks need not be installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from git_agentos.git import process, worktrees
from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.guard import ownership, signing
from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.decision import Operation
from git_agentos.guard.ownership import Caller
from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.commands import refs
from git_agentos.guard.policy.options import Options
from git_agentos.util import directories, files

_KIND = "stash"
_PUSHED_ON = re.compile(r"(?:WIP on|On) ([^:]+): ")  # a branch's name has no colon (git-check-ref-format(1))
# An entry by its number, counted from the newest.
_PLACE = re.compile(r"(\d+)\Z|(?:refs/)?stash(?:@\{(\d+)\})?\Z")
# Operations whose approval applies to the entries that they name now, whatever their numbers mean later.
OF_ENTRIES = frozenset({"stash-apply", "stash-drop", "stash-clear", "stash-other"})


# -- whose an entry is -------------------------------------------------------------------------------------------------


def record(git_dir: str, commit: str, entries: Sequence[str], environment: Mapping[str, str]) -> None:
    """Record that the worktree with this git directory has pushed `commit`.

    `entries` are the commits that were in the stash before. One of these keeps its owner; records of commits that are
    no longer in the stash are removed. OSError if nothing can be written.
    """
    if commit in entries or not is_any_oid(commit):
        return
    folder = directories.make_own(os.path.join(git_dir, "agentos"), "stash")
    for name in os.listdir(folder):
        if name != commit and name not in entries:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
    body = {"commit": commit, "worktree": os.path.basename(git_dir)}
    document = signing.sign_document(_KIND, commit, body, signing.key(environment))
    files.replace(os.path.join(folder, commit), json.dumps(document).encode("ascii"), mode=0o600)


def listed(common_dir: str) -> list[str]:
    """The commits that are in the stash."""
    args = ["--git-dir", common_dir, "rev-list", "--walk-reflogs", "refs/stash"]
    status, out, _ = process.finish(process.spawn(args, cwd=common_dir))
    return out.decode("ascii", "replace").split() if status == 0 else []


def is_own(caller: Caller | None, common_dir: str, commit: str) -> bool:
    """Whether a worktree of the caller's own has pushed this commit of the stash."""
    if caller is None:
        return False
    makers = list(_makers(common_dir, commit, caller.environment)) or [_pushed_from(common_dir, commit) or common_dir]
    return any(ownership.owns(caller, git_dir) for git_dir in makers)


def _makers(common_dir: str, commit: str, environment: Mapping[str, str]) -> Iterator[str]:
    """The git directories of the worktrees that have a record of the entry."""
    for git_dir in (common_dir, *map(os.path.realpath, worktrees.linked_git_dirs(common_dir))):
        path = os.path.join(git_dir, "agentos", "stash", commit)
        if os.path.lexists(path) and _is_genuine(path, git_dir, commit, environment):
            yield git_dir


def _pushed_from(common_dir: str, commit: str) -> str | None:
    """The git directory of the worktree from whose branch the entry was pushed, by the message that git gives it (`WIP
    on BRANCH: …`, `On BRANCH: …`): a worktree without the guard's hooks has no records.

    None if no worktree was made with that branch. Only one worktree at a time can be on it.
    """
    status, out, _ = process.finish(
        process.spawn(["--git-dir", common_dir, "log", "-1", "--format=%s", commit, "--"], cwd=common_dir)
    )
    match = _PUSHED_ON.match(os.fsdecode(out)) if status == 0 else None
    for git_dir in worktrees.linked_git_dirs(common_dir) if match is not None else ():
        if match is not None and ownership.read_record(git_dir).get("branch") == match[1]:
            return os.path.realpath(git_dir)
    return None


def _is_genuine(path: str, git_dir: str, commit: str, environment: Mapping[str, str]) -> bool:
    try:
        document = files.read_object(path, limit=1 << 12)
        owner = (document["commit"], document["worktree"])
    except (OSError, ValueError, KeyError):
        return False
    if owner != (commit, os.path.basename(git_dir)):
        return False
    known = signing.key(environment, make=False)
    if known is None:
        return signing.is_out_of_reach(environment)  # the sandbox, in which no other worktree can be written to
    return signing.verify_document(_KIND, commit, document, known)


# -- what a command does -----------------------------------------------------------------------------------------------


def _stash(analysis: Analysis) -> None:
    args = list(analysis.args)
    which = args[0] if args and not args[0].startswith("-") else "push"
    rest = args[1:] if args and not args[0].startswith("-") else args
    if UNKNOWN in which:
        analysis.add("unresolved")
    elif which in ("list", "show"):
        raise ReadOnly
    elif which in ("push", "save"):
        _push(analysis, makes_entry=_has_changes(analysis, analysis.options("stash push", rest, paths=True)))
    elif which in ("create", "store"):
        if rest in (["-h"], ["--help"]):
            raise ReadOnly
        _push(analysis, makes_entry=which == "store")
    elif which in ("pop", "apply", "branch"):
        options = analysis.options("stash apply", rest)
        _apply(analysis, which, options.operands[-1:] if which != "branch" else options.operands[1:2])
    elif which == "drop":
        options = analysis.options("stash drop", rest)
        _drop(analysis, options.operands[-1:])
    elif which == "clear":
        if rest[:1] in (["-h"], ["--help"]):
            raise ReadOnly
        _clear(analysis)
    elif which == "export":
        _export(analysis, rest)
    elif which == "import":
        if rest in (["-h"], ["--help"]):
            raise ReadOnly
        analysis.add("stash", " ".join(rest))
    else:
        analysis.add("unknown-command", f"stash {which}")


def entries_made(operation: Operation) -> int:
    """How many entries an operation adds to those that the same text has pushed (-1: removes one)."""
    if operation.name == "stash":
        return int(operation.own)
    return -int(operation.own and operation.name in ("stash-apply", "stash-drop"))


def _has_changes(analysis: Analysis, options: Options) -> bool:
    """Whether there is something to push now: otherwise git makes no entry, and the next `pop` takes another one."""
    untracked = "normal" if options.has("include-untracked", "all") else "no"
    status, out = analysis.facts.git(
        "status", "--porcelain", f"--untracked-files={untracked}", "--ignore-submodules=all", "--", *options.operands
    )
    return status == 0 and bool(out)


def _push(analysis: Analysis, *, makes_entry: bool) -> None:
    analysis.add("stash", own=makes_entry)
    analysis.require_checkpoint()


def _apply(analysis: Analysis, which: str, words: Sequence[str]) -> None:
    entry = _entry(analysis, words)
    if entry is None:
        analysis.add("stash-apply", "pushed before", own=which != "apply")
        analysis.require_checkpoint()
        return
    commit = analysis.facts.commit(entry)
    if commit is not None and _others(analysis, [commit], listed=which == "apply"):
        analysis.add("stash-other", f"{entry}, {commit[:12]}")
    else:
        analysis.add("stash-apply", " ".join(words))
    # `pop` deletes the entry. If the entry stays, an approval is bound to its commit.
    analysis.require_checkpoint(
        ignored=analysis.facts.ignored_in_the_way(entry), commits=[commit] if commit is not None else []
    )


def _drop(analysis: Analysis, words: Sequence[str]) -> None:
    entry = _entry(analysis, words)
    commit = analysis.facts.commit(entry) if entry is not None else None
    subject = f"{entry}, {commit[:12]}" if commit is not None else entry or "pushed before"
    _delete(analysis, "stash-drop", subject, [commit] if commit is not None else [])


def _clear(analysis: Analysis) -> None:
    entries = analysis.facts.stashes()
    _delete(analysis, "stash-clear", f"{len(entries)} entries", entries)


def _delete(analysis: Analysis, name: str, subject: str, commits: Sequence[str]) -> None:
    """Entries are deleted. In the main worktree an agent's and the person's look alike: nothing is an agent's
    own there."""
    others = _others(analysis, commits)
    analysis.add("stash-other" if others else name, subject, own=not others, limited=not others)
    analysis.require_checkpoint(commits=commits, touches=())


def _others(analysis: Analysis, commits: Sequence[str], *, listed: bool = False) -> list[str]:
    """Which of these entries are not the caller's own. With `listed`, commits that are not in the stash belong to
    nobody."""
    git_dirs = analysis.facts.git_dirs
    if len(git_dirs) < 2:
        return []
    found = [each for each in commits if not is_own(analysis.caller, git_dirs[1], each)]
    return [each for each in found if each in analysis.facts.stashes()] if listed and found else found


def _export(analysis: Analysis, words: Sequence[str]) -> None:
    """`git stash export --to-ref REF` sets REF, whatever it was; with `--print`, there are new objects only."""
    options = analysis.options("stash export", words)
    if options.has("to-ref"):
        refs.set_ref(analysis, options.value("to-ref"), None)
    else:
        analysis.add("objects")


def _entry(analysis: Analysis, words: Sequence[str]) -> str | None:
    """An entry of the stash as a revision of now; None for one that earlier commands in the same text push."""
    word = words[0] if words else "0"
    place = _PLACE.match(word)
    if place is None:
        return word
    number = int(place[1] or place[2] or 0) - analysis.own.stashed
    return f"stash@{{{number}}}" if number >= 0 else None


HANDLERS = {"stash": _stash}
