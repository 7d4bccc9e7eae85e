"""`git agentos report`: what all agents did, in one document."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from git_agentos import history, log, open_workspace
from git_agentos.cli.render.text.report import KINDS
from git_agentos.report import collection, lanes
from git_agentos.run import accept
from git_agentos.run.context import WorkspaceContext
from git_agentos.run.events import Run
from git_agentos.turns import record
from git_agentos.worktree import conflicts, status
from tests.support.agents import agent_commit, agent_worktree
from tests.support.json_reference import check_document
from tests.support.refusal import assert_refused
from tests.support.repo import Repo
from tests.support.team import Team
from tests.support.tool import run, run_ok


def report(repo: Repo, *args: str) -> Any:
    document = run_ok(repo.path, "report", *args)
    assert check_document(document) == "report"
    return document


def lane(repo: Repo, id_: str) -> Any:
    (found,) = report(repo, "--agent", id_)["agents"]
    return found


def marks(repo: Repo, id_: str) -> list[tuple[str, str]]:
    """Kind and id, oldest first."""
    return [(each["kind"], each["id"]) for each in lane(repo, id_)["marks"]]


def _events(repo: Repo, id_: str) -> Counter[tuple[str, str, str]]:
    """Time, kind and id of what `log timeline` shows, without entries that are no marks."""
    try:
        events = run_ok(repo.path, "log", "timeline", id_, "-n", "100000")["events"]
    except AssertionError:  # it is not known there
        return Counter()
    return Counter(
        (each["time"], each["type"] if each["kind"] == "entry" else each["kind"], each["id"])
        for each in events
        if each["kind"] != "entry" or each["type"] in ("error", "decision", "checkpoint")
    )


# -- the whole -------------------------------------------------------------------------------------------------------


def test_the_document_has_what_everybody_did(repo: Repo) -> None:
    team = Team(repo)
    found = report(repo)
    assert list(found)[1:] == ["agents", "conflicts", "storage", "runs", "since", "complete", "html"]
    assert (found["since"], found["complete"], found["html"]) == (None, True, None)
    listed = {each["id"]: each for each in run_ok(repo.path, "worktree", "list")["worktrees"]}
    assert [each["id"] for each in found["agents"]] == sorted(listed) == team.agents
    for each in found["agents"]:
        assert (each["branch"], each["state"]) == (listed[each["id"]]["branch"], listed[each["id"]]["state"])
        at = [mark["at"] for mark in each["marks"]]
        assert at == sorted(at)
        assert (each["first_at"], each["last_at"]) == ((at[0], at[-1]) if at else (None, None))
        of_events = Counter(
            (mark["at"], mark["kind"], mark["id"])
            for mark in each["marks"]
            if mark["kind"] not in ("merge", "run", "turn")
        )
        assert of_events == _events(repo, each["id"]), each["id"]
    assert {each["state"] for each in found["agents"]} == {"active", "archived", "broken"}
    for part, command in (("conflicts", "worktree conflicts"), ("storage", "storage --all")):
        document = run_ok(repo.path, *command.split())
        assert found[part] == {key: value for key, value in document.items() if key != "schema"}
    assert found["runs"] == run_ok(repo.path, "run", "list")["runs"]
    assert {(pair["a"], pair["b"]) for pair in found["conflicts"]["pairs"]} >= {("left", "right")}


def test_the_marks_of_each(repo: Repo) -> None:
    team = Team(repo)
    found = {each["id"]: each["marks"] for each in report(repo)["agents"]}
    ids = team.ids
    left = {(mark["kind"], mark["id"]): mark["text"] for mark in found["left"]}
    assert left == {
        ("commit", ids["commit"]): "the left one",
        ("checkpoint", ids["checkpoint"]): "begun",
        ("restore", ids["checkpoint"]): f"restored {ids['checkpoint'][:8]}; the state before is saved as"
        f" {ids['saved'][:8]}",
        ("error", ids["error"]): "it broke",
        ("decision", ids["decision"]): "go left",
        ("merge", ids["merge"]): "Merge agent 'left'",
    }
    (turn,) = run_ok(repo.path, "turns", "--all")["turns"]
    assert [mark for mark in found["right"] if mark["kind"] == "turn"] == [
        {"at": turn["started_at"], "kind": "turn", "id": turn["id"], "text": "go right"}
    ]
    (run_,) = run_ok(repo.path, "run", "list")["runs"]
    assert [mark for mark in found[f"run-{run_['run_id']}"] if mark["kind"] == "run"] == [
        {"at": run_["started_at"], "kind": "run", "id": run_["run_id"], "text": "passed"}
    ]
    assert Counter(mark["kind"] for mark in found["archived"]) == {"commit": 1, "checkpoint": 1}
    assert Counter(mark["kind"] for mark in found["broken"]) == {"commit": 1, "checkpoint": 1}
    assert found["idle"] == []
    assert not [mark for each in found.values() for mark in each if mark["text"] in ("looked around", "be quick")]


def test_all_moments_are_there(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    context = open_workspace(dev.path).context
    made = [log.add(context, "error", f"error {n}").id for n in range(60)]
    made += [log.add(context, "decision", f"decision {n}").id for n in range(60)]
    assert [id_ for _, id_ in marks(repo, "dev")] == made, "more than the newest fifty, oldest first"


def test_entries_that_are_no_marks(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    context = open_workspace(dev.path).context
    for kind in ("action", "nudge"):
        log.add(context, kind, "no mark")
    log.write(context, record.TYPE, "an end", details={"turn": "t-1", "event": record.ENDED})
    noted = log.add(context, "checkpoint", "here it was good")
    assert marks(repo, "dev") == [("checkpoint", noted.id)]


def test_what_another_agent_did_in_a_worktree_is_in_both_lanes(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    agent_worktree(repo, "helper")
    made = run_ok(dev.path, "--as", "helper", "checkpoint", "-m", "the helper's")["id"]
    entry = run_ok(dev.path, "--as", "helper", "log", "add", "error", "too")["id"]
    assert marks(repo, "dev") == marks(repo, "helper") == [("checkpoint", made), ("error", entry)]


def test_a_run_is_in_the_lane_of_its_worktree_and_of_its_agent() -> None:
    context = WorkspaceContext("r", "/r", "/w", "b", "main", "0" * 40, "0" * 40, "", None, "dev")
    runs = [
        Run("r", "failed", "it took\ntoo long", context, started_at="2026-11-26T10:00:00.000Z"),
        Run("damaged", "interrupted", started_at="2026-11-26T11:00:00.000Z"),
        Run("of-no-time", "interrupted"),
    ]
    mark = lanes.Mark("2026-11-26T10:00:00.000Z", "run", "r", "failed: it took")
    damaged = lanes.Mark("2026-11-26T11:00:00.000Z", "run", "damaged", "interrupted")
    assert lanes.of_runs(runs) == {"run-r": [mark], "dev": [mark], "run-damaged": [damaged]}


def test_a_checkpoint_restored_twice_is_two_marks(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    goal = run_ok(dev.path, "checkpoint", "-m", "goal")["id"]
    for text in ("one", "two"):
        dev.write("notes.txt", text)
        run_ok(dev.path, "restore", goal, "--no-branch")
    assert marks(repo, "dev") == [("checkpoint", goal), ("restore", goal), ("restore", goal)]


# -- options ---------------------------------------------------------------------------------------------------------


def test_since_leaves_out_marks_and_nothing_else(repo: Repo) -> None:
    Team(repo)
    whole = report(repo)
    moment = datetime(2026, 6, 1, tzinfo=UTC)
    found = report(repo, "--since", moment.isoformat())
    assert found["since"] == "2026-06-01T00:00:00.000Z"
    for key in ("conflicts", "storage", "runs"):
        assert found[key] == whole[key]
    assert [each["id"] for each in found["agents"]] == [each["id"] for each in whole["agents"]]
    for now, before in zip(found["agents"], whole["agents"], strict=True):
        # Commits of tests are of March.
        assert now["marks"] == [mark for mark in before["marks"] if mark["kind"] != "commit"]
        assert now["first_at"] == (now["marks"][0]["at"] if now["marks"] else None)
    assert any(len(now["marks"]) < len(before["marks"]) for now, before in zip(found["agents"], whole["agents"]))  # noqa: B905
    later = report(repo, "--since", (datetime.now(UTC) + timedelta(days=1)).isoformat())
    assert [(each["first_at"], each["last_at"], each["marks"]) for each in later["agents"]] == [(None, None, [])] * 6
    assert_refused(repo.path, "report", "--since", "nonsense", code=2, mentions="nonsense", keeps=repo.path)


def test_agents_are_chosen_and_the_rest_is_of_all(repo: Repo) -> None:
    Team(repo)
    whole = report(repo)
    found = report(repo, "--agent", "right", "--agent", "archived", "--agent", "right")
    assert found["agents"] == [each for each in whole["agents"] if each["id"] in ("archived", "right")]
    for key in ("conflicts", "storage", "runs"):
        assert found[key] == whole[key]


@pytest.mark.parametrize("agent", ["nobody", "main", "no such id"])
def test_unknown_agent_is_refused(repo: Repo, agent: str) -> None:
    agent_worktree(repo, "dev")
    run_ok(repo.path, "report")  # the database is made
    page = repo.path.parent / "page.html"
    args = ("report", "--agent", "dev", "--agent", agent, "--html", str(page))
    assert_refused(repo.path, *args, code=1, mentions=f"'{agent}'", keeps=repo.path)
    assert not page.exists()


# -- merges ----------------------------------------------------------------------------------------------------------


def _merges(repo: Repo) -> dict[str, list[str]]:
    return {
        each["id"]: [mark["id"] for mark in each["marks"] if mark["kind"] == "merge"] for each in report(repo)["agents"]
    }


def test_a_merge_is_in_the_lane_of_each_agent_whose_work_went_in(repo: Repo) -> None:
    for id_ in ("one", "two", "three", "four"):
        agent_commit(repo, id_, {f"{id_}.txt": id_})
    run_ok(repo.path / "../repo.worktrees/one", "checkpoint")  # the others have no timeline
    first = run_ok(repo.path, "worktree", "merge", "one")["merge_commit"]
    both = run_ok(repo.path, "worktree", "merge", "two", "three", "--squash")["merge_commit"]
    assert _merges(repo) == {"one": [first], "two": [both], "three": [both], "four": []}


def test_a_merge_by_plain_git(repo: Repo) -> None:
    agent_commit(repo, "one", {"one.txt": "one"})
    two = agent_commit(repo, "two", {"two.txt": "two"})
    repo.git("merge", "-q", "--no-ff", "-m", "by hand", "agent/one")
    first = repo.oid()
    assert _merges(repo) == {"one": [first], "two": []}
    # What one agent gets from another by its base is not its own work.
    two.git("merge", "-q", "-m", "up to date", "main")
    assert _merges(repo) == {"one": [first], "two": []}
    repo.git("merge", "-q", "--no-ff", "-m", "by hand, too", "agent/two")
    assert _merges(repo) == {"one": [first], "two": [repo.oid()]}


def test_a_merge_that_its_agent_goes_on_from(repo: Repo) -> None:
    one = agent_commit(repo, "one", {"one.txt": "one"})
    first = run_ok(repo.path, "worktree", "merge", "one")["merge_commit"]
    one.git("merge", "-q", "--ff-only", "main")
    assert one.oid() == first
    assert _merges(repo) == {"one": [first]}


def test_an_agent_merges_the_work_of_another(repo: Repo) -> None:
    agent_commit(repo, "one", {"one.txt": "one"})
    two = agent_commit(repo, "two", {"two.txt": "two"})
    two.git("merge", "-q", "--no-ff", "-m", "taken over", "agent/one")
    assert _merges(repo) == {"one": [two.oid()], "two": []}


def test_a_merge_that_only_memory_knows(repo: Repo) -> None:
    one = agent_commit(repo, "one", {"one.txt": "one"})
    run_ok(one.path, "checkpoint")
    repo.git("merge", "-q", "--squash", "agent/one")
    repo.git("commit", "-q", "-m", "squashed by hand")
    assert _merges(repo) == {"one": []}
    for _ in range(2):
        run_ok(repo.path, "memory", "merge", "--target", "main", "--source", "one", "--commit", "HEAD")
    assert _merges(repo) == {"one": [repo.oid()]}
    assert lane(repo, "one")["marks"][-1]["text"] == "merged into main"


def test_an_accepted_run(repo: Repo) -> None:
    team = Team(repo)
    accepted, _ = accept.accept(open_workspace(repo.path).context, team.run.run_id)
    merged = accepted.merge_commit
    found = _merges(repo)
    assert found[f"run-{team.run.run_id}"] == [merged]
    assert found["left"] == [team.ids["merge"]]


# -- what is broken, or goes meanwhile -------------------------------------------------------------------------------


def test_worktrees_that_vanish_meanwhile(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for id_ in ("one", "three", "two"):
        there = agent_worktree(repo, id_)
        run_ok(there.path, "checkpoint", "-m", id_)
        there.write(f"{id_}.txt", id_)
        there.commit(id_)
    context = open_workspace(repo.path).context
    whole = collection.collect(context)

    def vanishing(module: Any, name: str, id_: str) -> None:
        before = getattr(module, name)

        def later(*args: Any, **options: Any) -> Any:
            shutil.rmtree(repo.path.parent / "repo.worktrees" / id_)
            shutil.rmtree(repo.git_dir / "worktrees" / id_)
            return before(*args, **options)

        monkeypatch.setattr(module, name, later)

    vanishing(history, "collect_all", "one")
    vanishing(log, "read", "two")
    vanishing(conflicts, "conflicts", "three")
    found = collection.collect(context)
    assert found.agents == whole.agents, "branches and timelines are still there"
    assert found.conflicts.order == []
    assert [each.id for each in status.list_worktrees(context).worktrees] == []
    assert report(repo)["agents"] == []


def test_a_log_that_cannot_be_read_is_said(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    entry = run_ok(dev.path, "log", "add", "error", "it broke")["id"]
    run_ok(dev.path, "checkpoint")
    (dev.path / ".agentos/issue_workflow.db").write_bytes(b"no database" * 100)
    done = run(repo.path, "report", "--json")
    assert done.code == 0, str(done)
    assert done.json["complete"] is False
    assert b"the log of 'dev' is read from its checkpoints alone" in done.err
    assert entry in [mark["id"] for mark in done.json["agents"][0]["marks"]], "what a checkpoint carries is there"


def test_a_repository_in_which_nothing_has_happened(empty_repo: Repo) -> None:
    found = report(empty_repo)
    assert (found["agents"], found["runs"], found["conflicts"]["agents"]) == ([], [], [])
    assert b"no agents' worktrees" in run(empty_repo.path, "report").out


# -- the text --------------------------------------------------------------------------------------------------------


def test_the_text_names_each_agent(repo: Repo) -> None:
    team = Team(repo)
    told = run(repo.path, "report").out.decode()
    rows = told.splitlines()
    assert [row.split()[0] for row in rows[2:8]] == team.agents
    assert rows[5].endswith("1 commit, 1 merge, 1 checkpoint, 1 restore, 1 decision, 1 error")
    assert rows[4].endswith("nothing")
    for wanted in ("Conflicts", "left with right:", "both.txt", "Storage", "Runs", team.run.run_id):
        assert wanted in told
    assert run(repo.path, "report", "-q").out.decode().split() == team.agents
    assert ", since 2026-06-01" in run(repo.path, "report", "--since", "2026-06-01").out.decode()


def test_every_kind_is_shown() -> None:
    assert set(KINDS) == set(lanes.KINDS)
