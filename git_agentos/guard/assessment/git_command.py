"""A call -> a judgement: what a git command line would do, and whether it may. Reads, changes nothing.

The command line is taken apart (`git_line`), its family reads it (`families`) and asks the repository what it has to
know (`facts`); the operations that come out are decided by the table and the configuration (`operations`, `settings`).
Aliases are judged by what they expand to, and commands that a command runs by what they do.

Of a person nothing is stopped, and where `agentos.guard.everyone` is set, what could be lost is saved.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from git_agentos.errors import ConfigurationError, UnreadableConfiguration
from git_agentos.git import process
from git_agentos.guard import ancestry
from git_agentos.guard.assessment import conclusion
from git_agentos.guard.call import Call
from git_agentos.guard.configuration import settings as settings_module
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, Assessment, Decision, Operation
from git_agentos.guard.identity import Identity
from git_agentos.guard.ownership import Caller
from git_agentos.guard.policy import config_keys, git_line, other_worktrees, subcommands, variables
from git_agentos.guard.policy.analysis import Analysis
from git_agentos.guard.policy.commands.refs import AGENTOS_REFS
from git_agentos.guard.policy.facts import Facts, is_below
from git_agentos.guard.policy.options import UNKNOWN
from git_agentos.guard.policy.own_work import NO_EARLIER_COMMANDS, BranchMove, EarlierCommands

_DEEPEST = 10
_DEPTH = "AGENTOS_GUARD_DEPTH"
_LOOK = Operation("look")
# Variables that bring configuration with a command.
_GIVEN = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
# Operations whose commands move the branch they work on away from its commits; that is what they are for.
_MOVES_BRANCH = frozenset(
    "commit-amend rebase reset-hard reset-soft reset-mixed reset-merge reset-keep pull am skip abort continue filter "
    "branch-force branch-reset branch-rename ref-rewrite fetch-force import import-force merge cherry-pick "
    "revert".split()
)
# Commands that tidy refs up: what looks like a deletion is one of a copy.
_TIDIES = ("gc", "maintenance", "pack-refs", "refs")


class RefUpdate(NamedTuple):
    """One line of a reference transaction: `old` and `new` as the hook is told them, all zero for none.

    A deletion often shows zeros on both sides.
    """

    name: str
    old: str
    new: str


def assess_git(
    call: Call,
    identity: Identity,
    settings: GuardSettings | None = None,
    *,
    trusted: Mapping[str, str] | None = None,
    before: EarlierCommands = NO_EARLIER_COMMANDS,
) -> Assessment:
    """What is decided about a git command line (`argv[0]` is some `git` or `git-NAME`).

    `settings` are those of `call.cwd`, where the caller has read them already; `trusted` is an environment that the
    user has made, where one is known: the commands in it are his; `before` is what commands before it will have done.
    ConfigurationError for a bad value.
    """
    made = _Judge(call, identity, settings, trusted)
    made.before = before
    return _answer(identity, made.command)


def assess_ref_updates(
    updates: Sequence[RefUpdate], call: Call, identity: Identity, settings: GuardSettings | None = None
) -> Assessment:
    """What is decided about a reference transaction of the git process `call` (the outermost one).

    The command itself is judged too, and what it does to its own branch is its own operation.
    """
    made = _Judge(call, identity, settings)
    return _answer(identity, lambda: made.updates(updates))


def assess_push(
    lines: Sequence[str],
    remote_name: str,
    url: str,
    call: Call,
    identity: Identity,
    settings: GuardSettings | None = None,
) -> Assessment:
    """What is decided about a push: `lines` are what git tells `pre-push` (`LOCAL-REF OID REMOTE-REF OID`)."""
    made = _Judge(call, identity, settings)
    return _answer(identity, lambda: made.push(lines, remote_name or url))


def assess_commit(call: Call, identity: Identity, settings: GuardSettings | None = None) -> Assessment:
    """What is decided about a commit in `pre-commit`: the command itself, the branch, and what is staged."""
    made = _Judge(call, identity, settings)
    return _answer(identity, made.commit)


def _answer(identity: Identity, question: Callable[[], Assessment]) -> Assessment:
    """The answer to a question; a configuration that cannot be read stops no person."""
    try:
        return question()
    except ConfigurationError:
        if identity.agent is not None:
            raise
        return Assessment(Decision(ALLOW, []))


class _Judge:
    """One judgement in the making."""

    def __init__(
        self, call: Call, identity: Identity, settings: GuardSettings | None, trusted: Mapping[str, str] | None = None
    ) -> None:
        self.call = call
        self.trusted = trusted
        self.identity = identity
        self.given = settings
        depth = call.environment.get(_DEPTH, "0")
        # Who sets it otherwise only makes aliases unreadable for himself.
        self.depth = int(depth) if depth.isascii() and depth.isdigit() else _DEEPEST
        self.line = git_line.parse(call.argv, call.environment)
        self.found: list[Operation] = []
        self.inner: list[Assessment] = []
        self.moves: list[BranchMove] = []
        self.before = NO_EARLIER_COMMANDS
        self.analysis: Analysis | None = None
        self._settings: GuardSettings | None = None
        self._facts: Facts | None = None

    # -- what is needed, when it is ------------------------------------------------------------------------------

    @property
    def settings(self) -> GuardSettings:
        """The settings where the command works."""
        if self._settings is None:
            self._settings = self._read()
        return self._settings

    def _read(self) -> GuardSettings:
        line, call = self.line, self.call
        sent = any(call.environment.get(name) for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE"))
        elsewhere = bool(line.location_options) or sent
        if self.given is not None and not elsewhere:
            return self.given
        # What cannot be read of these is judged by itself; git refuses to run with them.
        clean = {key: value for key, value in call.environment.items() if not key.startswith(_GIVEN)}
        if any(UNKNOWN in word for word in line.location_options) or not os.path.isdir(
            os.path.join(call.cwd, *line.folders)
        ):
            # Nobody knows where; what the user's own configuration says holds everywhere.
            return settings_module.read(os.sep, process.environment(base=clean))
        trust = not (elsewhere and self._redirected())
        try:
            return settings_module.read(call.cwd, call.environment, line.location_options, trust_local=trust)
        except UnreadableConfiguration:
            if elsewhere:
                return settings_module.read(os.sep, process.environment(base=clean))
            if len(clean) == len(call.environment):
                raise
            return settings_module.read(call.cwd, clean, trust_local=trust)

    def _redirected(self) -> bool:
        """Whether the command is sent to another repository than the one its folder is in."""
        return Facts(self.line, self.call.cwd, self.call.environment, GuardSettings()).redirected

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            self._facts = Facts(self.line, self.call.cwd, self.call.environment, self.settings)
        return self._facts

    # -- the four questions ----------------------------------------------------------------------------------------

    def command(self) -> Assessment:
        if self._is_plain_look():
            return Assessment(Decision(ALLOW, [_LOOK.name]))
        self._read_command()
        return self._conclude()

    def updates(self, updates: Sequence[RefUpdate]) -> Assessment:
        git = _is_git(self.call.argv)
        if git:
            self.moves = [*self._moves(updates)]
            self._read_command()
        command = self.line.command if git else None
        names = {each.name for each in self.found}
        if command in _TIDIES:
            return self._conclude()
        explained = bool(names & _MOVES_BRANCH)
        self._keep_pruned(updates)
        for update in updates:
            self._update(update, explained=explained, command=names)
        return self._conclude()

    def _keep_pruned(self, updates: Sequence[RefUpdate]) -> None:
        """What remote-tracking refs that are deleted hold, and nothing else, goes into a checkpoint."""
        gone = [each.name for each in updates if each.name.startswith("refs/remotes/") and not each.new.strip("0")]
        commits = self.facts.commits_only_in(frozenset(gone)) if gone else []
        if commits:
            self.analysis = self.analysis or Analysis("", (), self.facts)
            self.analysis.require_checkpoint(commits=commits)

    def _moves(self, updates: Sequence[RefUpdate]) -> Iterator[BranchMove]:
        """The branches that move from one commit to another."""
        for update in updates:
            old = self.facts.ref(update.name) if update.name.startswith("refs/heads/") else None
            if old is not None and update.new.strip("0") and not update.new.startswith("ref:") and old != update.new:
                yield BranchMove(update.name, old, update.new)

    def push(self, lines: Sequence[str], remote: str) -> Assessment:
        if _is_git(self.call.argv):
            self._read_command()
            if [each.name for each in self.found] == [_LOOK.name]:
                return self._conclude()  # a dry run
        self.found.append(Operation("push", remote))
        for line in lines:
            words = line.split()
            if len(words) != 4:
                continue
            _, new, name, old = words
            if not new.strip("0"):
                self.found.append(Operation("push-delete", name))
            elif old.strip("0") and (name.startswith("refs/tags/") or not self.facts.is_ancestor(old, new)):
                self.found.append(Operation("push-force", name))
            if self.facts.is_protected(name.removeprefix("refs/heads/")):
                self.found.append(Operation("protected-branch", name.removeprefix("refs/heads/")))
        return self._conclude()

    def commit(self) -> Assessment:
        if _is_git(self.call.argv):
            self._read_command()
        facts = self.facts
        if facts.branch is not None and facts.is_protected(facts.branch):
            self.found.append(Operation("protected-branch", facts.branch))
        staged = facts.staged_below(".agentos")
        if staged:
            self.found.append(Operation("commit-agentos", staged[0].decode("utf-8", "replace")))
        return self._conclude()

    # -- the command -------------------------------------------------------------------------------------------------

    def _is_plain_look(self) -> bool:
        """Whether nothing has to be read to see that the command changes nothing: most commands are like that."""
        line = self.line
        if line.overrides or line.unknown_options or line.exec_path or self.call.environment.get("GIT_EXEC_PATH"):
            return False
        if not variables.are_plain(self.call.environment, self.users):
            return False
        return line.command is None or (
            subcommands.only_reads(line.command, line.args) and not subcommands.may_be_alias(line.command)
        )

    def _read_command(self) -> None:
        line = self.line
        if line.command is None:
            self.found.append(_LOOK)
        elif UNKNOWN in line.command:
            self.found.append(Operation("unresolved", "the subcommand"))
        else:
            self._read_subcommand(line.command)
        looks = all(each == _LOOK for each in self.found) and not self.inner
        self._around(looks=looks)

    def _read_subcommand(self, command: str) -> None:
        if subcommands.may_be_alias(command):
            alias = self._alias(command)
            if alias is not None:
                self._expand(command, alias)
                if not subcommands.is_known(command):
                    return
        caller = Caller(self.identity, self.call.environment, self.call.cwd, os.getpid())
        analysis = Analysis(command, self.line.args, self.facts, caller, self.moves, self.before)
        self.analysis = analysis
        subcommands.read(analysis)
        self.found += analysis.operations
        changes = any(operation.name not in _WHEREVER for operation in analysis.operations)
        if changes and self.facts.redirected:
            self.found.append(Operation("redirect"))
        if other_worktrees.is_changed(analysis):
            self.found.append(Operation("other-worktree", self.facts.root or ""))
        for text in analysis.shell_texts:
            self._judge_text(text)
        for argv in analysis.commands:
            self._judge_call(argv)

    def _around(self, *, looks: bool) -> None:
        """What comes with the command: configuration, and variables that redirect or run something."""
        for item in (*self.line.overrides, *variables.brought(self.call, self.line.location_options, self.users)):
            meaning = config_keys.effect_of_override(item)
            if meaning.operation is not None:
                if meaning.operation == "write-file" and self.analysis is not None:
                    self.analysis.unsavable = True  # which file that is, only libcurl knows
                self.found.append(Operation(meaning.operation, item.key.replace(UNKNOWN, "…")))
            if meaning.text is not None:
                self._judge_text(meaning.text)
        for word in self.line.unknown_options:
            if word.startswith("GIT_CONFIG"):
                self.found.append(Operation("config-guard", word))
            elif UNKNOWN not in word:
                self.found.append(Operation("unknown-option", word))
            elif not looks:
                self.found.append(Operation("unresolved", word.replace(UNKNOWN, "…")))
        environment = self.call.environment
        path = self.line.exec_path or environment.get("GIT_EXEC_PATH")
        if path and os.path.realpath(os.path.join(self.call.cwd, path)) != self.facts.exec_path:
            self.found.append(Operation("exec-path", path))
        for name in variables.that_run(environment, self.users):
            self.found.append(Operation("run-command", f"{name}={environment[name]}".replace(UNKNOWN, "…")))
            self._judge_text(environment[name])
        if variables.allow_programs_as_urls(environment):
            self.found.append(Operation("run-command", "GIT_ALLOW_PROTOCOL"))
        for path in variables.traces(environment):
            self._write_trace(path)

    @property
    def users(self) -> Mapping[str, str] | None:
        """The environment that the user has made; None where it is not known."""
        return self.trusted if self.trusted is not None else ancestry.environment_of_guard_exec(os.getpid())

    def _write_trace(self, path: str) -> None:
        """git appends to it: nothing of a file is gone, and yet it is another; a git directory is damaged by it."""
        if self.facts.in_git_dir(path):
            self.found.append(Operation("git-dir-write", path))
        elif os.path.isfile(path) and self.facts.root is not None and is_below(path, self.facts.root):
            self.analysis = self.analysis or Analysis("", (), self.facts)
            self.analysis.require_checkpoint(ignored=self.facts.ignored([path]))

    def _alias(self, command: str) -> str | None:
        name = command.lower()
        given = [item.value for item in self.line.overrides if item.key == f"alias.{name}"]
        if given and given[-1] is not None:
            return given[-1]
        return self.settings.aliases.get(name) or self.settings.aliases.get(f"{command}.command")

    def _expand(self, command: str, alias: str) -> None:
        """Judge an alias by what it stands for."""
        if self.depth >= _DEEPEST:
            self.found.append(Operation("unresolved", f"alias {command}"))
            return
        if alias.lstrip().startswith("!"):
            words = " ".join(shlex.quote(word) for word in self.line.args)
            if any(UNKNOWN in word for word in self.line.args):
                self.found.append(Operation("unresolved", f"alias {command}"))
            # A shell alias runs in the top of the worktree.
            text = alias.lstrip()[1:]
            self._judge_text(f"{text} {words}".replace(UNKNOWN, ""), cwd=self.facts.root)
            return
        expanded = git_line.expand(alias)
        if expanded is None:
            self.found.append(Operation("unresolved", f"alias {command}"))
            return
        own = [word for item in self.line.overrides if item.source == "-c" for word in ("-c", _text(item))]
        argv = ("git", *self.line.location_options, *own, *expanded, *self.line.args)
        environment = {**self.call.environment, _DEPTH: str(self.depth + 1)}
        inner = _Judge(Call(argv, self.call.cwd, environment), self.identity, self.given, self.trusted)
        inner.moves, inner.before = self.moves, self.before
        inner._read_command()
        self.found += inner.found
        self.inner += inner.inner
        self.analysis = inner.analysis

    def _judge_text(self, text: str, cwd: str | None = None) -> None:
        """Judge shell text that git would run."""
        from git_agentos.guard.assessment import shell_text

        where = Call((), cwd or self.facts.folder, self._inner_environment())
        if UNKNOWN in text or self.depth >= _DEEPEST:
            self.found.append(Operation("run-command", text.replace(UNKNOWN, "…")))
            return
        self.inner.append(shell_text.assess_text(text, where, self._as_agent(), self.given))

    def _judge_call(self, argv: Sequence[str]) -> None:
        from git_agentos.guard.assessment import shell_text

        if self.depth >= _DEEPEST:
            self.found.append(Operation("run-command", argv[0]))
            return
        call = Call(tuple(argv), self.facts.folder, self._inner_environment())
        self.inner.append(shell_text.assess_argv(call, self._as_agent(), self.given))

    def _inner_environment(self) -> dict[str, str]:
        """The environment of commands that the command runs, as far as it has not been judged yet. How deep they lie
        goes with it, since aliases can run themselves."""
        found = {key: value for key, value in self.call.environment.items() if key not in variables.COMMANDS}
        return {**found, _DEPTH: str(self.depth + 1)}

    def _as_agent(self) -> Identity:
        """Inner commands are judged as an agent's, so that what they do is known; a person's outcome follows at the
        end."""
        return self.identity if self.identity.agent is not None else Identity("?", "ancestor")

    # -- refs ----------------------------------------------------------------------------------------------------------

    def _update(self, update: RefUpdate, *, explained: bool, command: set[str]) -> None:
        """What one line of a reference transaction is, beyond what the command is known to do."""
        name, facts = update.name, self.facts
        if name == "refs/stash" and self.line.command != "stash" and not update.new.strip("0"):
            self.found.append(Operation("ref-delete", name))
        if name == "refs/stash" or name.startswith(
            ("refs/remotes/", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
        ):
            return
        if not name.startswith("refs/"):
            return  # HEAD, ORIG_HEAD: the command says what they are moved for
        old = facts.ref(name)
        deletes = not update.new.strip("0")
        if old is None and deletes:
            return
        if name.startswith(AGENTOS_REFS):
            if old is not None:
                self.found.append(Operation("agentos-refs", name))
            return
        branch = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None
        if branch is not None and old is not None and facts.is_protected(branch):
            self.found.append(Operation("protected-branch", branch))
        if name.startswith("refs/replace/"):
            self.found.append(Operation("replace", name))
        elif deletes:
            if not command & {"branch-delete", "tag-delete", "ref-delete", "branch-rename", "notes-change"}:
                kind = "branch-delete" if branch is not None else "tag-delete" if "refs/tags/" in name else "ref-delete"
                self.found.append(Operation(kind, name))
        elif update.new.startswith("ref:"):
            if "symbolic-ref" not in command:
                self.found.append(Operation("symbolic-ref", name))
        elif old is not None and not explained and old != update.new:
            if name.startswith("refs/tags/"):
                if "tag-move" not in command and "fetch" not in command:
                    self.found.append(Operation("tag-move", name))
            elif not facts.is_ancestor(old, update.new):
                self.found.append(Operation("ref-rewrite", name))

    # -- the end -------------------------------------------------------------------------------------------------------

    def _conclude(self) -> Assessment:
        """Decide about what was found."""
        looks = all(each == _LOOK for each in self.found) and not self.inner
        saves = self.analysis is not None and self.analysis.needs_checkpoint
        if looks and not saves and "look" not in (self._settings.policy if self._settings is not None else ()):
            return Assessment(Decision(ALLOW, [_LOOK.name]))
        return conclusion.conclude(self.found, self.inner, self.analysis, self.identity, self.settings, self.facts)


# What is the same in whatever repository it is done: it cannot lose anything in one that the command was sent to.
_WHEREVER = frozenset("look add objects stash fetch clone init agentos".split())


def _is_git(argv: Sequence[str]) -> bool:
    """Whether a command line is one of git's."""
    name = os.path.basename(argv[0]) if argv else ""
    return name in ("git", "hub") or name.startswith("git-")


def _text(item: git_line.ConfigOverride) -> str:
    return item.key if item.value is None else f"{item.key}={item.value}"
