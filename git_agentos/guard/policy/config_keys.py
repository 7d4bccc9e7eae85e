"""What a configuration key is to the guard: whether it switches the guard off, holds a command, or moves others' refs.

`git -c KEY=VALUE`, GIT_CONFIG_*, `git config KEY VALUE` and `git clone -c` are all judged by it.
Environment variables can make git run a program, write a file, or read another configuration, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from git_agentos.errors import ConfigurationError, UnreadableConfiguration
from git_agentos.guard.call import UNKNOWN, Call
from git_agentos.guard.configuration import settings
from git_agentos.guard.paths import is_device
from git_agentos.guard.policy import harmless_programs
from git_agentos.guard.policy.git_line import ConfigOverride
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean

GUARD, ALIAS, COMMAND, TOOL, RISKY, PLAIN = "guard", "alias", "command", "tool", "risky", "plain"

_GUARD = (
    "core.hookspath core.fsmonitor core.fsmonitorhookversion hook.* agentos.* include.path includeif.*.path "
    "core.worktree core.bare core.repositoryformatversion extensions.*"
).split()
# Keys whose value git runs, by the role of the program.
_COMMANDS = {
    harmless_programs.EDITOR: "core.editor sequence.editor",
    harmless_programs.PAGER: "core.pager pager.* interactive.difffilter",
    harmless_programs.VIEWER: "diff.external diff.*.command diff.*.textconv difftool.*.cmd difftool.*.path "
    "mergetool.*.path browser.*.cmd browser.*.path man.*.cmd man.*.path",
    harmless_programs.SSH: "core.sshcommand",
    harmless_programs.CREDENTIAL: "credential.helper credential.*.helper",
    harmless_programs.ASKPASS: "core.askpass",
    harmless_programs.SIGNATURE: "gpg.program gpg.*.program",
    harmless_programs.FILTER: "filter.*.clean filter.*.smudge filter.*.process lfs.extension.*.clean "
    "lfs.extension.*.smudge",
    harmless_programs.TRANSPORT: "remote.*.uploadpack remote.*.receivepack core.gitproxy",
    harmless_programs.OTHER: "core.alternaterefscommand merge.*.driver mergetool.*.cmd gpg.ssh.defaultkeycommand "
    "trailer.*.command trailer.*.cmd sendemail.*cmd sendemail.sendmailcmd imap.tunnel remote.*.vcs "
    "uploadpack.packobjectshook gc.recentobjectshook tar.*.command guitool.*.cmd lfs.customtransfer.*.path "
    "instaweb.httpd",
}
_ROLES = {pattern: role for role, patterns in _COMMANDS.items() for pattern in patterns.split()}
# Keys whose value is the name of a tool that git knows, or, with a slash in it, a file that git runs.
_TOOLS = (
    "diff.tool diff.guitool merge.tool merge.guitool help.browser web.browser instaweb.browser man.viewer "
    "sendemail.smtpserver sendemail.*.smtpserver"
).split()
_RISKY = (
    "remote.*.url remote.*.pushurl remote.*.fetch remote.*.push remote.*.mirror remote.*.prune remote.*.tagopt "
    "remote.pushdefault branch.*.pushremote url.* receive.* gc.* protocol.* clean.requireforce core.logallrefupdates "
    "core.sparsecheckout core.sparsecheckoutcone core.ignorestat core.checkstat core.trustctime core.attributesfile "
    "core.excludesfile init.templatedir submodule.*.update submodule.*.url submodule.recurse transfer.* uploadpack.* "
    "maintenance.* checkout.* core.alternaterefsprefixes push.followtags rebase.updaterefs merge.renormalize "
    "http.proxy http.sslverify http.savecookies safe.* core.preferredsymlinkrefs core.sharedrepository core.notesref "
    "notes.*"
).split()
_PUSHES = ("remote.*.push", "remote.*.mirror")
# Keys above that hold nothing but an editor or a pager.
_SHOWS = ("core.editor", "core.pager", "sequence.editor", "pager.*")
# Shell text that is one program with plain words, and names neither git nor a program that deletes.
_SIMPLE = re.compile(r"[\w./=:,@%+^~ -]*\Z")
_SUSPECT = re.compile(
    r"(^|[/ ])(git|git-[\w-]+|hub|sh|bash|dash|zsh|env|eval|xargs|python\S*|perl|node|rm|mv)( |$)|\.git\b"
)
_LONG_AGO = re.compile(r"(never|false|(\d+)[. ]*(day|week|month|year)s?([. ]*ago)?)\Z", re.IGNORECASE)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


class ConfigEffect(NamedTuple):
    """What a value does: an operation's name, or None; and a shell text that git would run, or None."""

    operation: str | None = None
    shell_text: str | None = None


def category(key: str) -> str:
    """What kind of key it is; keys are compared as git does."""
    name = _compared(key)
    if UNKNOWN in name or any(fnmatchcase(name, pattern) for pattern in _GUARD):
        return GUARD
    if name.startswith("alias."):
        return ALIAS
    if _role(name) is not None:
        return COMMAND
    if any(fnmatchcase(name, pattern) for pattern in _TOOLS):
        return TOOL
    if any(fnmatchcase(name, pattern) for pattern in _RISKY):
        return RISKY
    return PLAIN


def _compared(key: str) -> str:
    section, _, rest = key.partition(".")
    middle, dot, last = rest.rpartition(".")
    return f"{section.lower()}.{middle}{dot}{last.lower()}"


def _role(name: str) -> str | None:
    """What git runs the value of a key for; None if it does not run it."""
    return next((role for pattern, role in _ROLES.items() if fnmatchcase(name, pattern)), None)


def _is_harmless(key: str, value: str) -> bool:
    """Whether git changes nothing by running the value of a key that holds a command."""
    name = _compared(key)
    if name.startswith("pager.") and parse_boolean(value) is not None:
        return True
    return harmless_programs.is_harmless(value, _role(name) or harmless_programs.OTHER)


def effect_of_override(item: ConfigOverride) -> ConfigEffect:
    """What a value does that comes with a command (`-c`, GIT_CONFIG_*)."""
    what = category(item.key)
    value = "true" if item.value is None else item.value
    if UNKNOWN in item.key:
        return ConfigEffect("config-guard" if item.source != "-c" else "unresolved")
    if what == GUARD:
        return ConfigEffect("config-guard")
    if what == ALIAS:
        # An alias given by `-c` is read as what it stands for, if it is run. One in a variable changes later commands.
        return ConfigEffect(None if item.source == "-c" else "config-guard")
    if item.source != "-c" and any(fnmatchcase(item.key, pattern) for pattern in _PUSHES):
        return ConfigEffect("config-guard")
    if what == COMMAND or (item.key.startswith("submodule.") and value.startswith("!")):
        return ConfigEffect() if _is_harmless(item.key, value) else ConfigEffect("run-command", value.removeprefix("!"))
    if what == TOOL:
        return ConfigEffect("run-command" if _is_program(value) else None)
    if what == RISKY:
        return ConfigEffect(_operation_of_risky_value(item.key, value))
    return ConfigEffect()


def operation_of_write(key: str, value: str | None) -> str | None:
    """The operation that `git config KEY VALUE` is; None if it is harmless. Without `value` the key is removed."""
    what = category(key)
    if what == GUARD:
        return "config-guard" if UNKNOWN not in key else "unresolved"
    if what == ALIAS:
        return "config-alias"
    if what == COMMAND:
        shows = any(fnmatchcase(key.lower(), pattern) for pattern in _SHOWS)
        return None if shows and value is not None and _is_harmless(key, value) else "config-command"
    if what == TOOL:
        return "config-command" if value is not None and _is_program(value) else None
    if what == RISKY:
        return (_operation_of_risky_value(key, value) if value is not None else None) or "config-risky"
    return None


def _is_program(value: str) -> bool:
    """Whether a value that should be a tool's name is a path, or is not known."""
    return "/" in value or UNKNOWN in value or value.startswith("!")


def unsafe_command(text: str) -> str | None:
    """A value that git gives to the shell and that has to be assessed; None if it is plainly one harmless program.

    A leading `!` (credential helpers, aliases) marks shell text.
    """
    text = text.removeprefix("!").strip()
    bare = text.replace('"', "").replace("'", "")
    return None if _SIMPLE.match(bare) and not _SUSPECT.search(bare) else text


def is_recent(value: str) -> bool:
    """Whether an expiry date is within the last two weeks, git's own grace period for objects that others may be
    writing."""
    match = _LONG_AGO.match(value.strip())
    return match is None or (match[2] is not None and int(match[2]) * _DAYS[match[3].lower()] < 14)


def _operation_of_risky_value(key: str, value: str) -> str | None:
    """The operation that a risky value makes of commands that use it."""
    last = key.rpartition(".")[2].lower()
    section = key.partition(".")[0].lower()
    if section == "remote" and last == "mirror":
        return "push-mirror" if parse_boolean(value) is not False else None
    if section == "remote" and last == "push":
        return "push-force" if value.startswith(("+", ":")) or UNKNOWN in value else None
    if section == "remote" and last == "fetch":
        return "fetch-force" if into_branches(value) else None
    if section == "gc" and last.endswith("expire") and is_recent(value):
        return "gc-prune"
    if section == "gc" and last.endswith("expireunreachable") and is_recent(value):
        return "gc-prune"
    if section == "http" and last == "savecookies" and parse_boolean(value) is not False:
        return "write-file"  # http.cookieFile
    if section == "protocol" and value.lower() == "always" and ".ext." in key.lower():
        return "run-command"
    return None


def into_branches(refspec: str) -> bool:
    """Whether a fetch by this refspec writes anything but remote-tracking refs and tags."""
    target = refspec.removeprefix("+").partition(":")[2]
    return bool(target) and not target.startswith(("refs/remotes/", "refs/tags/", "remotes/", "tags/"))


# -- environment variables ---------------------------------------------------------------------------------------------

# Variables that hold commands for git to run, and the roles of these.
VARIABLES = {
    "GIT_EDITOR": harmless_programs.EDITOR,
    "GIT_SEQUENCE_EDITOR": harmless_programs.EDITOR,
    "VISUAL": harmless_programs.EDITOR,
    "EDITOR": harmless_programs.EDITOR,
    "GIT_PAGER": harmless_programs.PAGER,
    "PAGER": harmless_programs.PAGER,
    "GIT_EXTERNAL_DIFF": harmless_programs.VIEWER,
    "GIT_DIFFTOOL_EXTCMD": harmless_programs.VIEWER,
    "GIT_SSH_COMMAND": harmless_programs.SSH,
    "GIT_SSH": harmless_programs.SSH,
    "GIT_ASKPASS": harmless_programs.ASKPASS,
    "SSH_ASKPASS": harmless_programs.ASKPASS,
    "GIT_PROXY_COMMAND": harmless_programs.TRANSPORT,
}
# Variables that other programs use as well, so most environments have them.
_GENERAL = frozenset({"VISUAL", "EDITOR", "PAGER", "SSH_ASKPASS"})


def variables_that_run(environment: Mapping[str, str], users: Mapping[str, str] | None) -> list[str]:
    """The variables that make git run something that may change files. What the user has set does not count; `users` is
    the user's environment, None if it is not known: then a variable that other programs use as well may be the user's,
    unless it looks like git, a shell, or a deletion."""
    found = []
    for name, role in VARIABLES.items():
        text = environment.get(name, "")
        if not text or harmless_programs.is_harmless(text, role) or harmless_programs.is_own_program(text, role):
            continue
        if users is None:
            if name not in _GENERAL or unsafe_command(text) is not None:
                found.append(name)
        elif users.get(name) != text:
            found.append(name)
    return found


def trace_files(environment: Mapping[str, str]) -> list[str]:
    """The files that variables make git append to (GIT_TRACE and the like)."""
    found = [value for key, value in environment.items() if key.startswith("GIT_TRACE")]
    return [value for value in found if os.path.isabs(value) and not is_device(value)]


def allow_programs_as_urls(environment: Mapping[str, str]) -> bool:
    """Whether git accepts `ext::COMMAND` as a URL."""
    return "ext" in environment.get("GIT_ALLOW_PROTOCOL", "").split(":")


def are_plain_variables(environment: Mapping[str, str], users: Mapping[str, str] | None) -> bool:
    """Whether the variables of a command make git do nothing beside what its command line says."""
    given = trace_files(environment) or allow_programs_as_urls(environment) or variables_that_run(environment, users)
    return not (given or _chosen_places(environment, users))


def chosen_configuration(call: Call, where: Sequence[str], users: Mapping[str, str] | None) -> list[ConfigOverride]:
    """Configuration that a command has because it chooses which files are the user's, and would not have otherwise: it
    is given with the command, as by `-c`. `where` are git's own options that say where it works."""
    places = _chosen_places(call.environment, users)
    if not places or users is None:
        return []
    environment = {key: value for key, value in call.environment.items() if key not in places}
    environment |= {name: users[name] for name in places if name in users}
    others = {(entry.key, entry.value) for entry in _entries(call, where, environment)}
    return [
        ConfigOverride(entry.key, entry.value, "-c")
        for entry in _entries(call, where, call.environment)
        if entry.scope in ("system", "global") and (entry.key, entry.value) not in others
    ]


def _chosen_places(environment: Mapping[str, str], users: Mapping[str, str] | None) -> list[str]:
    """The variables by which a command chooses which configuration is the user's."""
    if users is None:
        return []
    return [name for name in settings.PLACES if users.get(name) != environment.get(name)]


def _entries(call: Call, where: Sequence[str], environment: Mapping[str, str]) -> Sequence[settings.Entry]:
    try:
        return settings.read(call.cwd, environment, where).entries
    except (ConfigurationError, UnreadableConfiguration):
        return ()
