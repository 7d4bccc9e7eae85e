"""Index different from HEAD, worktree different from index, in every combination a path can have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.tool import Tool

SCENARIOS = Scenarios()


@SCENARIOS.add()
def _clean(repo: Repo) -> None:
    """Nothing differs from HEAD."""


@SCENARIOS.add()
def _staged_differs_from_worktree(repo: Repo) -> None:
    repo.write("readme.txt", "staged\n")
    repo.add("readme.txt")
    repo.write("readme.txt", "in the worktree\n")
    repo.write("new.txt", "staged new\n")
    repo.add("new.txt")
    repo.append("new.txt", "and more\n")
    repo.write("untracked.txt", "untracked\n")


@SCENARIOS.add()
def _staged_and_reverted_in_worktree(repo: Repo) -> None:
    kept = repo.read("src/app.py")
    repo.write("src/app.py", "staged\n")
    repo.add("src/app.py")
    repo.write("src/app.py", kept)


@SCENARIOS.add()
def _staged_delete(repo: Repo) -> None:
    repo.git("rm", "-q", "readme.txt", "src/lib/util.py")


@SCENARIOS.add()
def _staged_delete_with_the_file_still_there(repo: Repo) -> None:
    repo.git("rm", "-q", "--cached", "readme.txt", "run.sh")
    repo.append("run.sh", "# changed\n")


@SCENARIOS.add()
def _unstaged_delete(repo: Repo) -> None:
    repo.remove("readme.txt", "src", "link")


@SCENARIOS.add()
def _staged_new_then_deleted(repo: Repo) -> None:
    repo.write("new.txt", "staged\n")
    repo.add("new.txt")
    repo.remove("new.txt")


@SCENARIOS.add()
def _staged_change_then_deleted(repo: Repo) -> None:
    repo.write("readme.txt", "staged\n")
    repo.add("readme.txt")
    repo.remove("readme.txt")


@SCENARIOS.add()
def _mode_change_unstaged(repo: Repo) -> None:
    repo.chmod("readme.txt", 0o755)
    repo.chmod("run.sh", 0o644)


@SCENARIOS.add()
def _mode_change_staged(repo: Repo) -> None:
    repo.chmod("readme.txt", 0o755)
    repo.add("readme.txt")
    repo.chmod("run.sh", 0o644)
    repo.add("run.sh")


@SCENARIOS.add()
def _mode_change_staged_and_taken_back(repo: Repo) -> None:
    repo.chmod("readme.txt", 0o755)
    repo.add("readme.txt")
    repo.chmod("readme.txt", 0o644)
    repo.write("tool.sh", "#!/bin/sh\n", 0o755)


@SCENARIOS.add()
def _intent_to_add(repo: Repo) -> None:
    repo.write("wanted.txt", "wanted\n")
    repo.write("wanted-empty.txt", "")
    repo.write("deep/wanted.sh", "#!/bin/sh\n", 0o755)
    repo.git("add", "-N", "wanted.txt", "wanted-empty.txt", "deep/wanted.sh")
    repo.write("readme.txt", "staged beside it\n")
    repo.add("readme.txt")


@SCENARIOS.add()
def _intent_to_add_then_deleted(repo: Repo) -> None:
    repo.write("wanted.txt", "wanted\n")
    repo.git("add", "-N", "wanted.txt")
    repo.remove("wanted.txt")


@SCENARIOS.add()
def _intent_to_add_of_a_link_and_a_deleted_path(repo: Repo) -> None:
    repo.link("wanted-link", "readme.txt")
    repo.git("rm", "-q", "--cached", "notes.txt")
    repo.git("add", "-N", "wanted-link", "notes.txt")


@SCENARIOS.add()
def _empty_staged_file_is_no_intent(repo: Repo) -> None:
    repo.write("empty.txt", "")
    repo.add("empty.txt")


@SCENARIOS.add()
def _assume_unchanged(repo: Repo) -> None:
    repo.git("update-index", "--assume-unchanged", "readme.txt", "notes.txt", "src/app.py")
    repo.write("readme.txt", "an edit that git status does not see\n")
    repo.remove("notes.txt")


@SCENARIOS.add()
def _skip_worktree(repo: Repo) -> None:
    repo.git("update-index", "--skip-worktree", "readme.txt", "notes.txt", "data.bin")
    repo.write("readme.txt", "an edit that git status does not see\n")
    repo.remove("notes.txt")


@SCENARIOS.add()
def _both_flags_and_staged(repo: Repo) -> None:
    repo.write("readme.txt", "staged\n")
    repo.add("readme.txt")
    repo.git("update-index", "--assume-unchanged", "readme.txt")
    repo.git("update-index", "--skip-worktree", "readme.txt")
    repo.write("readme.txt", "hidden\n")


@SCENARIOS.add()
def _rename_staged(repo: Repo) -> None:
    repo.git("mv", "src/lib/util.py", "src/renamed.py")
    repo.git("mv", "readme.txt", "docs/readme.md")


@SCENARIOS.add()
def _rename_staged_and_edited(repo: Repo) -> None:
    repo.git("mv", "src/lib/util.py", "src/renamed.py")
    repo.append("src/renamed.py", "an edit\n")


@SCENARIOS.add()
def _rename_unstaged(repo: Repo) -> None:
    repo.mkdir("moved")
    (repo.path / "src/lib/util.py").rename(repo.path / "moved/util.py")
    (repo.path / "docs").rename(repo.path / "documents")


@SCENARIOS.add()
def _rename_swapped(repo: Repo) -> None:
    one, two = repo.read("readme.txt"), repo.read("notes.txt")
    repo.write("readme.txt", two)
    repo.write("notes.txt", one)
    repo.add("readme.txt")


@SCENARIOS.add()
def _rename_of_case_only(repo: Repo) -> None:
    repo.git("mv", "readme.txt", "README.TXT")
    if "README.TXT" not in os.listdir(repo.path):
        pytest.skip("a rename to the same name in another case does nothing here")
    repo.write("readme.txt", "both now\n")


@SCENARIOS.add()
def _everything_removed(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", ".")


@SCENARIOS.add()
def _empty_directories(repo: Repo) -> None:
    repo.mkdir("empty")
    repo.mkdir("deep/er/empty")
    repo.mkdir("src/lib/empty")
    repo.mkdir("half/empty")
    repo.write("half/file.txt", "half\n")
    repo.remove("docs/guide.md")


@SCENARIOS.add()
def _the_state_that_no_peer_could_bring_back(repo: Repo) -> None:
    """FIELD-NOTES, "What no peer could do"."""
    repo.write("readme.txt", "staged\n")
    repo.add("readme.txt")
    repo.write("readme.txt", "worktree\n")
    repo.chmod("src/app.py", 0o755)
    repo.link("link", "notes.txt")
    repo.remove("docs/guide.md")
    repo.write("docs/guide.md/now/a-folder.txt", "untracked below a tracked name\n")
    repo.write("four.bin", bytes(range(256)) * 16 * 1024)
    repo.mkdir("empty")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)
