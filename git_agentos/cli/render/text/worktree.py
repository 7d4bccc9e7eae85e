"""What `git agentos worktree` says to a person; see `text` for how."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.render.text import layout as table
from git_agentos.cli.render.text.checkpoint import age, short

if TYPE_CHECKING:
    from git_agentos.worktree.agent_merge import Merge, Source
    from git_agentos.worktree.completion import Completion
    from git_agentos.worktree.conflicts import Conflicts
    from git_agentos.worktree.removal import Removal
    from git_agentos.worktree.repair import Repair
    from git_agentos.worktree.status import Worktree

_COLOURS = {"active": "green", "complete": "cyan", "archived": "yellow", "broken": "red"}
_MOST_NAMES = 10
_NO_GUARD = "the guard does not act, 'git agentos worktree repair' places it again"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_COLUMNS = ("ID", "STATE", "TASK", "CHANGES", "BASE", "CHECKPOINT", "SIZE")


# -- create, list, show, path ------------------------------------------------------------------------------------------


def created(made: Worktree, style: Style, *, revived: bool) -> Text:
    """After `create`: the path alone under -q."""
    path = quote.path(made.path or "")
    where = f"on branch '{quote.line(made.branch)}'" if made.branch else f"at {short(made.head_sha)}"
    if revived:
        first = f"Brought worktree '{made.id}' back {where}: {path}"
        second = "It is as it was left, ignored files, log and memory included."
        if (saved := made.revived_from) is not None:
            when = f"{age(saved.created_at, style.now)} ({saved.trigger})"
            second = f"Its folder was lost: it is as its last checkpoint {short(saved.id)} has it, {when}."
    else:
        first = f"Created worktree '{made.id}' {where}: {path}"
        second = f"It begins at {short(made.base_sha)} ({quote.line(made.base_ref or '')})."
    hints = (f'cd "$(git agentos worktree path {made.id})"',) if style.terminal else ()
    lines = f"{first}\n{second}\n"
    return Text(lines, raw_path(made.path or "").result, hints=hints)


def listing(found: Sequence[Worktree], style: Style) -> Text:
    """`list`: a table; ids alone under -q."""
    if not found:
        return Text(notes=("no worktrees of agents",), hints=("'git agentos worktree create ID' makes one",))
    rows = [_row(each, style) for each in found]
    lines = table.lines(_COLUMNS, rows, [_COLOURS[each.state] for each in found], style)
    broken = [each.id for each in found if each.state == "broken"]
    hints = [f"'git agentos worktree repair {broken[0]}' mends what is broken"] if broken else []
    hints += [f"{_NO_GUARD}: {', '.join(unguarded)}"] if (unguarded := _unguarded(found)) else []
    return Text("".join(f"{line}\n" for line in lines), ids([each.id for each in found]).result, hints=tuple(hints))


def _unguarded(found: Sequence[Worktree]) -> list[str]:
    return [each.id for each in found if each.guard == "broken"]


def _row(one: Worktree, style: Style) -> tuple[str, ...]:
    state = one.state + (", locked" if one.locked else "")
    last = one.last_checkpoint
    return (
        one.id,
        state,
        quote.line(one.task or "-"),
        _changes(one),
        _distance(one),
        age(last.created_at, style.now) if last is not None else "-",
        size(one.disk_bytes),
    )


def details(one: Worktree, style: Style) -> Text:
    """`show`: a fact a line."""
    last, entry, inside = one.last_checkpoint, one.last_log, one.process
    base = f"{quote.line(one.base_ref or '')} at {short(one.base_sha)}" if one.base_sha else None
    facts = [
        ("Worktree", one.id),
        ("State", style.paint(_COLOURS[one.state], one.state) + (", locked" if one.locked else "")),
        ("Path", quote.path(one.path) if one.path else None),
        ("Branch", quote.line(one.branch) if one.branch else "HEAD detached" if one.dirty is not None else None),
        ("HEAD", short(one.head_sha) or None),
        ("Base", base),
        ("Compared", _distance(one) if one.ahead is not None else None),
        ("Task", quote.line(one.task) if one.task else None),
        ("Changes", _changes(one) if one.dirty is not None else None),
        ("Saved", f"{short(last.id)}, {age(last.created_at, style.now)} ({last.trigger})" if last else "never"),
        ("Log", f"{age(entry.timestamp, style.now)}: {quote.line(entry.summary)}" if entry else None),
        ("Guard", {"on": "on", "broken": style.paint("red", "broken: it does not act")}.get(one.guard or "")),
        ("Process", f"{quote.line(inside.command)} ({inside.pid})" if inside else None),
        ("Size", size(one.disk_bytes) if one.disk_bytes is not None else None),
    ]
    lines = [f"{name + ':':<10}{value}" for name, value in facts if value]
    hints = {
        "broken": (f"'git agentos worktree repair {one.id}' mends it",),
        "archived": (f"'git agentos worktree create {one.id} --revive' brings it back",),
    }.get(one.state, (_NO_GUARD,) if one.guard == "broken" else ())
    return Text("".join(f"{line}\n" for line in lines), f"{one.id}\n", hints=hints)


def _changes(one: Worktree) -> str:
    if one.dirty is None:
        return "-"
    counts = (
        (one.dirty.conflicted, "in conflict"),
        (one.dirty.staged, "staged"),
        (one.dirty.unstaged, "changed"),
        (one.dirty.untracked, "untracked"),
    )
    return ", ".join(f"{number} {what}" for number, what in counts if number) or "clean"


def _distance(one: Worktree) -> str:
    """How it stands to its base, in a few words."""
    if one.ahead is None or one.behind is None:
        return "-"
    parts = [f"+{one.ahead}"] if one.ahead else []
    parts += [f"-{one.behind}"] if one.behind else []
    if one.integrated and (one.ahead or one.behind):
        parts.append("integrated" if one.integrated == "ancestor" else one.integrated)
    return " ".join(parts) or "same"


def size(number: int | None) -> str:
    """Bytes in words."""
    if number is None:
        return "-"
    value = float(number)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{int(value)} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def ids(found: Sequence[str]) -> Text:
    """Ids, a line each."""
    lines = "".join(f"{each}\n" for each in found)
    return Text(lines, lines)


def raw_path(path: str) -> Text:
    """A path for a script: its bytes, as they are."""
    line = os.fsencode(path) + b"\n"
    return Text(line, line)


def refilled(number: int) -> Text:
    """After the hidden `refill`."""
    return Text(f"{number} prepared\n", f"{number}\n")


# -- merge, conflicts --------------------------------------------------------------------------------------------------

_STATES = {
    "merged": "merged",
    "up-to-date": "already merged",
    "nothing-to-add": "nothing to add: its changes are there",
    "not-merged": "not merged",
}
_MOST_FILES = 20


def merged(done: Merge, style: Style) -> Text:
    """After `merge`: the commit alone under -q; with conflicts, the files."""
    target = quote.line(done.target)
    left = tuple(
        f"'{each.id}' has {_paths(each.uncommitted)} that {'is' if each.uncommitted == 1 else 'are'} not committed: "
        "not merged"
        for each in done.sources
        if each.uncommitted
    )
    warnings = (*left, *(quote.line(each) for each in done.warnings))
    if done.conflicts:
        return _not_merged(done, style, warnings)
    lines = [f"  {each.id}: {_STATES[each.state]} ({_at(each)})" for each in done.sources]
    if not done.merged:
        return Text("".join(f"{line}\n" for line in (f"Nothing to merge into '{target}'.", *lines)), warnings=warnings)
    names = ", ".join(each.id for each in done.sources if each.state == "merged")
    if done.dry_run:
        lines = [f"Would merge {names} into '{target}' without conflicts.", *lines, "Nothing was changed."]
        return Text("".join(f"{line}\n" for line in lines), warnings=warnings)
    verb = "Squashed" if done.squashed else "Merged"
    lines.insert(
        0, f"{verb} {names} into '{target}', which is now at {style.paint('yellow', short(done.merge_commit))}."
    )
    hints = [f"'git update-ref refs/heads/{target} {short(done.before)}' takes it back"]
    if done.worktree_path is not None:
        lines.append(f"The files in {quote.path(done.worktree_path)} came along; local changes are kept.")
        lines.append(f"The state before is saved as {short(done.saved)}.")
        hints = [f"'git reset --keep {short(done.before)}' in that worktree takes it back"]
    commit = f"{short(done.merge_commit)}\n"
    return Text("".join(f"{line}\n" for line in lines), commit, warnings=warnings, hints=tuple(hints))


def _at(each: Source) -> str:
    return f"{quote.line(each.branch)} at {short(each.commit)}" if each.branch else short(each.commit)


def _not_merged(done: Merge, style: Style, warnings: tuple[str, ...]) -> Text:
    lines = [f"Not merged into '{quote.line(done.target)}': there are conflicts. Nothing was changed."]
    for each in done.conflicts:
        lines.append(f"{style.paint('red', 'conflict')} of {quote.line(each.b)} with {quote.line(each.a)}:")
        lines += files(each.files)
    paths = dict.fromkeys(quote.path(path) for each in done.conflicts for path in each.files)
    hints = (
        f"have one of them resolve it in its worktree ('git merge {quote.line(done.target)}'), then try again",
        "'git agentos worktree conflicts' tells in which order to merge",
    )
    return Text("".join(f"{line}\n" for line in lines), "".join(f"{path}\n" for path in paths), (), warnings, hints)


def conflicts(found: Conflicts, style: Style) -> Text:
    """`conflicts`: the pairs with their files, and the order; the order alone under -q."""
    order = "".join(f"{id_}\n" for id_ in found.order)
    warnings = tuple(f"'{each.id}' is left out: {quote.line(each.reason)}" for each in found.left_out)
    if len(found.agents) < 2:
        return Text(notes=("there are no two agents to compare",), warnings=warnings)
    count = len(found.agents)
    if not found.pairs:
        return Text(f"No conflicts: all {count} go together.\n", order, warnings=warnings)
    lines = [f"{len(found.pairs)} of {count * (count - 1) // 2} pairs conflict:"]
    for each in found.pairs:
        lines.append(f"{style.paint('red', each.a)} with {style.paint('red', each.b)}:")
        lines += files(each.files)
    lines.append(f"Merge in this order: {', '.join(found.order)}")
    return Text("".join(f"{line}\n" for line in lines), order, warnings=warnings)


def files(paths: Sequence[str]) -> list[str]:
    """Paths in conflict, a line each, as far as one wants to read them."""
    lines = [f"    {quote.path(path)}" for path in paths[:_MOST_FILES]]
    return lines if len(paths) <= _MOST_FILES else [*lines, f"    and {len(paths) - _MOST_FILES} more"]


def _paths(number: int) -> str:
    return f"{number} path{'' if number == 1 else 's'}"


# -- complete, archive, remove, repair ---------------------------------------------------------------------------------


def completed(done: Completion) -> Text:
    """`complete`: the merge request alone on stdout; the final checkpoint's id under -q."""
    notes = [f"worktree '{done.id}' is complete, saved in checkpoint {short(done.checkpoint)}; it stays for the review"]
    if done.pushed_to is not None:
        notes.append(f"pushed '{quote.line(done.branch)}' to '{quote.line(done.pushed_to)}'")
    if done.pull_request is not None:
        notes.append(f"opened {quote.line(done.pull_request)}")
    warnings = [f"not committed: {quote.path(path)}" for path in done.uncommitted[:_MOST_NAMES]]
    if len(done.uncommitted) > _MOST_NAMES:
        warnings.append(f"not committed: {len(done.uncommitted) - _MOST_NAMES} more")
    warnings += [quote.line(problem) for problem in done.problems]
    return Text(quote.block(done.document), f"{short(done.checkpoint)}\n", tuple(notes), tuple(warnings))


def ended(done: Removal, style: Style, *, archived: bool) -> Text:
    """`archive` and `remove`: what is gone, what of it is saved where, and how it comes back."""
    word = "Archived" if archived else "Removed"
    lines = [f"{word} worktree '{done.id}': {quote.path(done.path)}"]
    kinds = (
        ("changed files", done.losses.dirty),
        ("untracked files", done.losses.untracked),
        ("ignored files", done.losses.ignored),
        ("commits that no other ref has", [short(oid) for oid in done.losses.commits]),
        ("submodules and nested repositories", done.losses.submodules),
    )
    found = [(title, names) for title, names in kinds if names]
    if found:
        lines.append(f"Everything in it is saved in checkpoint {style.paint('yellow', short(done.checkpoint))}:")
        for title, names in found:
            lines.append(f"  {title}: {len(names)}")
            lines += [f"    {quote.path(name)}" for name in names[:_MOST_NAMES]]
            lines += [f"    and {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    else:
        lines.append(f"Nothing in it was without a commit. Its last checkpoint is {short(done.checkpoint)}.")
    if done.revives and done.revives != done.checkpoint:
        lines.append(f"Its folder was missing: it comes back as its last checkpoint {short(done.revives)} has it.")
    branch = f"'{quote.line(done.branch)}'"
    if done.branch_deleted:
        lines.append(f"Deleted branch {branch} (was {short(done.branch_sha)}); the timeline keeps its commits.")
    elif done.branch_sha is not None:
        lines.append(f"Branch {branch} stays, at {short(done.branch_sha)}.")
    warnings = [f"lost: {quote.path(each.path)} ({quote.line(each.reason)})" for each in done.discarded]
    warnings += [f"not saved: {quote.path(each.path)} ({quote.line(each.reason)})" for each in done.not_saved]
    titles = ("brings all of it back", "brings it back beside", "brings single files here", "makes the branch again")
    hints = [f"'{command}' {title}" for command, title in zip(done.get_back, titles, strict=False)]
    return Text(
        "".join(f"{line}\n" for line in lines), f"{short(done.checkpoint)}\n", (), tuple(warnings), tuple(hints)
    )


def repaired(done: Repair, style: Style) -> Text:
    """`repair`: a line for each thing that was found."""
    if not done.findings:
        return Text("Nothing had to be repaired.\n")
    lines = []
    for each in done.findings:
        label, colour = ("repaired", "green") if each.fixed else ("left", "yellow")
        lines.append(f"{style.paint(colour, label + ':')} {quote.line(each.message)}")
        if each.hint and not each.fixed:
            lines += [f"  {line}" for line in quote.block(each.hint).split("\n")]
    left = [quote.line(each.message) + "\n" for each in done.findings if not each.fixed]
    return Text("".join(f"{line}\n" for line in lines), "".join(left))
