"""Commands that make or rewrite commits: commit, merge, rebase, cherry-pick, revert, am, and the filters."""

from __future__ import annotations

from git_agentos.guard.policy.analysis import Analysis, ReadOnly
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
    "merge": _merge,
    "merge-file": _merge_file,
    "rebase": _rebase,
    "revert": _revert,
}
