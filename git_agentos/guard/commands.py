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
from git_agentos.guard import settings as configuration
from git_agentos.guard.call import Call
from git_agentos.guard.decision import ALLOW, Decision, Judgement, Operation, Save, worse
from git_agentos.guard.identity import Who
from git_agentos.guard.named_files import FileNote, NamedFiles
from git_agentos.guard.policy import operations, stash
from git_agentos.guard.policy.own import NOTHING_BEFORE, Before
from git_agentos.guard.settings import GuardSettings
from git_agentos.guard.shell import builtins, programs, programs_code, programs_files
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
_NOTHING = Judgement(Decision(ALLOW, []))
# What is allowed since nothing would be lost here; where it happens is not known.
_DEPENDS_ON_PLACE = frozenset({"checkout-paths", "remove", "move", "apply", "sparse-widen"})
# Programs after which a folder may not be where it was.
_MOVES_FOLDERS = frozenset("rm rmdir mv ln grm gmv gln trash trash-put srm rsync".split())
_REV_PARSE = {"--show-toplevel": 0, "--git-dir": 1, "--absolute-git-dir": 1, "--git-common-dir": 2}


class Step(NamedTuple):
    """One command that a text would run, and what is decided about it. Parts of `call.argv` may be unknown."""

    call: Call
    judgement: Judgement


def judge_argv(call: Call, who: Who, settings: GuardSettings | None = None) -> Judgement:
    """What is decided about a program's command line, whatever program it is."""
    judging = _Judging(who, settings, call)
    if judging.is_free():
        return _NOTHING
    try:
        judging.start(Program(call.argv, call.environment, call.cwd))
    except (ShellError, RecursionError) as error:
        judging.unread(call, str(error) if isinstance(error, ShellError) else "it is nested too deeply")
    except GuardError as error:
        judging.unread(call, error.message, error.hint)
    return merged(judging.steps)


def judge_text(text: str, call: Call, who: Who, settings: GuardSettings | None = None) -> Judgement:
    """What is decided about shell text; `call` says where it runs (its argv is not looked at)."""
    return merged(steps(text, call, who, settings))


def steps(text: str, call: Call, who: Who, settings: GuardSettings | None = None) -> list[Step]:
    """The commands of a shell text that are judged, in the order in which they would run."""
    judging = _Judging(who, settings, call)
    if judging.is_free():
        return []
    try:
        judging.shell.text(text, State(call.environment, call.cwd))
    except (ShellError, RecursionError) as error:
        judging.unread(call, str(error) if isinstance(error, ShellError) else "it is nested too deeply")
    except GuardError as error:
        judging.unread(call, error.message, error.hint)
    return judging.steps


def merged(found: Sequence[Step]) -> Judgement:
    """One judgement of many: the worst wins, the operations of all are told, everything is saved."""
    if not found:
        return _NOTHING
    worst = found[0].judgement
    for step in found[1:]:
        if worse(step.judgement.decision.decision, worst.decision.decision) != worst.decision.decision:
            worst = step.judgement
    rest = [step.judgement for step in found if step.judgement is not worst]
    names = list(dict.fromkeys((*worst.decision.operations, *(n for each in rest for n in each.decision.operations))))
    saves = [each.save for each in (worst, *rest) if each.save is not None and each.root == worst.root]
    save = functools.reduce(Save.joined, saves) if saves else None
    savable = all(each.savable for each in (worst, *rest) if each.decision.decision != ALLOW)
    decision = Decision(
        worst.decision.decision, names, worst.decision.rule, worst.decision.reason, worst.decision.instead
    )
    relies = any(each.relies_on_save for each in (worst, *rest))
    return Judgement(decision, save, savable, worst.root, relies)


class _Judging:
    """Takes note of each program that is started, and of what is decided about it."""

    def __init__(self, who: Who, settings: GuardSettings | None, call: Call) -> None:
        self.who = who
        self.call = call
        self.shell = Reader(self.start)
        self.steps: list[Step] = []
        self.files = NamedFiles(call, who, lambda: self.settings(call.cwd, call.environment).values)
        self.depth = 0
        self._settings = {call.cwd: settings} if settings is not None else {}
        self._seen: dict[tuple[object, ...], None] = {}
        self._judged: set[tuple[object, ...]] = set()
        self._before = NOTHING_BEFORE

    def is_free(self) -> bool:
        """Whether nothing is stopped and nothing is saved: a person, unless configuration says otherwise."""
        return self.who.agent is None and not self.settings(self.call.cwd, self.call.environment).everyone

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
        name = programs.base(program.argv[0]).removeprefix("=") if program.argv else ""
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
        if name in programs.SHELLS:
            self._start_file(program)
        if programs_code.prints_settings(program.argv):
            return ""
        inner = programs.unwrap(program.argv, program.stdin)
        if not inner or any(each.doubt or each.reads or each.script is not None for each in inner):
            self._perhaps_writes(program)
        if not inner and "/" in program.argv[0] and self._script(program, program.argv[0]) is not None:
            inner = [programs.Inner(script=program.argv[0], positional=program.argv[1:])]
        if inner:
            said = UNKNOWN
            for each in inner:
                said = self._inner(program, each, program.stdin)
            return said
        self._code(name, program)
        return _said(name, program)

    def _code(self, name: str, program: Program) -> None:
        """Take note of what an interpreter's code does."""
        if name in ("sed", "gsed") and programs_code.sed_runs_git(program.argv):
            self._note(program, [Operation("interpreter", name)])
        code = programs_code.code_of(name, program.argv, program.stdin, program.stdin == FILE)
        for given in code or ():
            text = program.feeds.get(given, given)
            if not text.strip(UNKNOWN):
                self._note(program, [Operation("unresolved", name)] if text else [])
            elif name in programs_code.AWK:
                for found in programs_code.awk_commands(text):
                    self._inner(program, programs.Inner(text=found.text), UNKNOWN if found.fed else program.stdin)
            elif programs_code.may_run_git(text) and not programs_code.only_matches(name, text):
                self._note(program, [Operation("interpreter", name)])
            else:
                for found in programs_code.commands_in(text):
                    # What only looks like a command is not asked about.
                    with contextlib.suppress(ShellError):
                        self._inner(program, programs.Inner(found.argv, found.text), program.stdin)

    def _inner(self, program: Program, inner: programs.Inner, stdin: str | None) -> str:
        environment = {} if inner.cleared else dict(program.environment)
        for key, value in inner.environment.items():
            if value is None:
                environment.pop(key, None)
            else:
                environment[key] = value
        state = State(environment, program.directory, program.lost or inner.doubt)
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
                if inner.doubt and not programs_code.may_run_git(text):
                    return UNKNOWN
                raise
        if not inner.argv:
            return UNKNOWN
        return self.start(
            program._replace(
                argv=inner.argv, environment=environment, directory=state.directory, lost=state.lost, writes=()
            )
        )

    @staticmethod
    def _script(program: Program, name: str) -> str | None:
        """What a script holds that the same text has written; None for another, which is not read."""
        return program.feeds.get(builtins.place(name, State({}, program.directory, program.lost)) or "")

    def _start_file(self, program: Program) -> None:
        """Take note of what a shell reads before it begins, where the command chooses it."""
        for name in ("BASH_ENV", "ENV"):
            given = program.environment.get(name, "")
            if given and given != self.call.environment.get(name):
                text = program.feeds.get(given, UNKNOWN)
                self._inner(program, programs.Inner(text=text), None)
        if any(key.startswith("BASH_FUNC_") and key not in self.call.environment for key in program.environment):
            self._note(program, [Operation("unresolved", "BASH_FUNC_*")])

    def _git(self, program: Program) -> str:
        from git_agentos.guard.judge import judge

        unknown = [key for key, value in program.environment.items() if key.startswith("GIT_") and not known(value)]
        if unknown:
            self._note(program, [Operation("unresolved", unknown[0])])
        call = _call(program)
        place = (
            call.argv,
            call.cwd,
            program.lost,
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
        judgement = judge(
            call,
            self.who,
            self._settings.get(program.directory) if same else None,
            trusted=self.call.environment,
            before=self._before,
        )
        self._before = _after(self._before, judgement)
        changed = [key for key in _USERS if self.call.environment.get(key) != call.environment.get(key)]
        if changed:
            # Who chooses which configuration is the user's, does not choose the policy: the stricter of both holds.
            users = {key: self.call.environment[key] for key in changed if key in self.call.environment}
            rest = {key: value for key, value in call.environment.items() if key not in changed}
            there = Step(
                call,
                judge(call._replace(environment={**rest, **users}), self.who, trusted=self.call.environment),
            )
            judgement = merged([Step(call, judgement), there])
        decision = judgement.decision
        depends = judgement.relies_on_save or not _DEPENDS_ON_PLACE.isdisjoint(decision.operations)
        if program.lost and decision.decision == ALLOW and depends:
            self._note(program, [Operation("unresolved", "where it runs")])
        self._step(call, judgement)
        return _git_said(program)

    @staticmethod
    def _telling(environment: Mapping[str, str]) -> list[str]:
        """The variables that git takes its configuration and its place from."""
        return [key for key in environment if key.startswith("GIT_") or key in ("HOME", "XDG_CONFIG_HOME")]

    # -- files

    def _files(self, program: Program) -> None:
        """Take note of what a program does to files that it names, and of where the shell writes its output."""
        name = program.argv[0] if program.argv else UNKNOWN
        if known(name) and programs_files.plain(name) in _MOVES_FOLDERS:
            touched = programs_files.touched(program.argv, program.directory) or programs_files.Files()
            names = [word for word in touched.paths if known(word)]
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
                self._step(_call(program), Judgement(Decision(ALLOW, []), each.save, True, each.root))

    # -- notes

    def unread(self, call: Call, reason: str, instead: str | None = None) -> None:
        """Take note of text that cannot be read."""
        settings = self.settings(call.cwd, call.environment)
        reason = reason if reason.startswith("shell text") else f"the shell text cannot be read: {reason}"
        decision = operations.decision([Operation("shell-error")], settings, reason=reason, instead=instead)
        # Once it is granted it may do anything: what is there is saved before.
        own = programs_files.git_directories(call.cwd)
        root = os.path.realpath(os.path.dirname(own[0])) if own else None
        self._step(call, Judgement(decision, Save() if own else None, False, root))

    def _note(self, program: Program, found: Sequence[Operation]) -> None:
        if found:
            call = _call(program)
            settings = self.settings(self.call.cwd, self.call.environment)
            own = programs_files.git_directories(program.directory)
            root = os.path.realpath(os.path.dirname(own[0])) if own else None
            decision = operations.decision(found, settings)
            save = Save() if root is not None and decision.decision != ALLOW else None
            self._step(call, Judgement(decision, save, False, root))

    def _step(self, call: Call, judgement: Judgement) -> None:
        if self.who.agent is None and judgement.decision.decision != ALLOW:
            judgement = judgement._replace(decision=Decision(ALLOW, judgement.decision.operations))
        decision = judgement.decision
        key = (
            call.argv, call.cwd, decision.decision, tuple(decision.operations), judgement.root, judgement.save,
        )  # fmt: skip
        if key not in self._seen:
            self._seen[key] = None
            self.steps.append(Step(call, judgement))


def _after(before: Before, judgement: Judgement) -> Before:
    """What has been done to the worktree once this command has run as well."""
    tags = {f"refs/tags/{each.subject}" for each in judgement.found if each.name == "tag-create" and each.limited}
    commits = sum(each.name == "commit" for each in judgement.found)
    return Before(
        min(before.commits + commits, _MOST_COMMITS),
        before.tags | tags,
        before.leaves_head or judgement.leaves_head,
        max(0, before.stashed + sum(stash.entries_made(each) for each in judgement.found)),
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
    if program.lost or not words or any(key in program.environment for key in ("GIT_DIR", "GIT_WORK_TREE")):
        return UNKNOWN
    own = programs_files.git_directories(program.directory)
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
        head = programs_files.first_line(os.path.join(own[min(1, len(own) - 1)], "HEAD"))
        if head.startswith("ref: refs/heads/"):
            return head.removeprefix("ref: refs/heads/") + "\n"
    return UNKNOWN
