"""Commands on files of the worktree and on the index: reset, checkout, restore, clean, rm, mv, apply, add, read-tree,
update-index, sparse-checkout."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.options import Options

# Options that make a command work on paths without one on the command line.
_BY_PATH = ("patch", "pathspec-from-file", "pathspec-file-nul", "stdin")


def _apply(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    looks = options.has("check", "stat", "numstat", "summary", "no-add") and not options.has("apply")
    if looks and not options.has("index", "cached", "3way", "build-fake-ancestor"):
        raise ReadOnly
    if options.has("unsafe-paths"):
        analysis.add("file-outside")
    analysis.add("apply")
    analysis.require_checkpoint()


# -- reset ---------------------------------------------------------------------------------------------------------


def _reset(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    hard = [mode for mode in ("hard", "merge", "keep") if options.has(mode)]
    target, paths = _tree_and_paths(analysis, options)
    if hard:
        for mode in hard:
            _move_branch(analysis, f"reset-{mode}", target, limited=False)
        analysis.require_checkpoint(ignored=analysis.facts.ignored_in_the_way(target or "HEAD"))
    elif options.has("soft"):
        _move_branch(analysis, "reset-soft", target)
    elif not paths and (options.has("mixed") or target not in (None, "HEAD", "@")) and not options.has(*_BY_PATH):
        _move_branch(analysis, "reset-mixed", target)
    else:
        analysis.add("reset-index")
        if analysis.facts.has_staged_over([path for path in paths if UNKNOWN not in path]):
            analysis.require_checkpoint()


def _move_branch(analysis: Analysis, name: str, target: str | None, *, limited: bool = True) -> None:
    analysis.add_branch_move(name, target or "", to=target or "HEAD", limited=limited)


def _tree_and_paths(analysis: Analysis, options: Options) -> tuple[str | None, list[str]]:
    """Split `[TREE] [--] [PATH…]` as git does: a first word that names a revision is the tree."""
    words = list(options.words)
    if options.dashes is not None:
        return (words[0] if words else None), [*words[1:], *options.paths]
    if not words:
        return None, []
    if UNKNOWN in words[0]:
        analysis.add("unresolved")
        return words[0], words[1:]
    if analysis.facts.is_revision(words[0]):
        return words[0], words[1:]
    if len(words) > 1 or analysis.facts.exists(words[0]) or _is_pathspec(words[0]):
        return None, words
    return words[0], []


def _is_pathspec(word: str) -> bool:
    return word.startswith(":") or any(letter in word for letter in "*?[")


# -- checkout, switch, restore -------------------------------------------------------------------------------------


def _checkout(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("force"):
        analysis.add("checkout-force")
    if options.has("ignore-other-worktrees"):
        analysis.add("switch-shared")
    if options.has("B"):
        _reset_branch(analysis, options.value("B"))
    making = options.has("b", "B", "orphan", "track", "detach")
    words, paths = list(options.words), list(options.paths)
    from_file = options.has("pathspec-from-file")
    source: str | None = None
    if options.dashes is not None:
        source = words[0] if words else None
        paths = [*words[1:], *paths]
    elif words and not making:
        source, paths = _branch_or_paths(analysis, words, from_file=from_file)
    elif words:
        source = words[0]
    if making or not (paths or from_file or options.has("patch")):
        if options.has("merge"):
            analysis.add("checkout-merge")
        _switch_to(analysis, source, new=options.value("b") or options.value("orphan"), force=options.has("force"))
        if not words and not options.given:
            raise ReadOnly  # lists the changes
        return
    if options.has("patch"):
        analysis.add("checkout-interactive", limited=analysis.is_named(paths))
        return
    _overwrite(analysis, options, source, paths, overlay=not options.has("no-overlay"))


def _branch_or_paths(analysis: Analysis, words: Sequence[str], *, from_file: bool) -> tuple[str | None, list[str]]:
    """Split the words of `git checkout WORD…` without `--` into a branch and paths."""
    facts = analysis.facts
    first = words[0]
    if UNKNOWN in first:
        analysis.add("unresolved")
        return first, list(words[1:])
    if first == "-" or facts.is_revision(first):
        return first, list(words[1:])
    if len(words) == 1 and not from_file and not facts.exists(first) and facts.remote_branch(first):
        return first, []
    return None, list(words)


def _switch(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("force", "discard-changes"):
        analysis.add("checkout-force")
    if options.has("ignore-other-worktrees"):
        analysis.add("switch-shared")
    if options.has("merge"):
        analysis.add("checkout-merge")
    if options.has("force-create"):
        _reset_branch(analysis, options.value("force-create"))
    new = options.value("create") or options.value("orphan")
    force = options.has("force", "discard-changes")
    _switch_to(analysis, options.operands[0] if options.operands else None, new=new, force=force)


def _reset_branch(analysis: Analysis, name: str) -> None:
    analysis.add("branch-reset", name, own=analysis.own.drops_only_own_branch(name))
    analysis.keep_commits(f"refs/heads/{name}", head=analysis.facts.branch == name)


def _switch_to(analysis: Analysis, target: str | None, *, new: str, force: bool) -> None:
    if new:
        analysis.add("branch-create", new)
    elif not any(each.name == "checkout-force" for each in analysis.operations):
        analysis.add("switch", target or "")
    facts = analysis.facts
    analysis.moves_head = target is not None
    if target is not None and UNKNOWN in target:
        return
    ignored = facts.ignored_in_the_way(target) if target is not None else frozenset()
    commits = facts.unreferenced_head() if facts.branch is None else []
    if ignored or commits or force:
        analysis.require_checkpoint(ignored=ignored, commits=commits)


def _restore(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    worktree = options.has("worktree") or not options.has("staged")
    paths = list(options.operands)
    if options.has("patch") and worktree:
        analysis.add("checkout-interactive", limited=analysis.is_named(paths))
        return
    if not paths and not options.has("pathspec-from-file"):
        raise ReadOnly  # git asks for paths
    if not worktree:
        analysis.add("reset-index")
        if analysis.facts.has_staged_over([path for path in paths if UNKNOWN not in path]):
            analysis.require_checkpoint()
        return
    source = options.value("source") or ("HEAD" if options.has("staged") else None)
    if source is not None and UNKNOWN in source:
        analysis.add("unresolved")
    _overwrite(analysis, options, source, paths, overlay=options.has("overlay"), removes=True)


def _overwrite(
    analysis: Analysis,
    options: Options,
    source: str | None,
    paths: Sequence[str],
    *,
    overlay: bool,
    removes: bool = False,
) -> None:
    """Files are restored from the index, or from a commit: allowed if nothing is lost."""
    facts = analysis.facts
    unclear = options.has("pathspec-from-file") or any(UNKNOWN in path for path in paths)
    asked: Sequence[str] = ["."] if unclear else paths
    found = facts.changed(asked, submodules=options.has("recurse-submodules"))
    if found is None:
        # Not a repository, or a pathspec that git rejects: the command would fail; if not, its effect is unknown.
        analysis.add("unresolved", " ".join(paths))
        analysis.require_checkpoint()
        return
    # The conflict replaces what was staged as its resolution.
    replaced = source is not None or options.has("merge", "conflict")
    conflicts = [each for each in found if each.unmerged]
    lost = [
        each
        for each in found
        if not each.unmerged
        and (each.y not in ".D" or (replaced and each.x not in ".D"))
        and not (source is not None and overlay and each.x == "A" and not facts.in_tree(source, each.path))
    ]
    untracked = facts.untracked_in(source, asked) if source is not None and UNKNOWN not in source else []
    if unclear and (lost or untracked or conflicts):
        analysis.add("unresolved", " ".join(paths))
        analysis.require_checkpoint(ignored=untracked)
        return
    if lost or untracked:
        first = (lost[0].path if lost else untracked[0]).decode("utf-8", "replace")
        more = len(lost) + len(untracked) - 1
        subject = f"{first}, and {more} more" if more else first
        analysis.add("checkout-dirty", subject, limited=analysis.is_named(paths))
        analysis.require_checkpoint(ignored=untracked, touches=paths)
        return
    if conflicts:
        # The file may still be as git wrote it; with one of these options, overwriting it is meant.
        side = options.has("ours", "theirs", "merge", "conflict")
        subject = conflicts[0].path.decode("utf-8", "replace")
        analysis.add("checkout-conflict" if side else "checkout-dirty", subject, limited=analysis.is_named(paths))
        analysis.require_checkpoint(touches=paths)
        return
    analysis.add("checkout-paths")
    if removes and source is not None and any(each.y == "D" or each.x == "D" for each in found):
        analysis.require_checkpoint()


# -- clean, rm, mv -------------------------------------------------------------------------------------------------


def _clean(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    if options.has("dry-run"):
        raise ReadOnly
    forced = options.has("force") or _is_false(analysis.facts.config("clean.requireforce"))
    name = "clean-interactive" if options.has("interactive") else "clean" if forced else "clean-unforced"
    limited = analysis.is_named(options.operands)
    analysis.add(name, " ".join(options.operands) if name == "clean" else "", limited=limited)
    paths = [path for path in options.operands if UNKNOWN not in path]
    ignored = analysis.facts.ignored(paths) if options.has("x", "X") and paths else frozenset()
    # With ignore rules of its own, clean deletes files that git otherwise ignores.
    other_rules = options.has("exclude") or analysis.facts.is_overridden("core.excludesfile")
    everything = (options.has("x", "X") and not paths) or other_rules
    analysis.require_checkpoint(ignored=ignored, everything_ignored=everything, touches=paths if limited else None)
    if len(options.given.get("force", ())) > 1 and analysis.facts.has_nested_repository(paths):
        analysis.unsavable = True


def _is_false(value: str | None) -> bool:
    return value is not None and value.lower() in ("false", "no", "off", "0", "")


def _rm(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    if options.has("dry-run"):
        raise ReadOnly
    if options.has("force"):
        analysis.add("remove-force", " ".join(options.operands), limited=analysis.is_named(options.operands))
        analysis.require_checkpoint(touches=options.operands)
    else:
        analysis.add("remove")


def _mv(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    if options.has("dry-run"):
        raise ReadOnly
    if not options.has("force"):
        analysis.add("move")
        return
    analysis.add("move-force", limited=analysis.is_named(options.operands))
    target = options.operands[-1] if options.operands else ""
    ignored = analysis.facts.ignored([target]) if target and analysis.facts.exists(target) else frozenset()
    analysis.require_checkpoint(ignored=ignored, touches=options.operands)


# -- the index ---------------------------------------------------------------------------------------------------------


def _add(analysis: Analysis) -> None:
    options = analysis.options("add", paths=True)
    if options.has("dry-run"):
        raise ReadOnly
    analysis.add("add")
    _keep_staged(analysis, options)


def _keep_staged(analysis: Analysis, options: Options) -> None:
    """Save a staged version that exists nowhere else before it is staged over."""
    if analysis.facts.uses_private_index:
        return
    clear = [word for word in options.operands if UNKNOWN not in word]
    everything = len(clear) != len(options.operands) or options.has("pathspec-from-file", "pathspec-file-nul")
    if analysis.facts.has_staged_over([] if everything else clear):
        analysis.require_checkpoint()


def _read_tree(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("dry-run"):
        raise ReadOnly
    if options.has("u"):
        analysis.add("read-tree")
        ways = [analysis.facts.ignored_in_the_way(word) for word in options.operands]
        analysis.require_checkpoint(ignored=frozenset[bytes]().union(*ways))
    elif options.value("index-output") or analysis.facts.uses_private_index:
        analysis.add("objects")
    else:
        analysis.add("index-rewrite")


def _checkout_index(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    if options.has("temp"):
        raise ReadOnly
    if options.value("prefix") and analysis.facts.in_git_dir(options.value("prefix")):
        analysis.add("git-dir-write", options.value("prefix"))
    if not options.has("force"):
        analysis.add("checkout-paths")
    elif options.value("prefix"):
        analysis.add("write-file", options.value("prefix"))
    else:
        analysis.add("checkout-index")
        analysis.require_checkpoint()


def _update_index(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    if analysis.facts.uses_private_index:
        analysis.add("objects")
        return
    if options.has("no-fsmonitor", "no-fsmonitor-valid", "fsmonitor-valid"):
        analysis.add("config-guard")
    if options.has("assume-unchanged", "skip-worktree"):
        analysis.add("index-flags", " ".join(options.operands))
    if options.has("force-remove", "remove", "index-info", "cacheinfo", "force-write-index", "replace", "unresolve"):
        analysis.add("index-rewrite")
    if not analysis.operations:
        analysis.add("add")
        if not options.has("refresh", "really-refresh") or options.operands:
            _keep_staged(analysis, options)


def _sparse_checkout(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("list", ())
    if which in ("list", "check-rules") or args[:1] in (("-h",), ("--help",)):
        raise ReadOnly
    if which in ("add", "disable"):
        analysis.add("sparse-widen")
        analysis.require_checkpoint()
    elif which == "clean" and ({"-n", "--dry-run"} & set(args)) and not {"-f", "--force"} & set(args):
        raise ReadOnly
    elif which in ("set", "init", "reapply", "clean"):
        analysis.add("sparse-checkout")
        analysis.require_checkpoint(everything_ignored=True)
    else:
        analysis.add("unknown-command", f"sparse-checkout {which}")


HANDLERS = {
    "add": _add,
    "apply": _apply,
    "checkout": _checkout,
    "checkout-index": _checkout_index,
    "clean": _clean,
    "mv": _mv,
    "read-tree": _read_tree,
    "reset": _reset,
    "restore": _restore,
    "rm": _rm,
    "sparse-checkout": _sparse_checkout,
    "stage": _add,
    "switch": _switch,
    "update-index": _update_index,
}
