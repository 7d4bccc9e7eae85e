"""`forget --secret` in the evidence of runs: it is gone, and what is left is as consistent, and verified, as before."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from git_agentos.retention import pending
from git_agentos.run import accept, evidence_again, evidence_store, lock, sealing
from git_agentos.run.events import REWRITTEN
from tests.support.forgotten import holders
from tests.support.repo import Repo
from tests.support.runs import context_of, events, start, worktree
from tests.support.tool import run, run_ok

SECRET = "Blue-Horse_77"


def forget(repo: Repo, secret: str = SECRET) -> Any:
    done = run(repo.path, "forget", "--secret", "--json", stdin=secret.encode())
    assert done.code == 0, done
    return done.json


def _notes() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _verify(repo: Repo, run_id: str) -> sealing.Verification:
    return evidence_store.verify(context_of(repo), run_id)


def test_a_sealed_run(repo: Repo) -> None:
    made = start(repo, f"echo {SECRET} > secret.txt; echo {SECRET}; echo work > work.txt", run_id="r-1", cleanup=False)
    before = _verify(repo, "r-1")
    assert (before.ok, before.rewritten) == (True, False)
    assert [each for each in holders(repo, SECRET.encode()) if "stdout" in each or "spec.json" in each]
    worktree(made).path.joinpath("secret.txt").unlink()
    done = forget(repo)
    assert done["unreachable"] == []
    assert holders(repo, SECRET.encode(), _notes()) == []
    after = _verify(repo, "r-1")
    assert (after.problems, after.ok, after.rewritten) == ([], True, True)
    assert after.final_checkpoint != before.final_checkpoint
    assert (after.files, after.commits) == (before.files, before.commits)
    assert [each["event"] for each in events(repo, "r-1")][-1] == REWRITTEN
    shown = run_ok(repo.path, "run", "show", "r-1")
    assert (shown["state"], shown["problems"]) == (made.state, [])
    assert "(forgotten)" in run(repo.path, "run", "logs", "r-1").out.decode()
    assert run(repo.path, "run", "verify", "r-1").out.decode().count("rewritten") == 1
    # The copy in git is the same: a folder that is lost is rebuilt from it.
    shutil.rmtree(made.evidence)
    run_ok(repo.path, "doctor", "--fix")
    assert _verify(repo, "r-1").ok
    run_ok(repo.path, "rollback", "r-1")
    assert not worktree(made).path.joinpath("work.txt").exists()


def test_evidence_that_does_not_have_it_stays(repo: Repo) -> None:
    made = start(repo, "printf '%s-%s' Blue Horse_77 > secret.txt", run_id="r-1", cleanup=False)
    record = Path(made.evidence, "events.jsonl").read_bytes()
    worktree(made).path.joinpath("secret.txt").unlink()
    done = forget(repo, "no-such-secret-anywhere")
    assert done["rewritten"] == []
    assert Path(made.evidence, "events.jsonl").read_bytes() == record
    assert not _verify(repo, "r-1").rewritten
    forget(repo)
    assert holders(repo, SECRET.encode(), _notes()) == []
    after = _verify(repo, "r-1")
    assert (after.problems, after.rewritten) == ([], True)


def test_what_was_tampered_with_stays_so(repo: Repo) -> None:
    made = start(repo, f"echo {SECRET}", run_id="r-1", cleanup=False)
    record = Path(made.evidence, "events.jsonl")
    lines = record.read_bytes().splitlines(keepends=True)
    body = json.loads(lines[1])
    body["at"] = "2001-01-01T00:00:00.000Z"
    lines[1] = json.dumps(body, separators=(",", ":")).encode() + b"\n"
    record.write_bytes(b"".join(lines))
    assert not _verify(repo, "r-1").ok
    forget(repo)
    assert holders(repo, SECRET.encode(), _notes()) == []
    assert not _verify(repo, "r-1").ok


def test_twice(repo: Repo) -> None:
    start(repo, f"echo {SECRET}; echo another-secret", run_id="r-1", cleanup=False)
    forget(repo)
    forget(repo, "another-secret")
    assert holders(repo, b"another-secret", _notes()) == []
    after = _verify(repo, "r-1")
    assert (after.problems, after.ok) == ([], True)
    assert [each["event"] for each in events(repo, "r-1")].count(REWRITTEN) == 2


def test_a_run_that_was_cleaned_up(repo: Repo) -> None:
    start(repo, f"echo {SECRET} > secret.txt", run_id="r-1", cleanup=True)
    forget(repo)
    assert holders(repo, SECRET.encode(), _notes()) == []
    after = _verify(repo, "r-1")
    assert (after.problems, after.ok) == ([], True)


def test_a_run_that_goes_on_stays_and_is_named(repo: Repo) -> None:
    made = start(repo, f"echo {SECRET}", run_id="r-1", cleanup=False)
    record = Path(made.evidence, "events.jsonl").read_bytes()
    tip = repo.oid("refs/agentos/timelines/run-r-1")
    with lock.hold(context_of(repo).location, "r-1"):
        done = forget(repo)
    assert [each for each in done["unreachable"] if "run 'r-1', which goes on: " in each]
    assert Path(made.evidence, "events.jsonl").read_bytes() == record
    assert repo.oid("refs/agentos/timelines/run-r-1") == tip
    assert _verify(repo, "r-1").ok
    assert not [each for each in forget(repo)["unreachable"] if "goes on" in each]
    assert holders(repo, SECRET.encode(), _notes()) == []


def test_a_note_that_is_not_signed_replaces_nothing(repo: Repo) -> None:
    """Somebody who can write to the git directory would have a shorter record believed."""
    made = start(repo, "echo work > work.txt", run_id="r-1", cleanup=False)
    lines = Path(made.evidence, "events.jsonl").read_bytes().splitlines(keepends=True)
    files = evidence_again.read(context_of(repo).location, "r-1")
    tree = evidence_again.write(context_of(repo).location, {**files, "events.jsonl": b"".join(lines[:3])})
    for code in ("-", "0" * 64):
        pending.note(context_of(repo).location, f"evidence r-1 {code}", [tree])
        run_ok(repo.path, "forget", "--keep-last", "9")
        assert Path(made.evidence, "events.jsonl").read_bytes() == b"".join(lines)
        assert _verify(repo, "r-1").ok


def test_what_was_validated_is_accepted(repo: Repo) -> None:
    start(
        repo,
        f"echo {SECRET}; echo work > work.txt",
        validate=[f"echo {SECRET}; test -s work.txt"],
        run_id="r-1",
        cleanup=False,
    )
    forget(repo)
    assert holders(repo, SECRET.encode(), _notes()) == []
    assert accept.accept(context_of(repo), "r-1").run.state == "accepted"
    after = _verify(repo, "r-1")
    assert (after.problems, after.rewritten) == ([], True)
