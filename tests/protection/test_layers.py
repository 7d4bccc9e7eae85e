"""What `init` says is protected, against what really happens: a row says yes where work survives, and no where a part
was broken on purpose."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from git_agentos.guard.setup import scripts
from tests.support import patient
from tests.support.fake_home import FakeHome
from tests.support.repo import Repo, git_run
from tests.support.sessions import ClaudeSession
from tests.support.terminal import at_terminal
from tests.support.tool import run_ok
from tests.support.waiting import wait_until


def rows(repo: Repo) -> dict[str, dict[str, Any]]:
    """The rows by name, looked at without changing anything."""
    return {each["name"]: each for each in run_ok(repo.path, "init", "--dry-run")["layers"]}


def saved(repo: Repo) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run_ok(repo.path, "checkpoint", "list")["checkpoints"]
    return found


def contains(repo: Repo, name: str, content: bytes) -> bool:
    """Whether the newest checkpoint has this content of a file."""
    newest = saved(repo)
    return bool(newest) and repo.git("show", f"{newest[0]['id']}:{name}") == content


@pytest.fixture
def protected(repo: Repo, fake_home: FakeHome) -> Repo:
    fake_home.has("claude-code")
    run_ok(repo.path, "init")
    return repo


# -- yes is true -------------------------------------------------------------------------------------------------------

LOSING = (("reset", "--hard", "-q"), ("checkout", "-q", "--force"), ("clean", "-fdq"), ("checkout", "-q", "--", "."))


@pytest.mark.parametrize("words", LOSING, ids=" ".join)
def test_git_commands(words: tuple[str, ...], protected: Repo) -> None:
    assert rows(protected)["git-commands"]["acts"] is True
    protected.write("notes.txt", "an hour of work\n")
    protected.write("new.txt", "another hour\n")
    assert git_run(protected.path, *words).returncode == 0
    lost = "new.txt" if words[0] == "clean" else "notes.txt"
    before = next(each["id"] for each in saved(protected) if each["trigger"] == "before_risky")
    run_ok(protected.path, "restore", before, "--no-branch")
    assert protected.read(lost) in (b"an hour of work\n", b"another hour\n")


def test_refs(protected: Repo) -> None:
    assert rows(protected)["refs"]["acts"] is True
    protected.git("checkout", "-q", "-b", "topic")
    protected.write("topic.txt", "topic\n")
    tip = protected.commit("only here")
    protected.git("checkout", "-q", "main")
    protected.git("branch", "-q", "-D", "topic")
    protected.write("notes.txt", "stashed\n")
    protected.git("stash", "-q")
    stash = protected.oid("stash")
    protected.git("stash", "clear")
    protected.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    saved(protected)  # what is noted is on the timeline
    protected.git("gc", "-q", "--prune=now")
    for each in (tip, stash):
        assert protected.git("cat-file", "-t", each) == b"commit\n"


def test_history(protected: Repo) -> None:
    assert rows(protected)["history"]["acts"] is True
    protected.write("notes.txt", "committed\n")
    protected.commit("a commit")
    assert saved(protected)[0]["trigger"] == "after_commit"


# -- no, where a part is broken ----------------------------------------------------------------------------------------


def _unset_executable(repo: Repo) -> None:
    scripts_ = Path(scripts.hooks_dir(str(repo.git_dir)))
    for name in ("fsmonitor", "reference-transaction"):
        (scripts_ / name).chmod(0o644)


def _other_hooks(repo: Repo) -> None:
    """As a tool that writes its settings behind everything."""
    config = repo.git_dir / "config"
    config.write_bytes(config.read_bytes() + b"[core]\n\thooksPath = /nowhere\n\tfsmonitor = false\n")


def _edited_script(repo: Repo) -> None:
    shared = Path(scripts.common_script(str(repo.git_dir)))
    shared.write_bytes(shared.read_bytes() + b"\nexit 0\n")


def _include_removed(repo: Repo) -> None:
    repo.git("config", "--unset-all", "include.path")


@pytest.mark.parametrize("damage", [_unset_executable, _other_hooks, _edited_script, _include_removed])
def test_hooks_that_do_not_act(damage: Callable[[Repo], None], protected: Repo) -> None:
    damage(protected)
    found = rows(protected)
    for name in ("git-commands", "refs", "history", "new-worktrees"):
        assert found[name]["acts"] is False, found[name]
        assert found[name]["detail"] not in ("", "saved first; can be undone")
    run_ok(protected.path, "init")
    again = rows(protected)
    is_theirs = damage is _other_hooks  # a setting of somebody else stays
    for name in ("git-commands", "refs", "history", "new-worktrees"):
        assert again[name]["acts"] is not is_theirs, again[name]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("agentos.auto.beforeRisky", ("git-commands", "refs")),
        ("agentos.guard.everyone", ("git-commands", "refs")),
        ("agentos.auto.afterCommit", ("history",)),
    ],
)
def test_settings_that_switch_it_off(key: str, names: tuple[str, ...], protected: Repo) -> None:
    config = protected.git_dir / "config"
    section, _, name = key.rpartition(".")
    config.write_text(config.read_text() + f'[agentos "{section.partition(".")[2]}"]\n\t{name} = false\n')
    found = rows(protected)
    assert sorted(each for each, row in found.items() if not row["acts"] and each in
                  ("git-commands", "refs", "history")) == sorted(names)  # fmt: skip


def test_a_harness(protected: Repo, fake_home: FakeHome) -> None:
    assert rows(protected)["claude-code"]["acts"] is True
    user = fake_home.path / ".claude" / "settings.json"
    user.write_text('{"disableAllHooks": true}')
    assert "disableAllHooks" in rows(protected)["claude-code"]["detail"]
    assert rows(protected)["claude-code"]["acts"] is False
    user.unlink()
    settings = protected.path / ".claude" / "settings.local.json"
    settings.write_text("{}")
    assert rows(protected)["claude-code"]["acts"] is False
    run_ok(protected.path, "init")
    text = settings.read_text()
    program = text.split('"command": "')[1].split(" ")[0]
    settings.write_text(text.replace(program, "/nowhere/python"))
    assert rows(protected)["claude-code"]["detail"].startswith(f"the hook in '{settings}' starts '/nowhere/python'")
    assert rows(protected)["claude-code"]["acts"] is False


def test_ignored_files_and_the_disk(protected: Repo) -> None:
    found = rows(protected)
    assert not any(found[name]["acts"] for name in ("ignored-files", "removed-worktrees", "lost-disk"))
    origin = protected.scratch / "origin.git"
    protected.git("init", "-q", "--bare", str(origin))
    protected.git("remote", "add", "origin", str(origin))
    assert rows(protected)["lost-disk"] == {
        "name": "lost-disk",
        "acts": False,
        "detail": "git agentos sync pushes to 'origin'",
    }
    protected.git("config", "agentos.sync.auto", "complete")
    protected.git("config", "agentos.includeIgnored", ".env")
    found = rows(protected)
    assert found["lost-disk"]["acts"]
    assert found["ignored-files"]["acts"]
    protected.git("config", "agentos.sync.auto", "periodic")  # which the daemon does
    assert rows(protected)["lost-disk"]["acts"] is False


# -- the daemon --------------------------------------------------------------------------------------------------------


@pytest.fixture
def watched(repo: Repo, fake_home: FakeHome) -> Iterator[Repo]:
    """A repository in which `init` may start a daemon."""
    repo.config("agentos.watch", "auto")
    try:
        yield repo
    finally:
        patient.run(repo.path, "watch", "stop")


def files_row(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = [each for each in document["layers"] if each["name"] == "files"]
    return dict(found)


def test_files_are_saved_by_the_daemon(watched: Repo) -> None:
    assert files_row(patient.run_ok(watched.path, "init", "--dry-run"))["acts"] is False
    assert files_row(patient.run_ok(watched.path, "init"))["acts"] is True
    watched.write("notes.txt", "by an editor\n")
    wait_until(lambda: contains(watched, "notes.txt", b"by an editor\n"), "the daemon saves it")
    assert saved(watched)[0]["trigger"] == "periodic"
    patient.run_ok(watched.path, "init", "--remove")
    assert patient.run_ok(watched.path, "watch", "status")["running"] is False
    assert files_row(patient.run_ok(watched.path, "init", "--dry-run"))["acts"] is False
    assert patient.run_ok(watched.path, "watch", "status")["running"] is False  # none is wanted any more


def test_who_waits_for_the_daemon_sees_it(watched: Repo) -> None:
    began = at_terminal(watched.path, "init", "--no-harness")
    ended = at_terminal(watched.path, "init", "--remove")
    assert (began.code, ended.code) == (0, 0)
    assert "Starting the watch daemon" in began.phases and "Stopping the watch daemon" in ended.phases


def test_a_daemon_that_was_there_before_stays(watched: Repo) -> None:
    patient.run_ok(watched.path, "watch", "start")
    pid = patient.run_ok(watched.path, "watch", "status")["pid"]
    assert files_row(patient.run_ok(watched.path, "init"))["acts"] is True
    patient.run_ok(watched.path, "init", "--remove")
    assert patient.run_ok(watched.path, "watch", "status")["pid"] == pid


def test_a_daemon_that_is_not_wanted_is_not_started(watched: Repo) -> None:
    done = patient.run_ok(watched.path, "init", "--no-watch")
    assert files_row(done)["acts"] is False
    assert patient.run_ok(watched.path, "watch", "status")["running"] is False
    watched.config("agentos.watch", "false")
    assert files_row(patient.run_ok(watched.path, "init"))["detail"] == "'agentos.watch' is false"


def test_a_daemon_that_has_ended_is_started_by_the_next_commit(watched: Repo) -> None:
    patient.run_ok(watched.path, "init")
    pid = patient.run_ok(watched.path, "watch", "status")["pid"]
    os.kill(pid, 9)
    watched.write("notes.txt", "committed\n")
    watched.commit("a commit")
    wait_until(lambda: patient.run_ok(watched.path, "watch", "status")["running"], "a daemon is started")


def test_a_daemon_that_has_ended_is_started_when_a_turn_begins(watched: Repo) -> None:
    patient.run_ok(watched.path, "init")
    pid = patient.run_ok(watched.path, "watch", "status")["pid"]
    os.kill(pid, 9)
    session = ClaudeSession(watched)
    session.prompt("go on")
    wait_until(lambda: patient.run_ok(watched.path, "watch", "status")["running"], "a daemon is started")
    watched.write("notes.txt", "by a script\n")
    wait_until(lambda: contains(watched, "notes.txt", b"by a script\n"), "the daemon saves it")
