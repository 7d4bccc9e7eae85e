"""The shim: what plainly looks goes to git at once, all else is decided first, and no failure lets it through."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from git_agentos.git import process
from tests.support.env import PROJECT_ROOT
from tests.support.repo import Repo, git_run

SOURCE = PROJECT_ROOT / "hooks" / "git-shim"

# Each goes to git without a question.
LOOKS = """
    status
    status --porcelain=v2 -z
    -C . status
    --no-pager log --oneline -5
    diff HEAD~1 --stat
    diff --exit-code HEAD
    log -p --all
    log --format=%H -- readme.txt
    show HEAD:readme.txt
    rev-parse HEAD
    rev-parse --show-toplevel
    ls-files --others --exclude-standard
    ls-files -z
    cat-file -p HEAD
    blame readme.txt
    describe --always
    shortlog -sn HEAD
    rev-list --count HEAD
    merge-base HEAD main
    show-ref
    for-each-ref
    grep -n readme
    branch
    branch -a
    branch -vv
    branch --show-current
    branch --list
    branch --list o*
    branch -a --contains HEAD
    branch --merged main
    branch --sort=-committerdate --format=%(refname)
    reflog
    reflog show HEAD
    reflog -2
    tag
    tag -l
    tag --list v* --sort=refname
    worktree list --porcelain -z
    config user.name
    stash list
    worktree list
    remote -v
    config --get user.name
    config --list
    version
    --version
    diff-tree HEAD -- --output=x
""".strip().splitlines()

# Each is asked about, whatever the answer is then.
ASKED = """
    reset --hard
    commit -m x
    add .
    checkout main
    -c core.hooksPath=/dev/null status
    -c alias.x=reset x
    --git-dir=.git status
    --exec-path=/tmp status
    -p log
    status-of-things
    branch -D other
    branch -f other main
    branch other2
    branch --list -D other
    branch --format=x other2
    branch other2 --list
    branch --edit-description --list
    tag --sort=refname v9
    tag -l --delete v1
    reflog delete HEAD@{0}
    reflog drop --all
    reflog show --output=x
    config edit
    config user.name.x value
    worktree list --porcelain prune
    whatchanged
    branch -avD other
    tag v9
    tag -d v1
    tag -l -d v1
    stash
    stash drop
    stash list --output=x
    worktree remove x
    worktree list remove
    remote remove origin
    remote -v prune origin
    config user.name x
    config --get user.name --unset
    config --list --add
    diff --output=readme.txt
    log --outp=readme.txt -p
    diff --ext-diff
    diff --ext
    grep -O readme
    grep -iOless readme
    grep --open-files-in-pager=less readme
    reflog expire --all
    agentos guard disable
    agentos approvals grant x
    -C
    -C .
    --bogus status
""".strip("\n").splitlines()


class Shim:
    """The shim in a repository; Python is a script that notes what it was asked, and answers as it is told."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.folder = repo.scratch / "agentos" / "guard" / "bin"
        self.folder.mkdir(parents=True)
        self.asked = repo.scratch / "asked"
        self.python = repo.scratch / "python"
        self.answer(3)
        self.place(str(self.python))

    def place(self, python: str) -> None:
        text = SOURCE.read_text().replace("@PYTHON@", f"'{python}'").replace("@RUN@", "-I -m git_agentos.hooks")
        (self.folder / "git").write_text(text)
        (self.folder / "git").chmod(0o755)

    def answer(self, code: int) -> None:
        self.python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" "$PATH" >>"{self.asked}"\nexit {code}\n')
        self.python.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", **more}

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
        self.asked.unlink(missing_ok=True)
        env = self.environment(**more)
        return subprocess.run(["git", *words], cwd=self.repo.path, env=env, capture_output=True, check=False)

    @property
    def was_asked(self) -> bool:
        return self.asked.exists()


@pytest.fixture
def shim(repo: Repo) -> Shim:
    return Shim(repo)


@pytest.mark.parametrize("line", [line.strip() for line in LOOKS])
def test_reading_command_is_not_assessed(shim: Shim, line: str) -> None:
    plain = git_run(shim.repo.path, *line.split())
    through = shim.run(*line.split())
    assert not shim.was_asked
    assert (through.returncode, through.stdout, through.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize("line", [line.strip() for line in ASKED])
def test_other_command_is_assessed_and_stopped_when_denied(shim: Shim, line: str) -> None:
    before = shim.repo.text("for-each-ref"), shim.repo.text("config", "--list")
    done = shim.run(*line.split())
    assert done.returncode == 3
    asked = shim.asked.read_text().splitlines()
    assert asked[0] == f"-I -m git_agentos.hooks shim {line}"
    assert str(shim.folder) not in asked[1]  # our own git calls must not come here
    assert (shim.repo.text("for-each-ref"), shim.repo.text("config", "--list")) == before


@pytest.mark.parametrize(
    "variable", ["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH"]
)
def test_an_environment_that_can_hide_something_is_asked_about(shim: Shim, variable: str) -> None:
    assert shim.run("diff", **{variable: "1"}).returncode == 3
    assert shim.was_asked


@pytest.mark.parametrize(
    ("pager", "asked"),
    [
        ("", False), ("cat", False), ("less", False), ("less -FRX", False), ("less -F; git reset --hard", True),
        ("git reset --hard", True), ("./pager", True), ("less -F|sh", True),
    ],
)  # fmt: skip
def test_a_pager_is_a_command_too(shim: Shim, pager: str, asked: bool) -> None:
    shim.run("log", GIT_PAGER=pager)
    assert shim.was_asked is asked


def test_other_user_configuration_is_assessed(shim: Shim, tmp_path: Path) -> None:
    home, base = os.environ["HOME"], os.environ.get("XDG_CONFIG_HOME", "")
    same = [os.environ.get(name, "") for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")]
    places = {"AGENTOS_GUARD_PLACES": "|".join([home, base, *same])}
    for more, asked in (
        ({}, False),
        ({"HOME": str(tmp_path)}, True),
        ({"XDG_CONFIG_HOME": str(tmp_path)}, True),
        ({"GIT_CONFIG_GLOBAL": str(tmp_path / "config")}, True),
        ({"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}, False),
    ):
        shim.run("diff", **{**places, **more})
        assert shim.was_asked is asked, more


def test_yes_runs_git_as_it_was_called(shim: Shim) -> None:
    shim.answer(0)
    words = ["commit", "--allow-empty", "-m", "a 'quoted'  $(touch x) *\nline", "--", ""]
    assert shim.run(*words[:-2]).returncode == 0
    assert shim.repo.text("log", "-1", "--format=%B") == "a 'quoted'  $(touch x) *\nline"
    done = subprocess.run(
        ["git", "hash-object", "--stdin"], input=b"data", cwd=shim.repo.path, env=shim.environment(),
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == shim.repo.git("hash-object", "--stdin", stdin=b"data")
    assert shim.run("no-such-command").returncode == git_run(shim.repo.path, "no-such-command").returncode


@pytest.mark.parametrize("code", [1, 2, 70, 127, 139])
def test_no_answer_is_a_no(shim: Shim, code: int) -> None:
    shim.answer(code)
    done = shim.run("reset", "--hard")
    assert done.returncode == 3
    assert b"failed" in done.stderr


def test_missing_python_stops_risky_commands(shim: Shim) -> None:
    shim.place("/nowhere/python")
    folder = shim.repo.scratch / "only-git"
    folder.mkdir()
    for name in ("git", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    path = f"{shim.folder}:{folder}"
    done = shim.run("reset", "--hard", PATH=path)
    assert done.returncode == 3
    assert b"no longer installed" in done.stderr
    assert shim.run("status", PATH=path).returncode == 0
    tool = folder / "git-agentos"
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >"{shim.asked}"\nexit 0\n')
    tool.chmod(0o755)
    assert shim.run("reset", "--hard", PATH=path).returncode == 0
    assert shim.asked.read_text() == "hook shim reset --hard\n"


def test_two_shims_do_not_call_each_other_for_ever(shim: Shim, make_repo: object, tmp_path: Path) -> None:
    second = tmp_path / "second" / "agentos" / "guard" / "bin"
    shutil.copytree(shim.folder, second)
    done = shim.run("status", PATH=f"{second}/:{shim.folder}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (0, git_run(shim.repo.path, "status").stdout)


def test_missing_git_is_an_error(shim: Shim, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    done = shim.run("status", PATH=f"{shim.folder}:{tmp_path / 'bin'}")
    assert done.returncode == 127
    assert b"git is not on the PATH" in done.stderr


def test_a_folder_named_git_and_an_empty_entry_are_no_git(shim: Shim, tmp_path: Path) -> None:
    (tmp_path / "odd" / "git").mkdir(parents=True)
    shim.repo.write("git", "#!/bin/sh\necho planted\n", 0o755)
    done = shim.run("version", PATH=f"{shim.folder}::{tmp_path / 'odd'}:{os.environ['PATH']}")
    assert done.stdout == git_run(shim.repo.path, "version").stdout


def test_our_own_git_calls_go_past_it(shim: Shim) -> None:
    env: Mapping[str, str] = shim.environment()
    assert process.run(["status", "--porcelain"], cwd=str(shim.repo.path), env=env) == b""
    assert process.run(["reset", "-q", "--hard"], cwd=str(shim.repo.path), env=env) == b""
    assert not shim.was_asked
    assert process.program(os.environ["PATH"]) is None


def test_reading_command_starts_no_other_program(shim: Shim) -> None:
    """Only the kernel and git: a builtin of sh that is none somewhere would show up here."""
    folder = shim.repo.scratch / "bare"
    folder.mkdir()
    (folder / "git").symlink_to(str(shutil.which("git")))
    done = subprocess.run(
        ["/bin/sh", str(shim.folder / "git"), "status", "--short"], cwd=shim.repo.path, capture_output=True,
        check=False, env={**shim.environment(), "PATH": f"{shim.folder}:{folder}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(["shellcheck", "-s", "sh", str(SOURCE)], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
