"""The completion scripts, asked by the shells themselves: files where the shell looks for a user's, then a TAB."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import GitWorktreeWorkspaceService
from git_agentos.cli import command_tree, completion
from tests.support.repo import Repo
from tests.support.tool import run_ok

BIN = Path(sys.executable).parent
BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")
SUBCOMMANDS = {
    "checkpoint",
    "restore",
    "undo",
    "recover",
    "pick",
    "worktree",
    "run",
    "rollback",
    "tdd",
    "log",
    "memory",
    "db",
    "status",
    "doctor",
}

# bash: the loader of bash-completion finds the file, and the function is called as readline would.
ASK_BASH = r"""
source /usr/share/bash-completion/bash_completion
COMP_LINE=$1
COMP_POINT=${#COMP_LINE}
COMP_TYPE=9
COMP_KEY=9
read -ra COMP_WORDS <<<"$COMP_LINE"
[[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_completion_loader "${COMP_WORDS[0]}"
specification=$(complete -p "${COMP_WORDS[0]}") || exit
function=${specification#*-F }
COMPREPLY=()
"${function%% *}" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""

# zsh: an interactive shell in a pseudo-terminal, whose compadd prints what it is given.
ASK_ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'unset zle_bracketed_paste; PROMPT=; stty -echo; source '${(q)2}
zpty -r shell line '*<ready>*'
zpty -w -n shell "$1"$'\t'
zpty -r shell line '*<done>*'
print -r -- "$line"
zpty -d shell
"""
ZSH_SETUP = r"""
fpath=($XDG_DATA_HOME/zsh/site-functions $fpath)
autoload -Uz compinit && compinit -D -u
zstyle ':completion:*' insert-tab false
bindkey '^I' complete-word
compadd() {
    local option
    for option; do
        [[ $option == -- || $option == - ]] && break
        if [[ $option == -[12a-zA-Z]#[OAD] ]]; then builtin compadd "$@"; return; fi
    done
    local -a __found
    builtin compadd -O __found "$@"
    print -rl -- '' "<"${^__found}">"
    builtin compadd "$@"
}
comppostfuncs=(__done)
__done() { print -r -- '<''done>' }
setopt extendedglob
print -r -- '<''ready>'
"""

Ask = Callable[[str], set[str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """XDG_DATA_HOME with what install.sh puts there."""
    folder = tmp_path_factory.mktemp("completion")
    for shell, place in (
        ("bash", "bash-completion/completions/git-agentos"),
        ("bash", "bash-completion/completions/git-agentos-restore"),
        ("bash", "bash-completion/completions/git-agentos-rollback"),
        ("bash", "bash-completion/completions/git-agentos-tdd"),
        ("bash", "bash-completion/completions/git-agentos-worktree"),
        ("fish", "fish/vendor_completions.d/git-agentos.fish"),
        ("fish", "fish/vendor_completions.d/git-agentos-restore.fish"),
        ("fish", "fish/vendor_completions.d/git-agentos-rollback.fish"),
        ("fish", "fish/vendor_completions.d/git-agentos-tdd.fish"),
        ("fish", "fish/vendor_completions.d/git-agentos-worktree.fish"),
        ("zsh", "zsh/site-functions/_git-agentos"),
    ):
        script = subprocess.run([BIN / "git-agentos", "completion", shell], capture_output=True, check=True).stdout
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(script)
    return folder


@pytest.fixture(params=["bash", "fish", "zsh"])
def ask(request: pytest.FixtureRequest, data: Path, tmp_path: Path) -> Ask:
    """Ask a shell what it would offer for a command line."""
    shell = str(request.param)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    if shell == "bash" and not BASH_COMPLETION.exists():
        pytest.skip("bash-completion is not installed")
    setup = tmp_path / "setup.zsh"
    setup.write_text(ZSH_SETUP)
    command = {
        "bash": ["bash", "--norc", "--noprofile", "-c", ASK_BASH, "bash"],
        "fish": ["fish", "-c", "complete -C $argv[1]"],
        "zsh": ["zsh", "-f", "-c", ASK_ZSH, "zsh"],
    }[shell]

    def asked(line: str) -> set[str]:
        if shell == "fish" and line.startswith("git agentos") and not fish_asks_for_externals():
            pytest.skip("this fish does not ask the completions of git's external commands")
        result = subprocess.run(
            [*command, line, *([str(setup)] if shell == "zsh" else [])],
            env={
                **os.environ,
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "XDG_DATA_HOME": str(data),
                "TERM": "dumb",
            },
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.stderr == "", result.stderr
        if shell == "zsh":
            return {found.strip() for found in re.findall(r"<([^<>]*)>", result.stdout)} - {"done", "ready"}
        return {offer.split("\t")[0].strip() for offer in result.stdout.splitlines() if offer.strip()}

    return asked


def fish_asks_for_externals() -> bool:
    """fish before 3.7 looks for `git-x` where it should look for `x`, so it completes no external command of git."""
    version = subprocess.run(["fish", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    return tuple(map(int, re.findall(r"\d+", version)[:2])) >= (3, 7)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["git-agentos", "git agentos"])
def test_commands(ask: Ask, program: str) -> None:
    assert ask(f"{program} ") >= SUBCOMMANDS
    assert ask(f"{program} che") == {"checkpoint"}


@pytest.mark.slow
@pytest.mark.parametrize("program", ["git-agentos", "git agentos"])
def test_subcommands_and_options(ask: Ask, program: str) -> None:
    assert ask(f"{program} checkpoint ") >= {"list", "show", "diff", "cat", "search"}
    assert ask(f"{program} checkpoint --tr") == {"--trigger"}
    assert ask(f"{program} restore --no") == {"--no-branch"}
    assert ask(f"{program} checkpoint list --a") >= {"--agent", "--all"}


@pytest.mark.slow
def test_an_executable_of_its_own(ask: Ask) -> None:
    assert ask("git-agentos-restore --keep") == {"--keep-new"}
    assert ask("git-agentos-rollback --dry") == {"--dry-run"}


@pytest.mark.slow
def test_ids_of_worktrees_and_of_agents(ask: Ask, repo: Repo, tmp_path: Path) -> None:
    run_ok(repo.path, "worktree", "create", "dev-001")
    run_ok(repo.path, "worktree", "create", "dev-002")
    os.rename(repo.path / ".git", tmp_path / ".git")  # where the shell stands
    repo.git("-C", str(tmp_path), "worktree", "repair", *map(str, (tmp_path / "repo.worktrees").iterdir()))
    for line in (
        "git-agentos worktree show ",
        "git-agentos worktree path dev",
        "git-agentos worktree merge dev-001 ",
        "git-agentos worktree conflicts ",
        "git-agentos checkpoint list --agent ",
        "git-agentos log review ",
    ):
        assert ask(line) == {"dev-001", "dev-002"}, line
    assert ask("git-agentos-worktree path ") == {"dev-001", "dev-002"}
    assert not ask("git-agentos worktree create ") & {"dev-001", "latest"}


@pytest.mark.slow
def test_ids_of_runs(ask: Ask, repo: Repo, tmp_path: Path) -> None:
    run_ok(repo.path, "run", "start", "--id", "fix-1", "--agent", "echo > new")
    run_ok(repo.path, "run", "start", "--id", "fix-2", "--agent", "echo > new")
    os.rename(repo.path / ".git", tmp_path / ".git")  # where the shell stands
    os.rename(repo.path / ".agentos", tmp_path / ".agentos")
    for line in ("git-agentos run show ", "git-agentos run accept fix", "git-agentos rollback "):
        assert ask(line) == {"fix-1", "fix-2"}, line
    assert ask("git-agentos-rollback ") == {"fix-1", "fix-2"}
    assert "fix-1" not in ask("git-agentos run start --agent ")


@pytest.mark.slow
def test_workflows(ask: Ask, repo: Repo, tmp_path: Path) -> None:
    """Below `tdd` an id is a workflow's, which is a run that `tdd` drives; and `gate` has commands of its own."""
    for run_id, tool in (("87-3fa9c1", "tdd"), ("88-000000", "tdd"), ("fix-1", "another")):
        GitWorktreeWorkspaceService(repo.path, tool=tool).prepare_pre_run(run_id=run_id)
    for name in (".git", ".agentos"):
        os.rename(repo.path / name, tmp_path / name)  # where the shell stands
    for line in ("git-agentos tdd show ", "git-agentos-tdd approve "):
        assert ask(line) == {"87-3fa9c1", "88-000000"}, line
    assert ask("git-agentos tdd resume 88") == {"88-000000"}
    assert ask("git-agentos tdd gate ") == {"red", "green"}
    assert ask("git-agentos-tdd run --lld=x --yes") == {"--yes-data-policy"}


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_scripts_are_valid(data: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = subprocess.run([BIN / "git-agentos", "completion", shell], capture_output=True, text=True, check=True)
    checked = subprocess.run([shell, "-n"], input=script.stdout, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert all(command in script.stdout for command in SUBCOMMANDS)


def test_an_unknown_shell_is_a_usage_error() -> None:
    result = subprocess.run([BIN / "git-agentos", "completion", "tcsh"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "tcsh" in result.stderr


def test_below_guard_an_id_is_a_worktrees() -> None:
    for name in ("enable", "disable", "status"):
        assert completion.argument_types(command_tree.find(("guard", name))) == ["worktree"]
    assert completion.argument_types(command_tree.find(("guard", "check"))) == []
