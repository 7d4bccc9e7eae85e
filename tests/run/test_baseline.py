"""What a rollback is told of how everything was made, and what it does without."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from git_agentos.checkpoint import format
from git_agentos.checkpoint.capture import listing
from git_agentos.git.location import locate
from git_agentos.run import baseline
from git_agentos.workspace import open_workspace
from tests.support.repo import Repo
from tests.support.rollbacks import RolledBackWorktree, prepare


@pytest.fixture
def ground(repo: Repo) -> RolledBackWorktree:
    return prepare(repo)


def test_new_worktree_has_no_changes(ground: RolledBackWorktree) -> None:
    location = locate(str(ground.path))
    known = baseline.read(location)
    assert known is not None
    look = baseline.compare(location, known)
    young = {path for path, row in known.young.items() if row is None}
    assert look.touched is not None
    assert set(look.touched) == young
    assert look.walked.folders == listing.list_directories(location.root).folders


def test_changed_files_are_found(ground: RolledBackWorktree) -> None:
    """Contents, bits, an edit of the same size whose time is set back; and what is gone."""
    location = locate(str(ground.path))
    known = baseline.read(location)
    notes = ground.path / "notes.txt"
    found = notes.stat()
    notes.write_bytes(b"x" * found.st_size)
    os.utime(notes, ns=(found.st_atime_ns, found.st_mtime_ns))
    ground.there.chmod("run.sh", 0o700)
    ground.there.remove("data.bin")
    ground.there.write("readme.txt", "changed\n")
    assert known is not None
    touched = baseline.compare(location, known).touched
    assert touched is not None
    assert touched >= {b"notes.txt", b"run.sh", b"data.bin", b"readme.txt"}


def test_walk_with_a_record_finds_the_same_as_without(ground: RolledBackWorktree) -> None:
    location = locate(str(ground.path))
    ground.there.write("build/deep/file", "x")
    ground.there.mkdir("docs/empty")
    ground.there.remove("cache")
    os.mkfifo(ground.path / "docs/pipe")
    Repo.init(ground.path / "inner")
    known = baseline.read(location)
    assert known is not None
    one, other = baseline.compare(location, known).walked, listing.list_directories(location.root)
    assert one.folders == other.folders
    assert one.empty == other.empty == [b"docs/empty"]
    assert (one.special, one.repositories, one.odd) == (other.special, other.repositories, other.odd)
    assert one.special == [b"docs/pipe"]
    assert one.repositories == [b"inner"]
    others = set(ground.there.git("ls-files", "--others", "-z").split(b"\0")) - {b"", b"inner/"}
    assert {path for path in others if not path.startswith(b".agentos/")} <= set(one.names)


def test_unrecorded_folder_below_a_recorded_one_is_read(repo: Repo) -> None:
    """A folder that is as it was tells of all the folders in it, of those too that are looked into every time."""
    ground = prepare(repo)
    location = locate(str(ground.path))
    path = Path(location.state_dir) / "pristine/manifest.json"
    time.sleep(0.1)
    os.mkfifo(ground.path / "cache/empty/pipe")
    baseline.record(open_workspace(str(ground.path)).context)
    assert json.loads(path.read_text())["folders"]["cache"][2] > 0
    ground.there.write("cache/empty/later", "x")
    known = baseline.read(location)
    assert known is not None
    assert b"cache/empty/later" in baseline.compare(location, known).walked.names


@pytest.mark.parametrize(
    "damage", ["", "{", '{"version": 1}', '{"version": 2}', "[]", '{"version":1,"folders":{"":[1]}}']
)
def test_damaged_record_is_ignored(ground: RolledBackWorktree, damage: str) -> None:
    location = locate(str(ground.path))
    path = Path(location.state_dir) / "pristine/manifest.json"
    assert json.loads(path.read_text())["version"] == 1
    path.write_text(damage)
    assert baseline.read(location) is None
    assert baseline.compare(location, None).touched is None


def test_missing_record_compares_everything(ground: RolledBackWorktree) -> None:
    ground.there.chmod("notes.txt", 0o600)
    ground.there.write("readme.txt", "changed\n")
    inner = ground.service._context
    location = locate(str(ground.path))
    inner = inner._replace(repository=type(inner.repository)(location))
    state = format.read_state(inner.repository, ground.roll_back(dry_run=True).checkpoint)
    assert baseline.changed_by_reading(inner, state) == {b"notes.txt", b"readme.txt"}
