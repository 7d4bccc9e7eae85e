"""The plugin packages of the clients, made from one source: `python plugins/build.py [FOLDER]`.

The hooks are those of `guard integrate` (`guard/harness/adapters.py`), the MCP server is `git agentos mcp`, and the
skill is `source/SKILL.md`. What differs from client to client is only where they look for these.
The packages are committed; `tests/project/test_plugins.py` compares them.
"""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from git_agentos import __version__
from git_agentos.guard.harness import integration

HERE = Path(__file__).resolve().parent
NAME = "git-agentos"
_PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
_AUTHOR = {"name": _PROJECT["authors"][0]["name"]}
_ABOUT = {
    "name": NAME,
    "version": __version__,
    "description": "Saves what agents would lose, and stops commands that destroy work: hooks, MCP tools, and a skill.",
}
_MANIFEST = {**_ABOUT, "author": _AUTHOR, "license": _PROJECT["license"], "keywords": _PROJECT["keywords"]}
_PROGRAM, *_ARGUMENTS = ("git", "agentos", "mcp")
_SERVERS = {"mcpServers": {NAME: {"command": _PROGRAM, "args": _ARGUMENTS}}}
_SKILL = (HERE / "source" / "SKILL.md").read_text()

# A package: the content of each of its files.
Files = Mapping[str, str]


def command(client: str) -> str:
    """What a plugin's hook runs: the program that is found on PATH."""
    return f"git-agentos guard harness {client} --plugin"


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _hooks(client: str) -> str:
    return integration.settings_text(client, command(client))


def _claude_code() -> Files:
    return {
        ".claude-plugin/plugin.json": _json(_MANIFEST),
        "hooks/hooks.json": _hooks("claude-code"),
        ".mcp.json": _json(_SERVERS),
    }


def _codex() -> Files:
    places = {"skills": "./skills/", "mcpServers": "./.mcp.json", "hooks": "./hooks/hooks.json"}
    shown = {"displayName": NAME, "shortDescription": "Save, restore and undo the work of agents", "category": "Coding"}
    return {
        ".codex-plugin/plugin.json": _json({**_MANIFEST, **places, "interface": shown}),
        "hooks/hooks.json": _hooks("codex"),
        ".mcp.json": _json(_SERVERS),
    }


def _gemini() -> Files:
    return {"gemini-extension.json": _json({**_ABOUT, **_SERVERS}), "hooks/hooks.json": _hooks("gemini")}


def _cursor() -> Files:
    return {
        ".cursor-plugin/plugin.json": _json({**_MANIFEST, "displayName": NAME}),
        "hooks/hooks.json": _hooks("cursor"),
        "mcp.json": _json(_SERVERS),
    }


def _copilot() -> Files:
    places = {"skills": "skills/", "hooks": "hooks.json", "mcpServers": ".mcp.json"}
    server = {**_SERVERS["mcpServers"][NAME], "type": "local", "tools": ["*"]}
    return {
        "plugin.json": _json({**_MANIFEST, **places}),
        "hooks.json": _hooks("copilot"),
        ".mcp.json": _json({"mcpServers": {NAME: server}}),
    }


def _opencode() -> Files:
    package = {
        **_MANIFEST,
        "name": f"{NAME}-opencode",
        "author": _AUTHOR["name"],
        "type": "module",
        "main": "./index.js",
        "exports": {".": "./index.js", "./server": "./index.js"},
        "engines": {"opencode": ">=1.18"},
    }
    return {
        "package.json": _json(package),
        "index.js": (HERE / "source" / "opencode.js").read_text(),
        "hooks.js": _hooks("opencode"),
    }


PACKAGES: Mapping[str, Callable[[], Files]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    "cursor": _cursor,
    "copilot": _copilot,
    "opencode": _opencode,
}


def _marketplaces() -> Files:
    """The lists by which clients find the packages in this folder."""
    about = {"name": NAME, "owner": _AUTHOR}
    listed = {"name": NAME, "description": _ABOUT["description"], "version": __version__}
    terms = {"policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}, "category": "Coding"}
    of_codex = {"name": NAME, "source": {"source": "local", "path": "./codex"}, **terms}
    described = {**about, "metadata": {"description": _ABOUT["description"]}}
    return {
        ".claude-plugin/marketplace.json": _json({**described, "plugins": [{**listed, "source": "./claude-code"}]}),
        ".agents/plugins/marketplace.json": _json({"name": NAME, "plugins": [of_codex]}),
        ".cursor-plugin/marketplace.json": _json({**described, "plugins": [{**listed, "source": "./cursor"}]}),
        ".github/plugin/marketplace.json": _json({**described, "plugins": [{**listed, "source": "./copilot"}]}),
    }


def build(folder: Path) -> None:
    """Write all packages below `folder`; what was in them before goes."""
    made: dict[str, str] = dict(_marketplaces())
    for client, package in PACKAGES.items():
        shutil.rmtree(folder / client, ignore_errors=True)
        files = {**package(), f"skills/{NAME}/SKILL.md": _SKILL}
        made |= {f"{client}/{path}": content for path, content in files.items()}
    for path, content in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
