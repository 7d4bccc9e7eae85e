"""The plugin of opencode, in both of its forms: run by node, with a context as opencode's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from git_agentos.guard.harness import integration
from tests.support.agents import agent_worktree
from tests.support.documents import environment
from tests.support.env import PROJECT_ROOT
from tests.support.repo import Repo
from tests.support.tool import run_ok

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

# `child` is the session of a sub-agent of `s`.
_VERSION_1 = """
import plugin from "./plugin.mjs"
const session = { get: async ({ path: { id } }) => ({ data: { parentID: id === "child" ? "s" : undefined } }) }
const hooks = await plugin.server({ directory: process.argv[2], client: { session } })
const id = { sessionID: process.argv[3] }
let calls = 0
const call = (command) =>
  hooks["tool.execute.before"]({ tool: "bash", callID: `c-${++calls}`, ...id }, { args: { command } })
const edited = () =>
  hooks["tool.execute.after"]({ tool: "edit", callID: `c-${++calls}`, args: { filePath: "notes.txt" }, ...id })
const prompt = () => hooks["chat.message"]({ ...id, messageID: "m" }, { parts: [{ type: "text", text: "fix it" }] })
const compact = () => hooks["experimental.session.compacting"](id)
const idle = () => hooks.event({ event: { type: "session.idle", properties: id } })
"""
_VERSION_2 = """
import plugin from "./plugin.mjs"
const hooks = {}, events = []
let wake = () => {}
const subscribe = async function* ({ signal }) {
  while (!signal.aborted) {
    while (events.length) yield events.shift()
    await new Promise((resolve) => { wake = resolve; signal.addEventListener("abort", resolve) })
  }
}
const add = (name, hook) => { hooks[name] = hook }
const ended = await plugin.setup({
  location: { directory: process.argv[2] },
  tool: { hook: add },
  session: { hook: add, get: async ({ sessionID }) => ({ parentID: sessionID === "child" ? "s" : undefined }) },
  event: { subscribe },
})
const id = { sessionID: process.argv[3] }
let calls = 0
const call = (command) => hooks["execute.before"]({ tool: "shell", id: `c-${++calls}`, input: { command }, ...id })
const edited = () => {
  const done = { tool: "edit", id: `c-${++calls}`, input: { filePath: "notes.txt" }, status: "completed" }
  return hooks["execute.after"]({ ...done, ...id })
}
const prompt = () => hooks.prompt({ ...id, messageID: "m", prompt: { text: "fix it" } })
const compact = () => hooks.compaction(id)
const idle = async () => {
  events.push({ type: "session.execution.succeeded", data: id })
  wake()
  await new Promise((resolve) => setTimeout(resolve, 0))
  ended()
}
"""
_PLAY = """
import { appendFileSync } from "node:fs"
const change = () => appendFileSync(`${process.argv[2]}/notes.txt`, "more\\n")
await prompt()
await call("git status")
change()
await edited()
change()
await compact()
try { await call("git reset --hard") } catch (error) { console.log(error.message) }
change()
await idle()
"""


@pytest.fixture
def worktree(repo: Repo) -> Repo:
    made = agent_worktree(repo, "dev")
    made.write("notes.txt", "changed\n")
    return made


@pytest.mark.parametrize("version", [_VERSION_1, _VERSION_2], ids=["1", "2"])
@pytest.mark.parametrize("session", ["s", "child"])
def test_it_asks_and_records(version: str, session: str, worktree: Repo, tmp_path: Path) -> None:
    (tmp_path / "plugin.mjs").write_text(integration.settings_text("opencode"))
    (tmp_path / "run.mjs").write_text(version + _PLAY)
    words = ["node", "run.mjs", str(worktree.path), session]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("git-agentos: stopped 'git reset --hard'"), done
    listed = run_ok(worktree.path, "checkpoint", "list")["checkpoints"]
    of_turn = [("stop" if session == "s" else "subagent-stop", "s")]
    begun = [("prompt", "s")] if session == "s" else []
    assert [(each["meta"].get("event"), each["session_id"]) for each in listed] == [
        *of_turn, ("compaction", "s"), ("edit", "s"), *begun,
    ]  # fmt: skip


def test_the_package_adds_the_server_and_the_skill(tmp_path: Path) -> None:
    """To what the user has set, in both versions; a server of the same name stays the user's."""
    package = PROJECT_ROOT / "plugins" / "opencode"
    script = """
const { default: plugin } = await import(process.argv[2])
const config = { mcp: { other: { type: "local", command: ["x"] } }, skills: { paths: ["/mine"] } }
await (await plugin.server({ directory: "/", client: {} })).config(config)
const own = { mcp: { "git-agentos": { type: "local", command: ["mine"] } } }
await (await plugin.server({ directory: "/", client: {} })).config(own)
const servers = {}, skills = []
const set = (name, value) => { servers[name] = value }
const none = { hook: () => {} }
const end = await plugin.setup({
  location: { directory: "/" }, tool: none, session: none,
  event: { subscribe: async function* () {} },
  mcp: { transform: (change) => change({ get: (name) => servers[name], set }) },
  skill: { transform: (change) => change({ add: (skill) => skills.push(skill) }) },
})
end()
console.log(JSON.stringify({ id: plugin.id, config, own: own.mcp, servers, skills }))
"""
    (tmp_path / "run.mjs").write_text(script)
    words = ["node", "run.mjs", str(package / "index.js")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    made: dict[str, Any] = json.loads(done.stdout)
    server = {"type": "local", "command": ["git", "agentos", "mcp"]}
    assert made["id"] == "git-agentos"
    assert made["config"]["mcp"] == {
        "git-agentos": {**server, "enabled": True},
        "other": {"type": "local", "command": ["x"]},
    }
    assert made["config"]["skills"]["paths"] == ["/mine", str(package / "skills")]
    assert made["own"]["git-agentos"]["command"] == ["mine"]
    assert made["servers"] == {"git-agentos": server}
    (skill,) = made["skills"]
    assert (skill["id"], skill["location"]) == ("git-agentos", str(package / "skills" / "git-agentos" / "SKILL.md"))
    assert skill["description"].startswith("Save the state")
    assert skill["content"].lstrip().startswith("# git-agentos")


def test_the_package_asks_the_program_on_path(worktree: Repo, tmp_path: Path) -> None:
    for name in ("hooks.js", "index.js"):
        shutil.copy(PROJECT_ROOT / "plugins" / "opencode" / name, tmp_path / name.replace(".js", ".mjs"))
    text = (tmp_path / "index.mjs").read_text()
    assert "./hooks.js" in text
    (tmp_path / "plugin.mjs").write_text(text.replace("./hooks.js", "./hooks.mjs"))
    (tmp_path / "run.mjs").write_text(
        _VERSION_1 + 'try { await call("git reset --hard") } catch (e) { console.log(e.message) }'
    )
    known = {**environment(tmp_path), "HOME": os.environ["HOME"]}
    words = ["node", "run.mjs", str(worktree.path), "s"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, env=known)
    assert done.stdout.startswith("git-agentos: stopped 'git reset --hard'"), done
