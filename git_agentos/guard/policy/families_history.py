"""Commands that make or rewrite commits: commit, merge, rebase, cherry-pick, revert, am, and the filters."""

from __future__ import annotations

from git_agentos.guard.policy.options import Options
from git_agentos.guard.policy.reading import OnlyLooks, Reading


def _commit(reading: Reading) -> None:
    options = reading.options()
    # The formats of a short status make it a dry run; git does not commit then.
    if options.has("dry-run", "short", "porcelain", "long"):
        raise OnlyLooks
    facts = reading.facts
    if options.has("no-verify"):
        reading.do("no-verify")
    if options.has("amend"):
        reading.rewrite("commit-amend", to=None, keeps=[reading.own.below_head()])
    else:
        reading.do("commit")
    if facts.protected and facts.branch is not None and facts.is_protected(facts.branch):
        reading.do("protected-branch", facts.branch)
    if (
        (options.operands or options.has("all", "include", "only"))
        and not facts.private_index
        and facts.has_staged_over([])
    ):
        # `commit -a` and `commit PATH` stage files over what was staged of them.
        reading.save(touches=())


def _sequence(reading: Reading, options: Options) -> bool:
    """`--abort`, `--continue` and the like, which are the same for all that can stop in between; whether one was."""
    if options.has("show-current-patch"):
        raise OnlyLooks
    if options.has("skip"):
        reading.do("skip")
        reading.save(commits=_detached(reading))
    elif options.has("abort", "quit"):
        # What was resolved so far goes with it.
        reading.do("abort")
        reading.save(commits=_detached(reading))
    elif options.has("continue", "resolved", "retry"):
        reading.do("continue")
    else:
        return False
    return True


def _detached(reading: Reading) -> list[str]:
    """What a HEAD without a branch is at, as in a rebase, and nothing else keeps."""
    return reading.facts.own_head() if reading.facts.branch is None else []


def _protected(reading: Reading) -> None:
    facts = reading.facts
    if facts.protected and facts.branch is not None and facts.is_protected(facts.branch):
        reading.do("protected-branch", facts.branch)


def _merge(reading: Reading) -> None:
    options = reading.options()
    if options.has("no-verify"):
        reading.do("no-verify")
    if _sequence(reading, options):
        return
    # What HEAD has already is not merged again.
    names = options.operands or ["@{upstream}"]
    is_there = not reading.moves and all(reading.facts.is_ancestor(name, "HEAD") for name in names)
    reading.do("merge", " ".join(options.operands), own=reading.own.history, limited=is_there)
    if is_there:
        reading.save(touches=())
        return
    _protected(reading)
    _bring(reading, options)


def _bring(reading: Reading, options: Options) -> None:
    """Commits come in: their files may be where ignored ones are."""
    names = [word.rpartition("..")[2] or "HEAD" for word in options.operands]
    reading.save(ignored=frozenset[bytes]().union(*(reading.facts.in_the_way(name) for name in names)))


def _rebase(reading: Reading) -> None:
    options = reading.options()
    if options.has("no-verify"):
        reading.do("no-verify")
    if options.has("edit-todo"):
        reading.do("continue")
        return
    for text in options.given.get("exec", ()):
        reading.runs(text)
    if _sequence(reading, options):
        return
    _protected(reading)
    _rewrite_by_rebase(reading, options)
    names = [*options.given.get("onto", ()), *options.operands] or ["@{upstream}"]
    reading.save(ignored=frozenset[bytes]().union(*(reading.facts.in_the_way(name) for name in names)))


def _rewrite_by_rebase(reading: Reading, options: Options) -> None:
    subject = " ".join(options.operands)
    onto = options.value("onto") or (options.operands[0] if options.operands else "@{upstream}")
    if options.operands[1:] not in ((), (reading.facts.branch,)):
        # It switches to another branch first.
        reading.do("rebase", subject)
        reading.save(commits=reading.facts.own_head())
    elif options.has("root") and not options.has("onto"):
        reading.rewrite("rebase", subject, to=None, keeps=[])
    elif options.has("keep-base"):
        reading.rewrite("rebase", subject, to=reading.facts.commit(f"{onto}...HEAD"))
    else:
        reading.rewrite("rebase", subject, to=onto)


def _cherry_pick(reading: Reading) -> None:
    options = reading.options()
    if _sequence(reading, options):
        return
    reading.do("cherry-pick", " ".join(options.operands), own=reading.own.history)
    _protected(reading)
    _bring(reading, options)


def _revert(reading: Reading) -> None:
    options = reading.options()
    if _sequence(reading, options):
        return
    reading.do("revert", " ".join(options.operands))
    _protected(reading)
    # The files of before the commit come back.
    reading.save(
        ignored=frozenset[bytes]().union(
            *(reading.facts.in_the_way(f"{word.rpartition('..')[2] or 'HEAD'}^") for word in options.operands)
        )
    )


def _am(reading: Reading) -> None:
    options = reading.options(paths=True)
    if options.has("no-verify"):
        reading.do("no-verify")
    if _sequence(reading, options):
        return
    reading.do("am", own=reading.own.history)
    _protected(reading)


def _merge_file(reading: Reading) -> None:
    options = reading.options(paths=True)
    if options.has("stdout", "object-id"):
        raise OnlyLooks
    reading.do("merge", options.operands[0] if options.operands else "")


def _filter(reading: Reading) -> None:
    if {"--analyze", "--dry-run", "-h", "--help", "--version"} & set(reading.args):
        raise OnlyLooks
    reading.do("filter")


FAMILIES = {
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
