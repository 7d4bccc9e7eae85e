"""The inputs of a command beside its words: the environment and the configuration that decide what it does.

The variables are those from which git, the shell, ssh, the dynamic linker and the usual interpreters take programs,
places or options. Variables of a terminal or a session are left out, and so is an editor or pager that does nothing
(`true`, `cat`). PATH is taken without the folder of the shim, and without the folder of git's own programs, which git
puts first for what it starts.

The configuration is all that git reads where the command works, except for the guard's own settings and values, and for
what is set for other branches. The user's hooks are part of it, and what `--continue` continues with.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from git_agentos.errors import AgentosError
from git_agentos.git import configuration, process, user_hooks
from git_agentos.git.location import Location
from git_agentos.guard.approval.requests import ApprovalRequest, cut, digest_of
from git_agentos.guard.call import Call
from git_agentos.redact import redact
from git_agentos.util import files

_PREFIXES = (
    "GIT_", "SSH_", "LD_", "DYLD_", "BASH_", "PYTHON", "PERL", "RUBY", "NODE_", "GPG_", "CURL_", "SSL_CERT_", "LESS",
    "LEFTHOOK", "HUSKY", "PRE_COMMIT_", "AGENTOS_MOCK_",
)  # fmt: skip
_NAMES = frozenset(
    "HOME XDG_CONFIG_HOME PATH SHELL EDITOR VISUAL PAGER LV BROWSER ENV SHELLOPTS BASHOPTS CDPATH IFS ZDOTDIR "
    "http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SKIP "
    "GNUPGHOME AGENTOS_WORKFLOW_DB".split()
)
# Variables that describe a login, or name a process.
_OF_SESSION = ("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AGENT_PID", "GPG_TTY", "GPG_AGENT_INFO")
_OF_SESSION_PREFIXES = ("GIT_TRACE2_PARENT_", "LESS_TERMCAP_", "BASH_EXECUTION_STRING")
_DOES_NOTHING = {
    "GIT_EDITOR": ("true", ":"), "GIT_SEQUENCE_EDITOR": ("true", ":"), "EDITOR": ("true", ":"), "VISUAL": ("true", ":"),
    "GIT_PAGER": ("cat", ""), "PAGER": ("cat", ""),
}  # fmt: skip
_SHIM = os.path.join("agentos", "guard", "bin")
# The guard's own settings: they decide whether the command runs, not what it does.
_OF_GUARD = (
    "agentos.policy.* agentos.guard.* agentos.auto.* agentos.protected agentos.approvalkey agentos.approvalexpiry "
    "extensions.worktreeconfig"
).split()
_SET_BY_GUARD = ("core.hookspath", "core.fsmonitor", "core.fsmonitorhookversion")
# Values that are shown: they name programs that git runs, and the places that it reads and writes.
_SHOWN = (
    "alias.* core.*editor sequence.editor core.pager pager.* core.sshcommand core.gitproxy core.askpass core.hookspath "
    "core.fsmonitor core.worktree core.attributesfile diff.external diff.*.command diff.*.textconv filter.*.clean "
    "filter.*.smudge filter.*.process merge.*.driver mergetool.*.cmd difftool.*.cmd gpg.program gpg.*.program "
    "credential.helper credential.*.helper *.vcs remote.*.url remote.*.pushurl remote.*.push remote.*.mirror "
    "remote.*.receivepack remote.*.uploadpack remote.pushdefault branch.*.pushremote url.* http.proxy http.*.proxy "
    "push.default include.path includeif.* protocol.*.allow submodule.*.url submodule.*.update trailer.*.command "
    "trailer.*.cmd sendemail.*cmd"
).split()
_OF_REPOSITORY = ("local", "worktree", "command")
_MAX_VALUE = 4000  # characters
_MAX_VALUES = 200
_TODO = ("rebase-merge/git-rebase-todo", "rebase-apply/next", "sequencer/todo", "sequencer/opts")
_CONTINUES = ("--continue", "--skip", "--edit-todo")


def with_inputs(
    request: ApprovalRequest, call: Call, location: Location, where: Sequence[str], path: str | None = None
) -> ApprovalRequest:
    """`request` with the inputs of its command.

    `where` are the global options of git that select the repository; `path` is the PATH with which the command will be
    started, where that differs from the PATH of this process.
    """
    environment = dict(call.environment)
    if path is not None:
        environment["PATH"] = path
    environment["PATH"] = _path(environment, location)
    variables = list(_variables(environment))
    whole, shown = _configuration(request, call, location, where)
    return request._replace(
        environment=tuple(_shown(variables)),
        environment_digest=digest_of(variables),
        configuration=tuple(_shown(shown)),
        configuration_digest=digest_of(whole),
        text=None if call.text is None else cut(redact(call.text)[0]),
        text_digest=None if call.text is None else digest_of([call.text]),
    )


def with_stash_entries(request: ApprovalRequest, commits: Sequence[str]) -> ApprovalRequest:
    """`request` with the commits of the stash entries that the command names: other entries may have the same names
    when it is granted."""
    if not commits:
        return request
    return request._replace(
        configuration=(*request.configuration, *(f"stash entry {commit}" for commit in commits[:_MAX_VALUES])),
        configuration_digest=digest_of([request.configuration_digest, *commits]),
    )


def _variables(environment: Mapping[str, str]) -> Iterator[str]:
    """The variables that decide what runs, as `NAME=value`, by name."""
    for name, value in sorted(environment.items()):
        is_input = name in _NAMES or name.startswith(_PREFIXES)
        if not is_input or name in _OF_SESSION or name.startswith(_OF_SESSION_PREFIXES):
            continue
        if value in _DOES_NOTHING.get(name, ()):
            continue
        yield f"{name}={value}"


def _path(environment: Mapping[str, str], location: Location) -> str:
    """PATH without the folders of the shim and of git's own programs."""
    env = {key: value for key, value in environment.items() if key != "GIT_EXEC_PATH"}
    status, out, _ = process.finish(process.spawn(["--exec-path"], cwd=location.root, env=env, neutral_config=False))
    own = os.fsdecode(out.removesuffix(b"\n")) if status == 0 else ""
    folders = environment.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(each for each in folders if each != own and not each.rstrip(os.sep).endswith(_SHIM))


def _configuration(
    request: ApprovalRequest, call: Call, location: Location, where: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The configuration that decides what the command does, and the part of it that is shown."""
    whole: list[str] = []
    shown: list[str] = []
    for scope, key, value in _entries(call, location, where):
        if _is_of_guard(key, value, location) or _is_of_other_branch(key, request, call):
            continue
        item = key if value is None else f"{key}={value}"
        whole.append(f"{scope} {item}")
        alias = key.startswith("alias.") and key.removeprefix("alias.") not in [each.lower() for each in call.argv]
        if scope in _OF_REPOSITORY and not alias and any(fnmatchcase(key, pattern) for pattern in _SHOWN):
            shown.append(item)
    if len(shown) > _MAX_VALUES:
        shown[_MAX_VALUES:] = [f"... ({len(shown) - _MAX_VALUES} more values)"]
    whole += _hooks(call, location)
    if any(word in _CONTINUES for word in call.argv):
        whole += [f"{name} {_digest_of_file(os.path.join(location.git_dir, name))}" for name in _TODO]
    return whole, shown


def _entries(call: Call, location: Location, where: Sequence[str]) -> list[tuple[str, str, str | None]]:
    """The configuration that git reads for the command: scope, key, value."""
    attempts: list[tuple[Sequence[str], str, Mapping[str, str]]] = [
        (where, call.cwd, call.environment),
        ((), location.root, process.environment(base=call.environment)),
    ]
    for options, folder, environment in attempts:
        try:
            entries = configuration.read_with_origins(folder, {**environment, "LC_ALL": "C"}, options)
        except (AgentosError, OSError, ValueError):
            continue
        return [(each.scope, each.key, each.value) for each in entries]
    return [("unreadable", "", None)]


def _is_of_guard(key: str, value: str | None, location: Location) -> bool:
    """Whether a value is a setting of the guard, or was set by the guard."""
    if any(fnmatchcase(key, pattern) for pattern in _OF_GUARD):
        return True
    if key == "core.fsmonitorhookversion":
        return True  # goes with core.fsmonitor
    return key in _SET_BY_GUARD and os.path.join(location.common_dir, "agentos", "guard", "hooks") in (value or "")


def _is_of_other_branch(key: str, request: ApprovalRequest, call: Call) -> bool:
    """Whether a value is for a branch that is not the current one, and that the command does not name."""
    if not key.startswith("branch.") or key.count(".") < 2:
        return False
    name = key.removeprefix("branch.").rpartition(".")[0]
    return request.branch != f"refs/heads/{name}" and not any(name in word for word in call.argv)


def _hooks(call: Call, location: Location) -> Iterator[str]:
    """The user's hooks, which the guard's hooks run, with a digest of each."""
    try:
        env = process.environment(base=call.environment)
        folder = user_hooks.read(location.root, location.git_dir, location.common_dir, env).hooks
        with os.scandir(folder) as found:
            names = sorted(each.name for each in found if not each.name.endswith(".sample"))
    except (AgentosError, OSError):
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            yield f"hook {name} {_digest_of_file(os.path.realpath(path))}"


def _digest_of_file(path: str) -> str:
    try:
        return hashlib.sha256(files.read(path)).hexdigest()
    except OSError:
        return "-"


def _shown(items: Sequence[str]) -> Iterator[str]:
    for each in items:
        yield cut(redact(each)[0], _MAX_VALUE)
