"""A run's work goes into a branch: what was validated, all of it, and only that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from git_agentos import GitWorktreeWorkspaceService, open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import LockedError, RunError, UsageError, WorktreeError
from git_agentos.run import accept, evidence_store, lock, sealing, validated
from git_agentos.run.events import Run, state_of
from git_agentos.run.evidence import Evidence
from git_agentos.run.snapshot import run_context
from git_agentos.worktree import agent_merge
from tests.support.repo import Repo


@dataclass
class Site:
    """A run that is told step by step, as the kernel does it."""

    repo: Repo
    service: GitWorktreeWorkspaceService
    kept: Evidence
    there: Repo
    n: int = 0

    @property
    def context(self) -> OpenWorktree:
        return open_workspace(self.repo.path).context

    def step(self, kind: str, work: Callable[[Repo], object] = lambda _: None, outcome: str = "ok") -> None:
        self.n += 1
        before = self.service.mark_step(self.n)
        self.kept.event("step-begun", n=self.n, kind=kind, attempt=1, command=kind, checkpoint=before)
        work(self.there)
        after = self.service.snapshot()
        self.kept.event(
            "step-ended",
            n=self.n,
            outcome=outcome,
            exit_code=0,
            checkpoint=after.checkpoint,
            changed=len(after.changed),
        )

    def end(self, state: str = "passed") -> None:
        self.kept.event("attempt-ended", number=1, outcome="ok", reason=None)
        self.kept.event("ended", state=state, reason=None if state == "passed" else "it did not")
        run = self.run
        assert run.context is not None
        sealing.seal(run_context(self.context, run.context), self.kept, run)

    @property
    def run(self) -> Run:
        return state_of("r", self.kept.events()).run(self.kept.folder, alive=False)

    def refs(self) -> bytes:
        return self.repo.git("for-each-ref", "refs/heads", "refs/tags")


@pytest.fixture
def site(repo: Repo) -> Site:
    service = GitWorktreeWorkspaceService(repo.path, task_id="T-1")
    run = service.prepare_pre_run(run_id="r")
    made = Site(
        repo,
        service,
        evidence_store.open_existing(open_workspace(repo.path).context.location, "r"),
        Repo(Path(run.worktree_path)),
    )
    made.kept.event("attempt", number=1)
    return made


def work(there: Repo) -> None:
    """Half of it committed, some of it staged, the rest only there."""
    there.write("committed.txt", "committed\n")
    there.commit("of the agent's own")
    there.write("staged.txt", "staged\n")
    there.add("staged.txt")
    there.append("readme.txt", "changed\n")
    there.write("src/new.py", "new\n", 0o755)


def junk(there: Repo) -> None:
    """A validation that formats, and leaves a report."""
    there.append("src/new.py", "formatted\n")
    there.write("report.xml", "report\n")


@pytest.mark.parametrize("squash", [False, True])
def test_accept_merges_validated_work(site: Site, squash: bool) -> None:
    site.step("agent", work)
    site.step("validate", junk)
    site.step("validate")
    site.end()
    base = site.repo.oid()
    own = site.there.oid()
    run, made = accept.accept(site.context, "r", squash=squash)

    assert (made.merged, made.target, made.conflicts, made.squashed) == (True, "main", [], squash)
    assert (run.state, run.accepted_into, run.merge_commit) == ("accepted", "main", site.repo.oid())
    repo, there = site.repo, site.there
    for name in ("committed.txt", "staged.txt", "readme.txt", "src/new.py"):
        assert repo.read(name) == there.read(name), name
    assert repo.read("src/new.py") == b"new\nformatted\n"
    assert os.access(repo.at("src/new.py"), os.X_OK)
    assert not repo.exists("report.xml")
    assert repo.git("status", "--porcelain") == b""
    # the run's branch has the rest in one commit on top of its own, and its worktree is as it was
    assert repo.text("rev-parse", "agentos/run-r~1") == own
    assert (
        repo.text("log", "-1", "--format=%s|%(trailers:key=Agentos-Task,valueonly)", "agentos/run-r")
        == "run r: T-1|T-1"
    )
    assert there.git("status", "--porcelain") == b"?? report.xml\n"
    assert there.oid() == repo.oid("agentos/run-r")
    parents = repo.text("log", "-1", "--format=%P").split()
    assert parents == ([base] if squash else [base, repo.oid("agentos/run-r")])
    assert evidence_store.verify(site.context, "r").problems == []
    assert repo.git("fsck", "--strict", "--no-dangling") == b""
    with pytest.raises(RunError, match="was accepted already: into 'main'"):
        accept.accept(site.context, "r")


def test_accept_of_committed_work_makes_no_commit(site: Site) -> None:
    def commit(there: Repo) -> None:
        there.write("new.txt", "new\n")
        there.commit("all of it")

    site.step("agent", commit)
    site.step("validate")
    site.end()
    site.repo.git("branch", "mine")
    tip = site.there.oid()
    run, _ = accept.accept(site.context, "r", into="mine")
    assert (run.accepted_into, site.there.oid(), site.repo.text("rev-parse", "mine^2")) == ("mine", tip, tip)
    assert site.repo.text("rev-parse", "mine^1") == site.repo.oid("main")


def test_accept_of_the_same_work_committed_later(site: Site) -> None:
    PASSED(site)
    site.end()
    tip = site.there.commit("somebody has committed what was validated")
    run, _ = accept.accept(site.context, "r")
    assert (run.state, site.repo.text("rev-parse", "main^2")) == ("accepted", tip)


def _tell(*steps: tuple[str, str]) -> Callable[[Site], None]:
    def tell(site: Site) -> None:
        for kind, outcome in steps:
            site.step(
                kind, (lambda there: there.append("new.txt", "new\n")) if kind == "agent" else lambda _: None, outcome
            )

    return tell


PASSED = _tell(("agent", "ok"), ("validate", "ok"))
REFUSED: dict[str, tuple[Callable[[Site], None], str, str]] = {
    "no validation": (_tell(("agent", "ok")), "passed", "was not validated"),
    "it comes before the agent": (_tell(("validate", "ok"), ("agent", "ok")), "passed", "was not validated"),
    "one of two failed": (
        _tell(("agent", "ok"), ("validate", "failed"), ("validate", "ok")), "passed", "not every validation passed",
    ),
    "a failed run": (PASSED, "failed", "has not passed, it is failed: it did not"),
    "a cancelled one": (PASSED, "cancelled", "has not passed, it is cancelled"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_accept_refuses_unvalidated_work(site: Site, why: str) -> None:
    tell, state, said = REFUSED[why]
    tell(site)
    site.end(state)
    before = site.refs()
    with pytest.raises(RunError, match=said):
        accept.accept(site.context, "r")
    assert site.refs() == before


def test_accept_after_rollback_and_undo(site: Site) -> None:
    site.step("agent", work)
    site.step("validate")
    site.end()
    site.service.rollback_pre_run()
    with pytest.raises(RunError, match="was rolled back to pre_run"):
        accept.accept(site.context, "r")
    open_workspace(site.there.path).undo()
    run, _ = accept.accept(site.context, "r")
    assert (run.state, run.rolled_back_to) == ("accepted", None)
    assert site.repo.read("src/new.py") == b"new\n"


def test_accept_refuses_running_and_unknown_runs(site: Site) -> None:
    PASSED(site)
    with pytest.raises(RunError, match="has not passed, it is open"):
        accept.accept(site.context, "r")
    site.end()
    with lock.hold(site.context.location, "r"), pytest.raises(LockedError, match="run 'r' is running"):
        accept.accept(site.context, "r")
    with pytest.raises(RunError, match="no run 'x'"):
        accept.accept(site.context, "x")
    with pytest.raises(WorktreeError, match="no branch 'nowhere'"):
        accept.accept(site.context, "r", into="nowhere")


def _edited(there: Repo) -> None:
    there.append("new.txt", "after all\n")


def _added(there: Repo) -> None:
    there.write("added.txt", "after all\n")


def _elsewhere(there: Repo) -> None:
    there.git("checkout", "-q", "-b", "elsewhere")


def _merging(there: Repo) -> None:
    (there.git_dir / "MERGE_HEAD").write_text(there.oid("other") + "\n")
    (there.git_dir / "MERGE_MSG").write_text("merge other\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_edited, "has changed since it was validated"),
        (_added, "has changed since it was validated"),
        (_elsewhere, "not on its branch"),
        (_merging, "merge is in progress"),
        (lambda there: shutil.rmtree(there.path), "is not in"),
    ],
)
def test_accept_refuses_replaced_worktree(site: Site, change: Callable[[Repo], object], said: str) -> None:
    PASSED(site)
    site.end()
    tip = site.repo.oid("agentos/run-r")
    change(site.there)
    with pytest.raises(RunError, match=said):
        accept.accept(site.context, "r")
    assert site.repo.oid("main") == site.run.context.base_sha  # type: ignore[union-attr]  # it has one
    assert site.repo.oid("agentos/run-r") == tip
    assert site.run.state == "passed"


def test_a_run_that_began_at_no_branch(repo: Repo) -> None:
    service = GitWorktreeWorkspaceService(repo.path, base_ref="v1")
    run = service.prepare_pre_run(run_id="r")
    site = Site(
        repo,
        service,
        evidence_store.open_existing(open_workspace(repo.path).context.location, "r"),
        Repo(Path(run.worktree_path)),
    )
    site.kept.event("attempt", number=1)
    PASSED(site)
    site.end()
    with pytest.raises(UsageError, match="did not begin at a branch"):
        accept.accept(site.context, "r")
    assert accept.accept(site.context, "r", into="main")[0].accepted_into == "main"


def test_a_conflict_changes_nothing(site: Site) -> None:
    site.step("agent", lambda there: there.write("readme.txt", "the run's\n"))
    site.step("validate")
    site.end()
    site.repo.write("readme.txt", "somebody else's\n")
    site.repo.commit("meanwhile")
    before, index = site.refs(), site.there.git("diff", "--cached")
    run, made = accept.accept(site.context, "r")
    assert (run.state, made.merged, made.dry_run, [each.files for each in made.conflicts]) == (
        "passed", False, False, [["readme.txt"]],
    )  # fmt: skip
    assert (site.refs(), site.there.git("diff", "--cached")) == (before, index)
    assert site.repo.git("status", "--porcelain") == b""
    site.repo.git("reset", "-q", "--hard", "HEAD~1")
    assert accept.accept(site.context, "r")[0].state == "accepted"


@pytest.mark.parametrize("when", ["index", "merge", "event"])
def test_killed_accept_is_repeated(site: Site, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    class Killed(BaseException):
        pass

    def strike(*_: object, **fields: object) -> object:
        if when == "merge" and fields.get("dry_run"):
            return real(*_, **fields)
        raise Killed

    site.step("agent", work)
    site.step("validate", junk)
    site.end()
    owner, name = {"index": (validated, "_reset_index"), "merge": (agent_merge, "merge"), "event": (Evidence, "event")}[
        when
    ]
    real = getattr(owner, name)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, strike)
        with pytest.raises(Killed):
            accept.accept(site.context, "r")
    tip = site.repo.oid("agentos/run-r")
    run, _ = accept.accept(site.context, "r")
    assert (run.state, run.merge_commit) == ("accepted", site.repo.oid())
    assert site.repo.oid("agentos/run-r") == tip
    assert site.repo.text("rev-list", "--count", "--merges", "main") == "1"
    assert site.repo.read("src/new.py") == b"new\nformatted\n"
    assert site.there.git("status", "--porcelain") == b"?? report.xml\n"
    assert evidence_store.verify(site.context, "r").ok
