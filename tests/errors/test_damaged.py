"""A file of ours that is damaged is named, passed over by what does not need it, and mended by `doctor --fix`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repo import ZERO, Repo, remove
from tests.support.tool import IN_PROCESS, run, run_ok


def _instead(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


_DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "null": lambda path: path.write_bytes(b"null\n"),
    "list": lambda path: path.write_bytes(b"[]\n"),
    "zeros": lambda path: path.write_bytes(bytes(1 << 20)),
    "folder": lambda path: _instead(path, lambda place: place.mkdir()),
    "link": lambda path: _instead(path, lambda place: place.symlink_to("/etc/passwd")),
    "pipe": lambda path: _instead(path, os.mkfifo),
}


def _restored(repo: Repo) -> Path:
    """A repository in which a restore was finished; its state folder."""
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.append("readme.txt", "later\n")
    IN_PROCESS.restore(repo.path, taken["id"])
    return repo.git_dir / "agentos"


def _codes(repo: Repo, *commands: str) -> dict[str, int]:
    return {command: run(repo.path, *command.split()).code for command in commands}


@pytest.mark.parametrize("damage", ["null", "folder", "pipe"])
def test_a_damaged_journal(repo: Repo, damage: str) -> None:
    folder = _restored(repo)
    last = json.loads((folder / "last-restore.json").read_text())
    (folder / "journal.json").write_text(json.dumps(last))
    _DAMAGES[damage](folder / "journal.json")
    repo.append("readme.txt", "work\n")
    assert _codes(repo, "status", "checkpoint", "checkpoint list", "log list") == dict.fromkeys(
        ("status", "checkpoint", "checkpoint list", "log list"), 0
    )
    for command in ("restore latest", "undo", "recover"):
        done = run(repo.path, *command.split())
        assert done.code == 1 and b"journal.json" in done.err and b"doctor --fix" in done.err, str(done)
    found = run_ok(repo.path, "doctor", "--fix")["findings"]
    assert [each["fixed"] for each in found if each["code"] == "damaged"] == [True]
    assert len(list(folder.glob("journal.json.damaged-*"))) == 1
    assert _codes(repo, "recover", "undo", "doctor") == {"recover": 0, "undo": 0, "doctor": 0}


@pytest.mark.parametrize(("field", "value"), [("target", None), ("paths", 7), ("shifts", [[1, 2, 3]]), ("saved", "zz")])
def test_journal_with_an_invalid_value(repo: Repo, field: str, value: object) -> None:
    folder = _restored(repo)
    last = json.loads((folder / "last-restore.json").read_text())
    rest: dict[str, object] = {"head_ref": None, "head_commit": None, "create": False, "paths": None, "keep_new": False}
    rest |= {"with_operation": True, "original": last["saved"], "stamp": "x"}
    (folder / "journal.json").write_text(json.dumps(last | rest | {field: value}))
    done = run(repo.path, "recover")
    assert done.code == 1 and field.encode() in done.err, str(done)


@pytest.mark.parametrize("damage", ["null"])
def test_a_damaged_record_for_undo(repo: Repo, damage: str) -> None:
    folder = _restored(repo)
    _DAMAGES[damage](folder / "last-restore.json")
    assert _codes(repo, "status", "checkpoint") == {"status": 0, "checkpoint": 0}
    assert run(repo.path, "undo").code == 1
    run_ok(repo.path, "doctor", "--fix")
    assert b"nothing to undo" in run(repo.path, "undo").err


@pytest.mark.parametrize("damage", ["empty", "pipe"])
def test_a_damaged_timeline(repo: Repo, damage: str) -> None:
    """Its own commands fail with a sentence, others go on; and its newest checkpoint is found again."""
    other = Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"])
    ids = []
    for number in range(3):
        (other / "new.txt").write_text(f"{number}\n")
        ids.append(IN_PROCESS.checkpoint(other)["id"])
    IN_PROCESS.checkpoint(repo.path)
    _DAMAGES[damage](repo.git_dir / "refs/agentos/timelines/dev-1")
    sound = ("checkpoint", "checkpoint list --all", "worktree list")
    assert _codes(repo, *sound) == dict.fromkeys(sound, 0)
    assert _codes(Repo(other), "status", "checkpoint", "restore latest") == {
        "status": 0,
        "checkpoint": 1,
        "restore latest": 1,
    }
    findings = run(repo.path, "--json", "doctor").json["findings"]
    assert any(each["code"] == "timeline" and "dev-1" in each["message"] for each in findings)
    run(repo.path, "doctor", "--fix")
    listed = run_ok(other, "checkpoint", "list")["checkpoints"]
    assert [each["id"] for each in listed if each["id"] in ids] == ids[::-1]
    assert _codes(Repo(other), "checkpoint", "restore latest") == {"checkpoint": 0, "restore latest": 0}


def test_a_damaged_stat_cache_costs_time_alone(repo: Repo) -> None:
    repo.write("large.txt", "x" * 100)
    IN_PROCESS.checkpoint(repo.path)
    path = repo.git_dir / "agentos/stat-cache.json"
    found = os.lstat(repo.at("large.txt"))
    row = [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev, found.st_mode]
    rows: list[object] = [7, None, "x", [], [*row, 7], [*row, "zz"], [*row, "g" * len(ZERO)], {}]
    for bad in rows:
        path.write_text(json.dumps({"version": 1, "files": {"large.txt": bad}}))
        repo.append("readme.txt", "more\n")
        assert "large.txt" in IN_PROCESS.checkpoint(repo.path)["untracked_files"]
    for damage in _DAMAGES.values():
        remove(os.fsencode(path))
        path.write_text("{}")
        damage(path)
        repo.append("readme.txt", "more\n")
        assert "large.txt" in IN_PROCESS.checkpoint(repo.path)["untracked_files"]
