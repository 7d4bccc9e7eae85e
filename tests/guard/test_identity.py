"""Who asks: said, recorded, or known by who started it; and which git command another one is a part of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.git.location import locate
from git_agentos.guard import ancestry, call, identity
from git_agentos.guard.identity import Identity
from git_agentos.process import table
from tests.support.agents import agent_worktree
from tests.support.repo import Repo, git_run
from tests.support.tool import run
from tests.support.waiting import wait_until

# Prints, as JSON, who the process that runs it is taken for.
_ASK = (
    "import json, os; from git_agentos.guard import identity; "
    "print(json.dumps(identity.identify(os.environ, identity.find_git_dir(os.getcwd()), os.getpid())))"
)


def ask(*before: str, cwd: Path, env: dict[str, str] | None = None) -> list[str | None]:
    """Who a process is taken for that `before` starts in `cwd`."""
    argv = [*before, sys.executable, "-c", _ASK]
    done = subprocess.run(argv, cwd=cwd, capture_output=True, check=True, env={**os.environ, **(env or {})})
    found: list[str | None] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("environment", "explicit", "expected"),
    [
        ({}, None, Identity(None, "nobody")),
        ({"AGENTOS_AGENT_ID": ""}, None, Identity(None, "nobody")),
        ({"AGENTOS_AGENT_ID": "dev-1"}, None, Identity("dev-1", "environment")),
        ({"AGENTOS_AGENT_ID": "dev-1"}, "boss", Identity("boss", "as")),
        ({"AGENTOS_AGENT_ID": "../../x"}, None, Identity("?", "ill-formed")),
        ({"AGENTOS_AGENT_ID": "a b"}, None, Identity("?", "ill-formed")),
        ({"AGENTOS_AGENT_ID": "x.lock"}, None, Identity("?", "ill-formed")),
        ({"AGENTOS_AGENT_ID": " "}, None, Identity("?", "ill-formed")),
        ({}, "no id", Identity("?", "ill-formed")),
        ({"AGENTOS_GUARD": "dev-2"}, None, Identity("dev-2", "ancestor")),
        ({"AGENTOS_GUARD": ""}, None, Identity("?", "ill-formed")),
    ],
)
def test_explicit_identity_counts(environment: dict[str, str], explicit: str | None, expected: Identity) -> None:
    assert identity.identify(environment, None, None, explicit) == expected


def test_worktree_decides_identity(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    git_dir = locate(str(dev.path)).git_dir
    assert identity.identify({}, git_dir, None) == Identity("dev", "worktree")
    assert identity.identify({}, str(repo.git_dir), None) == Identity(None, "nobody")
    (Path(git_dir) / "agentos" / "id").write_bytes(b"\xff\xfe")
    assert identity.identify({}, git_dir, None) == Identity("?", "ill-formed")


def test_the_git_directory_is_found_without_git(repo: Repo, tmp_path: Path) -> None:
    dev = agent_worktree(repo, "dev")
    assert identity.find_git_dir(str(dev.path / "src" / "lib")) == locate(str(dev.path)).git_dir
    assert identity.find_git_dir(str(repo.path / "src")) == str(repo.git_dir)
    assert identity.find_git_dir(str(tmp_path)) is None


def test_worktree_of_process_decides_identity(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    assert ask(cwd=repo.path) == [None, "nobody"]
    assert ask(cwd=dev.path) == ["dev", "worktree"]


def test_ancestor_in_worktree_decides_identity(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    # The outer shell stays where it is, the inner one leaves.
    outer = ["sh", "-c", 'sh -c \'cd "$0" && exec "$@"\' "$0" "$@"; exit $?', str(repo.path)]
    assert ask(*outer, cwd=dev.path) == ["dev", "ancestor"]
    scrubbed = ["sh", "-c", 'env -u AGENTOS_AGENT_ID "$0" "$@"; exit $?']
    assert ask(*scrubbed, cwd=repo.path, env={"AGENTOS_AGENT_ID": "dev-9"}) == ["dev-9", "ancestor"]


def test_identity_below_guard_exec_cannot_be_unset(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    out = repo.path / "asked.json"
    # Orphaned, in a session of its own, with nothing in its environment, standing somewhere else.
    orphan = (
        "import os, time\n"
        "while os.getppid() != 1 and open(f'/proc/{os.getppid()}/comm').read().strip() in ('sh', 'dash', 'bash'):\n"
        "    time.sleep(0.01)\n"
        f"import sys; sys.stdout = open('{out}.new', 'w')\n{_ASK}\n"
        f"sys.stdout.close(); os.rename('{out}.new', '{out}')\n"
    )
    program = repo.scratch / "orphan.py"
    program.write_text(orphan)
    clean = f"env -i PATH=\"$PATH\" PYTHONPATH=\"$PYTHONPATH\" '{sys.executable}' '{program}'"
    script = f"cd / && (exec setsid {clean} &); while ! [ -e '{out}' ]; do sleep 0.05; done"
    done = run(dev.path, "guard", "exec", "--", "sh", "-c", script)
    assert done.code == 0, str(done)
    assert json.loads(out.read_text()) == ["dev", "ancestor"]


def test_a_process_is_known_by_its_start_too() -> None:
    first = table.identify(os.getpid())
    assert first is not None
    assert first == table.identify(os.getpid())
    assert table.identify(1 << 22) is None
    assert table.parents(os.getpid())[0] == os.getppid()


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps")
def test_missing_proc_falls_back_to_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    real = table.parents(os.getpid())
    monkeypatch.setattr(table, "_PROC", "/nowhere")
    assert table.parents(os.getpid())[0] == real[0]
    assert table.identify(os.getpid()) == table.identify(os.getpid()) is not None
    assert "python" in table.argv(os.getpid())[0]
    assert table.identify(1 << 22) is None
    assert "PATH" in (table.environment(os.getpid()) or {})
    assert table.cwd(os.getpid()) is None
    assert identity.identify({"AGENTOS_AGENT_ID": "dev"}, None, os.getpid()) == Identity("dev", "environment")
    found = call.call_of_process(os.getpid())
    assert found is not None
    assert found.cwd == os.getcwd()


def test_the_call_of_a_process(repo: Repo) -> None:
    child = subprocess.Popen(["sleep", "600"], cwd=repo.path, env={**os.environ, "X": "1"})
    try:
        wait_until(lambda: table.argv(child.pid), "the kernel has made the process")
        found = call.call_of_process(child.pid)
        assert found is not None
        assert (found.argv, found.cwd, found.environment["X"]) == (("sleep", "600"), str(repo.path), "1")
    finally:
        child.kill()
        child.wait()
    assert call.call_of_process(child.pid) is None


# -- steps of a command ------------------------------------------------------------------------------------------------

_SEEN = """\
import os, sys
from git_agentos.guard import ancestry
from git_agentos.process import table
pid = os.getppid()
with open(sys.argv[1], "a") as file:
    told = table.argv(ancestry.outermost_git(pid))
    file.write(" ".join(table.argv(pid)[1:2]) + " of " + " ".join(told[1:]) + "\\n")
sys.exit(1)
"""


@pytest.fixture
def seen(repo: Repo) -> Path:
    """A file to which each git process in the repository that asks fsmonitor writes which command it is a part of."""
    script, out = repo.scratch / "fsmonitor", repo.scratch / "seen"
    (repo.scratch / "seen.py").write_text(_SEEN)
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{repo.scratch / "seen.py"}" "{out}"\n')
    script.chmod(0o755)
    repo.config("core.fsmonitor", str(script))
    repo.config("core.fsmonitorHookVersion", "2")
    out.touch()
    return out


def test_the_inner_commands_of_stash_are_the_stash(repo: Repo, seen: Path) -> None:
    repo.append("readme.txt", "more\n")
    repo.write("new.txt", "new\n")
    seen.write_text("")
    repo.git("stash", "push", "-u", "-q")
    lines = set(seen.read_text().splitlines())
    assert {"reset of stash push -u -q", "clean of stash push -u -q"} <= lines
    assert {line.partition(" of ")[2] for line in lines} == {"stash push -u -q"}
    seen.write_text("")
    repo.git("stash", "pop", "-q")
    assert {line.partition(" of ")[2] for line in seen.read_text().splitlines()} == {"stash pop -q"}


def test_commands_run_by_git_are_not_internal_steps(repo: Repo, seen: Path) -> None:
    git = repo.text("--exec-path") + "/git"
    reset = f"{git} reset -q --hard"
    for words in (
        ["-c", f"alias.x=!{reset}", "x"],
        ["rebase", "-q", "--exec", reset, "HEAD~1"],
    ):
        seen.write_text("")
        repo.git(*words)
        assert "reset of reset -q --hard" in seen.read_text().splitlines(), words
    # An editor that is git itself is git's own child, called by its whole path.
    seen.write_text("")
    repo.git("commit", "-q", "--allow-empty", "-m", "one")
    git_run(repo.path, "commit", "-q", "--allow-empty", env={"GIT_EDITOR": f"{reset} #"})
    assert "reset of reset -q --hard" in seen.read_text().splitlines()


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        (("/usr/lib/git-core/git", "reset", "--hard"), ("git", "stash"), True),
        (("/usr/lib/git-core/git", "reset", "--hard"), ("/usr/bin/git", "-C", "x", "stash", "push"), True),
        (("git", "reset", "--hard"), ("git", "stash"), False),
        (("/usr/lib/git-core/git", "reset", "--hard"), ("git", "-p", "stash"), False),
        (("/usr/lib/git-core/git", "reset", "--hard"), ("git", "stash", "list"), False),
        (("/usr/lib/git-core/git", "reset", "--hard"), ("git", "commit"), False),
        (("/usr/lib/git-core/git", "reset", "--hard"), ("sh", "stash"), False),
        (("/usr/lib/git-core/git", "gc", "--prune=now"), ("git", "commit"), False),
        (("/usr/lib/git-core/git", "maintenance", "run", "--auto"), ("git", "commit"), True),
        (("/usr/lib/git-core/git", "prune", "--expire", "2.weeks.ago"), ("git", "gc"), True),
        (("/usr/lib/git-core/git", "prune"), ("git", "status"), False),
        (("/usr/lib/git-core/git", "reset", "--hard"), (), False),
        ((), ("git", "stash"), False),
    ],
)
def test_only_known_steps_are_parts(inner: tuple[str, ...], outer: tuple[str, ...], expected: bool) -> None:
    assert ancestry.is_part(inner, outer) is expected
