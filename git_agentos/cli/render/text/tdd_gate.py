"""What `git agentos tdd gate` says to a person; see `text` for how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.render.text.checkpoint import count

if TYPE_CHECKING:
    from git_agentos.tdd.gate.command import GateResult


def judged(gate: GateResult, style: Style) -> Text:
    """Whether it holds, why not, and which tests it is about; alone under -q those that are red, or green."""
    shown = "".join(f"{line}\n" for line in _lines(gate, style))
    return Text(shown, "".join(f"{quote.line(each)}\n" for each in gate.red) if gate.holds else "")


def _lines(gate: GateResult, style: Style) -> Iterator[str]:
    if gate.holds:
        yield f"{style.paint('green', gate.gate)}: {_count(gate)}"
        yield from (f"  {quote.line(each)}" for each in gate.red)
        return
    code = "the tests were not run" if gate.exit_code is None else f"exit {gate.exit_code}"
    yield f"{style.paint('red', f'not {gate.gate}')}: {'interrupted' if gate.interrupted else code}"
    yield from (f"  {quote.line(each)}" for each in gate.feedback.splitlines())


def _count(gate: GateResult) -> str:
    if gate.gate == "red":
        one = len(gate.red) == 1
        return (
            f"{count(len(gate.red), 'new test')} {'fails as it has' if one else 'fail as they have'} to, "
            f"{count(len(gate.frozen), 'file')} frozen"
        )
    return f"{count(len(gate.red), 'test')} that {'was' if len(gate.red) == 1 else 'were'} red and all others pass"
