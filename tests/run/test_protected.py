"""Protected branches: which they are, what the guard refuses a run, and what is seen of what went past it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from git_agentos import GitWorktreeWorkspaceService, WorkspaceContext, open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import refs
from git_agentos.guard.assessment import assessor
from git_agentos.guard.call import Call
from git_agentos.guard.configuration import run_protection, settings
from git_agentos.guard.identity import Identity
from git_agentos.run import branches
from git_agentos.worktree import record
from tests.support import ref_storage
from tests.support.agents import agent_worktree
from tests.support.repo import ZERO, Repo, git
from tests.support.tool import run as tool

CLOSED = ("main", "release/*")


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(str(repo.path)).context


# -- which -------------------------------------------------------------------------------------------------------------


def test_the_patterns_in_force(repo: Repo) -> None:
    def found(given: list[str] | None = None) -> list[str]:
        return branches.protected_patterns(context_of(repo), given)

    assert found() == ["main", "master"]
    for name in ("origin", "up/stream"):
        repo.git("update-ref", f"refs/remotes/{name}/trunk/{name}", "HEAD")
        repo.git("symbolic-ref", f"refs/remotes/{name}/HEAD", f"refs/remotes/{name}/trunk/{name}")
    assert found() == ["trunk/origin", "main", "master"]
    repo.config("agentos.protected", "stable, v*")
    assert found() == ["stable", "v*"]
    assert found(["x", "y", "x", "stable"]) == ["stable", "v*", "x", "y"]
    assert found([]) == ["stable", "v*"]


@pytest.mark.parametrize(
    ("branch", "closed"),
    [("main", True), ("maintenance", False), ("release/1", True), ("release/1/2", True), ("release", False)],
)
def test_a_pattern(branch: str, closed: bool) -> None:
    assert run_protection.is_protected(branch, CLOSED) is closed


def test_looking(repo: Repo) -> None:
    repo.git("branch", "release/1", "other")
    repo.git("pack-refs", "--all")
    repo.git("branch", "release/2", "v1")
    assert branches.protected_heads(context_of(repo).location, CLOSED) == {
        "refs/heads/main": repo.oid("main"),
        "refs/heads/release/1": repo.oid("other"),
        "refs/heads/release/2": repo.oid("v1"),
    }


# -- in the guard ------------------------------------------------------------------------------------------------------


def make_run(repo: Repo, run_id: str = "r1", closed: tuple[str, ...] = CLOSED, *, guard: bool = False) -> Repo:
    """A run's worktree as `prepare` makes it, as far as branches go."""
    made = agent_worktree(repo, f"run-{run_id}")
    made.git("branch", "-m", f"agent/run-{run_id}", f"agentos/run-{run_id}")
    location = open_workspace(str(made.path)).context.location
    known = record.read(location.git_dir)
    assert known is not None
    fields = {**known.__dict__, "run_id": run_id, "protected": list(closed), "branch": f"agentos/run-{run_id}"}
    record.write(location.git_dir, record.Record(**fields))
    return made


def operations(where: Path, *argv: str) -> list[str]:
    call = Call(("git", *argv), str(where), dict(os.environ))
    return assessor.assess_git(call, Identity("run-r1", "environment")).decision.operations


REFUSED = [
    ("update-ref", "refs/heads/main", "other"),
    ("branch", "-f", "main", "other"),
    ("branch", "-D", "release/1"),
    ("branch", "-m", "main", "old"),
    ("branch", "-M", "other", "main"),
    ("update-ref", "-d", "refs/heads/release/1"),
    ("push", ".", "HEAD:main"),
    ("push", "origin", "HEAD:release/1"),
    ("symbolic-ref", "refs/heads/main", "refs/heads/other"),
]


@pytest.mark.parametrize("argv", REFUSED)
def test_the_guard_closes_them_to_the_run(repo: Repo, argv: tuple[str, ...]) -> None:
    repo.git("branch", "release/1")
    inside, beside = make_run(repo), agent_worktree(repo, "beside")
    (inside.path / "deeper").mkdir()
    for where in (inside.path, inside.path / "deeper"):
        assert "protected-branch" in operations(where, *argv)
    assert "protected-branch" not in operations(beside.path, *argv)


def test_configured_branches_are_protected_too(repo: Repo) -> None:
    repo.config("agentos.protected", "stable")
    inside = make_run(repo)
    found = settings.read(str(inside.path), os.environ)
    assert (found.protected, found.own_branch) == (("stable", *CLOSED), "agentos/run-r1")
    assert "protected-branch" in operations(inside.path, "push", ".", "HEAD:stable")


def test_runs_own_branch_is_never_protected(repo: Repo) -> None:
    inside = make_run(repo, closed=("*",))
    make_run(repo, "r2", ("*",))
    assert "protected-branch" not in operations(inside.path, "commit", "-m", "x")
    assert "protected-branch" in operations(inside.path, "branch", "-f", "agentos/run-r2", "other")


def test_protection_follows_the_run_into_other_worktrees(repo: Repo) -> None:
    """To another worktree, and without the variable: a process above was started with it."""
    make_run(repo)
    script = (
        "import os; from git_agentos.guard.configuration.run_protection import read_run_protection as read;"
        " print(read(os.getcwd(), os.getpid()))"
    )
    for command in (f"python3 -c '{script}'", f"env -u AGENTOS_RUN_ID python3 -c '{script}'; true"):
        for run_id, wanted in (("r1", CLOSED), ("r9", ())):
            env = {**os.environ, "AGENTOS_RUN_ID": run_id}
            out = subprocess.run(["sh", "-c", command], cwd=repo.path, env=env, capture_output=True, check=True).stdout
            assert f"patterns={wanted}".encode() in out


def test_a_record_without_a_branch_protects_all_the_same(repo: Repo) -> None:
    inside = make_run(repo)
    path = Path(open_workspace(str(inside.path)).context.location.git_dir, "agentos/worktree.json")
    body = json.loads(path.read_text())
    for branch in ({}, {"branch": None}):
        path.write_text(json.dumps({key: value for key, value in body.items() if key != "branch"} | branch))
        found = settings.read(str(inside.path), os.environ)
        assert (found.protected, found.own_branch) == (CLOSED, None)
        assert "protected-branch" in operations(inside.path, "push", ".", f"HEAD:{CLOSED[0]}")


def test_a_damaged_record_lets_nothing_through(repo: Repo) -> None:
    inside = make_run(repo)
    path = Path(open_workspace(str(inside.path)).context.location.git_dir, "agentos/worktree.json")
    for text in ("{", "[]", json.dumps({"run_id": "r1", "protected": [1]}), json.dumps({"run_id": "r1"})):
        path.write_text(text)
        done = tool(inside.path, "guard", "check", "--", "git", "commit", "-m", "x")
        assert done.code not in (0, 70), str(done)


# -- past the guard ----------------------------------------------------------------------------------------------------


class Ground:
    """A run's worktree, and where protected branches stood before it did anything."""

    def __init__(self, repo: Repo, run_id: str = "r1") -> None:
        service = GitWorktreeWorkspaceService(str(repo.path), guard=False, protected=CLOSED)
        self.repo = repo
        self.run: WorkspaceContext = service.prepare_pre_run(run_id=run_id)
        self.inside = Repo(Path(self.run.worktree_path))
        self.before = dict(branches.protected_heads(context_of(repo).location, CLOSED))

    def violations(self) -> list[str]:
        return branches.check_branches(context_of(self.repo), self.run, self.before, CLOSED)

    @property
    def now(self) -> dict[str, str]:
        return dict(branches.protected_heads(context_of(self.repo).location, CLOSED))

    def is_kept(self, commit: str) -> bool:
        """Whether a ref reaches a commit."""
        return self.repo.text("for-each-ref", "--contains", commit) != ""


@pytest.fixture
def ground(repo: Repo) -> Ground:
    repo.git("branch", "release/1", "v1")
    return Ground(repo)


FORGE = "new=$(git commit-tree -p main -m forged main^{tree})"
# What a run does to protected branches, all of which is set back. `main` is checked out beside, `release/1` is not.
DONE = {
    "update-ref to its own": "echo x > x; git add x; git commit -qm x; git update-ref refs/heads/main HEAD",
    "push to here": "echo x > x; git add x; git commit -qm x; git push -q . HEAD:release/1",
    "branch -f": "echo x > x; git add x; git commit -qm x; git branch -f release/1 HEAD",
    "a merge in a worktree of its own": (
        "echo x > x; git add x; git commit -qm x; git worktree add -q ../more release/1 2>/dev/null; cd ../more;"
        " git merge -q --no-edit agentos/run-r1; cd ..; git -C repo worktree remove --force more || rm -rf more"
    ),
    "a forged commit": f"{FORGE}; git update-ref refs/heads/main $new",
    "a forged commit where nobody stands": f"{FORGE}; git update-ref refs/heads/release/1 $new",
    "a ref written as a file": f'{FORGE}; echo $new > "$(git rev-parse --git-common-dir)/refs/heads/main"',
    "another written as a file": f'{FORGE}; echo $new > "$(git rev-parse --git-common-dir)/refs/heads/release/1"',
    "a symbolic ref": "git symbolic-ref refs/heads/release/1 refs/heads/other",
    "deleting": "git branch -qD release/1",
    "deleting files": 'rm "$(git rev-parse --git-common-dir)/refs/heads/main"',
    "back in history": "git branch -qf release/1 v1^{commit}; git update-ref refs/heads/main v1^{commit}",
    "a new one": "echo x > x; git add x; git commit -qm x; git branch release/2",
    "through packed refs": f"{FORGE}; git update-ref refs/heads/main $new; git pack-refs --all",
}


@pytest.mark.parametrize("name", DONE)
def test_moved_protected_branch_is_reported_and_reset(ground: Ground, name: str) -> None:
    if "file" in name:
        ref_storage.require_files("none is written or deleted without git")
    checked_out = ground.repo.git("status", "--porcelain")
    subprocess.run(["sh", "-ec", DONE[name]], cwd=ground.inside.path, check=True)
    assert ground.now != ground.before
    moved = {oid for name, oid in ground.now.items() if ground.before.get(name) != oid}
    found = ground.violations()
    assert found
    assert all(each.endswith("set back") for each in found), found
    assert ground.now == ground.before
    assert ground.repo.git("status", "--porcelain") == checked_out
    assert all(ground.is_kept(oid) for oid in moved)
    assert ground.violations() == []


REF = "refs/heads/release/1"
CONTENTS = {"no id": "junk", "nothing": "", "no digits": "z" * len(ZERO)}  # of the ref's file
TARGETS = {"a circle": REF, "a branch without a commit": "refs/heads/nobody"}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", [*CONTENTS, *TARGETS, "an id of nothing"])
def test_a_damaged_one_is_told_and_set_back(ground: Ground, name: str, packed: bool) -> None:
    if packed:
        ground.repo.git("pack-refs", "--all")
    if name in CONTENTS:
        ref_storage.require_files("no ref is damaged alone")
        path = ground.repo.path / ".git" / REF
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CONTENTS[name] + "\n")
    elif name in TARGETS:
        ground.repo.git("symbolic-ref", REF, TARGETS[name])
    else:
        ref_storage.point_nowhere(ground.repo, REF)
    [found] = ground.violations()
    assert found.endswith("set back")
    assert not found.endswith("not set back")
    assert ground.now == ground.before
    assert ground.violations() == []


def test_ref_damaged_before_the_run_is_not_reported(ground: Ground) -> None:
    whole = ground.repo.oid(REF)
    for damage in (ref_storage.damage, ref_storage.point_nowhere):
        damage(ground.repo, REF)
        ground.before = ground.now
        assert ground.violations() == []
        refs.repair(context_of(ground.repo).location, REF, whole)


def test_a_commit_on_a_protected_branch(repo: Repo) -> None:
    repo.git("branch", "release/1", "v1")
    ground = Ground(repo)
    ground.inside.git("checkout", "-q", "release/1")
    ground.inside.write("x", "x\n")
    made = ground.inside.commit("on a protected branch")
    ground.inside.append("x", "and more\n")
    first, second = ground.violations()
    assert first == f"the protected branch 'release/1' was moved from {repo.oid('v1')[:8]} to {made[:8]}: set back"
    assert second == "its worktree is on the protected branch 'release/1'"
    assert ground.now == ground.before
    assert ground.is_kept(made)
    assert ground.inside.read("x") == b"x\nand more\n"


# What others do meanwhile, with the commands that people use.
MEANWHILE = {
    "a commit": "echo y > y; git add y; git commit -qm y",
    "a merge": "git merge -q --no-edit other",
    "a commit, and away": "echo y > y; git add y; git commit -qm y; git switch -q -c elsewhere",
    "back": "git reset -q --hard HEAD~1",
    "a fetch": "git fetch -q . other:release/1",
    "a branch": "git branch -q release/7 other",
    "forward": "git branch -q -f release/1 main",
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_branch_moved_by_others_is_not_blamed_on_the_run(ground: Ground, name: str) -> None:
    ground.inside.write("x", "x\n")
    ground.inside.commit("the run's own")
    subprocess.run(["sh", "-ec", MEANWHILE[name]], cwd=ground.repo.path, check=True)
    after = ground.now
    assert after != ground.before
    assert ground.violations() == []
    assert ground.now == after


@pytest.mark.parametrize("name", ["a commit", "a merge", "forward", "a fetch"])
def test_missing_reflog_blames_nobody(ground: Ground, name: str) -> None:
    ground.repo.config("core.logAllRefUpdates", "false")
    if name in ("a commit", "forward"):
        subprocess.run(["rm", "-rf", str(ground.repo.path / ".git/logs")], check=True)
    else:
        ground.repo.git("reflog", "expire", "--expire=all", "--all")
    subprocess.run(["sh", "-ec", MEANWHILE[name]], cwd=ground.repo.path, check=True)
    after = ground.now
    assert after != ground.before
    assert ground.violations() == []
    assert ground.now == after


def test_run_may_merge_commits_of_others(ground: Ground) -> None:
    """Commits of others do not become the run's by being in its history too."""
    ground.repo.write("y", "y\n")
    ground.repo.commit("a person's")
    ground.inside.write("x", "x\n")
    ground.inside.commit("the run's own")
    ground.inside.git("merge", "-q", "--no-edit", "main")
    assert ground.violations() == []


def test_another_run_is_accepted_meanwhile(ground: Ground) -> None:
    beside = agent_worktree(ground.repo, "beside")
    beside.write("y", "y\n")
    beside.commit("work")
    done = tool(ground.repo.path, "worktree", "merge", "beside")
    assert done.code == 0, str(done)
    assert ground.now != ground.before
    assert ground.violations() == []


def test_another_run_s_doing_that_is_set_back_meanwhile(ground: Ground) -> None:
    """A run that began while a branch was where it should not be does not bring it back there."""
    forge = f"{FORGE}; git update-ref refs/heads/main $new"
    subprocess.run(["sh", "-ec", forge], cwd=ground.inside.path, check=True)
    second = Ground(ground.repo, "r2")
    assert second.before != ground.before
    [found] = ground.violations()
    assert found.endswith("set back")
    assert second.violations() == []
    assert ground.now == ground.before


def test_files_that_went_along_are_left(ground: Ground) -> None:
    """The run's work was merged in the worktree that has main: to set main back would make that look undone."""
    ground.inside.write("x", "x\n")
    ground.inside.commit("the run's own")
    ground.repo.git("merge", "-q", "--no-edit", "agentos/run-r1")
    after = ground.now
    [found] = ground.violations()
    assert found.endswith(f"and '{ground.repo.path}' with it: left as it is")
    assert ground.now == after


def test_a_worktree_that_is_gone(ground: Ground) -> None:
    git(ground.inside.path, "update-ref", "refs/heads/main", git(ground.repo.path, "rev-parse", "other").strip())
    subprocess.run(["rm", "-rf", str(ground.inside.path)], check=True)
    [found] = ground.violations()
    assert found.endswith("set back")
    assert ground.now == ground.before
