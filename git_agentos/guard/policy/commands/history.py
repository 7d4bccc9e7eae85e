"""Commands that make or rewrite commits: commit, merge, rebase, cherry-pick, revert, am, and the filters."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.commands import refs
from git_agentos.guard.policy.options import Options


def _commit(analysis: Analysis) -> None:
    options = analysis.options()
    # With an option for a status format, git does not commit.
    if options.has("dry-run", "short", "porcelain", "long"):
        raise ReadOnly
    facts = analysis.facts
    if options.has("no-verify"):
        analysis.add("no-verify")
    if options.has("amend"):
        analysis.add_branch_move("commit-amend", to=None, keeps=[analysis.own.below_head()])
    else:
        analysis.add("commit")
    analysis.add_protected_branch()
    if (
        (options.operands or options.has("all", "include", "only"))
        and not facts.uses_private_index
        and facts.has_staged_over([])
    ):
        # `commit -a` and `commit PATH` replace what was staged of the files.
        analysis.require_checkpoint(touches=())


def _sequence(analysis: Analysis, options: Options) -> bool:
    """Add `--abort`, `--continue`, `--skip` and the like, which are the same for all commands. True if one
    was given."""
    if options.has("show-current-patch"):
        raise ReadOnly
    if options.has("skip"):
        analysis.add("skip")
        analysis.require_checkpoint(commits=_detached(analysis))
    elif options.has("abort", "quit"):
        # The resolutions so far are lost.
        analysis.add("abort")
        analysis.require_checkpoint(commits=_detached(analysis))
    elif options.has("continue", "resolved", "retry"):
        analysis.add("continue")
    else:
        return False
    return True


def _detached(analysis: Analysis) -> list[str]:
    """The commit that a detached HEAD is at, as in a rebase, if nothing else keeps it."""
    return analysis.facts.unreferenced_head() if analysis.facts.branch is None else []


def _merge(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("no-verify"):
        analysis.add("no-verify")
    if _sequence(analysis, options):
        return
    # Commits that HEAD contains are not merged again.
    names = options.operands or ["@{upstream}"]
    is_there = not analysis.moves and all(analysis.facts.is_ancestor(name, "HEAD") for name in names)
    analysis.add("merge", " ".join(options.operands), own=analysis.own.may_rewrite, limited=is_there)
    if is_there:
        analysis.require_checkpoint(touches=())
        return
    analysis.add_protected_branch()
    _bring(analysis, options)


def _bring(analysis: Analysis, options: Options) -> None:
    """Commits are merged in: their files may be where ignored ones are."""
    names = [word.rpartition("..")[2] or "HEAD" for word in options.operands]
    analysis.require_checkpoint(
        ignored=frozenset[bytes]().union(*(analysis.facts.ignored_in_the_way(name) for name in names))
    )


def _rebase(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("no-verify"):
        analysis.add("no-verify")
    if options.has("edit-todo"):
        analysis.add("continue")
        return
    for text in options.given.get("exec", ()):
        analysis.add_shell_text(text)
    if _sequence(analysis, options):
        return
    analysis.add_protected_branch()
    _rewrite_by_rebase(analysis, options)
    names = [*options.given.get("onto", ()), *options.operands] or ["@{upstream}"]
    analysis.require_checkpoint(
        ignored=frozenset[bytes]().union(*(analysis.facts.ignored_in_the_way(name) for name in names))
    )


def _rewrite_by_rebase(analysis: Analysis, options: Options) -> None:
    subject = " ".join(options.operands)
    onto = options.value("onto") or (options.operands[0] if options.operands else "@{upstream}")
    if options.operands[1:] not in ((), (analysis.facts.branch,)):
        # It switches to another branch first.
        analysis.add("rebase", subject)
        analysis.require_checkpoint(commits=analysis.facts.unreferenced_head())
    elif options.has("root") and not options.has("onto"):
        analysis.add_branch_move("rebase", subject, to=None, keeps=[])
    elif options.has("keep-base"):
        analysis.add_branch_move("rebase", subject, to=analysis.facts.commit(f"{onto}...HEAD"))
    else:
        analysis.add_branch_move("rebase", subject, to=onto)


def _cherry_pick(analysis: Analysis) -> None:
    options = analysis.options()
    if _sequence(analysis, options):
        return
    analysis.add("cherry-pick", " ".join(options.operands), own=analysis.own.may_rewrite)
    analysis.add_protected_branch()
    _bring(analysis, options)


def _revert(analysis: Analysis) -> None:
    options = analysis.options()
    if _sequence(analysis, options):
        return
    analysis.add("revert", " ".join(options.operands))
    analysis.add_protected_branch()
    # The files from before the commit are restored.
    analysis.require_checkpoint(
        ignored=frozenset[bytes]().union(
            *(analysis.facts.ignored_in_the_way(f"{word.rpartition('..')[2] or 'HEAD'}^") for word in options.operands)
        )
    )


def _am(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    if options.has("no-verify"):
        analysis.add("no-verify")
    if _sequence(analysis, options):
        return
    analysis.add("am", own=analysis.own.may_rewrite)
    analysis.add_protected_branch()


# -- commits that are made again without the worktree --------------------------------------------------------------


def _history(analysis: Analysis) -> None:
    """`git history` makes a commit again, and all that follow it, in every branch that has it."""
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("", ())
    if which not in ("fixup", "reword", "split"):
        analysis.add_unknown_subcommand(f"history {which}")
        return
    options = analysis.options("history", args)
    if options.has("dry-run"):
        analysis.add("objects")
        return
    commit = options.operands[0] if options.operands else "HEAD"
    analysis.add_branch_move("rebase", commit, to=None, keeps=[f"{commit}^@"])
    analysis.add_protected_branch()
    if options.value("update-refs") != "head":
        names = _branches(analysis, f"--contains={commit}").values()
        _rewrite(analysis, [name for each in names for name in each if name != analysis.facts.branch])


def _replay(analysis: Analysis) -> None:
    """`git replay` makes commits again, and moves branches there. Its other options are those of rev-list."""
    options = analysis.options("replay")
    analysis.operations[:] = [each for each in analysis.operations if each.name != "unknown-option"]
    if (options.value("ref-action") or analysis.facts.config("replay.refaction")) == "print":
        analysis.add("objects")
        return
    target = options.value("advance") or options.value("revert")
    if options.has("ref"):
        refs.set_ref(analysis, options.value("ref"), None)
    elif target:
        analysis.add("branch-move", target)
        analysis.add_protected([target.removeprefix("refs/heads/")])
    else:
        analysis.add_branch_move("rebase", " ".join(options.operands), to=None, keeps=[options.value("onto")])
        _rewrite(analysis, _branches_in(analysis, options.operands))


def _branches(analysis: Analysis, *options: str) -> dict[str, list[str]]:
    """Branches (short) by the commits that they are at."""
    status, out = analysis.facts.git(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", *options, "refs/heads/"
    )
    found: dict[str, list[str]] = {}
    for line in os.fsdecode(out).splitlines() if status == 0 else ():
        oid, _, name = line.partition(" ")
        found.setdefault(oid, []).append(name)
    return found


def _branches_in(analysis: Analysis, revisions: Sequence[str]) -> list[str]:
    """The branches (short) at commits of a range, in words of rev-list; all branches if it cannot be read."""
    status, out = analysis.facts.git("rev-list", *revisions, "--") if revisions else (128, b"")
    inside = set(out.decode("ascii", "replace").split())
    every = _branches(analysis).items()
    return [name for oid, names in every if status != 0 or oid in inside for name in names]


def _rewrite(analysis: Analysis, branches: Sequence[str]) -> None:
    """Branches (short) get other commits in place of theirs."""
    analysis.add_protected(branches)
    if analysis.moves or not branches:
        return  # git has said which ones move, and these were judged
    for name in branches:
        if name != analysis.facts.branch:
            analysis.add("rebase", name, own=analysis.own.drops_only_own_branch(name))
    head = analysis.facts.branch in branches
    analysis.keep_commits(*(f"refs/heads/{name}" for name in branches), head=head, touches=())


def _merge_file(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    if options.has("stdout", "object-id"):
        raise ReadOnly
    analysis.add("merge", options.operands[0] if options.operands else "")


def _filter(analysis: Analysis) -> None:
    if {"--analyze", "--dry-run", "-h", "--help", "--version"} & set(analysis.args):
        raise ReadOnly
    analysis.add("filter")


HANDLERS = {
    "am": _am,
    "cherry-pick": _cherry_pick,
    "commit": _commit,
    "filter-branch": _filter,
    "filter-repo": _filter,
    "history": _history,
    "merge": _merge,
    "merge-file": _merge_file,
    "rebase": _rebase,
    "replay": _replay,
    "revert": _revert,
}
