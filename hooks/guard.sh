# git-agentos: functions of its git hooks, which source this file. Placed by `git agentos guard enable` or `hooks install`.
# shellcheck shell=sh
#
# Programs are taken from the system's own folders (`command -p`), not from wherever an agent's PATH leads.
#
# POSIX sh and its builtins: most calls are allowed here, before any other program is started. What is not plainly
# harmless goes to Python (`agentos`), which decides, saves and records.
#
# After `begin`: $guard is our folder, $git_pid the git that called, $git_dir its git directory; $agent is set where the
# caller is known to be an agent (Python checks further). After `load`: $user_hooks is what core.hooksPath would be
# without us, $user_fsmonitor and $user_fsmonitor_version the same of core.fsmonitor (none, auto, 1, 2); $strict is `all`
# or `some` where a policy stops read-only commands, or others that are allowed by default; $record is set where commits
# are recorded.
# shellcheck disable=SC2034 # some are for the scripts that source this

hooks=${0%/*}
guard=${hooks%/hooks}
nl='
'

# The process that called: its pid, parent, start time and name, from /proc; without /proc only the parent is known.
begin() {
	git_pid=$PPID
	look "$git_pid"
	case $comm in
	git* | '') ;;
	*)
		# A path with a blank in it is started through a shell, which may stay in between: it is this shell's program,
		# not a git under another name.
		# shellcheck disable=SC3013 # every known sh has it; where it is missing, the answer is no
		if [ "$parent" != 0 ] && [ "/proc/$git_pid/exe" -ef "/proc/$$/exe" ]; then
			git_pid=$parent && look "$git_pid"
		fi
		;;
	esac
	git_dir=${GIT_DIR-}
	if [ -z "$git_dir" ]; then
		if [ -f .git ]; then
			read -r _ git_dir <.git
		elif [ -d .git ]; then
			git_dir=.git
		else
			git_dir=.
		fi
	fi
	agent=
	if [ -n "${AGENTOS_AGENT_ID-}" ] || [ -e "$git_dir/agentos/id" ]; then agent=1; fi
}

# PID: sets $comm, $parent and $start of that process.
look() {
	comm='' parent=0 start=''
	# The name is in parentheses and may contain any character: it ends at the last one.
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
	comm=${stat#*"("}
	comm=${comm%")"*}
	stat=${stat##*") "}
	set -f
	# shellcheck disable=SC2086 # split on purpose
	set -- $stat
	set +f
	parent=$2
	shift 9
	shift 9
	start=$2
}

# Load what Python noted about the configuration; let Python read it again if a file of it is newer.
load() {
	case $git_dir in
	*/worktrees/*) cache=$guard/chain/${git_dir##*/} ;;
	*) cache=$guard/chain/main ;;
	esac
	if [ -f "$cache" ]; then
		# shellcheck disable=SC1090 # written by git_agentos.hooks.user_hooks_cache; its last command tells whether it is up to date
		. "$cache" && return 0
	fi
	# Two files of the same second, a fraction apart: not every shell sees which is newer.
	precise=
	# shellcheck disable=SC3013 # every known sh has it; where it is missing, the answer is no
	[ "$guard/chain/.later" -nt "$guard/chain/.sooner" ] && precise=1
	if text=$(agentos refresh "$git_pid" "$cache" "$precise") && [ -n "$text" ]; then
		# The text is current, whatever its last command returns.
		eval "$text" || :
		return 0
	fi
	# Without our program: the last value that is not ours, as git would read it.
	user_fsmonitor='' user_fsmonitor_version=none strict=some record=1
	user_hooks=$guard
	user_hooks=${user_hooks%/agentos/guard}/hooks
	while IFS= read -r path; do
		[ -z "$path" ] || [ "$path" = "$hooks" ] || user_hooks=$path
	done <<EOF
$(git config --type=path --get-all core.hooksPath 2>/dev/null)
EOF
}

# NAME GIT_PID ARGS…: run our program. 0: continue; 3: stop; any other: it could not decide. With $background it keeps
# running in a session of its own, with no file open that another process could wait for.
agentos() {
	if [ -x @PYTHON@ ] && [ -n "${background-}" ]; then
		# A command that removes the worktree looks for processes in it.
		AGENTOS_RECORD_IN=$PWD
		export AGENTOS_RECORD_IN
		if command -pv setsid >/dev/null 2>&1; then
			(cd "$guard" && command -p setsid @PYTHON@ @RUN@ "$@") </dev/null >/dev/null 2>&1 &
		else
			(cd "$guard" && exec @PYTHON@ @RUN@ "$@") </dev/null >/dev/null 2>&1 &
		fi
		unset AGENTOS_RECORD_IN
	elif [ -x @PYTHON@ ]; then
		@PYTHON@ @RUN@ "$@"
	elif command -v git-agentos >/dev/null 2>&1; then
		git-agentos hook "$@"
	else
		return 127
	fi
}

# NAME ARGS…: let our program decide. Fails where the command must stop. If the program fails, an agent's command stops
# and a person's continues.
decide() {
	name=$1
	shift
	print_deferred
	agentos "$name" "$git_pid" "$@"
	code=$?
	case $code in
	0) return 0 ;;
	3) return 1 ;;
	esac
	if [ -z "$agent" ]; then
		warn_once "$name: its program failed (exit code $code), the command continues without it"
		return 0
	fi
	echo "git-agentos: stopped: the guard cannot decide about this command (exit code $code of its program)" >&2
	echo "git-agentos: ask the owner of this repository to run: git agentos doctor" >&2
	return 1
}

# NAME ARGS…: let our program record something; the command continues in any case. It does not wait for post-… hooks:
# these are noted, for readers of the timeline to record first. In a run it waits: a run leaves no process.
recorded() {
	name=$1
	shift
	print_deferred
	background=
	case $name in
	post-*) if note "$name" && [ -z "${AGENTOS_RUN_MARK-}" ]; then background=1; fi ;;
	esac
	agentos "$name" "$git_pid" "$@"
	code=$?
	background=
	[ $code = 0 ] || warn_once "$name: nothing was recorded, its program failed (exit code $code)"
}

# NAME: note the command that called this hook (git_agentos/hooks/notes.py).
note() {
	folder=$git_dir/agentos/recording
	[ -d "$folder" ] || (umask 077 && command -p mkdir -p "$folder") || return 1
	text=${AGENTOS_AGENT_ID:-${AGENTOS_GUARD-}} each=$git_pid
	while :; do
		arguments_of "$each"
		text=$text$nl$words$nl$(printf '\002')
		look "$each"
		each=$parent
		look "$each"
		case $comm in git | git-*) ;; *) break ;; esac
	done
	look "$git_pid"
	{ printf '%s\n' "$text" >"$folder/$git_pid.$start.$1"; } 2>/dev/null
}

# Print the warnings of programs that ran in the background.
print_deferred() {
	[ -f "$guard/unsaid" ] || return 0
	while IFS= read -r line; do
		echo "git-agentos: warning: $line (see: git agentos doctor; said once)" >&2
	done <"$guard/unsaid"
	command -p rm -f "$guard/unsaid"
}

# TEXT: print a warning once, until `git agentos doctor` runs or our program succeeds.
warn_once() {
	[ -e "$guard/warned" ] && return 0
	echo "git-agentos: warning: $1 (see: git agentos doctor; said once)" >&2
	{ echo "$1" >"$guard/warned"; } 2>/dev/null || :
}

# NAME ARGS…: exec the user's own hook of that name, with the rest of stdin; exit where there is none.
chain() {
	if [ -f "$user_hooks/$1" ] && [ -x "$user_hooks/$1" ]; then
		hook=$user_hooks/$1
		shift
		exec "$hook" "$@"
	fi
	exit 0
}

# Whether the git that called was allowed before; $passed is `all`, or `files` where only its changes of files were
# judged.
passed() {
	passed=
	[ -n "$start" ] && [ -f "$guard/passed/$1.$start" ] && [ -r "$guard/passed/$1.$start" ] && read -r passed <"$guard/passed/$1.$start"
}

# Whether the `git gc` that `split` has parsed may prune without a grace period: by an option, or by any configuration
# of expiry.
gc_forgets() {
	case $rest in *--pr*) return 0 ;; esac
	[ -n "$(command -p git config --name-only --get-regexp '^gc\..*expire' 2>/dev/null)" ]
}

# Sets $words to the arguments of $git_pid, a line each (a newline in one is \001), $1 of `split` begins with its name.
arguments() {
	arguments_of "$git_pid"
}

# PID: the same for that process.
arguments_of() {
	words=$(command -p tr '\0\n' '\n\001' 2>/dev/null <"/proc/$1/cmdline") || words=
	[ -n "$words" ] && return 0
	# Without /proc, words with a blank are split: that makes a command look worse, never better.
	words=$(command -p ps -o args= -p "$1" 2>/dev/null | command -p tr -s ' ' '\n')
}

# Sets $subcommand of a git command line, $rest to the words after it, a line each, and $moved if it has -C. Options of
# git itself that name another repository or run a program make it `?`.
split() {
	subcommand='?' rest='' moved=''
	old_ifs=$IFS
	IFS='
'
	set -f
	# shellcheck disable=SC2086 # split on purpose; an empty argument vanishes, which matters nowhere here
	set -- $words
	set +f
	IFS=$old_ifs
	[ $# -gt 0 ] || return 0
	case ${1##*/} in
	git) ;;
	git-*) subcommand=${1##*/git-} && subcommand=${subcommand#git-} ;;
	*) return 0 ;;
	esac
	shift
	if [ "$subcommand" = '?' ]; then
		while :; do
			case ${1-} in
			--no-pager | -P | -p | --paginate | --no-optional-locks | --literal-pathspecs | --no-replace-objects) ;;
			-C) moved=1 && shift ;;
			-c)
				case ${2-} in
				color.* | advice.* | core.quotepath=* | core.quotePath=* | user.name=* | user.email=* | diff.renames=*) ;;
				core.pager=cat | pager.*=false | log.showSignature=* | core.autocrlf=*) ;;
				*) return 0 ;;
				esac
				shift
				;;
			-* | '') return 0 ;;
			*) break ;;
			esac
			shift
		done
		subcommand=$1
		shift
	fi
	IFS='
'
	rest=$*
	IFS=$old_ifs
}
