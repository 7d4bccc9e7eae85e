"""Commands on the index, by hand and by `add`, on what is checked out sparsely, and the stash."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.guard.policy.options import UNRESOLVED, Options
from git_agentos.guard.policy.reading import OnlyLooks, Reading


def _add(reading: Reading) -> None:
    options = reading.options("add", paths=True)
    if options.has("dry-run"):
        raise OnlyLooks
    reading.do("add")
    _keep_staged(reading, options)


def _keep_staged(reading: Reading, options: Options) -> None:
    """A staged version that is nowhere else goes into a checkpoint before it is staged over."""
    if reading.facts.private_index:
        return
    clear = [word for word in options.operands if UNRESOLVED not in word]
    everything = len(clear) != len(options.operands) or options.has("pathspec-from-file", "pathspec-file-nul")
    if reading.facts.has_staged_over([] if everything else clear):
        reading.save()


def _read_tree(reading: Reading) -> None:
    options = reading.options()
    if options.has("dry-run"):
        raise OnlyLooks
    reading.writes(options.value("index-output"))
    if options.has("u"):
        reading.do("read-tree")
        ways = [reading.facts.in_the_way(word) for word in options.operands]
        reading.save(ignored=frozenset[bytes]().union(*ways))
    elif options.value("index-output") or reading.facts.private_index:
        reading.do("objects")
    else:
        reading.do("index-rewrite")


def _checkout_index(reading: Reading) -> None:
    options = reading.options(paths=True)
    if options.has("temp"):
        raise OnlyLooks
    if options.value("prefix") and reading.facts.in_git_dir(options.value("prefix")):
        reading.do("git-dir-write", options.value("prefix"))
    if not options.has("force"):
        reading.do("checkout-paths")
    elif options.value("prefix"):
        reading.do("write-file", options.value("prefix"))
    else:
        reading.do("checkout-index")
        reading.save()


def _update_index(reading: Reading) -> None:
    options = reading.options(paths=True)
    if reading.facts.private_index:
        reading.do("objects")
        return
    if options.has("no-fsmonitor", "no-fsmonitor-valid", "fsmonitor-valid"):
        reading.do("config-guard")
    if options.has("assume-unchanged", "skip-worktree"):
        reading.do("index-flags", " ".join(options.operands))
    if options.has("force-remove", "remove", "index-info", "cacheinfo", "force-write-index", "replace", "unresolve"):
        reading.do("index-rewrite")
    if not reading.operations:
        reading.do("add")
        if not options.has("refresh", "really-refresh") or options.operands:
            _keep_staged(reading, options)


def _sparse_checkout(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("list", ())
    if which in ("list", "check-rules") or args[:1] in (("-h",), ("--help",)):
        raise OnlyLooks
    if which in ("add", "disable"):
        reading.do("sparse-widen")
        reading.save()
    elif which == "clean" and ({"-n", "--dry-run"} & set(args)) and not {"-f", "--force"} & set(args):
        raise OnlyLooks
    elif which in ("set", "init", "reapply", "clean"):
        reading.do("sparse-checkout")
        reading.save(everything_ignored=True)
    else:
        reading.do("unknown-command", f"sparse-checkout {which}")


# -- stash ---------------------------------------------------------------------------------------------------------


def _stash(reading: Reading) -> None:
    args = list(reading.args)
    which = args[0] if args and not args[0].startswith("-") else "push"
    rest = args[1:] if args and not args[0].startswith("-") else args
    if UNRESOLVED in which:
        reading.do("unresolved")
    elif which in ("list", "show"):
        raise OnlyLooks
    elif which in ("push", "save"):
        reading.options("stash push", rest, paths=True)
        reading.do("stash")
    elif which in ("create", "store"):
        if rest in (["-h"], ["--help"]):
            raise OnlyLooks
        reading.do("stash")
    elif which in ("pop", "apply", "branch"):
        options = reading.options("stash apply", rest)
        entry = options.operands[-1:] if which != "branch" else options.operands[1:2]
        reading.do("stash-apply", " ".join(entry))
        reading.save(ignored=reading.facts.in_the_way(_entry(entry)))
        if which != "apply":
            found = reading.facts.commit(_entry(entry))  # it goes, once it is applied
            reading.save(commits=[found] if found is not None else [])
    elif which == "drop":
        options = reading.options("stash drop", rest)
        reading.do("stash-drop", " ".join(options.operands))
        dropped = reading.facts.commit(_entry(options.operands[-1:]))
        reading.save(commits=[dropped] if dropped is not None else [])
    elif which == "clear":
        if rest[:1] in (["-h"], ["--help"]):
            raise OnlyLooks
        reading.do("stash-clear")
        reading.save(commits=reading.facts.stashes())
    elif which in ("export", "import"):
        reading.do("stash-apply" if which == "import" else "stash")
    else:
        reading.do("unknown-command", f"stash {which}")


def _entry(words: Sequence[str]) -> str:
    """An entry of the stash as a revision: a number alone counts from the newest."""
    word = words[0] if words else "0"
    return f"stash@{{{word}}}" if word.isdigit() else word


FAMILIES = {
    "add": _add,
    "checkout-index": _checkout_index,
    "read-tree": _read_tree,
    "sparse-checkout": _sparse_checkout,
    "stage": _add,
    "stash": _stash,
    "update-index": _update_index,
}
