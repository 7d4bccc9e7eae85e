"""`turns`, `revert` and `why` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, lines, relative_time, table
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.turns.listing import Turn
    from git_agentos.turns.revert import Revert
    from git_agentos.why.explain import Line, Why

_MOST_PATHS = 10
_PROMPT = 40  # characters of a prompt beside a line
_ID = 12  # digits; ids begin with the time, in nanoseconds


def turn_id(id_: str) -> str:
    """An id as short as it is unique in practice."""
    return quote.line(id_[:_ID])


def listed(turns: Sequence[Turn], style: Style) -> Text:
    """`turns`: a turn, and below it what it changed; ids under -q."""
    if not turns:
        return Text(notes=("no turns",))
    rows: list[str] = []
    for each in turns:
        rows.append(f"{turn_id(each.id)}  {relative_time(each.started_at, style.now)}  {_who(each)}  {_state(each)}")
        rows.append(f"  {_prompt(each.prompt)}")
        rows += [f"    {quote.path(path)}" for path in each.changed[:_MOST_PATHS]]
        if len(each.changed) > _MOST_PATHS:
            rows.append(f"    and {count(len(each.changed) - _MOST_PATHS, 'more path', 'more paths')}")
    return Text(lines(rows), lines(quote.line(each.id) for each in turns))


def _who(turn: Turn) -> str:
    session = f", session {quote.line(turn.session_id)}" if turn.session_id is not None else ""
    return f"{quote.line(turn.agent_id)}{session}"


def _state(turn: Turn) -> str:
    changed = f"{count(len(turn.changed), 'path')} changed" if turn.changed else "nothing changed"
    if turn.ended_at is not None:
        return changed
    return f"{changed}, {'killed' if turn.ended_by == 'lost' else 'not ended'}"


def _prompt(prompt: str) -> str:
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return quote.line(first) if first else "(an empty prompt)"


def reverted(result: Revert, *, markers: bool) -> Text:
    """`revert`: the id of the checkpoint before under -q."""
    turn = turn_id(result.turn)
    conflicts = [f"  {quote.path(path)}" for path in result.conflicts]
    number = count(len(result.conflicts), "path")
    if result.conflicts and not markers:
        rows = [f"Turn {turn} conflicts with later edits in {number}:", *conflicts, "Nothing was changed."]
        return Text(lines(rows), "", hints=("'--conflict=markers' writes conflict markers into these files",))
    if not result.changed:
        return Text(f"Nothing to change: what turn {turn} changed is not there any more.\n", "")
    changed = count(len(result.changed), "path")
    if result.dry_run:
        rows = [f"Would revert turn {turn}: {changed} would be changed."]
        rows += [f"  {quote.path(path)}" for path in result.changed]
        rows += [f"Conflict markers would be in {number}:", *conflicts] if conflicts else []
        return Text(lines([*rows, "Nothing was changed."]), lines(quote.path(path) for path in result.changed))
    saved = abbrev(result.saved)
    rows = [f"Reverted turn {turn}: {changed} changed.", f"The state before is saved as {saved}."]
    rows += [f"Conflict markers are in {number}:", *conflicts] if conflicts else []
    return Text(lines(rows), f"{saved}\n", hints=("'git agentos undo' returns to it",))


def explained(result: Why, style: Style) -> Text:
    """`why`: a line of the file in each row; under -q the ids of the turns, `-` for none."""
    rows = [
        (
            str(each.line),
            turn_id(each.turn) if each.turn is not None else "",
            abbrev(each.commit),
            quote.line(each.agent_id or ""),
            relative_time(each.created_at, style.now) if each.created_at is not None else "not saved yet",
            _shortened(each),
            quote.line(each.text),
        )
        for each in result.lines
    ]
    if not rows:
        return Text(notes=("the file is empty",))
    return Text(lines(table(rows, style)), lines(each.turn or "-" for each in result.lines))


def _shortened(line: Line) -> str:
    if line.turn is None:
        return ""
    prompt = _prompt(line.prompt or "")
    return prompt if len(prompt) <= _PROMPT else f"{prompt[: _PROMPT - 1]}…"
