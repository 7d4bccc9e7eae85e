"""Small packs and loose objects of checkpoints are packed together, and nothing gets lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.git import consolidation
from git_agentos.git.hash_algorithm import BY_NAME
from git_agentos.git.location import locate
from git_agentos.git.repository import Repository, Writer
from tests.support.repo import Repo

WHO = b"A U Thor <author@example.com>"


@pytest.fixture(params=BY_NAME)
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "repo", f"--object-format={request.param}")
    made.write("file", "a file\n")
    made.commit("first")
    return made


def packs(repo: Repo) -> set[str]:
    return {path.name.removesuffix(".pack") for path in (repo.git_dir / "objects/pack").glob("*.pack")}


def loose(repo: Repo) -> int:
    return int(repo.text("count-objects").split()[0])


def notes(repo: Repo) -> list[str]:
    path = repo.git_dir / "agentos/loose-objects"
    return path.read_text().splitlines() if path.exists() else []


def save(repo: Repo, number: int, count: int) -> set[str]:
    """Write blobs and a tag that reaches them, and note them; the ids."""
    repository = Repository(locate(str(repo.path)))
    with repository.writer() as writer:
        written = _write(repo, writer, number, count)
        consolidation.note(repository, writer)
    return written


def _write(repo: Repo, writer: Writer, number: int, count: int) -> set[str]:
    blobs = [writer.write("blob", b"%d of %d\n" % (n, number)) for n in range(count)]
    entries = b"".join(b"100644 %04d\0%b" % (n, bytes.fromhex(oid)) for n, oid in enumerate(blobs))
    tree = writer.write_tree(entries)
    commit = writer.write_commit(tree, [], b"%d\n" % number, WHO, 1_700_000_000)
    writer.flush()
    repo.git("update-ref", f"refs/saved/{number}", commit)
    return {*blobs, tree, commit}


def assert_sound(repo: Repo, written: set[str]) -> None:
    assert repo.git("fsck", "--strict", "--full", "--no-dangling") == b""
    data = "".join(f"{oid}\n" for oid in sorted(written)).encode()
    assert b"missing" not in repo.git("cat-file", "--batch-check", stdin=data)


def test_sixteen_small_packs_become_one(repo: Repo) -> None:
    before, written = loose(repo), set()
    for number in range(15):
        written |= save(repo, number, 10)
    assert len(packs(repo)) == len(notes(repo)) == 15
    written |= save(repo, 15, 10)
    [made] = packs(repo)
    assert notes(repo) == [f"{made} {16 * 12}"]
    assert loose(repo) == before
    assert_sound(repo, written)


def test_the_number_of_packs_has_a_bound(repo: Repo) -> None:
    """A pack of 1000 objects or more is left to `git gc`."""
    written = set()
    for number in range(40):
        written |= save(repo, number, 58)
        assert len(notes(repo)) < 16
    assert len(packs(repo)) - len(notes(repo)) == 40 * 60 // 1000
    assert_sound(repo, written)


def test_loose_objects_are_packed_with_packs(repo: Repo) -> None:
    before, written = loose(repo), set()
    for number in range(2):
        written |= save(repo, number, 1)
    assert loose(repo) == before + 6
    for number in range(2, 18):
        written |= save(repo, number, 10)
    assert len(packs(repo)) == 1 and loose(repo) == before
    assert_sound(repo, written)


@pytest.mark.parametrize("kind", ["large", "many"])
def test_large_packs_stay_as_they_are(kind: str, repo: Repo) -> None:
    repository = Repository(locate(str(repo.path)))
    with repository.writer() as writer:
        if kind == "large":
            for n in range(5):
                writer.write("blob", os.urandom(1 << 20) + bytes([n]))
            writer.flush()
        else:
            _write(repo, writer, 99, 1200)
        consolidation.note(repository, writer)
    [large] = packs(repo)
    for number in range(16):
        save(repo, number, 10)
    assert large in packs(repo) and len(packs(repo)) == 2


def test_packs_of_a_multi_pack_index_stay(repo: Repo) -> None:
    written = save(repo, 0, 10)
    [named] = packs(repo)
    repo.git("multi-pack-index", "write")
    for number in range(1, 16):
        written |= save(repo, number, 10)
    assert named in packs(repo) and len(packs(repo)) == 2
    repo.git("multi-pack-index", "verify")
    assert_sound(repo, written)


def test_packs_that_others_have_removed(repo: Repo) -> None:
    """`git gc` packs everything in the meantime."""
    written = set()
    for number in range(15):
        written |= save(repo, number, 10)
    repo.git("gc", "-q")
    written |= save(repo, 15, 10)
    assert len(packs(repo)) == 2
    assert_sound(repo, written)


def test_nothing_is_removed_while_a_gc_runs(repo: Repo) -> None:
    """A gc that has seen the index of a pack fails if it is gone before it is read."""
    running = repo.git_dir / "gc.pid"
    written = set()
    for number in range(15):
        written |= save(repo, number, 10)
    running.write_text(f"{os.getpid()} {os.uname().nodename}")
    for number in range(15, 18):
        written |= save(repo, number, 10)
    assert len(packs(repo)) == 18
    running.write_text(f"{os.getpid()} another-machine")
    written |= save(repo, 18, 10)
    assert len(packs(repo)) == 19
    os.utime(running, (0, 0))
    written |= save(repo, 19, 10)
    assert len(packs(repo)) == 1
    assert_sound(repo, written)


def test_a_gc_that_begins_meanwhile(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was packed stays, and is removed by the next that packs."""
    written = set()
    for number in range(15):
        written |= save(repo, number, 10)
    answers = [False, True]
    with monkeypatch.context() as patched:
        patched.setattr("git_agentos.git.gc.is_running", lambda _location: answers.pop(0))
        written |= save(repo, 15, 10)
    assert answers == [] and len(packs(repo)) == 17
    for number in range(16, 32):
        written |= save(repo, number, 10)
    assert len(packs(repo)) == 1 + 1  # the one that was made while the gc ran is left to `git gc`
    assert_sound(repo, written)


def test_notes_that_are_damaged(repo: Repo) -> None:
    written = save(repo, 0, 10)
    path = repo.git_dir / "agentos/loose-objects"
    rows = ["", "\xff", "pack-", "pack-zz 1", f"pack-{'1' * 40} many", f"pack-{'2' * len(repo.oid())} 3", "../x 5000"]
    path.write_bytes("\n".join([*rows, path.read_text()]).encode("latin-1"))
    for number in range(1, 16):
        written |= save(repo, number, 10)
    assert len(packs(repo)) == 2
    assert_sound(repo, written)


def test_a_pack_is_not_touched_before_a_ref_reaches_it(repo: Repo) -> None:
    """What hooks note for later has keep files, which would be in vain for another pack."""
    repository = Repository(locate(str(repo.path)))
    with repository.writer() as writer:
        for n in range(10):
            writer.write("blob", b"unreachable %d\n" % n)
        [keep] = writer.keep_without_ref()
        assert writer.packs == []
        consolidation.note(repository, writer)
    kept = os.path.basename(keep).removesuffix(".keep")
    assert kept in packs(repo) and not (repo.git_dir / "agentos/loose-objects").exists()
    consolidation.note_packs(repository, [keep.removesuffix(".keep"), keep])
    assert notes(repo) == [f"{kept} 10"]


def test_readers_that_have_old_packs_open(repo: Repo) -> None:
    """They find in the new pack what they have not read yet."""
    written = set()
    for number in range(15):
        written |= save(repo, number, 10)
    reader = Repository(locate(str(repo.path)))
    order = iter(sorted(written))
    assert reader.exists(next(order)) and reader.read(next(order))
    written |= save(repo, 15, 10)
    assert len(packs(repo)) == 1
    for oid in order:
        assert reader.read(oid)


@pytest.mark.parametrize("step", range(1, 6))
def test_interrupted_between_removals(step: int, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one goes on, without a second copy of what was packed."""
    written = set()
    for number in range(15):
        written |= save(repo, number, 10)
    unlink, seen = os.unlink, []

    def failing(path: str, **options: int | None) -> None:
        if "/pack-" in str(path) and not str(path).endswith(".keep"):
            seen.append(path)
            if len(seen) == step:
                raise KeyboardInterrupt
        unlink(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", failing)
        with pytest.raises(KeyboardInterrupt):
            save(repo, 15, 10)
    written |= {oid for n in range(16) for oid in repo.text("rev-list", "--objects", f"refs/saved/{n}").split()}
    written = {oid for oid in written if len(oid) == len(repo.oid())}
    assert_sound(repo, written)
    for number in range(16, 32):
        written |= save(repo, number, 10)
    assert len(packs(repo)) <= 3
    assert_sound(repo, written)


def test_checkpoints_stay_whole(repo: Repo) -> None:
    """Each of forty, of one changed file: git finds no fault, and each has its content."""
    workspace = open_workspace(repo.path)
    ids = []
    for number in range(40):
        repo.write("file", f"{number}\n")
        ids.append(workspace.checkpoint(f"{number}").id)
    assert len(packs(repo)) < 16
    assert not list((repo.git_dir / "objects/pack").glob("*.keep"))
    assert repo.git("fsck", "--strict", "--full", "--no-dangling") == b""
    assert [repo.git("show", f"{oid}:file") for oid in ids] == [b"%d\n" % number for number in range(40)]
