# git-agentos: functions of its git hooks, which source this file. Placed by `git agentos guard enable` or `hooks install`.
# shellcheck shell=sh
#
# Programs are run from the system's own folders (`command -p`), not from an agent's PATH.
#
# This is POSIX sh with builtins only: most calls are allowed here, without starting another program. What is not plainly
# harmless is passed to Python (`agentos`), which decides, saves and records.
#
# After `begin`: $guard is our folder, $git_pid the calling git, $git_dir its git directory; $agent is set if the caller
# is known to be an agent (Python examines this further). After `load`: $user_hooks is what core.hooksPath would be
# without ours; $user_fsmonitor and $user_fsmonitor_version the same of core.fsmonitor (none, auto, 1, 2); $strict is
# `all` or `some` if a policy stops read-only commands, or others that are allowed by default; $record is set if commits
# are recorded.
# shellcheck disable=SC2034 # some are for the scripts that source this

hooks=${0%/*}
guard=${hooks%/hooks}
nl='
'

# The calling process: its pid, parent, start time and name, from /proc; without /proc, only its pid is known.
begin() {
	git_pid=$PPID
	read_process "$git_pid"
	case $comm in
	git* | '') ;;
	*)
		# git starts a hook whose path contains a blank through a shell, which may remain as our parent. It runs the
		# same program as this shell; so it is not a git with another name.
		# shellcheck disable=SC3013 # every known sh has it; without it, the answer is no
		if [ "$parent" != 0 ] && [ "/proc/$git_pid/exe" -ef "/proc/$$/exe" ]; then
			git_pid=$parent && read_process "$git_pid"
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
read_process() {
	comm='' parent=0 start=''
	# The name is in parentheses and may contain any character, so it ends at the last parenthesis.
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

# Load the cache that Python has written of the configuration; if a configuration file is newer, let Python rewrite it.
load() {
	case $git_dir in
	*/worktrees/*) cache=$guard/chain/${git_dir##*/} ;;
	*) cache=$guard/chain/main ;;
	esac
	if [ -f "$cache" ]; then
		# shellcheck disable=SC1090 # written by git_agentos.hooks.user_hooks_cache; its last command fails if it is out of date
		. "$cache" && return 0
	fi
	# Not every shell compares fractions of a second: try it with two files.
	precise=
	# shellcheck disable=SC3013 # every known sh has it; without it, the answer is no
	[ "$guard/chain/.later" -nt "$guard/chain/.sooner" ] && precise=1
	if text=$(agentos refresh "$git_pid" "$cache" "$precise") && [ -n "$text" ]; then
		# The text is up to date, whatever its last command returns.
		eval "$text" || :
		return 0
	fi
	# Our program failed: use the last value of core.hooksPath that is not ours, as git would.
	user_fsmonitor='' user_fsmonitor_version=none strict=some record=1
	user_hooks=$guard
	user_hooks=${user_hooks%/agentos/guard}/hooks
	while IFS= read -r path; do
		[ -z "$path" ] || [ "$path" = "$hooks" ] || user_hooks=$path
	done <<EOF
$(git config --type=path --get-all core.hooksPath 2>/dev/null)
EOF
}

# NAME GIT_PID ARGS…: run our program. Exit code 0: continue; 3: stop; any other: it could not decide. With $background,
# it continues in a session of its own, without open files for which another process could wait.
agentos() {
	if [ -x @PYTHON@ ] && [ -n "${background-}" ]; then
		# Do not run in the worktree: a command that removes it looks for processes there.
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

# NAME ARGS…: let our program decide. Fails if the command must stop. If the program itself fails, an agent's command is
# stopped, and a person's continues.
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
	if [ "$code" = 127 ]; then
		echo "git-agentos: stopped: git-agentos is no longer installed, so it cannot decide about this command" >&2
		echo "git-agentos: ask the owner of this repository to install it again (docs/guard.md, 'After an uninstall')" >&2
		return 1
	fi
	echo "git-agentos: stopped: the guard cannot decide about this command (exit code $code of its program)" >&2
	echo "git-agentos: ask the owner of this repository to run: git agentos doctor" >&2
	return 1
}

# NAME ARGS…: let our program record something; the command continues in any case. Post-… hooks write a note and record
# in the background; whoever reads the timeline first records what is noted. In a run they wait, since no process may
# remain after a run.
run_recorder() {
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

# NAME: write a note of the command that called this hook (git_agentos/hooks/pending.py).
note() {
	folder=$git_dir/agentos/recording
	[ -d "$folder" ] || (umask 077 && command -p mkdir -p "$folder") || return 1
	text=${AGENTOS_AGENT_ID:-${AGENTOS_GUARD-}} each=$git_pid
	while :; do
		arguments_of "$each"
		text=$text$nl$words$nl$(printf '\002')
		read_process "$each"
		each=$parent
		read_process "$each"
		case $comm in git | git-*) ;; *) break ;; esac
	done
	read_process "$git_pid"
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

# NAME ARGS…: exec the user's own hook of that name, with the rest of stdin; exit if there is none.
chain() {
	if [ -f "$user_hooks/$1" ] && [ -x "$user_hooks/$1" ]; then
		hook=$user_hooks/$1
		shift
		exec "$hook" "$@"
	fi
	exit 0
}

# PID: whether that git was allowed before; $passed is `all`, or `files` if that was decided only about its changes of
# files.
passed() {
	passed=
	[ -n "$start" ] && [ -f "$guard/passed/$1.$start" ] && [ -r "$guard/passed/$1.$start" ] && read -r passed <"$guard/passed/$1.$start"
}

# Whether the `git gc` that `split` has parsed may prune without a grace period, because of an option or any setting of
# expiry.
gc_may_prune() {
	case $rest in *--pr*) return 0 ;; esac
	[ -n "$(command -p git config --name-only --get-regexp '^gc\..*expire' 2>/dev/null)" ]
}

# Set $words to the arguments of $git_pid, one per line (a newline in one becomes \001), beginning with its name.
arguments() {
	arguments_of "$git_pid"
}

# PID: `arguments` for that process.
arguments_of() {
	words=$(command -p tr '\0\n' '\n\001' 2>/dev/null <"/proc/$1/cmdline") || words=
	[ -n "$words" ] && return 0
	# Without /proc, words are split at blanks: then a command may look more dangerous, never less.
	words=$(command -p ps -o args= -p "$1" 2>/dev/null | command -p tr -s ' ' '\n')
}

# Split the git command line $words: set $subcommand, $rest to the words after it, one per line, and $moved if it has -C.
# $subcommand is `?` if an option of git itself names another repository or runs a program.
split() {
	subcommand='?' rest='' moved=''
	old_ifs=$IFS
	IFS='
'
	set -f
	# shellcheck disable=SC2086 # split on purpose; that empty arguments vanish does not matter here
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
