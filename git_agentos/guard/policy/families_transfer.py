"""Commands that exchange with other repositories and the world: push, fetch, pull, clone, remote, submodule, bundle."""

from __future__ import annotations

import re
from collections.abc import Sequence

from git_agentos.guard.policy import config_keys
from git_agentos.guard.policy.families_refs import OURS
from git_agentos.guard.policy.git_line import Given
from git_agentos.guard.policy.options import UNRESOLVED, Options
from git_agentos.guard.policy.reading import OnlyLooks, Reading
from git_agentos.util.values import parse_boolean


def _transport(reading: Reading, options: Options, *urls: str) -> None:
    """Programs that a transport runs: those that options name, and those in a URL (git-remote-ext(1))."""
    for name in ("upload-pack", "receive-pack", "exec"):
        for text in options.given.get(name, ()):
            # The program that git itself would start, here or elsewhere.
            if text.rpartition("/")[2] not in ("git-upload-pack", "git-receive-pack", "git-upload-archive"):
                reading.do("run-command", text)
    for url in urls:
        if url.startswith(("ext::", "fd::")) or url.partition("::")[0] in ("ext", "fd"):
            reading.do("run-command", url)
        elif url.startswith("--"):
            reading.do("unknown-option", url)


# -- push ----------------------------------------------------------------------------------------------------------


def _push(reading: Reading) -> None:
    options = reading.options("send-pack" if reading.command == "send-pack" else "push")
    words = list(options.operands)
    name, remote = reading.facts.push_remote(words[0] if words else options.value("repo") or None)
    _transport(reading, options, name)
    if options.has("dry-run"):
        raise OnlyLooks
    refspecs = words[1:]
    if options.has("no-verify"):
        reading.do("no-verify")
    if options.has("force", "force-with-lease"):
        reading.do("push-force", " ".join(words))
    if options.has("delete"):
        reading.do("push-delete", " ".join(refspecs))
    if options.has("mirror") or (remote.mirror and not refspecs):
        reading.do("push-mirror", name)
    if options.has("prune"):
        reading.do("push-prune", name)
    if options.has("stdin"):
        reading.do("unresolved", "--stdin")
    configured = () if refspecs or options.has("all", "branches", "tags", "mirror") else remote.push
    for refspec in [*refspecs, *configured]:
        if refspec.startswith("+"):
            reading.do("push-force", refspec)
        elif refspec.startswith(":") and refspec != ":":
            reading.do("push-delete", refspec)
    reading.do("push", name)
    _to_protected(reading, refspecs)


def _to_protected(reading: Reading, refspecs: Sequence[str]) -> None:
    facts = reading.facts
    if not facts.protected:
        return
    targets = [refspec.lstrip("+").rpartition(":")[2] for refspec in refspecs] or [facts.branch or ""]
    for target in targets:
        branch = (facts.branch or "") if target in ("HEAD", "@") else target.removeprefix("refs/heads/")
        if facts.is_protected(branch):
            reading.do("protected-branch", branch)


# -- fetch, pull ---------------------------------------------------------------------------------------------------


def _fetch(reading: Reading) -> None:
    options = reading.options("fetch")
    if options.has("dry-run", "negotiate-only"):
        _transport(reading, options, *options.operands[:1])
        raise OnlyLooks
    _fetched(reading, options)
    reading.do("fetch")


def _fetched(reading: Reading, options: Options) -> None:
    """What the refspecs of a fetch do to refs here."""
    words = list(options.operands)
    group = len(words) == 1 and f"remotes.{words[0]}" in reading.facts.settings.values
    several = group or options.has("multiple") or (options.has("all") and len(words) < 2)
    refspecs = [] if several else words[1:]
    force = options.has("force")
    facts = reading.facts
    _transport(reading, options, *(words if several else words[:1]))
    name = words[0] if words else _default_remote(reading)
    if options.has("stdin"):
        reading.do("unresolved", "--stdin")
    if several:
        configured = [refspec for remote in facts.settings.remotes.values() for refspec in remote.fetch]
    else:
        configured = list(facts.remote(name).fetch)
    given = [*refspecs, *options.given.get("refmap", ())] or configured
    facts_say = [facts.config(key) for key in ("fetch.prune", f"remote.{name}.prune")]
    prune = options.has("prune") or any(value is not None and parse_boolean(value) is not False for value in facts_say)
    for refspec in given:
        _refspec(reading, refspec, force=force, prune=prune, overwrite=options.has("update-head-ok"))
    if prune:
        remotes = list(facts.settings.remotes) if several else [name]
        _keep_pruned(reading, remotes)
    if options.has("prune-tags"):
        reading.do("tag-delete")
    if force and options.has("tags"):
        reading.do("tag-move")
    reading.saving |= any(each.name in ("fetch-force", "tag-move", "tag-delete") for each in reading.operations)


def _keep_pruned(reading: Reading, remotes: Sequence[str]) -> None:
    """What only the remote-tracking refs of these remotes hold goes into a checkpoint. Which of them will be pruned,
    the remote alone knows."""
    commits = reading.facts.held_only_by([f"refs/remotes/{name}/" for name in remotes])
    if commits:
        reading.save(commits=commits)


def _default_remote(reading: Reading) -> str:
    facts = reading.facts
    name = facts.config(f"branch.{facts.branch}.remote") if facts.branch is not None else None
    return name or "origin"


def _refspec(reading: Reading, refspec: str, *, force: bool, prune: bool, overwrite: bool) -> None:
    """One refspec of a fetch: what it writes here."""
    forced = force or refspec.startswith("+")
    source, colon, target = refspec.lstrip("+").partition(":")
    if refspec.startswith(UNRESOLVED):
        reading.do("unresolved", refspec)
        return
    if source == "tag" or not colon or not target:
        return
    facts = reading.facts
    if target.startswith(("refs/remotes/", "remotes/")):
        return
    if target.startswith(OURS) or target == "refs/stash":
        reading.do("agentos-refs", target)
        return
    if target.startswith(("refs/tags/", "tags/")):
        if forced or prune:
            reading.do("tag-move", target)
        return
    full = target if target.startswith("refs/") else f"refs/heads/{target.removeprefix('heads/')}"
    branch = full.removeprefix("refs/heads/")
    glob = "*" in target
    if facts.is_protected(branch):
        reading.do("protected-branch", branch)
    if UNRESOLVED in target:
        reading.do("unresolved", refspec)
    elif forced or overwrite or (prune and glob):
        reading.do("fetch-force", refspec)
        reading.save(commits=facts.orphaned([full]) if not glob else ())
    elif glob or facts.ref(full) is not None:
        reading.do("branch-move", refspec)
    else:
        reading.do("branch-create", branch)


def _pull(reading: Reading) -> None:
    options = reading.options()
    if options.has("dry-run"):
        _transport(reading, options, *options.operands[:1])
        raise OnlyLooks
    if options.has("no-verify"):
        reading.do("no-verify")
    _fetched(reading, options)
    reading.do("pull", " ".join(options.operands))
    facts = reading.facts
    if facts.protected and facts.branch is not None and facts.is_protected(facts.branch):
        reading.do("protected-branch", facts.branch)
    reading.save(commits=facts.own_head(), ignored=facts.in_the_way("@{upstream}"))


def _fetch_pack(reading: Reading) -> None:
    for word in reading.args:
        if word.startswith(("--upload-pack", "--exec")):
            reading.do("run-command", word)
    reading.do("fetch")


def _ls_remote(reading: Reading) -> None:
    words = list(reading.args)
    for n, word in enumerate(words):
        name, equals, value = word.partition("=")
        if len(name) > 2 and ("--upload-pack".startswith(name) or "--exec".startswith(name)):
            text = value if equals else (words[n + 1] if n + 1 < len(words) else "")
            if text.rpartition("/")[2] != "git-upload-pack":
                reading.do("run-command", text)
    reading.looks_at_urls(words)


def _clone(reading: Reading) -> None:
    options = reading.options(paths=True)
    _transport(reading, options, *options.operands[:1])
    for text in options.given.get("config", ()):
        key, has_value, value = text.partition("=")
        meaning = config_keys.given(Given(key.lower(), value if has_value else None, "-c"))
        commands = meaning.operation == "config-guard" or meaning.text is not None
        if commands or config_keys.kind(key) == config_keys.ALIAS:
            # In a repository of its own; but what it runs, it runs with everybody's rights.
            reading.do("config-command", key)
        elif meaning.operation is not None:
            reading.do(meaning.operation if meaning.operation == "run-command" else "config-risky", key)
    if options.has("template", "separate-git-dir") or reading.facts.template:
        reading.do("init-redirect")
    reading.do("clone")


# -- remotes, submodules -------------------------------------------------------------------------------------------


def _remote(reading: Reading) -> None:
    top = reading.options("remote", stop=True)
    which, args = (top.operands[0], top.operands[1:]) if top.operands else ("show", ())
    if which in ("show", "get-url") or args[:1] in (("-h",), ("--help",)):
        raise OnlyLooks  # of a URL as a remote, see there
    if which == "add":
        options = reading.options("remote add", args)
        _transport(reading, options, *options.operands[1:2])
        if options.has("mirror"):
            reading.do("config-risky", "--mirror")
        reading.do("remote-add")
    elif which in ("set-branches", "set-head"):
        reading.do("remote-add")
    elif which in ("rm", "remove", "rename", "set-url"):
        reading.do("remote-change", " ".join(args))
    elif which == "prune":
        options = reading.options("remote prune", args)
        if options.has("dry-run"):
            raise OnlyLooks
        for name in options.operands:
            for refspec in reading.facts.remote(name).fetch:
                _refspec(reading, refspec, force=False, prune=True, overwrite=False)
        _keep_pruned(reading, options.operands)
        reading.do("fetch")
    elif which == "update":
        options = reading.options("remote update", args)
        for remote in reading.facts.settings.remotes.values():
            for refspec in remote.fetch:
                _refspec(reading, refspec, force=False, prune=options.has("prune"), overwrite=False)
        if options.has("prune"):
            _keep_pruned(reading, list(reading.facts.settings.remotes))
        reading.do("fetch")
    else:
        reading.do("unresolved" if UNRESOLVED in which else "unknown-command", f"remote {which}")


# What `git submodule` asks of `git submodule--helper`, its other half, beside the subcommands of its own.
_HELPER_LOOKS = "list name config is-active check-name push-check print-default-remote get-default-remote".split()
_HELPER_UPDATES = "clone add-clone update-clone ensure-core-worktree run-update-procedure".split()


def _submodule(reading: Reading) -> None:
    args = list(reading.args)
    while args and args[0] in ("-q", "--quiet", "--cached"):
        args.pop(0)
    which, rest = (args[0], args[1:]) if args else ("status", [])
    helps = reading.command == "submodule--helper"
    if helps and rest[-1:] == ["--"]:
        rest.pop()
    if which in ("status", "summary") or (helps and which in _HELPER_LOOKS) or rest[:1] in (["-h"], ["--help"]):
        raise OnlyLooks
    if which == "foreach":
        command = [word for n, word in enumerate(rest) if word not in ("--recursive", "-q", "--quiet") or n > 2]
        reading.do("submodule-update")
        if len(command) == 1:
            reading.texts.append(command[0])
        elif command:
            reading.calls.append(tuple(command))
    elif which == "update":
        options = reading.options("submodule update", rest, paths=True)
        reading.do("submodule-change" if options.has("force", "rebase", "merge") else "submodule-update")
        reading.save()
    elif which == "deinit":
        options = reading.options("submodule deinit", rest, paths=True)
        reading.do("submodule-force" if options.has("force") else "submodule-change", "deinit")
        reading.save()
    elif which in ("add", "init", "sync", "set-branch", "set-url") or (helps and which in _HELPER_UPDATES):
        reading.do("submodule-update")
        words = [word for word in rest if not word.startswith("-")] if helps else rest[:1]
        _transport(reading, Options({}, (), None, (), False, False), *words)
    elif which == "absorbgitdirs":
        reading.do("submodule-change", which)
    else:
        reading.do("unresolved" if UNRESOLVED in which else "unknown-command", f"submodule {which}")


# -- other systems -------------------------------------------------------------------------------------------------


def _send_email(reading: Reading) -> None:
    runs = [word for word in reading.args if re.match(r"--(to|cc|header|sendmail)-c|--smtp-server(=|$)", word)]
    if runs:
        reading.do("run-command", runs[0])  # in a dry run as well
    if {"--dry-run", "--help", "-h", "--dump-aliases"} & set(reading.args):
        raise OnlyLooks
    reading.do("send")


_LFS_LOOKS = "env ext fsck locks logs ls-files pointer status version diff clean smudge filter-process help".split()


def _lfs(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("help", ())
    if which in _LFS_LOOKS or which in ("-h", "--help", "--version") or args[:1] in (("-h",), ("--help",)):
        raise OnlyLooks
    if which in ("prune", "push", "fetch") and {"--dry-run", "-d"} & set(args):
        raise OnlyLooks
    if which in ("track", "untrack", "fetch", "pull", "lock", "merge-driver"):
        reading.do("fetch")
    elif which == "migrate":
        if args[:1] == ("info",):
            raise OnlyLooks
        reading.do("filter", "lfs migrate")
    elif which in ("install", "uninstall", "update"):
        reading.do("config-command", f"lfs {which}")
    elif which in ("push", "pre-push"):
        reading.do("push", f"lfs {which}")
    else:
        reading.do("foreign", f"lfs {which}")


_SVN_LOOKS = "log info find-rev blame show-ignore show-externals propget proplist gc help fetch".split()


def _svn(reading: Reading) -> None:
    which = next((word for word in reading.args if not word.startswith("-")), "help")
    if which in _SVN_LOOKS or {"-n", "--dry-run"} & set(reading.args):
        raise OnlyLooks
    reading.do("push" if which in ("dcommit", "submit") else "foreign", f"{reading.command} {which}")


FAMILIES = {
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
