"""Commands on the object store and the configuration: gc, prune, repack, config, fast-import, maintenance."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy import config_keys
from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.options import Options

# Keys that say when gc expires unreachable objects, and reflogs: of all refs, or of those that match a pattern.
_EXPIRIES = re.compile(r"gc\.pruneexpire|gc\.(.*\.)?reflogexpire(unreachable)?")
# The same for the entries of worktrees whose folder does not exist, and for recorded resolutions of conflicts.
_WORKTREE_EXPIRY = re.compile(r"gc\.worktreepruneexpire")
_RERERE_EXPIRY = re.compile(r"gc\.rerere(un)?resolved")


def _gc(analysis: Analysis) -> None:
    options = analysis.options("gc")
    _collect(analysis, options)


def _collect(analysis: Analysis, options: Options) -> None:
    dates = [value for value in options.given.get("prune", ()) if value]
    configured = analysis.facts.configured(_EXPIRIES)
    if any(config_keys.is_recent(value) for value in dates) or (
        not dates and not options.has("no-prune") and any(map(config_keys.is_recent, configured))
    ):
        analysis.add("gc-prune", " ".join(dates))
    for keys, operation in ((_WORKTREE_EXPIRY, "worktree-prune"), (_RERERE_EXPIRY, "rerere-change")):
        if any(map(config_keys.is_recent, analysis.facts.configured(keys))):
            analysis.add(operation)
    analysis.add("gc")


def _prune(analysis: Analysis) -> None:
    if analysis.options().has("dry-run"):
        raise ReadOnly
    analysis.add("prune")


def _repack(analysis: Analysis) -> None:
    options = analysis.options()
    drops = options.has("d") or (options.has("cruft-expiration") or options.has("filter"))
    analysis.add("repack-delete" if drops else "gc")


def _multi_pack_index(analysis: Analysis) -> None:
    which = next((word for word in analysis.args if not word.startswith("-")), "verify")
    analysis.add("repack-delete" if which in ("expire", "repack") else "objects")


def _maintenance(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("run", ())
    if args[:1] in (("-h",), ("--help",)) or which == "is-needed":
        raise ReadOnly
    if which == "run":
        _collect(analysis, analysis.options("maintenance run", args))
    elif which in ("start", "stop", "register", "unregister"):
        analysis.add("maintenance-schedule", which)
    else:
        analysis.add("unknown-command", f"maintenance {which}")


def _repo(analysis: Analysis) -> None:
    which = next((word for word in analysis.args if not word.startswith("-")), "info")
    if which in ("info", "structure"):
        raise ReadOnly
    analysis.add_unknown_subcommand(f"repo {which}")


def _rerere(analysis: Analysis) -> None:
    which = next((word for word in analysis.args if not word.startswith("-")), "")
    if which in ("status", "diff", "remaining"):
        raise ReadOnly
    analysis.add("rerere-change" if which in ("clear", "forget", "gc") else "add", which)


def _fast_import(analysis: Analysis) -> None:
    forced = any(len(word) > 3 and "--force".startswith(word) for word in analysis.args)
    analysis.add("import-force" if forced else "import")


def _credential(analysis: Analysis) -> None:
    which = analysis.args[-1] if analysis.args else "fill"
    if which in ("fill", "get", "capability"):
        raise ReadOnly
    analysis.add("credential", which)


def _hook(analysis: Analysis) -> None:
    """`git hook run NAME` runs the hook of that name, as git itself would."""
    if analysis.args[:1] == ("run",):
        analysis.add("run-command", " ".join(analysis.args))
    else:
        raise ReadOnly


def _for_each_repo(analysis: Analysis) -> None:
    words = [word for word in analysis.args if not word.startswith("--config") and word != "--keep-going"]
    if words[:1] == ["--"]:
        words = words[1:]
    analysis.commands.append(("git", *words))


def _init(analysis: Analysis) -> None:
    options = analysis.options("init", paths=True)
    if options.has("separate-git-dir") or options.value("template") or analysis.facts.has_template:
        analysis.add("init-redirect")
    analysis.add("init")


def _fsmonitor_daemon(analysis: Analysis) -> None:
    if analysis.args[:1] == ("status",):
        raise ReadOnly
    analysis.add("config-guard" if analysis.args[:1] in (("start",), ("run",)) else "look")


# -- config --------------------------------------------------------------------------------------------------------

_READS = ("get", "get-all", "get-regexp", "get-urlmatch", "list", "get-color", "get-colorbool")
_CHANGES = ("add", "replace-all", "unset", "unset-all", "rename-section", "remove-section", "edit")
# Subcommands since git 2.46, and the option that each replaces.
_SUBCOMMANDS = {
    "list": "list",
    "get": "get",
    "set": "set",
    "unset": "unset",
    "rename-section": "rename-section",
    "remove-section": "remove-section",
    "edit": "edit",
}


def _config(analysis: Analysis) -> None:
    options = analysis.options(stop=True)
    words = list(options.operands)
    given = [name for name in _CHANGES if options.has(name)]
    if options.has(*_READS):
        raise ReadOnly
    if not given and words and words[0] in _SUBCOMMANDS:
        action = _SUBCOMMANDS[words[0]]
        options = analysis.options("config", words[1:])
        words = list(options.operands)
    elif given:
        action = given[-1]
    elif len(words) < 2:
        # With a key alone, git prints the value.
        raise ReadOnly
    else:
        action = "set"
    if action in ("list", "get"):
        raise ReadOnly
    scope = _scope(analysis, options)
    if scope == _FILE:
        analysis.add("config-set")
        analysis.add_written_file(_file(analysis, options), after_checkpoint=True)
        return
    _change(analysis, action, words)
    if scope == _GLOBAL:
        analysis.add("config-global", " ".join(words[:1]))
    elif scope == _SHARED and any(each.name == "config-set" for each in analysis.operations):
        analysis.add("config-shared", " ".join(words[:1]))


# Where `git config` writes: the worktree's own configuration (or that of a repository with one worktree), the
# repository's that all its worktrees share, the user's, or a file that git reads no configuration from.
_OWN, _SHARED, _GLOBAL, _FILE = "own", "shared", "global", "file"


def _scope(analysis: Analysis, options: Options) -> str:
    git_dirs = analysis.facts.git_dirs
    linked = len(git_dirs) > 1 and git_dirs[0] != git_dirs[1]
    if options.has("global", "system"):
        return _GLOBAL
    name = _file(analysis, options)
    if not name:
        return _SHARED if linked and not options.has("worktree") else _OWN
    if not _is_git_config(analysis, name):
        return _FILE
    path = os.path.realpath(analysis.facts.path(os.path.expanduser(name)))
    if len(git_dirs) > 1 and path == os.path.join(git_dirs[0], "config.worktree"):
        return _OWN
    return _SHARED if UNKNOWN in name or analysis.facts.in_git_dir(path) else _GLOBAL


def _file(analysis: Analysis, options: Options) -> str:
    """The file that an option or a variable names; "" if none does."""
    return options.value("file") or analysis.facts.variable("GIT_CONFIG")


def _is_git_config(analysis: Analysis, name: str) -> bool:
    """Whether git reads its configuration from a file; otherwise the command edits some file."""
    if UNKNOWN in name or analysis.facts.in_git_dir(name):
        return True
    path = os.path.realpath(analysis.facts.path(os.path.expanduser(name)))
    included = {entry.origin.removeprefix("file:") for entry in analysis.facts.settings.entries}
    return os.path.basename(name) in (".gitconfig", "gitconfig", "config", "config.worktree") or path in {
        os.path.realpath(each) for each in included if os.path.isabs(each)
    }


def _change(analysis: Analysis, action: str, words: Sequence[str]) -> None:
    key = words[0] if words else ""
    if action == "edit":
        analysis.add("config-edit")
    elif action in ("rename-section", "remove-section"):
        guard = any(
            config_keys.category(f"{name}.{last}") == config_keys.GUARD
            for name in words[:2]
            for last in ("x", "hookspath", "path")
        )
        analysis.add("config-guard" if guard else "config-unset", " ".join(words[:2]))
    elif UNKNOWN in key:
        analysis.add("unresolved", key)
    elif action in ("unset", "unset-all"):
        effect = config_keys.operation_of_write(key, None)
        analysis.add("config-guard" if effect == "config-guard" else "config-unset", key)
    else:
        value = words[1] if len(words) > 1 else ""
        analysis.add(config_keys.operation_of_write(key, value) or "config-set", key)


HANDLERS = {
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
    "repo": _repo,
    "rerere": _rerere,
}
