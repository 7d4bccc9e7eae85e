"""What `worktree create`, `list` and `show` say to a person."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from datetime import datetime

import pytest

from git_agentos.cli.render.text import layout
from git_agentos.cli.render.text import worktree as text_worktree
from git_agentos.cli.text import Style, Text
from git_agentos.worktree.status import ActiveProcess, Dirty, LastCheckpoint, LastEntry, Worktree

A, B = "a" * 40, "b" * 40
NOW = datetime.fromisoformat("2026-11-21T12:00:00Z").timestamp()
PLAIN = Style(now=NOW)
HOSTILE = "bad\x1b[31m\n\udcff\u202e"
ONE = Worktree(
    id="dev-001",
    branch="agent/dev-001",
    path="/home/ada/app.worktrees/dev-001",
    base_ref="main",
    base_sha=A,
    head_sha=B,
    task="T-42",
    state="active",
    dirty=Dirty(staged=1, unstaged=2, untracked=3, conflicted=0),
    ahead=3,
    behind=1,
    integrated=None,
    last_checkpoint=LastCheckpoint(B, "2026-11-21T11:55:00Z", "periodic", ""),
    last_log=LastEntry("2026-11-21T11:00:00Z", "decision", "keep the queue"),
    locked=True,
    process=ActiveProcess(4711, "python -m pytest"),
    disk_bytes=1_258_291,
)
ARCHIVED = replace(
    ONE, id="x", state="archived", dirty=None, task=None, last_log=None, locked=False, process=None, disk_bytes=None
)


def test_created() -> None:
    said = text_worktree.created(ONE, PLAIN, revived=False)
    assert said.result == (
        "Created worktree 'dev-001' on branch 'agent/dev-001': /home/ada/app.worktrees/dev-001\n"
        "It starts at aaaaaaaa (main).\n"
    )
    assert said.quiet == b"/home/ada/app.worktrees/dev-001\n"
    revived = text_worktree.created(ONE, PLAIN, revived=True)
    assert revived.result == (
        "Revived worktree 'dev-001' on branch 'agent/dev-001': /home/ada/app.worktrees/dev-001\n"
        "It is as it was when it was archived, ignored files, log and memory included.\n"
    )
    detached = text_worktree.created(dataclasses.replace(ONE, branch=None), PLAIN, revived=True)
    assert str(detached.result).startswith("Revived worktree 'dev-001' at ")


def test_the_list_is_a_table() -> None:
    merged = replace(ONE, id="dev-2", state="complete", dirty=Dirty(0, 0, 0, 0), behind=0, integrated="squash-merged")
    said = text_worktree.listing([ONE, replace(merged, locked=False), ARCHIVED], PLAIN)
    assert str(said.result).splitlines() == [
        "ID       STATE           TASK  CHANGES                           BASE              CHECKPOINT     SIZE",
        "dev-001  active, locked  T-42  1 staged, 2 changed, 3 untracked  +3 -1             5 minutes ago  1.2 MiB",
        "dev-2    complete        T-42  clean                             +3 squash-merged  5 minutes ago  1.2 MiB",
        "x        archived        -     -                                 +3 -1             5 minutes ago  -",
    ]
    assert said.quiet == "dev-001\ndev-2\nx\n"
    assert said.hints == ()


def test_the_list_hints() -> None:
    assert text_worktree.listing([], PLAIN).notes == ("no agents' worktrees",)
    assert "repair dev-001" in text_worktree.listing([replace(ONE, state="broken")], PLAIN).hints[0]


def test_details() -> None:
    assert str(text_worktree.details(ONE, PLAIN).result).splitlines() == [
        "Worktree: dev-001",
        "State:    active, locked",
        "Path:     /home/ada/app.worktrees/dev-001",
        "Branch:   agent/dev-001",
        "HEAD:     bbbbbbbb",
        "Base:     main at aaaaaaaa",
        "Compared: +3 -1",
        "Task:     T-42",
        "Changes:  1 staged, 2 changed, 3 untracked",
        "Saved:    bbbbbbbb, 5 minutes ago (periodic)",
        "Log:      1 hour ago: keep the queue",
        "Process:  python -m pytest (4711)",
        "Size:     1.2 MiB",
    ]
    assert "--revive" in text_worktree.details(ARCHIVED, PLAIN).hints[0]


HOSTILE_ONE = replace(
    ONE,
    branch=HOSTILE,
    path=HOSTILE,
    base_ref=HOSTILE,
    task=HOSTILE,
    last_log=LastEntry("2026-11-21T11:00:00Z", "decision", HOSTILE),
    process=ActiveProcess(1, HOSTILE),
)


@pytest.mark.parametrize(
    "said",
    [
        text_worktree.created(HOSTILE_ONE, PLAIN, revived=False),
        text_worktree.listing([HOSTILE_ONE], PLAIN),
        text_worktree.details(HOSTILE_ONE, PLAIN),
    ],
)
def test_no_control_character_ever(said: Text) -> None:
    for part in (said.result, *said.notes, *said.warnings, *said.hints):
        assert isinstance(part, str)
        assert part.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("number", "words"), [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes(number: int | None, words: str) -> None:
    assert layout.size(number) == words
