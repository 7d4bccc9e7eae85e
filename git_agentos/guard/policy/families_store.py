"""Commands on the store and the configuration: gc, prune, repack, config, fast-import, maintenance."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from git_agentos.guard.policy import config_keys
from git_agentos.guard.policy.options import UNRESOLVED, Options
from git_agentos.guard.policy.reading import OnlyLooks, Reading

# When gc forgets what nothing reaches, and reflogs: for all refs, or for those that a pattern in the key names.
_EXPIRIES = re.compile(r"gc\.pruneexpire|gc\.(.*\.)?reflogexpire(unreachable)?")


def _gc(reading: Reading) -> None:
    options = reading.options("gc")
    _collect(reading, options)


def _collect(reading: Reading, options: Options) -> None:
    dates = [value for value in options.given.get("prune", ()) if value]
    configured = reading.facts.configured(_EXPIRIES)
    if any(config_keys.is_recent(value) for value in dates) or (
        not dates and not options.has("no-prune") and any(map(config_keys.is_recent, configured))
    ):
        reading.do("gc-prune", " ".join(dates))
    reading.do("gc")


def _prune(reading: Reading) -> None:
    if reading.options().has("dry-run"):
        raise OnlyLooks
    reading.do("prune")


def _repack(reading: Reading) -> None:
    options = reading.options()
    drops = options.has("d") or (options.has("cruft-expiration") or options.has("filter"))
    reading.do("repack-delete" if drops else "gc")


def _multi_pack_index(reading: Reading) -> None:
    which = next((word for word in reading.args if not word.startswith("-")), "verify")
    reading.do("repack-delete" if which in ("expire", "repack") else "objects")


def _maintenance(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("run", ())
    if args[:1] in (("-h",), ("--help",)) or which == "is-needed":
        raise OnlyLooks
    if which == "run":
        _collect(reading, reading.options("maintenance run", args))
    elif which in ("start", "stop", "register", "unregister"):
        reading.do("maintenance-schedule", which)
    else:
        reading.do("unknown-command", f"maintenance {which}")


def _rerere(reading: Reading) -> None:
    which = next((word for word in reading.args if not word.startswith("-")), "")
    if which in ("status", "diff", "remaining"):
        raise OnlyLooks
    reading.do("rerere-change" if which in ("clear", "forget", "gc") else "add", which)


def _fast_import(reading: Reading) -> None:
    forced = any(len(word) > 3 and "--force".startswith(word) for word in reading.args)
    reading.do("import-force" if forced else "import")


def _credential(reading: Reading) -> None:
    which = reading.args[-1] if reading.args else "fill"
    if which in ("fill", "get", "capability"):
        raise OnlyLooks
    reading.do("credential", which)


def _hook(reading: Reading) -> None:
    """`git hook run NAME` runs the hook of that name, as git itself would."""
    if reading.args[:1] == ("run",):
        reading.do("run-command", " ".join(reading.args))
    else:
        raise OnlyLooks


def _for_each_repo(reading: Reading) -> None:
    words = [word for word in reading.args if not word.startswith("--config") and word != "--keep-going"]
    if words[:1] == ["--"]:
        words = words[1:]
    reading.calls.append(("git", *words))


def _init(reading: Reading) -> None:
    options = reading.options("init", paths=True)
    if options.has("separate-git-dir") or options.value("template") or reading.facts.template:
        reading.do("init-redirect")
    reading.do("init")


def _fsmonitor_daemon(reading: Reading) -> None:
    if reading.args[:1] == ("status",):
        raise OnlyLooks
    reading.do("config-guard" if reading.args[:1] in (("start",), ("run",)) else "look")


# -- config --------------------------------------------------------------------------------------------------------

_READS = ("get", "get-all", "get-regexp", "get-urlmatch", "list", "get-color", "get-colorbool")
_CHANGES = ("add", "replace-all", "unset", "unset-all", "rename-section", "remove-section", "edit")
# Subcommands since git 2.46, and the option that each is.
_SUBCOMMANDS = {
    "list": "list",
    "get": "get",
    "set": "set",
    "unset": "unset",
    "rename-section": "rename-section",
    "remove-section": "remove-section",
    "edit": "edit",
}


def _config(reading: Reading) -> None:
    options = reading.options(stop=True)
    words = list(options.operands)
    given = [name for name in _CHANGES if options.has(name)]
    if options.has(*_READS):
        raise OnlyLooks
    if not given and words and words[0] in _SUBCOMMANDS:
        action = _SUBCOMMANDS[words[0]]
        options = reading.options("config", words[1:])
        words = list(options.operands)
    elif given:
        action = given[-1]
    elif len(words) < 2:
        # A key alone is read.
        raise OnlyLooks
    else:
        action = "set"
    if action in ("list", "get"):
        raise OnlyLooks
    scope = _scope(reading, options)
    if scope == _FILE:
        reading.do("config-set")
        reading.writes(_file(reading, options), saved=True)
        return
    _change(reading, action, words)
    if scope == _GLOBAL:
        reading.do("config-global", " ".join(words[:1]))
    elif scope == _SHARED and any(each.name == "config-set" for each in reading.operations):
        reading.do("config-shared", " ".join(words[:1]))


# Where `git config` writes: the worktree's own configuration (or that of a repository with one worktree), the
# repository's that all its worktrees share, the user's, or a file that git reads no configuration from.
_OWN, _SHARED, _GLOBAL, _FILE = "own", "shared", "global", "file"


def _scope(reading: Reading, options: Options) -> str:
    git_dirs = reading.facts.git_dirs
    linked = len(git_dirs) > 1 and git_dirs[0] != git_dirs[1]
    if options.has("global", "system"):
        return _GLOBAL
    name = _file(reading, options)
    if not name:
        return _SHARED if linked and not options.has("worktree") else _OWN
    if not _is_git_config(reading, name):
        return _FILE
    path = os.path.realpath(reading.facts.path(os.path.expanduser(name)))
    if len(git_dirs) > 1 and path == os.path.join(git_dirs[0], "config.worktree"):
        return _OWN
    return _SHARED if UNRESOLVED in name or reading.facts.in_git_dir(path) else _GLOBAL


def _file(reading: Reading, options: Options) -> str:
    """The file that is named, by an option or a variable; "" where none is."""
    return options.value("file") or reading.facts.variable("GIT_CONFIG")


def _is_git_config(reading: Reading, name: str) -> bool:
    """Whether a file is one that git reads its configuration from; otherwise it is an edit of some file."""
    if UNRESOLVED in name or reading.facts.in_git_dir(name):
        return True
    path = os.path.realpath(reading.facts.path(os.path.expanduser(name)))
    included = {entry.origin.removeprefix("file:") for entry in reading.facts.settings.entries}
    return os.path.basename(name) in (".gitconfig", "gitconfig", "config", "config.worktree") or path in {
        os.path.realpath(each) for each in included if os.path.isabs(each)
    }


def _change(reading: Reading, action: str, words: Sequence[str]) -> None:
    key = words[0] if words else ""
    if action == "edit":
        reading.do("config-edit")
    elif action in ("rename-section", "remove-section"):
        guard = any(
            config_keys.kind(f"{name}.{last}") == config_keys.GUARD
            for name in words[:2]
            for last in ("x", "hookspath", "path")
        )
        reading.do("config-guard" if guard else "config-unset", " ".join(words[:2]))
    elif UNRESOLVED in key:
        reading.do("unresolved", key)
    elif action in ("unset", "unset-all"):
        meaning = config_keys.written(key, None)
        reading.do("config-guard" if meaning == "config-guard" else "config-unset", key)
    else:
        value = words[1] if len(words) > 1 else ""
        reading.do(config_keys.written(key, value) or "config-set", key)


FAMILIES = {
    "config": _config,
    "credential": _credential,
    "credential-cache": _credential,
    "credential-store": _credential,
    "fast-import": _fast_import,
    "for-each-repo": _for_each_repo,
    "fsmonitor--daemon": _fsmonitor_daemon,
    "gc": _gc,
    "hook": _hook,
    "init": _init,
    "init-db": _init,
    "maintenance": _maintenance,
    "multi-pack-index": _multi_pack_index,
    "prune": _prune,
    "repack": _repack,
    "rerere": _rerere,
}
