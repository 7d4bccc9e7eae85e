"""Commands that exchange data with other repositories: push, fetch, pull, clone, remote, submodule; other systems."""

from __future__ import annotations

import re
from collections.abc import Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy import config_keys
from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.commands.refs import AGENTOS_REFS
from git_agentos.guard.policy.git_line import ConfigOverride
from git_agentos.guard.policy.options import Options
from git_agentos.util.values import parse_boolean


def _transport(analysis: Analysis, options: Options, *urls: str) -> None:
    """Programs that a transport runs: those that options name, and those in a URL (git-remote-ext(1))."""
    for name in ("upload-pack", "receive-pack", "exec"):
        for text in options.given.get(name, ()):
            # These are the programs that git itself would start.
            if text.rpartition("/")[2] not in ("git-upload-pack", "git-receive-pack", "git-upload-archive"):
                analysis.add("run-command", text)
    for url in urls:
        if url.startswith(("ext::", "fd::")) or url.partition("::")[0] in ("ext", "fd"):
            analysis.add("run-command", url)
        elif url.startswith("--"):
            analysis.add("unknown-option", url)


# -- push ----------------------------------------------------------------------------------------------------------


def _push(analysis: Analysis) -> None:
    options = analysis.options("send-pack" if analysis.command == "send-pack" else "push")
    words = list(options.operands)
    name, remote = analysis.facts.push_remote(words[0] if words else options.value("repo") or None)
    _transport(analysis, options, name)
    if options.has("dry-run"):
        raise ReadOnly
    refspecs = words[1:]
    if options.has("no-verify"):
        analysis.add("no-verify")
    if options.has("force", "force-with-lease"):
        analysis.add("push-force", " ".join(words))
    if options.has("delete"):
        analysis.add("push-delete", " ".join(refspecs))
    if options.has("mirror") or (remote.mirror and not refspecs):
        analysis.add("push-mirror", name)
    if options.has("prune"):
        analysis.add("push-prune", name)
    if options.has("stdin"):
        analysis.add("unresolved", "--stdin")
    configured = () if refspecs or options.has("all", "branches", "tags", "mirror") else remote.push
    for refspec in [*refspecs, *configured]:
        if refspec.startswith("+"):
            analysis.add("push-force", refspec)
        elif refspec.startswith(":") and refspec != ":":
            analysis.add("push-delete", refspec)
    analysis.add("push", name)
    _to_protected(analysis, refspecs)


def _to_protected(analysis: Analysis, refspecs: Sequence[str]) -> None:
    facts = analysis.facts
    if not facts.protected:
        return
    targets = [refspec.lstrip("+").rpartition(":")[2] for refspec in refspecs] or [facts.branch or ""]
    for target in targets:
        branch = (facts.branch or "") if target in ("HEAD", "@") else target.removeprefix("refs/heads/")
        analysis.add_protected([branch])


# -- fetch, pull ---------------------------------------------------------------------------------------------------


def _fetch(analysis: Analysis) -> None:
    options = analysis.options("fetch")
    if options.has("dry-run", "negotiate-only"):
        _transport(analysis, options, *options.operands[:1])
        raise ReadOnly
    _fetched(analysis, options)
    analysis.add("fetch")


def _fetched(analysis: Analysis, options: Options) -> None:
    """What the refspecs of a fetch do to refs here."""
    words = list(options.operands)
    group = len(words) == 1 and f"remotes.{words[0]}" in analysis.facts.settings.values
    several = group or options.has("multiple") or (options.has("all") and len(words) < 2)
    refspecs = [] if several else words[1:]
    force = options.has("force")
    facts = analysis.facts
    _transport(analysis, options, *(words if several else words[:1]))
    name = words[0] if words else _default_remote(analysis)
    if options.has("stdin"):
        analysis.add("unresolved", "--stdin")
    if several:
        configured = [refspec for remote in facts.settings.remotes.values() for refspec in remote.fetch]
    else:
        configured = list(facts.remote(name).fetch)
    given = [*refspecs, *options.given.get("refmap", ())] or configured
    facts_say = [facts.config(key) for key in ("fetch.prune", f"remote.{name}.prune")]
    prune = options.has("prune") or any(value is not None and parse_boolean(value) is not False for value in facts_say)
    for refspec in given:
        _refspec(analysis, refspec, force=force, prune=prune, overwrite=options.has("update-head-ok"))
    if prune:
        remotes = list(facts.settings.remotes) if several else [name]
        _keep_pruned(analysis, remotes)
    if options.has("prune-tags"):
        analysis.add("tag-delete")
    if force and options.has("tags"):
        analysis.add("tag-move")
    analysis.needs_checkpoint |= any(
        each.name in ("fetch-force", "tag-move", "tag-delete") for each in analysis.operations
    )


def _keep_pruned(analysis: Analysis, remotes: Sequence[str]) -> None:
    """Save the commits that only the remote-tracking refs of these remotes hold. Only the remote knows which refs will
    be pruned."""
    commits = analysis.facts.commits_only_in([f"refs/remotes/{name}/" for name in remotes])
    if commits:
        analysis.require_checkpoint(commits=commits)


def _default_remote(analysis: Analysis) -> str:
    facts = analysis.facts
    name = facts.config(f"branch.{facts.branch}.remote") if facts.branch is not None else None
    return name or "origin"


def _refspec(analysis: Analysis, refspec: str, *, force: bool, prune: bool, overwrite: bool) -> None:
    """What one refspec of a fetch writes here."""
    forced = force or refspec.startswith("+")
    source, colon, target = refspec.lstrip("+").partition(":")
    if refspec.startswith(UNKNOWN):
        analysis.add("unresolved", refspec)
        return
    if source == "tag" or not colon or not target:
        return
    facts = analysis.facts
    if target.startswith(("refs/remotes/", "remotes/")):
        return
    if target.startswith(AGENTOS_REFS) or target == "refs/stash":
        analysis.add("agentos-refs", target)
        return
    if target.startswith(("refs/tags/", "tags/")):
        if forced or prune:
            analysis.add("tag-move", target)
        return
    full = target if target.startswith("refs/") else f"refs/heads/{target.removeprefix('heads/')}"
    branch = full.removeprefix("refs/heads/")
    glob = "*" in target
    analysis.add_protected([branch])
    if UNKNOWN in target:
        analysis.add("unresolved", refspec)
    elif forced or overwrite or (prune and glob):
        analysis.add("fetch-force", refspec)
        analysis.require_checkpoint(commits=facts.unreachable_without([full]) if not glob else ())
    elif glob or facts.ref(full) is not None:
        analysis.add("branch-move", refspec)
    else:
        analysis.add("branch-create", branch)


def _pull(analysis: Analysis) -> None:
    options = analysis.options()
    if options.has("dry-run"):
        _transport(analysis, options, *options.operands[:1])
        raise ReadOnly
    if options.has("no-verify"):
        analysis.add("no-verify")
    _fetched(analysis, options)
    analysis.add("pull", " ".join(options.operands))
    facts = analysis.facts
    analysis.add_protected_branch()
    analysis.require_checkpoint(commits=facts.unreferenced_head(), ignored=facts.ignored_in_the_way("@{upstream}"))


def _fetch_pack(analysis: Analysis) -> None:
    for word in analysis.args:
        if word.startswith(("--upload-pack", "--exec")):
            analysis.add("run-command", word)
    analysis.add("fetch")


def _ls_remote(analysis: Analysis) -> None:
    words = list(analysis.args)
    for n, word in enumerate(words):
        name, equals, value = word.partition("=")
        if len(name) > 2 and ("--upload-pack".startswith(name) or "--exec".startswith(name)):
            text = value if equals else (words[n + 1] if n + 1 < len(words) else "")
            if text.rpartition("/")[2] != "git-upload-pack":
                analysis.add("run-command", text)
    analysis.add_url_programs(words)


def _clone(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    _transport(analysis, options, *options.operands[:1])
    for text in options.given.get("config", ()):
        key, has_value, value = text.partition("=")
        effect = config_keys.effect_of_override(ConfigOverride(key.lower(), value if has_value else None, "-c"))
        commands = effect.operation == "config-guard" or effect.shell_text is not None
        if commands or config_keys.category(key) == config_keys.ALIAS:
            # It applies to the new repository alone, but commands in it can change anything.
            analysis.add("config-command", key)
        elif effect.operation is not None:
            analysis.add(effect.operation if effect.operation == "run-command" else "config-risky", key)
    if options.has("template", "separate-git-dir") or analysis.facts.has_template:
        analysis.add("init-redirect")
    analysis.add("clone")


# -- remotes, submodules -------------------------------------------------------------------------------------------


def _remote(analysis: Analysis) -> None:
    top = analysis.options("remote", stop=True)
    which, args = (top.operands[0], top.operands[1:]) if top.operands else ("show", ())
    if which in ("show", "get-url") or args[:1] in (("-h",), ("--help",)):
        raise ReadOnly  # `Analysis.keep_only_programs` reads URLs
    if which == "add":
        options = analysis.options("remote add", args)
        _transport(analysis, options, *options.operands[1:2])
        if options.has("mirror"):
            analysis.add("config-risky", "--mirror")
        analysis.add("remote-add")
    elif which in ("set-branches", "set-head"):
        analysis.add("remote-add")
    elif which in ("rm", "remove", "rename", "set-url"):
        analysis.add("remote-change", " ".join(args))
    elif which == "prune":
        options = analysis.options("remote prune", args)
        if options.has("dry-run"):
            raise ReadOnly
        for name in options.operands:
            for refspec in analysis.facts.remote(name).fetch:
                _refspec(analysis, refspec, force=False, prune=True, overwrite=False)
        _keep_pruned(analysis, options.operands)
        analysis.add("fetch")
    elif which == "update":
        options = analysis.options("remote update", args)
        for remote in analysis.facts.settings.remotes.values():
            for refspec in remote.fetch:
                _refspec(analysis, refspec, force=False, prune=options.has("prune"), overwrite=False)
        if options.has("prune"):
            _keep_pruned(analysis, list(analysis.facts.settings.remotes))
        analysis.add("fetch")
    else:
        analysis.add_unknown_subcommand(f"remote {which}")


# Subcommands of `git submodule--helper`, which `git submodule` calls.
_HELPER_LOOKS = "list name config is-active check-name push-check print-default-remote get-default-remote".split()
_HELPER_UPDATES = "clone add-clone update-clone ensure-core-worktree run-update-procedure".split()


def _submodule(analysis: Analysis) -> None:
    args = list(analysis.args)
    while args and args[0] in ("-q", "--quiet", "--cached"):
        args.pop(0)
    which, rest = (args[0], args[1:]) if args else ("status", [])
    helps = analysis.command == "submodule--helper"
    if helps and rest[-1:] == ["--"]:
        rest.pop()
    if which in ("status", "summary") or (helps and which in _HELPER_LOOKS) or rest[:1] in (["-h"], ["--help"]):
        raise ReadOnly
    if which == "foreach":
        command = [word for n, word in enumerate(rest) if word not in ("--recursive", "-q", "--quiet") or n > 2]
        analysis.add("submodule-update")
        if len(command) == 1:
            analysis.shell_texts.append(command[0])
        elif command:
            analysis.commands.append(tuple(command))
    elif which == "update":
        options = analysis.options("submodule update", rest, paths=True)
        analysis.add("submodule-change" if options.has("force", "rebase", "merge") else "submodule-update")
        analysis.require_checkpoint()
    elif which == "deinit":
        options = analysis.options("submodule deinit", rest, paths=True)
        analysis.add("submodule-force" if options.has("force") else "submodule-change", "deinit")
        analysis.require_checkpoint()
    elif which in ("add", "init", "sync", "set-branch", "set-url") or (helps and which in _HELPER_UPDATES):
        analysis.add("submodule-update")
        words = [word for word in rest if not word.startswith("-")] if helps else rest[:1]
        _transport(analysis, Options({}, (), None, (), False, False), *words)
    elif which == "absorbgitdirs":
        analysis.add("submodule-change", which)
    else:
        analysis.add_unknown_subcommand(f"submodule {which}")


# -- other systems -------------------------------------------------------------------------------------------------


def _send_email(analysis: Analysis) -> None:
    runs = [word for word in analysis.args if re.match(r"--(to|cc|header|sendmail)-c|--smtp-server(=|$)", word)]
    if runs:
        analysis.add("run-command", runs[0])  # in a dry run as well
    if {"--dry-run", "--help", "-h", "--dump-aliases"} & set(analysis.args):
        raise ReadOnly
    analysis.add("send")


_LFS_LOOKS = "env ext fsck locks logs ls-files pointer status version diff clean smudge filter-process help".split()


def _lfs(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("help", ())
    if which in _LFS_LOOKS or which in ("-h", "--help", "--version") or args[:1] in (("-h",), ("--help",)):
        raise ReadOnly
    if which in ("prune", "push", "fetch") and {"--dry-run", "-d"} & set(args):
        raise ReadOnly
    if which in ("track", "untrack", "fetch", "pull", "lock", "merge-driver"):
        analysis.add("fetch")
    elif which == "migrate":
        if args[:1] == ("info",):
            raise ReadOnly
        analysis.add("filter", "lfs migrate")
    elif which in ("install", "uninstall", "update"):
        analysis.add("config-command", f"lfs {which}")
    elif which in ("push", "pre-push"):
        analysis.add("push", f"lfs {which}")
    else:
        analysis.add("foreign", f"lfs {which}")


_SVN_LOOKS = "log info find-rev blame show-ignore show-externals propget proplist gc help fetch".split()


def _svn(analysis: Analysis) -> None:
    which = next((word for word in analysis.args if not word.startswith("-")), "help")
    if which in _SVN_LOOKS or {"-n", "--dry-run"} & set(analysis.args):
        raise ReadOnly
    analysis.add("push" if which in ("dcommit", "submit") else "foreign", f"{analysis.command} {which}")


HANDLERS = {
    "clone": _clone,
    "fetch": _fetch,
    "fetch-pack": _fetch_pack,
    "lfs": _lfs,
    "ls-remote": _ls_remote,
    "p4": _svn,
    "pull": _pull,
    "push": _push,
    "remote": _remote,
    "send-email": _send_email,
    "send-pack": _push,
    "submodule": _submodule,
    "submodule--helper": _submodule,
    "svn": _svn,
}
