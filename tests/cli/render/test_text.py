"""What people read: what is true now, where the state before is kept, the next step; nothing that harms a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from git_agentos.cli.render.text import checkpoint as text
from git_agentos.cli.render.text import layout, restore, status
from git_agentos.cli.text import Style, Text
from git_agentos.git.filesystem_limits import FileSystem
from git_agentos.overview import Diagnosis, Overview
from git_agentos.protection.harnesses import HarnessState
from git_agentos.watch.control import WatchStatus
from git_agentos.workspace import (
    Checkpoint,
    Diff,
    FileChange,
    FileContent,
    Finding,
    Interrupted,
    Pick,
    Recovery,
    Restoration,
    Skipped,
    Status,
)

A, B = "a1b2c3d4" + "0" * 32, "b1b2c3d4" + "1" * 32
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
PLAIN, TERMINAL = Style(now=NOW), Style(colour=True, terminal=True, now=NOW)
HOSTILE = 'x\x1b[31m\x9b\u202e\r\x07"\udcff'

CHECKPOINT = Checkpoint(
    id=A,
    created_at="2026-11-21T11:57:00.000Z",
    created_by="main",
    branch="topic",
    commit=B,
    worktree_path="/w",
    task_id="T-1",
    description="before the rename\n\nand why",
    trigger="manual",
    staged_changes=["staged"],
    unstaged_changes=["one", "two"],
    untracked_files=[],
    skipped=[Skipped("core", "too large")],
    stash_ref=A,
    operation="merge",
    run_id=None,
    session_id=None,
    meta={"k": "v"},
    timeline="main",
)
RESTORED = Restoration(
    checkpoint=A,
    saved=B,
    branch="restore/a1b2c3d4/20261121T120000Z",
    head=B,
    worktree_path="/home/ada/app",
    changed=["one", "two"],
    removed=["three"],
    skipped=[],
    dry_run=False,
)


def test_a_checkpoint_is_its_short_id_and_warns_of_what_it_left_out() -> None:
    said = text.created(CHECKPOINT, PLAIN)
    assert said == Text("a1b2c3d4\n", "a1b2c3d4\n", (), ("not saved: core (too large)",), ())
    told = text.created(CHECKPOINT, TERMINAL)
    assert told.result == "a1b2c3d4\n"
    assert told.notes == ("saved the state (1 staged, 2 changed); nothing was changed",)
    assert told.hints == ("'git agentos restore a1b2c3d4' restores this state",)


def test_an_unchanged_state_is_said() -> None:
    said = text.created(CHECKPOINT._replace(unchanged=True, skipped=[]), PLAIN)
    assert said.notes == ("nothing has changed since checkpoint a1b2c3d4: no new checkpoint was created",)


def test_many_skipped_paths_are_not_a_flood() -> None:
    many = CHECKPOINT._replace(skipped=[Skipped(f"f{n}", "r") for n in range(30)])
    warnings = text.created(many, PLAIN).warnings
    assert len(warnings) == 11
    assert warnings[-1] == "not saved: 20 more; 'git agentos checkpoint show a1b2c3d4' lists them"


def test_the_list() -> None:
    other = CHECKPOINT._replace(id=B, trigger="milestone", description="", created_at="2026-11-21T10:00:00Z")
    said = text.listing([CHECKPOINT, other], PLAIN)
    assert said.result == (
        "a1b2c3d4  3 minutes ago  manual     before the rename\n"  #
        "b1b2c3d4  2 hours ago    milestone\n"
    )
    assert said.quiet == "a1b2c3d4\nb1b2c3d4\n"
    assert text.listing([], PLAIN).notes == ("no checkpoints",)


def test_agents_are_named_where_there_are_several() -> None:
    other = CHECKPOINT._replace(id=B, timeline="dev", created_by="ada")
    assert "  dev (ada)  before the rename\n" in str(text.listing([CHECKPOINT, other], PLAIN).result)


def test_show() -> None:
    assert text.details(CHECKPOINT, PLAIN).result == (
        f"checkpoint {A}\n"
        "Agent:     main\n"
        "Date:      2026-11-21 11:57:00 +0000 (3 minutes ago)\n"
        "State:     on branch 'topic' at commit b1b2c3d4\n"
        "Trigger:   manual\n"
        "Task:      T-1\n"
        "Operation: merge in progress\n"
        "Meta:      k=v\n"
        "\n"
        "    before the rename\n"
        "\n"
        "    and why\n"
        "\n"
        "Staged changes:\n"
        "  staged\n"
        "\n"
        "Changes not staged:\n"
        "  one\n"
        "  two\n"
        "\n"
        "Not saved:\n"
        "  core (too large)\n"
    )


def test_restore_says_where_one_is_and_how_to_come_back() -> None:
    said = restore.restored(RESTORED)
    assert said.result == (
        "Restored checkpoint a1b2c3d4: 2 paths written, 1 removed.\n"
        "You are on branch 'restore/a1b2c3d4/20261121T120000Z'.\n"
        "The state before is saved as b1b2c3d4.\n"
    )
    assert said.hints == ("'git agentos undo' returns to it",)
    assert said.quiet == "b1b2c3d4\n"


@pytest.mark.parametrize(
    ("branch", "head", "kept", "expected"),
    [
        ("main", B, True, "You are still on branch 'main'."),
        (None, B, False, "HEAD is detached at b1b2c3d4."),
        (None, None, False, "HEAD has no commit yet."),
    ],
)
def test_whereabouts(branch: str | None, head: str | None, kept: bool, expected: str) -> None:
    said = restore.restored(replace(RESTORED, branch=branch, head=head), kept_branch=kept)
    assert expected in str(said.result).splitlines()


def test_a_dry_run_lists_the_paths_and_says_that_nothing_was_changed() -> None:
    said = restore.restored(replace(RESTORED, saved=None, dry_run=True))
    assert said.result == (
        "Would restore checkpoint a1b2c3d4: 2 paths written, 1 removed.\n"
        "  write   one\n"
        "  write   two\n"
        "  remove  three\n"
        "You would be on branch 'restore/a1b2c3d4/20261121T120000Z'.\n"
        "Nothing was changed.\n"
    )
    assert said.hints == ()


def test_undo_can_be_undone() -> None:
    said = restore.undone(RESTORED)
    assert str(said.result).startswith("Undone: the state is that of checkpoint a1b2c3d4 again")
    assert said.hints == ("'git agentos undo' again returns to it",)


def test_recover() -> None:
    nothing = Recovery("nothing", None, None, None, [], [], [], [])
    assert restore.recovered(nothing).result == "Nothing to recover: no restore was interrupted here.\n"
    assert "Removed '/g/index.lock'" in str(restore.recovered(replace(nothing, cleaned=["/g/index.lock"])).result)
    finished = replace(nothing, outcome="finished", checkpoint=A, saved=B, branch="main")
    assert "is now complete" in str(restore.recovered(finished).result)
    back = restore.recovered(replace(finished, outcome="went-back"))
    assert "everything is as it was before it" in str(back.result)
    assert back.hints == ()


def test_a_pick_that_stops_says_both_ways_on() -> None:
    said = restore.picked(Pick([A], B, A, ["clash.txt"], "conflict"))
    assert "  clash.txt\n" in str(said.result)
    assert [re.findall("--[a-z]+", hint) for hint in said.hints] == [["--continue"], ["--abort"]]


STATUS = Status(
    agent="main",
    branch="topic",
    commit=B,
    worktree_path="/w",
    dirty=True,
    staged=1,
    unstaged=0,
    untracked=3,
    conflicted=1,
    operation="merge",
    last_checkpoint=CHECKPOINT,
    pending_approvals=[],
    interrupted=Interrupted("restore", A, B, "apply"),
)


def test_status() -> None:
    said = status.status(Overview(STATUS), PLAIN)
    assert said.result == (
        "Agent 'main', on branch 'topic' at commit b1b2c3d4\n"
        "Worktree: /w\n"
        "Changes: 1 staged, 3 untracked, 1 in conflict\n"
        "In progress: merge\n"
        "Last checkpoint: a1b2c3d4, 3 minutes ago (manual): before the rename\n"
        "Watched: no\n"
        "Interrupted: restore of checkpoint a1b2c3d4\n"
    )
    assert said.hints == (
        "'git agentos recover' finishes it, 'git agentos recover --abort' aborts it; nothing is lost",
    )
    fresh = STATUS._replace(branch=None, dirty=False, operation=None, last_checkpoint=None, interrupted=None)
    assert status.status(Overview(fresh), PLAIN).result == (
        "Agent 'main', HEAD detached at commit b1b2c3d4\nWorktree: /w\nChanges: none\nLast checkpoint: none\n"
        "Watched: no\n"
    )


def test_status_of_a_watched_worktree() -> None:
    def said(*worktrees: dict[str, Any]) -> str:
        watch = WatchStatus(running=True, pid=7, worktrees=worktrees)
        result = status.status(Overview(STATUS, watch=watch), PLAIN).result
        assert isinstance(result, str)
        return result.splitlines()[5]

    own = {"path": "/w", "watching": True, "folders": 12, "reason": None, "checkpoints": False}
    assert said(own) == "Watched: 12 folders, by process 7"
    assert said({**own, "path": "/other"}) == "Watched: no ('git agentos watch start' watches it)"
    assert said({**own, "watching": False, "reason": HOSTILE}).startswith("Watched: no: ")


def test_doctor() -> None:
    assert status.doctor(Diagnosis(()), PLAIN, fix=False).result == "No problems found.\nWatch daemon: not running\n"
    found = Finding("a-code", "warning", "it is bad", "do this", False)
    said = status.doctor(Diagnosis((found,)), PLAIN, fix=False)
    assert said.result == "warning: it is bad [a-code]\n  do this\nWatch daemon: not running\n"
    assert said.hints == ("'git agentos doctor --fix' fixes what it can",)
    assert status.doctor(Diagnosis((replace(found, fixed=True),)), PLAIN, fix=True).result == (
        "fixed: it is bad [a-code]\nWatch daemon: not running\n"
    )


def test_doctor_names_the_file_systems() -> None:
    places = (
        FileSystem("worktree", "/w", "exfat", ("no hard links", "no symbolic links")),
        FileSystem("git directory", "/r/.git", None, ()),
    )
    assert status.doctor(Diagnosis((), places), PLAIN, fix=False).result == (
        "No problems found.\n"
        "Worktree: exfat, with these limits:\n  no hard links\n  no symbolic links\n"
        "Git directory: the system does not name the file system\n"
        "Watch daemon: not running\n"
    )


PATCH = (
    b"diff --git a/one b/one\nindex 1..2 100644\n--- a/one\n+++ b/one\n@@ -1,3 +1,3 @@ def x():\n"
    b" same\n-old \x1b[31m\n--- minus\n+new\n++++ plus\n"
    b"diff --git a/two b/two\nBinary files a/two and b/two differ\n"
    b'diff --git "a/th\\377ree" "b/th\\377ree"\n--- "a/th\\377ree"\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n'
    b"\\ No newline at end of file\n"
    b"diff --git a/with space b/with space\n--- /dev/null\n+++ b/with space\t\n@@ -0,0 +1 @@\n+came\n"
)
DIFF = Diff(A, None, (FileChange("one", "M"),), PATCH)


def test_a_patch_is_byte_for_byte_unless_a_terminal_reads_it() -> None:
    assert text.diff(DIFF, PLAIN, stat=False).result == PATCH
    shown = str(text.diff(DIFF, TERMINAL, stat=False).result)
    assert "\x1b[31m-old \\033[31m\x1b[m\n" in shown
    assert "\x1b[31m--- minus\x1b[m\n" in shown
    assert "\x1b[32m++++ plus\x1b[m\n" in shown
    assert "\x1b[1m--- a/one\x1b[m\n" in shown
    plain = re.sub(r"\x1b\[\d*m", "", shown).replace("\\033", "\x1b")
    # Each file has one hunk; its number is behind what git apply reads.
    assert re.findall(r"(?m)^(@@.*)  \(hunk 1\)$", plain) == [
        "@@ -1,3 +1,3 @@ def x():",
        "@@ -1 +0,0 @@",
        "@@ -0,0 +1 @@",
    ]
    assert plain.replace("  (hunk 1)", "").encode() == PATCH


def test_stat_counts_what_the_hunks_hold() -> None:
    assert text.diff(DIFF, PLAIN, stat=True).result == (
        " one           | +2 -2\n"
        " two           | Bin\n"
        ' "th\\377ree"   | +0 -1\n'
        " with space    | +1 -0\n"
        " 4 paths changed, 3 added, 3 removed lines\n"
    ).replace("   |", " |")
    assert text.diff(DIFF._replace(patch=b""), PLAIN, stat=True).result == ""


def test_contents_are_raw_but_for_a_terminal() -> None:
    file = FileContent(A, "p", "100644", 5, b"\x1b[31m")
    assert text.contents(file, PLAIN).result == b"\x1b[31m"
    assert text.contents(file, TERMINAL).result == "\\033[31m"


HOSTILE_CHECKPOINT = CHECKPOINT._replace(
    created_by=HOSTILE,
    branch=HOSTILE,
    task_id=HOSTILE,
    description=f"{HOSTILE}\n{HOSTILE}",
    staged_changes=[HOSTILE],
    skipped=[Skipped(HOSTILE, HOSTILE)],
    meta={HOSTILE: HOSTILE},
)
HOSTILE_RESTORATION = replace(
    RESTORED, branch=HOSTILE, changed=[HOSTILE], removed=[HOSTILE], skipped=[Skipped(HOSTILE, HOSTILE)]
)


@pytest.mark.parametrize(
    "said",
    [
        text.created(HOSTILE_CHECKPOINT, PLAIN),
        text.listing([HOSTILE_CHECKPOINT, HOSTILE_CHECKPOINT._replace(timeline="b")], PLAIN),
        text.details(HOSTILE_CHECKPOINT, PLAIN),
        restore.restored(HOSTILE_RESTORATION),
        restore.restored(replace(HOSTILE_RESTORATION, dry_run=True)),
        restore.undone(HOSTILE_RESTORATION),
        restore.recovered(Recovery("finished", A, B, HOSTILE, [], [], [Skipped(HOSTILE, HOSTILE)], [HOSTILE])),
        restore.picked(Pick([A], B, A, [HOSTILE], "conflict")),
        status.status(
            Overview(
                STATUS._replace(
                    agent=HOSTILE, branch=HOSTILE, worktree_path=HOSTILE, last_checkpoint=HOSTILE_CHECKPOINT
                )
            ),
            PLAIN,
        ),
        status.doctor(
            Diagnosis(
                (Finding(HOSTILE, "error", HOSTILE, HOSTILE, False),),
                (FileSystem("worktree", HOSTILE, HOSTILE, ()),),
                None,
                (HarnessState("codex", HOSTILE, HOSTILE, "not-trusted", HOSTILE, HOSTILE),),
            ),
            PLAIN,
            fix=False,
        ),
    ],
)
def test_no_control_character_ever(said: Text) -> None:
    parts: list[Any] = [said.result, said.quiet, *said.notes, *said.warnings, *said.hints]
    for part in parts:
        assert isinstance(part, str)
        assert part.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("created_at", "expected"),
    [
        ("2026-11-21T12:00:00Z", "just now"),
        ("2026-11-21T11:59:30Z", "30 seconds ago"),
        ("2026-11-21T11:59:00Z", "1 minute ago"),
        ("2026-11-21T10:00:00.000Z", "2 hours ago"),
        ("2026-11-14T12:00:00Z", "1 week ago"),
        ("2025-11-01T12:00:00Z", "1 year ago"),
        ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("nonsense\x1b", "nonsense\\033"),
    ],
)
def test_ages(created_at: str, expected: str) -> None:
    assert layout.relative_time(created_at, NOW) == expected
