#!/bin/sh
# Installs git-agentos for one user (or below --prefix DIR), without touching any other Python package.
#
# What goes where, with DATA = ${XDG_DATA_HOME:-~/.local/share}; below --prefix DIR it is DIR/bin and DIR/share:
#   DATA/git-agentos/venv-N     a private Python environment; `venv` beside it is a link to the one in use
#   DATA/git-agentos/manifest   every file and folder made elsewhere, so that --uninstall removes exactly those
#   ~/.local/bin                links to the executables
#   ~/.local/share/man/man1     man pages (`man` maps BIN on the PATH to BIN/../share/man)
#   DATA/bash-completion/completions, DATA/zsh/site-functions, DATA/fish/vendor_completions.d
#
# A new environment is built and tried beside the old one, and one rename puts it in use: an install that fails
# leaves the previous one working.
set -eu

MIN_GIT='2.38'
MIN_PYTHON='3.11'
EXECUTABLES='git-agentos git-agentos-checkpoint git-agentos-restore git-agentos-rollback git-agentos-tdd git-agentos-worktree'

usage() {
    cat <<'USAGE'
usage: ./install.sh [--try] [--prefix DIR] [--quiet]
       ./install.sh --uninstall [--prefix DIR] [--quiet]

  --try         after installing, show checkpoint and restore on a scratch repository
  --prefix DIR  install everything below DIR (DIR/bin, DIR/share) instead of ~/.local
  --uninstall   remove what an earlier run installed, and nothing else
  -q, --quiet   say only what needs your attention
  -h, --help    show this

Run it again to update or repair. PYTHON=/path/to/python3 chooses the Python to build on.
USAGE
}

# ---------------------------------------------------------------- talk

say() { [ -n "$quiet" ] || printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
die() {
    warn "install.sh: $1"
    shift
    for hint; do warn "$hint"; done
    exit 1
}

# A path as the user would write it.
short() {
    case $1 in
        "$HOME"/*) printf '~%s\n' "${1#"$HOME"}" ;;
        *) printf '%s\n' "$1" ;;
    esac
}

# The command that installs Debian packages, or a plain sentence where there is no apt.
packages() {
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "install with your package manager: $*"
    elif [ "$(id -u)" = 0 ]; then
        echo "apt install $*"
    else
        echo "sudo apt install $*"
    fi
}

# ---------------------------------------------------------------- what must be there

# at_least 2.39.5 2.38: is the first version the second or later?
at_least() {
    awk -v have="$1" -v want="$2" 'BEGIN {
        split(have, h, "."); split(want, w, ".")
        for (i = 1; i <= 2; i++) { if (h[i] + 0 > w[i] + 0) exit 0; if (h[i] + 0 < w[i] + 0) exit 1 }
    }'
}

python_version() { "$1" -I -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

# Sets `python` and `python_is`, or names in `missing` what to install.
find_python() {
    python='' without_venv=''
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        version=$(python_version "$candidate") || continue
        at_least "$version" "$MIN_PYTHON" || continue
        if "$candidate" -I -c 'import ensurepip, venv' 2>/dev/null; then
            python=$candidate python_is=$version
            return
        fi
        [ -n "$without_venv" ] || without_venv=$candidate
    done
    if [ -n "$without_venv" ]; then
        complain "Python's venv module is missing" "${without_venv##*/}-venv"
    elif version=$(python_version python3); then
        complain "Python $version is too old: $MIN_PYTHON or later is needed"
        hints="${hints}Install a newer Python (Debian 12 and Ubuntu 24.04 have one), then: PYTHON=/path/to/python3 ./install.sh
"
    else
        complain 'Python is missing' python3 python3-venv
    fi
}

check_git() {
    if ! command -v git >/dev/null 2>&1; then
        complain 'git is missing' git
        return
    fi
    git_is=$(git version | awk '{print $3}')
    if ! at_least "$git_is" "$MIN_GIT"; then
        complain "git $git_is is too old: $MIN_GIT or later is needed"
        hints="${hints}Install a newer git (Debian 12 has 2.39; on Ubuntu 22.04: sudo add-apt-repository ppa:git-core/ppa && sudo apt install git)
"
    fi
}

complain() {
    warn "install.sh: $1"
    shift
    missing="$missing${missing:+ }$*"
    lacking=1
}

check_requirements() {
    missing='' hints='' lacking=''
    find_python
    check_git
    [ -n "$lacking" ] || return 0
    [ -z "$missing" ] || warn "To mend it: $(packages "$missing"), then run ./install.sh again"
    [ -z "$hints" ] || printf '%s' "$hints" >&2
    warn 'Nothing was installed.'
    exit 1
}

# ---------------------------------------------------------------- the manifest

recorded() { [ -f "$manifest" ] && grep -qxF -- "$1" "$manifest"; }
record() { recorded "$1" || printf '%s\n' "$1" >>"$manifest"; }

# Prints the folders of a path that are not there yet, the outermost first.
absent() (
    folder=$1 found=''
    while [ ! -d "$folder" ]; do
        found="dir $folder
$found"
        folder=$(dirname -- "$folder")
    done
    printf '%s' "$found"
)

make_folder() {
    [ -d "$1" ] && return 0
    new=$(absent "$1")
    mkdir -p -- "$1" || die "cannot make the folder '$1'" "${2:-}"
    mkdir -p -- "$root"
    printf '%s\n' "$new" | while IFS= read -r entry; do record "$entry"; done
}

# Refuses to write over what somebody else put there.
must_be_ours() {
    if [ ! -e "$1" ] && [ ! -L "$1" ]; then return 0; fi
    if recorded "file $1"; then return 0; fi
    case $(readlink -- "$1" || :) in "$root"/*) return 0 ;; esac
    die "'$1' is there already, and this script did not make it" \
        'Remove it (pipx, pip or a package may have put it there), then run ./install.sh again.'
}

# place SOURCE DESTINATION: a copy; point TARGET DESTINATION: a link. Both replace in one step.
place() {
    make_folder "$(dirname -- "$2")"
    record "file $2"
    cp -- "$1" "$2.new$$"
    mv -f -- "$2.new$$" "$2"
    printf 'file %s\n' "$2" >>"$build/placed"
}

point() {
    make_folder "$(dirname -- "$2")"
    record "file $2"
    ln -s -- "$1" "$2.new$$"
    mv -f -- "$2.new$$" "$2"
    printf 'file %s\n' "$2" >>"$build/placed"
}

# ---------------------------------------------------------------- install

# The launchers say -I: a PYTHONPATH, or a click.py beside the user's work, must not reach this program. And -S: without
# the other packages, Python starts in two thirds of the time; `launch` finds them if it needs them.
write_launchers() {
    "$build/bin/python" -I - "$build/bin" <<'PYTHON'
import os, sys
from importlib.metadata import distribution

import git_agentos

packages = os.path.dirname(os.path.dirname(os.path.abspath(git_agentos.__file__)))
folder = sys.argv[1]
python = os.path.join(folder, "python")
for entry in distribution("git-agentos").entry_points.select(group="console_scripts"):
    path = os.path.join(folder, entry.name)
    if len(os.fsencode(python)) < 120 and " " not in python:
        start = f"#!{python} -IS\n"
    else:  # too long for the kernel, or it would be split: sh starts Python, which sees a string here
        quoted = "'" + python.replace("'", "'\"'\"'") + "'"
        start = f"#!/bin/sh\n'''exec' {quoted} -IS \"$0\" \"$@\"\n' '''\n"
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as launcher:
        launcher.write(start + f"import sys\n\nsys.path.insert(0, {packages!r})\n\n")
        launcher.write(f"from {entry.module} import {entry.attr}\n\nsys.exit({entry.attr}())\n")
    os.chmod(path, 0o755)
PYTHON
}

into_environment() {
    PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 "$build/bin/python" -m pip install \
        --quiet --no-input "$@" >>"$log" 2>&1
}

build_environment() {
    "$python" -I -m venv "$build" >"$log" 2>&1 || return 1
    # A cache folder is used where there is one, and never left behind where there was none.
    cache=$("$build/bin/python" -I -m pip cache dir 2>/dev/null || :)
    if [ -d "$cache" ]; then set -- --cache-dir "$cache"; else set -- --no-cache-dir; fi
    # `mcp`, `sync`, `tdd` and `ui` take libraries that are compiled: where there is none for this machine, all else works.
    if ! into_environment "$@" "${here}[mcp,sync,tdd,ui,watch]"; then
        into_environment "$@" "${here}[watch]" || return 1
        without_extras=1
    fi
    write_launchers >>"$log" 2>&1 || return 1
    version=$("$build/bin/git-agentos" --version 2>>"$log" | awk '{print $NF}') || return 1
    [ -n "$version" ] || return 1
    mkdir -- "$build/completions"
    for shell in bash zsh fish; do
        "$build/bin/git-agentos" completion "$shell" >"$build/completions/$shell" 2>>"$log" || return 1
    done
}

# Runs when the script ends before the new environment is in use: leaves the former installation, and nothing else.
clean_up() {
    status=$?
    trap - EXIT
    rm -rf -- "$build" "$log"
    if [ ! -L "$root/venv" ] && [ -d "$root" ]; then remove_recorded; fi
    exit "$status"
}

# Takes environments away that are not in use: the one replaced, and what a killed install left.
remove_old_environments() {
    for folder in "$root"/venv-*; do
        if [ ! -d "$folder" ] || [ "$folder" = "$build" ]; then continue; fi
        maker=${folder##*-}
        if [ "$maker" != $$ ] && [ "$folder" != "$before" ] && kill -s 0 "$maker" 2>/dev/null; then continue; fi
        rm -rf -- "$folder"
    done
}

# Forgets and removes files of an earlier version that this one does not have.
remove_outdated() {
    grep '^file ' "$manifest" | while IFS= read -r entry; do
        grep -qxF -- "$entry" "$build/placed" || rm -f -- "${entry#file }"
    done
    { grep '^dir ' "$manifest" || :; cat -- "$build/placed"; } >"$manifest.new$$"
    mv -f -- "$manifest.new$$" "$manifest"
}

# Every path outside our own folder that an install writes.
destinations() {
    for name in $EXECUTABLES; do
        printf '%s\n' "$bin/$name" "$bash/$name" "$fish/$name.fish"
    done
    for page in "$here"/man/*.1; do printf '%s\n' "$man/${page##*/}"; done
    printf '%s\n' "$zsh/_git-agentos"
}

install() {
    started=$(date +%s)
    check_requirements
    destinations | while IFS= read -r path; do must_be_ours "$path"; done

    log=$(mktemp) build=$root/venv-$(date -u +%Y%m%dT%H%M%SZ)-$$
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    make_folder "$root" 'Choose another place: ./install.sh --prefix DIR'
    before=$(readlink -- "$root/venv" || :)
    verb=Installed
    if [ -n "$before" ]; then verb=Updated; fi
    say "Building a private Python environment in $(short "$root") …"
    if ! build_environment; then
        tail -n 25 -- "$log" | sed 's/^/  | /' >&2
        if [ -n "$before" ]; then die 'the install failed; the version that was installed before still works'; fi
        die 'the install failed; nothing was left behind' \
            'Python packages come from the index that pip is set up for: is it reachable? (pip config list)'
    fi

    "$build/bin/python" -I -c 'import os, sys; os.symlink(sys.argv[1], sys.argv[2]); os.replace(*sys.argv[2:])' \
        "$build" "$root/venv.new$$" "$root/venv"
    trap 'warn "install.sh: stopped half-way; mend the cause, then run ./install.sh again (or with --uninstall)"' EXIT
    rm -f -- "$log"

    : >"$build/placed"
    for name in $EXECUTABLES; do point "$root/venv/bin/$name" "$bin/$name"; done
    pages=0
    for page in "$here"/man/*.1; do
        [ -f "$page" ] || continue
        place "$page" "$man/${page##*/}"
        pages=$((pages + 1))
    done
    # bash and fish look for a file by the command's name; zsh reads the names in the file.
    for name in $EXECUTABLES; do
        place "$build/completions/bash" "$bash/$name"
        place "$build/completions/fish" "$fish/$name.fish"
    done
    place "$build/completions/zsh" "$zsh/_git-agentos"
    remove_outdated
    remove_old_environments
    trap - EXIT

    say "$verb git-agentos $version on Python $python_is and git $git_is, in $(($(date +%s) - started)) s:"
    others=''
    for name in $EXECUTABLES; do
        [ "$name" = git-agentos ] || others="$others${others:+, }${name#git-agentos}"
    done
    say "  commands     $(short "$bin")/git-agentos ($others)"
    say "  man pages    $(short "$man") ($pages)"
    say "  completions  bash, zsh, fish, in $(short "$data")"
    say "  next         git agentos init, in a repository: saves work before it can be lost"
    advise
}

# ---------------------------------------------------------------- what is left for the user to do

advise() {
    [ -z "$without_extras" ] ||
        add 'git agentos tdd, mcp and ui, and encryption in sync, cannot be used here: what they need could not be installed.' \
            "$root/venv/bin/python -m pip install langgraph langgraph-checkpoint-sqlite detect-secrets pytest mcp pyrage textual textual-serve"
    case :$PATH: in
        *:"$bin":*) ;;
        *) advise_path ;;
    esac
    case $login in
        zsh)
            # shellcheck disable=SC2016 # $fpath is for zsh
            [ "$prefix" = /usr/local ] || grep -qsF "$(short "$zsh")" "${ZDOTDIR:-$HOME}/.zshrc" ||
                add "For completion in zsh, put this line before compinit in ~/.zshrc:" \
                    "fpath=($(short "$zsh") \$fpath)"
            ;;
        bash)
            [ -f /usr/share/bash-completion/bash_completion ] || [ -n "${BASH_COMPLETION_VERSINFO-}" ] ||
                add 'For completion in bash:' "$(packages bash-completion)"
            ;;
    esac
    case $prefix in
        '' | /usr | /usr/local) ;;
        *)
            # shellcheck disable=SC2016 # for the user's shell to expand
            case :${XDG_DATA_DIRS-}: in
                *:"$data":*) ;;
                *) add 'For completion from there in bash and fish:' \
                    "export XDG_DATA_DIRS=\"$data:\${XDG_DATA_DIRS:-/usr/local/share:/usr/share}\"" ;;
            esac
            ;;
    esac
    command -v man >/dev/null 2>&1 || add 'To read the man pages:' "$(packages man-db)"
}

add() {
    advice="$advice$1
    $2
"
}

advise_path() {
    shown=$(short "$bin")
    case $shown in '~'*) value="\$HOME${shown#'~'}" ;; *) value=$shown ;; esac
    line="export PATH=\"$value:\$PATH\""
    case $login in
        fish) add "$shown is not on your PATH. Add it:" "fish_add_path \"$value\"" ;;
        zsh) add "$shown is not on your PATH. Add it, then open a new shell:" "echo '$line' >> ~/.zshrc" ;;
        bash) add "$shown is not on your PATH. Add it, then open a new shell:" "echo '$line' >> ~/.bashrc" ;;
        *) add "$shown is not on your PATH. Add it, then log in again:" "echo '$line' >> ~/.profile" ;;
    esac
}

# ---------------------------------------------------------------- uninstall

# Removes what the manifest names, our own folder, and then our folders that are empty.
remove_recorded() {
    folders=''
    if [ -f "$manifest" ]; then
        while IFS= read -r entry; do
            case $entry in
                'file '*) rm -f -- "${entry#file }" ;;
                *) ;;
            esac
        done <"$manifest"
        folders=$(sed -n 's/^dir //p' "$manifest" | LC_ALL=C sort -r)
    fi
    rm -rf -- "$root/venv" "$root"/venv-* "$root"/venv.new* "$manifest" "$manifest".new*
    rmdir -- "$root" 2>/dev/null || :
    printf '%s\n' "$folders" | while IFS= read -r folder; do
        [ -z "$folder" ] || rmdir -- "$folder" 2>/dev/null || :
    done
}

uninstall() {
    if [ ! -f "$manifest" ]; then
        say "git-agentos is not installed below $(short "${prefix:-$HOME/.local}"): nothing to remove."
        return
    fi
    remove_recorded
    if [ -d "$root" ]; then
        warn "$(short "$root") holds files that this script did not make: left as it is."
    fi
    say "Removed git-agentos from $(short "${prefix:-$HOME/.local}"). Checkpoints stay in your repositories, where plain git reads them."
    say 'In guarded worktrees, git stops what the guard would have decided about, until you install it again.'
    say "docs/guard.md, 'After an uninstall', says how to end that."
}

# ---------------------------------------------------------------- the trial

# The complete state of the repository one stands in, as git and the file system tell it.
state() {
    echo "HEAD $(git rev-parse HEAD)"
    git status --porcelain=v2 --untracked-files=all
    git ls-files --stage
    find . -path ./.git -prune -o -print | LC_ALL=C sort | while IFS= read -r path; do
        if [ -L "$path" ]; then
            echo "link $path -> $(readlink -- "$path")"
        elif [ -f "$path" ]; then
            # shellcheck disable=SC2012 # the mode, as every system prints it
            echo "$(ls -ld -- "$path" | cut -c 1-10) $(git hash-object --no-filters -- "$path") $path"
        else
            echo "folder $path"
        fi
    done
}

# show COMMAND…: runs it as a reader would type it. Its output is shown, indented.
show() {
    say
    say "  \$ $1"
    sh -c "$1" >"$scratch/output" 2>&1 || {
        sed 's/^/  /' "$scratch/output" >&2
        die "the trial failed: '$1' did not work"
    }
    [ -n "$quiet" ] || sed 's/^/  /' "$scratch/output"
}

try() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/git-agentos-try.XXXXXX")
    trap 'rm -rf -- "$scratch"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # Nothing of the user's git set-up takes part, but the formats of repositories.
    for name in $(env | sed -n 's/=.*//p' | grep -E '^(GIT|AGENTOS)_[A-Z0-9_]*$'); do
        case $name in GIT_DEFAULT_HASH | GIT_DEFAULT_REF_FORMAT) ;; *) unset "$name" ;; esac
    done
    unset XDG_CONFIG_HOME
    mkdir -- "$scratch/home" "$scratch/project"
    export HOME="$scratch/home" GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES="$scratch" PATH="$bin:$PATH"
    cat >"$scratch/home/.gitconfig" <<'CONFIG'
[user]
	name = You
	email = you@example.com
[init]
	defaultBranch = main
[core]
	quotePath = false
[advice]
	detachedHead = false
CONFIG
    cd "$scratch/project"

    git init --quiet
    say
    say "Now a trial on a scratch repository ($(git rev-parse --show-object-format)), with work in every state:"
    printf 'one\n' >app.py
    printf '#!/bin/sh\n' >run.sh
    printf 'old\n' >old.txt
    ln -s app.py current
    git add .
    git commit --quiet --message 'start'
    printf 'one\ntwo\n' >app.py
    git add app.py
    printf 'one\ntwo\nthree\n' >app.py
    git rm --quiet old.txt
    chmod +x run.sh
    ln -sf run.sh current
    printf 'not in git yet\n' >'idée.txt'
    show 'git status --short'
    state >"$scratch/before"

    show 'git agentos checkpoint -m "before the agent"'
    show 'git reset --hard && git clean -fd'
    state >"$scratch/wrecked"
    if cmp -s "$scratch/before" "$scratch/wrecked"; then die 'the trial failed: the wreck left everything as it was'; fi
    show 'git agentos restore latest'
    show 'git status --short'
    state >"$scratch/after"

    say
    if ! cmp -s "$scratch/before" "$scratch/after"; then
        diff "$scratch/before" "$scratch/after" >&2 || :
        die 'the trial failed: the restored state differs (< before, > after)'
    fi
    printf '%s\n' 'identical: commit, index, status, and the bytes, modes and links of every file'
}

# ---------------------------------------------------------------- main

advice='' quiet='' trial='' without_extras='' action=install prefix='' version='' git_is='' python_is=''
while [ $# -gt 0 ]; do
    case $1 in
        --try) trial=1 ;;
        --uninstall) action=uninstall ;;
        --prefix)
            [ $# -gt 1 ] || { warn 'install.sh: --prefix needs a folder'; usage >&2; exit 2; }
            [ -n "$2" ] || { warn 'install.sh: --prefix needs a folder'; exit 2; }
            prefix=$2
            shift
            ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        -q | --quiet) quiet=1 ;;
        -h | --help) usage; exit 0 ;;
        *) warn "install.sh: unknown option '$1'"; usage >&2; exit 2 ;;
    esac
    shift
done
if [ "$action$trial" = uninstall1 ]; then warn 'install.sh: --try and --uninstall do not go together'; exit 2; fi

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
[ -n "${HOME-}" ] || die 'HOME is not set'
# Python's own settings, and pip's about places, must not bend the private environment.
unset PYTHONHOME PYTHONPATH PYTHONSTARTUP PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV

if [ -n "$prefix" ]; then
    case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
    while [ "$prefix" != "${prefix%/}" ]; do prefix=${prefix%/}; done
    bin=$prefix/bin data=$prefix/share man=$prefix/share/man/man1
else
    # A relative XDG_DATA_HOME is to be ignored, says its specification.
    case ${XDG_DATA_HOME-} in /*) data=${XDG_DATA_HOME%/} ;; *) data=$HOME/.local/share ;; esac
    bin=$HOME/.local/bin man=$HOME/.local/share/man/man1
fi
case $bin$data in
    *'
'*) die 'a folder with a line break in its name is too much for this script' 'Choose another: ./install.sh --prefix DIR' ;;
esac
login=${SHELL-}
login=${login##*/}
root=$data/git-agentos manifest=$data/git-agentos/manifest
bash=$data/bash-completion/completions fish=$data/fish/vendor_completions.d zsh=$data/zsh/site-functions

"$action"
if [ -n "$trial" ]; then try; fi
if [ -n "$advice" ]; then printf '\n%s' "$advice"; fi
