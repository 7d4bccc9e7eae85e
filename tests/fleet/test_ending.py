"""A fleet that was ended has one ref, from which everything can be read as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos.errors import FleetError
from git_agentos.fleet import collection, contents, ending, folded, names, records, status
from git_agentos.fleet.records import CANCELLED, LOST, PASSED, DamagedRecord, Live, Result
from git_agentos.fleet.remote import DONE, Remote
from git_agentos.fleet.status import Status
from tests.support import fleet_results, remotes
from tests.support.fleet_results import Site, task
from tests.support.repo import Repo, git
from tests.support.runs import context_of

END = "refs/agentos/fleet/f/end"


@pytest.fixture
def site(tmp_path: Path, repo: Repo) -> Site:
    return fleet_results.make(tmp_path, repo)


@pytest.fixture
def over(site: Site) -> Site:
    """A fleet whose tasks have a result each: one of a run."""
    site.submit(task("b"), task("a"), task("c"))
    site.work("a")
    site.settle(Result("b", CANCELLED), None)
    site.settle(Result("c", LOST), None)
    return site


def states(site: Site, known: contents.Contents) -> dict[str, str]:
    read = records.read_result
    return {id_: read(site.context.repository, oid, "f", id_).state for id_, oid in known.results.items()}


def test_one_ref_has_everything(over: Site, tmp_path: Path) -> None:
    before = contents.fetch(over.remote(), "f")
    before_end = status.status(over.context, "f")
    assert ending.end(over.context, "f") == before_end == status.status(over.context, "f")
    known = contents.fetch(over.remote(), "f")
    assert over.refs() == [END]
    assert (known.fleet, known.tasks, known.results) == (before.fleet, before.tasks, before.results)
    assert known.ended_at is not None and not known.live
    assert over.repo.text("for-each-ref", "--format=%(refname)", names.FETCHED).split() == [
        "refs/agentos/fleets/origin/f/end"
    ]
    other = context_of(remotes.clone(tmp_path, over.bare, "other"))
    there = contents.fetch(Remote(other.repository, "origin"), "f")
    assert there == known
    assert states(over, there) == {"a": PASSED, "b": CANCELLED, "c": LOST}
    assert [each.task for each in collection.collect(other, "f").results] == ["a"]
    assert git(over.bare, "fsck", "--strict", "--no-dangling") == b""


def test_again_changes_nothing(over: Site) -> None:
    known = ending.end(over.context, "f")
    at = git(over.bare, "rev-parse", END)
    assert ending.end(over.context, "f") == known
    assert over.refs() == [END] and git(over.bare, "rev-parse", END) == at


def test_not_unless_every_task_has_a_result(site: Site) -> None:
    site.submit(*(task(f"t{n}") for n in range(7)))
    site.settle(Result("t0", CANCELLED), None)
    before = site.refs()
    with pytest.raises(FleetError, match="6 tasks of fleet 'f' have no result: t1, t2, t3, t4, t5 and 1 more"):
        ending.end(site.context, "f")
    assert site.refs() == before


def test_not_while_a_task_that_was_lost_runs_again(over: Site) -> None:
    with (context := over.context).repository.writer() as writer:
        live = Live("c", 2, "w", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", names.run_id("f", "c"))
        oid = records.write_live(writer, "f", live, context.settings.committer)
        writer.flush()
    before = over.refs()
    assert over.remote().create(names.live_ref("f", "c"), oid).state == DONE
    with pytest.raises(FleetError, match="1 task of fleet 'f' has no result: c"):
        ending.end(over.context, "f")
    assert {*over.refs()} == {*before, names.live_ref("f", "c")}


def test_what_an_interrupted_one_left_is_deleted(over: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as few:
        few.setattr(ending, "_MOST_REFS", 3)
        few.setattr(ending, "_delete_others", lambda there, fleet: None)
        ended = ending.end(over.context, "f")
        known = contents.fetch(over.remote(), "f")
    # The one that a worker could replace went first.
    assert over.refs() == [END, "refs/agentos/fleet/f/results/a", "refs/agentos/fleet/f/results/b"]
    git(over.bare, "update-ref", names.live_ref("f", "a"), known.results["a"])
    assert contents.fetch(over.remote(), "f") == known  # the rest does not count
    monkeypatch.setattr(ending, "_MOST_REFS", 2)
    assert ending.end(over.context, "f") == ended
    assert over.refs() == [END]


def test_a_result_that_was_replaced_meanwhile_is_not_lost(over: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the fetch and the push, the task that was lost has got a result after all."""
    write = folded.write
    done: list[str] = []

    def late(*args: object) -> str:
        if not done:
            lost = over.remote(over.machine).list()[names.result_ref("f", "c")]
            with (context := context_of(over.machine)).repository.writer() as writer:
                made = records.write_result(writer, "f", Result("c", PASSED), context.settings.committer)
                writer.flush()
            done.append(made)
            over.remote(over.machine).settle("f", "c", made, instead_of=lost)
        return write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(folded, "write", late)
    assert [each.state for each in ending.end(over.context, "f").tasks] == [CANCELLED, PASSED, PASSED]
    assert over.refs() == [END]


def test_two_at_once(over: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    write = folded.write
    others: list[Status | None] = []

    def late(*args: object) -> str:
        if not others:
            others.append(None)  # it writes a chain, too
            others[0] = ending.end(context_of(over.machine), "f")
        return write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(folded, "write", late)
    assert [ending.end(over.context, "f")] == others
    assert over.refs() == [END]


def test_a_remote_that_refuses(over: Site) -> None:
    remotes.add_hook(over.bare, "pre-receive", "echo 'not here' >&2; exit 1")
    before = over.refs()
    with pytest.raises(FleetError, match="the remote 'origin' refuses to end fleet 'f': pre-receive hook declined"):
        ending.end(over.context, "f")
    assert over.refs() == before


@pytest.mark.parametrize("kind", ["blob", "commit", "short", "another"])
def test_an_end_that_is_none(over: Site, kind: str) -> None:
    ending.end(over.context, "f")
    known = contents.fetch(over.remote(), "f")
    if kind == "blob":
        oid = git(over.bare, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    elif kind == "commit":
        oid = over.repo.text("rev-parse", "main")
    elif kind == "short":
        oid = git(over.bare, "rev-parse", f"{END}~1").decode().strip()
    else:
        with (context := over.context).repository.writer() as writer:
            fleet = replace(known.fleet, id="g")
            oid = folded.write(writer, fleet, known.tasks, known.results, context.settings.committer)
            writer.flush()
        over.repo.git("push", "-q", "origin", f"{oid}:refs/heads/x")
    git(over.bare, "update-ref", END, oid)
    with pytest.raises(DamagedRecord, match="'refs/agentos/fleet/f/end' is damaged"):
        collection.collect(over.context, "f")
