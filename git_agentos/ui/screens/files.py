"""The files in which a checkpoint differs from the current state, and their hunks: some of them are restored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.screen import ModalScreen

from git_agentos.git.hunks import FilePatch
from git_agentos.ui import patches
from git_agentos.ui.background import Problem
from git_agentos.ui.commands import Command, explain_restore
from git_agentos.ui.host import Host
from git_agentos.ui.lines import Lines, OneLine
from git_agentos.ui.patches import Line
from git_agentos.ui.rows import Cell, Column, Rows
from git_agentos.util.named_tuple import NamedTuple

_COLUMNS = (Column("FILE", 20, grow=1), Column("NOW", 8))
_WORDS = {"A": "new", "M": "changed", "D": "removed", "T": "changed"}
_KEYS = "r restore  space mark  l patch  escape leave"


class Part(NamedTuple):
    """A file that differs (`number` is None), or a hunk of it."""

    file: FilePatch
    number: int | None = None

    @property
    def path(self) -> str:
        return os.fsdecode(self.file.path)


class Files(ModalScreen[None]):
    """`spec` are the words that name the checkpoint, `folder` is the worktree in which it is restored."""

    DEFAULT_CSS = """
    Files { align: center middle; background: transparent; }
    Files > Vertical { width: 100%; height: 100%; background: ansi_default; color: ansi_default; }
    Files #panes { layout: vertical; height: 1fr; }
    Files Lines { border-top: solid ansi_blue; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
        Binding("r", "restore", show=False),
        Binding("h,left", "list", show=False),
        Binding("l,right,enter", "patch", show=False),
    ]

    def __init__(self, spec: Sequence[str], folder: str, host: Host) -> None:
        super().__init__()
        self._spec, self._folder, self._host = tuple(spec), folder, host

    def compose(self) -> ComposeResult:
        with Vertical():
            yield OneLine(id="head")
            with Container(id="panes"):
                yield Rows[Part](_COLUMNS, _key, _cells, empty="reading …")
                yield Lines()
            yield OneLine(id="keys")

    def on_mount(self) -> None:
        self.query_one("#head", OneLine).replace(
            ("What differs from ", ""), (self._spec[0], "bold"), (f" in {os.path.basename(self._folder)}", "")
        )
        self.query_one("#keys", OneLine).replace((_KEYS, ""))
        self.query_one(Rows).focus()
        self._host.background.request("files", self._read, self._show)

    def _read(self) -> Sequence[Part]:
        workspace = self._host.open_workspace(self._folder)
        agent = self._spec[2] if len(self._spec) > 1 else None
        found = workspace.differences(self._spec[0], agent=agent)
        parts: list[Part] = []
        for each in found:
            parts.append(Part(each.patch))
            parts += [Part(each.patch, number) for number in range(1, len(each.patch.hunks) + 1)]
        return parts

    def _show(self, found: Sequence[Part] | Problem) -> None:
        rows = self.query_one(Rows)
        if isinstance(found, Problem):
            rows.empty = f"error: {found.message}"
            rows.refresh()
            return
        rows.empty = "no file differs"
        rows.replace(found)
        self._draw()

    def on_rows_moved(self, message: Rows.Moved) -> None:
        message.stop()
        self._draw()

    def _draw(self) -> None:
        part = self.query_one(Rows).current
        lines = list(patches.file_lines(part.file)) if part is not None else []

        def paint(number: int, _: str) -> Sequence[Segment]:
            return patches.paint(lines[number])

        shown = self.query_one(Lines)
        shown.replace([each.text for each in lines], paint)
        if part is not None and part.number is not None:
            shown.action_scroll(_start(lines, part.number))

    def action_restore(self) -> None:
        """Restore what is marked; what is under the cursor if nothing is."""
        rows = self.query_one(Rows)
        current = rows.current
        chosen: list[Part] = list(rows.marks.values()) or ([current] if current is not None else [])
        if not chosen:
            return
        whole = [each.path for each in chosen if each.number is None]
        numbers: dict[str, list[int]] = {}
        for each in chosen:
            if each.number is not None:
                numbers.setdefault(each.path, []).append(each.number)
        if whole and numbers:
            self._host.say("mark either files or hunks", "yellow")
            self.query_one("#keys", OneLine).replace(("mark either files or hunks", "yellow"))
            return
        words = ("restore", *self._spec)
        hunks = [f"--hunks={path}:{','.join(map(str, sorted(found)))}" for path, found in numbers.items()]
        rest = tuple(hunks) if hunks else ("--", *whole)
        question = "Restore these hunks?" if hunks else f"Restore {len(whole)} file(s)?"
        self.dismiss()
        self._host.perform(
            Command((*words, *rest), self._folder),
            question,
            plan=Command((*words, "--dry-run", *rest), self._folder),
            explain=explain_restore,
        )

    def action_list(self) -> None:
        self.query_one(Rows).focus()

    def action_patch(self) -> None:
        self.query_one(Lines).focus()

    def action_leave(self) -> None:
        self.dismiss()


def _key(part: Part) -> str:
    return f"{part.path}:{part.number or ''}"


def _cells(part: Part) -> list[Cell]:
    if part.number is None:
        return [part.path, _WORDS.get(part.file.status, part.file.status)]
    hunk = part.file.hunks[part.number - 1]
    header = hunk.header.partition(b"\n")[0].decode("utf-8", "surrogateescape")
    return [f"    hunk {part.number}  {header or hunk.kind}", ""]


def _start(lines: Sequence[Line], number: int) -> int:
    """The line with which a hunk begins."""
    mark = f"(hunk {number})"
    return next((at for at, each in enumerate(lines) if each.text.endswith(mark)), 0)
