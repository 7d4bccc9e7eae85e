"""Reads one git command line: the operations that it is, what must be saved before it, and the commands that it runs.

`git_line` parses the command line; the function for its subcommand (`subcommands`) reads the arguments and asks the
repository what it has to know (`facts`). An alias is read as what it stands for. Commands that git would run in turn
(`!` aliases, `rebase -x`, `-c core.pager=…`) are collected in `inner`; `assessor` assesses them. Nothing is changed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from git_agentos.errors import UnreadableConfiguration
from git_agentos.git import process
from git_agentos.guard import ancestry
from git_agentos.guard.call import UNKNOWN, Call
from git_agentos.guard.configuration import settings as settings_module
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import Operation
from git_agentos.guard.identity import Identity
from git_agentos.guard.ownership import Caller
from git_agentos.guard.paths import is_really_below
from git_agentos.guard.policy import config_keys, git_line, subcommands
from git_agentos.guard.policy.analysis import Analysis
from git_agentos.guard.policy.facts import Facts
from git_agentos.guard.policy.own_work import NO_EARLIER_COMMANDS, BranchMove, EarlierCommands
from git_agentos.process import table
from git_agentos.util.named_tuple import NamedTuple

LOOK = Operation("look")
MOST_NESTED = 10  # levels of aliases and of commands that run commands
# Variables that bring configuration with a command.
_CONFIGURING = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
# These do the same in every repository: they cannot lose anything in one that the command was redirected to.
_SAME_ANYWHERE = frozenset("look add objects stash fetch clone init agentos".split())


class InnerCommand(NamedTuple):
    """A command that git runs: shell `text`, or `call.argv` where `text` is None."""

    call: Call
    text: str | None = None


class GitCommandReader:
    """Reads the git command line `call`.

    `given_settings` are those of `call.cwd`, None where they have not been read; `trusted` is the environment that the
    user has made, None where it is not known: commands in its variables are the user's own. `depth` counts the
    commands that this one is nested in.

    The results are `operations`, `inner`, and `analysis` (None where no subcommand was read).
    """

    def __init__(
        self,
        call: Call,
        identity: Identity,
        given_settings: GuardSettings | None,
        *,
        trusted: Mapping[str, str] | None = None,
        earlier: EarlierCommands = NO_EARLIER_COMMANDS,
        depth: int = 0,
    ) -> None:
        self.call = call
        self.identity = identity
        self.given_settings = given_settings
        self.trusted = trusted
        self.earlier = earlier
        self.depth = depth
        self.line = git_line.parse(call.argv, call.environment)
        self.operations: list[Operation] = []
        self.inner: list[InnerCommand] = []
        self.moves: list[BranchMove] = []
        self.analysis: Analysis | None = None
        self._settings: GuardSettings | None = None
        self._facts: Facts | None = None

    # -- what the answers need, read when it is asked for ----------------------------------------------------------

    @property
    def settings(self) -> GuardSettings:
        """The settings of the place where the command works."""
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    @property
    def known_settings(self) -> GuardSettings | None:
        """The same, None where they have not been needed yet."""
        return self._settings

    def _read_settings(self) -> GuardSettings:
        line, call = self.line, self.call
        by_variable = any(call.environment.get(name) for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE"))
        is_elsewhere = bool(line.location_options) or by_variable
        if self.given_settings is not None and not is_elsewhere:
            return self.given_settings
        # `_read_overrides` reads configuration that comes with the command; git refuses to run if it cannot parse it.
        clean = {key: value for key, value in call.environment.items() if not key.startswith(_CONFIGURING)}
        is_unknown = any(UNKNOWN in word for word in line.location_options)
        if is_unknown or not os.path.isdir(os.path.join(call.cwd, *line.folders)):
            # The user's own configuration applies everywhere.
            return settings_module.read(os.sep, process.environment(base=clean))
        trust = not (is_elsewhere and self._is_redirected())
        try:
            return settings_module.read(call.cwd, call.environment, line.location_options, trust_local=trust)
        except UnreadableConfiguration:
            if is_elsewhere:
                return settings_module.read(os.sep, process.environment(base=clean))
            if len(clean) == len(call.environment):
                raise
            return settings_module.read(call.cwd, clean, trust_local=trust)

    def _is_redirected(self) -> bool:
        """Whether the command works in another repository than the one that its folder is in."""
        return Facts(self.line, self.call.cwd, self.call.environment, GuardSettings()).redirected

    @property
    def facts(self) -> Facts:
        """The facts of the repository in which the command works."""
        if self._facts is None:
            self._facts = Facts(self.line, self.call.cwd, self.call.environment, self.settings)
        return self._facts

    @property
    def users_environment(self) -> Mapping[str, str] | None:
        """The environment that the user has made; None where it is not known."""
        return self.trusted if self.trusted is not None else ancestry.environment_of_guard_exec(table.own_pid())

    @property
    def is_git(self) -> bool:
        """Whether the command line is one of git's."""
        name = os.path.basename(self.call.argv[0]) if self.call.argv else ""
        return name in ("git", "hub") or name.startswith("git-")

    @property
    def only_reads(self) -> bool:
        """Whether nothing was found that changes anything."""
        return all(each == LOOK for each in self.operations) and not self.inner

    # -- the command -------------------------------------------------------------------------------------------------

    def is_plain_read(self) -> bool:
        """Whether the command line alone shows that the command changes nothing. Most commands are like that."""
        line = self.line
        if line.overrides or line.unknown_options or line.exec_path or self.call.environment.get("GIT_EXEC_PATH"):
            return False
        if not config_keys.are_plain_variables(self.call.environment, self.users_environment):
            return False
        return line.command is None or (
            subcommands.only_reads(line.command, line.args) and not subcommands.may_be_alias(line.command)
        )

    def read(self) -> None:
        """Read the command line."""
        command = self.line.command
        if command is None:
            self.operations.append(LOOK)
        elif UNKNOWN in command:
            self.operations.append(Operation("unresolved", "the subcommand"))
        else:
            self._read_subcommand(command)
        only_reads = self.only_reads
        self._read_overrides()
        self._read_unknown_options(only_reads=only_reads)
        self._read_variables()

    def _read_subcommand(self, command: str) -> None:
        if subcommands.may_be_alias(command):
            alias = self._alias(command)
            if alias is not None:
                self._expand(command, alias)
                if not subcommands.is_known(command):
                    return
        caller = Caller(self.identity, self.call.environment, self.call.cwd, table.own_pid())
        self.analysis = Analysis(command, self.line.args, self.facts, caller, self.moves, self.earlier)
        subcommands.read(self.analysis)
        self.operations += self.analysis.operations
        if any(each.name not in _SAME_ANYWHERE for each in self.analysis.operations) and self.facts.redirected:
            self.operations.append(Operation("redirect"))
        if self.analysis.changes_other_worktree():
            self.operations.append(Operation("other-worktree", self.facts.root or ""))
        for text in self.analysis.shell_texts:
            self._add_shell_text(text)
        for argv in self.analysis.commands:
            self._add_command(argv)

    def _read_overrides(self) -> None:
        """Read the configuration that comes with the command."""
        overrides = config_keys.chosen_configuration(self.call, self.line.location_options, self.users_environment)
        for override in (*self.line.overrides, *overrides):
            effect = config_keys.effect_of_override(override)
            if effect.operation is not None:
                if effect.operation == "write-file" and self.analysis is not None:
                    self.analysis.unsavable = True  # only libcurl knows which file that is
                self.operations.append(Operation(effect.operation, override.key.replace(UNKNOWN, "…")))
            if effect.shell_text is not None:
                self._add_shell_text(effect.shell_text)

    def _read_unknown_options(self, *, only_reads: bool) -> None:
        for word in self.line.unknown_options:
            if word.startswith("GIT_CONFIG"):
                self.operations.append(Operation("config-guard", word))
            elif UNKNOWN not in word:
                self.operations.append(Operation("unknown-option", word))
            elif not only_reads:
                self.operations.append(Operation("unresolved", word.replace(UNKNOWN, "…")))

    def _read_variables(self) -> None:
        """Read the variables that make git run a program or write a file."""
        environment = self.call.environment
        path = self.line.exec_path or environment.get("GIT_EXEC_PATH")
        if path and os.path.realpath(os.path.join(self.call.cwd, path)) != self.facts.exec_path:
            self.operations.append(Operation("exec-path", path))
        for name in config_keys.variables_that_run(environment, self.users_environment):
            self.operations.append(Operation("run-command", f"{name}={environment[name]}".replace(UNKNOWN, "…")))
            self._add_shell_text(environment[name])
        if config_keys.allow_programs_as_urls(environment):
            self.operations.append(Operation("run-command", "GIT_ALLOW_PROTOCOL"))
        for trace in config_keys.trace_files(environment):
            self._read_trace(trace)

    def _read_trace(self, path: str) -> None:
        """git appends to a trace file. That changes the file, and damages a git directory."""
        if self.facts.in_git_dir(path):
            self.operations.append(Operation("git-dir-write", path))
        elif os.path.isfile(path) and self.facts.root is not None and is_really_below(path, self.facts.root):
            self.require_checkpoint(ignored=self.facts.ignored([path]))

    def require_checkpoint(self, *, ignored: frozenset[bytes] = frozenset(), commits: Sequence[str] = ()) -> None:
        """Add what a checkpoint must hold, whether or not a subcommand was read."""
        self.analysis = self.analysis or Analysis("", (), self.facts)
        self.analysis.require_checkpoint(ignored=ignored, commits=commits)

    # -- aliases and inner commands ----------------------------------------------------------------------------------

    def _alias(self, command: str) -> str | None:
        # `alias.<name>.command` since git 2.54. Of both, the later one counts, in an order that is not known here.
        names = (command.lower(), f"{command}.command")
        given = [item.value for item in self.line.overrides if item.key in {f"alias.{name}" for name in names}]
        if given and given[-1] is not None:
            return given[-1]
        found = {self.settings.aliases[name] for name in names if self.settings.aliases.get(name)}
        if len(found) > 1:
            self.operations.append(Operation("unresolved", f"alias {command}"))
        return min(found, default=None)

    def _expand(self, command: str, alias: str) -> None:
        """Read an alias as what it stands for."""
        unreadable = Operation("unresolved", f"alias {command}")
        if self.depth >= MOST_NESTED:
            self.operations.append(unreadable)
            return
        if alias.lstrip().startswith("!"):
            words = " ".join(shlex.quote(word) for word in self.line.args)
            if UNKNOWN in words:
                self.operations.append(unreadable)
            # git runs a shell alias at the top of the worktree.
            text = f"{alias.lstrip()[1:]} {words}".replace(UNKNOWN, "")
            self._add_shell_text(text, cwd=self.facts.root)
            return
        expanded = git_line.expand(alias)
        if expanded is None:
            self.operations.append(unreadable)
            return
        given = [word for item in self.line.overrides if item.source == "-c" for word in ("-c", item.text)]
        argv = ("git", *self.line.location_options, *given, *expanded, *self.line.args)
        reader = GitCommandReader(
            Call(argv, self.call.cwd, self.call.environment),
            self.identity,
            self.given_settings,
            trusted=self.trusted,
            earlier=self.earlier,
            depth=self.depth + 1,
        )
        reader.moves = self.moves
        reader.read()
        self.operations += reader.operations
        self.inner += reader.inner
        self.analysis = reader.analysis

    def _add_shell_text(self, text: str, cwd: str | None = None) -> None:
        if UNKNOWN in text or self.depth >= MOST_NESTED:
            self.operations.append(Operation("run-command", text.replace(UNKNOWN, "…")))
        else:
            self.inner.append(InnerCommand(Call((), cwd or self.facts.folder, self._inner_environment()), text))

    def _add_command(self, argv: Sequence[str]) -> None:
        if self.depth >= MOST_NESTED:
            self.operations.append(Operation("run-command", argv[0]))
        else:
            self.inner.append(InnerCommand(Call(tuple(argv), self.facts.folder, self._inner_environment())))

    def _inner_environment(self) -> dict[str, str]:
        """The environment of inner commands, without the variables that were read as commands already."""
        return {key: value for key, value in self.call.environment.items() if key not in config_keys.VARIABLES}
