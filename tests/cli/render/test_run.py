"""What `git agentos run` and `git agentos rollback` say to a person, and how a run is told while it goes."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import datetime

import pytest

from git_agentos.checkpoint.model import Skipped
from git_agentos.cli import status_line
from git_agentos.cli.output import Output
from git_agentos.cli.progress import RunProgress
from git_agentos.cli.render.text import layout, run_end
from git_agentos.cli.render.text import run as text_run
from git_agentos.cli.text import Style, Text
from git_agentos.run.events import Attempt, Left, Run, Step
from git_agentos.run.rollback import Rollback
from git_agentos.run.sealing import Verification
from git_agentos.run.workspace import WorkspaceContext
from git_agentos.worktree.agent_merge import Merge
from git_agentos.worktree.conflicts import Conflict

A, B, C = "a" * 40, "b" * 40, "c" * 40
NOW = datetime.fromisoformat("2026-11-22T10:20:00Z").timestamp()
PLAIN, TERMINAL = Style(now=NOW), Style(colour=True, terminal=True, now=NOW)
HOSTILE = "bad\x1b[31m\n\udcff\u202e"

CONTEXT = WorkspaceContext(
    run_id="r-1",
    repo_root="/home/ada/app",
    worktree_path="/home/ada/app.worktrees/run-r-1",
    branch_name="agentos/run-r-1",
    base_ref="main",
    base_sha=A,
    head_sha=A,
    created_at="2026-11-22T10:15:00Z",
    task_id="T-42",
    agent_id="run-r-1",
)
AGENT = Step(
    n=1,
    kind="agent",
    attempt=1,
    command="claude -p x",
    outcome="ok",
    exit_code=0,
    started_at="2026-11-22T10:15:00Z",
    ended_at="2026-11-22T10:16:02Z",
    seconds=62.4,
    checkpoint_before=B,
    checkpoint_after=C,
    changed=3,
    stdout="steps/001-agent/stdout",
    stderr="steps/001-agent/stderr",
)
FAILED = replace(
    AGENT, n=2, kind="validate", command="make test", outcome="failed", exit_code=2, seconds=0.4, changed=0
)
PASSED = replace(FAILED, n=4, attempt=2, outcome="ok", exit_code=0)
RUN = Run(
    run_id="r-1",
    state="passed",
    reason=None,
    context=CONTEXT,
    task_id="T-42",
    steps=[AGENT, FAILED, replace(AGENT, n=3, attempt=2), PASSED],
    attempts=[Attempt(1, "failed", "'make test' exited with 2", [1, 2]), Attempt(2, "ok", None, [3, 4])],
    evidence="/home/ada/app/.agentos/runs/r-1",
    max_attempts=3,
    on_failure="keep",
    guarded=True,
    protected=["main", "release/*"],
    started_at="2026-11-22T10:15:00Z",
    ended_at="2026-11-22T10:19:00Z",
    final_checkpoint=C,
)
LOST = replace(
    RUN, state="failed", reason="'make test' exited with 2", steps=[AGENT, FAILED], attempts=RUN.attempts[:1]
)
BACK = Rollback(
    run_id="r-1",
    point="pre_run",
    checkpoint=A,
    saved=B,
    branch="agentos/run-r-1",
    head=A,
    worktree_path="/home/ada/app.worktrees/run-r-1",
    changed=["price.sh"],
    removed=["junk", "build/out.o"],
    recreated=False,
    not_saved=[],
    dry_run=False,
)


def lines(said: Text) -> list[str]:
    assert isinstance(said.result, str)
    return said.result.splitlines()


# -- how a run ended ---------------------------------------------------------------------------------------------------


def test_passed() -> None:
    said = text_run.finished(RUN)
    assert lines(said) == [
        "Run r-1 passed.",
        "Its work is on branch 'agentos/run-r-1', in /home/ada/app.worktrees/run-r-1; no other branch has moved.",
    ]
    assert said.quiet == "r-1\n"
    assert said.hints == (
        "'git agentos run diff r-1' shows its changes",
        "'git agentos run accept r-1' merges it into 'main'",
        "'git agentos rollback r-1' discards its changes",
    )


def test_passed_without_a_validation_is_told_that_it_cannot_be_accepted() -> None:
    said = text_run.finished(replace(RUN, steps=[AGENT]))
    assert "cannot be accepted" in lines(said)[-1]
    assert not any("accept" in hint for hint in said.hints)


def test_failed_and_kept() -> None:
    said = text_run.finished(LOST)
    assert lines(said)[0] == "Run r-1 failed: 'make test' exited with 2."
    assert said.hints == (
        "'git agentos run logs r-1 --step 2' prints the output of the step",
        "'git agentos run diff r-1' shows its changes",
        "'git agentos rollback r-1' discards its changes",
    )


def test_failed_without_a_change() -> None:
    lazy = replace(AGENT, outcome="no-changes", changed=0)
    said = text_run.finished(replace(LOST, reason="step 1 (agent) exited with 0, but changed nothing", steps=[lazy]))
    assert lines(said)[1] == "It has changed nothing. Its worktree is kept: /home/ada/app.worktrees/run-r-1"
    assert said.hints == ("'git agentos run logs r-1 --step 1' prints the output of the step",)


def test_run_that_moved_a_protected_branch_is_not_reported_clean() -> None:
    said = text_run.finished(replace(LOST, steps=[replace(AGENT, outcome="protected-branch")]))
    assert lines(said)[1] == "Its work is on branch 'agentos/run-r-1', in /home/ada/app.worktrees/run-r-1."


def test_failed_and_taken_back_says_where_the_work_is() -> None:
    said = text_run.finished(replace(LOST, rolled_back_to="pre_run"))
    assert lines(said)[1:] == [
        "Its worktree is as it was before the run, at aaaaaaaa: /home/ada/app.worktrees/run-r-1",
        "The work of the run is saved, and can be restored.",
    ]
    assert said.hints[-1] == "'git -C /home/ada/app.worktrees/run-r-1 agentos undo' restores its work"
    assert not any("rollback" in hint for hint in said.hints)


def test_taken_back_and_not_all_of_it_saved() -> None:
    lost = [Skipped("/home/ada/app.worktrees/run-r-1", "the folder was missing")]
    run = replace(LOST, rolled_back_to="pre_run", not_saved=lost, last_saved=B, last_saved_at="2026-11-22T10:15:00Z")
    said = text_run.finished(run)
    assert lines(said)[2:] == [
        "The work of the run could not be saved completely:",
        "  /home/ada/app.worktrees/run-r-1: the folder was missing",
        (
            f"The last checkpoint before that is bbbbbbbb of {layout.local_time('2026-11-22T10:15:00Z')};"
            " later changes to it are not saved."
        ),
    ]
    assert said.hints[-1].endswith("undo' restores what could be saved of its work")
    assert "Not saved:   /home/ada/app.worktrees/run-r-1\n" in str(text_run.details(run, PLAIN).result)


LEFT = Left(1, 0, "agentos/run-r-1", A, None, "/home/ada/app.worktrees/run-r-1")


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (LEFT, "1 path changed, 0 commits"),
        (replace(LEFT, branch=None), "1 path changed, 0 commits, HEAD detached"),
        (replace(LEFT, changed=0, ignored=True), "0 paths changed, 0 commits, other ignored files"),
        (replace(LEFT, head_sha=None), "1 path changed, 0 commits, the branch is gone"),
    ],
)
def test_state_of_the_worktree_after_a_run(left: Left, says: str) -> None:
    assert f"Left:        {says}\n" in str(text_run.details(replace(LOST, left=left), PLAIN).result)


def test_taken_back_to_a_step_or_a_checkpoint() -> None:
    assert "was rolled back to step:2: /" in lines(text_run.finished(replace(LOST, rolled_back_to="step:2")))[1]
    assert "was rolled back to bbbbbbbb: /" in lines(text_run.finished(replace(LOST, rolled_back_to=B)))[1]


def test_interrupted() -> None:
    said = text_run.finished(replace(LOST, state="interrupted", reason="interrupted by SIGINT"))
    assert lines(said)[:2] == [
        "Run r-1 was interrupted by SIGINT.",
        "None of its processes is left. Everything up to the interrupted step is saved.",
    ]
    assert said.hints == (
        "'git agentos run resume r-1' continues with that step",
        "'git agentos rollback r-1' resets the run to its base",
    )


def test_a_run_that_never_had_a_worktree() -> None:
    said = text_run.finished(replace(LOST, context=None, steps=[], attempts=[], reason="no such ref"))
    assert lines(said) == ["Run r-1 failed: no such ref.", "It has no worktree: nothing was changed."]
    assert said.hints == ()


def test_cancelled_and_problems() -> None:
    said = text_run.finished(replace(LOST, state="cancelled", reason=None, problems=[HOSTILE]))
    assert lines(said)[0] == "Run r-1 is cancelled."
    assert said.warnings == ("bad\\033[31m\\n\\377\\342\\200\\256",)


# -- accept ------------------------------------------------------------------------------------------------------------

MERGE = Merge(
    merged=True,
    target="main",
    before=A,
    merge_commit=B,
    sources=[],
    conflicts=[],
    saved=C,
    worktree_path="/home/ada/app",
    squashed=False,
    dry_run=False,
    warnings=["w"],
)


def test_accepted() -> None:
    said = run_end.accepted(RUN, MERGE, PLAIN)
    assert lines(said) == [
        "Accepted run r-1: 'main' is now at bbbbbbbb.",
        "The files in /home/ada/app were updated; local changes are kept.",
        "The state before is saved as cccccccc.",
        "The run's worktree is kept: /home/ada/app.worktrees/run-r-1",
    ]
    assert (said.quiet, said.warnings) == ("bbbbbbbb\n", ("w",))
    assert said.hints[0] == "'git -C /home/ada/app reset --keep aaaaaaaa' undoes the merge"
    elsewhere = run_end.accepted(RUN, replace(MERGE, worktree_path=None, saved=None), PLAIN)
    assert elsewhere.hints[0] == "'git update-ref refs/heads/main aaaaaaaa' undoes the merge"


def test_accepted_with_nothing_to_merge() -> None:
    said = run_end.accepted(RUN, replace(MERGE, merged=False, merge_commit=None), PLAIN)
    assert lines(said) == ["Run r-1 is accepted: 'main' has its work already. Nothing had to be merged."]


def test_unaccepted_run() -> None:
    conflict = Conflict(a="main", b="run-r-1", files=["price.sh", HOSTILE], messages=["CONFLICT"])
    said = run_end.not_accepted(RUN, replace(MERGE, merged=False, merge_commit=None, conflicts=[conflict, conflict]))
    assert lines(said) == [
        "Run r-1 is not accepted: its work conflicts with 'main'. Nothing was changed.",
        "    price.sh",
        '    "bad\\033[31m\\n\\377\\342\\200\\256"',
    ]
    assert said.quiet == 'price.sh\n"bad\\033[31m\\n\\377\\342\\200\\256"\n'
    assert "run diff r-1 | git apply --3way" in said.hints[1]


# -- list, show, logs, diff, verify ------------------------------------------------------------------------------------


def test_the_list_is_a_table() -> None:
    interrupted = replace(RUN, run_id="r-22", state="interrupted", task_id=None)
    back = replace(LOST, rolled_back_to="pre_run")
    said = text_run.listing([interrupted, RUN, back, replace(RUN, context=None, attempts=[])], PLAIN)
    assert lines(said) == [
        "ID    STATE                TASK  ATTEMPTS  BASE             STARTED",
        "r-22  interrupted          -     2 of 3    main (aaaaaaaa)  5 minutes ago",
        "r-1   passed               T-42  2 of 3    main (aaaaaaaa)  5 minutes ago",
        "r-1   failed, rolled back  T-42  1 of 3    main (aaaaaaaa)  5 minutes ago",
        "r-1   passed               T-42  0 of 3    -                5 minutes ago",
    ]
    assert said.quiet == "r-22\nr-1\nr-1\nr-1\n"
    assert "resume r-22" in said.hints[0]
    assert text_run.listing([], PLAIN).notes == ("no runs",)
    damaged = replace(RUN, state="interrupted", context=None, problems=["no such thing"])
    said = text_run.listing([damaged], PLAIN)
    assert lines(said)[1].startswith("r-1  damaged  T-42")
    assert said.hints == ()


def test_details() -> None:
    said = text_run.details(LOST, PLAIN)
    found = lines(said)
    assert found[:2] == ["Run:         r-1", "State:       failed: 'make test' exited with 2"]
    assert "Base:        main at aaaaaaaa" in found
    assert "Protected:   main, release/*" in found
    assert found[-5:] == [
        "Steps (1 attempt of at most 3):",
        "  1. agent, attempt 1: ok, 1:02, 3 paths changed [step:1 is bbbbbbbb]",
        "     claude -p x",
        "  2. validate, attempt 1: failed (exit 2), 0:00 [step:2 is bbbbbbbb]",
        "     make test",
    ]
    assert said.quiet == "r-1\n"


def test_details_of_what_is_under_way_and_of_what_was_accepted() -> None:
    step = replace(AGENT, outcome=None, exit_code=None, seconds=None, changed=None, checkpoint_before=None)
    going = lines(text_run.details(replace(RUN, state="running", steps=[step], process=4711), PLAIN))
    assert "Process:     4711" in going
    assert "  1. agent, attempt 1: running" in going
    done = replace(RUN, state="accepted", accepted_into="main", merge_commit=B)
    waits = replace(RUN, state="interrupted", reason="interrupted by SIGTERM")
    assert lines(text_run.details(waits, PLAIN))[1] == "State:       interrupted by SIGTERM"
    assert "Accepted:    into 'main' as bbbbbbbb" in lines(text_run.details(done, PLAIN))


def test_logs() -> None:
    said = text_run.logs([(AGENT, b"one\n\x1b[31mtwo", b""), (FAILED, b"", b"bad \xff\n")], PLAIN)
    assert said.result == (
        b"== step 1: agent, attempt 1, ok, 1:02, 3 paths changed\none\n\x1b[31mtwo\n"
        b"== step 2: validate, attempt 1, failed (exit 2), 0:00\nbad \xff\n"
    )
    assert said.quiet == b"one\n\x1b[31mtwo\nbad \xff\n"
    shown = text_run.logs([(AGENT, b"\x1b]0;x\x07\xff\n", b"")], TERMINAL).result
    assert isinstance(shown, bytes)
    assert shown.endswith(b"\\033]0;x\\007\\377\n")
    assert text_run.logs([], PLAIN).notes != ()


def test_difference() -> None:
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\xff\n"
    assert text_run.diff(patch, PLAIN, stat=False).result == patch
    assert text_run.diff(patch, PLAIN, stat=True).result == " x | +1 -1\n 1 path changed, 1 added, 1 removed lines\n"
    assert "\\377" in str(text_run.diff(patch, TERMINAL, stat=False).result)
    assert text_run.diff(b"", PLAIN, stat=False).notes == ("the run has changed nothing",)


def test_verified() -> None:
    good = Verification("r-1", True, "0" * 64, C, 12, 1, [])
    assert lines(text_run.verified(good, PLAIN)) == [
        "The evidence of run r-1 is complete and unchanged since it was sealed: 12 files, 1 commit.",
        "Checkpoint cccccccc records its hash.",
    ]
    bad = text_run.verified(replace(good, ok=False, problems=["one", HOSTILE]), PLAIN)
    assert lines(bad)[:2] == ["The evidence of run r-1 does not verify: 2 problems.", "  one"]
    assert bad.quiet == "one\nbad\\033[31m\\n\\377\\342\\200\\256\n"


# -- rollback ----------------------------------------------------------------------------------------------------------


def test_rolled_back() -> None:
    said = run_end.rolled_back(BACK)
    assert lines(said) == [
        "Run r-1 was reset to its base: 1 path written, 2 removed.",
        "/home/ada/app.worktrees/run-r-1 is on branch 'agentos/run-r-1' at aaaaaaaa.",
        "The state before is saved as bbbbbbbb, ignored files and commits included.",
    ]
    assert said.hints == ("'git -C /home/ada/app.worktrees/run-r-1 agentos undo' restores it",)
    assert said.quiet == "bbbbbbbb\n"
    step = run_end.rolled_back(replace(BACK, point="step:2", changed=[], removed=[], branch=None))
    assert lines(step)[:2] == [
        "Run r-1 was reset to step:2: no file had to change.",
        "HEAD in /home/ada/app.worktrees/run-r-1 is detached at aaaaaaaa.",
    ]
    assert "reset to cccccccc:" in lines(run_end.rolled_back(replace(BACK, point=C)))[0]


def test_rolled_back_from_a_damaged_worktree_names_what_was_not_saved() -> None:
    damaged = replace(BACK, recreated=True, not_saved=[Skipped(HOSTILE, "cannot be read")])
    said = run_end.rolled_back(damaged)
    assert "Its worktree was damaged or missing, and was rebuilt: /home/ada/app.worktrees/run-r-1" in lines(said)
    assert lines(said)[-1] == "What could be read of the state before is saved as bbbbbbbb."
    assert said.hints == (
        "'git -C /home/ada/app.worktrees/run-r-1 agentos undo' restores what could be read",
        "'git agentos checkpoint list --agent run-r-1' lists its earlier checkpoints",
    )
    assert len(run_end.rolled_back(replace(damaged, saved=None)).hints) == 1
    assert said.warnings == ('could not be saved: "bad\\033[31m\\n\\377\\342\\200\\256" (cannot be read)',)


def test_a_dry_run_says_that_nothing_was_changed() -> None:
    said = run_end.rolled_back(replace(BACK, dry_run=True, saved=None))
    assert lines(said) == [
        "Would reset run r-1 to its base: 1 path written, 2 removed.",
        "  write   price.sh",
        "  remove  junk",
        "  remove  build/out.o",
        "Nothing was changed.",
    ]
    assert (said.quiet, said.hints) == ("price.sh\njunk\nbuild/out.o\n", ())


def test_output_of_commands_cannot_harm_the_terminal() -> None:
    context = replace(CONTEXT, base_ref=HOSTILE, branch_name=HOSTILE, worktree_path=HOSTILE, agent_id=HOSTILE)
    step = replace(FAILED, command=HOSTILE, detail=HOSTILE)
    run = replace(
        LOST, context=context, reason=HOSTILE, task_id=HOSTILE, steps=[step], protected=[HOSTILE], problems=[HOSTILE],
        evidence=HOSTILE, accepted_into=HOSTILE, rolled_back_to=HOSTILE,
    )  # fmt: skip
    back = replace(
        BACK, worktree_path=HOSTILE, changed=[HOSTILE], removed=[HOSTILE], branch=HOSTILE, point=HOSTILE,
        not_saved=[Skipped(HOSTILE, HOSTILE)],
    )  # fmt: skip
    merge = replace(MERGE, target=HOSTILE, worktree_path=HOSTILE, warnings=[HOSTILE])
    said = [
        *(text_run.finished(replace(run, state=state)) for state in ("passed", "failed", "interrupted", "cancelled")),
        text_run.finished(replace(run, rolled_back_to=None)),
        text_run.details(run, PLAIN),
        text_run.listing([run], PLAIN),
        run_end.accepted(run, merge, PLAIN),
        run_end.accepted(run, replace(merge, merged=False), PLAIN),
        text_run.verified(Verification("r", False, None, None, 0, 0, [HOSTILE]), PLAIN),
        run_end.rolled_back(back),
        run_end.rolled_back(replace(back, dry_run=True)),
        Text(text_run.run_header(run) + text_run.step_started(run, step) + text_run.step_ended(run, step, PLAIN)),
    ]
    for each in said:
        for part in (each.result, each.quiet, *each.notes, *each.warnings, *each.hints):
            assert isinstance(part, str)
            assert part.replace("\n", "").isprintable()


# -- while it goes -----------------------------------------------------------------------------------------------------


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def streams(kind: type[io.TextIOWrapper]) -> tuple[Output, io.BytesIO]:
    err = io.BytesIO()
    return Output(None, kind(err, encoding="utf-8")), err


def go(output: Output) -> None:
    with RunProgress(output) as watcher:
        watcher.prepared(RUN)
        watcher.step_begins(RUN, AGENT)
        watcher.output(b"first\x1b[31m\n")
        watcher.output("zwei Äpfel\r\n".encode())
        watcher.step_ended(RUN, AGENT)


def test_elsewhere_it_is_plain_lines() -> None:
    output, err = streams(io.TextIOWrapper)
    go(output)
    assert err.getvalue().decode().splitlines() == [
        "run r-1: on branch 'agentos/run-r-1' from main (aaaaaaaa), in /home/ada/app.worktrees/run-r-1",
        "[1] agent, attempt 1 of 3: claude -p x",
        "  | first\\033[31m",
        "  | zwei Äpfel",
        "[1] agent, attempt 1 of 3: ok, 1:02, 3 paths changed",
    ]


@pytest.mark.parametrize("mode", ["json", "quiet"])
@pytest.mark.parametrize("kind", [io.TextIOWrapper, _Terminal])
def test_quiet_prints_nothing_while_the_run_goes(kind: type[io.TextIOWrapper], mode: str) -> None:
    output, err = streams(kind)
    setattr(output, mode, True)
    go(output)
    assert err.getvalue() == b""


def test_on_a_terminal_one_line_is_written_over_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(status_line, "_REDRAW", 0.01)
    output, err = streams(_Terminal)
    with RunProgress(output) as watcher:
        watcher.step_begins(RUN, AGENT)
        watcher.output(b"half\tway\n")
        while b"half" not in err.getvalue():
            pass
        watcher.step_ended(RUN, AGENT)
    told = err.getvalue().decode()
    # What is seen at the end: the line that stays, and nothing of those that passed.
    left = re.sub(r"[^\n]*\r\x1b\[K", "", told)
    assert left == "[1] agent, attempt 1 of 3: \x1b[32mok\x1b[m, 1:02, 3 paths changed\n"
    assert "[1] agent, attempt 1 of 3  0:00  claude -p x\r" in told
    assert "[1] agent, attempt 1 of 3  0:00  half    way\r" in told


def test_an_error_in_the_middle_leaves_no_half_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    output, err = streams(_Terminal)
    with pytest.raises(ZeroDivisionError), RunProgress(output) as watcher:
        watcher.step_begins(RUN, AGENT)
        raise ZeroDivisionError
    assert err.getvalue().endswith(b"\r\x1b[K")


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    output, err = streams(_Terminal)
    go(output)
    assert b"\r" not in err.getvalue()
    assert b"  | first" in err.getvalue()


@pytest.mark.parametrize(
    ("line", "columns", "kept"),
    [("plain", 10, "plain"), ("plain", 3, "pla"), ("日本語", 5, "日本"), ("e\u0301e\u0301", 1, "e\u0301"), ("", 0, "")],
)
def test_a_line_is_cut_by_columns(line: str, columns: int, kept: str) -> None:
    assert status_line.truncate(line, columns) == kept


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0:00"), (62.4, "1:02"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_elapsed(seconds: float, said: str) -> None:
    assert layout.clock(seconds) == said
