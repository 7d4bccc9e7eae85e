"""Commands on the index, by hand and by `add`, on what is checked out sparsely."""

from __future__ import annotations

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


FAMILIES = {
    "add": _add,
    "checkout-index": _checkout_index,
    "read-tree": _read_tree,
    "sparse-checkout": _sparse_checkout,
    "stage": _add,
    "update-index": _update_index,
}
