"""What is kept of a run: written so that a kill leaves no half, read as it was written, and sealed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_agentos import GitWorktreeWorkspaceService, open_workspace
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, RepositoryError, RunError, StorageError, UsageError
from git_agentos.git import trees
from git_agentos.run import events, evidence_store, lock, runner, sealing
from git_agentos.run.events import Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.snapshot import run_context
from git_agentos.worktree import removal
from tests.support.repo import Repo

TOKEN = "ghp_" + "a1B2" * 9


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def folded(kept: Evidence, *, alive: bool = False) -> Run:
    return events.state_of(kept.run_id, kept.events()).run(kept.folder, alive=alive)


@pytest.fixture
def kept(tmp_path: Path) -> Evidence:
    folder = tmp_path / "evidence"
    folder.mkdir()
    return Evidence(str(folder), "r")


# -- writing and reading -------------------------------------------------------------------------------------------


def test_events_are_read_as_they_were_written(kept: Evidence) -> None:
    assert kept.events() == []
    kept.event("begun", task="T-1", kind="x")
    kept.event("ended", reason="bad\udcff \u2028 name", state="failed")
    first, second = kept.events()
    assert {**first, "at": ""} == {"event": "begun", "at": "", "task": "T-1", "kind": "x"}
    assert {**second, "at": ""} == {"event": "ended", "at": "", "reason": "bad\udcff \u2028 name", "state": "failed"}
    assert first["at"].endswith("Z")


def test_secrets_are_not_kept(kept: Evidence) -> None:
    kept.event("step-begun", n=1, command=f"curl -H 'Authorization: Bearer {TOKEN}'", nested={"password": "hunter2!"})
    data = kept.read("events.jsonl") or b""
    assert TOKEN.encode() not in data
    assert b"hunter2" not in data


@pytest.mark.parametrize("torn", [b"{", b'{"event":"ended","at":"x"}', b"\xff" * 5000, b"\0" * 3])
def test_a_torn_last_line_is_no_event(kept: Evidence, torn: bytes) -> None:
    kept.event("begun")
    path = Path(kept.folder, "events.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert [each["event"] for each in kept.events()] == ["begun"]
    kept.event("ended")
    assert [each["event"] for each in kept.events()] == ["begun", "ended"]
    assert path.read_bytes().startswith(whole)
    assert torn not in path.read_bytes() or torn == b"{"


@pytest.mark.parametrize("line", [b"{}\n", b"x\n", b'{"event": 1, "at": "x"}\n', b"[]\n", b"\n"])
def test_a_damaged_line_is_an_error(kept: Evidence, line: bytes) -> None:
    kept.event("begun")
    path = Path(kept.folder, "events.jsonl")
    path.write_bytes(line + path.read_bytes())
    with pytest.raises(RunError, match=r"line 1 of 'events\.jsonl'"):
        kept.events()


def test_a_file_is_written_once(kept: Evidence) -> None:
    kept.write_once("spec.json", "one\n")
    kept.write_once("spec.json", "one\n")
    with pytest.raises(RunError, match="never written again"):
        kept.write_once("spec.json", "two\n")
    assert kept.read("spec.json") == b"one\n"
    assert kept.read("other") is None


def test_evidence_reads_and_writes_nothing_outside(kept: Evidence, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    os.symlink(tmp_path / "secret", os.path.join(kept.folder, "link"))
    with pytest.raises(RunError, match="symbolic link"):
        kept.read("link")
    for name in ("../secret", "/etc/passwd", "steps/../../secret", ""):
        with pytest.raises(RunError, match="not in the evidence"):
            kept.read(name)
    kept.put("link", b"mine\n")
    assert (tmp_path / "secret").read_text() == "secret\n"
    assert kept.read("link") == b"mine\n"
    os.unlink(os.path.join(kept.folder, "link"))
    os.symlink(tmp_path / "secret", os.path.join(kept.folder, "events.jsonl"))
    with pytest.raises(StorageError, match="symbolic links"):
        kept.event("begun")
    assert (tmp_path / "secret").read_text() == "secret\n"


def test_a_step_that_is_done_again(kept: Evidence) -> None:
    name = kept.step_folder(7, "agent")
    assert name == "steps/007-agent"
    assert kept.step_folder(7, "agent") == name
    for again in ("first", "second", "third"):
        kept.step_folder(7, "agent")
        kept.put(f"{name}/stdout", again.encode())
    assert [path for path, _ in kept.files()] == [
        "steps/007-agent.1/stdout", "steps/007-agent.2/stdout", "steps/007-agent/stdout",
    ]  # fmt: skip
    assert kept.read("steps/007-agent.1/stdout") == b"first"
    assert kept.read("steps/007-agent/stdout") == b"third"


# -- where it is ---------------------------------------------------------------------------------------------------


def test_each_run_has_its_folder(repo: Repo) -> None:
    location = context_of(repo).location
    assert evidence_store.ids(location) == []
    with pytest.raises(RunError, match="no run 'b'"):
        evidence_store.open_existing(location, "b")
    for name in ("b", "a"):
        evidence_store.create(location, name).event("begun")
        time.sleep(0.002)  # a moment is written to the millisecond
    assert evidence_store.ids(location) == ["b", "a"]
    assert evidence_store.open_existing(location, "a").folder == str(repo.path / ".agentos/runs/a")
    (repo.path / ".agentos/runs/no run of ours").mkdir()
    evidence_store.create(location, "empty")
    assert evidence_store.create(location, "empty").events() == []  # what a killed process left
    assert evidence_store.ids(location) == ["empty", "b", "a"]
    with pytest.raises(RunError, match="a run 'a' already"):
        evidence_store.create(location, "a")
    assert repo.git("status", "--porcelain") == b""
    for bad in ("", "..", "a/b", "x" * 61, "-a"):
        with pytest.raises(UsageError):
            evidence_store.create(location, bad)


@pytest.mark.parametrize("planted", [".agentos", ".agentos/runs", ".agentos/runs/r"])
def test_planted_links_are_refused(repo: Repo, tmp_path: Path, planted: str) -> None:
    location = context_of(repo).location
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "runs/r").mkdir(parents=True)
    (elsewhere / "r").mkdir()
    path = repo.path / planted
    path.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(elsewhere, path)
    with pytest.raises((AgentosError, RepositoryError)):
        evidence_store.open_existing(location, "r")
    with pytest.raises(AgentosError):
        evidence_store.create(location, "r")
    assert sorted(os.listdir(elsewhere)) == ["r", "runs"]


def test_the_fingerprint_has_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_VARIABLE", "its value")
    told = runner._fingerprint()
    assert "SOME_VARIABLE" in told["variables"]
    assert "its value" not in json.dumps(dict(told))
    assert told["git"][0].isdigit()


# -- who is at work ------------------------------------------------------------------------------------------------


def test_run_is_locked_by_one_process(repo: Repo) -> None:
    location = context_of(repo).location
    assert lock.holder(location, "r") is None
    with lock.hold(location, "r"):
        assert lock.holder(location, "r") == os.getpid()
        with (
            pytest.raises(LockedError, match=rf"run 'r' is running \(process {os.getpid()}\)"),
            lock.hold(location, "r"),
        ):
            pass
        with lock.hold(location, "other"):
            pass
    assert lock.holder(location, "r") is None
    with pytest.raises(LockedError, match="mine"), lock.hold(location, "r"):
        raise LockedError("mine")


# -- the run that the events tell ----------------------------------------------------------------------------------


def tell(kept: Evidence, *lines: tuple[str, dict[str, Any]]) -> Run:
    for kind, fields in lines:
        kept.event(kind, **fields)
    return folded(kept)


def test_run_is_read_from_its_events(kept: Evidence) -> None:
    assert kept.events() == []
    with pytest.raises(RunError, match="never begun"):
        folded(kept)
    begun = {"task": "T", "max_attempts": 3, "on_failure": "rollback", "guard": False, "protected": ["main"]}
    run = tell(kept, ("begun", begun), ("attempt", {"number": 1}))
    assert (run.state, run.reason, run.task_id, run.max_attempts) == ("interrupted", "its process is gone", "T", 3)
    assert (run.on_failure, run.guarded, run.protected, run.context) == ("rollback", False, ["main"], None)
    assert folded(kept, alive=True).state == "running"
    step = {"n": 1, "kind": "agent", "attempt": 1, "command": "x", "checkpoint": "c1", "stdout": "steps/1/stdout"}
    run = tell(kept, ("step-begun", step), ("unheard-of", {"n": 9}), ("interrupted", {"signal": "SIGTERM"}))
    assert (run.state, run.reason) == ("interrupted", "interrupted by SIGTERM")
    assert [(each.n, each.outcome, each.stdout, each.checkpoint_before) for each in run.steps] == [
        (1, None, "steps/1/stdout", "c1")
    ]
    ended = {"n": 1, "outcome": "failed", "exit_code": 3, "seconds": 0.5, "checkpoint": "c2", "changed": 2}
    run = tell(kept, ("resumed", {"step": 1}), ("step-begun", {**step, "checkpoint": "c1b"}), ("step-ended", ended))
    assert [(each.n, each.outcome, each.exit_code, each.checkpoint_after) for each in run.steps] == [
        (1, "failed", 3, "c2")
    ]
    run = tell(
        kept,
        ("attempt-ended", {"number": 1, "outcome": "failed", "reason": "it did"}),
        ("rolled-back", {"point": "pre_run", "checkpoint": "c0", "saved": "c3"}),
    )
    assert (run.rolled_back_to, run.attempts[0].outcome, run.attempts[0].steps) == ("pre_run", "failed", [1])
    run = tell(kept, ("attempt", {"number": 2}), ("step-begun", {**step, "n": 2, "attempt": 2, "checkpoint": "c4"}))
    assert (run.rolled_back_to, run.attempts[1].steps) == (None, [2])
    run = tell(kept, ("step-ended", {**ended, "n": 2, "outcome": "ok"}), ("ended", {"state": "passed", "reason": None}))
    assert (run.state, folded(kept, alive=True).state) == ("passed", "passed")
    run = tell(kept, ("accepted", {"into": "main", "merge_commit": "m"}), ("sealed", {"checkpoint": "c9"}))
    assert (run.state, run.accepted_into, run.merge_commit, run.final_checkpoint) == ("accepted", "main", "m", "c9")
    assert events.state_of("r", kept.events()).points == {1: "c1b", 2: "c4"}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("attempt", {}),
        ("step-begun", {"n": 1}),
        ("step-ended", {"n": 4, "outcome": "ok"}),
        ("ended", {}),
        ("prepared", {"context": {"run_id": "r"}}),
        ("prepared", {"context": []}),
        ("step-begun", {"n": "x", "kind": "agent", "attempt": [1]}),
        ("begun", {"protected": 5}),
    ],
)
def test_events_of_no_run(kept: Evidence, kind: str, fields: dict[str, Any]) -> None:
    kept.event("begun")
    kept.event(kind, **fields)
    with pytest.raises(RunError):
        folded(kept)


_NAMES = st.sampled_from(["begun", "attempt", "step-begun", "step-ended", "ended", "interrupted", "resumed", "sealed"])
_FIELDS = {"number": 1, "n": 1, "kind": "agent", "attempt": 1, "state": "passed", "outcome": "ok", "checkpoint": "c"}


@given(st.lists(_NAMES, max_size=12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_prefix_of_a_record_is_a_run_or_an_error(names: list[str], alive: bool) -> None:
    told = [{"event": name, "at": f"t{n}", **_FIELDS} for n, name in enumerate(names)]
    try:
        run = events.state_of("r", told).run("/e", alive=alive)
    except RunError:
        return
    if run.state == "running":
        assert alive
    if "ended" not in names:
        assert run.state == ("running" if alive else "interrupted")
    assert {n for each in run.attempts for n in each.steps} == {each.n for each in run.steps}


# -- sealed --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sealed(repo: Repo) -> Evidence:
    """A run with one step, sealed."""
    context = context_of(repo)
    service = GitWorktreeWorkspaceService(context, task_id="T-1")
    run = service.prepare_pre_run(run_id="r")
    there = Repo(Path(run.worktree_path))
    kept = evidence_store.open_existing(context.location, "r")
    kept.event("attempt", number=1)
    kept.event("step-begun", n=1, kind="agent", attempt=1, command="x", checkpoint=service.mark_step(1))
    there.write("new.txt", "new\n")
    there.commit("work")
    seen = service.snapshot()
    name = kept.step_folder(1, "agent")
    kept.put(f"{name}/stdout", b"said\n" * 1000)
    kept.put(f"{name}/stderr", b"")
    kept.put(f"{name}/snapshot.json", json.dumps({"head_sha": seen.head_sha, "commits": seen.commits}).encode())
    kept.put("feedback-1.txt", b"no good\n")
    kept.put("spec.json", b"{}\n")
    kept.event("step-ended", n=1, outcome="ok", exit_code=0, checkpoint=seen.checkpoint)
    kept.event("ended", state="passed", reason=None)
    kept.put("steps/left.new", b"left by a put that was killed")
    sealing.seal(run_context(context, run), kept, folded(kept))
    return kept


def test_a_sealed_run(repo: Repo, sealed: Evidence) -> None:
    context = context_of(repo)
    found = evidence_store.verify(context, "r")
    assert (found.problems, found.ok, found.files) == ([], True, 7)
    last = sealed.events()[-1]
    assert (last["event"], last["checkpoint"], last["manifest_sha256"]) == (
        "sealed", found.final_checkpoint, found.manifest_sha256,
    )  # fmt: skip
    made = format.read(context.repository, last["checkpoint"])
    assert (made.trigger, made.run_id, made.task_id, made.timeline) == ("task_complete", "r", "T-1", "run-r")
    assert made.meta == {"manifest_sha256": found.manifest_sha256, "state": "passed"}
    manifest = json.loads(sealed.read("manifest.json") or b"")
    assert {row["path"]: row["role"] for row in manifest["files"]} == {
        "workspace_context.json": "workspace_context",
        "events.jsonl": "events",
        "spec.json": "spec",
        "feedback-1.txt": "feedback",
        "steps/001-agent/stdout": "stdout",
        "steps/001-agent/stderr": "stderr",
        "steps/001-agent/snapshot.json": "snapshot",
    }
    assert found.commits == len(
        {repo.oid(), *(event[key] for event in sealed.events() for key in ("checkpoint",) if key in event)}
        | {Repo(Path(evidence_store.context_of(sealed).worktree_path)).oid()}
    )
    extra = context.repository.commit(format.open_checkpoint(context.repository, made.id).metadata_commit).tree
    entry = trees.find(context.repository, extra, b"runs/r")
    assert entry is not None
    carried = {os.fsdecode(path): oid for path, (_, oid) in trees.walk(context.repository, entry[1])}
    assert carried.keys() == {row["path"] for row in manifest["files"]} | {"manifest.json"}
    assert context.repository.blob(carried["steps/001-agent/stdout"]) == b"said\n" * 1000
    told = evidence_store.sealed_events(context, "r")
    assert told == sealed.events()[:-1]
    assert repo.git("fsck", "--strict", "--no-dangling") == b""


def test_later_events_are_sealed_again(repo: Repo, sealed: Evidence) -> None:
    context = context_of(repo)
    first = evidence_store.verify(context, "r")
    sealed.event("rolled-back", point="pre_run", checkpoint=first.final_checkpoint, saved=None)
    found = evidence_store.verify(context, "r")
    assert found.problems == ["'events.jsonl' goes on after the last seal: 1 more"]
    run = evidence_store.context_of(sealed)
    again = sealing.seal(run_context(context, run), sealed, folded(sealed))
    found = evidence_store.verify(context, "r")
    assert (found.ok, found.final_checkpoint) == (True, again)
    assert again != first.final_checkpoint
    # an archived worktree leaves its run as it is, and has all of its evidence
    removal.archive(context, "run-r")
    found = evidence_store.verify(context, "r")
    assert (found.problems, found.final_checkpoint) == ([], again)
    newest = timeline.newest(context.repository, "run-r")
    assert newest is not None
    for name, _ in sealed.files():
        data = format.read_attachment(context.repository, newest.checkpoint, os.fsencode(f"runs/r/{name}"))
        assert data == sealed.read(name), name
    told = sealed.events()
    shutil.rmtree(sealed.folder)
    assert evidence_store.sealed_events(context, "r") == told[:-1]
    assert evidence_store.verify(context, "r").problems[0] == f"the folder '{sealed.folder}' is missing"


def _edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return tamper


def _forge(folder: Path) -> None:
    """Change a file, and the manifest so that it fits."""
    (folder / "steps/001-agent/stdout").write_bytes(b"all is well\n")
    kept = Evidence(str(folder), "r")
    body = json.loads(kept.read("manifest.json") or b"")
    body["files"] = [sealing._row(kept, row["path"]) if row["role"] == "stdout" else row for row in body["files"]]
    (folder / "manifest.json").write_text(json.dumps(body, indent=1) + "\n")


def _forge_seal(folder: Path) -> None:
    """The same, and the event that tells of the manifest's hash."""
    _forge(folder)
    data = (folder / "events.jsonl").read_bytes()
    old = json.loads(data.splitlines()[-1])["manifest_sha256"].encode()
    new = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest().encode()
    (folder / "events.jsonl").write_bytes(data.replace(old, new))


def _link(folder: Path) -> None:
    (folder / "spec.json").rename(folder.parent / "kept")
    (folder / "spec.json").symlink_to("../kept")


def _without_lines(n: int) -> Callable[[bytes], bytes]:
    return lambda data: b"".join(data.splitlines(keepends=True)[:-n])


STDOUT = "steps/001-agent/stdout"
TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed": (_edit(STDOUT, lambda data: data[:-2] + b"X\n"), f"'{STDOUT}' was changed"),
    "longer": (_edit("spec.json", lambda data: data + b" "), "'spec.json' was changed"),
    "emptied": (_edit("feedback-1.txt", lambda _: b""), "'feedback-1.txt' was changed"),
    "missing": (lambda folder: (folder / "steps/001-agent/stderr").unlink(), "'steps/001-agent/stderr' is missing"),
    "no steps": (lambda folder: shutil.rmtree(folder / "steps"), "'steps/001-agent/stdout' is missing"),
    "added": (lambda folder: (folder / "steps/001-agent/more").write_text(""), "'steps/001-agent/more' was added"),
    "half-written": (lambda folder: (folder / "spec.json.new").write_text(""), "'spec.json.new' was added"),
    "a link": (_link, "'spec.json' is no regular file"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "'manifest.json' is missing"),
    "no manifest to speak of": (_edit("manifest.json", lambda _: b"{}"), "'manifest.json' is damaged"),
    "forged": (_forge, "'manifest.json' is not the one"),
    "forged with its seal": (_forge_seal, "'manifest.json' is not the one"),
    "cut off": (_edit("events.jsonl", _without_lines(3)), "'events.jsonl' was cut off"),
    "without its seal": (_edit("events.jsonl", _without_lines(1)), "does not have the seal"),
    "cut off in a line": (_edit("events.jsonl", lambda data: data[:-9]), "ends in the middle of a line"),
    "no events": (lambda folder: (folder / "events.jsonl").unlink(), "'events.jsonl' is missing"),
    "another story": (_edit("events.jsonl", lambda data: data.replace(b'"ok"', b'"no"')), "'events.jsonl' was changed"),
    "a damaged line": (_edit("events.jsonl", lambda data: b"\n" + data[1:]), "line 1 of 'events.jsonl'"),
    "another base": (
        _edit("workspace_context.json", lambda data: data.replace(b'"base_ref": "main"', b'"base_ref": "mine"')),
        "'workspace_context.json' was changed",
    ),
    "no folder": (shutil.rmtree, "is missing"),
}  # fmt: skip


def test_every_edit_breaks_the_seal(repo: Repo, sealed: Evidence, tmp_path: Path) -> None:
    context = context_of(repo)
    folder, aside = Path(sealed.folder), tmp_path / "aside"
    shutil.copytree(folder, aside)
    for name, (tamper, told) in TAMPERED.items():
        tamper(folder)
        found = evidence_store.verify(context, "r")
        assert not found.ok, name
        assert any(told in problem for problem in found.problems), (name, found.problems)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(aside, folder)
        assert evidence_store.verify(context, "r").problems == [], name


def test_commits_that_are_gone_are_seen(repo: Repo, sealed: Evidence) -> None:
    context = context_of(repo)
    work = Repo(Path(evidence_store.context_of(sealed).worktree_path)).oid()
    for oid, told in (
        (work, f"the commit {work} "),
        (evidence_store.verify(context, "r").final_checkpoint or "", "timeline"),
    ):
        path = repo.loose_object(oid)
        data = path.read_bytes()
        path.unlink()
        found = evidence_store.verify(context_of(repo), "r")
        assert not found.ok
        assert any(told in problem for problem in found.problems), found.problems
        path.write_bytes(data)
    assert evidence_store.verify(context_of(repo), "r").ok


def test_a_run_that_is_not_sealed(repo: Repo) -> None:
    context = context_of(repo)
    with pytest.raises(RunError, match="no run 'r'"):
        evidence_store.verify(context, "r")
    GitWorktreeWorkspaceService(context).prepare_pre_run(run_id="r")
    found = evidence_store.verify(context, "r")
    assert (found.ok, found.manifest_sha256, found.final_checkpoint) == (False, None, None)
    assert found.problems == ["the run is not sealed: no checkpoint carries its evidence"]


def test_sealed_without_a_worktree(repo: Repo, sealed: Evidence) -> None:
    """The checkpoint has the last state that is known, and what is in another worktree does not get into it."""
    context = context_of(repo)
    before = timeline.newest(context.repository, "run-r")
    assert before is not None
    shutil.rmtree(evidence_store.context_of(sealed).worktree_path)
    repo.write("mine.txt", "not the run's\n")
    run = folded(sealed)
    oid = sealing.seal(context, sealed, run)
    assert evidence_store.verify(context, "r").ok
    state = format.read_state(context.repository, oid)
    old = format.read_state(context.repository, before.checkpoint)
    assert (state.head, state.tree, state.untracked_tree) == (old.head, old.tree, old.untracked_tree)
    assert format.read(context.repository, oid).worktree_path == evidence_store.context_of(sealed).worktree_path
