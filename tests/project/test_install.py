"""install.sh, run as a newcomer would: in an empty home, with the tools of a plain system on the PATH.

Real installs take seconds and are marked `slow`. What they need is fetched once, as pip is set up for whoever runs the
tests; after that pip asks no index (`.ci/run` installs from it).
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from git_agentos import __version__
from tests.support.env import PROJECT_ROOT

PROJECT = PROJECT_ROOT
EXECUTABLES = (
    "git-agentos",
    "git-agentos-checkpoint",
    "git-agentos-restore",
    "git-agentos-rollback",
    "git-agentos-tdd",
    "git-agentos-worktree",
)
SOURCES = ("LICENSE", "README.md", "git_agentos", "hooks", "install.sh", "man", "pyproject.toml")
PASSED_ON = ("PIP_", "SSL_CERT", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "LD_LIBRARY_PATH")
TOOLS = (
    "awk basename bash cat chmod cmp cp cut date diff dirname env find git grep head id ln ls man mkdir mktemp mv "
    "readlink rm rmdir sed sh sleep sort tail touch tr uname"
).split()


@dataclass(frozen=True)
class Newcomer:
    """Somebody's home, and what they have on their PATH."""

    home: Path
    path: str
    extra: Mapping[str, str]

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        environment = {
            **kept,
            "HOME": str(self.home),
            "PATH": self.path,
            "LC_ALL": "C.UTF-8",
            "SHELL": "/bin/bash",
            # A tool that pip asks about itself may make its settings in the home: not ours to answer for.
            "RUSTUP_HOME": str(self.home.parent / "rustup"),
            "PIP_NO_COMPILE": "1",
            **self.extra,
            **more,
        }
        return {name: value for name, value in environment.items() if value}

    def run(self, *argv: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in argv],
            cwd=self.home,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def install(self, *options: str | Path, source: Path = PROJECT, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(source / "install.sh", *options, **more)


def newcomer(folder: Path, *, without: tuple[str, ...] = (), **extra: str) -> Newcomer:
    """An empty home in `folder`, and a PATH with the usual tools, this Python as python3, and nothing else."""
    tools = folder / "tools"
    tools.mkdir(parents=True)
    for name in TOOLS:
        found = shutil.which(name)
        if found and name not in without:
            (tools / name).symlink_to(found)
    if "python3" not in without:
        script(tools / "python3", f'exec "{Path(sys.executable).absolute()}" "$@"')
    home = folder / "home"
    home.mkdir()
    return Newcomer(home, str(tools), extra)


@pytest.fixture(scope="session")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that an install needs; the workers of a run share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheels"
    whole = folder / "whole"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--dest", str(folder)]
            requires = tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]["requires"]
            done = subprocess.run(
                [*argv, *requires, f"{PROJECT}[mcp,shell,sync,tdd,ui,watch]"], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
            whole.touch()
    return folder


@pytest.fixture
def wheels(fetched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip asks no index, and finds everything."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(fetched))


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def tree(folder: Path) -> list[str]:
    """Every path below, but for what is inside the private environment."""
    found = []
    for parent, folders, files in os.walk(folder):
        for name in sorted(folders + files):
            path = Path(parent, name)
            found.append(str(path.relative_to(folder)))
        folders[:] = [name for name in folders if not name.startswith("venv-")]
    return sorted(found)


def wrong(result: subprocess.CompletedProcess[str]) -> str:
    return f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"


# ------------------------------------------------------------------------------------ without installing


def test_help_names_every_option(tmp_path: Path) -> None:
    result = newcomer(tmp_path).install("--help")
    assert result.returncode == 0, wrong(result)
    for option in ("--try", "--prefix", "--uninstall", "--quiet", "--help"):
        assert option in result.stdout


@pytest.mark.parametrize(
    "options", [("--frobnicate",), ("--prefix",), ("--prefix", ""), ("--try", "--uninstall")], ids=" ".join
)
def test_wrong_options_are_usage_errors(tmp_path: Path, options: tuple[str, ...]) -> None:
    person = newcomer(tmp_path)
    result = person.install(*options)
    assert result.returncode == 2, wrong(result)
    assert "install.sh: " in result.stderr
    assert tree(person.home) == []


def test_a_missing_venv_module_names_the_package(tmp_path: Path) -> None:
    person = newcomer(tmp_path, without=("python3",))
    script(
        Path(person.path, "python3"),
        f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec "{Path(sys.executable).absolute()}" "$@"',
    )
    script(Path(person.path, "apt-get"), "exit 1")
    result = person.install()
    assert result.returncode == 1, wrong(result)
    assert "Python's venv module is missing" in result.stderr
    assert "apt install python3-venv" in result.stderr
    assert "Nothing was installed." in result.stderr
    assert tree(person.home) == []


def test_missing_packages_are_installed_by_one_command(tmp_path: Path) -> None:
    person = newcomer(tmp_path, without=("python3", "git"))
    script(Path(person.path, "apt-get"), "exit 1")
    result = person.install()
    assert result.returncode == 1, wrong(result)
    assert "apt install python3 python3-venv git, then" in result.stderr
    assert tree(person.home) == []


def test_without_apt_the_packages_are_named_all_the_same(tmp_path: Path) -> None:
    result = newcomer(tmp_path, without=("git",)).install()
    assert result.returncode == 1, wrong(result)
    assert "install with your package manager: git" in result.stderr


def test_an_old_python_is_told(tmp_path: Path) -> None:
    person = newcomer(tmp_path, without=("python3",))
    script(Path(person.path, "python3"), "echo 3.9.2")
    result = person.install()
    assert result.returncode == 1, wrong(result)
    assert "Python 3.9.2 is too old: 3.11 or later is needed" in result.stderr
    assert "PYTHON=/path/to/python3" in result.stderr


@pytest.mark.parametrize(("version", "fine"), [("2.9.5", False), ("2.37.9", False), ("2.38.0", True), ("3.0", True)])
def test_an_old_git_is_told(tmp_path: Path, version: str, fine: bool) -> None:
    person = newcomer(tmp_path, without=("git", "python3"))
    script(Path(person.path, "git"), f"echo git version {version}")
    result = person.install()
    assert result.returncode == 1, wrong(result)
    assert (f"git {version} is too old: 2.38 or later is needed" in result.stderr) is not fine


def test_uninstall_where_nothing_is_installed(tmp_path: Path) -> None:
    person = newcomer(tmp_path)
    result = person.install("--uninstall")
    assert result.returncode == 0, wrong(result)
    assert "nothing to remove" in result.stdout
    assert tree(person.home) == []


def test_somebody_elses_command_is_left_alone(tmp_path: Path) -> None:
    person = newcomer(tmp_path)
    theirs = person.home / ".local/bin/git-agentos"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    result = person.install()
    assert result.returncode == 1, wrong(result)
    assert "did not make it" in result.stderr
    assert theirs.read_text() == "theirs"
    assert tree(person.home) == [".local", ".local/bin", ".local/bin/git-agentos"]


def copy(folder: Path) -> Path:
    """The sources."""
    folder.mkdir()
    for name in SOURCES:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(PROJECT / name, folder / name)
    return folder


def broken_copy(folder: Path) -> Path:
    """The sources, with a pyproject.toml that pip refuses."""
    copy(folder)
    (folder / "pyproject.toml").write_text("this is not TOML")
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("wheels")
def test_a_first_install_that_fails_leaves_nothing(tmp_path: Path) -> None:
    person = newcomer(tmp_path)
    (person.home / ".local").mkdir()
    result = person.install(source=broken_copy(tmp_path / "source"))
    assert result.returncode == 1, wrong(result)
    assert "the install failed; nothing was left behind" in result.stderr
    assert tree(person.home) == [".local"]


# ------------------------------------------------------------------------------------ a life in the default place


@pytest.mark.slow
@pytest.mark.usefixtures("wheels")
def test_install_update_failed_update_uninstall(tmp_path: Path) -> None:
    person = newcomer(tmp_path)
    mine = person.home / ".local/bin/mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = tree(person.home)
    command = person.home / ".local/bin/git-agentos"

    first = person.install()
    assert first.returncode == 0, wrong(first)
    assert "Installed git-agentos" in first.stdout
    assert "/git-agentos (-checkpoint, -restore, -rollback, -tdd, -worktree)\n" in first.stdout
    assert "~/.local/bin is not on your PATH" in first.stdout
    assert "echo 'export PATH=\"$HOME/.local/bin:$PATH\"' >> ~/.bashrc" in first.stdout
    installed = tree(person.home)
    assert not (person.home / ".cache").exists()
    drawn = person.run(command, "tdd", "graph")
    assert (drawn.returncode, "N7" in drawn.stdout) == (0, True), wrong(drawn)

    guarded = guarded_worktree(person, tmp_path, command)

    # Again: the same files, whatever an older version or a killed install left is gone.
    share = person.home / ".local/share"
    outdated = share / "man/man1/git-agentos-outdated.1"
    outdated.write_text("old")
    with (share / "git-agentos/manifest").open("a") as manifest:
        manifest.write(f"file {outdated}\n")
    (share / "git-agentos/venv-20200101T000000Z-4194305").mkdir()
    second = person.install(source=unobtainable(tmp_path / "unobtainable"), PATH=f"{mine.parent}:{person.path}")
    assert second.returncode == 0, wrong(second)
    assert "Updated git-agentos" in second.stdout
    assert "PATH" not in second.stdout
    assert_all_but_extras(person, command, second.stdout)
    assert unstamped(tree(person.home)) == unstamped(installed)
    assert_still_guarded(person, guarded)

    # A failed update: the version before goes on working, and nothing else is there.
    updated = tree(person.home)
    failed = person.install(source=broken_copy(tmp_path / "source"))
    assert failed.returncode == 1, wrong(failed)
    assert "the version that was installed before still works" in failed.stderr
    assert tree(person.home) == updated
    assert person.run(command, "--version").returncode == 0

    removed = person.install("--uninstall")
    assert removed.returncode == 0, wrong(removed)
    assert tree(person.home) == before
    assert mine.read_text() == "mine"


def unobtainable(folder: Path) -> Path:
    """The sources, with a library for `tdd` that nobody has."""
    copy(folder)
    wanted = (folder / "pyproject.toml").read_text()
    assert wanted.count('\n    "langgraph>=') > 1
    (folder / "pyproject.toml").write_text(re.sub(r'"langgraph>=[0-9.]+"', '"langgraph>=9999"', wanted))
    return folder


def assert_all_but_extras(person: Newcomer, command: Path, said: str) -> None:
    """What cannot be had for the extras leaves the rest, and it is told what to do."""
    assert "git agentos tdd, mcp and ui, and encryption in sync, cannot be used here" in said
    assert "Shell text cannot be judged" not in said
    assert person.run(command, "guard", "check", "--shell", "git status").returncode == 0
    refused = person.run(command, "tdd", "graph")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False), wrong(refused)
    advised = said.partition("and encryption in sync, cannot be used here")[2].split("\n")[1]
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {each.partition(">")[0] for extra in ("mcp", "sync", "tdd", "ui") for each in extras[extra]}
    assert set(advised.partition(" pip install ")[2].split()) == named


def guarded_worktree(person: Newcomer, folder: Path, command: Path) -> Path:
    """An agent's worktree with something to lose, made by what is installed."""
    settings = {"XDG_CONFIG_HOME": str(folder / "settings")}
    repo = folder / "repo"
    for words in (["init", "-q", str(repo)], ["-C", str(repo), "commit", "-q", "--allow-empty", "-m", "first"]):
        made = person.run("git", "-c", "user.name=x", "-c", "user.email=x@y", *words)
        assert made.returncode == 0, wrong(made)
    made = person.run(command, "-C", repo, "worktree", "create", "dev", **settings)
    assert made.returncode == 0, wrong(made)
    guarded = folder / "repo.worktrees/dev"
    (guarded / "work.txt").write_text("not committed")
    status = person.run(command, "-C", guarded, "guard", "status", **settings)
    assert "fsmonitor  acts" in status.stdout, wrong(status)
    assert "harness    does not act (harness hooks): no harness is integrated here" in status.stdout, wrong(status)
    made = person.run(command, "-C", guarded, "guard", "integrate", "codex", **settings)
    assert made.returncode == 0, wrong(made)
    status = person.run(command, "-C", guarded, "guard", "status", **settings)
    assert "harness    acts" in status.stdout, wrong(status)  # the libraries that read shell text are there
    return guarded


def assert_still_guarded(person: Newcomer, worktree: Path) -> None:
    """After an update, the scripts that lie in repositories find what is installed now."""
    stopped = person.run("git", "-C", worktree, "clean", "-fd", XDG_CONFIG_HOME=str(worktree.parents[1] / "settings"))
    assert stopped.returncode != 0, wrong(stopped)
    assert "git-agentos: stopped" in stopped.stderr, wrong(stopped)
    assert (worktree / "work.txt").read_text() == "not committed"


def unstamped(paths: list[str]) -> list[str]:
    return ["venv-N" if "/venv-" in path else path for path in paths]


# ------------------------------------------------------------------------------------ one install, looked at


@pytest.mark.slow
@pytest.mark.usefixtures("wheels")
def test_a_trial_below_a_prefix(tmp_path: Path) -> None:
    """One install (they are slow) below a prefix with odd letters, for somebody with odd git settings."""
    person = newcomer(
        tmp_path,
        TMPDIR=str(tmp_path),
        GIT_DIR="/nowhere",
        GIT_DEFAULT_HASH="sha256",
        SHELL="",
        AGENTOS_AGENT_ID="somebody",
    )
    (person.home / ".gitconfig").write_text(
        "[core]\n\tautocrlf = true\n\texcludesFile = ~/ignore\n[status]\n\tshowUntrackedFiles = no\n"
        "[commit]\n\tgpgSign = true\n"
    )
    (person.home / "ignore").write_text("*\n")
    prefix = tmp_path / "a préfix"

    result = person.install("--try", "--prefix", prefix)
    assert_trial_shown(result)
    assert "a scratch repository (sha256)" in result.stdout
    assert tree(person.home) == [".gitconfig", "ignore"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("git-agentos-try")] == []

    assert_executables_start_whatever_python_is_told(person, prefix / "bin")
    if shutil.which("man"):
        assert_manual_is_found(person, prefix)
    share = prefix / "share"
    assert_completions_are_where_shells_look(share)
    assert f'export XDG_DATA_DIRS="{share}:' in result.stdout

    removed = person.install("--uninstall", f"--prefix={prefix}")
    assert removed.returncode == 0, wrong(removed)
    assert not prefix.exists()


def assert_trial_shown(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, wrong(result)
    assert "\nidentical: " in result.stdout
    assert result.stderr == ""
    for command in ("git agentos checkpoint", "git reset --hard && git clean -fd", "git agentos restore latest"):
        assert f"  $ {command}" in result.stdout
    assert len(result.stdout.splitlines()) < 50


def assert_executables_start_whatever_python_is_told(person: Newcomer, folder: Path) -> None:
    elsewhere = person.home.parent / "elsewhere"
    elsewhere.mkdir()
    for module in ("typer", "click", "git_agentos", "sitecustomize"):
        (elsewhere / f"{module}.py").write_text("raise SystemExit('hijacked')\n")
    environment = {"PYTHONPATH": str(elsewhere), "PATH": f"{folder}:{person.path}", "GIT_DIR": ""}
    said = set()
    for name in EXECUTABLES:
        for argv in ((folder / name,), ("git", name.removeprefix("git-"))):
            result = person.run(*argv, "--version", **environment)
            assert result.returncode == 0, wrong(result)
            said.add(result.stdout)
    assert said == {f"git-agentos version {__version__}\n"}


def assert_manual_is_found(person: Newcomer, prefix: Path) -> None:
    for page in (PROJECT / "man").glob("*.1"):
        found = person.run("man", "-w", page.stem, PATH=f"{prefix}/bin:{person.path}")
        assert (found.returncode, found.stdout.strip()) == (0, f"{prefix}/share/man/man1/{page.name}")
    for words in (("help", "agentos"), ("agentos", "--help")):
        path = f"{prefix}/bin:{os.environ['PATH']}"  # man starts a formatter
        shown = person.run("git", *words, PATH=path, MANPAGER="cat", PAGER="cat", GIT_DIR="")
        assert shown.returncode == 0, wrong(shown)
        assert "GIT-AGENTOS(1)" in shown.stdout.upper()


def assert_completions_are_where_shells_look(share: Path) -> None:
    for name in EXECUTABLES:
        assert (share / "bash-completion/completions" / name).stat().st_size > 0
        assert (share / "fish/vendor_completions.d" / f"{name}.fish").stat().st_size > 0
    assert (share / "zsh/site-functions/_git-agentos").read_text().startswith("#compdef git-agentos")
