"""Where tests run: which interpreter is chosen, what it lacks, and the sandbox."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import uuid
import venv
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import TddError
from git_agentos.tdd.gate import pytest_run
from git_agentos.tdd.gate.pytest_run import Control, run_pytest
from git_agentos.tdd.gate.setup import PytestSetup, clean_environment, prepare
from tests.support.agents import agent_worktree
from tests.support.lean_python import minimal_venv
from tests.support.pytest_project import outcomes
from tests.support.repo import Repo
from tests.support.sandbox import needs_bubblewrap


def of(repo: Repo, *, sandbox: bool = False, **extra: str) -> PytestSetup:
    here = open_workspace(repo.path).context
    return prepare(here, {**os.environ, **extra}, timeout=60, sandbox=sandbox, mark=uuid.uuid4().hex)


# -- the interpreter ---------------------------------------------------------------------------------------------------


def test_the_order_of_interpreters(repo: Repo, tmp_path: Path) -> None:
    dev = agent_worktree(repo, "dev")
    own, main, active, named = (dev.path / ".venv", repo.path / ".venv", tmp_path / "active", tmp_path / "named")
    assert of(dev).interpreter.path == sys.executable
    assert of(dev, VIRTUAL_ENV="/nowhere").interpreter.path == sys.executable
    minimal_venv(active)
    assert of(dev, VIRTUAL_ENV=str(active)).interpreter.path == str(active / "bin" / "python")
    minimal_venv(main)
    assert of(dev, VIRTUAL_ENV=str(active)).interpreter.path == str(main / "bin" / "python")
    minimal_venv(own)
    found = of(dev, VIRTUAL_ENV=str(active))
    assert found.interpreter.path == str(own / "bin" / "python")
    assert found.environment["VIRTUAL_ENV"] == str(own)
    assert found.environment["PATH"].split(":")[0] == str(own / "bin")
    minimal_venv(named)
    repo.config("agentos.tdd.python", str(named / "bin" / "python"))
    assert of(dev).interpreter.path == str(named / "bin" / "python")


def test_a_relative_one_is_looked_for_in_both_checkouts_and_a_name_on_the_path(repo: Repo, tmp_path: Path) -> None:
    dev = agent_worktree(repo, "dev")
    python = minimal_venv(repo.path / "env")
    repo.config("agentos.tdd.python", "env/bin/python")
    assert of(dev).interpreter.path == str(python)
    minimal_venv(dev.path / "env")
    assert of(dev).interpreter.path == str(dev.path / "env" / "bin" / "python")
    repo.config("agentos.tdd.python", "python3")
    assert of(dev, PATH=f"{python.parent}:{os.environ['PATH']}").interpreter.path == str(python.parent / "python3")
    repo.config("agentos.tdd.python", "~/env/bin/python")
    os.symlink(repo.path / "env", Path(os.environ["HOME"]) / "env")
    try:
        assert of(dev).interpreter.path == f"{os.environ['HOME']}/env/bin/python"
    finally:
        os.unlink(Path(os.environ["HOME"]) / "env")


@pytest.mark.parametrize("text", ["nowhere", "/nowhere/python", "env/bin/python"])
def test_interpreter_that_does_not_exist(repo: Repo, text: str) -> None:
    repo.config("agentos.tdd.python", text)
    with pytest.raises(TddError, match="there is no interpreter") as caught:
        of(repo)
    assert text in str(caught.value)


def test_interpreter_without_pytest_hints_at_installing_it(repo: Repo) -> None:
    venv.create(repo.path / ".venv", symlinks=True, with_pip=False)
    python = repo.path / ".venv" / "bin" / "python"
    with pytest.raises(TddError, match="cannot import pytest") as caught:
        of(repo)
    assert str(python) in str(caught.value)
    assert f"uv pip install --python {python} pytest" in str(caught.value.hint)
    package = repo.path / ".venv" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages" / "pip"
    package.mkdir()
    with pytest.raises(TddError) as caught:
        of(repo)
    assert f"{python} -m pip install pytest" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#!/bin/sh\necho 'no such thing' >&2; exit 3\n", "no such thing"),
        ("#!/bin/sh\nexit 3\n", "exit code 3"),
        ("#!/nowhere/sh\n", "no such file or directory"),
    ],
)
def test_interpreter_is_not_a_python(repo: Repo, text: str, says: str) -> None:
    repo.write("python", text, 0o755)
    repo.config("agentos.tdd.python", "./python")
    with pytest.raises(TddError, match=says):
        of(repo)


def test_the_setup_of_a_worktree(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    repo.config("agentos.tdd.python", str(minimal_venv(repo.path.parent / "venv")))
    found = of(dev, ANTHROPIC_API_KEY="x", GIT_DIR="/nowhere")
    assert (found.location.root, found.main_root) == (str(dev.path), str(repo.path))
    assert (found.timeout, found.bwrap) == (60, None)
    assert len(found.environment["AGENTOS_RUN_MARK"]) == 32
    assert not {"ANTHROPIC_API_KEY", "GIT_DIR"} & set(found.environment)
    assert of(repo).main_root is None


def test_tests_commit_as_the_user(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[user]\n\tname = Ada\n[alias]\n\tx = !true\n")
    found = of(repo, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path), GIT_CONFIG_GLOBAL=str(tmp_path / "config"))
    variables = {key: value for key, value in found.environment.items() if key.startswith("GIT_")}
    assert variables == {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ada"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_ORG", "o"), ("AWS_PROFILE", "p"), ("GITHUB_ACTOR", "a"), ("npm_token", "t"), ("MY_API_KEY", "k"),
        ("DB_PASSWORD", "p"), ("X", "sk-ant-" + "a" * 40), ("PIP_INDEX_URL", "https://u:secret99@host/simple"),
        ("GIT_AUTHOR_NAME", "n"), ("AGENTOS_X", "x"), ("PYTEST_XDIST_WORKER", "gw0"), ("PYTHONPATH", "/x"),
        ("SSH_AUTH_SOCK", "/x"), ("PYTHONOPTIMIZE", "1"),
    ],
)  # fmt: skip
def test_variables_that_tests_do_not_get(name: str, value: str) -> None:
    assert name not in clean_environment({name: value})


@pytest.mark.parametrize(
    "name", ["HOME", "PATH", "LANG", "TMPDIR", "TZ", "CI", "PWD", "PYTHONHASHSEED", "DJANGO_SETTINGS"]
)
def test_variables_that_tests_get(name: str) -> None:
    assert clean_environment({name: "/some/value"})[name] == "/some/value"


# -- the sandbox -------------------------------------------------------------------------------------------------------

HOSTILE = """\
import os, pathlib, socket, pytest

@pytest.mark.parametrize("path", {paths!r})
def test_cannot_write(path):
    path = pathlib.Path(path)
    with pytest.raises(OSError):
        (path / "planted" if path.is_dir() else path).write_text("planted")

@pytest.mark.parametrize("path", {paths!r})
def test_cannot_remove(path):
    with pytest.raises(OSError):
        os.rename(path, path + ".old")

def test_no_network():
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", {port}), 5)

def test_no_sockets():
    with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as found:
        found.connect({unix!r})

def test_ordinary_work_goes_on(tmp_path):
    (tmp_path / "x").write_text("x")
    pathlib.Path("written").write_text("x")
    pathlib.Path("pkg/new.py").write_text("x = 1")
    import pkg.new, multiprocessing, subprocess
    assert multiprocessing.get_context("fork").Lock() is not None
    assert subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True).returncode == 0
    with open("/dev/null", "w") as file:
        file.write("x")

def test_fails():
    assert 0
"""


@needs_bubblewrap
def test_the_sandbox(repo: Repo, tmp_path: Path) -> None:
    dev, other = agent_worktree(repo, "dev"), agent_worktree(repo, "other")
    python = minimal_venv(repo.path / ".venv", copied=True)
    dev.write("pkg/__init__.py", "")
    outside = tmp_path / "outside"
    outside.mkdir()
    paths = [dev.path / ".git", dev.git_dir / "HEAD", repo.git_dir / "config", repo.git_dir / "refs", repo.path / "src"]
    paths += [other.path / "readme.txt", Path("/etc/hostname"), python.parent, Path("/usr/bin")]
    unix = str(outside / "socket")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(unix)
        local.listen()
        values = {"paths": [str(each) for each in paths], "port": server.getsockname()[1], "unix": unix}
        dev.write("test_it.py", HOSTILE.format(**values))
        found = run_pytest(of(dev, sandbox=True), ("test_it.py",), canary=True)
    wrong = {node: outcome for node, outcome in outcomes(found).items() if outcome != pytest_run.PASSED}
    assert wrong == {"test_it.py::test_fails": pytest_run.FAILED, str(found.canary): pytest_run.FAILED}, found.output
    assert found.exit_code == 1
    assert dev.read("written") == b"x"
    assert sorted(each.name for each in outside.iterdir()) == ["socket"]


@needs_bubblewrap
def test_a_repository_in_memory_can_be_tested_in_the_sandbox() -> None:
    """It lies below a folder that the sandbox has one of its own for."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        repo = Repo.init(Path(folder) / "repo")
        repo.config("agentos.tdd.python", str(minimal_venv(Path(folder) / "venv", copied=True)))
        repo.write("test_a.py", "def test_a(tmp_path): open('written', 'w').close(); (tmp_path / 'x').touch()\n")
        found = run_pytest(of(repo, sandbox=True), ())
        assert (found.exit_code, outcomes(found)) == (0, {"test_a.py::test_a": pytest_run.PASSED}), found.output
        assert repo.exists("written")


@needs_bubblewrap
def test_sandbox_leaves_no_process(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("test_a.py", "import os, signal\ndef test_a():\n    if os.fork() == 0:\n        os.setsid()\n"
               "        signal.pause()\n    os.kill(os.getpid(), 9)\n")  # fmt: skip
    repo.config("agentos.tdd.python", str(minimal_venv(repo.path / ".venv", copied=True)))
    found = run_pytest(of(repo, sandbox=True), ())
    assert (found.exit_code, found.cases) == (137, None)
    repo.write("test_a.py", "import time\ndef test_a(): time.sleep(600)\n")
    begun = threading.Event()
    found = run_pytest(
        of(repo, sandbox=True),
        (),
        control=Control(show=lambda line: begun.set() if b"collected" in line else None, stop=begun.is_set),
    )
    assert (found.interrupted, found.cases) == (True, None)


def test_missing_bubblewrap_is_an_error(repo: Repo, tmp_path: Path) -> None:
    with pytest.raises(TddError, match="no bubblewrap"):
        of(repo, sandbox=True, PATH=str(tmp_path))
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(TddError, match="cannot make a sandbox here: No permissions to create new namespace"):
        of(repo, sandbox=True, PATH=f"{tmp_path}:{os.environ['PATH']}")
