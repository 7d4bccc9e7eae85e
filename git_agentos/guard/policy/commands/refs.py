"""Commands that change refs: branch, tag, update-ref, reflog, notes; and worktrees, which hold refs."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy.analysis import Analysis, ReadOnly

AGENTOS_REFS = "refs/agentos/"
_LISTS = (
    "list", "show-current", "contains", "no-contains", "merged", "no-merged", "points-at", "with", "without", "all",
)  # fmt: skip


def _branch(analysis: Analysis) -> None:
    options = analysis.options()
    facts = analysis.facts
    force = options.has("force")
    names = [*options.operands]
    prefix = "refs/remotes/" if options.has("remotes") else "refs/heads/"
    if options.has("delete", "D"):
        own = not options.has("remotes") and all(analysis.own.drops_only_own_branch(name) for name in names)
        analysis.add("branch-delete", " ".join(names), own=own)
        analysis.keep_commits(*(prefix + name for name in names))
        analysis.add_protected(names if not options.has("remotes") else ())
    elif options.has("move", "M", "copy", "C"):
        copies = options.has("copy", "C")
        forced = force or options.has("M", "C")
        if forced:
            target = names[-1] if names else ""
            analysis.add("branch-force", target, own=copies and analysis.own.drops_only_own_branch(target))
            analysis.keep_commits(f"refs/heads/{target}")
            analysis.add_protected([target])
        else:
            own = not copies and _renames_own(analysis, names)
            analysis.add("branch-create" if copies else "branch-rename", " ".join(names), own=own, limited=own)
            if own:
                analysis.require_checkpoint(touches=())
        if not copies:
            analysis.add_protected([*(names if len(names) > 1 else [facts.branch or "", *names])])
    elif options.has(*_LISTS):
        raise ReadOnly
    elif options.has("set-upstream-to", "unset-upstream", "edit-description"):
        analysis.add("branch-configure")
    elif not names:
        raise ReadOnly
    elif force:
        analysis.add("branch-force", names[0], own=analysis.own.drops_only_own_branch(names[0]))
        analysis.keep_commits(f"refs/heads/{names[0]}")
        analysis.add_protected(names[:1])
    elif options.has("remotes"):
        raise ReadOnly
    else:
        analysis.add("branch-create", names[0])


def _renames_own(analysis: Analysis, names: Sequence[str]) -> bool:
    """Whether `branch -m` renames the agent's own branch that is checked out here."""
    old = names[0] if len(names) > 1 else analysis.facts.branch
    return (
        old is not None
        and old == analysis.facts.branch
        and analysis.own.is_own_branch(old)
        and not analysis.own.is_sent(old)
    )


def _branch_of(name: str) -> list[str]:
    """The branch that a full ref name is, short, if it is a branch."""
    return [name.removeprefix("refs/heads/")] if name.startswith("refs/heads/") else []


def _tag(analysis: Analysis) -> None:
    options = analysis.options()
    names = options.operands
    if options.has("delete"):
        own = all(analysis.own.is_own_tag(name) for name in names)
        analysis.add("tag-delete", " ".join(names), own=own, limited=own)
        analysis.keep_commits(*(f"refs/tags/{name}" for name in names), touches=())
    elif options.has("list", "verify", "n", *_LISTS[2:-1]) or not names:
        raise ReadOnly
    elif options.has("force"):
        own = analysis.own.is_own_tag(names[0])
        analysis.add("tag-move", names[0], own=own, limited=own)
        analysis.keep_commits(f"refs/tags/{names[0]}", touches=())
    else:
        is_annotated = options.has("annotate", "sign", "local-user", "message", "file", "trailer", "edit")
        analysis.add("tag-create", names[0], limited=not is_annotated)


# -- refs by hand --------------------------------------------------------------------------------------------------


def _update_ref(analysis: Analysis) -> None:
    options = analysis.options()
    name = options.operands[0] if options.operands else ""
    if options.has("stdin"):
        analysis.add("unresolved", "--stdin")
    elif options.has("d"):
        analysis.add("agentos-refs" if name.startswith(AGENTOS_REFS) else "ref-delete", name)
        analysis.keep_commits(name)
        analysis.add_protected(_branch_of(name))
        analysis.unsavable = name == "HEAD"  # without HEAD, it is not a repository any more
    elif len(options.operands) < 2:
        raise ReadOnly  # git requires a value
    else:
        set_ref(analysis, name, options.operands[1])


def set_ref(analysis: Analysis, name: str, value: str | None) -> None:
    """A ref (full name) is set to a revision; None: to a commit that is made now."""
    facts = analysis.facts
    if UNKNOWN in name or UNKNOWN in (value or ""):
        analysis.add("unresolved")
    if name.startswith(AGENTOS_REFS):
        analysis.add("agentos-refs", name)
        return
    old, new = facts.ref(name), facts.commit(value) if value is not None else None
    if name == "HEAD" and facts.branch is not None:
        analysis.add_protected([facts.branch])
    analysis.add_protected(_branch_of(name))
    if name.startswith("refs/replace/"):
        analysis.add("replace", name)
    elif value is not None and not value.strip("0"):
        analysis.add("ref-delete", name)  # an empty value, or zeros
        analysis.keep_commits(name)
    elif old is None:
        analysis.add("branch-create" if UNKNOWN not in name else "branch-move", name)
    elif new is not None and facts.is_ancestor(old, new):
        analysis.add("branch-move", name)
    else:
        analysis.add("ref-rewrite", name)
        analysis.keep_commits(name, head=name == "HEAD", new=new)


def _symbolic_ref(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("delete") or len(options.operands) > 1:
        name = options.operands[0] if options.operands else ""
        analysis.add("symbolic-ref", name)
        analysis.unsavable = options.has("delete")
        analysis.add_protected(_branch_of(name))
    else:
        raise ReadOnly


def _reflog(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("show", ())
    if which not in ("expire", "delete", "drop", "write"):
        if UNKNOWN in which:
            analysis.add("unresolved")
            return
        raise ReadOnly
    options = analysis.options("reflog expire", args)
    if options.has("dry-run"):
        raise ReadOnly
    analysis.add("reflog-expire", which)


def _replace(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("list") or not (options.operands or options.has("convert-graft-file")):
        raise ReadOnly
    analysis.add("replace", " ".join(options.operands))


def _refs(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("list", ())
    if which in ("list", "verify", "exists"):
        raise ReadOnly
    if which == "optimize":
        analysis.add("gc", "refs optimize")
    elif which == "migrate":
        options = analysis.options("refs migrate", args)
        if options.has("dry-run"):
            raise ReadOnly
        analysis.add("refs-migrate", options.value("ref-format"))
        if options.has("no-reflog"):
            analysis.add("reflog-expire", "refs migrate --no-reflog")
    else:
        analysis.add_unknown_subcommand(f"refs {which}")


def _notes(analysis: Analysis) -> None:
    top = analysis.options("notes", stop=True)
    which, args = (top.operands[0], top.operands[1:]) if top.operands else ("list", ())
    if which in ("list", "show", "get-ref"):
        raise ReadOnly
    if f"notes {which}" not in ("notes add", "notes append", "notes edit", "notes copy", "notes merge", "notes prune",
                                "notes remove"):  # fmt: skip
        analysis.add_unknown_subcommand(f"notes {which}")
        return
    options = analysis.options(f"notes {which}", args)
    if which == "prune" and options.has("dry-run"):
        raise ReadOnly
    if which == "merge" and options.has("abort", "commit"):
        analysis.add("abort" if options.has("abort") else "continue")
    elif which in ("remove", "prune", "merge") or options.has("force"):
        analysis.add("notes-change", which)
    else:
        analysis.add("notes-add")


# -- bisect --------------------------------------------------------------------------------------------------------


def _bisect(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("help", ())
    # `git bisect` was a script until 2.40, and `git bisect--helper --bisect-reset` did its work.
    which = which.removeprefix("--bisect-")
    if which == "state" and args:
        which, args = args[0], args[1:]
    if which in ("help", "log", "view", "visualize", "terms"):
        raise ReadOnly
    if which == "run":
        analysis.add("bisect")
        analysis.require_checkpoint()
        if args:
            analysis.commands.append(tuple(args))
    elif UNKNOWN in which:
        analysis.add("unresolved")
    else:
        # The terms for good and bad may be any words.
        analysis.add("abort" if which == "reset" else "bisect", which)
        commits = analysis.facts.unreferenced_head() if analysis.facts.branch is None else []
        if commits:
            analysis.require_checkpoint(commits=commits)


# -- worktrees -----------------------------------------------------------------------------------------------------


def _worktree(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("list", ())
    if which == "list" or args[:1] in (("-h",), ("--help",)):
        raise ReadOnly
    if which == "add":
        options = analysis.options("worktree add", args)
        if options.has("B"):
            analysis.add("branch-reset", options.value("B"))
            analysis.keep_commits(f"refs/heads/{options.value('B')}")
        elif options.has("force"):
            analysis.add("switch-shared")
        else:
            analysis.add("worktree-add")
    elif which == "remove":
        options = analysis.options("worktree remove", args)
        analysis.add("worktree-remove-force" if options.has("force") else "worktree-remove", " ".join(options.operands))
    elif which == "prune":
        if analysis.options("worktree prune", args).has("dry-run"):
            raise ReadOnly
        analysis.add("worktree-prune")
    elif which in ("lock", "repair"):
        analysis.add("worktree-add")
    elif which in ("move", "unlock"):
        analysis.add("worktree-move", " ".join(args))
    else:
        analysis.add_unknown_subcommand(f"worktree {which}")


HANDLERS = {
    "bisect": _bisect,
    "bisect--helper": _bisect,
    "branch": _branch,
    "notes": _notes,
    "reflog": _reflog,
    "refs": _refs,
    "replace": _replace,
    "symbolic-ref": _symbolic_ref,
    "tag": _tag,
    "update-ref": _update_ref,
    "worktree": _worktree,
}
