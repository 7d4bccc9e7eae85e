"""The completion scripts for bash, zsh and fish: those in `completions/`, filled in from `command_tree`, so that they
match the parser.

All three work alike: follow the words to the subcommand at hand, then offer what `command_tree` says about it. The
tool and git list ids when TAB is pressed; everything else is in the script. Why no library writes them:
`docs/decisions/015-own-completion-scripts.md`.
"""

import os
from collections.abc import Callable, Iterator

from git_agentos.cli import command_tree

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The completion script for `shell`."""
    makers: dict[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return makers[shell]()


def value_type(option: command_tree.Option) -> str:
    """The type of an option's value: `trigger`, `agent`, `path`, or `text` if it cannot be completed."""
    if "--trigger" in option.names:
        return "trigger"
    if option.names[0] in ("--agent", "--as", "--source") and option.metavar not in ("COMMAND", "MODEL"):
        return "agent"
    if option.metavar == "HOST":
        return "host"
    return "path" if option.metavar == "PATH" else "text"


def argument_types(command_: command_tree.Command) -> list[str]:
    """The types of a command's arguments.

    An `ID` is a checkpoint; below `worktree` and `guard` a worktree (and a new one after `create`), below `tdd` a
    workflow.
    """
    arguments = command_.arguments
    if command_.path[:1] in (("worktree",), ("guard",)) and any(each.metavar == "ID" for each in arguments):
        return ["worktree"] if arguments and command_.path[-1] != "create" else []
    if command_.path[:1] == ("tdd",):
        return ["workflow"] if any(each.metavar == "ID" for each in arguments) else []
    known = {"ID": "id", "ID2": "id", "ID:PATH": "id", "PATH": "path", "COMMIT": "commit", "SHELL": "shell"}
    known |= {"SOURCE": "worktree", "AGENT": "agent", "RUN": "run", "REMOTE": "remote"}
    return list(dict.fromkeys(known[each.metavar] for each in arguments if each.metavar in known))


def _commands() -> Iterator[command_tree.Command]:
    return command_tree.root().walk()


def _visible(command_: command_tree.Command) -> list[command_tree.Command]:
    return [each for each in command_.subcommands if not each.hidden]


def _valued(command_: command_tree.Command) -> list[command_tree.Option]:
    return [each for each in command_.options if each.metavar is not None]


def _triggers() -> str:
    from git_agentos.checkpoint.format import TRIGGERS

    return " ".join(TRIGGERS)


_OWN = ("checkpoint", "restore", "rollback", "tdd", "worktree")  # those with an executable of their own
_PROGRAMS = " ".join(("git-agentos", *(f"git-agentos-{name}" for name in _OWN)))
_IDS = "git-agentos checkpoint list -q -n 50 2>/dev/null; echo latest"
# The commands that list the values of a type, one per line.
_SOURCES = {
    "worktree": "git-agentos worktree list -q 2>/dev/null",
    "run": "git-agentos run list -q 2>/dev/null",
    "workflow": "git-agentos tdd list -q 2>/dev/null",
    "agent": "git for-each-ref --format='%(refname:lstrip=3)' refs/agentos/timelines/ 2>/dev/null",
    "commit": "git for-each-ref --format='%(refname:short)' refs/heads refs/remotes refs/tags 2>/dev/null",
    "remote": "git remote 2>/dev/null",
    "host": "git for-each-ref --format='%(refname:rstrip=2)' refs/agentos/remotes/ 2>/dev/null"
    " | sed 's|.*/||' | sort -u",
}
_SHELL_NAMES = " ".join(SHELLS)

# One executable of its own, for git's completion: `git agentos-checkpoint`.
_BASH_EXECUTABLE = """_git_agentos_@NAME@ ()
{
	local __git_agentos_path=@NAME@ __git_agentos_kind
	__git_agentos_walk 2
	__gitcomp_nl "$(__git_agentos_offer)"
}
"""


def _walk(path_variable: str, kind_variable: str) -> list[str]:
    """The cases of bash and zsh that follow the words of a command line."""
    cases = []
    for each in _commands():
        path = " ".join(each.path)
        cases += [
            f"\t\t'{path},{below.path[-1]}') {path_variable}='{' '.join(below.path)}' ;;" for below in each.subcommands
        ]
        for option in _valued(each):
            patterns = "|".join(f"'{path},{name}'" for name in option.names)
            cases.append(f"\t\t{patterns}) {kind_variable}={value_type(option)} ;;")
    return cases


def _bash() -> str:
    sources = {"id": _IDS, **_SOURCES, "shell": f"printf '%s\\n' {_SHELL_NAMES}"}
    options, words = [], []
    for each in _commands():
        path = " ".join(each.path)
        names = " ".join(name for option in each.options for name in option.names)
        options.append(f"\t\t'{path}') printf '%s\\n' {names} ;;")
        offers = [f"printf '%s\\n' {' '.join(below.path[-1] for below in _visible(each))}"] if _visible(each) else []
        for kind in argument_types(each):
            source = sources.get(kind)
            offers += [source] if source is not None else []
        if offers:
            words.append(f"\t'{path}') {'; '.join(offers)} ;;")
    executables = [_BASH_EXECUTABLE.replace("@NAME@", name) for name in _OWN]
    walk = _walk("__git_agentos_path", "__git_agentos_kind")
    return _fill("bash", WALK=walk, OPTIONS=options, WORDS=words, EXECUTABLES=executables)


# A function that offers the values of one type.
_ZSH_VALUES = """__git_agentos_@TYPE@ ()
{
	local -a values
	values=(${(f)"$(@SOURCE@)"})
	compadd -a values
}
"""


def _zsh() -> str:
    sources = {
        "id": "__git_agentos_ids",
        **{name: f"__git_agentos_{name}" for name in _SOURCES},
        "path": "_files",
        "shell": f"compadd {_SHELL_NAMES}",
    }
    values = [_ZSH_VALUES.replace("@TYPE@", name).replace("@SOURCE@", source) for name, source in _SOURCES.items()]
    options, words = [], []
    for each in _commands():
        path = " ".join(each.path)
        entries = " ".join(_described(name, option.summary) for option in each.options for name in option.names)
        options.append(f"\t\t'{path}') offered=({entries}) ;;")
        offers = []
        if _visible(each):
            entries = " ".join(_described(below.path[-1], below.summary) for below in _visible(each))
            offers.append(f"offered=({entries}); _describe -t commands command offered")
        offers += [sources[kind] for kind in argument_types(each)]
        if offers:
            words.append(f"\t'{path}') {'; '.join(offers)} ;;")
    return _fill("zsh", WALK=_walk("at", "kind"), OPTIONS=options, WORDS=words, VALUES=values)


def _described(name: str, text: str) -> str:
    """One entry of zsh's `_describe`, quoted."""
    return _quoted(f"{name}:{text}")


def _fish() -> str:
    walk: list[str] = []
    lines: list[str] = []
    for each in _commands():
        path = " ".join(each.path)
        at = " ".join
        walk += [
            f"            case '{path},{b.path[-1]}'\n                set at '{at(b.path)}'" for b in each.subcommands
        ]
        for option in _valued(each):
            cases = " ".join(f"'{path},{name}'" for name in option.names)
            walk.append(f"            case {cases}\n                set skip 1")
        lines += _fish_lines("git-agentos", each)
        if each.path[:1] and each.path[0] in _OWN:
            lines += _fish_lines(f"git-agentos-{each.path[0]}", each)
    values = [f"function __git_agentos_{name}\n    {source}\nend\n" for name, source in _SOURCES.items()]
    return _fill("fish", WALK=walk, WORDS=lines, VALUES=values)


def _fish_lines(program: str, at: command_tree.Command) -> list[str]:
    """What `program` offers at one subcommand."""
    head = f"complete -c {program} -n '__git_agentos_at \"{' '.join(at.path)}\"'"
    kinds = argument_types(at)
    files = "" if "path" in kinds else " -f"
    sources = {
        "id": "(__git_agentos_ids)",
        **{name: f"(__git_agentos_{name})" for name in _SOURCES},
        "shell": _SHELL_NAMES,
    }
    lines = [f"{head}{files}"]
    lines += [f"{head} -f -a {below.path[-1]} -d {_quoted(below.summary)}" for below in _visible(at)]
    lines += [f"{head}{files} -k -a '{sources[kind]}'" for kind in kinds if kind in sources]
    value = {
        "trigger": " -x -a '@TRIGGERS@'",
        "agent": " -x -a '(__git_agentos_agent)'",
        "host": " -x -a '(__git_agentos_host)'",
        "path": " -r -F",
        "text": " -x",
    }
    for option in at.options:
        flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        takes = value[value_type(option)] if option.metavar is not None else ""
        lines.append(f"{head} {flags}{takes} -d {_quoted(option.summary)}")
    return lines


def _quoted(text: str) -> str:
    """In single quotes, for zsh and fish; both take a doubly closed quote for one inside."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _fill(shell: str, **parts: list[str]) -> str:
    """The script of `completions/` for a shell, with `@NAME@` replaced by the lines of each part."""
    with open(os.path.join(os.path.dirname(__file__), "completions", f"git-agentos.{shell}"), encoding="utf-8") as file:
        template = file.read()
    for name, lines in parts.items():
        template = template.replace(f"@{name}@", "\n".join(lines))
    for name, text in (
        ("PROGRAMS", _PROGRAMS),
        ("AGENT_SOURCE", _SOURCES["agent"]),
        ("HOST_SOURCE", _SOURCES["host"]),
        ("TRIGGERS", _triggers()),
    ):
        template = template.replace(f"@{name}@", text)
    return template
