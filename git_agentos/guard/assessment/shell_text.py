"""Any program's command line, and shell text: the git calls in it, judged, and what else would damage a repository.

`judge_argv` and `judge_text` answer with one judgement; `steps` with one for each command that is not harmless, which
the harness layer acts on one by one, since what is asked for and granted is one command.

What is looked for beside git: writes into a git directory (`git-dir-write`), code with git in it (`interpreter`), a
program that cannot be known (`unresolved`), text that cannot be read (`shell-error`). Everything else is allowed; where
it deletes or overwrites files, the judgement has a `save`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from git_agentos.errors import GuardError
from git_agentos.guard.assessment.named_files import FileNote, NamedFiles
from git_agentos.guard.call import Call
from git_agentos.guard.configuration import settings as configuration
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, Assessment, Decision, Operation, SaveScope, stricter
from git_agentos.guard.identity import Identity
from git_agentos.guard.policy import operations
from git_agentos.guard.policy.commands import stash
from git_agentos.guard.policy.own_work import NO_EARLIER_COMMANDS, EarlierCommands
from git_agentos.guard.shell import builtins, file_programs, interpreters, runners
from git_agentos.guard.shell.reader import Reader
from git_agentos.guard.shell.simple_commands import Program
from git_agentos.guard.shell.state import State
from git_agentos.guard.shell.syntax import ShellError
from git_agentos.guard.shell.words import FILE, UNKNOWN, known, shown

_DEEPEST = 25
_MOST_JUDGED = 250
_MOST_COMMITS = 20  # that are counted in a text
# Where git finds the user's configuration.
_USERS = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_NOTHING = Assessment(Decision(ALLOW, []))
# What is allowed since nothing would be lost here; where it happens is not known.
_DEPENDS_ON_PLACE = frozenset({"checkout-paths", "remove", "move", "apply", "sparse-widen"})
# Programs after which a folder may not be where it was.
_MOVES_FOLDERS = frozenset("rm rmdir mv ln grm gmv gln trash trash-put srm rsync".split())
_REV_PARSE = {"--show-toplevel": 0, "--git-dir": 1, "--absolute-git-dir": 1, "--git-common-dir": 2}


class AssessedCommand(NamedTuple):
    """One command that a text would run, and what is decided about it. Parts of `call.argv` may be unknown."""

    call: Call
    assessment: Assessment


def assess_argv(call: Call, identity: Identity, settings: GuardSettings | None = None) -> Assessment:
    """What is decided about a program's command line, whatever program it is."""
    judging = _Judging(identity, settings, call)
    if judging.is_free():
        return _NOTHING
    try:
        judging.start(Program(call.argv, call.environment, call.cwd))
    except (ShellError, RecursionError) as error:
        judging.unread(call, str(error) if isinstance(error, ShellError) else "it is nested too deeply")
    except GuardError as error:
        judging.unread(call, error.message, error.hint)
    return merge(judging.assess_each)


def assess_text(text: str, call: Call, identity: Identity, settings: GuardSettings | None = None) -> Assessment:
    """What is decided about shell text; `call` says where it runs (its argv is not looked at)."""
    return merge(assess_each(text, call, identity, settings))


def assess_each(
    text: str, call: Call, identity: Identity, settings: GuardSettings | None = None
) -> list[AssessedCommand]:
    """The commands of a shell text that are judged, in the order in which they would run."""
    judging = _Judging(identity, settings, call)
    if judging.is_free():
        return []
    try:
        judging.shell.text(text, State(call.environment, call.cwd))
    except (ShellError, RecursionError) as error:
        judging.unread(call, str(error) if isinstance(error, ShellError) else "it is nested too deeply")
    except GuardError as error:
        judging.unread(call, error.message, error.hint)
    return judging.assess_each


def merge(found: Sequence[AssessedCommand]) -> Assessment:
    """One judgement of many: the worst wins, the operations of all are told, everything is saved."""
    if not found:
        return _NOTHING
    worst = found[0].assessment
    for step in found[1:]:
        if stricter(step.assessment.decision.decision, worst.decision.decision) != worst.decision.decision:
            worst = step.assessment
    rest = [step.assessment for step in found if step.assessment is not worst]
    names = list(dict.fromkeys((*worst.decision.operations, *(n for each in rest for n in each.decision.operations))))
    saves = [each.save for each in (worst, *rest) if each.save is not None and each.root == worst.root]
    save = functools.reduce(SaveScope.joined, saves) if saves else None
    fully_saved = all(each.fully_saved for each in (worst, *rest) if each.decision.decision != ALLOW)
    decision = Decision(
        worst.decision.decision, names, worst.decision.rule, worst.decision.reason, worst.decision.instead
    )
    relies = any(each.relies_on_checkpoint for each in (worst, *rest))
    return Assessment(decision, save, fully_saved, worst.root, relies)


class _Judging:
    """Takes note of each program that is started, and of what is decided about it."""

    def __init__(self, identity: Identity, settings: GuardSettings | None, call: Call) -> None:
        self.identity = identity
        self.call = call
        self.shell = Reader(self.start)
        self.assess_each: list[AssessedCommand] = []
        self.files = NamedFiles(call, identity, lambda: self.settings(call.cwd, call.environment).values)
        self.depth = 0
        self._settings = {call.cwd: settings} if settings is not None else {}
        self._seen: dict[tuple[object, ...], None] = {}
        self._judged: set[tuple[object, ...]] = set()
        self._before = NO_EARLIER_COMMANDS

    def is_free(self) -> bool:
        """Whether nothing is stopped and nothing is saved: a person, unless configuration says otherwise."""
        return self.identity.agent is None and not self.settings(self.call.cwd, self.call.environment).everyone

    def settings(self, directory: str, environment: Mapping[str, str]) -> GuardSettings:
        if directory not in self._settings:
            self._settings[directory] = configuration.read(directory, environment)
        return self._settings[directory]

    # -- programs

    def start(self, program: Program) -> str:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ShellError("its commands start each other too often")
        try:
            return self._start(program)
        finally:
            self.depth -= 1

    def _start(self, program: Program) -> str:
        # `=git` is what zsh finds on PATH.
        name = runners.base(program.argv[0]).removeprefix("=") if program.argv else ""
        self._files(program)
        if name == ":":
            return ""
        if not known(name) or (not known(program.argv[0]) and not name):
            self._note(program, [Operation("unresolved", shown(program.argv[:1]))])
            return UNKNOWN
        if name not in ("[", "[[") and any(mark in name for mark in "*?["):
            self._note(program, [Operation("unresolved", name)])
            return UNKNOWN
        if name in ("git", "hub") or name.startswith("git-"):
            first = program.argv[0] if known(program.argv[0]) and not program.argv[0].startswith("=") else name
            return self._git(program._replace(argv=(first, *program.argv[1:])))
        if name in runners.SHELLS:
            self._start_file(program)
        if interpreters.prints_settings(program.argv):
            return ""
        inner = runners.commands_run_by(program.argv, program.stdin)
        if not inner or any(each.guessed or each.reads or each.script is not None for each in inner):
            self._perhaps_writes(program)
        if not inner and "/" in program.argv[0] and self._script(program, program.argv[0]) is not None:
            inner = [runners.RunCommand(script=program.argv[0], positional=program.argv[1:])]
        if inner:
            said = UNKNOWN
            for each in inner:
                said = self._inner(program, each, program.stdin)
            return said
        self._code(name, program)
        return _said(name, program)

    def _code(self, name: str, program: Program) -> None:
        """Take note of what an interpreter's code does."""
        if name in ("sed", "gsed") and interpreters.sed_runs_git(program.argv):
            self._note(program, [Operation("interpreter", name)])
        code = interpreters.code_of(name, program.argv, program.stdin, program.stdin == FILE)
        for given in code or ():
            text = program.feeds.get(given, given)
            if not text.strip(UNKNOWN):
                self._note(program, [Operation("unresolved", name)] if text else [])
            elif name in interpreters.AWK:
                for found in interpreters.awk_commands(text):
                    self._inner(program, runners.RunCommand(text=found.text), UNKNOWN if found.fed else program.stdin)
            elif interpreters.may_run_git(text) and not interpreters.only_matches(name, text):
                self._note(program, [Operation("interpreter", name)])
            else:
                for found in interpreters.commands_in(text):
                    # What only looks like a command is not asked about.
                    with contextlib.suppress(ShellError):
                        self._inner(program, runners.RunCommand(found.argv, found.text), program.stdin)

    def _inner(self, program: Program, inner: runners.RunCommand, stdin: str | None) -> str:
        environment = {} if inner.cleared else dict(program.environment)
        for key, value in inner.environment.items():
            if value is None:
                environment.pop(key, None)
            else:
                environment[key] = value
        state = State(environment, program.directory, program.cwd_unknown or inner.guessed)
        state.positional, state.feeds = inner.positional, dict(program.feeds)
        state.functions = dict(self.shell.exported)
        if inner.name is not None:
            state.variables["0"] = ((inner.name,),)
        if inner.directory is not None:
            self.shell.move(state, inner.directory)
        text = inner.text
        if inner.script is not None:
            text = self._script(program, inner.script)
            if text is None or not text.strip(UNKNOWN + "\n"):
                return UNKNOWN  # it is not read
        if inner.reads:
            text = program.feeds.get(text, UNKNOWN) if text is not None else stdin
            if text is None or text == FILE:
                return UNKNOWN  # nothing, or a file: it is not read
            stdin = None
        if text is not None:
            try:
                return self.shell.text(text, state, stdin)
            except ShellError:
                # Where it is a guess that this is shell text (`psql -c 'select 1'`), it may be none.
                if inner.guessed and not interpreters.may_run_git(text):
                    return UNKNOWN
                raise
        if not inner.argv:
            return UNKNOWN
        return self.start(
            program._replace(
                argv=inner.argv,
                environment=environment,
                directory=state.directory,
                cwd_unknown=state.cwd_unknown,
                writes=(),
            )
        )

    @staticmethod
    def _script(program: Program, name: str) -> str | None:
        """What a script holds that the same text has written; None for another, which is not read."""
        return program.feeds.get(builtins.place(name, State({}, program.directory, program.cwd_unknown)) or "")

    def _start_file(self, program: Program) -> None:
        """Take note of what a shell reads before it begins, where the command chooses it."""
        for name in ("BASH_ENV", "ENV"):
            given = program.environment.get(name, "")
            if given and given != self.call.environment.get(name):
                text = program.feeds.get(given, UNKNOWN)
                self._inner(program, runners.RunCommand(text=text), None)
        if any(key.startswith("BASH_FUNC_") and key not in self.call.environment for key in program.environment):
            self._note(program, [Operation("unresolved", "BASH_FUNC_*")])

    def _git(self, program: Program) -> str:
        from git_agentos.guard.assessment.git_command import assess_git

        unknown = [key for key, value in program.environment.items() if key.startswith("GIT_") and not known(value)]
        if unknown:
            self._note(program, [Operation("unresolved", unknown[0])])
        call = _call(program)
        place = (
            call.argv,
            call.cwd,
            program.cwd_unknown,
            self._before,
            *(call.environment.get(key) for key in self._telling(call.environment)),
        )
        if place in self._judged:
            return _git_said(program)
        self._judged.add(place)
        if len(self._judged) > _MOST_JUDGED:
            raise ShellError("it runs git too often")
        same = all(
            self.call.environment.get(key) == call.environment.get(key)
            for key in {*self._telling(call.environment), *self._telling(self.call.environment)}
        )
        assessment = assess_git(
            call,
            self.identity,
            self._settings.get(program.directory) if same else None,
            trusted=self.call.environment,
            before=self._before,
        )
        self._before = _after(self._before, assessment)
        changed = [key for key in _USERS if self.call.environment.get(key) != call.environment.get(key)]
        if changed:
            # Who chooses which configuration is the user's, does not choose the policy: the stricter of both holds.
            users = {key: self.call.environment[key] for key in changed if key in self.call.environment}
            rest = {key: value for key, value in call.environment.items() if key not in changed}
            there = AssessedCommand(
                call,
                assess_git(call._replace(environment={**rest, **users}), self.identity, trusted=self.call.environment),
            )
            assessment = merge([AssessedCommand(call, assessment), there])
        decision = assessment.decision
        depends = assessment.relies_on_checkpoint or not _DEPENDS_ON_PLACE.isdisjoint(decision.operations)
        if program.cwd_unknown and decision.decision == ALLOW and depends:
            self._note(program, [Operation("unresolved", "where it runs")])
        self._step(call, assessment)
        return _git_said(program)

    @staticmethod
    def _telling(environment: Mapping[str, str]) -> list[str]:
        """The variables that git takes its configuration and its place from."""
        return [key for key in environment if key.startswith("GIT_") or key in ("HOME", "XDG_CONFIG_HOME")]

    # -- files

    def _files(self, program: Program) -> None:
        """Take note of what a program does to files that it names, and of where the shell writes its output."""
        name = program.argv[0] if program.argv else UNKNOWN
        if known(name) and file_programs.plain(name) in _MOVES_FOLDERS:
            files_written_by = file_programs.files_written_by(program.argv, program.directory) or file_programs.Files()
            names = [word for word in files_written_by.paths if known(word)]
            self.shell.changed |= {os.path.normpath(os.path.join(program.directory, word)) for word in names}
        self._take_notes(program, self.files.named_by(program))

    def _perhaps_writes(self, program: Program) -> None:
        """Take note of a program that may change files which nobody can tell."""
        self._take_notes(program, self.files.unknown_to(program))

    def _take_notes(self, program: Program, notes: Iterable[FileNote]) -> None:
        for each in notes:
            if each.operations:
                self._note(program, each.operations)
            if each.save is not None:
                self._step(_call(program), Assessment(Decision(ALLOW, []), each.save, True, each.root))

    # -- notes

    def unread(self, call: Call, reason: str, instead: str | None = None) -> None:
        """Take note of text that cannot be read."""
        settings = self.settings(call.cwd, call.environment)
        reason = reason if reason.startswith("shell text") else f"the shell text cannot be read: {reason}"
        decision = operations.decide([Operation("shell-error")], settings, reason=reason, instead=instead)
        # Once it is granted it may do anything: what is there is saved before.
        own = file_programs.git_directories(call.cwd)
        root = os.path.realpath(os.path.dirname(own[0])) if own else None
        self._step(call, Assessment(decision, SaveScope() if own else None, False, root))

    def _note(self, program: Program, found: Sequence[Operation]) -> None:
        if found:
            call = _call(program)
            settings = self.settings(self.call.cwd, self.call.environment)
            own = file_programs.git_directories(program.directory)
            root = os.path.realpath(os.path.dirname(own[0])) if own else None
            decision = operations.decide(found, settings)
            save = SaveScope() if root is not None and decision.decision != ALLOW else None
            self._step(call, Assessment(decision, save, False, root))

    def _step(self, call: Call, assessment: Assessment) -> None:
        if self.identity.agent is None and assessment.decision.decision != ALLOW:
            assessment = assessment._replace(decision=Decision(ALLOW, assessment.decision.operations))
        decision = assessment.decision
        key = (
            call.argv, call.cwd, decision.decision, tuple(decision.operations), assessment.root, assessment.save,
        )  # fmt: skip
        if key not in self._seen:
            self._seen[key] = None
            self.assess_each.append(AssessedCommand(call, assessment))


def _after(before: EarlierCommands, assessment: Assessment) -> EarlierCommands:
    """What has been done to the worktree once this command has run as well."""
    tags = {f"refs/tags/{each.subject}" for each in assessment.found if each.name == "tag-create" and each.limited}
    commits = sum(each.name == "commit" for each in assessment.found)
    return EarlierCommands(
        min(before.commits + commits, _MOST_COMMITS),
        before.tags | tags,
        before.moves_head or assessment.moves_head,
        max(0, before.stashed + sum(stash.entries_made(each) for each in assessment.found)),
    )


def _call(program: Program) -> Call:
    """The call, with an environment that a process can have. What only writes is told as the shell has it."""
    argv = (">", *program.writes) if program.argv[:1] == (":",) and program.writes else tuple(program.argv)
    environment = program.environment
    if any(UNKNOWN in value for value in environment.values()):
        environment = {key: value.replace(UNKNOWN, "") for key, value in environment.items()}
    return Call(argv, program.directory, environment)


# -- what programs print -----------------------------------------------------------------------------------------------


def _said(name: str, program: Program) -> str:
    """What a harmless program prints, where that is easily told."""
    operands = [word for word in program.argv[1:] if not word.startswith("-")]
    if name in ("cat", "tee"):
        return (program.stdin or "") if not operands or name == "tee" else FILE
    if name in ("which", "whence", "type") and len(operands) == 1:
        return operands[0] + "\n"
    if name in ("dirname", "basename") and operands and known(operands[0]):
        return (os.path.dirname(operands[0]) or "." if name == "dirname" else os.path.basename(operands[0])) + "\n"
    return UNKNOWN


def _git_said(program: Program) -> str:
    """What git prints about where it is: it is what the next command is often told."""
    words = list(program.argv[1:])
    if program.cwd_unknown or not words or any(key in program.environment for key in ("GIT_DIR", "GIT_WORK_TREE")):
        return UNKNOWN
    own = file_programs.git_directories(program.directory)
    if not own:
        return UNKNOWN
    if words[0] == "rev-parse" and len(words) == 2 and words[1] in _REV_PARSE:
        which = min(_REV_PARSE[words[1]], len(own) - 1)
        return (os.path.dirname(own[0]) if which == 0 else own[which]) + "\n"
    if words in (
        ["branch", "--show-current"],
        ["rev-parse", "--abbrev-ref", "HEAD"],
        ["symbolic-ref", "--short", "HEAD"],
    ):
        head = file_programs.first_line(os.path.join(own[min(1, len(own) - 1)], "HEAD"))
        if head.startswith("ref: refs/heads/"):
            return head.removeprefix("ref: refs/heads/") + "\n"
    return UNKNOWN
