"""`worktree` and its subcommands as text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text import layout
from git_agentos.cli.render.text.layout import (
    abbrev,
    counts,
    facts,
    limited,
    lines,
    not_saved,
    relative_time,
    size,
    table,
)
from git_agentos.cli.render.text.status import hint_lines
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.worktree.agent_merge import Merge, Source
    from git_agentos.worktree.completion import Completion
    from git_agentos.worktree.conflicts import Conflicts
    from git_agentos.worktree.link import Linked
    from git_agentos.worktree.removal import Removal
    from git_agentos.worktree.repair import Repair
    from git_agentos.worktree.status import Worktree

COLOURS = {"active": "green", "complete": "cyan", "archived": "yellow", "broken": "red"}
_COLUMNS = ("ID", "STATE", "TASK", "CHANGES", "BASE", "CHECKPOINT", "SIZE")
_GUARD_BROKEN = "the guard does not act, 'git agentos worktree repair' restores it"
_MERGE_STATES = {
    "merged": "merged",
    "up-to-date": "already merged",
    "nothing-to-add": "nothing to add: its changes are there",
    "not-merged": "not merged",
}
_MOST_NAMES = 10
_MOST_FILES = 20


# -- create, list, show, path ------------------------------------------------------------------------------------------


def created(worktree: Worktree, style: Style, *, revived: bool, host: str | None = None) -> Text:
    """`create`; the path under -q. `host` is the one that a worktree was revived from."""
    id_, path = worktree.id, quote.path(worktree.path or "")
    head = f"on branch '{quote.line(worktree.branch)}'" if worktree.branch else f"at {abbrev(worktree.head_sha)}"
    more = [f"Its ports are {found}."] if (found := _ports(worktree)) else []
    if not revived:
        rows = [
            f"Created worktree '{id_}' {head}: {path}",
            f"It starts at {abbrev(worktree.base_sha)} ({quote.line(worktree.base_ref or '')}){_behind(worktree)}.",
        ]
        if worktree.changes_from is not None:
            carried = _changes(worktree) if worktree.dirty is not None else "unknown"
            rows.append(f"Uncommitted changes are carried from checkpoint {abbrev(worktree.changes_from)}: {carried}.")
    elif (saved := worktree.revived_from) is None:
        rows = [
            f"Revived worktree '{id_}' {head}: {path}",
            "It is as it was when it was archived, ignored files, log and memory included.",
        ]
    else:
        when = f"{relative_time(saved.created_at, style.now)} ({saved.trigger})"
        why = "Its folder was lost:" if host is None else f"From {quote.line(host)}:"
        rows = [
            f"Revived worktree '{id_}' {head}: {path}",
            f"{why} it is as in its last checkpoint {abbrev(saved.id)}, {when}.",
        ]
    more += [_linked(each) for each in worktree.linked or ()]
    hints = (f'cd "$(git agentos worktree path {id_})"',) if style.terminal else ()
    return Text(lines([*rows, *more]), raw_path(worktree.path or "").result, hints=hints)


def _behind(worktree: Worktree) -> str:
    """How far the base of a new worktree is behind the branch that it follows."""
    if not worktree.base_behind:
        return ""
    return f", {count(worktree.base_behind, 'commit')} behind {quote.line(worktree.base_follows or '')}"


def listing(worktrees: Sequence[Worktree], style: Style) -> Text:
    """`list`: a table; ids under -q."""
    if not worktrees:
        return Text(notes=("no agents' worktrees",), hints=("'git agentos worktree create ID' creates one",))
    rows = table([_row(each, style) for each in worktrees], style, _COLUMNS)
    broken = [each.id for each in worktrees if each.state == "broken"]
    unguarded = [each.id for each in worktrees if each.guard == "broken"]
    hints = [f"'git agentos worktree repair {broken[0]}' repairs what is broken, or says what to do"] if broken else []
    hints += [f"{_GUARD_BROKEN}: {', '.join(unguarded)}"] if unguarded else []
    return Text(lines(rows), lines(each.id for each in worktrees), hints=tuple(hints))


def _row(worktree: Worktree, style: Style) -> tuple[layout.Cell, ...]:
    last = worktree.last_checkpoint
    return (
        worktree.id,
        (_state(worktree), COLOURS[worktree.state]),
        quote.line(worktree.task or "-"),
        _changes(worktree),
        _ahead_behind(worktree),
        relative_time(last.created_at, style.now) if last is not None else "-",
        size(worktree.disk_bytes),
    )


def details(worktree: Worktree, style: Style) -> Text:
    """`show`."""
    id_, last, entry, process = worktree.id, worktree.last_checkpoint, worktree.last_log, worktree.process
    base = f"{quote.line(worktree.base_ref or '')} at {abbrev(worktree.base_sha)}" if worktree.base_sha else None
    saved = f"{abbrev(last.id)}, {relative_time(last.created_at, style.now)} ({last.trigger})" if last else "never"
    detached = "HEAD detached" if worktree.dirty is not None else None
    rows = facts(
        [
            ("Worktree", id_),
            ("State", style.paint(COLOURS[worktree.state], worktree.state) + (", locked" if worktree.locked else "")),
            ("Path", quote.path(worktree.path) if worktree.path else None),
            ("Branch", quote.line(worktree.branch) if worktree.branch else detached),
            ("HEAD", abbrev(worktree.head_sha)),
            ("Base", base),
            ("Compared", _ahead_behind(worktree) if worktree.ahead is not None else None),
            ("Carried", f"uncommitted changes of {abbrev(worktree.changes_from)}" if worktree.changes_from else None),
            ("Task", quote.line(worktree.task) if worktree.task else None),
            ("Changes", _changes(worktree) if worktree.dirty is not None else None),
            ("Saved", saved),
            ("Log", f"{relative_time(entry.timestamp, style.now)}: {quote.line(entry.summary)}" if entry else None),
            ("Guard", {"on": "on", "broken": style.paint("red", "broken: it does not act")}.get(worktree.guard or "")),
            ("Process", f"{quote.line(process.command)} ({process.pid})" if process else None),
            ("Ports", _ports(worktree)),
            ("Size", size(worktree.disk_bytes) if worktree.disk_bytes is not None else None),
        ]
    )
    hints = {
        "broken": (f"'git agentos worktree repair {id_}' repairs it",),
        "archived": (f"'git agentos worktree create {id_} --revive' restores it",),
    }.get(worktree.state, (_GUARD_BROKEN,) if worktree.guard == "broken" else ())
    return Text(lines(rows), f"{id_}\n", hints=hints)


def _linked(brought: Linked) -> str:
    """What agentos.link has brought, and how."""
    numbers = ((brought.cloned, "cloned"), (brought.hard_linked, "hard-linked"), (brought.copied, "copied"))
    how = ", ".join(f"{number} {word}" for number, word in numbers if number)
    total = f"{count(brought.files, 'file')}, {size(brought.bytes)}"
    return f"Brought '{quote.line(brought.path)}': {total}{f' ({how})' if how else ''}."


def _ports(worktree: Worktree) -> str | None:
    if worktree.port_base is None or not worktree.port_count:
        return None
    return f"{worktree.port_base} to {worktree.port_base + worktree.port_count - 1}"


def _state(worktree: Worktree) -> str:
    return worktree.state + (", locked" if worktree.locked else "")


def _changes(worktree: Worktree) -> str:
    dirty = worktree.dirty
    if dirty is None:
        return "-"
    numbers = (
        (dirty.conflicted, "in conflict"),
        (dirty.staged, "staged"),
        (dirty.unstaged, "changed"),
        (dirty.untracked, "untracked"),
    )
    return counts(numbers) or "clean"


def _ahead_behind(worktree: Worktree) -> str:
    """Commits ahead of and behind the base, and whether the base has the work."""
    if worktree.ahead is None or worktree.behind is None:
        return "-"
    parts = [f"+{worktree.ahead}"] if worktree.ahead else []
    parts += [f"-{worktree.behind}"] if worktree.behind else []
    if worktree.integrated and parts:
        parts.append("integrated" if worktree.integrated == "ancestor" else worktree.integrated)
    return " ".join(parts) or "same"


def environment(variables: Mapping[str, str]) -> Text:
    """`env`: assignments for a shell; the values are numbers."""
    return Text(lines(f"export {key}={value}" for key, value in variables.items()))


def raw_path(path: str) -> Text:
    """A path for a script: its bytes, unchanged."""
    line = os.fsencode(path) + b"\n"
    return Text(line, line)


def refilled(prepared: int) -> Text:
    """`refill`."""
    return Text(f"{prepared} prepared\n", f"{prepared}\n")


# -- merge, conflicts --------------------------------------------------------------------------------------------------


def merged(merge: Merge, style: Style) -> Text:
    """`merge`; the commit under -q, or the files in conflict."""
    target = quote.line(merge.target)
    uncommitted = tuple(
        f"'{each.id}' has {count(each.uncommitted, 'path')} that {'is' if each.uncommitted == 1 else 'are'} not "
        "committed: not merged"
        for each in merge.sources
        if each.uncommitted
    )
    warnings = (*uncommitted, *(quote.line(each) for each in merge.warnings))
    if merge.conflicts:
        return _not_merged(merge, style, warnings)
    rows = [f"  {each.id}: {_MERGE_STATES[each.state]} ({_tip(each)})" for each in merge.sources]
    if not merge.merged:
        return Text(lines([f"Nothing to merge into '{target}'.", *rows]), warnings=warnings)
    names = ", ".join(each.id for each in merge.sources if each.state == "merged")
    if merge.dry_run:
        rows = [f"Would merge {names} into '{target}' without conflicts.", *rows, "Nothing was changed."]
        return Text(lines(rows), warnings=warnings)
    verb = "Squashed" if merge.squashed else "Merged"
    commit = abbrev(merge.merge_commit)
    rows.insert(0, f"{verb} {names} into '{target}', which is now at {style.paint('yellow', commit)}.")
    rows += checked_out(merge)
    undo = f"git update-ref refs/heads/{target} {abbrev(merge.before)}"
    hint = f"'{undo}' undoes the merge"
    if merge.worktree_path is not None:
        hint = f"'git reset --keep {abbrev(merge.before)}' in that worktree undoes the merge"
    return Text(lines(rows), f"{commit}\n", warnings=warnings, hints=(hint,))


def checked_out(merge: Merge) -> list[str]:
    """What a merge did in the worktree in which its target is checked out."""
    if merge.worktree_path is None:
        return []
    rows = [f"The files in {quote.path(merge.worktree_path)} were updated; local changes are kept."]
    return [*rows, f"The state before is saved as {abbrev(merge.saved)}."] if merge.saved else rows


def _tip(source: Source) -> str:
    return f"{quote.line(source.branch)} at {abbrev(source.commit)}" if source.branch else abbrev(source.commit)


def _not_merged(merge: Merge, style: Style, warnings: tuple[str, ...]) -> Text:
    target = quote.line(merge.target)
    rows = [f"Not merged into '{target}': there are conflicts. Nothing was changed."]
    for each in merge.conflicts:
        rows.append(f"{style.paint('red', 'conflict')} of {quote.line(each.b)} with {quote.line(each.a)}:")
        rows += limited(each.files, _MOST_FILES)
    paths = dict.fromkeys(quote.path(path) for each in merge.conflicts for path in each.files)
    hints = (
        f"have one of the agents resolve it in its worktree ('git merge {target}'), then try again",
        "'git agentos worktree conflicts' suggests an order in which to merge",
    )
    return Text(lines(rows), lines(paths), (), warnings, hints)


def conflicts(result: Conflicts, style: Style) -> Text:
    """`conflicts`: the pairs with their files, and the order; the order under -q."""
    warnings = tuple(f"'{each.id}' is left out: {quote.line(each.reason)}" for each in result.left_out)
    number = len(result.agents)
    if number < 2:
        return Text(notes=("there are no two agents to compare",), warnings=warnings)
    if not result.pairs:
        return Text(f"No conflicts between the {number} agents.\n", lines(result.order), warnings=warnings)
    rows = [f"{len(result.pairs)} of {number * (number - 1) // 2} pairs conflict:"]
    for each in result.pairs:
        rows.append(f"{style.paint('red', each.a)} with {style.paint('red', each.b)}:")
        rows += limited(each.files, _MOST_FILES)
    rows.append(f"Merge in this order: {', '.join(result.order)}")
    return Text(lines(rows), lines(result.order), warnings=warnings)


# -- complete, archive, remove, repair ---------------------------------------------------------------------------------


def completed(result: Completion) -> Text:
    """`complete`: only the merge request on stdout; the final checkpoint's id under -q."""
    checkpoint = abbrev(result.checkpoint)
    notes = [f"worktree '{result.id}' is complete, saved in checkpoint {checkpoint}; it is kept for the review"]
    if result.pushed_to is not None:
        notes.append(f"pushed '{quote.line(result.branch)}' to '{quote.line(result.pushed_to)}'")
    if result.pull_request is not None:
        notes.append(f"opened {quote.line(result.pull_request)}")
    warnings = [f"not committed: {quote.path(path)}" for path in result.uncommitted[:_MOST_NAMES]]
    if len(result.uncommitted) > _MOST_NAMES:
        warnings.append(f"not committed: {len(result.uncommitted) - _MOST_NAMES} more")
    warnings += [quote.line(problem) for problem in result.problems]
    return Text(quote.block(result.document), f"{checkpoint}\n", tuple(notes), tuple(warnings))


def removed(result: Removal, style: Style, *, archived: bool) -> Text:
    """`archive` and `remove`: what was removed, where it is saved, and how to restore it."""
    checkpoint = abbrev(result.checkpoint)
    rows = [f"{'Archived' if archived else 'Removed'} worktree '{result.id}': {quote.path(result.path)}"]
    saved = [
        (title, names)
        for title, names in (
            ("changed files", result.losses.dirty),
            ("untracked files", result.losses.untracked),
            ("ignored files", result.losses.ignored),
            ("commits that are on no other ref", [abbrev(oid) for oid in result.losses.commits]),
            ("submodules and nested repositories", result.losses.submodules),
        )
        if names
    ]
    missing = any(each.path == result.path for each in result.not_saved)
    if missing:
        rows.append(f"Its folder was missing: --revive restores its last checkpoint {abbrev(result.revives)}.")
    if saved:
        what = "Its HEAD and index are" if missing else "Everything in it is"
        rows.append(f"{what} saved in checkpoint {style.paint('yellow', checkpoint)}:")
    elif not missing:
        rows.append(f"It had no uncommitted work. Its last checkpoint is {checkpoint}.")
    for title, names in saved:
        rows += [f"  {title}: {len(names)}", *limited(names, _MOST_NAMES)]
    branch = f"'{quote.line(result.branch)}'"
    if result.branch_deleted:
        rows.append(f"Deleted branch {branch} (was {abbrev(result.branch_sha)}); the timeline keeps its commits.")
    elif result.branch_sha is not None:
        rows.append(f"Branch {branch} is kept, at {abbrev(result.branch_sha)}.")
    warnings = not_saved(((each.path, each.reason) for each in result.discarded), "lost")
    warnings += not_saved((each.path, each.reason) for each in result.not_saved)
    effects = (
        "restores what was saved" if missing else "restores all of it",
        "restores it in another worktree",
        "restores single files here",
        "creates the branch again",
    )
    hints = tuple(f"'{command}' {effect}" for command, effect in zip(result.get_back, effects, strict=False))
    return Text(lines(rows), f"{checkpoint}\n", (), tuple(warnings), hints)


def repaired(result: Repair, style: Style) -> Text:
    """`repair`: one line for each finding; those that are left under -q."""
    if not result.findings:
        return Text("Nothing to repair.\n")
    rows = []
    for each in result.findings:
        label, colour = ("repaired", "green") if each.fixed else ("left", "yellow")
        rows += [f"{style.paint(colour, label + ':')} {quote.line(each.message)}"]
        rows += [] if each.fixed else hint_lines(each.hint)
    return Text(lines(rows), lines(quote.line(each.message) for each in result.findings if not each.fixed))
