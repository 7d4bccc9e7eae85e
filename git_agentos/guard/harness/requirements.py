"""What has to be so that a harness reads our hooks, as far as its files and environment tell.

Claude Code  `disableAllHooks` in any of its settings
Codex        trusts a folder (`projects`), and each hook by its hash (`hooks.state`), in `config.toml`
Gemini CLI   trusts a folder (`trustedFolders.json`, GEMINI_CLI_TRUST_WORKSPACE); `hooksConfig`
Copilot CLI  trusts a folder (`trustedFolders`); `disableAllHooks`
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from git_agentos.guard.harness import settings_files
from git_agentos.guard.paths import is_below
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_EVENT = re.compile(r"(?<!^)(?=[A-Z])")


DISABLED, UNTRUSTED, HEADLESS = "disabled", "not-trusted", "not-headless"


class Unmet(NamedTuple):
    """What has to be done so that a harness reads our hooks, as a sentence. `kind` is DISABLED (its settings switch
    hooks off), UNTRUSTED (it does not trust the folder or the hooks) or HEADLESS (it asks for trust when it is started
    in a terminal, and reads no hooks where it cannot ask)."""

    kind: str
    sentence: str


def unmet(name: str, root: str, path: str, environment: Mapping[str, str]) -> list[str]:
    """What has to be done so that harness `name` reads `path` in the worktree at `root`, one sentence each.

    `path` is one of the user's settings files where it is below the home folder.
    """
    return [each.sentence for each in examine(name, root, path, environment)]


def examine(name: str, root: str, path: str, environment: Mapping[str, str]) -> list[Unmet]:
    """The same, with kinds."""
    check = _CHECKS.get(name)
    return [] if check is None else list(check(root, path, environment))


def _claude_code(root: str, path: str, environment: Mapping[str, str]) -> Iterator[Unmet]:
    user = environment.get("CLAUDE_CONFIG_DIR") or _home(environment, ".claude")
    names = [os.path.join(root, ".claude", each) for each in ("settings.json", "settings.local.json")]
    yield from _disabled_hooks([*names, os.path.join(user, "settings.json"), path])


def _codex(root: str, path: str, environment: Mapping[str, str]) -> Iterator[Unmet]:
    configuration = os.path.join(environment.get("CODEX_HOME") or _home(environment, ".codex"), "config.toml")
    settings = toml_of(configuration)
    if not object_in(settings, "features").get("hooks", True):
        yield Unmet(DISABLED, f"'hooks = false' in '{configuration}' switches all hooks off: remove it")
    project = os.path.dirname(os.path.dirname(path))
    trusted = {object_in(object_in(settings, "projects"), each).get("trust_level") for each in (project, root)}
    is_users = os.path.realpath(path) == os.path.realpath(os.path.join(os.path.dirname(configuration), "hooks.json"))
    if "trusted" not in trusted and not is_users:
        sentence = f"codex reads hooks only in trusted folders: start it in '{project}' and trust the folder"
        yield Unmet(UNTRUSTED, sentence)
    states = object_in(object_in(settings, "hooks"), "state")
    for key, digest in codex_hooks(path):
        state = object_in(states, key)
        if state.get("trusted_hash") != digest or state.get("enabled") is False:
            yield Unmet(
                UNTRUSTED,
                "codex runs only trusted hooks: trust them with '/hooks' in codex;"
                " 'codex exec' needs that too, or --dangerously-bypass-hook-trust",
            )
            return


def _gemini(root: str, path: str, environment: Mapping[str, str]) -> Iterator[Unmet]:
    folder = os.path.join(environment.get("GEMINI_CLI_HOME") or environment.get("HOME", ""), ".gemini")
    for each in dict.fromkeys(
        (os.path.join(folder, "settings.json"), os.path.join(root, ".gemini/settings.json"), path)
    ):
        hooks = object_in(json_of(each), "hooksConfig")
        disabled = hooks.get("disabled")
        if hooks.get("enabled") is False or (isinstance(disabled, list) and "git-agentos" in disabled):
            yield Unmet(DISABLED, f"'hooksConfig' in '{each}' switches our hooks off: remove it")
    trust = environment.get("GEMINI_CLI_TRUST_WORKSPACE")
    security = object_in(json_of(os.path.join(folder, "settings.json")), "security")
    if trust == "true" or object_in(security, "folderTrust").get("enabled") is False:
        return
    rules = json_of(environment.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(folder, "trustedFolders.json"))
    folders = {os.path.dirname(key) if value == "TRUST_PARENT" else key: value for key, value in rules.items()}
    above = [each for each in folders if _is_below(root, [each])]
    if trust == "false" or not above or folders[max(above, key=len)] == "DO_NOT_TRUST":
        yield Unmet(
            UNTRUSTED,
            "gemini reads hooks only in trusted folders: start it there and trust the folder, or set"
            " GEMINI_CLI_TRUST_WORKSPACE=true; with --skip-trust it ignores the folder's settings",
        )


def _copilot(root: str, path: str, environment: Mapping[str, str]) -> Iterator[Unmet]:
    folder = environment.get("COPILOT_HOME") or _home(environment, ".copilot")
    names = [os.path.join(folder, each) for each in ("config.json", "settings.json")]
    yield from _disabled_hooks([*names, os.path.join(root, ".github", "copilot", "settings.json")])
    if _is_below(path, [os.path.dirname(names[0])]):
        return
    trusted = [each for name in names for each in json_of(name).get("trustedFolders") or () if isinstance(each, str)]
    if not _is_below(root, trusted):
        yield Unmet(
            HEADLESS,
            "copilot reads hooks only in trusted folders: start it there and trust the folder;"
            " 'copilot -p' needs --trust-folder",
        )


_CHECKS: Mapping[str, Callable[[str, str, Mapping[str, str]], Iterator[Unmet]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    "copilot": _copilot,
}


def codex_hooks(path: str) -> Iterator[tuple[str, str]]:
    """Our hooks in a `hooks.json` as Codex identifies them: the key of each, and the hash by which it is trusted."""
    for name, groups in object_in(json_of(path), "hooks").items():
        event = _EVENT.sub("_", name).lower()
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            for inner, hook in enumerate(_objects(group, "hooks")):
                command = hook.get("command")
                if not isinstance(command, str) or settings_files.MARK.decode() not in command:
                    continue
                own = {"async": False, "command": command, "timeout": hook.get("timeout", 600), "type": "command"}
                identity: dict[str, Any] = {"event_name": event, "hooks": [own]}
                if isinstance(group.get("matcher"), str):
                    identity["matcher"] = group["matcher"]
                text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                yield f"{path}:{event}:{index}:{inner}", f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _disabled_hooks(paths: Iterable[str]) -> Iterator[Unmet]:
    for path in dict.fromkeys(paths):
        if json_of(path).get("disableAllHooks") is True:
            yield Unmet(DISABLED, f"'disableAllHooks' in '{path}' switches all hooks off: remove it")


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(is_below(os.path.realpath(path), top) for top in map(os.path.realpath, folders))


def _home(environment: Mapping[str, str], name: str) -> str:
    return os.path.join(environment.get("HOME") or os.path.expanduser("~"), name)


def object_in(value: Any, key: str) -> dict[str, Any]:
    """The object in `value[key]`; empty where there is none."""
    item = value.get(key) if isinstance(value, dict) else None
    return item if isinstance(item, dict) else {}


def _objects(value: Any, key: str) -> list[dict[str, Any]]:
    items = value.get(key) if isinstance(value, dict) else None
    return [each if isinstance(each, dict) else {} for each in items] if isinstance(items, list) else []


def json_of(path: str) -> dict[str, Any]:
    """The object in a JSON file, which may have lines of comments; empty where it cannot be read."""
    try:
        body = json.loads(_COMMENT.sub("", files.read(os.path.realpath(path)).decode("utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def toml_of(path: str) -> dict[str, Any]:
    """The content of a TOML file; empty where it cannot be read."""
    try:
        return tomllib.loads(files.read(os.path.realpath(path)).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
