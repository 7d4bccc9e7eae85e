"""The clients: where their programs are, how each is set up in a home of its own, and how it is run headless."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.model_server import ModelServer
from tests.support.env import PROJECT_ROOT

# Set by `make test-clients` and by CI; elsewhere the clients are looked for in the same place.
PROGRAMS = PROJECT_ROOT / ".venv" / "clients" / "node_modules" / ".bin"
LIMIT = 600  # seconds for a session; opencode fetches its plugin library when it is first started


class SetUp(NamedTuple):
    """How a client is run against a server: its command line after the program, and its environment."""

    argv: tuple[str, ...]
    environment: dict[str, str]


class Client(NamedTuple):
    """`name` is what `git agentos guard integrate` calls it; `set_up(home, worktree, url)` writes its configuration.

    `in_text` are the variables that whoever starts it by a line of shell has to set there.
    """

    name: str
    program: str
    set_up: Callable[[Path, Path, str], SetUp]
    in_text: frozenset[str] = frozenset()


class Session(NamedTuple):
    """What a client did: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str


PROMPT = "Do what the script says"


def _claude_code(home: Path, worktree: Path, url: str) -> SetUp:
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # root may not skip permissions elsewhere
    }
    return SetUp(("-p", PROMPT, "--dangerously-skip-permissions"), environment)


# The second trusts hooks that nobody has confirmed with '/hooks': in 'codex exec' nobody could.
_CODEX_WITHOUT_QUESTIONS = ("--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust")


def _codex(home: Path, worktree: Path, url: str) -> SetUp:
    _write(
        home / ".codex" / "config.toml",
        f'model = "test-model"\nmodel_provider = "loopback"\n'
        f'[model_providers.loopback]\nname = "loopback"\nbase_url = "{url}/v1"\nenv_key = "LOOPBACK_KEY"\n'
        f'wire_api = "responses"\n[projects."{worktree}"]\ntrust_level = "trusted"\n',
    )
    return SetUp(("exec", *_CODEX_WITHOUT_QUESTIONS, PROMPT), {"LOOPBACK_KEY": "dummy"})


def _gemini(home: Path, worktree: Path, url: str) -> SetUp:
    _write(home / ".gemini" / "settings.json", json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    argv = ("-p", PROMPT, "--yolo", "-m", "gemini-2.5-flash")
    # '--skip-trust' trusts the folder only after its settings were left out.
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return SetUp(argv, {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": url, **trust})


def _copilot(home: Path, worktree: Path, url: str) -> SetUp:
    argv = ("-p", PROMPT, "--allow-all-tools", "--allow-all-paths", "--trust-folder", "--no-auto-update")
    environment = {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_MODEL": "test-model",
        "COPILOT_OFFLINE": "true",
    }
    return SetUp(argv, environment)


def _opencode(home: Path, worktree: Path, url: str) -> SetUp:
    model = {"name": "test", "tool_call": True, "limit": {"context": 100_000, "output": 4_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loopback",
        "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
        "models": {"test-model": model},
    }
    settings = {
        "model": "loopback/test-model",
        "small_model": "loopback/test-model",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"loopback": provider},
    }
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    return SetUp(("run", PROMPT), {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"})


CLIENTS = (
    Client("claude-code", "claude", _claude_code),
    Client("codex", "codex", _codex),
    Client("gemini", "gemini", _gemini, frozenset({"GEMINI_CLI_TRUST_WORKSPACE"})),
    Client("copilot", "copilot", _copilot),
    Client("opencode", "opencode", _opencode),
)


def missing(client: Client) -> str | None:
    """Why a client cannot be run here; None where it can."""
    if shutil.which("node") is None:
        return "Node.js is not installed"
    if not (PROGRAMS / client.program).exists():
        return f"{client.name} is not installed ('make test-clients' installs it from the npm registry)"
    return None


def run(
    client: Client,
    server: ModelServer,
    home: Path,
    worktree: Path,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
) -> Session:
    """Run a whole session in `worktree`. `before` are the words of a wrapper, such as `git agentos guard exec --`,
    `after` further options of the client."""
    made = client.set_up(home, worktree, server.url)
    return _run([*before, str(PROGRAMS / client.program), *made.argv, *after], made.environment, home, worktree)


def run_prepared(client: Client, made: SetUp, home: Path, worktree: Path, without: Sequence[str] = ()) -> Session:
    """Run a whole session in `worktree`, of a client that was set up before, without some of its options."""
    argv = [word for word in made.argv if word not in without]
    return _run([str(PROGRAMS / client.program), *argv], made.environment, home, worktree)


def call(client: Client, home: Path, cwd: Path, *words: str) -> Session:
    """Run one command of a client, such as `plugin list`; no model is asked."""
    return _run(
        [str(PROGRAMS / client.program), *words], {"IS_SANDBOX": "1", "GEMINI_CLI_TRUST_WORKSPACE": "true"}, home, cwd
    )


def run_text(client: Client, server: ModelServer, home: Path, worktree: Path, text: str) -> Session:
    """Run a session that is started by shell text, with the prompt on stdin and in AGENTOS_PROMPT_FILE."""
    made = client.set_up(home, worktree, server.url)
    prompt = home / "prompt.md"
    prompt.write_text(f"{PROMPT}\n")
    own = {key: value for key, value in made.environment.items() if key not in client.in_text}
    return _run(["sh", "-c", text], {**own, "AGENTOS_PROMPT_FILE": str(prompt)}, home, worktree, prompt.read_bytes())


def _run(argv: Sequence[str], environment: Mapping[str, str], home: Path, worktree: Path, data: bytes = b"") -> Session:
    path = os.pathsep.join([os.path.dirname(sys.executable), str(PROGRAMS), os.environ["PATH"]])
    shared = {
        "PATH": path,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONPATH": os.environ["PYTHONPATH"],
    }
    done = subprocess.run(
        argv, cwd=worktree, env={**shared, **environment}, input=data, capture_output=True, check=False, timeout=LIMIT
    )
    return Session(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def agentos(home: Path, cwd: Path, *words: str, codes: Sequence[int] = (0,)) -> str:
    """Run `git agentos` as the person whose home it is."""
    path = os.pathsep.join([os.path.dirname(sys.executable), str(PROGRAMS), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(home), "PYTHONPATH": os.environ["PYTHONPATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "git_agentos", *words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode in codes, (words, done)
    return done.stdout


def git(home: Path, cwd: Path, *words: str) -> str:
    """Run git as the person whose home it is."""
    environment = {**os.environ, "HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    return subprocess.run(["git", *words], cwd=cwd, env=environment, capture_output=True, check=True, text=True).stdout


def available(client: Client) -> None:
    """Skip the test where the client cannot be run."""
    reason = missing(client)
    if reason is not None and "AGENTOS_TEST_CI" in os.environ:
        pytest.fail(reason)  # CI asks for those that it has installed
    if reason is not None:
        pytest.skip(reason)
