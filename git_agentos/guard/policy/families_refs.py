"""Commands that change refs: branch, tag, update-ref, reflog, notes; and worktrees, which hold refs."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.guard.policy.options import UNRESOLVED
from git_agentos.guard.policy.reading import OnlyLooks, Reading

OURS = "refs/agentos/"
_LISTS = (
    "list", "show-current", "contains", "no-contains", "merged", "no-merged", "points-at", "with", "without", "all",
)  # fmt: skip


def _branch(reading: Reading) -> None:
    options = reading.options()
    facts = reading.facts
    force = options.has("force")
    names = [*options.operands]
    prefix = "refs/remotes/" if options.has("remotes") else "refs/heads/"
    if options.has("delete", "D"):
        own = not options.has("remotes") and all(reading.own.drops_only_own_branch(name) for name in names)
        reading.do("branch-delete", " ".join(names), own=own)
        reading.save(commits=facts.orphaned([prefix + name for name in names]))
        _not_protected(reading, names if not options.has("remotes") else ())
    elif options.has("move", "M", "copy", "C"):
        copies = options.has("copy", "C")
        forced = force or options.has("M", "C")
        if forced:
            target = names[-1] if names else ""
            reading.do("branch-force", target, own=copies and reading.own.drops_only_own_branch(target))
            reading.save(commits=facts.orphaned([f"refs/heads/{target}"]))
            _not_protected(reading, [target])
        else:
            own = not copies and _renames_own(reading, names)
            reading.do("branch-create" if copies else "branch-rename", " ".join(names), own=own, limited=own)
            if own:
                reading.save(touches=())
        if not copies:
            _not_protected(reading, [*(names if len(names) > 1 else [facts.branch or "", *names])])
    elif options.has(*_LISTS):
        raise OnlyLooks
    elif options.has("set-upstream-to", "unset-upstream", "edit-description"):
        reading.do("branch-configure")
    elif not names:
        raise OnlyLooks
    elif force:
        reading.do("branch-force", names[0], own=reading.own.drops_only_own_branch(names[0]))
        reading.save(commits=facts.orphaned([f"refs/heads/{names[0]}"]))
        _not_protected(reading, names[:1])
    elif options.has("remotes"):
        raise OnlyLooks
    else:
        reading.do("branch-create", names[0])


def _renames_own(reading: Reading, names: Sequence[str]) -> bool:
    """Whether `branch -m` gives another name to the agent's own branch that is checked out here."""
    old = names[0] if len(names) > 1 else reading.facts.branch
    return old is not None and old == reading.facts.branch and reading.own.branch(old) and not reading.own.is_sent(old)


def _not_protected(reading: Reading, branches: Sequence[str]) -> None:
    for branch in branches:
        if reading.facts.is_protected(branch):
            reading.do("protected-branch", branch)


def _branch_of(name: str) -> list[str]:
    """The branch that a full ref name is, short, if it is one's."""
    return [name.removeprefix("refs/heads/")] if name.startswith("refs/heads/") else []


def _tag(reading: Reading) -> None:
    options = reading.options()
    names = options.operands
    if options.has("delete"):
        own = all(reading.own.tag(name) for name in names)
        reading.do("tag-delete", " ".join(names), own=own, limited=own)
        reading.save(commits=reading.facts.orphaned([f"refs/tags/{name}" for name in names]), touches=())
    elif options.has("list", "verify", "n", *_LISTS[2:-1]) or not names:
        raise OnlyLooks
    elif options.has("force"):
        own = reading.own.tag(names[0])
        reading.do("tag-move", names[0], own=own, limited=own)
        reading.save(commits=reading.facts.orphaned([f"refs/tags/{names[0]}"]), touches=())
    else:
        is_annotated = options.has("annotate", "sign", "local-user", "message", "file", "trailer", "edit")
        reading.do("tag-create", names[0], limited=not is_annotated)


# -- refs by hand --------------------------------------------------------------------------------------------------


def _update_ref(reading: Reading) -> None:
    options = reading.options()
    facts = reading.facts
    name = options.operands[0] if options.operands else ""
    if options.has("stdin"):
        reading.do("unresolved", "--stdin")
    elif options.has("d"):
        reading.do("agentos-refs" if name.startswith(OURS) else "ref-delete", name)
        reading.save(commits=facts.orphaned([name]))
        _not_protected(reading, _branch_of(name))
        reading.unsaved = name == "HEAD"  # without it, it is no repository any more
    elif len(options.operands) < 2:
        raise OnlyLooks  # git asks for a value
    else:
        _set_ref(reading, name, options.operands[1])


def _set_ref(reading: Reading, name: str, value: str) -> None:
    facts = reading.facts
    if UNRESOLVED in name or UNRESOLVED in value:
        reading.do("unresolved")
    if name.startswith(OURS):
        reading.do("agentos-refs", name)
        return
    old, new = facts.ref(name), facts.commit(value)
    if name == "HEAD" and facts.branch is not None:
        _not_protected(reading, [facts.branch])
    _not_protected(reading, _branch_of(name))
    if name.startswith("refs/replace/"):
        reading.do("replace", name)
    elif not value.strip("0"):
        reading.do("ref-delete", name)  # an empty value, or zeros
        reading.save(commits=facts.orphaned([name]))
    elif old is None:
        reading.do("branch-create" if UNRESOLVED not in name else "branch-move", name)
    elif new is not None and facts.is_ancestor(old, new):
        reading.do("branch-move", name)
    else:
        reading.do("ref-rewrite", name)
        reading.save(commits=facts.orphaned([name], head=name == "HEAD", new=new))


def _symbolic_ref(reading: Reading) -> None:
    options = reading.options()
    if options.has("delete") or len(options.operands) > 1:
        name = options.operands[0] if options.operands else ""
        reading.do("symbolic-ref", name)
        reading.unsaved = options.has("delete")
        _not_protected(reading, _branch_of(name))
    else:
        raise OnlyLooks


def _reflog(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("show", ())
    if which not in ("expire", "delete", "drop", "write"):
        if UNRESOLVED in which:
            reading.do("unresolved")
            return
        raise OnlyLooks
    options = reading.options("reflog expire", args)
    if options.has("dry-run"):
        raise OnlyLooks
    reading.do("reflog-expire", which)


def _replace(reading: Reading) -> None:
    options = reading.options()
    if options.has("list") or not (options.operands or options.has("convert-graft-file")):
        raise OnlyLooks
    reading.do("replace", " ".join(options.operands))


def _refs(reading: Reading) -> None:
    which = reading.args[0] if reading.args else "list"
    if which in ("list", "verify", "exists") or "--dry-run" in reading.args:
        raise OnlyLooks
    reading.do("gc" if which == "optimize" else "unknown-command", f"refs {which}")


def _notes(reading: Reading) -> None:
    top = reading.options("notes", stop=True)
    which, args = (top.operands[0], top.operands[1:]) if top.operands else ("list", ())
    if which in ("list", "show", "get-ref"):
        raise OnlyLooks
    if f"notes {which}" not in ("notes add", "notes append", "notes edit", "notes copy", "notes merge", "notes prune",
                                "notes remove"):  # fmt: skip
        reading.do("unresolved" if UNRESOLVED in which else "unknown-command", f"notes {which}")
        return
    options = reading.options(f"notes {which}", args)
    if which == "prune" and options.has("dry-run"):
        raise OnlyLooks
    if which == "merge" and options.has("abort", "commit"):
        reading.do("abort" if options.has("abort") else "continue")
    elif which in ("remove", "prune", "merge") or options.has("force"):
        reading.do("notes-change", which)
    else:
        reading.do("notes-add")


# -- bisect --------------------------------------------------------------------------------------------------------


def _bisect(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("help", ())
    # `git bisect` was a script until 2.40, and `git bisect--helper --bisect-reset` did its work.
    which = which.removeprefix("--bisect-")
    if which == "state" and args:
        which, args = args[0], args[1:]
    if which in ("help", "log", "view", "visualize", "terms"):
        raise OnlyLooks
    if which == "run":
        reading.do("bisect")
        reading.save()
        if args:
            reading.calls.append(tuple(args))
    elif UNRESOLVED in which:
        reading.do("unresolved")
    else:
        # The terms for good and bad may be any words.
        reading.do("abort" if which == "reset" else "bisect", which)
        commits = reading.facts.own_head() if reading.facts.branch is None else []
        if commits:
            reading.save(commits=commits)


# -- worktrees -----------------------------------------------------------------------------------------------------


def _worktree(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("list", ())
    if which == "list" or args[:1] in (("-h",), ("--help",)):
        raise OnlyLooks
    if which == "add":
        options = reading.options("worktree add", args)
        if options.has("B"):
            reading.do("branch-reset", options.value("B"))
            reading.save(commits=reading.facts.orphaned([f"refs/heads/{options.value('B')}"]))
        elif options.has("force"):
            reading.do("switch-shared")
        else:
            reading.do("worktree-add")
    elif which == "remove":
        options = reading.options("worktree remove", args)
        reading.do("worktree-remove-force" if options.has("force") else "worktree-remove", " ".join(options.operands))
    elif which == "prune":
        if reading.options("worktree prune", args).has("dry-run"):
            raise OnlyLooks
        reading.do("worktree-prune")
    elif which in ("lock", "repair"):
        reading.do("worktree-add")
    elif which in ("move", "unlock"):
        reading.do("worktree-move", " ".join(args))
    else:
        reading.do("unresolved" if UNRESOLVED in which else "unknown-command", f"worktree {which}")


FAMILIES = {
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
