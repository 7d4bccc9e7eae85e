"""`forget --path`: files leave all checkpoints, and a restore leaves today's alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.forgotten import holders, take, timeline
from tests.support.repo import Repo
from tests.support.runs import start
from tests.support.tool import run, run_ok

CONTENT = b"dump of customers\n"


def forget(repo: Repo, *globs: str) -> Any:
    return run_ok(repo.path, "forget", *(word for glob in globs for word in ("--path", glob)))


def _skipped(repo: Repo, oid: str) -> list[str]:
    return [each["path"] for each in run_ok(repo.path, "checkpoint", "show", oid)["skipped"]]


def test_a_file_leaves_all_checkpoints(repo: Repo) -> None:
    first = take(repo, 1)[0]
    repo.write("data/dump.sql", CONTENT)
    second = run_ok(repo.path, "checkpoint", "-m", "second")["id"]
    repo.write("data/dump.sql", CONTENT * 2)
    repo.git("add", "data/dump.sql")
    repo.write("data/dump.sql", CONTENT * 3)
    repo.write("data/kept.txt", b"kept\n")
    third = run_ok(repo.path, "checkpoint", "-m", "third")["id"]
    repo.git("rm", "-qf", "--cached", "data/dump.sql")
    repo.write("data/dump.sql", b"today's\n")
    repo.write("data/kept.txt", b"today's\n")
    done = forget(repo, "*.sql")
    new = {each["old"]: each["new"] for each in done["rewritten"]}
    assert list(new) == [third, second]
    assert timeline(repo) == [first, new[second], new[third]]
    assert holders(repo, CONTENT) == []
    assert _skipped(repo, new[second]) == _skipped(repo, third) == ["data/dump.sql"]
    [files] = done["unreachable"]
    assert files.startswith(f"files in '{repo.path}' (data/dump.sql): ")
    for old in (third, second):
        assert run_ok(repo.path, "restore", old, "--no-branch")["checkpoint"] == new[old]
        assert repo.read("data/dump.sql") == b"today's\n"
    run_ok(repo.path, "restore", third, "--no-branch")
    assert repo.read("data/kept.txt") == b"kept\n"
    assert repo.text("ls-files", "data") == ""
    run_ok(repo.path, "undo")
    repo.git("fsck", "--strict", "--no-dangling")


def test_a_tracked_file_keeps_the_users_commit(repo: Repo) -> None:
    repo.write("config.ini", b"committed\n")
    repo.git("add", "config.ini")
    repo.git("commit", "-qm", "config")
    repo.write("config.ini", CONTENT)
    changed = run_ok(repo.path, "checkpoint", "-m", "changed")["id"]
    repo.write("config.ini", b"committed\n")
    repo.write("other.txt", b"other\n")
    unchanged = run_ok(repo.path, "checkpoint", "-m", "unchanged")["id"]
    repo.write("config.ini", b"today's\n")
    done = forget(repo, "/config.ini")
    assert [each["old"] for each in done["rewritten"]] == [changed], unchanged
    assert done["unreachable"][0].startswith("your own commits (config.ini): ")
    assert holders(repo, CONTENT) == []
    new = done["rewritten"][0]["new"]
    assert repo.git("show", f"{new}:config.ini") == b"committed\n", "as in HEAD's commit"
    run_ok(repo.path, "restore", new, "--no-branch")
    assert repo.read("config.ini") == b"today's\n"
    assert repo.text("diff", "--name-only") == "config.ini"


@pytest.mark.parametrize(
    ("glob", "gone"),
    [
        ("*.key", ["a.key", "deep/er/b.key", "deep/c.key"]),
        ("/*.key", ["a.key"]),
        ("deep/", ["deep/c.key", "deep/er/b.key", "deep/er/d.txt"]),
        ("deep/*.key", ["deep/c.key"]),
        ("deep/**/*.key", ["deep/c.key", "deep/er/b.key"]),
        ("**/er", ["deep/er/b.key", "deep/er/d.txt"]),
        ("#odd", ["#odd"]),
        ("nothing", []),
    ],
)
def test_patterns_are_those_of_gitignore(repo: Repo, glob: str, gone: list[str]) -> None:
    for name in ("a.key", "deep/er/b.key", "deep/c.key", "deep/er/d.txt", "#odd"):
        repo.write(name, b"x\n")
    oid = run_ok(repo.path, "checkpoint", "-m", "all")["id"]
    forget(repo, glob)
    assert sorted(_skipped(repo, oid)) == sorted(gone)


@pytest.mark.parametrize("glob", ["", " ", "!*.key", "a\nb"])
def test_what_is_no_pattern(repo: Repo, glob: str) -> None:
    assert run(repo.path, "forget", "--path", glob).code == 2


def test_paths_and_secrets_together(repo: Repo) -> None:
    repo.write("one.txt", b"the secret text\n")
    repo.write("two.txt", CONTENT)
    run_ok(repo.path, "checkpoint", "-m", "both")
    for name in ("one.txt", "two.txt"):
        repo.path.joinpath(name).unlink()
    done = run(repo.path, "forget", "--path", "two.txt", "--secret", "--json", stdin=b"the secret text")
    assert len(done.json["rewritten"]) == 1
    assert holders(repo, CONTENT) == holders(repo, b"the secret text") == []


def test_patches_in_evidence(repo: Repo) -> None:
    made = start(repo, "echo customers > dump.sql; echo work > work.txt", run_id="r-1", cleanup=False)
    assert made.context is not None
    Path(made.context.worktree_path, "dump.sql").unlink()
    assert [each for each in holders(repo, b"+customers") if each.endswith(".patch")]
    forget(repo, "*.sql")
    assert holders(repo, b"customers\n") == []
    assert holders(repo, b"+work")
    verified = run_ok(repo.path, "run", "verify", "r-1")
    assert (verified["problems"], verified["rewritten"]) == ([], True)
    run_ok(repo.path, "rollback", "r-1", "--to", "step:1")


def test_an_archive_comes_back_without_it(repo: Repo) -> None:
    made = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"]))
    made.write("dump.sql", CONTENT)
    made.write("kept.txt", b"kept\n")
    run_ok(repo.path, "worktree", "archive", "dev-1")
    assert forget(repo, "dump.sql")["unreachable"] == []
    assert holders(repo, CONTENT) == []
    revived = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--revive")["path"]))
    assert revived.read("kept.txt") == b"kept\n"
    assert not (revived.path / "dump.sql").exists()
