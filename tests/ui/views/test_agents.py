"""The view of the agents: its rows say what `worktree list` says, and go on saying it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.git.location import Location
from git_agentos.guard.approval import approvals
from git_agentos.guard.approval.approvals import ApprovalRequest
from git_agentos.ui import app, roster
from git_agentos.ui.roster import Roster
from git_agentos.ui.view import View
from git_agentos.ui.views import VIEWS
from git_agentos.ui.views.agents import Agents
from git_agentos.watch import control, in_process
from git_agentos.watch.in_process import InProcess
from git_agentos.watch.inotify import InotifyWatcher
from git_agentos.worktree import status
from git_agentos.worktree.status import Dirty
from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.ui import NARROW, Driver, drive, five_agents
from tests.support.waiting import running_process, wait_until
from tests.support.watch import QUEUE, SmallQueue

_HEAD = "AGENT STATE WORK BRANCH TASK BASE CHANGES SAVED APPROVALS CONFLICTS"


def test_a_row_says_what_the_command_says(repo: Repo) -> None:
    five_agents(repo)
    listed = run_ok(repo.path, "worktree", "list")["worktrees"]

    async def user(ui: Driver) -> None:
        assert _HEAD in " ".join(ui.screen.split())
        found = [line[2:].split()[0] for line in ui.rows]
        assert found == [each["id"] for each in listed]
        for each in listed:
            row = ui.row(each["id"])
            assert row.startswith(f"{each['id']} {each['state']} idle {each['branch']} {each['task'] or '-'} "), row
            assert f" +{each['ahead']} -{each['behind']} " in row
        assert " +1 -0 clean " in ui.row("dev-1") and ui.row("dev-1").endswith(" 0 1")
        assert ui.row("dev-2").endswith(" 0 1")
        assert " PROJ-3 +0 -0 1 changed, 1 new " in ui.row("dev-3") and ui.row("dev-3").endswith(" 0 0")
        assert ui.row("dev-4").startswith("dev-4 archived idle agent/dev-4 - +0 -0 - ")
        assert ui.row("dev-5").endswith(" +0 -0 clean - 0 0")

    drive(repo.path, user)


def test_on_a_narrow_terminal_a_row_has_what_matters_most(repo: Repo) -> None:
    five_agents(repo)

    async def user(ui: Driver) -> None:
        assert "AGENT STATE WORK CHANGES" in " ".join(ui.screen.split())
        assert ui.row("dev-3") == "dev-3 active idle 1 changed, 1 new"
        assert ui.row("dev-4") == "dev-4 archived idle -"

    drive(repo.path, user, NARROW)


def test_what_changes_comes_on_the_screen(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, commits, checkpoints, processes, new and archived worktrees, the base."""
    monkeypatch.setattr(roster, "_ROUND", 0.0)
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        async def comes(id_: str, text: str) -> None:
            await ui.until(lambda: text in ui.row(id_), f"'{text}' of {id_}")

        agents["dev-5"].write("file.txt", "changed in place\n")
        await comes("dev-5", "1 new")
        agents["dev-5"].commit("a commit")
        await comes("dev-5", "+1 -0 clean -")
        run_ok(agents["dev-5"].path, "checkpoint")
        await comes("dev-5", "+1 -0 clean now")
        repo.write("base.txt", "the base goes on\n")
        repo.commit("the base goes on")
        await comes("dev-5", "+1 -1 clean")
        agents["dev-5"].git("switch", "-q", "-c", "another")
        await comes("dev-5", "idle another - ")
        with running_process("sleep", "1000", cwd=agents["dev-1"].path):
            await comes("dev-1", "active busy")
        await comes("dev-1", "active idle")
        agent_worktree(repo, "dev-6")
        await ui.until(lambda: len(ui.rows) == 6, "the new agent")
        run_ok(repo.path, "worktree", "archive", "dev-6")
        await comes("dev-6", "archived")
        agents["dev-2"].write("notes.txt", "one\n")
        agents["dev-2"].commit("as dev-1 has it")
        await ui.until(lambda: ui.row("dev-2").endswith(" 0 0"), "the conflict is gone")

    drive(repo.path, user)


def test_a_request_for_approval_is_counted(repo: Repo) -> None:
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        argv, where = ("git", "merge", "other"), str(agents["dev-1"].path)
        digest = approvals.command_digest(argv)
        request = ApprovalRequest("merge", ("merge",), argv, digest, None, where, None, None, "dev-1", "because")
        approvals.file_request(approvals.open_store(str(repo.git_dir), os.environ), request)
        await ui.until(lambda: ui.row("dev-1").split()[-2] == "1", "the request is counted")

    drive(repo.path, user)


def test_a_worktree_that_vanishes_is_shown_as_broken(repo: Repo) -> None:
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        await ui.press("j", "j")
        shutil.rmtree(agents["dev-3"].path)
        await ui.until(lambda: "broken" in ui.row("dev-3"), "it is broken")
        assert ui.row("dev-3").startswith("dev-3 broken idle agent/dev-3 PROJ-3 +0 -0 - ")
        assert ui.app.view.rows.current.id == "dev-3"  # type: ignore[attr-defined]
        await ui.press("z")
        assert "error: the worktree 'dev-3' is broken: it has no folder" in ui.screen
        assert not ui.app.commands.ran

    drive(repo.path, user)


def test_the_cursor_stays_on_its_row(repo: Repo) -> None:
    five_agents(repo)

    async def user(ui: Driver) -> None:
        await ui.press("j", "j")
        assert ui.rows[2].startswith("> dev-3")
        agent_worktree(repo, "dev-0")
        await ui.until(lambda: len(ui.rows) == 6, "the new agent")
        assert ui.rows[3].startswith("> dev-3")

    drive(repo.path, user)


def test_text_of_others_cannot_harm_the_terminal(repo: Repo) -> None:
    agent_worktree(repo, "dev-1", task="\x1b[31mred\u202eback\nline")
    broken = agent_worktree(repo, "dev-2")
    broken.git("switch", "-q", "-c", os.fsdecode(b"bad\xffname"))

    async def user(ui: Driver) -> None:
        assert r"\033[31mred\342\200\256back\nline" in ui.screen
        assert r"bad\377name" in ui.screen

    drive(repo.path, user, (250, 20))


def test_a_terminal_of_any_size(repo: Repo) -> None:
    five_agents(repo)

    async def user(ui: Driver) -> None:
        for size in ((20, 5), (1, 1), (300, 3), (80, 24)):
            await ui.pilot.resize_terminal(*size)
            await ui.press("j", "?", "escape", "at", "escape", "k")
        assert ui.row("dev-3") == "dev-3 active idle 1 changed, 1 new"

    drive(repo.path, user)


def test_a_repacked_repository(repo: Repo) -> None:
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        before = [line.split()[0] for line in ui.rows]
        agents["dev-1"].write("more.txt", "more\n")
        agents["dev-1"].commit("more")
        repo.git("repack", "-adq")
        repo.git("prune-packed", "-q")
        repo.git("pack-refs", "--all")
        await ui.until(lambda: "+2 -0" in ui.row("dev-1"), "the commit")
        assert [line.split()[0] for line in ui.rows] == before
        assert ui.app.view.problem is None

    drive(repo.path, user)


def test_only_what_may_have_changed_is_scanned_with_the_daemon(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = five_agents(repo)
    run_ok(repo.path, "watch", "start")
    scanned = _note_scans(monkeypatch)
    monkeypatch.setattr(roster, "_ROUND", 0.0)

    async def user(ui: Driver) -> None:
        async def look() -> None:
            ui.app.view.look(now=True)
            await ui.settled()

        for _ in range(5):  # until all of them are watched, and have been scanned since
            await look()
        scanned.clear()
        await look()
        assert scanned == []
        agents["dev-5"].write("file.txt", "new\n")
        await ui.until(lambda: "1 new" in ui.row("dev-5"), "the change")
        assert set(scanned) == {"dev-5"}

    try:
        drive(repo.path, user)
    finally:
        run_ok(repo.path, "watch", "stop")


def _note_scans(
    monkeypatch: pytest.MonkeyPatch, lock: contextlib.AbstractContextManager[object] | None = None
) -> list[str]:
    """The names of the worktrees that are scanned from now on; `lock` is held while one is."""
    scanned: list[str] = []
    count_changes = status.count_changes

    def noted(location: Location) -> Dirty:
        scanned.append(Path(location.root).name)
        with lock or contextlib.nullcontext():
            return count_changes(location)

    monkeypatch.setattr(status, "count_changes", noted)
    return scanned


def test_only_what_may_have_changed_is_scanned_without_the_daemon(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = five_agents(repo)
    scanned = _note_scans(monkeypatch)
    monkeypatch.setattr(roster, "_ROUND", float("inf"))
    found = Roster(open_workspace(repo.path).context)

    def are_all_watched() -> bool:
        found.look()
        return found._own is not None and sum(each is not None for each in found._own.moments().values()) == 4

    try:
        wait_until(are_all_watched, "all of them are watched")
        found.look()
        scanned.clear()
        found.look()
        assert scanned == []
        agents["dev-5"].write("file.txt", "new\n")
        changes = {each.id: each.changes for each in found.look()}
        assert scanned == ["dev-5"]
        assert changes["dev-5"] == Dirty(0, 0, 1, 0)
    finally:
        found.close()


def test_a_daemon_that_is_busy_makes_nobody_scan(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = five_agents(repo)
    scanned = _note_scans(monkeypatch)
    monkeypatch.setattr(roster, "_ROUND", 1000.0)
    answers: list[dict[str, str | None]] = [{str(each.path): "a token" for each in agents.values()}]

    def moments(_: Location) -> dict[str, str | None]:
        if not answers:
            raise control.NoAnswerError("it is busy")
        return answers.pop()

    monkeypatch.setattr(control, "moments", moments)
    found = Roster(open_workspace(repo.path).context)
    found.look()
    assert found.is_whole and sorted(scanned) == ["dev-1", "dev-2", "dev-3", "dev-5"]
    scanned.clear()
    found._counts = {id_: each._replace(at=each.at - 2000) for id_, each in found._counts.items()}  # long ago
    found.look()
    answers.append({str(each.path): "a token" for each in agents.values()})
    found.look()
    assert scanned == []


def test_the_rows_are_there_before_what_has_changed_in_them(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    five_agents(repo)
    scanned = _note_scans(monkeypatch)
    found = Roster(open_workspace(repo.path).context)
    try:
        rows = found.look(scan=False)
        assert [each.id for each in rows] == ["dev-1", "dev-2", "dev-3", "dev-4", "dev-5"]
        assert {each.changes for each in rows} == {None} and not scanned and not found.is_whole
        assert found.look()[2].changes == Dirty(0, 1, 1, 0) and found.is_whole
    finally:
        found.close()


def test_a_repository_without_agents(repo: Repo) -> None:
    async def user(ui: Driver) -> None:
        assert "no agents' worktrees: 'git agentos worktree create ID' creates one" in ui.screen
        await ui.press("j", "enter", "space", "z")
        assert "error: there is nothing to undo" in ui.screen

    drive(repo.path, user)


# -- how soon --------------------------------------------------------------------------------------------------------


class Clock:
    """`time` for the roster: it goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


_LONGEST_LOOK = Agents.every + app._TICK  # seconds between the beginnings of two looks


def _seconds_until(found: Roster, clock: Clock, id_: str, changes: Dirty) -> float:
    """How long it takes until a look sees these changes, if nothing but the pauses between looks takes time and the
    worktree was changed just after one."""
    began = clock.now
    for _ in range(100):
        clock.now += _LONGEST_LOOK
        if {each.id: each.changes for each in found.look()}[id_] == changes:
            return clock.now - began
    raise AssertionError(f"{changes} of {id_} are never seen")


@pytest.mark.parametrize(
    ("moment", "limit"),
    [("no daemon", 15), ("it watches", 5), ("it cannot tell", 5), ("it does not watch this one", 5)],
)
def test_a_change_is_seen_in_time(repo: Repo, monkeypatch: pytest.MonkeyPatch, moment: str, limit: float) -> None:
    """5 seconds with the daemon, 15 without, where nobody watches."""
    agents, clock, answers = five_agents(repo), Clock(), {"token": "one"}

    def moments(_: Location) -> dict[str, str | None] | None:
        of = {"it watches": answers["token"], "it cannot tell": None}
        return None if moment == "no daemon" else {str(agents["dev-5"].path): of[moment]} if moment in of else {}

    monkeypatch.setattr(roster, "time", clock)
    monkeypatch.setattr(control, "moments", moments)
    monkeypatch.setattr(control, "watch", lambda _: None)
    monkeypatch.setattr(in_process, "begin", lambda _: None)
    found = Roster(open_workspace(repo.path).context)
    found.look()
    clock.now += 100
    found.look()
    (agents["dev-5"].path / "file.txt").write_text("new\n")
    answers["token"] = "two"
    assert _seconds_until(found, clock, "dev-5", Dirty(0, 0, 1, 0)) < limit


def test_what_costs_much_is_scanned_less_often(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worktrees of which the daemon cannot tell: the time between scans grows with what they take, up to that without a
    daemon."""
    agents, clock = five_agents(repo), Clock()
    monkeypatch.setattr(roster, "time", clock)
    monkeypatch.setattr(control, "moments", lambda _: {})
    monkeypatch.setattr(control, "watch", lambda _: None)
    count_changes = status.count_changes

    def slow(location: Location) -> Dirty:
        clock.now += 0.01 if Path(location.root).name != "dev-5" else 1.0
        return count_changes(location)

    monkeypatch.setattr(status, "count_changes", slow)
    monkeypatch.setattr(roster, "_THREADS", 1)
    found = Roster(open_workspace(repo.path).context)
    while not found.is_whole:
        found.look()
    clock.now += 100
    found.look()
    agents["dev-5"].write("file.txt", "new\n")
    assert 10 <= _seconds_until(found, clock, "dev-5", Dirty(0, 0, 1, 0)) < 15


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_looks_often_enough(view: type[View]) -> None:
    """A change comes with the look that follows it."""
    assert view.every + app._TICK < 5


def test_more_at_once_than_the_system_remembers(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan of our own opens so many files of a new worktree that events are lost. Then nothing is known, so all
    worktrees are scanned from time to time, and what they say is right; it does not go on like this for ever."""
    for number in range(QUEUE):
        repo.write(f"many/{number}", "1\n")
    repo.add("many")
    repo.commit("many files")
    agents = {id_: agent_worktree(repo, id_) for id_ in ("dev-1", "dev-2")}
    for each in agents.values():
        os.utime(each.git_dir / "index", (1, 1))  # every file may have changed since: its content is read each time
    watcher = InotifyWatcher()
    queue = watcher._inotify = SmallQueue(watcher._inotify)
    own = InProcess(str(repo.git_dir), watcher)
    monkeypatch.setattr(in_process, "begin", lambda _: own)
    clock = Clock()
    monkeypatch.setattr(roster, "time", clock)
    scanned = _note_scans(monkeypatch, lock=own._lock)  # nobody reads events meanwhile
    found = Roster(open_workspace(repo.path).context)
    try:
        found.look()
        # A worktree that begins to be watched after a loss is lost by the scan that follows.
        wait_until(lambda: found.look() and list(own.moments().values()) == [None, None], "nothing is known of them")
        assert queue.overflows
        scanned.clear()
        found.look()
        assert scanned == [], "it is not scanned all the time"
        for n, each in enumerate(agents.values(), 1):
            (each.path / "many" / "7").write_text(f"{n}{n}\n")
            (each.path / "new.txt").write_text("\n")
        clock.now += 10
        assert {each.id: each.changes for each in found.look()} == dict.fromkeys(agents, Dirty(0, 1, 1, 0))
    finally:
        found.close()
