"""A run whose evidence could not be sealed when it ended, or when it was accepted, is not stuck: the next command does
it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError
from git_agentos.run import accept, commands, evidence_store, query
from tests.support.repo import Repo
from tests.support.runs import context_of, events, start


def unsealed(repo: Repo, code: int = 0, **fields: str) -> Path:
    """A run that has ended, and has a folder where its manifest should be; that folder."""
    place = repo.path / ".agentos/runs/T-1/manifest.json"
    with pytest.raises(AgentosError, match=r"manifest\.json") as caught:
        start(repo, f"echo > new; mkdir -p '{place}/x'", validate=[f"exit {code}"], run_id="T-1", guard=False, **fields)
    state = "failed" if code else "passed"
    assert f"the run has ended: {state}; git agentos run resume T-1 seals its evidence" in str(caught.value.hint)
    assert events(repo, "T-1")[-1]["event"] == "ended"
    assert commands.show(context_of(repo), "T-1").state == state
    return place


@pytest.mark.parametrize("still_there", [False, True])
def test_unsealed_run_is_accepted(repo: Repo, still_there: bool) -> None:
    place = unsealed(repo)
    if not still_there:
        (place / "x").rmdir()
        place.rmdir()
    run, _ = accept.accept(context_of(repo), "T-1")
    problems = evidence_store.verify(context_of(repo), "T-1").problems
    assert (run.state, repo.exists("new"), problems) == (
        "accepted",
        True,
        [],
    )


def test_unsealed_run_is_resumed(repo: Repo) -> None:
    unsealed(repo)
    assert query.interrupted(context_of(repo)) == []
    assert commands.resume(context_of(repo), "T-1").state == "passed"
    assert evidence_store.verify(context_of(repo), "T-1").problems == []
    with pytest.raises(RunError, match="has ended: passed"):
        commands.resume(context_of(repo), "T-1")
    assert accept.accept(context_of(repo), "T-1")[0].state == "accepted"


def _resume(context: OpenWorktree) -> None:
    assert commands.resume(context, "T-1").state == "failed"


def _cancel(context: OpenWorktree) -> None:
    with pytest.raises(RunError, match="has ended: failed"):
        commands.cancel(context, "T-1")


def _roll_back(context: OpenWorktree) -> None:
    assert commands.rollback(context, "T-1", "pre_run").point == "pre_run"


@pytest.mark.parametrize("finish", [_resume, _cancel, _roll_back])
def test_unsealed_failed_run(repo: Repo, finish: Callable[[OpenWorktree], None]) -> None:
    unsealed(repo, 1)
    finish(context_of(repo))
    assert commands.show(context_of(repo), "T-1").state == "failed"
    assert evidence_store.verify(context_of(repo), "T-1").problems == []


DRIVER = """#!/bin/sh
# In memory first, then again: then the branch is about to move.
if [ -e $DIR/once ]; then rm -r $PLACE; mkdir $PLACE; fi
touch $DIR/once
git merge-file -q $1 $2 $3
"""


def test_merged_run_that_could_not_be_sealed(repo: Repo) -> None:
    repo.write("long.txt", "".join(f"{n}\n" for n in range(20)))
    repo.write(".gitattributes", "long.txt merge=mine\n")
    repo.commit("long")
    run = start(repo, "sed -i s/^3$/three/ long.txt", validate=["true"], run_id="T-1", guard=False)
    place = Path(run.evidence, "manifest.json")
    driver = repo.scratch / "driver"
    driver.write_text(DRIVER.replace("$DIR", str(repo.scratch)).replace("$PLACE", str(place)))
    driver.chmod(0o755)
    repo.config("merge.mine.driver", f"{driver} %A %O %B")
    repo.write("long.txt", repo.read("long.txt").replace(b"15\n", b"fifteen\n"))
    before = repo.commit("meanwhile")
    with pytest.raises(RunError, match="'main' was moved from") as caught:
        accept.accept(context_of(repo), "T-1")
    now = repo.oid("main")
    assert now != before
    assert before[:12] in str(caught.value)
    assert now[:12] in str(caught.value)
    assert "nothing was changed" not in str(caught.value) + str(caught.value.hint)
    assert "git agentos run accept T-1 finishes that" in str(caught.value.hint)
    done, made = accept.accept(context_of(repo), "T-1")
    assert (done.state, done.merge_commit, made.merged, made.target) == ("accepted", now, False, "main")
    assert (repo.oid("main"), evidence_store.verify(context_of(repo), "T-1").problems) == (now, [])
    with pytest.raises(RunError, match="was accepted already"):
        accept.accept(context_of(repo), "T-1")
