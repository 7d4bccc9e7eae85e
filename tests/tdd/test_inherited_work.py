"""What is taken over of a workflow in another clone: only what its timeline has, of a run with the same base."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos.checkpoint import timeline
from git_agentos.git import refs
from git_agentos.run import evidence_copy
from git_agentos.run.context import worktree_id
from git_agentos.run.snapshot import saved_state
from git_agentos.tdd import handover, inherited_work
from git_agentos.tdd.handover import Assignment
from git_agentos.tdd.inherited_work import Elsewhere
from git_agentos.tdd.state import N1, N3
from tests.support import tdd_project
from tests.support.repo import Repo, git
from tests.support.tdd_project import Person, context_of, environment

ID = "f-a"
Events = list[dict[str, Any]]


@pytest.fixture
def there(repo: Repo, tmp_path: Path) -> Elsewhere:
    """A workflow whose run has ended; its code was wrong the first time."""
    tdd_project.project(repo)
    wrong = {"write": {"calc/more.py": tdd_project.WRONG}}
    agent = tdd_project.script(tmp_path, implement=[wrong, tdd_project.GOOD_CODE])
    context = context_of(repo)
    task = Assignment(ID, "87", tdd_project.LLD, agent, repo.oid("HEAD"))
    person = Person()
    run = handover.work(context, task, environment(), person, is_new=True)
    assert (run.state, run.task_id, len(person.reviews)) == ("passed", "87", 1)  # nobody answers
    tip = timeline.tip(context.location, worktree_id(ID))
    evidence = refs.resolve(context.location, evidence_copy.PREFIX + ID)
    assert tip is not None and evidence is not None
    return Elsewhere(tip, evidence, "one")


def changed(repo: Repo, there: Elsewhere, change: Callable[[Events], Events]) -> Elsewhere:
    """The same with other events."""
    data = git(repo.path, "cat-file", "blob", f"{there.evidence}:events.jsonl")
    events = change([json.loads(line) for line in data.splitlines()])
    return with_record(repo, there, "".join(json.dumps(each) + "\n" for each in events).encode())


def with_record(repo: Repo, there: Elsewhere, data: bytes) -> Elsewhere:
    index = {"GIT_INDEX_FILE": os.fspath(repo.path.parent / "an-index")}
    git(repo.path, "read-tree", there.evidence, env=index)
    oid = git(repo.path, "hash-object", "-w", "--stdin", stdin=data).decode().strip()
    git(repo.path, "update-index", "--add", "--cacheinfo", f"100644,{oid},events.jsonl", env=index)
    return there._replace(evidence=git(repo.path, "write-tree", env=index).decode().strip())


def until(n: int) -> Callable[[Events], Events]:
    """The events until a step has ended."""

    def cut(events: Events) -> Events:
        ends = [i for i, each in enumerate(events) if each["event"] == "step-ended" and each["n"] == n]
        return events[: ends[0] + 1]

    return cut


def test_what_is_taken_over(repo: Repo, there: Elsewhere) -> None:
    repository, base = context_of(repo).repository, repo.oid("HEAD")

    def find(at: Elsewhere, *, run_id: str = ID, base: str = base) -> dict[str, Any]:
        return inherited_work.find(repository, run_id, base, at)

    everything = find(there)
    assert everything["inherited"].keys() == {N1, N3}
    assert (everything["scaffold_retry_count"], everything["retry_count"]) == (0, 1)
    for node, path, text in ((N1, "calc/more.py", tdd_project.STUB), (N3, "calc/more.py", tdd_project.CODE)):
        work = everything["inherited"][node]
        assert work["machine"] == "one"
        assert git(repo.path, "cat-file", "-t", work["output"]).strip() == b"blob"
        tree = saved_state(repository, work["checkpoint"]).visible_tree
        assert git(repo.path, "show", f"{tree}:{path}").decode() == text
    # As far as it had come.
    for step, nodes, retries in ((1, {N1}, 0), (2, {N1}, 0), (3, {N1, N3}, 0), (4, {N1, N3}, 0), (5, {N1, N3}, 1)):
        found = find(changed(repo, there, until(step)))
        assert (found["inherited"].keys(), found["retry_count"]) == (nodes, retries), step
    # Of tests that the model was not able to write, and of code for other tests, there is nothing.
    assert find(changed(repo, there, lambda events: _failing(until(1)(events), 1))) == {}
    only_tests = find(changed(repo, there, lambda events: _failing(until(3)(events), 3)))
    assert only_tests["inherited"].keys() == {N1}
    for what, at in _bad(repo, there, base).items():
        assert find(at) == {}, what
    assert find(there, base=repo.text("rev-parse", "HEAD~1")) == {}


def _failing(events: Events, n: int) -> Events:
    is_end = [each["event"] == "step-ended" and each["n"] == n for each in events]
    return [{**each, "outcome": "failed"} if last else each for each, last in zip(events, is_end, strict=True)]


def _bad(repo: Repo, there: Elsewhere, base: str) -> dict[str, Elsewhere]:
    """What nothing is taken over of."""
    other = repo.text("rev-parse", "HEAD~1")

    def with_tool(events: Events) -> Events:
        return [{**each, "tool": "tdd"} if each["event"] == "begun" else each for each in events]

    def with_checkpoint(events: Events) -> Events:
        return [{**each, "checkpoint": other} if each["event"] == "step-ended" else each for each in events]

    return {
        "another kind of run": changed(repo, there, with_tool),
        "checkpoints that its timeline does not have": changed(repo, there, with_checkpoint),
        "no steps": changed(repo, there, lambda events: events[:1]),
        "no events": changed(repo, there, lambda _: []),
        "a torn record": with_record(repo, there, b"{\n"),
        "values of other types": changed(repo, there, lambda events: [{**each, "n": []} for each in events]),
        "evidence that is no tree": there._replace(evidence=base),
        "no evidence": there._replace(evidence=f"{repo.text('hash-object', '-t', 'tree', '/dev/null')}"),
        "a timeline that is none": there._replace(timeline=base),
    }
