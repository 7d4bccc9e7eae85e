"""The commands of `git agentos`: what each one does, and to whom. One row a line:

    command | target | in one's own | in another's | options | what options change

The target says whose it is what the command changes:

    here        the worktree that it is called for: of the current folder, or of `-C PATH`
    worktree    the worktrees that its operands name; without operands, `here`
    run         the worktree of the run that its operand names; without an operand, `here`
    repository  what all worktrees share
    person      a decision that is never an agent's, whatever policy says; the operation names it for `guard check`

The next two columns are operations of the table in `operation_table`, for a target that is the caller's own and for any
other. `repository` and `person` have no owner. Options that take a value end with `=`. `--push:push` means: with
`--push` it is the operation `push` in place of the third column; `--dry-run:!agentos` that it is `agentos` and nothing
else, whether the target is the caller's own or not; `--allow-approvals:@approvals` that it is a decision of a person
then, as if the target were `person`.

`guard check`, the shim and the harness hooks (`families_agentos`), and the commands themselves (`guard.authorize`) all
read this table. A command without a row is refused to agents.
"""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from git_agentos.util.named_tuple import NamedTuple

HERE, WORKTREE, RUN, REPOSITORY, PERSON = "here", "worktree", "run", "repository", "person"

# What every command takes, before and behind its name.
COMMON_VALUED = frozenset({"-C", "--as"})
COMMON_FLAGS = frozenset({"--json", "-q", "--quiet", "-h", "--help"})
WRITES = "--html"  # the option of several commands that names a file to write
_COMMON = COMMON_VALUED | COMMON_FLAGS
_ANSWERS = frozenset({"-h", "--help", "--version"})

COMMANDS = """
checkpoint | here | agentos | agentos | -m= --message= --trigger= --task= --meta= --run= --session= |
checkpoint list | repository | agentos | agentos | --agent= --all --host= -n= --max-count= --since= --task= --trigger= |
checkpoint show | repository | agentos | agentos | --agent= --all --host= |
checkpoint diff | repository | agentos | agentos | --stat --agent= --all --host= |
checkpoint cat | repository | agentos | agentos | --agent= --all --host= |
checkpoint search | repository | agentos | agentos | --agent= --all --host= -n= --max-count= |
restore | here | agentos | agentos-change | --no-branch --branch= --worktree= --keep-new -p --patch --hunks= --dry-run --expected= --idempotency-key= --agent= --all --host= | --worktree:!agentos --dry-run:!agentos
undo | here | agentos | agentos-change | --dry-run --expected= --idempotency-key= | --dry-run:!agentos
recover | here | agentos | agentos-change | --abort |
pick | here | agentos | agentos-change | --continue --abort |
forget | person | agentos-change | agentos-change | --keep-last= --keep-hourly= --keep-daily= --keep-weekly= --keep-monthly= --keep-within= --agent= --all --path= --secret --dry-run | --dry-run:!agentos
worktree create | repository | agentos | agentos | --from= --task= --sparse= --lock --revive --host= --guard --no-guard --fetch --no-fetch --with-changes | --no-guard:guard-change --revive:agentos-change --fetch:fetch
worktree list | repository | look | look | |
worktree show | repository | look | look | |
worktree path | repository | look | look | |
worktree env | repository | look | look | |
worktree notify | repository | agentos | agentos | --conflicts |
worktree refill | repository | agentos | agentos | |
worktree complete | worktree | agentos | agentos-change | --push | --push:push
worktree archive | worktree | agentos-change | agentos-change | --teardown --no-teardown |
worktree remove | worktree | agentos-change | agentos-change | --delete-branch --discard-ignored --teardown --no-teardown |
worktree cleanup | repository | agentos-change | agentos-change | --dry-run | --dry-run:!agentos
worktree repair | worktree | agentos | agentos | |
worktree merge | worktree | agentos-change | agentos-change | --into= --squash --dry-run | --dry-run:!agentos
worktree sync | worktree | agentos | agentos-change | --all --rebase --merge --dry-run | --all:agentos-change --dry-run:!agentos
worktree conflicts | repository | look | look | --dirty |
run start | repository | agentos-change | agentos-change | --task= --from= --agent= --validate= --max-attempts= --on-failure= --retry-from= --timeout= --protected= --guard --no-guard --cleanup --no-cleanup --id= --file= | --no-guard:guard-change
run resume | run | agentos | agentos-change | |
run cancel | run | agentos | agentos-change | |
run accept | person | agentos-change | agentos-change | --into= --squash --cleanup --no-cleanup |
run cleanup | repository | agentos-change | agentos-change | --all --older-than= --dry-run | --dry-run:!agentos
run list | repository | look | look | |
run show | repository | look | look | |
run logs | repository | look | look | --step= |
run diff | repository | look | look | --stat |
run verify | repository | look | look | |
fleet submit | repository | agentos-change | agentos-change | --engine= --remote= --name= --max-parallel= --retries= --address= --command= --pass-env= --yes-data-policy --detach --dry-run | --dry-run:!agentos
fleet status | repository | agentos | agentos | --follow --remote= --no-fetch |
fleet list | repository | agentos | agentos | --remote= --no-fetch |
fleet logs | repository | agentos | agentos | --step= --remote= |
fleet collect | repository | agentos-change | agentos-change | --remote= |
fleet accept | person | agentos-change | agentos-change | --into= --all-or-nothing --dry-run --remote= | --dry-run:!agentos
fleet end | repository | agentos-change | agentos-change | --remote= |
fleet cancel | repository | agentos-change | agentos-change | --remote= |
fleet worker | repository | agentos | agentos | --remote= --from-start |
rollback | run | agentos | agentos-change | --to= --dry-run | --dry-run:!agentos
tdd run | repository | agentos | agentos | --issue= --lld= --context= --agent= --into= --test-timeout= --sandbox --yes-data-policy |
tdd resume | repository | agentos | agentos | --retry | --retry:agentos-change
tdd approve | person | approvals | approvals | |
tdd abort | repository | agentos-change | agentos-change | |
tdd status | repository | look | look | |
tdd show | repository | look | look | --html= |
tdd list | repository | look | look | --all |
tdd graph | repository | look | look | |
tdd gate red | here | look | look | --test-timeout= --sandbox |
tdd gate green | here | look | look | --test-timeout= --sandbox |
log add | here | agentos | agentos | --detail= --json-details= --file= --commit= --task= --checkpoint= |
log list | repository | agentos | agentos | --agent= --all -n= --max-count= --since= --type= --follow |
log search | repository | agentos | agentos | --agent= --all -n= --max-count= --since= --type= |
log export | repository | agentos | agentos | --agent= --all --since= --type= |
log rebuild | here | agentos | agentos-change | |
log timeline | repository | agentos | agentos | -n= --max-count= |
log review | repository | agentos | agentos | --html= |
turns | repository | agentos | agentos | --all -n= --max-count= |
why | repository | agentos | agentos | |
revert | here | agentos | agentos-change | --conflict= --dry-run | --dry-run:!agentos
memory artifact | here | agentos | agentos | --type= --path= --description= |
memory merge | here | agentos | agentos | --target= --source= --commit= |
memory list | repository | agentos | agentos | --agent= --all |
guard check | repository | look | look | --shell= |
guard enable | worktree | agentos | agentos | |
guard disable | worktree | guard-change | guard-change | |
guard status | repository | look | look | |
guard confirm | person | guard-change | guard-change | --list | --list:!look
guard exec | here | agentos | agentos | --wait --sandbox |
guard harness | here | look | look | --plugin |
guard integrate | repository | guard-change | guard-change | --print --user --remove | --print:!look
approvals list | repository | look | look | --all |
approvals show | repository | look | look | |
approvals grant | person | approvals | approvals | |
approvals deny | person | approvals | approvals | -m= --message= |
init | repository | guard-change | guard-change | --harness= --no-harness --no-watch --yes --remove --dry-run | --dry-run:!look
hooks install | repository | guard-change | guard-change | --save |
hooks uninstall | repository | guard-change | guard-change | |
hooks status | repository | look | look | |
hook | here | agentos | agentos | |
storage | repository | look | look | --agent= --all |
storage upkeep | repository | agentos | agentos | |
report | repository | agentos | agentos | --html= --since= --agent= |
watch start | repository | agentos | agentos | --foreground --print-unit | --print-unit:!look
watch stop | repository | agentos | agentos | |
watch status | repository | look | look | |
sync | repository | push | push | --push --fetch --agent= --all --last= --allow= --dry-run | --allow:!approvals --dry-run:!agentos --fetch:!agentos
sync status | repository | agentos | agentos | |
ui | here | look | look | --web --port= --allow-approvals | --allow-approvals:@approvals
mcp | here | look | look | |
db path | here | look | look | |
status | repository | look | look | |
doctor | repository | look | look | --fix | --fix:!agentos-change
completion | repository | look | look | |
"""


class Command(NamedTuple):
    """One row. `valued` and `flags` are its own options; `variants` are the operations that some of them make of it,
    and `alone` those of them that count for any target; `personal` are the options with which it is a person's
    decision."""

    path: tuple[str, ...]
    target: str
    own: str
    other: str
    valued: frozenset[str]
    flags: frozenset[str]
    variants: Mapping[str, str]
    alone: frozenset[str]
    personal: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return " ".join(self.path)

    def is_decision(self, options: Iterable[str]) -> bool:
        """Whether it is a person's decision with these options."""
        given = frozenset(options)
        return bool(given & self.personal) or (self.target == PERSON and not given & self.alone)


class Request(NamedTuple):
    """One call of a command: the words of its name, its operands, the options that are given (`--push`, `-m`), the
    folders of `-C`, and the `files` that it writes (`--html`)."""

    path: tuple[str, ...]
    operands: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class Line(NamedTuple):
    """A command line that was read. `options` are all in their order, with the values of those that take one.
    `asks_help`: it asks for help or the version. `has_dashes`: it has a `--`. `is_valid`: every option is known and has
    its value, and none but the common ones is before the end of the name; otherwise the parser may refuse it."""

    request: Request
    options: tuple[tuple[str, str | None], ...]
    asks_help: bool
    has_dashes: bool
    is_valid: bool


_NO_COMMAND = Command((), "", "", "", frozenset(), frozenset(), {}, frozenset())


@cache
def table() -> Mapping[tuple[str, ...], Command]:
    """All rows, by the words of the command."""
    found = {}
    for line in COMMANDS.strip().splitlines():
        name, target, own, other, options, changes = (part.strip() for part in f"{line}|".split("|")[:6])
        names = options.split()
        pairs = dict(each.split(":") for each in changes.split())
        found[tuple(name.split())] = Command(
            tuple(name.split()),
            target,
            own,
            other,
            frozenset(each.removesuffix("=") for each in names if each.endswith("=")),
            frozenset(each for each in names if not each.endswith("=")),
            {option: operation.lstrip("!@") for option, operation in pairs.items()},
            frozenset(option for option, operation in pairs.items() if operation.startswith(("!", "@"))),
            frozenset(option for option, operation in pairs.items() if operation.startswith("@")),
        )
    return found


@cache
def groups() -> frozenset[tuple[str, ...]]:
    """The first words of commands that have subcommands."""
    return frozenset(path[:length] for path in table() for length in range(len(path)))


def operations(command: Command, options: Iterable[str], *, own: bool) -> list[str]:
    """The operations that a command is with these options; `own`: its target is the caller's own."""
    given = [each for each in sorted(options) if each in command.variants]
    alone = [command.variants[each] for each in given if each in command.alone]
    if alone:
        return alone[:1]
    names = [command.variants[each] for each in given]
    if not names:
        return [command.own if own else command.other]
    return names if own or command.other in ("agentos", "look") else [*names, command.other]


def parse(words: Sequence[str]) -> Request | None:
    """A command line (without the program's name) as the commands' own parser reads it; None if it only asks for help
    or the version."""
    line = read(words)
    return None if line.asks_help else line.request


def read(words: Sequence[str]) -> Line:
    """Read a command line. Words behind the name that are not options are operands."""
    path: tuple[str, ...] = ()
    operands: list[str] = []
    options: list[tuple[str, str | None]] = []
    is_valid, has_dashes = True, False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        command = table().get(path, _NO_COMMAND)
        if word == "--":
            operands += rest
            has_dashes = True
            break
        if not word.startswith("-") or word == "-":
            if not operands and ((*path, word) in table() or (*path, word) in groups()):
                path = (*path, word)
                is_valid = is_valid and all(name in _COMMON for name, _ in options)
                continue
            operands.append(word)
            if path == ("guard", "exec"):  # its options end at the command that it runs
                operands += rest
                break
            continue
        valued = COMMON_VALUED | command.valued
        name, value, joined = _option(word, valued)
        if joined is not None:
            rest.insert(0, joined)
        if name in valued:
            is_valid = is_valid and (value is not None or bool(rest))
            if value is None:
                value = rest.pop(0) if rest else ""
        else:
            is_valid = is_valid and value is None and (name in COMMON_FLAGS or name in command.flags)
            if value is not None and name in COMMON_FLAGS:
                continue  # `--json=1`: the parser refuses it
        options.append((name, value))
    given = dict(options)
    folders = tuple(value or "" for name, value in options if name == "-C")
    files = (given[WRITES] or "",) if WRITES in given else ()
    request = Request(path, tuple(operands), frozenset(given), folders, files)
    return Line(request, tuple(options), not _ANSWERS.isdisjoint(given), has_dashes, is_valid)


def _option(word: str, valued: frozenset[str]) -> tuple[str, str | None, str | None]:
    """An option's name, the value that is joined to it, and the rest of several options in one word (`-qm`)."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None, None
    name, tail = word[:2], word[2:]
    if not tail:
        return name, None, None
    return (name, tail, None) if name in valued else (name, None, f"-{tail}")
