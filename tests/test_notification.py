"""`agentos.notify`: the user's own command is told once of each event, and nobody waits for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from git_agentos import notification, open_workspace
from git_agentos.notification import Notification
from git_agentos.process import table
from git_agentos.watch import place
from git_agentos.worktree import creation, notices
from tests.support.agents import agent_worktree
from tests.support.guard.approvals import AGENT, approve, run_by
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.tool import run, run_ok
from tests.support.waiting import running_process, wait_until
from tests.support.watch import daemon_pid


class Told:
    """What the user's command has been told."""

    def __init__(self, folder: Path, configuration: Path) -> None:
        self.folder, self.configuration = folder, configuration

    def use(self, command: str) -> None:
        """Set another command in the user's own file."""
        subprocess.run(["git", "config", "--file", self.configuration, "agentos.notify", command], check=True)

    @property
    def documents(self) -> list[dict[str, Any]]:
        found = [json.loads(each.read_bytes()) for each in sorted(self.folder.glob("*.json"))]
        for each in found:
            assert check_document(each) == "notify"
        return sorted(found, key=lambda each: str(each["at"]))

    def wait(self, number: int) -> list[dict[str, Any]]:
        """All documents, when there are so many; there are no more soon afterwards."""
        wait_until(lambda: len(list(self.folder.glob("*.json"))) >= number, f"{number} events are told")
        time.sleep(0.5)
        found = self.documents
        assert len(found) == number, found
        return found

    def none(self) -> None:
        time.sleep(1)
        assert self.documents == []


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    folder, configuration = tmp_path / "told", tmp_path / "configuration"
    folder.mkdir()
    configuration.write_text(f"[include]\n\tpath = {os.environ['GIT_CONFIG_GLOBAL']}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    found = Told(folder, configuration)
    found.use(f"cat >{folder}/$$.new; mv {folder}/$$.new {folder}/$$.json")
    return found


def make(repo: Repo, id_: str) -> Repo:
    return Repo(Path(str(creation.create(open_workspace(repo.path).context, id_, task="T-1", guard=False).path)))


# -- approvals and runs ------------------------------------------------------------------------------------------------


def test_an_approval_is_wanted(repo: Repo, told: Told) -> None:
    dev = agent_worktree(repo, "dev")
    for _ in range(3):
        verdict = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    (found,) = told.wait(1)
    assert (found["event"], found["id"], found["worktree"]) == ("approval", verdict.approval, str(dev.path))
    assert found["repository"] == str(repo.git_dir)
    assert found["details"]["argv"][-2:] == ["merge", "other"]
    assert f"git agentos approvals grant {verdict.approval}" in found["message"]


@pytest.mark.parametrize(("agent", "state"), [("echo x >made", "passed"), ("exit 3", "failed")])
def test_a_run_has_ended(repo: Repo, told: Told, agent: str, state: str) -> None:
    run(repo.path, "run", "start", "--id", "r1", "--agent", agent, "--task", "T-1")
    (found,) = told.wait(1)
    assert (found["event"], found["id"], found["details"]["state"]) == ("run-ended", "r1", state)
    assert found["message"].startswith(f"run r1 {state}")
    assert found["worktree"] == str(repo.path.with_name("repo.worktrees") / "run-r1")


# -- whose command it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place_", ["repository", "worktree", "command-line", "included", "inside"])
def test_a_command_from_elsewhere_is_ignored(repo: Repo, told: Told, tmp_path: Path, place_: str) -> None:
    hostile = f"touch {tmp_path}/hostile"
    told.use("")
    if place_ == "repository":
        repo.git("config", "agentos.notify", hostile)
    elif place_ == "worktree":
        repo.git("config", "extensions.worktreeConfig", "true")
        repo.git("config", "--worktree", "agentos.notify", hostile)
    elif place_ == "included":
        repo.write("shared", f"[agentos]\n\tnotify = {hostile}\n")
        repo.git("config", "include.path", str(repo.path / "shared"))
    elif place_ == "inside":
        repo.write("shared", f"[agentos]\n\tnotify = {hostile}\n")
        with open(told.configuration, "a") as file:
            file.write(f"[include]\n\tpath = {repo.path}/shared\n")
    given = ["-c", f"agentos.notify={hostile}"] if place_ == "command-line" else []
    child = subprocess.run(
        ["git", *given, "config", "--get", "agentos.notify"], cwd=repo.path, capture_output=True, check=True
    )
    assert child.stdout.strip() == hostile.encode()
    send = ["-c", SEND, str(repo.path)]
    env = {**os.environ, "GIT_CONFIG_PARAMETERS": f"'agentos.notify={hostile}'"} if given else dict(os.environ)
    subprocess.run([sys.executable, *send], check=True, env=env)
    time.sleep(1)
    assert not (tmp_path / "hostile").exists()
    told.none()


SEND = (
    "import sys\n"
    "from git_agentos import notification, open_workspace\n"
    "location = open_workspace(sys.argv[1]).context.location\n"
    "notification.send(location, notification.Notification('idle', 'dev', 'a message'))\n"
)


# -- nothing depends on it ---------------------------------------------------------------------------------------------


def send(repo: Repo, message: str = "a message", **details: object) -> None:
    location = open_workspace(repo.path).context.location
    notification.send(location, Notification("idle", "dev", message, details=details))


def test_nobody_waits_for_it(repo: Repo, told: Told) -> None:
    told.use(f"echo $$ >{told.folder}/pid.new; mv {told.folder}/pid.new {told.folder}/pid; exec sleep 600")
    send(repo)
    wait_until((told.folder / "pid").exists, "the command begins")
    pid = int((told.folder / "pid").read_text())
    assert table.is_alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_it_is_ended_after_a_time(tmp_path: Path) -> None:
    script = (
        "import sys; from git_agentos.process import delivery; delivery._TIMEOUT = 0.3; delivery._main(sys.argv[1])"
    )
    command = f"echo $$ >{tmp_path}/pid; exec sleep 600"
    subprocess.run([sys.executable, "-c", script, command], check=True, timeout=60, stdin=subprocess.DEVNULL)
    assert not table.is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("command", ["exit 1", "kill -9 $$", "no-such-program-at-all", "seq 100000", "'", "exec <&-"])
def test_one_that_is_of_no_use(repo: Repo, told: Told, command: str) -> None:
    told.use(f"touch {told.folder}/begun; {command}" if command != "'" else command)
    for number in range(3):
        send(repo, f"number {number}")
    if command != "'":
        wait_until((told.folder / "begun").exists, "the command begins")
    told.use("true")


def test_it_reads_the_whole_document(repo: Repo, told: Told) -> None:
    send(repo, "x" * 5000, more="y" * 20_000)
    (found,) = told.wait(1)
    assert (len(found["message"]), len(found["details"]["more"])) == (2000, 20_000)


def test_a_document_that_is_too_long(repo: Repo, told: Told) -> None:
    send(repo, more="y" * 100_000)
    told.none()


def test_secrets_are_removed(repo: Repo, told: Told) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    send(repo, f"it wants {secret}", argv=["git", "push", f"https://x:{secret}@example.org/"])
    (found,) = told.wait(1)
    assert "a1B2c3D4e5F6" not in json.dumps(found)
    assert found["message"].startswith("it wants ")


# -- idle worktrees ----------------------------------------------------------------------------------------------------


def idle(repo: Repo) -> notices.Notices:
    return notices.tell_idle(open_workspace(repo.path).context)


def wait_for_idle(there: Repo) -> notices.Notices:
    found: list[notices.Notices] = []

    def is_idle() -> bool:
        found.append(idle(there))
        return found[-1].is_idle

    wait_until(is_idle, "it is idle")
    return found[-1]


def test_an_idle_worktree_is_told_once(repo: Repo, told: Told) -> None:
    repo.write(".gitignore", "cache/\n")
    repo.commit("rules")
    repo.git("config", "agentos.notifyIdle", "1s")
    there = make(repo, "dev")
    assert idle(there) == notices.Notices([], is_idle=False)
    assert wait_for_idle(there) == notices.Notices(["dev"])
    (found,) = told.wait(1)
    assert (found["event"], found["id"], found["agent_id"]) == ("idle", "dev", "dev")
    assert (found["worktree"], found["details"]) == (str(there.path), {"task": "T-1", "seconds": 1.0})
    assert idle(there) == notices.Notices([])
    told.wait(1)
    there.write("cache/built", "an ignored file\n")
    assert idle(there) == notices.Notices([], is_idle=False)
    assert wait_for_idle(there) == notices.Notices(["dev"])
    told.wait(2)


def test_a_worktree_in_which_a_process_works(repo: Repo, told: Told) -> None:
    repo.git("config", "agentos.notifyIdle", "1s")
    there = make(repo, "dev")
    with running_process("sleep", "600", cwd=there.path):
        time.sleep(2)
        assert idle(there) == notices.Notices([], is_idle=False)
    assert wait_for_idle(there).told == ["dev"]
    told.wait(1)


@pytest.mark.parametrize("why", ["complete", "main", "never", "no command"])
def test_what_is_not_told(repo: Repo, told: Told, why: str) -> None:
    repo.git("config", "agentos.notifyIdle", "never" if why == "never" else "1s")
    there = make(repo, "dev")
    if why == "complete":
        run_ok(there.path, "worktree", "complete")
    elif why == "no command":
        told.use("")
    time.sleep(1.5)
    assert idle(repo if why == "main" else there) == notices.Notices([])
    told.none()


WORKER = (
    "import sys\n"
    "from git_agentos import open_workspace\n"
    "from git_agentos.worktree import notices\n"
    "print('ready', flush=True)\n"
    "sys.stdin.read()\n"
    "notices.tell_idle(open_workspace(sys.argv[1]).context)\n"
    "notices.tell_conflicts(open_workspace(sys.argv[1]).context)\n"
)


def test_eight_at_once_tell_once(repo: Repo, told: Told) -> None:
    repo.git("config", "agentos.notifyIdle", "1s")
    first, second = make(repo, "one"), make(repo, "two")
    for there, text in ((first, "1\n"), (second, "2\n")):
        there.write("same", text)
        there.commit("mine")
    wait_until(lambda: time.time() - os.stat(first.path / "same").st_mtime > 3, "it is idle")
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", WORKER, str(first.path)]
    workers = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, cwd="/") for _ in range(8)]
    for each in workers:
        assert each.stdout is not None
        assert each.stdout.readline() == b"ready\n"
    for each in workers:
        assert each.communicate(timeout=120)[0] == b""
        assert each.returncode == 0
    assert sorted(each["event"] for each in told.wait(2)) == ["conflicts", "idle"]


# -- conflicts ---------------------------------------------------------------------------------------------------------


def test_a_new_conflict_is_told_once(repo: Repo, told: Told) -> None:
    first, second = make(repo, "one"), make(repo, "two")
    context = open_workspace(repo.path).context
    assert notices.tell_conflicts(context).told == []
    for there, text in ((first, "1\n"), (second, "2\n")):
        there.write("same", text)
        there.commit("mine")
    assert notices.tell_conflicts(context).told == ["one two"]
    assert notices.tell_conflicts(context).told == []
    (found,) = told.wait(1)
    assert (found["event"], found["id"], found["worktree"]) == ("conflicts", "one two", None)
    assert found["details"] == {"a": "one", "b": "two", "files": ["same"]}
    second.write("same", "1\n")
    second.commit("resolved")
    assert notices.tell_conflicts(context).told == []
    second.write("same", "3\n")
    second.commit("again")
    assert notices.tell_conflicts(context).told == ["one two"]
    told.wait(2)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"idle": 1}', '{"idle": {"a": "b"}, "conflicts": [1]}'])
def test_a_damaged_file(repo: Repo, told: Told, text: str) -> None:
    (repo.git_dir / "agentos").mkdir(exist_ok=True)
    (repo.git_dir / "agentos/notified.json").write_text(text)
    first, second = make(repo, "one"), make(repo, "two")
    for there, content in ((first, "1\n"), (second, "2\n")):
        there.write("same", content)
        there.commit("mine")
    context = open_workspace(repo.path).context
    assert [notices.tell_conflicts(context).told for _ in range(2)] == [["one two"], []]


# -- the watch daemon --------------------------------------------------------------------------------------------------


@pytest.fixture
def watching(repo: Repo) -> Iterator[Repo]:
    try:
        yield repo
    finally:
        if os.path.exists(place.file(str(repo.git_dir), "turn")):
            os.kill(daemon_pid(repo), signal.SIGKILL)


def test_the_daemon_tells(watching: Repo, told: Told) -> None:
    watching.git("config", "agentos.notifyIdle", "3s")
    first, second = make(watching, "one"), make(watching, "two")
    for there, text in ((first, "1\n"), (second, "2\n")):
        there.write("same", text)
        there.commit("mine")
    run_ok(watching.path, "watch", "start")
    wait_until(lambda: len(told.documents) >= 3, "all is told")
    time.sleep(6)  # it looks again, several times
    found = sorted((each["event"], each["id"]) for each in told.documents)
    assert found == [("conflicts", "one two"), ("idle", "one"), ("idle", "two")]
    first.write("more", "in use again\n")
    wait_until(lambda: len(told.documents) >= 4, "it is told again")
    assert told.documents[-1]["id"] == "one"
