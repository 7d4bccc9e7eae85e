"""`guard exec --sandbox`: ordinary work goes on, and what is not the agent's cannot be written."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from git_agentos.errors import GuardError
from git_agentos.git.location import locate
from git_agentos.guard.exec import sandbox
from tests.support.agents import agent_worktree
from tests.support.confirming import set_up, set_up_key
from tests.support.guard.approvals import at_terminal
from tests.support.repo import Repo, git_run
from tests.support.sandbox import needs_bubblewrap
from tests.support.state import complete_state
from tests.support.tool import Result, run, run_ok

_OWN_GIT = Path(git_run(Path.cwd(), "--exec-path").stdout.decode().strip(), "git")
GIT_IS_TWICE = _OWN_GIT.exists() and _OWN_GIT.resolve() != Path(str(shutil.which("git"))).resolve()
TOOL = f"{sys.executable} -m git_agentos"


@pytest.fixture
def dev(repo: Repo) -> Repo:
    """An agent's worktree with work in it, beside another agent's and a dirty main worktree."""
    agent_worktree(repo, "other")
    repo.append("readme.txt", "mine\n")
    made = agent_worktree(repo, "dev")
    made.append("readme.txt", "unstaged\n")
    made.write("new.txt", "untracked\n")
    return made


def inside(where: Path, text: str, *options: str) -> Result:
    return run(where, "guard", "exec", "--sandbox", *options, "--", "bash", "-c", text)


@needs_bubblewrap
def test_ordinary_work_goes_on(dev: Repo) -> None:
    text = (
        "set -e; git status -s; git add -A; git commit -qm one; echo more >>readme.txt; "
        "git stash -q; git stash pop -q; "
        f"git switch -q -c topic; git switch -q -; {TOOL} checkpoint -q -m inside; {TOOL} status -q; "
        "git fetch -q .; "
        "git pack-refs --all; git branch later; echo $PWD $AGENTOS_AGENT_ID"
    )
    done = inside(dev.path, text)
    assert done.code == 0, str(done)
    assert done.out.decode().splitlines()[-1] == f"{dev.path} dev"
    assert run_ok(dev.path, "checkpoint", "list")["checkpoints"][0]["description"] == "inside"
    assert inside(dev.path / "src", "pwd; exit 5").out.decode() == f"{dev.path / 'src'}\n"
    assert inside(dev.path, "exit 5").code == 5


@needs_bubblewrap
def test_files_outside_the_worktree_cannot_be_written(dev: Repo, repo: Repo, home: Path) -> None:
    common, other = repo.git_dir, repo.path.parent / "repo.worktrees" / "other"
    run(dev.path, "guard", "exec", "--", "true")
    before = complete_state(repo.path), complete_state(other)
    targets = [
        common / "config", common / "hooks" / "post-checkout", common / "HEAD", common / "index",
        common / "agentos" / "guard" / "bin" / "git", common / "agentos" / "approvals" / "grants" / "x.json",
        common / "worktrees" / "other" / "HEAD", common / "worktrees" / "dev" / "agentos" / "id",
        repo.path / "readme.txt", repo.path / "new", other / "readme.txt", other / "new", home / ".gitconfig",
    ]  # fmt: skip
    text = "; ".join(
        f"(echo planted >>'{path}') 2>/dev/null && echo 'wrote {path}'; "
        f"(rm -f '{path}' && ! [ -e '{path}' ] && [ -e '{path.parent}/.' ] && echo 'removed {path}') 2>/dev/null; "
        f"(echo x >/tmp/x.$$ && mv /tmp/x.$$ '{path}') 2>/dev/null && echo 'replaced {path}'; rm -f /tmp/x.$$"
        for path in targets
    )
    exists = {path for path in targets if path.exists()}
    done = inside(dev.path, f"{text}; git config user.x y; git -C '{repo.path}' add -A; true")
    wrote = [
        line for line in done.out.decode().splitlines() if not line.startswith("removed") or Path(line[8:]) in exists
    ]
    assert wrote == [], str(done)
    assert (complete_state(repo.path), complete_state(other)) == before
    assert repo.try_git("config", "user.x") == 1


@needs_bubblewrap
def test_no_configuration_can_be_made(dev: Repo, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing from which git reads configuration can be written, made, or put in another one's place: neither policy
    nor a key of one's own that would confirm it."""
    place = tmp_path / "newcomer"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    included = tmp_path / "included"
    included.write_text("[user]\n\tname = Ada\n")
    repo.git("config", "--global", "user.email", "ada@example.com")
    repo.config("include.path", str(included))
    policy = """'[agentos "policy"]\\n\\treset-hard = allow\\n'"""
    tries = {
        "made": f"mkdir -p ~/.config/git; printf {policy} >~/.config/git/config",
        "appended": f"printf {policy} >>~/.gitconfig",
        "replaced": f"printf {policy} >~/x; mv ~/x ~/.gitconfig",
        "removed": f"rm ~/.gitconfig; printf {policy} >~/.gitconfig",
        "moved": f"mv ~/.config ~/.old && mkdir -p ~/.config/git && printf {policy} >~/.config/git/config",
        "home": f"mv ~ ../old && mkdir ~ && printf {policy} >~/.gitconfig",
        "included": f"printf {policy} >>{included}",
        "system": f'printf {policy} >>"$(git var GIT_CONFIG_SYSTEM | tail -1)"',
        "key": "head -c 32 /dev/urandom >~/.config/git-agentos/key; echo '{}' >~/.config/git-agentos/confirmed.json",
        "config": f"git config --global agentos.policy.reset-hard allow; printf {policy} >>{repo.git_dir}/config",
        "linked": f"ln -sf {dev.path}/policy ~/.gitconfig && printf {policy} >{dev.path}/policy",
    }
    text = "; ".join(f"({each}) 2>/dev/null && echo {name}" for name, each in tries.items())
    done = inside(dev.path, f"cd ~; {text}; ls -A ~ ~/.config ~/.config/git-agentos; cd {dev.path}; git reset --hard")
    made = set(done.out.decode().split()) & set(tries)
    assert made == set(), str(done)
    assert done.code == 3, str(done)
    assert repo.git("config", "--global", "--list") == b"user.email=ada@example.com\n"
    assert repo.try_git("config", "agentos.policy.reset-hard") == 1
    # What a person has confirmed counts in there.
    set_up(repo, "agentos.policy.reset-hard", "allow")
    assert inside(dev.path, "git reset -q --hard").code == 0


@needs_bubblewrap
def test_keys_cannot_be_read(dev: Repo, repo: Repo, home: Path, tmp_path: Path) -> None:
    key = set_up_key(repo, tmp_path)
    key.write_text("very secret")
    own = home / ".config" / "git-agentos" / "key"
    run(dev.path, "guard", "exec", "--", "git", "merge", "v1")  # makes the user's key
    assert own.exists()
    done = inside(dev.path, f"cat '{key}' '{own}'; ls -A '{own.parent}' | grep -v confirmed; echo x >'{own}'; "
                  "for p in /proc/[0-9]*; do "
                  f"cat $p/root'{key}' $p/root'{own}' 2>/dev/null; done; true")  # fmt: skip
    assert done.out == b"", str(done)
    assert key.read_text() == "very secret"


@needs_bubblewrap
def test_a_request_from_inside_is_granted_outside_and_used_inside(dev: Repo, repo: Repo) -> None:
    dev.commit("all of it")
    stopped = inside(dev.path, "git merge -q --no-edit other")
    assert stopped.code == 3, str(stopped)
    [request] = run_ok(repo.path, "approvals", "list")["approvals"]
    folder = repo.git_dir / "agentos" / "approvals"
    # Neither by the command, nor by writing the file that a grant is; nor by putting another folder in its place.
    forged = f'{{"decision": "granted", "by": "me", "at": "{request["created_at"]}", "until": 9e9, "mac": null}}'
    tries = (
        f"cd / && {TOOL} -C '{repo.path}' approvals grant {request['id']}; "
        f"echo '{forged}' >'{folder}/grants/{request['id']}.json'; "
        f"mv '{folder}' '{folder}.old'; mkdir -p '{folder}/grants'; cp -r '{folder}.old/requests' '{folder}/requests'; "
        f"echo '{forged}' >'{folder}/grants/{request['id']}.json'; cd '{dev.path}'; git merge -q --no-edit other; "
        f"code=$?; rm -rf '{folder}'; mv '{folder}.old' '{folder}'; exit $code"
    )
    tried = inside(dev.path, tries)
    assert tried.code == 3, str(tried)
    assert not dev.exists("other.txt")
    assert at_terminal(repo.path, "approvals", "grant", request["id"]).code == 0
    done = inside(dev.path, "git merge -q --no-edit other")
    assert done.code == 0, str(done)
    assert dev.exists("other.txt")
    assert run_ok(repo.path, "approvals", "show", request["id"])["state"] == "used"
    assert inside(dev.path, "git reset -q --soft HEAD~1 && git merge -q --no-edit other").code == 3


@needs_bubblewrap
def test_in_the_main_worktree(dev: Repo, repo: Repo) -> None:
    done = inside(repo.path, f"git add -A && git commit -qm main && ! (echo x >>'{dev.path}/readme.txt') 2>/dev/null")
    assert done.code == 0, str(done)
    assert repo.text("log", "-1", "--format=%s") == "main"


@needs_bubblewrap
def test_a_worktree_inside_of_the_main_one(repo: Repo) -> None:
    path = repo.path / ".worktrees" / "dev"
    repo.git("worktree", "add", "-q", "-b", "agent/dev", str(path))
    done = inside(path, "echo x >x && git add x && git commit -qm x && ! (echo x >../../y) 2>/dev/null")
    assert done.code == 0, str(done)
    assert not repo.exists("y")


def test_missing_bubblewrap_is_an_error(dev: Repo, tmp_path: Path) -> None:
    location = locate(str(dev.path))
    with pytest.raises(GuardError, match="no bubblewrap"):
        sandbox.bwrap_argv(location, {**os.environ, "PATH": str(tmp_path)}, None, str(dev.path))
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run(dev.path, "guard", "exec", "--sandbox", "--", "true", env=env)
    assert done.code == 1
    assert b"No permissions to create new namespace" in done.err


@needs_bubblewrap
@pytest.mark.skipif(not GIT_IS_TWICE, reason="git's own folder has no git of its own here")
def test_git_at_another_path_is_the_shim(dev: Repo) -> None:
    before = complete_state(dev.path)
    git = os.path.realpath(str(shutil.which("git")))
    for text in (
        f"{git} -c core.fsmonitor= -c core.hooksPath=/dev/null reset --hard",
        "/bin/git -c core.fsmonitor= -c core.hooksPath=/dev/null clean -fdx",
        "bash -lc 'git -c core.fsmonitor= -c core.hooksPath=/dev/null checkout -f'",
        "env -i /usr/bin/env git -c core.fsmonitor= -c core.hooksPath=/dev/null reset --hard",
        f"PATH=/usr/bin:/bin python3 -c \"import os; os.execv('{git}', ['git', 'reset', '--hard', '-q'])\"",
    ):
        done = inside(dev.path, f"{text}; exit $?")
        assert done.code == 3, str(done)
        assert b"git-agentos: stopped" in done.err, str(done)
    assert complete_state(dev.path) == before


@needs_bubblewrap
@pytest.mark.skipif(not GIT_IS_TWICE, reason="git's own folder has no git of its own here")
def test_ordinary_work_in_a_login_shell(dev: Repo) -> None:
    text = (
        "set -e; git status -s; git add -A; git commit -qm one; echo more >>readme.txt; git stash -q; "
        f"git stash pop -q; git switch -q -c topic; {TOOL} checkpoint -q -m inside; {TOOL} status -q; git fetch -q .; "
        "git -c alias.new='!git commit -qam two' new; git log --oneline -2; command -v git"
    )
    done = inside(dev.path, f"bash -lc '{text.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}'")
    assert done.code == 0, str(done)
    assert done.out.splitlines()[-1].endswith(b"/agentos/guard/bin/git")  # put first again after the profile
    assert dev.text("log", "-1", "--format=%s") == "two"
