"""What is written past git, read by git: loose objects and packs, in repositories of either hash algorithm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.git import trees
from git_agentos.git.hash_algorithm import BY_NAME, is_any_oid, of_oid
from git_agentos.git.location import locate
from git_agentos.git.objects.pack import FileChanged
from git_agentos.git.repository import Repository, Writer
from tests.support.repo import Repo

WHO = b"A U Thor <author@example.com>"


@pytest.fixture(params=BY_NAME)
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "repo", f"--object-format={request.param}")
    made.write("file", "a file\n")
    made.commit("first")
    return made


def opened(repo: Repo) -> Repository:
    return Repository(locate(str(repo.path)))


def write_files(writer: Writer, count: int) -> str:
    """A tree of files in folders; its oid."""
    return trees.build(
        writer,
        {b"%d/file-%d" % (n % 7, n): (trees.REGULAR, writer.write("blob", b"content %d\n" % n)) for n in range(count)},
    )


def assert_sound(repo: Repo) -> None:
    assert repo.git("fsck", "--strict", "--full", "--no-dangling") == b""
    for pack in sorted((repo.git_dir / "objects/pack").glob("*.idx")):
        repo.git("verify-pack", "-v", str(pack))
        repo.git("index-pack", "--strict", "--verify", str(pack.with_suffix(".pack")))


@pytest.mark.parametrize("count", [1, 300])
def test_git_reads_what_is_written(repo: Repo, count: int) -> None:
    """Few objects are loose, many a pack: git finds no fault, and lists the same files."""
    with opened(repo).writer() as writer:
        tree = write_files(writer, count)
        commit = writer.write_commit(tree, [repo.oid()], b"a message\n", WHO, 1_700_000_000)
        writer.flush()
        repo.git("update-ref", "refs/heads/written", commit)
    packs = list((repo.git_dir / "objects/pack").glob("*.pack"))
    assert bool(packs) == (count > 4)
    assert_sound(repo)
    assert len(repo.git("ls-tree", "-r", "written").splitlines()) == count
    assert repo.git("cat-file", "blob", "written:0/file-0") == b"content 0\n"
    assert repo.text("log", "-1", "--format=%P %s", "written") == f"{repo.oid()} a message"
    assert trees.diff(opened(repo), tree, opened(repo).commit_tree(repo.oid("written"))) == {}


def test_a_pack_has_the_checksum_of_its_algorithm(repo: Repo) -> None:
    """gitformat-pack(5): pack and index end with checksums of the algorithm; the pack is named by its own."""
    with opened(repo).writer() as writer:
        write_files(writer, 300)
        writer.flush()
    [pack] = (repo.git_dir / "objects/pack").glob("*.pack")
    algorithm = of_oid(repo.oid())
    for path in (pack, pack.with_suffix(".idx")):
        data = path.read_bytes()
        assert algorithm.new(data[: -algorithm.raw_length]).digest() == data[-algorithm.raw_length :]
    assert pack.name == f"pack-{pack.read_bytes()[-algorithm.raw_length :].hex()}.pack"
    assert not list((repo.git_dir / "objects/pack").glob("*.keep"))


def test_large_files_are_streamed(repo: Repo, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(3 << 20) + bytes(3 << 20))
    with opened(repo).writer() as writer, large.open("rb") as file:
        size = large.stat().st_size
        oid = writer.write_stream(file.fileno(), size)
        file.seek(0)
        with pytest.raises(FileChanged):
            writer.write_stream(file.fileno(), size - 1)
        writer.flush()
    assert oid == repo.text("hash-object", str(large)) == opened(repo).hash.hash_file(str(large))
    assert repo.git("cat-file", "blob", oid) == large.read_bytes()
    assert_sound(repo)


def test_ids_are_gits(repo: Repo) -> None:
    algorithm = opened(repo).hash
    for data in (b"", b"text\n", os.urandom(100_000)):
        oid = repo.git("hash-object", "--stdin", stdin=data).decode().strip()
        assert oid == algorithm.hash_blob(data) == algorithm.object_id("blob", data)
        assert of_oid(oid) is algorithm and is_any_oid(oid) and algorithm.is_oid(oid)
        assert not algorithm.is_oid(oid[:-1]) and not algorithm.is_oid(oid + "0") and not algorithm.is_oid(oid.upper())
        assert algorithm.can_be_prefix(oid[:9]) and not algorithm.can_be_prefix(oid + "0")
    assert algorithm.empty_tree == repo.git("hash-object", "-t", "tree", "--stdin").decode().strip()
    assert set(algorithm.zero) == {"0"} and len(algorithm.zero) == len(repo.oid())


_WRITE = """
import os, signal, sys
from git_agentos.git import trees
from git_agentos.git.location import locate
from git_agentos.git.repository import Repository
real, left = os.rename, [int(sys.argv[1])]
def rename(*args, **options):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return real(*args, **options)
os.rename = rename
with Repository(locate(".")).writer() as writer:
    for n in range(int(sys.argv[2])):
        writer.write("blob", b"content %d" % n)
    writer.flush()
"""


@pytest.mark.parametrize(("count", "renames"), [(4, 0), (4, 3), (5, 0), (5, 1), (2000, 0), (2000, 1)])
def test_a_killed_writer_leaves_a_sound_store(repo: Repo, count: int, renames: int) -> None:
    """Killed before any of its renames: git finds no fault, and prunes what is left."""
    words = [sys.executable, "-c", _WRITE, str(renames), str(count)]
    assert subprocess.run(words, cwd=repo.path, check=False).returncode == -signal.SIGKILL
    assert_sound(repo)
    repo.git("prune", "--expire=now")
    for keep in (repo.git_dir / "objects/pack").glob("*.keep"):
        keep.unlink()  # `doctor` removes it
    repo.git("repack", "-adq")
    repo.git("prune", "--expire=now")
    assert list((repo.git_dir / "objects").rglob("tmp_*")) == []
    assert_sound(repo)
