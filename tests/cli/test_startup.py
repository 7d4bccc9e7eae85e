"""What is loaded when: the start of a process is most of what a small checkpoint costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.cli.command import COMMANDS
from tests.support import ref_storage
from tests.support.repo import Repo
from tests.support.tool import run

HEAVY = (
    "typer",
    "pygit2",
    "git_agentos.git.objects.libgit2",
    "pydantic",
    "rich",
    "click",
    "json",
    "sqlite3",
    "asyncio",
)


@pytest.fixture(autouse=True)
def _nothing_is_integrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a user who has a harness integrated, each command looks for its settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def loaded_by(code: str) -> set[str]:
    """The modules that `code` has loaded in a process of its own."""
    watch = f"import sys\n{code}\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def command(*argv: str) -> str:
    return f"from git_agentos.cli.entry import run\nassert run({argv!r}) == 0"


def test_the_entry_itself_is_light() -> None:
    assert loaded_by("import git_agentos.cli.entry").isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "words",
    [
        ("checkpoint",), ("checkpoint", "-qm", "text", "--meta", "a=b"), ("checkpoint", "list", "-n", "20"),
        ("status",), ("restore", "latest", "--dry-run"), ("log", "add", "decision", "text"), ("log", "list"),
        ("worktree", "list"), ("guard", "check", "--", "git", "status"), ("run", "list"), ("db", "path"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_plain_line_loads_no_parser(repo: Repo, words: tuple[str, ...]) -> None:
    repo.write("new.txt", "x")
    assert run(repo.path, "checkpoint", "-q").code == 0
    assert loaded_by(command("-C", str(repo.path), *words)).isdisjoint({"typer", "git_agentos.cli.app", "difflib"})


@pytest.mark.parametrize(
    "words",
    [("checkpoint",), ("checkpoint", "-qm", "text", "--meta", "a=b")],
    ids=" ".join,
)
def test_a_small_checkpoint_loads_no_libgit2_and_nothing_slow(repo: Repo, words: tuple[str, ...]) -> None:
    repo.write("new.txt", "x")
    assert run(repo.path, "checkpoint", "-q").code == 0
    repo.write("new.txt", "y")
    slow = {"pygit2", "git_agentos.git.objects.libgit2", "inspect", "dataclasses", "shutil", "tempfile", "logging"}
    assert loaded_by(command("-C", str(repo.path), *words)).isdisjoint({*slow, "sqlite3", "asyncio"})


def test_a_command_beside_an_integrated_harness_loads_nothing_slow(repo: Repo) -> None:
    """It looks whether the settings are still there."""
    for name in ("claude-code", "codex", "gemini"):
        assert run(repo.path, "guard", "integrate", name).code == 0
    repo.write("new.txt", "x")
    assert run(repo.path, "checkpoint", "-q").code == 0
    slow = {"pygit2", "inspect", "dataclasses", "tomllib", "shutil", "tempfile", "logging"}
    for words in (("status",), ("checkpoint",), ("checkpoint", "list")):
        loaded = loaded_by(command("-C", str(repo.path), *words))
        assert "git_agentos.guard.harness.removed_settings" in loaded
        assert loaded.isdisjoint({*slow, "git_agentos.guard.harness.integration", "sqlite3", "asyncio"}), words


@pytest.mark.parametrize("words", [("status",), ("checkpoint", "list", "-n", "20"), ("checkpoint", "show", "latest")])
def test_looking_at_checkpoints_loads_nothing_slow(repo: Repo, words: tuple[str, ...]) -> None:
    repo.write("new.txt", "x")
    assert run(repo.path, "checkpoint", "-q").code == 0
    slow = {"pygit2", "git_agentos.git.objects.libgit2", "inspect", "dataclasses", "shutil", "tempfile", "logging"}
    loaded = loaded_by(command("-C", str(repo.path), *words))
    assert loaded.isdisjoint({*slow, "git_agentos.checkpoint.creation", "sqlite3"})


def test_many_reads_load_libgit2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads faster, once it is there, in repositories that it can open."""
    ref_storage.use_oldest(monkeypatch)
    repo = Repo.init(tmp_path / "repo")
    for number in range(300):
        repo.write(f"{number}/file.txt", f"{number}")
    repo.commit("many folders")
    repo.git("repack", "-adq")
    for number in range(300):
        repo.write(f"{number}/file.txt", "changed")
    assert "git_agentos.git.objects.libgit2" in loaded_by(command("-C", str(repo.path), "checkpoint"))


def test_the_argument_parser_loads_neither_pydantic_nor_rich(repo: Repo) -> None:
    """typer sends every word through pydantic (0.29) unless told otherwise: `app._keep_words_as_they_are`."""
    run(repo.path, "checkpoint")
    where = str(repo.path)
    for argv in (
        ("-C", where, "checkpoint", "diff", "latest", "--"),
        ("--version",),
        ("--help",),
    ):
        assert loaded_by(command(*argv)).isdisjoint({"pydantic", "rich", "click", "asyncio"})


def test_a_command_loads_its_own_module_alone(repo: Repo) -> None:
    loaded = loaded_by(command("-C", str(repo.path), "checkpoint"))
    ours = {name.removeprefix("git_agentos.cli.") for name in loaded if name.startswith("git_agentos.cli.")}
    assert ours.isdisjoint({f"commands.{name}" for name in COMMANDS if name != "checkpoint"} | {"completion"})
    assert ours.isdisjoint({"render.json", "crash", "command_tree"})


def test_repository_without_runs_loads_no_run_module(repo: Repo) -> None:
    for words in (("status",), ("checkpoint",), ("restore", "latest", "--dry-run"), ("worktree", "list")):
        loaded = loaded_by(command("-C", str(repo.path), *words))
        assert not {name for name in loaded if name.startswith("git_agentos.run")}, words


OF_TDD = (
    "langgraph",
    "langchain",
    "langchain_core",
    "langsmith",
    "psycopg",
    "bpe_openai",
    "detect_secrets",
    "tiktoken",
)


@pytest.mark.parametrize(
    "words",
    [
        ("--help",), ("tdd", "--help"), ("tdd", "run", "--help"), ("tdd", "gate", "red", "--help"), ("status",),
        ("doctor",), ("checkpoint",), ("worktree", "list"), ("log", "list"), ("run", "list"), ("completion", "bash"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_only_tdd_at_work_loads_langgraph(repo: Repo, words: tuple[str, ...]) -> None:
    assert {name.partition(".")[0] for name in loaded_by(command("-C", str(repo.path), *words))}.isdisjoint(OF_TDD)


def test_import_of_public_tdd_names_loads_no_langgraph() -> None:
    """Nor does anything of the package but what says so."""
    public = "import git_agentos, git_agentos.tdd as tdd\nfor name in tdd.__all__: getattr(tdd, name)"
    modules = "import git_agentos.tdd.workflows, git_agentos.tdd.state_database, git_agentos.tdd.nodes"
    for code in (public, modules):
        assert {name.partition(".")[0] for name in loaded_by(code)}.isdisjoint(OF_TDD), code


def test_only_a_page_loads_jinja2(repo: Repo) -> None:
    for words in (("log", "review"), ("status",), ("log", "--help")):
        assert "jinja2" not in loaded_by(command("-C", str(repo.path), *words)), words


def test_help_needs_no_libgit2() -> None:
    assert loaded_by(command("restore", "--help")).isdisjoint({"pygit2", "git_agentos.git.objects.libgit2"})


@pytest.mark.parametrize("executable", ["main", "checkpoint", "restore", "rollback", "tdd"])
def test_the_executables(executable: str, repo: Repo) -> None:
    start = f"import sys; sys.argv[0] = 'x'; from git_agentos.launch import {executable}; {executable}()"
    done = subprocess.run([sys.executable, "-c", start, "--help"], capture_output=True, text=True, check=True)
    name = "" if executable == "main" else f" {executable}"
    assert done.stdout.startswith(f"usage: git agentos{name} [options]")


def test_a_word_that_is_not_utf8_arrives_as_it_is(repo: Repo) -> None:
    """pydantic would refuse it."""
    name = b"bad\xff name"
    with open(repo.at(name), "wb") as file:
        file.write(b"saved\n")
    run = [sys.executable, "-m", "git_agentos", "-C", str(repo.path)]
    subprocess.run([*run, "checkpoint"], check=True, capture_output=True)
    os.unlink(repo.at(name))
    subprocess.run([*run, "restore", "latest", "--", name], check=True, capture_output=True)
    assert repo.read(name) == b"saved\n"
    shown = subprocess.run([*run, "checkpoint", "cat", b"@{1}:" + name], check=True, capture_output=True)
    assert shown.stdout == b"saved\n"


def test_modules_of_the_repository_are_not_imported(repo: Repo) -> None:
    """`python -m` looks into the current directory first; a repository may have a `queue.py`, a hostile one any."""
    for name in ("queue", "typer", "pygit2", "sqlite3", "fcntl"):
        repo.write(f"{name}.py", "raise SystemExit('imported from the repository')\n")
    assert run(repo.path, "checkpoint", "-q").code == 0
    assert run(repo.path, "log", "list").code == 0
    assert run(repo.path, "worktree", "list").code == 0
