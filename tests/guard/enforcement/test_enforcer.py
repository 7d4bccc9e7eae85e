"""Acting on a judgement: whatever is decided, nothing is lost that a checkpoint could hold."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.git.location import locate
from git_agentos.guard.approval import approvals
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, SaveScope
from git_agentos.guard.enforcement import enforcer, saving
from git_agentos.guard.identity import Identity
from git_agentos.process.table import Process
from tests.support.agents import agent_worktree
from tests.support.guard.approvals import (
    AGENT,
    PERSON,
    Sleeper,
    approve,
    at_terminal,
    common_dir,
    forbid,
    judged,
    run_by,
)
from tests.support.repo import ZERO, Repo
from tests.support.state import complete_state
from tests.support.tool import run_ok


@pytest.fixture
def dev(repo: Repo) -> Repo:
    """An agent's worktree with work in it."""
    made = agent_worktree(repo, "dev")
    made.append("readme.txt", "unstaged\n")
    made.write("notes.txt", "staged\n")
    made.add("notes.txt")
    made.write("new.txt", "untracked\n")
    return made


def decisions(dev: Repo) -> list[dict[str, object]]:
    """What the agent's log says of decisions, the newest first."""
    found = run_ok(dev.path, "log", "list")["entries"]
    return [entry for entry in found if entry["type"] == "decision"]


def checkpoints(dev: Repo) -> list[dict[str, object]]:
    found: list[dict[str, object]] = run_ok(dev.path, "checkpoint", "list")["checkpoints"]
    return found


def test_plain_allow_does_nothing_at_all(dev: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforcer, "_Enforcement", None)
    verdict = run_by(AGENT, judged(ALLOW, dev.path, "status"), "status", cwd=dev.path)
    assert (verdict.run, verdict.message, verdict.approval) == (True, "", None)


def test_allow_with_something_to_save_takes_a_checkpoint_and_says_nothing(dev: Repo) -> None:
    before = complete_state(dev.path)
    verdict = run_by(AGENT, judged(ALLOW, dev.path, "stash-pop", SaveScope()), "stash", "pop", cwd=dev.path)
    assert (verdict.run, verdict.message) == (True, "")
    assert complete_state(dev.path) == before
    [saved] = checkpoints(dev)
    assert saved["id"] == verdict.decision.checkpoint
    assert (saved["trigger"], saved["created_by"]) == ("before_risky", "dev")
    assert saved["meta"] == {"command": "git stash pop", "layer": "shim"}


def test_forbidden_is_stopped_saved_told_and_logged(dev: Repo) -> None:
    before = complete_state(dev.path)
    verdict = run_by(AGENT, forbid(dev.path), "reset", "--hard", cwd=dev.path)
    assert not verdict.run
    assert complete_state(dev.path) == before
    saved = str(verdict.decision.checkpoint)
    for part in ("stopped 'git reset --hard'", "it would change things", "reset-hard", saved[:8], "instead: git stash"):
        assert part in verdict.message
    [entry] = decisions(dev)
    assert entry["agent_id"] == "dev"
    assert entry["checkpoint_id"] == saved
    assert entry["details"] == {
        "decision": "forbid", "operations": ["reset-hard"], "rule": "reset-hard", "reason": "it would change things",
        "argv": ["git", "reset", "--hard"], "layer": "shim", "identity": "environment", "run": False, "approval": None,
    }  # fmt: skip
    dev.git("reset", "-q", "--hard")
    dev.git("clean", "-fdq")
    run_ok(dev.path, "restore", saved, "--no-branch")
    assert complete_state(dev.path) == before


def test_secrets_on_the_command_line_are_nowhere(dev: Repo) -> None:
    secret = "ghp_" + "a1B2" * 9
    url = f"https://x:{secret}@example.com/r.git"
    verdict = run_by(AGENT, approve(dev.path), "push", url, "--token", "hunter2secret", cwd=dev.path)
    folder = Path(common_dir(dev.path)) / "agentos" / "approvals"
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    everything = written + verdict.message.encode() + repr(decisions(dev)).encode() + repr(checkpoints(dev)).encode()
    assert b"example.com" in everything
    assert secret.encode() not in everything
    assert b"hunter2" not in everything


def test_save_mode_runs_and_says_how_to_restore(dev: Repo) -> None:
    before = complete_state(dev.path)
    verdict = run_by(AGENT, forbid(dev.path, fully_saved=True), "reset", "--hard", cwd=dev.path, mode="save")
    assert verdict.run
    saved = str(verdict.decision.checkpoint)
    assert f"git agentos restore {saved[:8]}" in verdict.message
    dev.git("reset", "-q", "--hard")
    dev.git("clean", "-fdq")
    run_ok(dev.path, "restore", saved, "--no-branch")
    assert complete_state(dev.path) == before
    assert decisions(dev)[0]["details"]["run"] is True  # type: ignore[index]


def test_save_mode_stops_unsavable_command(dev: Repo) -> None:
    verdict = run_by(AGENT, forbid(dev.path, fully_saved=False), "push", "--force", cwd=dev.path, mode="save")
    assert not verdict.run


def test_save_mode_stops_where_something_cannot_be_saved(dev: Repo) -> None:
    inner = Repo.init(dev.path / "inner", f"--object-format={'sha256' if len(ZERO) == 40 else 'sha1'}")
    inner.write("file.txt", "only here\n")
    verdict = run_by(AGENT, forbid(dev.path, fully_saved=True), "clean", "-ffd", cwd=dev.path, mode="save")
    assert not verdict.run
    assert "inner" in verdict.message


def test_files_above_the_limit_are_saved_before_something_runs(dev: Repo) -> None:
    dev.config("agentos.maxFileSize", "1k")
    dev.write("big.bin", b"x" * 5000)
    stopped = run_by(AGENT, forbid(dev.path, fully_saved=True), "clean", "-fd", cwd=dev.path)
    assert not stopped.run
    verdict = run_by(AGENT, forbid(dev.path, fully_saved=True), "clean", "-fd", cwd=dev.path, mode="save")
    assert verdict.run
    dev.remove("big.bin")
    run_ok(dev.path, "restore", str(verdict.decision.checkpoint), "--no-branch")
    assert dev.read("big.bin") == b"x" * 5000


def test_named_ignored_files_are_saved(dev: Repo) -> None:
    dev.write(".git-ignored", "")
    (Path(common_dir(dev.path)) / "info").mkdir(exist_ok=True)
    (Path(common_dir(dev.path)) / "info" / "exclude").write_text("secret.env\n")
    dev.write("secret.env", "KEY=1\n")
    assessment = judged(FORBID, dev.path, "clean-ignored", SaveScope(everything_ignored=True), fully_saved=True)
    verdict = run_by(AGENT, assessment, "clean", "-fdx", cwd=dev.path, mode="save")
    assert verdict.run
    dev.git("clean", "-fdxq")  # the log goes with it
    assert [entry["summary"] for entry in decisions(dev)] == ["guard: saved: clean-ignored: git clean -fdx"]
    run_ok(dev.path, "restore", str(verdict.decision.checkpoint), "--no-branch")
    assert dev.read("secret.env") == b"KEY=1\n"


def test_unreferenced_commits_are_kept_by_the_timeline(dev: Repo) -> None:
    dev.git("checkout", "-q", "--detach")
    lost = dev.commit("nobody else has this")
    dev.git("checkout", "-q", "agent/dev")
    clean = run_by(AGENT, judged(ALLOW, dev.path, "stash-pop", SaveScope()), "stash", "pop", cwd=dev.path)
    assessment = judged(FORBID, dev.path, "branch-delete", SaveScope(commits=[lost]), fully_saved=True)
    verdict = run_by(AGENT, assessment, "branch", "-D", "x", cwd=dev.path, mode="save")
    assert verdict.run
    assert f"{lost[:8]} (git branch NAME COMMIT)" in verdict.message
    assert "git agentos restore" not in verdict.message
    assert clean.decision.checkpoint != verdict.decision.checkpoint  # though the state was an old one
    again = run_by(AGENT, assessment, "branch", "-D", "x", cwd=dev.path, mode="save")
    dev.git("reflog", "expire", "--expire=now", "--all")
    dev.git("gc", "-q", "--prune=now")
    assert dev.text("cat-file", "-t", lost) == "commit"
    reached = dev.text("rev-list", "refs/agentos/timelines/dev").split()
    assert lost in reached
    assert again.run


def test_commits_make_a_checkpoint_though_the_state_is_an_old_one(dev: Repo) -> None:
    dev.git("checkout", "-q", "--detach")
    lost = dev.commit("nobody else has this")
    dev.git("checkout", "-q", "agent/dev")
    context = saving.context_at(locate(str(dev.path), use_environment=False), "dev", os.environ)
    metadata = context.metadata(trigger=saving.TRIGGER, description="", meta={})
    made = [
        saving.save(context, SaveScope(commits=commits), metadata, whole=True).checkpoint
        for commits in ([], [], [lost], [lost], [ZERO, "1" * len(ZERO)])
    ]
    assert made[0] != made[2]
    assert [each is not None and each.unchanged for each in made] == [False, True, False, True, True]
    assert lost in dev.text("rev-list", "refs/agentos/timelines/dev").split()


def test_an_agents_command_stops_where_the_checkpoint_fails(dev: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("git_agentos.guard.enforcement.saving.save", full)
    cases = [
        (judged(ALLOW, dev.path, "stash-pop", SaveScope()), "strict"),
        (forbid(dev.path, fully_saved=True), "save"),
        (forbid(dev.path), "strict"),
    ]
    for assessment, mode in cases:
        verdict = run_by(AGENT, assessment, "stash", "pop", cwd=dev.path, mode=mode)
        assert not verdict.run
        assert "No space left on device" in verdict.message


def test_a_persons_command_runs_where_the_checkpoint_fails(dev: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("git_agentos.guard.enforcement.saving.save", full)
    verdict = run_by(PERSON, judged(ALLOW, dev.path, "reset-hard", SaveScope()), "reset", "--hard", cwd=dev.path)
    assert verdict.run
    assert "warning" in verdict.message
    assert "No space left on device" in verdict.message


def test_persons_command_is_never_stopped(dev: Repo) -> None:
    for assessment in (forbid(dev.path), approve(dev.path), judged(FORBID, dev.path)):
        assert run_by(PERSON, assessment, "reset", "--hard", cwd=dev.path).run
    assert checkpoints(dev)
    assert decisions(dev) == []  # no log is made for a person


def test_the_switch_turns_checkpoints_off(dev: Repo) -> None:
    auto = {"beforerisky": False}
    stopped = run_by(AGENT, forbid(dev.path, fully_saved=True), "reset", "--hard", cwd=dev.path, mode="save", auto=auto)
    allowed = run_by(AGENT, judged(ALLOW, dev.path, "x", SaveScope()), "stash", "pop", cwd=dev.path, auto=auto)
    assert (stopped.run, allowed.run) == (False, True)
    assert checkpoints(dev) == []


def test_approval_outside_of_a_repository_is_refused(tmp_path: Path) -> None:
    verdict = run_by(AGENT, judged(APPROVE, tmp_path, "unknown"), "frobnicate", cwd=tmp_path)
    assert (verdict.run, verdict.approval) == (False, None)
    assert "outside of a repository" in verdict.message


# -- approval ----------------------------------------------------------------------------------------------------------


def test_a_request_is_filed_once_granted_and_used_once(dev: Repo, repo: Repo) -> None:
    before = complete_state(dev.path)
    first = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    second = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    assert (first.run, second.run) == (False, False)
    assert first.approval == second.approval
    assert str(first.approval) in first.message
    done = at_terminal(repo.path, "approvals", "grant", str(first.approval))
    assert done.code == 0, str(done)
    with Sleeper() as process:
        third = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, pid=process.pid)
        assert (third.run, third.approval) == (True, first.approval)
        assert checkpoints(dev)[0]["id"] == third.decision.checkpoint
        # The same process, in another layer; and another one, which did not start it.
        inner = run_by(AGENT, forbid(dev.path), "reset", "--hard", cwd=dev.path, pid=process.pid, layer="fsmonitor")
        assert inner.run
        assert inner.decision.checkpoint is not None  # it is another command than the one that was granted
        again = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, pid=process.pid, layer="hook")
        assert (again.run, again.decision.checkpoint) == (True, None)
        with Sleeper() as stranger:
            other = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, pid=stranger.pid)
        assert not other.run
        assert other.approval != first.approval
    with Sleeper() as process:
        assert not run_by(AGENT, forbid(dev.path), "reset", "--hard", cwd=dev.path, pid=process.pid).run
    outcomes = [str(entry["summary"]).split(": ")[1] for entry in decisions(dev)]
    assert outcomes == ["forbidden", "waits for approval", "granted", "waits for approval", "waits for approval"]
    assert complete_state(dev.path) == before


def test_a_grant_is_bound_to_command_head_worktree_and_agent(dev: Repo, repo: Repo) -> None:
    other = agent_worktree(repo, "other-agent")
    asked = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    assert at_terminal(repo.path, "approvals", "grant", str(asked.approval)).code == 0

    def runs(where: Repo = dev, words: tuple[str, ...] = ("merge", "other"), who: Identity = AGENT) -> bool:
        with Sleeper() as process:
            return run_by(who, approve(where.path), *words, cwd=where.path, pid=process.pid).run

    assert not runs(words=("merge", "--no-ff", "other"))
    assert not runs(where=other)
    assert not runs(who=Identity("somebody", "environment"))
    branch = dev.text("symbolic-ref", "HEAD")
    dev.git("checkout", "-q", "-b", "elsewhere")
    assert not runs()
    dev.git("checkout", "-q", branch.removeprefix("refs/heads/"))
    head = dev.oid()
    dev.git("commit", "-q", "--allow-empty", "-m", "HEAD moved")
    assert not runs()
    dev.git("update-ref", "HEAD", head)
    assert runs()
    assert not runs()


def test_a_grant_given_in_a_folder_is_for_that_folder(dev: Repo, repo: Repo) -> None:
    src, docs = dev.path / "src", dev.path / "docs"
    asked = run_by(AGENT, approve(dev.path), "checkout", "--", ".", cwd=src)
    assert at_terminal(repo.path, "approvals", "grant", str(asked.approval)).code == 0
    with Sleeper() as process:
        assert not run_by(AGENT, approve(dev.path), "checkout", "--", ".", cwd=docs, pid=process.pid).run
        # Hooks run at the root, wherever git was started.
        assert run_by(AGENT, approve(dev.path), "checkout", "--", ".", cwd=dev.path, layer="hook", pid=process.pid).run


def test_processes_below_a_granted_command_pass(dev: Repo, repo: Repo) -> None:
    asked = run_by(AGENT, approve(dev.path), "rebase", "main", cwd=dev.path)
    assert at_terminal(repo.path, "approvals", "grant", str(asked.approval)).code == 0
    with Sleeper(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as above:
        below = int(above.process.stdout.readline())  # type: ignore[union-attr]
        assert run_by(AGENT, approve(dev.path), "rebase", "main", cwd=dev.path, pid=above.pid).run
        assert run_by(AGENT, forbid(dev.path), "reset", "--hard", cwd=dev.path, pid=below, layer="hook").run
        os.kill(below, 9)


def test_a_denied_request_stays_denied_and_says_why(dev: Repo, repo: Repo) -> None:
    asked = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    assert at_terminal(repo.path, "approvals", "deny", str(asked.approval), "-m", "not before friday").code == 0
    again = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    assert (again.run, again.approval) == (False, asked.approval)
    assert "not before friday" in again.message
    granted = at_terminal(repo.path, "approvals", "grant", str(asked.approval))
    assert granted.code == 3
    assert not run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path).run


def test_waiting_ends_with_the_answer(dev: Repo, repo: Repo) -> None:
    answers = iter(["grant", "deny"])

    def answer(heard: str) -> None:
        request = run_ok(repo.path, "status")["pending_approvals"][0]["id"]
        assert request in heard
        assert at_terminal(repo.path, "approvals", next(answers), request).code == 0

    for granted in (True, False):
        with Sleeper() as process:
            verdict = run_by(
                AGENT, approve(dev.path), "merge", "other", cwd=dev.path, pid=process.pid, wait=True, tell=answer
            )
        assert verdict.run is granted


def test_harness_notes_grant_and_command_uses_it(dev: Repo, repo: Repo) -> None:
    asked = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, layer="harness")
    assert at_terminal(repo.path, "approvals", "grant", str(asked.approval)).code == 0
    harness = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, layer="harness")
    assert harness.run
    with Sleeper() as process:
        # The harness's own process has not passed; the command does.
        assert not run_by(AGENT, forbid(dev.path), "reset", "--hard", cwd=dev.path).run
        assert run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, pid=process.pid).run
    again = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, layer="harness")
    assert not again.run
    assert again.approval != asked.approval


def test_reused_pid_has_no_grant(dev: Repo, repo: Repo) -> None:
    asked = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    assert at_terminal(repo.path, "approvals", "grant", str(asked.approval)).code == 0
    place = approvals.open_store(common_dir(dev.path), os.environ)
    with Sleeper() as process:
        found = approvals.find(place, str(asked.approval))
        assert approvals.use(place, found, Process(process.pid, "12345"))
        assert approvals.active_grant(common_dir(dev.path), process.pid, os.environ) is None


def test_main_worktree_is_saved_when_agent_works_there(dev: Repo, repo: Repo) -> None:
    repo.append("readme.txt", "mine\n")
    verdict = run_by(AGENT, forbid(repo.path), "-C", str(repo.path), "reset", "--hard", cwd=dev.path)
    assert not verdict.run
    saved = open_workspace(repo.path).find(str(verdict.decision.checkpoint))
    assert (saved.timeline, saved.created_by) == ("main", "dev")
