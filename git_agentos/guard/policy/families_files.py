"""Commands that bring files of the worktree back or take them away: reset, checkout, restore, clean, rm."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.guard.policy.options import UNRESOLVED, Options
from git_agentos.guard.policy.reading import OnlyLooks, Reading

# Options that make a command work on paths without one on the command line.
_BY_PATH = ("patch", "pathspec-from-file", "pathspec-file-nul", "stdin")


def _apply(reading: Reading) -> None:
    options = reading.options(paths=True)
    looks = options.has("check", "stat", "numstat", "summary", "no-add") and not options.has("apply")
    if looks and not options.has("index", "cached", "3way", "build-fake-ancestor"):
        raise OnlyLooks
    if options.has("unsafe-paths"):
        reading.do("file-outside")
    reading.do("apply")
    reading.save()


# -- reset ---------------------------------------------------------------------------------------------------------


def _reset(reading: Reading) -> None:
    options = reading.options(paths=True)
    hard = [mode for mode in ("hard", "merge", "keep") if options.has(mode)]
    target, paths = _tree_and_paths(reading, options)
    if hard:
        for mode in hard:
            _move_branch(reading, f"reset-{mode}", target, limited=False)
        reading.save(ignored=reading.facts.in_the_way(target or "HEAD"))
    elif options.has("soft"):
        _move_branch(reading, "reset-soft", target)
    elif not paths and (options.has("mixed") or target not in (None, "HEAD", "@")) and not options.has(*_BY_PATH):
        _move_branch(reading, "reset-mixed", target)
    else:
        reading.do("reset-index")
        if reading.facts.has_staged_over([path for path in paths if UNRESOLVED not in path]):
            reading.save()


def _move_branch(reading: Reading, name: str, target: str | None, *, limited: bool = True) -> None:
    reading.rewrite(name, target or "", to=target or "HEAD", limited=limited)


def _tree_and_paths(reading: Reading, options: Options) -> tuple[str | None, list[str]]:
    """`[TREE] [--] [PATH…]` taken apart, as git does: a first word that names a revision is one."""
    words = list(options.words)
    if options.dashes is not None:
        return (words[0] if words else None), [*words[1:], *options.paths]
    if not words:
        return None, []
    if UNRESOLVED in words[0]:
        reading.do("unresolved")
        return words[0], words[1:]
    if reading.facts.is_revision(words[0]):
        return words[0], words[1:]
    if len(words) > 1 or reading.facts.exists(words[0]) or _is_pathspec(words[0]):
        return None, words
    return words[0], []


def _is_pathspec(word: str) -> bool:
    return word.startswith(":") or any(letter in word for letter in "*?[")


# -- checkout, switch, restore -------------------------------------------------------------------------------------


def _checkout(reading: Reading) -> None:
    options = reading.options()
    if options.has("force"):
        reading.do("checkout-force")
    if options.has("ignore-other-worktrees"):
        reading.do("switch-shared")
    if options.has("B"):
        _reset_branch(reading, options.value("B"))
    making = options.has("b", "B", "orphan", "track", "detach")
    words, paths = list(options.words), list(options.paths)
    from_file = options.has("pathspec-from-file")
    source: str | None = None
    if options.dashes is not None:
        source = words[0] if words else None
        paths = [*words[1:], *paths]
    elif words and not making:
        source, paths = _branch_or_paths(reading, words, from_file=from_file)
    elif words:
        source = words[0]
    if making or not (paths or from_file or options.has("patch")):
        if options.has("merge"):
            reading.do("checkout-merge")
        _switch_to(reading, source, new=options.value("b") or options.value("orphan"), force=options.has("force"))
        if not words and not options.given:
            raise OnlyLooks  # tells what is changed
        return
    if options.has("patch"):
        reading.do("checkout-interactive", limited=reading.is_named(paths))
        return
    _overwrite(reading, options, source, paths, overlay=not options.has("no-overlay"), staged=source is not None)


def _branch_or_paths(reading: Reading, words: Sequence[str], *, from_file: bool) -> tuple[str | None, list[str]]:
    """`git checkout WORD…` without `--`: what is the branch, and what are paths."""
    facts = reading.facts
    first = words[0]
    if UNRESOLVED in first:
        reading.do("unresolved")
        return first, list(words[1:])
    if first == "-" or facts.is_revision(first):
        return first, list(words[1:])
    if len(words) == 1 and not from_file and not facts.exists(first) and facts.remote_branch(first):
        return first, []
    return None, list(words)


def _switch(reading: Reading) -> None:
    options = reading.options()
    if options.has("force", "discard-changes"):
        reading.do("checkout-force")
    if options.has("ignore-other-worktrees"):
        reading.do("switch-shared")
    if options.has("merge"):
        reading.do("checkout-merge")
    if options.has("force-create"):
        _reset_branch(reading, options.value("force-create"))
    new = options.value("create") or options.value("orphan")
    force = options.has("force", "discard-changes")
    _switch_to(reading, options.operands[0] if options.operands else None, new=new, force=force)


def _reset_branch(reading: Reading, name: str) -> None:
    reading.do("branch-reset", name, own=reading.own.drops_only_own_branch(name))
    reading.save(commits=reading.facts.orphaned([f"refs/heads/{name}"], head=reading.facts.branch == name))


def _switch_to(reading: Reading, target: str | None, *, new: str, force: bool) -> None:
    if new:
        reading.do("branch-create", new)
    elif not any(each.name == "checkout-force" for each in reading.operations):
        reading.do("switch", target or "")
    facts = reading.facts
    reading.leaves_head = target is not None
    if target is not None and UNRESOLVED in target:
        return
    ignored = facts.in_the_way(target) if target is not None else frozenset()
    commits = facts.own_head() if facts.branch is None else []
    if ignored or commits or force:
        reading.save(ignored=ignored, commits=commits)


def _restore(reading: Reading) -> None:
    options = reading.options(paths=True)
    worktree = options.has("worktree") or not options.has("staged")
    paths = list(options.operands)
    if options.has("patch") and worktree:
        reading.do("checkout-interactive", limited=reading.is_named(paths))
        return
    if not paths and not options.has("pathspec-from-file"):
        raise OnlyLooks  # git asks for paths
    if not worktree:
        reading.do("reset-index")
        if reading.facts.has_staged_over([path for path in paths if UNRESOLVED not in path]):
            reading.save()
        return
    source = options.value("source") or ("HEAD" if options.has("staged") else None)
    if source is not None and UNRESOLVED in source:
        reading.do("unresolved")
    _overwrite(reading, options, source, paths, overlay=options.has("overlay"), staged=source is not None, removes=True)


def _overwrite(
    reading: Reading,
    options: Options,
    source: str | None,
    paths: Sequence[str],
    *,
    overlay: bool,
    staged: bool,
    removes: bool = False,
) -> None:
    """Files are brought back from the index, or from a commit: allowed as far as nothing is lost."""
    facts = reading.facts
    unclear = options.has("pathspec-from-file") or any(UNRESOLVED in path for path in paths)
    asked: Sequence[str] = ["."] if unclear else paths
    found = facts.changed(asked, submodules=options.has("recurse-submodules"))
    if found is None:
        # Not a repository, or a pathspec that git refuses: the command would fail, and if not, it is not known.
        reading.do("unresolved", " ".join(paths))
        reading.save()
        return
    # A conflict is made anew over what was staged as its resolution.
    replaced = staged or options.has("merge", "conflict")
    conflicts = [each for each in found if each.unmerged]
    lost = [
        each
        for each in found
        if not each.unmerged
        and (each.y not in ".D" or (replaced and each.x not in ".D"))
        and not (source is not None and overlay and each.x == "A" and not facts.in_tree(source, each.path))
    ]
    untracked = facts.untracked_in(source, asked) if source is not None and UNRESOLVED not in source else []
    if unclear and (lost or untracked or conflicts):
        reading.do("unresolved", " ".join(paths))
        reading.save(ignored=untracked)
        return
    if lost or untracked:
        first = (lost[0].path if lost else untracked[0]).decode("utf-8", "replace")
        more = len(lost) + len(untracked) - 1
        subject = f"{first}, and {more} more" if more else first
        reading.do("checkout-dirty", subject, limited=reading.is_named(paths))
        reading.save(ignored=untracked, touches=paths)
        return
    if conflicts:
        # Over the conflict as git wrote it, if nothing was made of it yet; one of its sides, or itself again, is meant.
        side = options.has("ours", "theirs", "merge", "conflict")
        subject = conflicts[0].path.decode("utf-8", "replace")
        reading.do("checkout-conflict" if side else "checkout-dirty", subject, limited=reading.is_named(paths))
        reading.save(touches=paths)
        return
    reading.do("checkout-paths")
    if removes and source is not None and any(each.y == "D" or each.x == "D" for each in found):
        reading.save()


# -- clean, rm, mv -------------------------------------------------------------------------------------------------


def _clean(reading: Reading) -> None:
    options = reading.options(paths=True)
    if options.has("dry-run"):
        raise OnlyLooks
    forced = options.has("force") or _is_false(reading.facts.config("clean.requireforce"))
    name = "clean-interactive" if options.has("interactive") else "clean" if forced else "clean-unforced"
    limited = reading.is_named(options.operands)
    reading.do(name, " ".join(options.operands) if name == "clean" else "", limited=limited)
    paths = [path for path in options.operands if UNRESOLVED not in path]
    ignored = reading.facts.ignored(paths) if options.has("x", "X") and paths else frozenset()
    # With rules of its own a clean deletes what git otherwise says is ignored.
    other_rules = options.has("exclude") or reading.facts.is_given("core.excludesfile")
    everything = (options.has("x", "X") and not paths) or other_rules
    reading.save(ignored=ignored, everything_ignored=everything, touches=paths if limited else None)
    if len(options.given.get("force", ())) > 1 and reading.facts.nested(paths):
        reading.unsaved = True


def _is_false(value: str | None) -> bool:
    return value is not None and value.lower() in ("false", "no", "off", "0", "")


def _rm(reading: Reading) -> None:
    options = reading.options(paths=True)
    if options.has("dry-run"):
        raise OnlyLooks
    if options.has("force"):
        reading.do("remove-force", " ".join(options.operands), limited=reading.is_named(options.operands))
        reading.save(touches=options.operands)
    else:
        reading.do("remove")


def _mv(reading: Reading) -> None:
    options = reading.options(paths=True)
    if options.has("dry-run"):
        raise OnlyLooks
    if not options.has("force"):
        reading.do("move")
        return
    reading.do("move-force", limited=reading.is_named(options.operands))
    target = options.operands[-1] if options.operands else ""
    ignored = reading.facts.ignored([target]) if target and reading.facts.exists(target) else frozenset()
    reading.save(ignored=ignored, touches=options.operands)


FAMILIES = {
    "apply": _apply,
    "checkout": _checkout,
    "clean": _clean,
    "mv": _mv,
    "reset": _reset,
    "restore": _restore,
    "rm": _rm,
    "switch": _switch,
}
