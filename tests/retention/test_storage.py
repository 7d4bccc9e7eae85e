"""`storage`: what takes room, and what forgetting would free."""

from __future__ import annotations

import json
import os
import time

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint import upkeep
from git_agentos.cli.render.text import retention as render
from git_agentos.cli.text import Style
from git_agentos.retention import automatic, commands, rules
from git_agentos.retention.storage import RuleStorage, Storage, TimelineStorage
from tests.support.forgotten import objects, store_size, take, timeline
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.tool import run, run_ok


def test_what_takes_room(repo: Repo) -> None:
    repo.config("agentos.retention", "last=2")
    run_ok(repo.path, "log", "add", "decision", "decided")
    ids = take(repo, 4)
    repo.write("large.bin", os.urandom(200_000))
    large = take(repo, 1, first=4)[0]
    repo.remove("large.bin")
    ids += [large, *take(repo, 3, first=5)]
    found = run_ok(repo.path, "storage")
    assert check_document(found) == "storage"
    (row,) = found["timelines"]
    assert (row["timeline"], row["checkpoints"]) == ("main", 8)
    assert 200_000 + 8 * 4000 < row["bytes"] < 200_000 + 8 * 8000
    assert found["largest"][0] == {"path": "large.bin", "bytes": found["largest"][0]["bytes"], "checkpoint": large}
    assert found["largest_checkpoints"][0]["id"] == large
    assert found["databases_bytes"] > 0
    assert found["total_bytes"] == row["bytes"] + found["databases_bytes"] + found["runs_bytes"]
    assert found["budget_bytes"] is None
    assert found["rules"][0]["rule"] == "last=2"
    assert row["freeable_bytes"] > found["rules"][0]["freeable_bytes"] > 200_000


@pytest.mark.parametrize("words", ["last=1", "last=3", "hourly=1"])
def test_a_rule_frees_what_it_says(repo: Repo, words: str) -> None:
    repo.config("agentos.retention", words)
    take(repo, 6, size=30_000)
    take(repo, 1, trigger="manual", first=2, size=30_000)  # as the third one: its contents stay
    repo.git("repack", "-q", "-d", "-a")
    before = store_size(repo)
    said = {each["rule"]: each["freeable_bytes"] for each in run_ok(repo.path, "storage")["rules"]}[words]
    name, _, value = words.partition("=")
    run_ok(repo.path, "forget", f"--keep-{name}", value)
    repo.git("repack", "-q", "-d")  # the few objects that it has written
    assert said == pytest.approx(before - store_size(repo), abs=20_000)
    assert said > 60_000 * (words != "last=3")


def test_each_part(repo: Repo) -> None:
    run_ok(repo.path, "worktree", "create", "dev-1")
    other = Repo(repo.path / run_ok(repo.path, "worktree", "path", "dev-1")["path"])
    take(repo, 2)
    take(other, 2, first=50)
    run_ok(repo.path, "worktree", "archive", "dev-1")
    assert [each["timeline"] for each in run_ok(repo.path, "storage")["timelines"]] == ["main"]
    found = run_ok(repo.path, "storage", "--all")
    assert {each["timeline"] for each in found["timelines"]} == {"main", "dev-1"}
    assert found["archives_bytes"] > 0
    one = run_ok(repo.path, "storage", "--agent", "dev-1")
    assert [each["timeline"] for each in one["timelines"]] == ["dev-1"]
    assert run(repo.path, "storage", "--agent", "nobody").code == 1
    assert run(repo.path, "storage", "--all", "upkeep").code == 2


def test_a_repository_without_checkpoints(repo: Repo) -> None:
    found = run_ok(repo.path, "storage", "--all")
    assert (found["total_bytes"], found["timelines"], found["largest"]) == (0, [], [])
    assert {each["freeable_bytes"] for each in found["rules"]} == {0}


def test_as_text() -> None:
    rows = (
        TimelineStorage("dev-1", 3, 3 << 20, 1 << 20, None, None),
        TimelineStorage("main", 1, 1 << 20, 0, None, None),
    )
    found = Storage(5 << 20, rows, 4096, 1 << 20, 0, 0, 0, (RuleStorage("last=20", 2048),), (), (), 1 << 30)
    text = render.storage(found, Style())
    assert text.quiet == f"{5 << 20}\n"
    assert str(text.result).splitlines() == [
        "5.0 MiB in all, of 1.0 GiB in agentos.diskBudget",
        "dev-1  3.0 MiB  " + "█" * 30 + "  3 checkpoints, 1.0 MiB can be freed",
        "main   1.0 MiB  " + "█" * 10 + " " * 20 + "  1 checkpoint, 0 B can be freed",
        "runs   1.0 MiB  " + "█" * 10,
        "4.0 KiB of that is in archives of worktrees",
        "",
        "freed by the rules",
        "  2.0 KiB  last=20",
    ]


# -- upkeep ----------------------------------------------------------------------------------------------------------


def test_the_rules_that_are_set_are_applied(repo: Repo) -> None:
    ids = take(repo, 5)
    assert check_document(run_ok(repo.path, "storage", "upkeep")) == "forget"
    assert timeline(repo) == ids, "all of the last seven days stay"
    repo.config("agentos.retention", "last=1")
    agent = {"AGENTOS_AGENT_ID": "dev-1"}
    done = run(repo.path, "--json", "storage", "upkeep", env=agent)
    assert done.code == 0, str(done)
    assert json.loads(done.out)["forgotten"] == ids[:3][::-1]
    assert not set(ids[:3]) & objects(repo)
    repo.config("agentos.retention", "keep")
    take(repo, 3, first=10)
    assert run_ok(repo.path, "storage", "upkeep")["forgotten"] == []
    repo.config("agentos.retention", "something=else")
    assert run(repo.path, "storage", "upkeep").code == 2


def test_it_is_started_once_an_hour(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(upkeep, "_start", started.append)
    workspace = open_workspace(repo.path)
    mark = repo.git_dir / "agentos/upkeep.turn"
    for age, expected in ((0, 0), (3500, 0), (3700, 1), (10, 1), (7300, 2)):
        if age:
            os.utime(mark, (time.time() - age,) * 2)
        workspace.checkpoint(trigger="manual")
        assert len(started) == expected
    assert started == [str(repo.path.resolve())] * 2
    repo.config("agentos.retention", "keep")
    os.utime(mark, (0, 0))
    open_workspace(repo.path).checkpoint(trigger="manual")
    assert len(started) == 2
    repo.config("agentos.diskBudget", "1g")
    os.utime(mark, (0, 0))
    open_workspace(repo.path).checkpoint(trigger="manual")
    assert len(started) == 3


def test_the_process_in_the_background_forgets(repo: Repo) -> None:
    repo.config("agentos.retention", "last=1")
    ids = take(repo, 4)
    os.utime(repo.git_dir / "agentos/upkeep.turn", (0, 0))
    ids += take(repo, 1, first=4)
    deadline = time.monotonic() + 60
    while timeline(repo) != ids[-2:] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert timeline(repo) == ids[-2:]
    deadline = time.monotonic() + 60
    while set(ids[:3]) & objects(repo) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not set(ids[:3]) & objects(repo)


def test_the_budget_warns_and_then_thins_the_oldest(repo: Repo) -> None:
    first = take(repo, 1, trigger="manual", size=50_000)
    ids = take(repo, 6, size=50_000, first=1)
    taken = run_ok(repo.path, "storage", "--all")["total_bytes"]
    repo.config("agentos.diskBudget", str(taken - 80_000))
    assert run_ok(repo.path, "storage", "upkeep")["forgotten"] == []
    warned = run(repo.path, "checkpoint", "list")
    assert warned.err.startswith(b"warning: checkpoints take more room than agentos.diskBudget allows\n")
    findings = json.loads(run(repo.path, "--json", "doctor").out)["findings"]
    assert "over-budget" in {each["code"] for each in findings}
    assert run_ok(repo.path, "storage", "upkeep")["forgotten"] == [], "an hour is left"
    os.utime(repo.git_dir / "agentos/over-budget", (time.time() - 4000,) * 2)
    done = run_ok(repo.path, "storage", "upkeep")
    assert done["forgotten"] == ids[:2][::-1]
    assert timeline(repo) == [*first, *ids[2:]]
    assert run_ok(repo.path, "storage", "upkeep")["forgotten"] == []
    assert run(repo.path, "checkpoint", "list").err == b""
    assert run_ok(repo.path, "storage", "--all")["budget_bytes"] == taken - 80_000


def test_a_bad_budget_is_an_error(repo: Repo) -> None:
    take(repo, 1)
    repo.config("agentos.diskBudget", "much")
    assert run(repo.path, "storage").code == 1
    assert run_ok(repo.path, "checkpoint")["unchanged"] is False


def test_the_api(repo: Repo) -> None:
    from git_agentos import UsageError, open_repository

    ids = take(repo, 4)
    found = open_repository(repo.path).checkpoints
    would = found.forget(keep={"last": 1}, dry_run=True)
    done = found.forget(keep={"last": 1})
    assert (done.forgotten, would.forgotten) == (tuple(ids[:2][::-1]),) * 2
    assert done.protected[0].reason == "newest"
    assert found.forget([ids[2]]).forgotten == (ids[2],)
    with pytest.raises(UsageError):
        found.forget()
    size = found.storage()
    assert size.timelines[0].newest is not None
    assert size.timelines[0].newest.tzinfo is not None
    context = open_workspace(repo.path).context
    assert commands.measure(context).total_bytes == size.total_bytes
    assert automatic.apply(context).forgotten == ()
    assert rules.parse("keep") is None
