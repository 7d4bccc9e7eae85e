"""Reads shell text, or any program's command line: the git commands in it, and what else would damage a repository.

Beside git these are found: writes into a git directory (`git-dir-write`), code that names git (`interpreter`), programs
that are known only at run time (`unresolved`), text that cannot be parsed (`shell-error`), files that are not the
agent's to change (`file_owners`). Everything else is allowed; where it deletes or overwrites files, the assessment has
a `save`. Each command is assessed by itself, since what is approved is one command.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from git_agentos.errors import GuardError
from git_agentos.guard.assessment.named_files import FileEffect, NamedFiles
from git_agentos.guard.call import UNKNOWN, Call
from git_agentos.guard.configuration import settings as configuration
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, Assessment, Decision, Operation, SaveScope, strictest
from git_agentos.guard.identity import Identity
from git_agentos.guard.paths import worktree_root
from git_agentos.guard.policy import operations
from git_agentos.guard.policy.commands import stash
from git_agentos.guard.policy.own_work import NO_EARLIER_COMMANDS, EarlierCommands
from git_agentos.guard.shell import builtins, file_programs, interpreters, runners
from git_agentos.guard.shell.reader import Program, Reader
from git_agentos.guard.shell.runners import RunCommand
from git_agentos.guard.shell.state import State
from git_agentos.guard.shell.syntax import ShellError
from git_agentos.guard.shell.words import FILE, known, shown
from git_agentos.util.named_tuple import NamedTuple

_MOST_NESTED = 25  # programs that start programs
_MOST_GIT_COMMANDS = 250
_MOST_COMMITS = 20  # that are counted in one text
_ALLOWED = Assessment(Decision(ALLOW, []))
# Allowed because nothing would be lost in this folder: in another folder they may lose something.
_DEPENDS_ON_FOLDER = frozenset({"checkout-paths", "remove", "move", "apply", "sparse-widen"})
# After these programs a folder may be somewhere else.
_MOVES_FOLDERS = frozenset("rm rmdir mv ln grm gmv gln trash trash-put srm rsync".split())


class AssessedCommand(NamedTuple):
    """One command that a text would run, and its assessment. Parts of `call.argv` may be unknown."""

    call: Call
    assessment: Assessment


def merge(commands: Sequence[AssessedCommand]) -> Assessment:
    """One assessment of all commands: the strictest decision, the operations of all, everything saved that lies in the
    same worktree."""
    if not commands:
        return _ALLOWED
    found = [each.assessment for each in commands]
    decision = strictest([each.decision for each in found])
    first = next(each for each in found if each.decision.decision == decision.decision)
    found = [first, *(each for each in found if each is not first)]
    scopes = [each.save for each in found if each.save is not None and each.root == first.root]
    save = functools.reduce(SaveScope.joined, scopes) if scopes else None
    fully_saved = all(each.fully_saved for each in found if each.decision.decision != ALLOW)
    relies = any(each.relies_on_checkpoint for each in found)
    return Assessment(decision, save, fully_saved, first.root, relies)


class ShellTextReader:
    """Collects the `commands` that are started, each with its assessment, and leaves out harmless ones.

    `assess_git` assesses a git command line (`assessor.assess_git`). `settings` are those of `call.cwd`, None where
    they have not been read.
    """

    def __init__(
        self, identity: Identity, settings: GuardSettings | None, call: Call, assess_git: Callable[..., Assessment]
    ) -> None:
        self.identity = identity
        self.call = call
        self.commands: list[AssessedCommand] = []
        self._assess_git = assess_git
        self._shell = Reader(self._start)
        self._files = NamedFiles(call, identity, lambda: self._settings_of(call.cwd, call.environment).values)
        self._depth = 0
        self._settings = {call.cwd: settings} if settings is not None else {}
        self._seen: set[tuple[object, ...]] = set()
        self._assessed: set[tuple[object, ...]] = set()
        self._earlier = NO_EARLIER_COMMANDS

    def read_argv(self, call: Call) -> None:
        """Read a program's command line."""
        self._read(lambda: self._start(Program(call.argv, call.environment, call.cwd)), call)

    def read_text(self, text: str, call: Call) -> None:
        """Read shell text that runs in the folder and the environment of `call`."""
        self._read(lambda: self._shell.text(text, State(call.environment, call.cwd)), call)

    def merged(self) -> Assessment:
        """One assessment of all commands."""
        return merge(self.commands)

    def _read(self, read: Callable[[], str], call: Call) -> None:
        if self.identity.agent is None and not self._settings_of(call.cwd, call.environment).everyone:
            return  # nothing of a person's is stopped or saved
        try:
            read()
        except ShellError as error:
            self._add_unreadable(call, str(error))
        except RecursionError:
            self._add_unreadable(call, "it is nested too deeply")
        except GuardError as error:
            self._add_unreadable(call, error.message, error.hint)

    def _settings_of(self, directory: str, environment: Mapping[str, str]) -> GuardSettings:
        if directory not in self._settings:
            there = (
                directory  # git fails in a folder that is not there; what it would have run is judged by the one above
            )
            while not os.path.isdir(there) and there != os.path.dirname(there):
                there = os.path.dirname(there)
            self._settings[directory] = configuration.read(there, environment)
        return self._settings[directory]

    # -- programs --------------------------------------------------------------------------------------------------

    def _start(self, program: Program) -> str:
        """Add what is decided about a program that is started. The result is what it prints; UNKNOWN where that is not
        known."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise ShellError("its commands start each other too often")
        try:
            return self._started(program)
        finally:
            self._depth -= 1

    def _started(self, program: Program) -> str:
        # `=git` is what zsh finds on PATH.
        name = runners.base(program.argv[0]).removeprefix("=") if program.argv else ""
        self._add_named_files(program)
        if name == ":":
            return ""
        if not known(name) or (not known(program.argv[0]) and not name):
            self._add(program, [Operation("unresolved", shown(program.argv[:1]))])
            return UNKNOWN
        if name not in ("[", "[[") and any(mark in name for mark in "*?["):
            self._add(program, [Operation("unresolved", name)])
            return UNKNOWN
        if name in ("git", "hub") or name.startswith("git-"):
            first = program.argv[0] if known(program.argv[0]) and not program.argv[0].startswith("=") else name
            return self._git(program._replace(argv=(first, *program.argv[1:])))
        if name in runners.SHELLS:
            self._read_startup_file(program)
        if interpreters.prints_settings(program.argv):
            return ""
        inner = runners.commands_run_by(program.argv, program.stdin)
        if not inner or any(each.guessed or each.reads or each.script is not None for each in inner):
            self._add_effects(program, self._files.unnamed_by(program))
        if not inner and "/" in program.argv[0] and self._script_text(program, program.argv[0]) is not None:
            inner = [RunCommand(script=program.argv[0], positional=program.argv[1:])]
        if inner:
            return [self._run(program, each, program.stdin) for each in inner][-1]
        self._read_code(name, program)
        return file_programs.printed_by(name, program)

    def _read_code(self, name: str, program: Program) -> None:
        """Read the code that an interpreter is given."""
        if name in ("sed", "gsed") and interpreters.sed_runs_git(program.argv):
            self._add(program, [Operation("interpreter", name)])
        code = interpreters.code_of(name, program.argv, program.stdin, program.stdin == FILE)
        for given in code or ():
            text = program.file_contents.get(given, given)
            if not text.strip(UNKNOWN):
                self._add(program, [Operation("unresolved", name)] if text else [])
            elif name in interpreters.AWK:
                for command, stdin in interpreters.awk_commands(text, program.stdin):
                    self._run(program, RunCommand(text=command), stdin)
            elif interpreters.may_run_git(text) and not interpreters.only_matches(name, text):
                self._add(program, [Operation("interpreter", name)])
            else:
                for found in interpreters.commands_in(text):
                    # A string that is not a command after all needs no approval.
                    with contextlib.suppress(ShellError):
                        self._run(program, found, program.stdin)

    def _run(self, program: Program, command: RunCommand, stdin: str | None) -> str:
        """Read a command that a program runs; the result is what it prints."""
        state = self._state_of(program, command)
        text = command.text
        if command.script is not None:
            text = self._script_text(program, command.script)
            if text is None or not text.strip(UNKNOWN + "\n"):
                return UNKNOWN
        if command.reads:
            text = program.file_contents.get(text, UNKNOWN) if text is not None else stdin
            if text is None or text == FILE:
                return UNKNOWN  # files are not read
            stdin = None
        if text is not None:
            try:
                return self._shell.text(text, state, stdin)
            except ShellError:
                # Where it is a guess that this is shell text (`psql -c 'select 1'`), it may be something else.
                if command.guessed and not interpreters.may_run_git(text):
                    return UNKNOWN
                raise
        if not command.argv:
            return UNKNOWN
        return self._start(
            program._replace(
                argv=command.argv,
                environment=state.environment,
                directory=state.directory,
                cwd_unknown=state.cwd_unknown,
                writes=(),
            )
        )

    def _state_of(self, program: Program, command: RunCommand) -> State:
        """The state in which a command begins that a program runs."""
        environment = {} if command.cleared else dict(program.environment)
        for key, value in command.environment.items():
            if value is None:
                environment.pop(key, None)
            else:
                environment[key] = value
        state = State(environment, program.directory, program.cwd_unknown or command.guessed)
        state.positional, state.file_contents = command.positional, dict(program.file_contents)
        if command.name is not None:
            state.variables["0"] = ((command.name,),)
        if command.directory is not None:
            self._shell.move(state, command.directory)
        return state

    @staticmethod
    def _script_text(program: Program, name: str) -> str | None:
        """The text of a script that the same text has written; None for another, which is not read."""
        return program.file_contents.get(builtins.resolve_path(name, program.directory))

    def _read_startup_file(self, program: Program) -> None:
        """Read the file that a shell reads before it begins, where the command chooses it."""
        for name in ("BASH_ENV", "ENV"):
            given = program.environment.get(name, "")
            if given and given != self.call.environment.get(name):
                self._run(program, RunCommand(text=program.file_contents.get(given, UNKNOWN)), None)
        if any(key.startswith("BASH_FUNC_") and key not in self.call.environment for key in program.environment):
            self._add(program, [Operation("unresolved", "BASH_FUNC_*")])

    # -- git -------------------------------------------------------------------------------------------------------

    def _git(self, program: Program) -> str:
        unknown = [key for key, value in program.environment.items() if key.startswith("GIT_") and not known(value)]
        if unknown:
            self._add(program, [Operation("unresolved", unknown[0])])
        call = _call_of(program)
        relevant = _git_variables(call.environment)
        key = (call.argv, call.cwd, program.cwd_unknown, self._earlier, *map(call.environment.get, relevant))
        if key in self._assessed:
            return file_programs.printed_by_git(program)
        self._assessed.add(key)
        if len(self._assessed) > _MOST_GIT_COMMANDS:
            raise ShellError("it runs git too often")
        given = self.call.environment
        is_same = all(given.get(name) == call.environment.get(name) for name in {*relevant, *_git_variables(given)})
        settings = self._settings.get(program.directory) if is_same else None
        assessment = self._assess_git(call, self.identity, settings, trusted=given, earlier=self._earlier)
        self._earlier = _after(self._earlier, assessment)
        decision = assessment.decision
        depends = assessment.relies_on_checkpoint or not _DEPENDS_ON_FOLDER.isdisjoint(decision.operations)
        if program.cwd_unknown and decision.decision == ALLOW and depends:
            self._add(program, [Operation("unresolved", "where it runs")])
        self._add_assessment(call, assessment)
        return file_programs.printed_by_git(program)

    # -- files -----------------------------------------------------------------------------------------------------

    def _add_named_files(self, program: Program) -> None:
        """Add what a program does to files that it names, and to those that the shell writes its output to."""
        name = program.argv[0] if program.argv else UNKNOWN
        if known(name) and file_programs.plain(name) in _MOVES_FOLDERS:
            written = file_programs.files_written_by(program.argv, program.directory) or file_programs.Files()
            names = [word for word in written.paths if known(word)]
            self._shell.changed |= {os.path.normpath(os.path.join(program.directory, word)) for word in names}
        self._add_effects(program, self._files.named_by(program))

    def _add_effects(self, program: Program, effects: Iterable[FileEffect]) -> None:
        for each in effects:
            if each.operations:
                self._add(program, each.operations)
            if each.save is not None:
                assessment = Assessment(Decision(ALLOW, []), each.save, True, each.root)
                self._add_assessment(_call_of(program), assessment)

    # -- the commands found ----------------------------------------------------------------------------------------

    def _add_unreadable(self, call: Call, reason: str, instead: str | None = None) -> None:
        """Add text that cannot be parsed."""
        settings = self._settings_of(call.cwd, call.environment)
        reason = reason if reason.startswith("shell text") else f"the shell text cannot be read: {reason}"
        decision = operations.decide([Operation("shell-error")], settings, reason=reason, instead=instead)
        # Once it is granted it may do anything.
        root = worktree_root(call.cwd)
        save = SaveScope() if root is not None else None
        self._add_assessment(call, Assessment(decision, save, False, root))

    def _add(self, program: Program, found: Sequence[Operation]) -> None:
        """Add operations of a program that is not git."""
        if found:
            root = worktree_root(program.directory)
            decision = operations.decide(found, self._settings_of(self.call.cwd, self.call.environment))
            save = SaveScope() if root is not None and decision.decision != ALLOW else None
            self._add_assessment(_call_of(program), Assessment(decision, save, False, root))

    def _add_assessment(self, call: Call, assessment: Assessment) -> None:
        if self.identity.agent is None and assessment.decision.decision != ALLOW:
            assessment = assessment._replace(decision=Decision(ALLOW, assessment.decision.operations))
        decision = assessment.decision
        key = (
            call.argv, call.cwd, decision.decision, tuple(decision.operations), assessment.root, assessment.save,
        )  # fmt: skip
        if key not in self._seen:
            self._seen.add(key)
            self.commands.append(AssessedCommand(call, assessment))


def _after(earlier: EarlierCommands, assessment: Assessment) -> EarlierCommands:
    """What was done to the worktree once this command has run as well."""
    made = assessment.operations
    tags = {f"refs/tags/{each.subject}" for each in made if each.name == "tag-create" and each.limited}
    commits = sum(each.name == "commit" for each in made)
    return EarlierCommands(
        min(earlier.commits + commits, _MOST_COMMITS),
        earlier.tags | tags,
        earlier.moves_head or assessment.moves_head,
        max(0, earlier.stashed + sum(stash.entries_made(each) for each in made)),
    )


def _call_of(program: Program) -> Call:
    """The call that a program is, with an environment that a process can have. A redirection alone is shown as the
    shell has it."""
    argv = (">", *program.writes) if program.argv[:1] == (":",) and program.writes else tuple(program.argv)
    environment = program.environment
    if any(UNKNOWN in value for value in environment.values()):
        environment = {key: value.replace(UNKNOWN, "") for key, value in environment.items()}
    return Call(argv, program.directory, environment)


def _git_variables(environment: Mapping[str, str]) -> list[str]:
    """The variables from which git takes its configuration and its place."""
    return [key for key in environment if key.startswith("GIT_") or key in ("HOME", "XDG_CONFIG_HOME")]
