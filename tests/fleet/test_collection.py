"""Results are brought into any clone with the remote; those that do not verify are named, and not used."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos.errors import FleetError
from git_agentos.fleet import collection, contents, names, records, verification
from git_agentos.fleet.records import CANCELLED, FAILED, Result
from git_agentos.fleet.verification import Refused, Work
from git_agentos.run import evidence_store, query
from git_agentos.run.events import PASSED
from tests.support import fleet_results, remotes
from tests.support.fleet_results import Site, task
from tests.support.repo import Repo, git
from tests.support.runs import context_of
from tests.support.snapshot import snapshot
from tests.support.tool import run, run_ok


@pytest.fixture
def site(tmp_path: Path, repo: Repo) -> Site:
    return fleet_results.make(tmp_path, repo)


def ours(repo: Repo) -> list[str]:
    """The refs that collecting makes."""
    patterns = ("refs/heads/fleet", "refs/agentos/timelines/run-*", "refs/agentos/runs")
    return repo.text("for-each-ref", "--format=%(refname)", *patterns).split()


def test_what_verifies_is_here_as_a_run(site: Site) -> None:
    site.submit(task("a"), task("b", fleet_results.write("b", "b"), validate=["false"]), task("c"), task("d"))
    done = site.work("a", "b")
    site.settle(Result("c", CANCELLED, detail="by hand"), None)

    found = collection.collect(site.context, fleet_results.ID)

    assert [(each.task, each.commit, each.checkpoint, each.run_id) for each in found.results] == [
        (id_, done[id_].commit, done[id_].checkpoint, f"f-{id_}") for id_ in ("a", "b")
    ]
    assert found.refused == ()
    assert site.repo.text("show", "fleet/f/a:a.txt") == "a"
    assert query.show(site.context, "f-a").state == PASSED
    assert query.show(site.context, "f-b").state == "failed"
    [(step, out, err), _] = query.logs(site.context, "f-a")
    assert (step.kind, out, err) == ("agent", b"", b"")
    assert evidence_store.verify(site.context, "f-a").problems == []
    assert len(ours(site.repo)) == 6
    assert collection.collect(site.context, fleet_results.ID) == found  # nothing changes


def test_any_clone_collects(site: Site, tmp_path: Path) -> None:
    site.submit(task("a"))
    done = site.work("a")
    other = remotes.clone(tmp_path, site.bare, "other")
    [found] = collection.collect(context_of(other), fleet_results.ID).results
    assert found.commit == done["a"].commit
    assert other.text("rev-parse", "fleet/f/a") == found.commit


def test_a_run_of_a_worker_is_only_read_here(site: Site) -> None:
    """Its worktree is the worker's; in forged evidence the path may be that of any folder."""
    site.submit(task("a"))
    site.work("a")
    collection.collect(site.context, fleet_results.ID)
    found = query.show(site.context, "f-a")
    assert found.context is not None
    assert (found.here, query.list_runs(site.context)[0].here) == (False, False)
    shutil.rmtree(found.context.worktree_path)
    before = snapshot(site.repo)
    for words in (
        ("rollback", "f-a"),
        ("rollback", "f-a", "--dry-run"),
        ("run", "resume", "f-a"),
        ("run", "cancel", "f-a"),
    ):
        done = run(site.repo.path, *words)
        assert done.code == 1, done
        assert b"it can only be read" in done.err
        assert b"git agentos fleet accept" in done.err
    assert run_ok(site.repo.path, "run", "cleanup", "f-a")["cleaned"] == []
    assert snapshot(site.repo) == before
    assert not Path(found.context.worktree_path).exists()
    assert query.show(site.context, "f-a") == found
    said = run(site.repo.path, "run", "show", "f-a")
    assert b"Worktree:" not in said.out
    assert b"git agentos run accept" not in said.err


def test_a_branch_that_went_on_is_kept(site: Site) -> None:
    site.submit(task("a"))
    site.work("a")
    collection.collect(site.context, fleet_results.ID)
    site.repo.git("checkout", "-q", "fleet/f/a")
    site.repo.git("commit", "-q", "--allow-empty", "-m", "more")
    at = site.repo.text("rev-parse", "HEAD")
    [found] = collection.collect(site.context, fleet_results.ID).results
    assert site.repo.text("rev-parse", "fleet/f/a") == at != found.commit


def test_what_has_its_names_is_left(site: Site) -> None:
    site.submit(task("a"), task("b"))
    site.work("a", "b")
    site.repo.git("branch", "fleet/f/a", "main~1")
    found = collection.collect(site.context, fleet_results.ID)
    assert [each.task for each in found.results] == ["b"]
    [refused] = found.refused
    assert refused.task == "a" and "'refs/heads/fleet/f/a' is here already" in refused.reason
    assert not any("f-a" in ref for ref in ours(site.repo))


def test_no_such_fleet(site: Site) -> None:
    with pytest.raises(FleetError, match="there is no fleet 'f' on 'origin'"):
        collection.collect(site.context, fleet_results.ID)


# -- results that were tampered with ----------------------------------------------------------------------------------


def changed_file(site: Site, evidence: str, name: str, data: bytes | None) -> str:
    """A tree of evidence in which a file is another, or is missing."""
    where = site.machine.path
    index = {"GIT_INDEX_FILE": str(where.parent / "an-index")}
    git(where, "read-tree", evidence, env=index)
    if data is None:
        git(where, "update-index", "--force-remove", name, env=index)
    else:
        oid = git(where, "hash-object", "-w", "--stdin", stdin=data).decode().strip()
        git(where, "update-index", "--add", "--cacheinfo", f"100644,{oid},{name}", env=index)
    return git(where, "write-tree", env=index).decode().strip()


def linked(site: Site, evidence: str) -> str:
    oid = git(site.machine.path, "hash-object", "-w", "--stdin", stdin=b"/etc/passwd").decode().strip()
    rows = git(site.machine.path, "ls-tree", evidence) + f"120000 blob {oid}\tlink\n".encode()
    return git(site.machine.path, "mktree", stdin=rows).decode().strip()


def another_commit(site: Site, result: Result) -> str:
    assert result.commit is not None
    tree = site.machine.text("rev-parse", f"{result.base}^{{tree}}")
    return site.machine.text("commit-tree", "-p", result.commit, "-m", "more", tree)


EVIDENCE = {
    "a file was changed": ("steps/001-agent/stdout", b"other", "'steps/001-agent/stdout' was changed"),
    "a file is missing": ("steps/001-agent/stdout", None, "'steps/001-agent/stdout' is missing"),
    "a file was added": ("more", b"", "'more' was added after the run was sealed"),
    "the record is empty": ("events.jsonl", b"", "'events.jsonl' was cut off"),
    "the record is not one": ("events.jsonl", b"no\n" * 9999, "'events.jsonl' was changed"),
    "the manifest": ("manifest.json", b"{}", "'manifest.json' is not the one"),
    "no manifest": ("manifest.json", None, "'manifest.json' is missing"),
    "the spec": ("spec.json", b"{}", "'spec.json' was changed"),
}


def test_evidence_that_was_tampered_with(site: Site) -> None:
    fleet = site.submit(task("a"))
    _, result, evidence = site.run("a")
    machine = context_of(site.machine).repository

    def verified(tree: str) -> Work | Refused:
        with machine.writer() as writer:
            oid = records.write_result(writer, "f", result, b"A <a@example.org>", tree)
            writer.flush()
        return verification.verify(machine, fleet, fleet.task("a"), replace(result, result=oid))

    assert isinstance(verified(evidence), Work)
    for case, (name, data, reason) in EVIDENCE.items():
        found = verified(changed_file(site, evidence, name, data))
        assert isinstance(found, Refused) and reason in found.reason, case


def test_results_that_are_not_what_they_say(site: Site) -> None:
    ids = ("branch", "link", "other", "state", "none", "held")
    site.submit(*(task(id_) for id_ in ids), task("good"), task("steps"), task("base"))
    made = {id_: site.run(id_) for id_ in ids}
    _, result, evidence = made["branch"]
    site.settle(replace(result, commit=another_commit(site, result)), evidence)
    _, result, evidence = made["link"]
    site.settle(result, linked(site, evidence))
    _, result, evidence = made["state"]
    site.settle(replace(result, state=FAILED), evidence)
    _, result, _ = made["none"]
    site.settle(result, None)
    _, result, evidence = made["held"]
    site.settle(replace(result, held_back=("0123",), detail="'f' has a secret: 0123"), evidence)
    _, result, evidence = made["other"]  # the work of another task
    theirs = made["state"][1]
    result = replace(result, commit=theirs.commit, timeline=theirs.timeline, checkpoint=theirs.checkpoint)
    site.settle(result, made["state"][2])
    site.work("good")

    found = collection.collect(site.context, fleet_results.ID)

    assert [each.task for each in found.results] == ["good"]
    reasons = {each.task: each.reason for each in found.refused}
    assert reasons.keys() == {*ids}
    assert "which is not what checkpoint" in reasons["branch"]
    assert reasons["link"] == "'link' in its evidence is not a file"
    assert reasons["state"] == "it says that it has failed, and its run is passed"
    assert reasons["none"] == "it has no evidence"
    assert reasons["held"] == "'f' has a secret: 0123"
    assert "not sealed" in reasons["other"]
    assert len(ours(site.repo)) == 3


def test_the_run_of_another_task(site: Site) -> None:
    """Other steps than those of the task, or another base: the evidence verifies, and is not the task's."""
    site.submit(task("a", fleet_results.write("x", "cheap")), task("b"), id_="g")
    fleet = site.fleet
    assert fleet is not None
    wanted = replace(fleet, id="g", tasks=(task("a"), *fleet.tasks[1:]))
    runs = {id_: site.run(id_) for id_ in ("a", "b")}
    for _, result, evidence in runs.values():
        site.settle(result, evidence)
    known = contents.fetch(site.remote(), "g")
    again = replace(known, fleet=wanted)
    first, second = collection.read_all(site.context.repository, again, wanted.tasks)
    assert isinstance(first, Refused) and first.reason == "its run has other steps than the task"
    assert isinstance(second, Work)
    moved = replace(known, fleet=replace(wanted, base=site.repo.text("rev-parse", "main~1")))
    reasons = [each.reason for each in collection.read_all(site.context.repository, moved, wanted.tasks)
               if isinstance(each, Refused)]  # fmt: skip
    assert len(reasons) == 2 and all(each.startswith("its run did not begin at") for each in reasons)


@pytest.mark.parametrize("kind", ["blob", "empty commit", "another fleet's"])
def test_refs_that_lead_elsewhere(site: Site, kind: str) -> None:
    site.submit(task("a"), task("b"))
    site.work("b")
    if kind == "blob":
        oid = git(site.bare, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    elif kind == "empty commit":
        oid = site.repo.text("rev-parse", "main")
    else:
        oid = git(site.bare, "rev-parse", names.result_ref("f", "b")).decode().strip()
    git(site.bare, "update-ref", names.result_ref("f", "a"), oid)
    found = collection.collect(site.context, fleet_results.ID)
    assert [each.task for each in found.results] == ["b"]
    [refused] = found.refused
    assert refused.task == "a" and "'refs/agentos/fleet/f/results/a' is damaged" in refused.reason
