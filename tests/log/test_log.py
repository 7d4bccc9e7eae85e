"""The agent log: written by agents and commands, carried by checkpoints, read from everywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from git_agentos import log, open_workspace
from git_agentos.checkpoint import format, log_sync
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosWarning, CheckpointNotFound, UsageError
from git_agentos.log import Entry
from git_agentos.store import database, rows
from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.signals import with_default_handlers
from tests.support.tool import run, run_ok

FILE = ".agentos/issue_workflow.db"


def context_of(repo: Repo, who: str | None = None) -> OpenWorktree:
    return open_workspace(repo.path, agent=who).context


def told(found: list[Entry]) -> list[str]:
    return [entry.summary for entry in found]


def carried(repo: Repo, checkpoint: str, name: str = "log.jsonl") -> list[dict[str, Any]]:
    """What plain git reads out of a checkpoint."""
    return [json.loads(line) for line in repo.git("cat-file", "blob", f"{checkpoint}^4:{name}").splitlines()]


def has(repo: Repo, checkpoint: str, name: str = "log.jsonl") -> bool:
    return name in repo.text("ls-tree", "--name-only", f"{checkpoint}^4").split()


# -- writing ----------------------------------------------------------------------------------------------------------


def test_an_entry_comes_back_as_it_was_written(repo: Repo) -> None:
    context = context_of(repo, "dev-9")
    made = log.add(
        context,
        "decision",
        "use the queue\nbecause it is there",
        details={"alternatives": ["lock", {"name": "none"}], "n": 3, "none": None, "ok": True, "umlaut": "größe"},
        files=["src/app.py", os.fsdecode(b"bad\xff\n")],
        commit="HEAD~1",
        task_id="T-1",
    )
    assert log.entries(context_of(repo)) == [made]
    assert (made.agent_id, made.worktree, made.commit, made.redacted) == ("dev-9", "main", repo.oid("HEAD~1"), 0)
    checkpoint = open_workspace(repo.path).checkpoint("c")
    assert carried(repo, checkpoint.id) == [made._asdict()]
    pointing = log.add(context, "nudge", "look", checkpoint_id="latest")
    assert pointing.checkpoint_id == checkpoint.id


@pytest.mark.parametrize(
    ("kind", "keywords"),
    [
        ("unknown", {}),
        ("action", {"commit": "nonsense"}),
        ("action", {"details": {"x": float("nan")}}),
        ("action", {"details": {"x": object()}}),
        ("action", {"checkpoint_id": "zz"}),
    ],
)
def test_invalid_entry_leaves_nothing(repo: Repo, kind: str, keywords: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        log.add(context_of(repo), kind, "x", **keywords)
    assert log.entries(context_of(repo)) == []


def test_secrets_are_taken_out_before_anything_is_written(repo: Repo) -> None:
    token = "ghp_" + "a1B2" * 9
    made = log.add(
        context_of(repo),
        "error",
        f"push failed with {token}",
        details={"password": "hunter2", "url": "https://me:pass@host/x", token: 1},
        files=[f"notes-{token}.txt", "plain.txt"],
        task_id=f"T {token}",
    )
    assert made.redacted == 6
    open_workspace(repo.path).checkpoint("c")
    for path in sorted((repo.path / ".agentos").iterdir()):
        for secret in (token, "hunter2", "me:pass"):
            assert secret.encode() not in path.read_bytes(), path
    assert "hunter2" not in repo.text("cat-file", "blob", "refs/agentos/timelines/main^2^4:log.jsonl")


def test_twenty_processes_lose_no_entry(repo: Repo) -> None:
    code = (
        "import sys\n"
        "from git_agentos import log, open_workspace\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "for n in range(10):\n"
        "    log.add(open_workspace('.', agent=f'w{sys.argv[1]}').context, 'action', f'{sys.argv[1]}.{n}')\n"
        "if int(sys.argv[1]) % 5 == 0: open_workspace('.').checkpoint('meanwhile')\n"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(n)],
            cwd=repo.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for n in range(20)
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.stdin = None
    for worker in workers:
        _, err = worker.communicate(timeout=180)
        assert (worker.returncode, err) == (0, b""), err.decode()
    expected = {f"{w}.{n}" for w in range(20) for n in range(10)}
    found = log.entries(context_of(repo), kinds=["action"])
    assert len(found) == 200
    assert set(told(found)) == expected
    assert len(log.entries(context_of(repo), kinds=["checkpoint"])) == 4
    # And none is lost with the worktree, once a checkpoint was made after the last of them.
    open_workspace(repo.path).checkpoint("the last", trigger="periodic")
    repo.remove(".agentos")
    again = log.entries(context_of(repo), kinds=["action"])
    assert (len(again), set(told(again))) == (200, expected)


def test_two_checkpoints_of_one_moment_are_two(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same state, by two processes in the same millisecond."""
    now = datetime.now(UTC)
    monkeypatch.setattr(format, "datetime", SimpleNamespace(now=lambda _: now))
    log.add(context_of(repo), "action", "one")
    open_workspace(repo.path).checkpoint()
    ids = [open_workspace(repo.path).checkpoint("meanwhile").id for _ in range(3)]
    assert len({each.created_at for each in open_workspace(repo.path).checkpoints()}) == 1
    assert [each.id for each in open_workspace(repo.path).checkpoints(limit=3)] == ids[::-1]
    found = log.entries(context_of(repo), kinds=["checkpoint"])
    assert {each.checkpoint_id for each in found} >= {*ids} and len(found) == 4


# -- carrying ---------------------------------------------------------------------------------------------------------


def test_checkpoint_carries_entries_no_other_has(repo: Repo) -> None:
    context = context_of(repo)
    first = open_workspace(repo.path).checkpoint("before there is a log")
    assert not has(repo, first.id)
    log.add(context, "action", "one")
    log.add(context, "action", "two")
    second = open_workspace(repo.path).checkpoint("second")
    assert [entry["summary"] for entry in carried(repo, second.id)] == ["one", "two"]
    third = open_workspace(repo.path).checkpoint("third")
    assert not has(repo, third.id)
    log.add(context, "action", "three")
    done = open_workspace(repo.path).restore(first.id, no_branch=True)
    assert done.saved is not None
    assert [entry["summary"] for entry in carried(repo, done.saved)] == ["three"]
    fourth = open_workspace(repo.path).checkpoint("fourth")
    assert [entry["summary"] for entry in carried(repo, fourth.id)] == [f"restored checkpoint {first.id[:8]}"]


def test_a_waiting_entry_makes_an_automatic_checkpoint(repo: Repo) -> None:
    first = open_workspace(repo.path).checkpoint("first")
    assert open_workspace(repo.path).checkpoint(trigger="periodic").id == first.id
    log.add(context_of(repo), "action", "one")
    second = open_workspace(repo.path).checkpoint(trigger="periodic")
    assert (second.unchanged, second.id == first.id) == (False, False)
    third = open_workspace(repo.path).checkpoint(trigger="periodic")
    assert (third.unchanged, third.id) == (True, second.id)


def test_a_checkpoint_is_an_entry_of_its_own(repo: Repo) -> None:
    before = open_workspace(repo.path).checkpoint("before the log", task_id="T-1")
    log.add(context_of(repo), "action", "one")
    repo.write("new.txt", "x")
    after = open_workspace(repo.path, agent="b").checkpoint("after")
    found = log.entries(context_of(repo), newest_first=False)
    assert [(each.type, each.summary, each.checkpoint_id, each.agent_id) for each in found] == [
        ("checkpoint", "before the log", before.id, "main"),
        ("action", "one", None, "main"),
        ("checkpoint", "after", after.id, "b"),
    ]
    assert (found[0].task_id, found[2].files_changed, found[2].timestamp) == ("T-1", ["new.txt"], after.created_at)
    repo.remove(".agentos")
    assert log.entries(context_of(repo), newest_first=False) == found


def test_a_kill_between_checkpoint_and_mark_loses_and_repeats_nothing(repo: Repo) -> None:

    log.add(context_of(repo), "action", "one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_sync, "mark_saved", lambda *_: None)
        first = open_workspace(repo.path).checkpoint("first")
    assert has(repo, first.id)
    second = open_workspace(repo.path).checkpoint("second")
    assert not has(repo, second.id)
    assert told(log.entries(context_of(repo), newest_first=False)) == ["one", "first", "second"]


def test_one_entry_in_two_checkpoints_is_one(repo: Repo) -> None:
    """Two checkpoints made at the same moment may both carry it."""
    made = log.add(context_of(repo), "action", "one")
    both = log_sync.PendingLog([rows.PendingRow(1, rows.line(made))], [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_sync, "pending", lambda *_: both)
        checkpoints = [open_workspace(repo.path).checkpoint(name).id for name in ("first", "second")]
    assert [has(repo, each) for each in checkpoints] == [True, True]
    repo.remove(".agentos")
    assert told(log.entries(context_of(repo), newest_first=False)) == ["one", "first", "second"]


def test_plain_git_and_the_objects_are_sound(repo: Repo) -> None:
    log.add(context_of(repo), "action", "one")
    made = open_workspace(repo.path).checkpoint("c")
    repo.git("fsck", "--strict")
    repo.git("gc", "-q", "--prune=now")
    assert [entry["summary"] for entry in carried(repo, made.id)] == ["one"]


def test_missing_database_loads_no_module_for_it(repo: Repo) -> None:
    code = (
        "import sys\nfrom git_agentos.cli.entry import run\n"
        "assert run(['checkpoint', '-q']) == 0\nassert run(['restore', '-q', 'latest']) == 0\n"
        "bad = {'sqlite3', 'git_agentos.checkpoint.log_sync', 'git_agentos.log', 'git_agentos.store.database'}\n"
        "print(sorted(bad & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repo.path, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert not repo.exists(".agentos")


def test_a_log_that_cannot_be_written_fails_no_checkpoint_and_no_restore(repo: Repo) -> None:
    log.add(context_of(repo), "action", "one")
    repo.remove(FILE)
    repo.mkdir(FILE)
    for args in (["checkpoint", "-m", "c"], ["restore", "latest", "--no-branch"], ["undo"]):
        done = run(repo.path, *args)
        assert done.code == 0, str(done)
        assert b"warning: " in done.err
        assert b"log" in done.err
    with pytest.warns(AgentosWarning):
        assert told(log.entries(context_of(repo)))[-1] == "c"


# -- reading ----------------------------------------------------------------------------------------------------------


def test_filters(repo: Repo) -> None:
    context = context_of(repo)
    for n, kind in enumerate(("action", "error", "decision", "error")):
        log.add(context, kind, f"{kind} {n}")
    assert told(log.entries(context, kinds=["error"])) == ["error 3", "error 1"]
    assert told(log.entries(context, kinds=["error", "decision"], limit=2)) == ["error 3", "decision 2"]
    assert told(log.entries(context, limit=1, newest_first=False)) == ["action 0"]
    assert log.entries(context, limit=0) == []
    assert log.entries(context, since=datetime.now(UTC) + timedelta(hours=1)) == []
    assert len(log.entries(context, since=datetime.now(UTC) - timedelta(hours=1))) == 4
    with pytest.raises(UsageError):
        log.entries(context, kinds=["wrong"])


@pytest.mark.parametrize(
    "text", ["NEEDLE", "eedl", "ne", "x_y%", '"quoted"', "größe", "src/näme", "T-77", "* OR *", "it's"]
)
@pytest.mark.parametrize("indexed", [True, False])
def test_search(repo: Repo, text: str, indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of text, in every part of an entry; with the index and without."""
    if not indexed:
        monkeypatch.setattr(database, "_has_trigrams", lambda _: False)
    context = context_of(repo)
    log.add(context, "action", "a Needle in hay")
    log.add(context, "action", "plain", details={"deep": [{"er": 'x_y% and "quoted"'}]})
    log.add(context, "action", "plain", files=["src/näme.py"], task_id="T-77")
    log.add(context, "action", "die größe", details={"it's": "* or *"})
    log.add(context, "action", "nothing")

    def holds(entry: Entry) -> bool:
        return text.casefold() in json.dumps(entry._asdict(), ensure_ascii=False).replace('\\"', '"').casefold()

    expected = [entry for entry in log.entries(context) if holds(entry)]
    assert 0 < len(expected) < 5
    assert log.entries(context, text=text) == expected
    assert log.entries(context, text="not there at all") == []
    open_workspace(repo.path).checkpoint("c")
    repo.remove(FILE)
    assert [e for e in log.entries(context, text=text) if e.type != "checkpoint"] == expected


def test_every_worktree_in_one_stream(repo: Repo) -> None:
    """Living with a database, living without one, removed, and under a name that git itself gave."""
    places = {name: agent_worktree(repo, name) for name in ("one", "two", "gone")}
    plain = repo.scratch / "plain"
    repo.git("worktree", "add", "-q", "--detach", str(plain))
    for n in range(2):
        log.add(context_of(repo), "action", f"main {n}")
        for name, place in places.items():
            log.add(context_of(place), "action", f"{name} {n}")
    open_workspace(plain).checkpoint("plain")
    for name in ("gone", "two"):
        open_workspace(places[name].path).checkpoint(f"last of {name}")
    repo.git("worktree", "remove", "--force", str(places["gone"].path))
    places["two"].remove(".agentos")
    expected = [f"{name} {n}" for n in range(2) for name in ("main", "one", "two", "gone")]
    expected += ["plain", "last of gone", "last of two"]
    for where in (repo, places["one"], Repo(plain)):
        everything = log.entries(context_of(where), every=True, newest_first=False)
        assert told(everything) == expected
        assert everything == sorted(everything, key=lambda each: (each.timestamp, each.id))
        assert told(log.entries(context_of(where), every=True, limit=2)) == ["last of two", "last of gone"]
        assert told(log.entries(context_of(where), agent="gone", newest_first=False)) == [
            "gone 0",
            "gone 1",
            "last of gone",
        ]
        assert told(log.entries(context_of(where), every=True, text="GONE", limit=1)) == ["last of gone"]
    assert told(log.entries(context_of(repo))) == ["main 1", "main 0"]
    with pytest.raises(CheckpointNotFound, match="'nobody'"):
        log.entries(context_of(repo), agent="nobody")
    assert log.entries(context_of(repo), agent="one", text="two") == []


def test_agents_who_share_a_worktree(repo: Repo) -> None:
    log.add(context_of(repo, "a"), "action", "of a")
    log.add(context_of(repo, "b"), "action", "of b")
    assert told(log.entries(context_of(repo))) == ["of b", "of a"]
    assert told(log.entries(context_of(repo), agent="a")) == ["of a"]


def test_another_worktrees_damage_hides_nothing_of_its_checkpoints(repo: Repo) -> None:
    other = agent_worktree(repo, "other")
    log.add(context_of(other), "action", "saved")
    open_workspace(other.path).checkpoint("c")
    other.write(FILE, b"garbage" * 100)
    with pytest.warns(AgentosWarning, match="'other' is read from its checkpoints"):
        assert told(log.entries(context_of(repo), agent="other")) == ["c", "saved"]
    assert other.read(FILE) == b"garbage" * 100


def test_reading_another_worktree_changes_nothing_there(repo: Repo) -> None:
    other = agent_worktree(repo, "other")
    log.add(context_of(other), "action", "one")
    before = (other.read(FILE), os.stat(other.at(FILE)).st_mtime_ns)
    assert told(log.entries(context_of(repo), every=True)) == ["one"]
    assert (other.read(FILE), os.stat(other.at(FILE)).st_mtime_ns) == before


def test_a_file_that_worktrees_and_repositories_share(
    repo: Repo, make_repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AGENTOS_WORKFLOW_DB for all of them: rows keep apart, and every checkpoint carries its own alone."""
    monkeypatch.setenv("AGENTOS_WORKFLOW_DB", str(tmp_path / "shared" / "x.db"))
    second = make_repo("second")
    other = agent_worktree(repo, "other")
    for where, text in ((repo, "first repo"), (second, "second repo"), (other, "other worktree")):
        log.add(context_of(where), "action", text)
    for where, text in ((repo, "first repo"), (second, "second repo"), (other, "other worktree")):
        assert told(log.entries(context_of(where))) == [text]
        made = open_workspace(where.path).checkpoint("c")
        assert [entry["summary"] for entry in carried(where, made.id)] == [text]
        assert not where.exists(".agentos")
    assert sorted(told(log.entries(context_of(repo), every=True, kinds=["action"]))) == ["first repo", "other worktree"]
    os.unlink(tmp_path / "shared" / "x.db")
    assert sorted(told(log.entries(context_of(repo), every=True, kinds=["action"]))) == ["first repo", "other worktree"]


def test_last(repo: Repo) -> None:
    context = context_of(repo)
    assert log.last(context, context.location) is None
    log.add(context, "action", "one")
    two = log.add(context, "error", "two")
    assert log.last(context, context.location) == two
    repo.write(FILE, b"garbage" * 100)
    assert log.last(context, context.location) is None


# -- rebuild, archive, retention --------------------------------------------------------------------------------------


def test_rebuild_proves_that_a_destroyed_worktree_lost_nothing(repo: Repo) -> None:
    lost = agent_worktree(repo, "lost")
    for n in range(5):
        log.add(context_of(lost), "action", f"{n}")
        open_workspace(lost.path).checkpoint(f"c{n}")
    before = log.entries(context_of(lost))
    lost.remove(".agentos")
    done = log.rebuild(context_of(lost))
    assert (done.entries, done.items, done.uncarried, done.checkpoints, done.moved_aside) == (10, 0, 0, 5, None)
    assert log.entries(context_of(lost)) == before
    assert log.rebuild(context_of(lost)) == done
    waiting = log.add(context_of(lost), "action", "waiting")
    assert log.rebuild(context_of(lost)).uncarried == 1
    assert log.entries(context_of(lost), limit=1) == [waiting]


def test_archive_and_revive(repo: Repo) -> None:
    """What an archive carries is all that there is, and comes back with the worktree."""
    import sqlite3

    from git_agentos import memory
    from git_agentos.checkpoint.creation import create_checkpoint

    place = agent_worktree(repo, "dev")
    context = context_of(place)
    log.add(context, "action", "one")
    open_workspace(place.path).checkpoint("c")
    log.add(context, "decision", "two")
    memory.artifact(context, type="code", path="x", description="d")
    connection = sqlite3.connect(place.path / FILE)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    made = create_checkpoint(
        context, context.metadata(trigger="archive"), attach=lambda writer: log.archive_files(context, writer)
    )
    assert [each["summary"] for each in carried(repo, made.checkpoint.id, "database/log.jsonl")] == ["one", "c", "two"]
    assert len(carried(repo, made.checkpoint.id, "database/memory.jsonl")) == 1
    before = log.entries(context)
    repo.git("worktree", "remove", "--force", str(place.path))
    assert log.entries(context_of(repo), agent="dev") == before
    repo.git("branch", "-q", "-D", "agent/dev")
    place = agent_worktree(repo, "dev")
    log.revive(context_of(place))
    assert log.entries(context_of(place)) == before
    assert len(memory.items(context_of(place))) == 1
    connection = sqlite3.connect(place.path / FILE)
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'theirs'").fetchall() == [("theirs",)]
    connection.close()
    assert open_workspace(place.path).checkpoint(trigger="periodic").unchanged


def test_nothing_to_archive_without_a_database(repo: Repo) -> None:
    context = context_of(repo)
    with context.repository.writer() as writer:
        assert log.archive_files(context, writer) == {}
    assert not repo.exists(".agentos")


def test_retention(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is older leaves the database once a checkpoint has it, and is in git for ever."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 100 * 86_400 * 10**9)
    log.add(context_of(repo), "action", "old and carried")
    monkeypatch.undo()
    open_workspace(repo.path).checkpoint("c")
    monkeypatch.setattr(time, "time_ns", lambda: real() - 100 * 86_400 * 10**9)
    log.add(context_of(repo), "action", "old and waiting")
    monkeypatch.undo()
    log.add(context_of(repo), "action", "new")
    assert len(log.entries(context_of(repo))) == 4
    repo.config("agentos.logRetention", "90d")
    log.add(context_of(repo), "action", "newer")
    assert told(log.entries(context_of(repo), kinds=["action"])) == ["newer", "new", "old and waiting"]
    open_workspace(repo.path).checkpoint("c2")
    assert told(log.entries(context_of(repo), kinds=["action"])) == ["newer", "new"]
    assert log.entries(context_of(repo), text="old and") == []
    with database.opened(str(repo.path / FILE)) as opened:
        opened.connection.execute(
            "INSERT INTO agentos_log_search (agentos_log_search, rank) VALUES ('integrity-check', 1)"
        )
    with context_of(repo).repository.writer() as writer:
        files = log.archive_files(context_of(repo), writer)
        writer.flush()
    assert b"old and carried" in repo.git("cat-file", "blob", files[b"database/log.jsonl"][1])
    repo.config("agentos.logRetention", "keep")
    log.rebuild(context_of(repo))
    assert len(log.entries(context_of(repo), text="old and")) == 2


@pytest.mark.parametrize("value", ["3000y", "999999999d", "90 monkeys", "-3", "9" * 5000])
def test_no_setting_of_the_log_keeps_a_checkpoint_from_being_made(repo: Repo, value: str) -> None:
    log.add(context_of(repo), "action", "noted")
    repo.config("agentos.logRetention", value)
    repo.append("readme.txt", "dirty\n")
    done = run(repo.path, "--json", "checkpoint")
    assert done.code == 0 and done.json["unstaged_changes"] == ["readme.txt"], str(done)
    assert (b"logRetention" in done.err) == (value not in ("3000y", "999999999d")), str(done)
    assert done.err.count(b"logRetention") < 2, str(done)
    assert run(repo.path, "log", "list").code == 0


# -- commands ---------------------------------------------------------------------------------------------------------


def test_the_commands(repo: Repo) -> None:
    repo.mkdir("sub")
    made = run_ok(
        repo.path / "sub", "--as", "dev-1", "log", "add", "decision", "take the queue", "--detail", "why=fast",
        "--json-details", '{"alternatives": ["lock"]}', "--file", "x.py", "--file", "../readme.txt", "--commit", "HEAD",
        "--task", "T-1",
    )  # fmt: skip
    assert made["schema"] == "agentos.log-entry.v1"
    assert made["files_changed"] == ["sub/x.py", "readme.txt"]
    assert made["details"] == {"alternatives": ["lock"], "why": "fast"}
    assert made["agent_id"] == "dev-1"
    listed = run_ok(repo.path, "log", "list")
    assert listed["schema"] == "agentos.log-list.v1"
    assert listed["entries"] == [{key: value for key, value in made.items() if key != "schema"}]
    assert run_ok(repo.path, "log", "search", "QUEUE", "--type", "decision", "-n", "1")["entries"] == listed["entries"]
    assert run_ok(repo.path, "log", "list", "--since", "2 hours ago", "--all")["entries"] == listed["entries"]
    assert run(repo.path, "log", "add", "wrong", "x").code == 2
    assert run(repo.path, "log", "add", "action", "x", "--json-details", "[1]").code == 2
    assert run(repo.path, "log", "add", "action", "x", "--detail", "novalue").code == 2
    assert run(repo.path, "log", "add", "action", "x", "--file", "../../outside").code == 2
    assert run(repo.path, "log").code == 2
    lines = run(repo.path, "log", "export").out.splitlines()
    assert [json.loads(line) for line in lines] == [made]
    rebuilt = run_ok(repo.path, "log", "rebuild")
    assert (rebuilt["schema"], rebuilt["entries"], rebuilt["uncarried"]) == ("agentos.log-rebuild.v1", 1, 1)


def follow(repo: Repo, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "git_agentos", "--json", "log", "list", "--follow", *more],
        cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def test_follow(repo: Repo) -> None:
    """What is there, then what comes, of all worktrees, each once; Ctrl-C ends it with 130."""
    other = agent_worktree(repo, "other")
    log.add(context_of(repo), "action", "before")
    with with_default_handlers(signal.SIGINT):
        process = follow(repo, "--all")
    assert process.stdout is not None

    def next_one() -> dict[str, Any]:
        assert process.stdout is not None
        return dict(json.loads(process.stdout.readline()))

    assert next_one()["summary"] == "before"
    log.add(context_of(repo), "action", "here")
    assert next_one()["summary"] == "here"
    log.add(context_of(other), "action", "there")
    assert next_one()["summary"] == "there"
    open_workspace(repo.path).checkpoint("saved")
    assert (entry := next_one())["summary"] == "saved"
    assert entry["schema"] == "agentos.log-entry.v1"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_follow_ends_when_nobody_reads(repo: Repo) -> None:
    log.add(context_of(repo), "action", "before")
    process = follow(repo)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_output_cannot_harm_the_terminal(repo: Repo) -> None:
    log.add(context_of(repo), "action", "\x1b[31mred\nsecond line", files=["a\x1b[0m"])
    out = run(repo.path, "log", "list").out
    assert b"\x1b" not in out
    assert b"red" in out
    assert b"second line" not in out
