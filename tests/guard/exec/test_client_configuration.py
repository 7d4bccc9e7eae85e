"""Clients that switch `core.fsmonitor` and hooks off for every git they start: below `guard exec` the guard acts all
the same, and a command that does so itself is still one that goes around the guard."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.guard.guarded_worktree import checkpoints, guarded
from tests.support.repo import Repo
from tests.support.state import complete_state
from tests.support.tool import Result, run

# As Gemini CLI 0.61 and Copilot CLI 1.0 set them.
GEMINI = [
    ("credential.helper", ""), ("core.fsmonitor", ""), ("core.hooksPath", ""), ("core.sshCommand", ""),
    ("core.pager", "cat"), ("core.editor", ""), ("sequence.editor", ""), ("diff.external", ""),
]  # fmt: skip
COPILOT = [("safe.bareRepository", "explicit"), ("credential.interactive", "never"), ("core.fsmonitor", "false")]
NEXT = [("core.abbrev", "9"), ("CORE.HooksPath", ""), ("core.fsmonitorHookVersion", "1"), ("color.ui", "never")]

# A client: a program that starts shells, or git itself, with an environment of its own making.
CLIENT = """
import json, os, subprocess, sys
argv, more = json.loads(sys.argv[1]), json.loads(sys.argv[2])
sys.exit(subprocess.run(argv, env={**os.environ, **more}).returncode)
"""


def variables(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


@pytest.fixture
def dev(repo: Repo) -> Repo:
    made = guarded(repo)
    made.write("new.txt", "new\n")
    made.git("-c", "core.fsmonitor=", "add", "new.txt")
    return made


def client(dev: Repo, environment: Mapping[str, str], *argv: str, starts: Sequence[str] = ()) -> Result:
    script = dev.scratch / "client.py"
    script.write_text(CLIENT)
    words = (*starts, sys.executable, str(script), json.dumps(argv), json.dumps(dict(environment)))
    return run(dev.path, "guard", "exec", "--", *words)


SHELLS = [
    ("bash", "-c", "git commit -qm one; exit $?"),
    ("bash", "-c", "git commit -qm one"),  # the shell becomes git
    ("git", "commit", "-qm", "one"),
    ("bash", "-c", "set -e; cd .; (git commit -qm one)"),
]


@pytest.mark.parametrize(
    ("pairs", "argv"), [*((GEMINI, argv) for argv in SHELLS), (COPILOT, SHELLS[0]), (NEXT, SHELLS[1])]
)
def test_a_commit_works_and_is_guarded(dev: Repo, pairs: Sequence[tuple[str, str]], argv: tuple[str, ...]) -> None:
    done = client(dev, variables(pairs), *argv)
    assert done.code == 0, str(done)
    assert dev.text("log", "-1", "--format=%s") == "one"
    assert [each.trigger for each in checkpoints(dev)][-1:] == ["pre_commit"]


def test_a_launcher_starts_the_client(dev: Repo) -> None:
    """As npm's does for Copilot CLI, whose own program is no node."""
    perl = shutil.which("perl")
    if perl is None:
        pytest.skip("perl is not installed")
    done = client(dev, variables(COPILOT), *SHELLS[0], starts=(perl, "-e", "exit(system(@ARGV) >> 8)"))
    assert done.code == 0, str(done)
    assert checkpoints(dev)[-1].trigger == "pre_commit"


def test_destructive_command_is_stopped(dev: Repo) -> None:
    before = complete_state(dev.path)
    for text in ("git reset --hard -q; exit $?", "sh -c 'git clean -fdx'; exit $?", "git checkout -f"):
        done = client(dev, variables(GEMINI), "bash", "-c", text)
        assert done.code == 3, str(done)
        assert b"config-guard" not in done.err
    assert complete_state(dev.path) == before


def test_the_other_pairs_stay(dev: Repo) -> None:
    pairs = [("user.nickname", "a b"), *NEXT, ("user.nickname", "it's $HOME\n")]
    text = "git config --get-all user.nickname; git config core.abbrev; git config --get-all core.hooksPath"
    done = client(dev, variables(pairs), "sh", "-c", text)
    assert done.code == 0, str(done)
    assert done.out.startswith(b"a b\nit's $HOME\n\n9\n")
    assert done.out.splitlines()[-1].endswith(b"agentos/guard/hooks")


def test_without_the_users_configuration_their_policy_holds(
    dev: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users"
    users.write_bytes(Path(os.environ["GIT_CONFIG_GLOBAL"]).read_bytes())
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(users))
    dev.git("config", "--global", "agentos.policy.add", "forbid")
    more = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**variables(GEMINI), **more, **names}
    assert client(dev, environment, "bash", "-c", "git status && git commit -qm one; exit $?").code == 0
    dev.write("more.txt", "more\n")
    done = client(dev, environment, "bash", "-c", "git add -A; exit $?")
    assert (done.code, b"agentos.policy.add" in done.err) == (3, True), str(done)
    assert dev.text("status", "--short") == "?? more.txt"


def test_a_client_that_starts_guard_exec(dev: Repo) -> None:
    environment = variables(COPILOT)
    done = run(dev.path, "guard", "exec", "--", "bash", "-c", "git commit -qm one; exit $?", env=environment)
    assert done.code == 0, str(done)
    assert checkpoints(dev)[-1].trigger == "pre_commit"


@pytest.mark.parametrize("text", [
    "export {0}; git commit -qm one; exit $?",
    "{0} git commit -qm one; exit $?",
    "env {0} bash -c 'git commit -qm one; exit $?'; exit $?",
    "{0} python3 -c 'import subprocess as s, sys; sys.exit(s.call([\"git\", \"commit\", \"-qm\", \"one\"]))'; exit $?",
    "{0} GIT_CONFIG_VALUE_1=/tmp/hooks git commit -qm one",
])  # fmt: skip
@pytest.mark.parametrize("has", [True, False], ids=["gemini", "plain"])
def test_command_setting_the_variables_itself(dev: Repo, text: str, has: bool) -> None:
    pairs = "GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0= GIT_CONFIG_KEY_1=core.hooksPath"
    text = text.format(pairs + " GIT_CONFIG_VALUE_1=/dev/null")
    done = client(dev, variables(GEMINI) if has else {}, "bash", "-c", text)
    assert (done.code, b"config-guard" in done.err) == (3, True), str(done)
    assert dev.text("log", "-1", "--format=%s") != "one"


def test_looking_starts_no_python(dev: Repo, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 70\n")
    broken.chmod(0o755)
    done = run(dev.path, "guard", "exec", "--", "sh", "-c", "command -v git")
    shim = Path(done.out.decode().strip())
    lines = shim.read_text().splitlines()
    text = "\n".join(f"guard_python='{broken}'" if each.startswith("guard_python=") else each for each in lines)
    fake = tmp_path / "agentos" / "guard" / "bin" / "git"
    fake.parent.mkdir(parents=True)
    fake.write_text(text + "\n")
    fake.chmod(0o755)
    for pairs, code in ((GEMINI, 0), (COPILOT, 0), (NEXT, 3), ([*COPILOT[:2], ("core.fsmonitor", "x")], 3)):
        env = {**os.environ, **variables(pairs), "PATH": f"{fake.parent}:{os.environ['PATH']}"}
        assert subprocess.run(["git", "status"], cwd=dev.path, env=env, capture_output=True).returncode == code
