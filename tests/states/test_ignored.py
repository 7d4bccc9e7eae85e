"""Ignored files: not captured, never lost. DESIGN.md section 4: an ignored file is saved where it matches
`agentos.includeIgnored` or where the operation at hand would overwrite or delete it; all others stay where they are.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.elsewhere import if_possible
from tests.support.repo import Repo
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import assert_same, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool

SCENARIOS = Scenarios()


def _ignoring(repo: Repo, patterns: str) -> None:
    repo.write(".gitignore", patterns)
    repo.commit("ignore")


@SCENARIOS.add(keep=[b"build", b"secret.env"])
def _ignored_files_stay_where_they_are(repo: Repo) -> None:
    _ignoring(repo, "build/\n*.env\n")
    repo.write("build/out.o", "ignored\n")
    repo.mkdir("build/empty")
    repo.write("secret.env", "ignored\n")
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.add()
def _tracked_and_now_ignored(repo: Repo) -> None:
    repo.write(".gitignore", "notes.txt\nsrc/\n")
    repo.append("notes.txt", "tracked, ignored, changed\n")
    repo.append("src/app.py", "# staged\n")
    repo.git("add", "-u", "src")
    repo.append("src/app.py", "# unstaged\n")


@SCENARIOS.add()
def _tracked_now_ignored_and_deleted(repo: Repo) -> None:
    repo.write(".gitignore", "notes.txt\nsrc/\n")
    repo.remove("notes.txt", "src")


@SCENARIOS.add()
def _ignored_then_and_tracked_now(repo: Repo) -> None:
    _ignoring(repo, "out/\n")
    repo.write("out/kept.txt", "forced\n")
    repo.git("add", "-f", "out/kept.txt")
    repo.append("out/kept.txt", "and changed\n")


@SCENARIOS.add()
def _ignored_then_and_untracked_now(repo: Repo) -> None:
    _ignoring(repo, "*.log\n")
    repo.write("run.log", "was ignored\n")
    repo.write(".gitignore", "")


@SCENARIOS.add()
def _gitignore_itself_changed_staged_and_untracked(repo: Repo) -> None:
    _ignoring(repo, "one.tmp\n")
    repo.write(".gitignore", "two.tmp\n")
    repo.add(".gitignore")
    repo.write(".gitignore", "three.tmp\n")
    repo.write("src/.gitignore", "four.tmp\n")
    repo.write("one.tmp", "untracked now\n")
    repo.write("two.tmp", "untracked now\n")


@SCENARIOS.add()
def _gitignore_ignores_itself(repo: Repo) -> None:
    repo.write(".git/info/exclude", "/local\n")
    repo.write("fresh/.gitignore", "nothing-here\n")
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.add()
def _include_ignored(repo: Repo) -> None:
    """`agentos.includeIgnored`: these are captured like any untracked file, and come back after `clean -x`."""
    _ignoring(repo, "*.env\nbuild/\n")
    repo.config("agentos.includeIgnored", "*.env")
    repo.write("secret.env", "captured\n")
    repo.write("src/deep.env", "captured too\n", 0o755)
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.add()
def _include_ignored_folder(repo: Repo) -> None:
    _ignoring(repo, "build/\n")
    repo.config("agentos.includeIgnored", "build/")
    repo.write("build/out/app", bytes(range(256)))
    with if_possible():
        repo.link("build/latest", "out/app")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


def test_gitignore_reverted_does_not_clean_what_it_protected(repo: Repo) -> None:
    """cline#14367. Then: nothing ignored. Now: `.env` ignored, and holding a secret that no checkpoint has."""
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write(".gitignore", ".env\n")
    repo.write(".env", "SECRET=1\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert not repo.exists(".gitignore")
    assert repo.read(".env") == b"SECRET=1\n"
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_file_ignored_at_checkpoint_and_untracked_now_stays(repo: Repo) -> None:
    """Then: `.env` there and ignored. Now: the ignore rule is gone, so `.env` counts as new. It was there then."""
    _ignoring(repo, ".env\n")
    repo.write(".env", "SECRET=1\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove(".gitignore")
    repo.append("readme.txt", "dirty\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


@pytest.mark.parametrize("name", ["~/.gitignore", "{outside}/.gitignore", "../outside/.gitignore", "xdg"])
def test_a_deleted_file_that_the_users_own_rules_ignore_goes(repo: Repo, name: str) -> None:
    """core.excludesFile is often called `.gitignore`. It is no rule of the worktree, which had deleted the file."""
    home, outside = Path(os.environ["HOME"]), repo.path.parent / "outside"
    outside.mkdir()
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "git"
    file = {"~/.gitignore": home / ".gitignore", "xdg": config / "ignore"}.get(name, outside / ".gitignore")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("notes.txt\n")
    try:
        if name != "xdg":
            repo.config("core.excludesFile", name.format(outside=outside))
        repo.git("rm", "-q", "notes.txt")
        before = complete_state(repo.path)
        taken = IN_PROCESS.checkpoint(repo.path)
        repo.git("reset", "-q", "--hard")
        assert IN_PROCESS.restore(repo.path, taken["id"])["skipped"] == []
        assert_same(before, complete_state(repo.path), "restore", branch="any")
    finally:
        file.unlink()


@pytest.mark.parametrize("name", ["rules", "deep/.gitignore", "{root}/rules"])
def test_an_excludes_file_in_the_worktree_is_a_rule_of_the_worktree(repo: Repo, name: str) -> None:
    repo.config("core.excludesFile", name.format(root=repo.path))
    repo.write(name.removeprefix("{root}/"), ".env\n")
    repo.write(".env", "SECRET=1\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove(name.removeprefix("{root}/"))
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


@pytest.mark.parametrize("tool", [IN_PROCESS, COMMAND], ids=["api", "command"])
def test_an_ignored_file_in_the_way_is_saved_first(repo: Repo, tool: Tool) -> None:
    """Then: `config.local` untracked. Now: ignored, with other bytes. They are in the save; undo brings them back."""
    repo.write("config.local", "then\n")
    before = complete_state(repo.path)
    taken = tool.checkpoint(repo.path)
    repo.write(".gitignore", "config.local\n")
    repo.write("config.local", "now, ignored, and in no checkpoint\n", 0o755)
    wrecked = complete_state(repo.path)
    tool.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    tool.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
    tool.undo(repo.path)
    assert_same(before, complete_state(repo.path), "redo", branch="any")


def test_an_ignored_folder_in_the_way_is_saved_first(repo: Repo) -> None:
    """Then: `cache` a file. Now: an ignored folder with files, a link, an empty folder."""
    repo.write("cache", "a file then\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("cache")
    repo.write(".git/info/exclude", "/cache/\n")
    repo.write("cache/deep/one", "1\n")
    with if_possible():
        repo.link("cache/two", "deep/one")
    repo.write("cache/run", "3\n", 0o755)
    repo.mkdir("cache/empty")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any", status=False)
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_an_ignored_file_in_the_way_of_a_folder_is_saved_first(repo: Repo) -> None:
    """Then: `box/inner` tracked. Now: on a branch where `box` is an ignored file."""
    repo.write("box/inner.txt", "inner\n")
    repo.commit("box")
    repo.write("box/inner.txt", "dirty\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("checkout", "-q", "-f", "other")
    repo.remove("box")
    repo.write(".git/info/exclude", "box\n")
    repo.write("box", "ignored\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_an_ignored_file_that_a_deleted_tracked_path_became(repo: Repo) -> None:
    """Then: deleted from the index, gone. Now: tracked again, same name ignored meanwhile: removing it needs a save."""
    repo.git("rm", "-q", "notes.txt")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("reset", "-q", "--hard")
    repo.write(".git/info/exclude", "notes.txt\n")
    repo.write("notes.txt", "tracked, matching an ignore rule, changed\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_an_ignored_folder_keeps_a_new_folder_alive(repo: Repo) -> None:
    """A folder made since goes, but for the ignored file inside it."""
    _ignoring(repo, "*.o\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("new/source.c", "new\n")
    repo.write("new/source.o", "ignored\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert not repo.exists("new/source.c")
    assert repo.read("new/source.o") == b"ignored\n"
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_rules_that_ignore_themselves_protect_as_others_do(repo: Repo) -> None:
    """A `.gitignore` that is ignored is in no checkpoint; it stays, and so does what it hides when it is undone."""
    repo.write(".gitignore", "*\n!readme.txt\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("rm", "-q", "--cached", "notes.txt")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_rules_that_ignore_themselves_in_the_way_of_others(repo: Repo) -> None:
    """The `.gitignore` of the checkpoint replaces one that ignores everything; undo takes nothing away."""
    repo.write(".gitignore", "*.o\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("rm", "-q", "--cached", "notes.txt")
    repo.write(".gitignore", "*\n!readme.txt\n")
    repo.write("secret.key", "ignored by now\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
