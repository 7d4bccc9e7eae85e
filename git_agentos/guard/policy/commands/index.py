"""Commands on the index, by hand and by `add`, and on sparse checkouts."""

from __future__ import annotations

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.options import Options


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
    "checkout-index": _checkout_index,
    "read-tree": _read_tree,
    "sparse-checkout": _sparse_checkout,
    "stage": _add,
    "update-index": _update_index,
}
