"""`git agentos completion`: the completion scripts, written from the parser's own tree so that they cannot drift.

All three work alike: walk the words to the subcommand at hand, then offer what `tree` says about it.
Checkpoint ids are asked of the tool itself while the user waits; everything else is in the script.
"""

from collections.abc import Callable, Iterator

from git_agentos.cli import command_tree

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The completion script for `shell`."""
    makers: dict[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return makers[shell]()


def kind_of(option: command_tree.Option) -> str:
    """What an option's value is: `trigger`, `agent`, `path`, or `text` for what nobody can guess."""
    if "--trigger" in option.names:
        return "trigger"
    if option.names[0] in ("--agent", "--as", "--source") and option.metavar not in ("COMMAND", "MODEL"):
        return "agent"
    return "path" if option.metavar == "PATH" else "text"


def kinds_of(command_: command_tree.Command) -> list[str]:
    """What a command's arguments are: an `ID` is a checkpoint's, but below `worktree`, where it is a worktree's, and a
    new one after `create`, and below `tdd`, where it is a workflow's."""
    arguments = command_.arguments
    if command_.path[:1] in (("worktree",), ("guard",)) and any(each.metavar == "ID" for each in arguments):
        return ["worktree"] if arguments and command_.path[-1] != "create" else []
    if command_.path[:1] == ("tdd",):
        return ["workflow"] if any(each.metavar == "ID" for each in arguments) else []
    known = {"ID": "id", "ID2": "id", "ID:PATH": "id", "PATH": "path", "COMMIT": "commit", "SHELL": "shell"}
    known |= {"SOURCE": "worktree", "AGENT": "agent", "RUN": "run"}
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
_WORKTREES = "git-agentos worktree list -q 2>/dev/null"
_RUNS = "git-agentos run list -q 2>/dev/null"
_WORKFLOWS = "git-agentos tdd list -q 2>/dev/null"
_AGENTS = "git for-each-ref --format='%(refname:lstrip=3)' refs/agentos/timelines/ 2>/dev/null"
_COMMITS = "git for-each-ref --format='%(refname:short)' refs/heads refs/remotes refs/tags 2>/dev/null"

_BASH = r"""# bash completion for git-agentos; made by 'git agentos completion bash'

# Set __git_agentos_path to the subcommand that the words from index $1 up to the cursor name, and
# __git_agentos_kind to what the word at the cursor is: a 'word' of the command, or an option's value.
__git_agentos_walk ()
{
	local i word
	__git_agentos_kind=word
	for ((i = $1; i < cword; i++)); do
		word="${words[i]}"
		if [ "$__git_agentos_kind" != word ]; then
			__git_agentos_kind=word
			continue
		fi
		case "$word" in
		--) __git_agentos_kind=path; return ;;
		esac
		case "$__git_agentos_path,$word" in
@WALK@
		esac
	done
}

# Print, a line each, what may stand at the cursor; nothing where it is a path.
__git_agentos_offer ()
{
	case "$__git_agentos_kind" in
	trigger) printf '%s\n' @TRIGGERS@; return ;;
	agent) @AGENTS@; return ;;
	path|text) return ;;
	esac
	case "$cur" in
	-*)
		case "$__git_agentos_path" in
@OPTIONS@
		esac
		return ;;
	esac
	case "$__git_agentos_path" in
@WORDS@
	esac
}

# git's own completion calls this for 'git agentos'; it has set cur, words and cword.
_git_agentos ()
{
	local i __git_agentos_path='' __git_agentos_kind
	for ((i = 1; i < cword; i++)); do
		[ "${words[i]}" = agentos ] && break
	done
	__git_agentos_walk $((i + 1))
	__gitcomp_nl "$(__git_agentos_offer)"
}

# And for 'git agentos-checkpoint' and the other executables.
_git_agentos_checkpoint ()
{
	local __git_agentos_path=checkpoint __git_agentos_kind
	__git_agentos_walk 2
	__gitcomp_nl "$(__git_agentos_offer)"
}

_git_agentos_restore ()
{
	local __git_agentos_path=restore __git_agentos_kind
	__git_agentos_walk 2
	__gitcomp_nl "$(__git_agentos_offer)"
}

_git_agentos_rollback ()
{
	local __git_agentos_path=rollback __git_agentos_kind
	__git_agentos_walk 2
	__gitcomp_nl "$(__git_agentos_offer)"
}

_git_agentos_tdd ()
{
	local __git_agentos_path=tdd __git_agentos_kind
	__git_agentos_walk 2
	__gitcomp_nl "$(__git_agentos_offer)"
}

_git_agentos_worktree ()
{
	local __git_agentos_path=worktree __git_agentos_kind
	__git_agentos_walk 2
	__gitcomp_nl "$(__git_agentos_offer)"
}

__git_agentos_main ()
{
	local cur words cword __git_agentos_path='' __git_agentos_kind
	if declare -F _get_comp_words_by_ref >/dev/null; then
		_get_comp_words_by_ref -n '=:' cur words cword
	else
		words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur="${COMP_WORDS[COMP_CWORD]}"
	fi
	case "${1##*/}" in
	git-agentos-*) __git_agentos_path="${1##*/git-agentos-}" __git_agentos_path="${__git_agentos_path#git-agentos-}" ;;
	esac
	__git_agentos_walk 1
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$(__git_agentos_offer)" -- "$cur"))
}

complete -o bashdefault -o default -F __git_agentos_main \
	@PROGRAMS@
"""


def _bash() -> str:
    walk, options, words = [], [], []
    for each in _commands():
        path = " ".join(each.path)
        for below in each.subcommands:
            inner = " ".join(below.path)
            walk.append(f"\t\t'{path},{below.path[-1]}') __git_agentos_path='{inner}' ;;")
        for option in _valued(each):
            cases = "|".join(f"'{path},{name}'" for name in option.names)
            walk.append(f"\t\t{cases}) __git_agentos_kind={kind_of(option)} ;;")
        names = " ".join(name for option in each.options for name in option.names)
        options.append(f"\t\t'{path}') printf '%s\\n' {names} ;;")
        offers = [f"printf '%s\\n' {' '.join(below.path[-1] for below in _visible(each))}"] if _visible(each) else []
        for kind in kinds_of(each):
            offers += {
                "id": [_IDS],
                "worktree": [_WORKTREES],
                "run": [_RUNS],
                "workflow": [_WORKFLOWS],
                "agent": [_AGENTS],
                "commit": [_COMMITS],
                "shell": ["printf '%s\\n' bash zsh fish"],
            }.get(kind, [])
        if offers:
            words.append(f"\t'{path}') {'; '.join(offers)} ;;")
    return _fill(_BASH, WALK=walk, OPTIONS=options, WORDS=words)


_ZSH = r"""#compdef @PROGRAMS@
# zsh completion for git-agentos; made by 'git agentos completion zsh'
#
# The name of this function makes 'git agentos' work with zsh's own completion of git, too.

__git_agentos_ids ()
{
	local -a ids
	ids=(${(f)"$(git-agentos checkpoint list -n 50 2>/dev/null | sed -n 's/^\([0-9a-f]\{8\}\)  */\1:/p')"})
	ids+=('latest:the newest checkpoint')
	_describe -V -t checkpoints checkpoint ids
}

__git_agentos_commits ()
{
	local -a commits
	commits=(${(f)"$(@COMMITS@)"})
	compadd -a commits
}

__git_agentos_worktrees ()
{
	local -a worktrees
	worktrees=(${(f)"$(@WORKTREES@)"})
	compadd -a worktrees
}

__git_agentos_runs ()
{
	local -a runs
	runs=(${(f)"$(@RUNS@)"})
	compadd -a runs
}

__git_agentos_workflows ()
{
	local -a workflows
	workflows=(${(f)"$(@WORKFLOWS@)"})
	compadd -a workflows
}

__git_agentos_agents ()
{
	local -a agents
	agents=(${(f)"$(@AGENTS@)"})
	compadd -a agents
}

_git-agentos ()
{
	local at='' kind=word word
	local -i i
	case $service in
	git-agentos-*) at=${service#git-agentos-} ;;
	esac
	for ((i = 2; i < CURRENT; i++)); do
		word=$words[i]
		if [[ $kind != word ]]; then
			kind=word
			continue
		fi
		if [[ $word == -- ]]; then
			kind=path
			break
		fi
		case "$at,$word" in
@WALK@
		esac
	done
	local -a offered
	case $kind in
	trigger) offered=(@TRIGGERS@); _describe -t triggers trigger offered; return ;;
	agent) __git_agentos_agents; return ;;
	path) _files; return ;;
	text) _message value; return ;;
	esac
	if [[ $PREFIX == -* ]]; then
		case $at in
@OPTIONS@
		esac
		_describe -o -t options option offered
		return
	fi
	case $at in
@WORDS@
	esac
}

_git-agentos "$@"
"""


def _zsh() -> str:
    sources = {
        "id": "__git_agentos_ids",
        "worktree": "__git_agentos_worktrees",
        "run": "__git_agentos_runs",
        "workflow": "__git_agentos_workflows",
        "agent": "__git_agentos_agents",
        "commit": "__git_agentos_commits",
        "path": "_files",
        "shell": "compadd bash zsh fish",
    }
    walk, options, words = [], [], []
    for each in _commands():
        path = " ".join(each.path)
        walk += [f"\t\t'{path},{below.path[-1]}') at='{' '.join(below.path)}' ;;" for below in each.subcommands]
        for option in _valued(each):
            cases = "|".join(f"'{path},{name}'" for name in option.names)
            walk.append(f"\t\t{cases}) kind={kind_of(option)} ;;")
        entries = " ".join(_described(name, option.summary) for option in each.options for name in option.names)
        options.append(f"\t\t'{path}') offered=({entries}) ;;")
        offers = []
        if _visible(each):
            entries = " ".join(_described(below.path[-1], below.summary) for below in _visible(each))
            offers.append(f"offered=({entries}); _describe -t commands command offered")
        offers += [sources[kind] for kind in kinds_of(each)]
        if offers:
            words.append(f"\t'{path}') {'; '.join(offers)} ;;")
    return _fill(_ZSH, WALK=walk, OPTIONS=options, WORDS=words)


def _described(name: str, text: str) -> str:
    """One entry of zsh's `_describe`, quoted."""
    return _quoted(f"{name}:{text}")


_FISH = r"""# fish completion for git-agentos; made by 'git agentos completion fish'

function __git_agentos_at --description 'Is the cursor at this subcommand of git-agentos?'
    set -l words (commandline -opc)
    set -l at (string replace -rf '^(.*/)?git-agentos-([a-z]+)$' '$2' -- $words[1])
    set -l skip 0
    set -e words[1]
    for word in $words
        if test $skip = 1
            set skip 0
            continue
        end
        switch "$at,$word"
@WALK@
        end
    end
    test "$at" = "$argv[1]"
end

function __git_agentos_ids
    git-agentos checkpoint list -n 50 2>/dev/null | string replace -rf '^([0-9a-f]{8})  *(.*)$' '$1\t$2'
    printf 'latest\tthe newest checkpoint\n'
end

function __git_agentos_commits
    @COMMITS@
end

function __git_agentos_worktrees
    @WORKTREES@
end

function __git_agentos_runs
    @RUNS@
end

function __git_agentos_workflows
    @WORKFLOWS@
end

function __git_agentos_agents
    @AGENTS@
end

@WORDS@

# fish's own completion of git would ask for these, but (in 3.6) under a name that it then does not match.
function __git_agentos_in_git
    set -l words (commandline -opc)
    set -l at (contains -i -- agentos $words)
    set -e words[1..$at]
    complete -C (string join ' ' -- git-agentos $words (commandline -ct | string collect -a))
end

complete -c git -f -n 'contains -- agentos (commandline -opc)' -a '(__git_agentos_in_git)'
"""


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
    return _fill(_FISH, WALK=walk, WORDS=lines)


def _fish_lines(program: str, at: command_tree.Command) -> list[str]:
    """What `program` offers at one subcommand."""
    head = f"complete -c {program} -n '__git_agentos_at \"{' '.join(at.path)}\"'"
    kinds = kinds_of(at)
    files = "" if "path" in kinds else " -f"
    sources = {
        "id": "(__git_agentos_ids)",
        "worktree": "(__git_agentos_worktrees)",
        "run": "(__git_agentos_runs)",
        "workflow": "(__git_agentos_workflows)",
        "agent": "(__git_agentos_agents)",
        "commit": "(__git_agentos_commits)",
        "shell": "bash zsh fish",
    }
    lines = [f"{head}{files}"]
    lines += [f"{head} -f -a {below.path[-1]} -d {_quoted(below.summary)}" for below in _visible(at)]
    lines += [f"{head}{files} -k -a '{sources[kind]}'" for kind in kinds if kind in sources]
    value = {
        "trigger": " -x -a '@TRIGGERS@'",
        "agent": " -x -a '(__git_agentos_agents)'",
        "path": " -r -F",
        "text": " -x",
    }
    for option in at.options:
        flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        takes = value[kind_of(option)] if option.metavar is not None else ""
        lines.append(f"{head} {flags}{takes} -d {_quoted(option.summary)}")
    return lines


def _quoted(text: str) -> str:
    """In single quotes, for zsh and fish; both take a doubly closed quote for one inside."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _fill(template: str, **parts: list[str]) -> str:
    for name, lines in parts.items():
        template = template.replace(f"@{name}@", "\n".join(lines))
    for name, text in (
        ("PROGRAMS", _PROGRAMS),
        ("WORKTREES", _WORKTREES),
        ("RUNS", _RUNS),
        ("WORKFLOWS", _WORKFLOWS),
        ("AGENTS", _AGENTS),
        ("COMMITS", _COMMITS),
        ("TRIGGERS", _triggers()),
    ):
        template = template.replace(f"@{name}@", text)
    return template
