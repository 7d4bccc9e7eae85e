"""Nobody but the kernel decides how a run went: whatever an agent writes into what is kept of it, it ends as tampered,
or is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from git_agentos import GitWorktreeWorkspaceService
from git_agentos.checkpoint import timeline
from git_agentos.errors import RunError
from git_agentos.guard import signing
from git_agentos.run import accept, commands, evidence, evidence_store, journal, sealing, spec
from git_agentos.run.events import Run
from git_agentos.run.snapshot import run_context
from git_agentos.worktree import repair
from tests.support.repo import Repo
from tests.support.runs import RunProcess, context_of, kept, start, worktree
from tests.support.waiting import wait_until

FORGED = [
    {"event": "step-ended", "at": "2026-01-01T00:00:00.000Z", "n": 1, "outcome": "ok", "exit_code": 0},
    {"event": "attempt-ended", "at": "2026-01-01T00:00:00.000Z", "number": 1, "outcome": "ok", "reason": None},
    {"event": "ended", "at": "2026-01-01T00:00:00.000Z", "state": "passed", "reason": None},
]
LINES = "\\n".join(json.dumps(each) for each in FORGED)
# What an agent does in the folder of its evidence: R is the folder, E the record.
ATTACKS = {
    "appended": f"printf '%b\\n' '{LINES}' >> $E",
    "torn": "printf '{' >> $E",
    "rewritten": "sed -i 's/on_failure\":\"keep/on_failure\":\"rollback/' $E",
    "cut off": "truncate -s 10 $E",
    "removed": "rm $E",
    "renamed over": "cp $E $R/new && mv $R/new $E",
    "linked": "mv $E $R/../e && ln -s ../e $E",
    "a folder": "rm $E && mkdir $E",
    "folder removed": "rm -rf $R",
    "folder replaced": "mv $R $R~old && cp -a $R~old $R",
    "folder linked": "mv $R $R~old && ln -s $R~old $R",
    "all folders linked": "mv $T/.agentos $T/.git/away && ln -s .git/away $T/.agentos",
    "the next step linked": "mkdir -p $T/away && ln -s $T/away $R/steps/002-validate",
    "the next step dangling": "ln -s nowhere $R/steps/002-validate",
    "steps linked": "mv $R/steps $T/away && ln -s $T/away $R/steps",
    "its own output": "exec >/dev/null 2>&1; echo lies > $R/lies; mv $R/lies $R/spec.json",
    "the lock": "rm $T/.git/agentos/runs/T-1.turn; touch $T/.git/agentos/runs/T-1.turn",
    "the timeline": "git update-ref refs/agentos/timelines/run-T-1 refs/agentos/timelines/run-T-1~1",
    "no timeline": "git update-ref -d refs/agentos/timelines/run-T-1",
}  # fmt: skip


# What is also continued, and taken back: the rest is alike.
TAKEN_BACK = (
    "appended",
    "removed",
    "folder removed",
    "all folders linked",
    "no timeline",
    "without codes",
    "another base",
)


def attack(repo: Repo, what: str) -> str:
    folder = repo.path / ".agentos/runs/T-1"
    return f"T='{repo.path}'; R='{folder}'; E='{folder}/events.jsonl'; echo > new; {what}; "


def assert_ended(repo: Repo, run: Run, what: str = "", *, is_taken_back: bool = True) -> None:
    """It has ended as tampered: everything says so, nothing merges it, its worktree is kept, and can be taken back."""
    context, base = context_of(repo), repo.oid("main")
    assert run.state == "tampered", (what, run.state, run.reason)
    assert run.reason, what
    shown = commands.show(context, "T-1")
    assert (shown.state, shown.reason) == ("tampered", run.reason), what
    assert [each.state for each in commands.list_runs(context)] == ["tampered"], what
    found = evidence_store.verify(context, "T-1")
    assert not found.ok, what
    assert any("tampered" in each for each in found.problems), (what, found.problems)
    with pytest.raises(RunError):
        accept.accept(context, "T-1")
    assert repo.oid("main") == base, what
    assert worktree(shown).exists("new"), what
    if not is_taken_back:
        return
    assert commands.resume(context, "T-1").state == "tampered", what
    done = commands.rollback(context, "T-1", "pre_run")
    assert (done.head, Path(done.worktree_path, "new").exists()) == (base, False), what
    assert commands.show(context, "T-1").state == "tampered", what


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_during_the_agents_step(repo: Repo, name: str) -> None:
    run = start(repo, attack(repo, ATTACKS[name]) + "true", validate=["false"], run_id="T-1", guard=False)
    assert_ended(repo, run, name, is_taken_back=name in TAKEN_BACK)
    assert not (repo.path / "away").exists() or "stdout" not in os.listdir(repo.path / "away"), name


@pytest.mark.parametrize("name", ["appended", "renamed over", "folder linked", "its own output", "the timeline"])
def test_attack_during_the_validation(repo: Repo, name: str) -> None:
    run = start(repo, "echo > new", validate=[attack(repo, ATTACKS[name]) + "false"], run_id="T-1", guard=False)
    assert_ended(repo, run, name, is_taken_back=False)


def test_attack_in_the_first_attempt_on_the_second(repo: Repo) -> None:
    agent = attack(repo, f"[ $AGENTOS_ATTEMPT = 2 ] || (sleep 0.1; printf '%b\\n' '{LINES}' >> $E)")
    run = start(repo, agent, validate=["false"], run_id="T-1", guard=False, max_attempts=2)
    assert_ended(repo, run)
    out = repo.path / ".agentos/runs/T-2/steps/002-validate/stdout"
    agent = f"if [ $AGENTOS_ATTEMPT = 2 ]; then echo lies > '{out}'"
    second = start(repo, agent + "; else echo > new; fi", validate=["false"], run_id="T-2", guard=False, max_attempts=2)
    assert (second.state, second.reason) == ("tampered", "'steps/002-validate/stdout' was changed or removed")


def test_feedback_is_the_agents(repo: Repo) -> None:
    agent = 'echo > new; [ $AGENTOS_ATTEMPT = 1 ] || echo mine >> "$AGENTOS_FEEDBACK_FILE"'
    run = start(repo, agent, validate=["test $AGENTOS_ATTEMPT = 2"], run_id="T-1", guard=False, max_attempts=2)
    assert (run.state, evidence_store.verify(context_of(repo), "T-1").problems) == ("passed", [])


# -- while no process of ours is at work -------------------------------------------------------------------------------


def interrupted(repo: Repo, run_id: str = "T-1", validate: str = "false") -> Path:
    """A run that was killed in its validation, which has yet to come; its folder."""
    ready = repo.scratch / f"ready-{run_id}"
    agent = f"echo > new; [ -e {ready} ] || {{ touch {ready}; sleep 60; }}"
    worker = RunProcess(repo, "start", run_id, spec.from_options([agent], [validate], guard=False))
    wait_until(ready.exists, "the agent is at work")
    worker.send(signal.SIGKILL)
    assert worker.ended() == ""
    return repo.path / ".agentos/runs" / run_id


def _forge(folder: Path) -> None:
    with open(folder / "events.jsonl", "a", encoding="ascii") as file:
        file.writelines(json.dumps(each) + "\n" for each in FORGED)


def _signed_by_another(folder: Path) -> None:
    """The whole record, with codes by a key of its own."""
    other = os.urandom(32)
    last, lines = "", []
    for line in (folder / "events.jsonl").read_bytes().splitlines():
        body = json.loads(line)
        body.pop("mac")
        last = signing.mac(signing.document_bytes("run-event", last, body), other)
        lines.append(json.dumps({**body, "mac": last}))
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")


def _without_codes(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    text = "".join(json.dumps({**line, "mac": None}) + "\n" for line in lines)
    (folder / "events.jsonl").write_text(text)
    _forge(folder)


def _prefix(folder: Path) -> None:
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(lines[:-2]))


def _spec(folder: Path) -> None:
    """Another validation, in both places where it is kept."""
    for path in (folder / "spec.json", folder.parents[2] / ".git/agentos/runs/T-1.json"):
        path.write_text(path.read_text().replace('"false"', '"true"'))


def _spec_of_the_evidence(folder: Path) -> None:
    path = folder / "spec.json"
    (folder.parents[2] / ".git/agentos/runs/T-1.json").unlink()
    path.write_text(path.read_text().replace('"false"', '"true"'))


def _base(folder: Path) -> None:
    text = (folder / "events.jsonl").read_text()
    (folder / "events.jsonl").write_text(text.replace('"base_ref":"', '"base_ref":"other'))


def _note(folder: Path) -> None:
    for path in Path(signing.folder(os.environ), "runs").glob("*.json"):
        if json.loads(path.read_text())["evidence"] == str(folder):
            path.unlink()


BETWEEN: dict[str, Callable[[Path], object]] = {
    "appended": _forge,
    "signed by another": _signed_by_another,
    "without codes": _without_codes,
    "cut off at a line": _prefix,
    "removed": lambda folder: (folder / "events.jsonl").unlink(),
    "another validation": _spec,
    "another validation in the evidence": _spec_of_the_evidence,
    "another base": _base,
    "the note of its length removed": _note,
    "a step linked": lambda folder: (folder / "steps/002-validate").symlink_to("/nowhere"),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_before_it_is_gone_on_with(repo: Repo, name: str) -> None:
    folder = interrupted(repo)
    BETWEEN[name](folder)
    run = commands.resume(context_of(repo), "T-1")
    assert_ended(repo, run, name, is_taken_back=name in TAKEN_BACK)


def test_with_another_home_nothing_is_put_on_record(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record can be believed again with the key of whoever began it."""
    run = start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    before = kept(run, "events.jsonl")
    with monkeypatch.context() as other:
        other.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
        assert commands.show(context_of(repo), "T-1").state == "tampered"
        for act in (commands.resume, commands.cancel, accept.accept):
            with pytest.raises(RunError, match="was not w"):
                act(context_of(repo), "T-1")
    assert kept(run, "events.jsonl") == before
    assert (run.state, evidence_store.verify(context_of(repo), "T-1").ok) == ("passed", True)
    accept.accept(context_of(repo), "T-1")


def test_a_torn_line_is_no_tampering(repo: Repo) -> None:
    """It is what a kill or a power cut leaves."""
    folder = interrupted(repo, validate="true")
    with open(folder / "events.jsonl", "a", encoding="ascii") as file:
        file.write('{"event":"ended","at":"x"')
    assert commands.show(context_of(repo), "T-1").state == "interrupted"
    assert commands.resume(context_of(repo), "T-1").state == "passed"
    assert evidence_store.verify(context_of(repo), "T-1").problems == []


@pytest.mark.parametrize("what", ["-d", ""])
def test_a_timeline_that_was_moved(repo: Repo, what: str) -> None:
    interrupted(repo)
    name = "refs/agentos/timelines/run-T-1"
    repo.git("update-ref", *what.split(), name, *([] if what else [f"{name}~1"]))
    assert_ended(repo, commands.resume(context_of(repo), "T-1"))


def test_rollback_after_everything_was_destroyed(repo: Repo) -> None:
    """Where it began is known all the same."""
    run = start(repo, "echo > new; git add new; git commit -qm mine", validate=["true"], run_id="T-1", guard=False)
    assert run.context is not None
    shutil.rmtree(repo.path / ".agentos")
    shutil.rmtree(run.context.worktree_path)
    repo.git("worktree", "prune")
    repo.git("branch", "-D", run.context.branch_name)
    repo.git("update-ref", "-d", "refs/agentos/timelines/run-T-1")
    shutil.rmtree(repo.git_dir / "agentos/runs")
    context = context_of(repo)
    assert commands.rollback(context, "T-1", "pre_run", dry_run=True).head == run.context.base_sha
    done = commands.rollback(context, "T-1", "pre_run")
    assert (done.head, done.worktree_path) == (run.context.base_sha, run.context.worktree_path)
    assert sorted(os.listdir(done.worktree_path)) == sorted([*os.listdir(repo.path)])
    assert commands.show(context, "T-1").state == "tampered"


def test_cancel_of_a_run_with_forged_evidence(repo: Repo) -> None:
    _forge(interrupted(repo))
    assert commands.show(context_of(repo), "T-1").state == "tampered"
    assert commands.cancel(context_of(repo), "T-1").state == "tampered"


def test_an_earlier_record_of_the_same_run(repo: Repo, tmp_path: Path) -> None:
    """Correctly signed, and not what was written last."""
    folder = interrupted(repo)
    shutil.copytree(folder, tmp_path / "earlier")
    context = context_of(repo)
    assert commands.resume(context, "T-1").state == "failed"
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "earlier", folder)
    assert commands.show(context, "T-1").state == "tampered"
    assert_ended(repo, commands.resume(context, "T-1"))


def test_the_record_of_another_run(repo: Repo) -> None:
    """One that has passed, under the name of one that has not, and of one that never was."""
    passed = start(repo, "echo > new", validate=["true"], run_id="T-2", guard=False)
    assert passed.state == "passed"
    run = start(repo, "echo bad > new", validate=["false"], run_id="T-1", guard=False)
    for run_id in ("T-1", "T-3"):
        folder = Path(run.evidence).with_name(run_id)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(passed.evidence, folder)
        text = (folder / "events.jsonl").read_text()
        for renamed in (text, text.replace("T-2", run_id)):
            (folder / "events.jsonl").write_text(renamed)
            assert commands.show(context_of(repo), run_id).state == "tampered"
            with pytest.raises(RunError):
                accept.accept(context_of(repo), run_id)
    shutil.rmtree(Path(run.evidence).with_name("T-3"))
    assert commands.show(context_of(repo), "T-2").state == "passed"
    assert accept.accept(context_of(repo), "T-2")[0].state == "accepted"


def test_a_repository_that_was_moved(repo: Repo, tmp_path: Path) -> None:
    """Its runs are what they were: also a killed one, whose end is put on record at the new place."""
    assert start(repo, "echo > new", validate=["true"], run_id="T-2", guard=False).state == "passed"
    interrupted(repo)
    for name in ("elsewhere", "elsewhere/deeper"):
        target = tmp_path / name / "moved"
        target.parent.mkdir()
        repo = Repo(repo.path.rename(target))
        assert commands.show(context_of(repo), "T-2").state == "passed"
        assert commands.show(context_of(repo), "T-1").state == ("interrupted" if name == "elsewhere" else "cancelled")
        assert evidence_store.open_existing(context_of(repo).location, "T-2").why_unverified() is None
        if name == "elsewhere":
            repair.repair(context_of(repo))  # git's own links to the worktrees
            assert commands.cancel(context_of(repo), "T-1").state == "cancelled"


def test_copied_record_does_not_count(repo: Repo, make_repo: Callable[[str], Repo], tmp_path: Path) -> None:
    """Not in a copy of the repository, not in another one, and not where the first one is gone by then."""
    passed = start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    copy, other = tmp_path / "copy", make_repo("other")
    shutil.copytree(repo.path, copy, symlinks=True)
    shutil.copytree(passed.evidence, other.path / ".agentos/runs/T-1")
    for _ in range(2):
        for each in (Repo(copy), other):
            assert commands.show(context_of(each), "T-1").state == "tampered"
            with pytest.raises(RunError):
                accept.accept(context_of(each), "T-1")
        if repo.path.exists():
            assert commands.show(context_of(repo), "T-1").state == "passed"
            shutil.rmtree(repo.path)


def _passed_by_hand(folder: Path) -> None:
    """A failed run that is told as a passed one: record, manifest, and a checkpoint that vouches for both."""
    repo = Repo(folder.parents[2])
    path = folder / "events.jsonl"
    text = (
        path.read_text().replace('"outcome":"failed"', '"outcome":"ok"').replace('"state":"failed"', '"state":"passed"')
    )
    path.write_text("".join(text.splitlines(keepends=True)[:-1]))
    kept = evidence.Evidence(str(folder), "T-1")
    found = journal.parse_events(path.read_bytes(), "T-1")
    from git_agentos.run import events

    kept.record = lambda: journal.Record([], found, None, None)  # type: ignore[method-assign]
    kept.event = lambda *_, **__: None  # type: ignore[method-assign]
    run = events.state_of("T-1", found).run(str(folder), alive=False)
    assert run.context is not None

    sealing.seal(run_context(context_of(repo), run.context), kept, run)
    newest = timeline.newest(context_of(repo).repository, "run-T-1")
    assert newest is not None
    digest = evidence.Evidence(str(folder), "T-1").digest("manifest.json")
    sealed = {"event": "sealed", "at": "2026-01-01T00:00:00.000Z", "checkpoint": newest.checkpoint}
    with open(path, "a", encoding="ascii") as file:
        file.write(json.dumps({**sealed, "manifest_sha256": digest}) + "\n")


def test_record_manifest_and_checkpoint_together(repo: Repo) -> None:
    run = start(repo, "echo > new", validate=["false"], run_id="T-1", guard=False)
    assert run.state == "failed"
    _passed_by_hand(Path(run.evidence))
    assert commands.show(context_of(repo), "T-1").state == "tampered"
    with pytest.raises(RunError):
        accept.accept(context_of(repo), "T-1")
    assert repo.oid("main") == repo.oid()


def test_evidence_changed_after_the_run_passed(repo: Repo) -> None:
    run = start(repo, "echo > new; echo said", validate=["true"], run_id="T-1", guard=False)
    base = repo.oid("main")
    out = Path(run.evidence, "steps/001-agent/stdout")
    out.write_text("lies\n")
    with pytest.raises(RunError, match="is not intact"):
        accept.accept(context_of(repo), "T-1")
    assert repo.oid("main") == base
    out.write_text("said\n")
    assert accept.accept(context_of(repo), "T-1")[0].state == "accepted"


def test_looking_on_while_it_is_written(repo: Repo) -> None:
    """Whoever reads a record between an event and its note sees no tampering."""
    kept = evidence_store.create(context_of(repo).location, "T-1")
    kept.event("begun")
    ready = threading.Event()

    def write() -> None:
        for n in range(150):
            kept.event("marked", n=n, checkpoint="c")
        ready.set()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(write)
        while not ready.is_set() and not done.done():
            found = evidence_store.open_existing(context_of(repo).location, "T-1").record()
            assert found.problem is None
        done.result()


def test_tampered_external_run(repo: Repo) -> None:
    service = GitWorktreeWorkspaceService(repo.path, tool="maestro", guard=False)
    run = service.prepare_pre_run(run_id="T-1")
    service.mark_step(1)
    folder = repo.path / ".agentos/runs/T-1"
    _forge(folder)
    Path(run.worktree_path, "new").write_text("new\n")
    with pytest.raises(RunError, match="tampered"):
        service.mark_step(2)
    assert commands.show(context_of(repo), "T-1").state == "tampered"
    assert service.rollback_pre_run().head_sha == run.base_sha
    assert not Path(run.worktree_path, "new").exists()


# -- without the key ---------------------------------------------------------------------------------------------------


def test_missing_key_refuses_accept(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a sandbox: its folder cannot be made."""
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
        run = start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
        assert run.state == "passed"
        with pytest.raises(RunError, match="the user's key cannot be read"):
            accept.accept(context_of(repo), "T-1")
        done = commands.rollback(context_of(repo), "T-1", "pre_run")
        assert not Path(done.worktree_path, "new").exists()
    assert commands.show(context_of(repo), "T-1").state == "tampered"


def test_a_record_with_codes_where_the_key_cannot_be_read(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(repo)
    start(repo, "echo > new", validate=["true"], run_id="T-2", guard=False)
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
        with pytest.raises(RunError, match="the user's key cannot be read"):
            commands.resume(context_of(repo), "T-1")
        with pytest.raises(RunError, match="the user's key cannot be read"):
            accept.accept(context_of(repo), "T-2")
        done = commands.rollback(context_of(repo), "T-2", "pre_run")
        assert not Path(done.worktree_path, "new").exists()
    assert commands.show(context_of(repo), "T-2").state == "passed"
    assert commands.resume(context_of(repo), "T-1").state == "failed"


# -- links, and who may cancel -----------------------------------------------------------------------------------------


def test_a_cancel_request_is_signed(repo: Repo, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    path = repo.git_dir / "agentos/runs/T-1.cancel"
    agent = f"echo > new; echo '{{}}' > '{path}'"
    run = start(repo, agent, validate=["true"], run_id="T-1", guard=False)
    assert (run.state, path.exists()) == ("passed", False)
    agent = f"echo > new; ln -s '{victim}' '{path.with_name('T-2.cancel')}'"
    assert start(repo, agent, validate=["true"], run_id="T-2", guard=False).state == "passed"
    assert victim.read_text() == "mine\n"


def test_names_of_the_lock_that_are_links_or_folders(repo: Repo, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    folder = repo.git_dir / "agentos/runs"
    run = start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    for name in ("T-1.turn", "T-1.pid", "T-1.pid.new", "T-1.json", "T-1.cancel"):
        for is_link in (True, False):
            (folder / name).unlink(missing_ok=True)
            if is_link:
                (folder / name).symlink_to(victim)
            else:
                (folder / name).mkdir()
            assert commands.show(context_of(repo), "T-1").state == "passed", name
            assert commands.rollback(context_of(repo), "T-1", "pre_run").point == "pre_run", name
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                (folder / name).rmdir()
    assert victim.read_text() == "mine\n"
    assert kept(run, "spec.json")
