"""Repositories, names, environments and agents that mean ill: nothing planted runs, and nothing is lost."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from git_agentos.guard import signing
from git_agentos.guard.approval import approvals, documents
from tests.support.agents import agent_worktree
from tests.support.confirming import set_up
from tests.support.guard.approvals import AGENT, Sleeper, approve, at_terminal, forbid, run_by
from tests.support.repo import Repo
from tests.support.state import complete_state
from tests.support.tool import Result, run, run_ok

TOOL = f"{sys.executable} -m git_agentos"


@pytest.fixture
def dev(repo: Repo) -> Repo:
    """An agent's worktree with work in it."""
    made = agent_worktree(repo, "dev")
    made.append("readme.txt", "unstaged\n")
    made.write("new.txt", "untracked\n")
    return made


@pytest.fixture
def planted(repo: Repo) -> tuple[Path, Path]:
    """A program that leaves a trace when it is run, and the trace."""
    script, trace = repo.scratch / "planted", repo.scratch / "trace"
    script.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{trace}'\n")
    script.chmod(0o755)
    return script, trace


def shell(where: Path, text: str, env: dict[str, str] | None = None) -> Result:
    return run(where, "guard", "exec", "--", "bash", "-c", text, env=env)


# -- a hostile repository ----------------------------------------------------------------------------------------------


def test_programs_planted_in_a_repository_are_not_run(dev: Repo, repo: Repo, planted: tuple[Path, Path]) -> None:
    script, trace = planted
    repo.git("config", "extensions.worktreeConfig", "true")
    for key in ("core.fsmonitor", "core.pager", "core.editor", "diff.external", "core.sshCommand", "alias.reset"):
        dev.git("config", "--worktree", key, str(script))
    hooks = repo.scratch / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout", "post-index-change", "pre-commit"):
        (hooks / name).symlink_to(script)
    dev.git("config", "--worktree", "core.hooksPath", str(hooks))
    trace.unlink(missing_ok=True)
    before = dev.read("readme.txt"), dev.read("new.txt")
    done = shell(dev.path, "git reset --hard")
    assert done.code == 3, str(done)
    assert not trace.exists()
    assert (dev.read("readme.txt"), dev.read("new.txt")) == before


def test_a_policy_of_the_worktrees_own_is_no_policy(dev: Repo, repo: Repo) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    for key, value in (
        ("agentos.policy.reset-hard", "allow"), ("agentos.guard.mode", "save"), ("agentos.auto.beforeRisky", "false"),
    ):  # fmt: skip
        dev.git("config", "--worktree", key, value)
    included = dev.path / "policy.config"
    included.write_text('[agentos "policy"]\n\treset-hard = allow\n[agentos "guard"]\n\tmode = save\n')
    repo.config("include.path", str(included))
    before = complete_state(dev.path)
    done = shell(dev.path, "git reset --hard")
    assert done.code == 3, str(done)
    assert complete_state(dev.path) == before
    assert run_ok(dev.path, "checkpoint", "list")["checkpoints"]


def test_a_policy_of_the_users_is_one(dev: Repo, repo: Repo) -> None:
    set_up(repo, "agentos.policy.reset-hard", "allow")
    before = complete_state(dev.path)
    assert shell(dev.path, "git reset -q --hard").code == 0
    saved = run_ok(dev.path, "checkpoint", "list")["checkpoints"][0]["id"]
    run_ok(dev.path, "restore", saved, "--no-branch")
    assert complete_state(dev.path) == before


@pytest.mark.parametrize("kind", ["link", "file", "folder"])
def test_a_planted_folder_of_ours_is_not_followed(dev: Repo, repo: Repo, kind: str) -> None:
    target = repo.scratch / "target"
    target.mkdir()
    if kind == "link":
        dev.link(".agentos", str(target))
    elif kind == "file":
        dev.write(".agentos", "x")
    else:
        (dev.path / ".agentos").mkdir()
        (dev.path / ".agentos" / "issue_workflow.db").symlink_to(target / "elsewhere.db")
    before = dev.read("readme.txt")
    assert shell(dev.path, "git reset --hard").code != 0
    verdict = run_by(AGENT, forbid(dev.path), "reset", "--hard", cwd=dev.path)
    assert not verdict.run
    assert (dev.read("readme.txt"), os.listdir(target)) == (before, [])


NAMES = [
    "$(touch pwned)", "`touch pwned`", ";touch pwned;", "-rf", "--force", "a\nb", "a\x1b[2Jb", "'\"\\", " ", "é\u202e",
    "a\tb",
]  # fmt: skip


def test_hostile_names(dev: Repo, repo: Repo) -> None:
    for name in NAMES:
        dev.write(name, "x\n")
    dev.write(b"bad\xff", "x\n")
    dev.git("add", "-A")
    dev.append("-rf", "more\n")
    before = complete_state(dev.path)
    for name in NAMES:
        done = run(dev.path, "guard", "exec", "--", "git", "checkout", "-f", "HEAD", "--", name)
        assert done.code in (3, 1), str(done)
        assert b"\x1b" not in done.err
        assert "\u202e".encode() not in done.err
    assert complete_state(dev.path) == before
    branches = ("$(touch${IFS}pwned)", "`touch${IFS}pwned`", ";touch${IFS}pwned;", "a'b", 'a"b', "é\u202e")
    for name in branches:
        repo.git("branch", name)
        done = run(dev.path, "guard", "exec", "--", "git", "branch", "-D", name)
        assert done.code == 3, str(done)
        assert "\u202e".encode() not in done.err
        assert repo.oid(f"refs/heads/{name}") == repo.oid()
    assert not [path for path in (dev.path / "pwned", repo.path / "pwned") if path.exists()]


# -- a hostile environment ---------------------------------------------------------------------------------------------

ENVIRONMENTS = {
    "GIT_DIR": "{common}",
    "GIT_WORK_TREE": "{other}",
    "GIT_INDEX_FILE": "{tmp}/index",
    "GIT_OBJECT_DIRECTORY": "{tmp}",
    "GIT_COMMON_DIR": "{tmp}",
    "GIT_NAMESPACE": "x",
    "GIT_CEILING_DIRECTORIES": "/",
    "GIT_CONFIG_GLOBAL": "{tmp}/config",
    "GIT_CONFIG_SYSTEM": "{tmp}/config",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_PARAMETERS": "'core.hooksPath'='/dev/null' 'agentos.policy.reset-hard'='allow'",
    "GIT_EXEC_PATH": "{tmp}",
    "HOME": "{tmp}",
    "XDG_CONFIG_HOME": "{tmp}",
    "AGENTOS_AGENT_ID": "",
    "AGENTOS_GUARD": "",
    "AGENTOS_WORKFLOW_DB": "{tmp}/db",
    "PYTHONPATH": "{tmp}",
    "PYTHONSTARTUP": "{tmp}/x.py",
    "PYTHONHOME": "{tmp}",
    "LD_PRELOAD": "{tmp}/none.so",
    "TMPDIR": "/nowhere",
    "IFS": "t",
    "ENV": "{tmp}/env",
    "BASH_ENV": "{tmp}/env",
}


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_that_redirects(dev: Repo, repo: Repo, name: str) -> None:
    tmp = repo.scratch / "redirected"
    tmp.mkdir()
    (tmp / "config").write_text("[core]\n\thooksPath = /dev/null\n")
    other = agent_worktree(repo, "other")
    other.append("readme.txt", "the other's\n")
    repo.append("readme.txt", "the main one's\n")
    before = [complete_state(each.path) for each in (dev, repo, other)]
    value = ENVIRONMENTS[name].format(common=repo.git_dir, other=other.path, tmp=tmp)
    done = run(dev.path, "guard", "exec", "--", "env", f"{name}={value}", "git", "reset", "--hard")
    assert done.code != 0, str(done)
    assert [complete_state(each.path) for each in (dev, repo, other)] == before


# -- a hostile agent ---------------------------------------------------------------------------------------------------


def test_a_key_of_its_own_opens_nothing(dev: Repo, repo: Repo, tmp_path: Path) -> None:
    """Below `guard exec`, the user's configuration folder is the one that was meant when it was started."""
    dev.commit("all of it")
    assert run(dev.path, "guard", "exec", "--", "git", "merge", "-q", "--no-edit", "other").code == 3
    [request] = run_ok(repo.path, "approvals", "list")["approvals"]
    mine = {"XDG_CONFIG_HOME": str(tmp_path / "mine"), "HOME": str(tmp_path)}
    place = approvals.open_store(str(repo.git_dir), mine)
    assert place.key == signing.key(mine)
    # Its own request in place of the real one, and a grant for it.
    path = Path(place.folder) / "requests" / f"{request['id']}.json"
    body = json.loads(path.read_text())
    path.unlink()
    assert documents.create(place, "requests", request["id"], {key: body[key] for key in body if key != "mac"})
    assert approvals.grant(place, request["id"], by="me").state == "granted"
    words = ["env", *(f"{key}={value}" for key, value in mine.items()), "git", "merge", "-q", "--no-edit", "other"]
    done = run(dev.path, "guard", "exec", "--", *words)
    assert done.code == 3, str(done)
    assert not dev.exists("other.txt")


def test_requests_cannot_flood_the_list_out_of_shape(dev: Repo, repo: Repo) -> None:
    run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    folder = repo.git_dir / "agentos" / "approvals" / "requests"
    [real] = [path for path in folder.iterdir() if path.suffix == ".json"]
    (folder / "0123456789ab.json").write_text(real.read_text())
    (folder / "link.json").symlink_to("/etc/passwd")
    (folder / "dir.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "huge.json").write_text("[" * (2 << 20))
    body = json.loads(real.read_text())
    body["agent"] = "\x1b[2Jroot"
    (folder / "000000000000.json").write_text(json.dumps(body))
    [listed] = run_ok(repo.path, "approvals", "list")["approvals"]
    assert listed["id"] == real.stem


def test_output_cannot_harm_a_terminal(dev: Repo, repo: Repo) -> None:
    words = ("merge", "a\x1b[2J\nGranted \u202e", os.fsdecode(b"\xff"))
    request = str(run_by(AGENT, approve(dev.path), *words, cwd=dev.path).approval)
    for args in (("list",), ("show", request)):
        out = run(repo.path, "approvals", *args).out
        assert b"\x1b" not in out
        assert "\u202e".encode() not in out
        assert b"\nGranted" not in out


def test_a_grant_is_not_reached_by_another_spelling(dev: Repo, repo: Repo) -> None:
    request = str(run_by(AGENT, approve(dev.path), "merge", "a b", cwd=dev.path).approval)
    assert at_terminal(repo.path, "approvals", "grant", request).code == 0
    with Sleeper() as process:
        for words in (("merge", "a", "b"), ("merge a", "b"), ("merge", "a b", ""), ("merge",)):
            assert not run_by(AGENT, approve(dev.path), *words, cwd=dev.path, pid=process.pid).run
        assert run_by(AGENT, approve(dev.path), "merge", "a b", cwd=dev.path, pid=process.pid).run


def test_agent_without_its_id_is_not_taken_for_a_person(dev: Repo, repo: Repo) -> None:
    """Below `guard exec` it does not matter; elsewhere the record of the worktree is what is left, and doctor tells."""
    before = complete_state(dev.path)
    record = Path(dev.text("rev-parse", "--absolute-git-dir")) / "agentos" / "id"
    done = shell(dev.path, f"rm '{record}'; cd '{dev.path}' && env -u AGENTOS_AGENT_ID git reset --hard")
    assert done.code == 3, str(done)
    assert complete_state(dev.path) == before
