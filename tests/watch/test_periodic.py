"""Checkpoints that the daemon creates by itself, and daemons that commands start by themselves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from git_agentos.git.location import locate
from git_agentos.process import table
from git_agentos.watch import control, place
from tests.support import filesystems
from tests.support.repo import Repo
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until
from tests.support.watch import daemon_log, newest


def _pid(repo: Repo) -> int | None:
    found = run_ok(repo.path, "watch", "status")["pid"]
    return None if found is None else int(found)


def test_what_has_changed_is_saved_once_nothing_happens(asked: Repo) -> None:
    asked.config("agentos.watch", "true")
    run_ok(asked.path, "watch", "start")
    wait_until(lambda: run_ok(asked.path, "watch", "status")["worktrees"][0]["checkpoints"], "it looks after this one")
    asked.write("new.txt", "by an agent\n")
    wait_until(lambda: (newest(asked) or {}).get("untracked_files") == ["new.txt"], "it is saved")
    saved = newest(asked)
    assert saved is not None
    assert (saved["trigger"], saved["created_by"]) == ("periodic", "main")
    time.sleep(3)  # longer than it waits for quiet
    assert newest(asked) == saved


def test_a_checkpoint_is_no_change_that_asks_for_another_one(asked: Repo) -> None:
    """It opens the database in `.agentos`, and so writes there."""
    run_ok(asked.path, "worktree", "create", "dev-1")
    agent = Repo(asked.path.parent / "repo.worktrees" / "dev-1")
    agent.write("new.txt", "by an agent\n")
    wait_until(lambda: (newest(agent) or {}).get("trigger") == "periodic", "it is saved")
    assert (agent.path / ".agentos" / "issue_workflow.db").exists()

    def moment() -> str | None:
        found = control.moments(locate(str(agent.path)))
        return None if found is None else found[str(agent.path)]

    wait_until(lambda: moment() is not None, "nothing is open")
    before = moment()
    run_ok(agent.path, "checkpoint", "--trigger", "periodic")
    wait_until(lambda: moment() is not None, "nothing is open")
    assert moment() == before


def test_while_something_changes_all_the_time(asked: Repo) -> None:
    asked.config("agentos.watch", "true")
    asked.config("agentos.auto.periodic", "3s")
    run_ok(asked.path, "watch", "start")
    end = time.monotonic() + 20
    number = 0
    while time.monotonic() < end and (newest(asked) or {}).get("untracked_files") != ["busy.txt"]:
        for _ in range(5):
            number += 1
            asked.write("busy.txt", f"{number}\n")
            time.sleep(0.1)
    assert (newest(asked) or {}).get("untracked_files") == ["busy.txt"]


def test_only_worktrees_that_are_guarded_unless_it_is_wanted_everywhere(asked: Repo) -> None:
    run_ok(asked.path, "worktree", "create", "dev-1")
    run_ok(asked.path, "worktree", "create", "dev-2", "--no-guard")
    plain, guarded = (Repo(asked.path.parent / "repo.worktrees" / name) for name in ("dev-2", "dev-1"))

    def looked_after() -> set[str]:
        worktrees = run_ok(asked.path, "watch", "status")["worktrees"]
        return {each["path"] for each in worktrees if each["checkpoints"]}

    wait_until(lambda: looked_after() == {str(guarded.path)}, "the guarded one is looked after")
    before = newest(plain)
    guarded.write("new.txt", "x\n")
    plain.write("new.txt", "x\n")
    wait_until(lambda: (newest(guarded) or {}).get("trigger") == "periodic", "it is saved")
    assert newest(plain) == before
    run_ok(asked.path, "guard", "disable", "dev-1")
    wait_until(lambda: not looked_after(), "it is not looked after any more")


def test_the_worktree_in_which_it_was_started_is_removed(asked: Repo) -> None:
    asked.git("worktree", "add", "-q", "--detach", str(asked.path.parent / "other"))
    asked.config("agentos.watch", "true")
    run_ok(asked.path.parent / "other", "watch", "start")
    asked.git("worktree", "remove", "--force", str(asked.path.parent / "other"))
    asked.config("agentos.auto.periodic", "4m")  # it is read again
    asked.write("new.txt", "x\n")
    wait_until(lambda: (newest(asked) or {}).get("untracked_files") == ["new.txt"], "it is saved")
    assert "no checkpoint" not in daemon_log(asked)


def test_what_cannot_be_watched_is_saved_from_time_to_time(asked: Repo, tmp_path: Path) -> None:
    """The system does not report changes on its file system."""
    with filesystems.mounted("apfs") as place:
        folder = place / "linked"
        asked.git("worktree", "add", "-q", "--detach", str(folder))
        asked.config("agentos.watch", "true")
        asked.config("agentos.auto.periodic", "2s")
        run_ok(asked.path, "watch", "start")
        (folder / "new.txt").write_text("x\n")
        linked = Repo(folder)
        wait_until(lambda: (newest(linked) or {}).get("untracked_files") == ["new.txt"], "it is saved")
        run_ok(asked.path, "watch", "stop")


def test_it_can_be_switched_off(asked: Repo) -> None:
    asked.config("agentos.watch", "true")
    asked.config("agentos.auto.periodic", "off")
    run_ok(asked.path, "watch", "start")
    asked.write("new.txt", "x\n")
    time.sleep(4)
    assert newest(asked) is None
    assert [each["checkpoints"] for each in run_ok(asked.path, "watch", "status")["worktrees"]] == [False]
    asked.config("agentos.auto.periodic", "1m")  # and on again, while it runs
    wait_until(lambda: run_ok(asked.path, "watch", "status")["worktrees"][0]["checkpoints"], "it looks after this one")
    asked.write("new.txt", "y\n")
    wait_until(lambda: newest(asked), "it is saved")


def test_what_fails_is_logged(asked: Repo) -> None:
    asked.config("agentos.watch", "true")
    run_ok(asked.path, "watch", "start")
    wait_until(lambda: run_ok(asked.path, "watch", "status")["worktrees"][0]["checkpoints"], "it looks after this one")
    asked.config("agentos.maxFileSize", "huge")
    asked.write("new.txt", "x\n")
    wait_until(lambda: f"no checkpoint of {asked.path}: error: bad value" in daemon_log(asked), "the error is logged")
    asked.git("config", "--unset", "agentos.maxFileSize")
    assert run_ok(asked.path, "watch", "status")["running"]


# -- by itself -------------------------------------------------------------------------------------------------------


def test_creating_a_worktree_and_enabling_a_guard_start_one(asked: Repo) -> None:
    assert _pid(asked) is None
    assert run(asked.path, "status").code == 0
    assert _pid(asked) is None  # nobody has asked for one
    run_ok(asked.path, "guard", "enable")
    wait_until(lambda: _pid(asked), "it runs")
    run_ok(asked.path, "watch", "stop")
    run_ok(asked.path, "status")
    time.sleep(1)
    assert _pid(asked) is None
    run_ok(asked.path, "worktree", "create", "dev-1")
    wait_until(lambda: _pid(asked), "it runs again")


def test_watch_start_is_remembered_until_it_is_stopped(asked: Repo) -> None:
    run_ok(asked.path, "watch", "start")
    pid = _pid(asked)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not table.is_alive(pid), "it is dead")
    run_ok(asked.path, "log", "list")
    wait_until(lambda: _pid(asked), "it runs again")
    run_ok(asked.path, "watch", "stop")
    run_ok(asked.path, "log", "list")
    time.sleep(1)
    assert _pid(asked) is None


def test_one_that_crashes_is_started_again_three_times(asked: Repo) -> None:
    asked.config("agentos.watch", "true")
    starts = Path(place.file(str(asked.git_dir), "starts"))
    for _ in range(3):
        run_ok(asked.path, "log", "list")
        wait_until(lambda: _pid(asked), "it runs")
        pid = _pid(asked)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not table.is_alive(pid), "it is dead")  # type: ignore[misc]
        begun = [str(int(each) - 20) for each in starts.read_text().split()]  # as if it had run for a while
        starts.write_text("\n".join(begun))
    said = run(asked.path, "log", "list")
    assert said.code == 0
    assert b"warning: the watch daemon has ended 3 times within ten minutes, and is not started again\n" in said.err
    assert b"warning" not in run(asked.path, "log", "list").err  # said once
    time.sleep(1)
    assert _pid(asked) is None
    found = run(asked.path, "--json", "doctor").json["findings"]
    assert [each["code"] for each in found if each["code"].startswith("watch")] == ["watch-ended"]
    starts.write_text("\n".join(str(int(time.time()) - 700) for _ in range(3)))
    run_ok(asked.path, "log", "list")
    wait_until(lambda: _pid(asked), "after ten minutes, it is tried again")


@pytest.mark.parametrize("variable", ["AGENTOS_RUN_MARK", "AGENTOS_GUARD"])
def test_none_is_started_where_it_would_end_with_the_agent(asked: Repo, variable: str) -> None:
    asked.config("agentos.watch", "true")
    assert run(asked.path, "log", "list", env={variable: "x"}).code == 0
    time.sleep(1)
    assert _pid(asked) is None


def test_none_where_that_is_not_wanted(asked: Repo) -> None:
    asked.config("agentos.watch", "false")
    run_ok(asked.path, "guard", "enable")
    run_ok(asked.path, "worktree", "create", "dev-1")
    time.sleep(1)
    assert _pid(asked) is None
    asked.config("agentos.watch", "perhaps")
    assert run(asked.path, "log", "list").code == 0
    found = run(asked.path, "--json", "doctor").json["findings"]
    assert [each["message"] for each in found if each["code"] == "watch-configuration"] == [
        "bad value 'perhaps' for 'agentos.watch'"
    ]
