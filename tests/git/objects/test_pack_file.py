"""Objects that are read from packs without git: what is read is what git reads, and what is not is left to git."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from git_agentos.errors import RepositoryError
from git_agentos.git.hash_algorithm import BY_NAME, of_oid
from git_agentos.git.location import locate
from git_agentos.git.objects.pack_file import PackFile
from git_agentos.git.objects.pack_index import PackIndex
from git_agentos.git.objects.plumbing import PlumbingStore
from tests.support.repo import Repo

VERSIONS = 40


@pytest.fixture(params=BY_NAME)
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    """Versions of a file and of a folder that are deltas of each other; contents of many sizes."""
    made = Repo.init(tmp_path / "repo", f"--object-format={request.param}")
    lines = [f"line {n} of {n * n}\n" for n in range(900)]
    for version in range(VERSIONS):
        lines[version * 20] = f"version {version}\n"
        made.write("text", "".join(lines))
        made.write(f"folder/{version}/file", f"{version}\n")
        made.commit(f"version {version}")
    for size in (0, 1, 15, 16, 4095, 5000, 70_000, 250_000, 300_000):
        made.write(f"sizes/{size}", random.Random(size).randbytes(size))
        made.write(f"zeros/{size}", bytes(size))
    made.commit("sizes")
    made.git("tag", "-a", "-m", "a tag", "v1")
    return made


def all_objects(repo: Repo) -> dict[str, tuple[str, bytes]]:
    """Kind and content of each, as git reads them."""
    found = {}
    out = repo.git("cat-file", "--batch-all-objects", "--batch")
    while out:
        header, _, out = out.partition(b"\n")
        oid, kind, size = header.decode().split()
        found[oid] = (kind, out[: int(size)])
        out = out[int(size) + 1 :]
    return found


def open_pack(repo: Repo) -> PackFile:
    [index] = (repo.git_dir / "objects/pack").glob("*.idx")
    return PackFile(PackIndex(str(index), of_oid(repo.oid()).raw_length))


PACKED = {
    "short chains": (["-c", "core.deltaBaseCacheLimit=0", "repack", "-adfq", "--depth=5"], 0),
    "long chains": (["repack", "-adfq", "--depth=50"], 20),
    "no deltas": (["-c", "pack.depth=0", "repack", "-adFq"], 0),
    "bases by id": (["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=5"], 0),
    "an index of version 1": (["-c", "pack.indexVersion=1", "repack", "-adfq", "--depth=5"], 0),
}  # fmt: skip


@pytest.mark.parametrize(("command", "deep"), PACKED.values(), ids=PACKED.keys())
def test_what_is_read_is_what_git_reads(command: list[str], deep: int, repo: Repo) -> None:
    """Left to git are large objects, and at most `deep` others."""
    expected = all_objects(repo)
    repo.git(*command)
    pack = open_pack(repo)
    order = list(expected)
    random.Random(1).shuffle(order)
    left = []
    for oid in order:
        found = pack.read(oid)
        assert found in (None, expected[oid])
        left += [oid] if found is None else []
    large = {oid for oid, (_, data) in expected.items() if len(data) > 256 << 10}
    assert len(large) == 2 and large <= set(left) and len(set(left) - large) <= deep
    assert pack.read("1" * len(order[0])) is None


def test_it_stays_readable_without_its_name(repo: Repo) -> None:
    repo.git("repack", "-adfq", "--depth=5")
    head, expected = repo.oid(), repo.git("cat-file", "commit", "HEAD")
    pack = open_pack(repo)
    for path in (repo.git_dir / "objects/pack").glob("pack-*"):
        path.unlink()
    assert pack.read(head) == ("commit", expected)


def test_no_damage_is_read_as_an_object(repo: Repo) -> None:
    """Wherever a byte is wrong, or the rest is missing: the object as it was, none, or an error."""
    expected = all_objects(repo)
    repo.git("repack", "-adfq", "--depth=5")
    [path] = (repo.git_dir / "objects/pack").glob("*.pack")
    path.chmod(0o644)
    data = path.read_bytes()
    rng = random.Random(2)
    location = locate(str(repo.path))
    texts = sorted(oid for oid, (kind, content) in expected.items() if kind != "blob" or len(content) < 30_000)
    for _ in range(30):
        broken = bytearray(data)
        at = rng.randrange(12, len(data))
        if rng.random() < 0.2:
            del broken[at:]
        else:
            broken[at] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        objects = os.path.join(location.common_dir, "objects")
        store = PlumbingStore(location.git_dir, objects, location.hash, location.environment())
        for oid in rng.sample(texts, 10):
            try:
                assert store.read(oid) in (None, expected[oid])
            except RepositoryError as error:
                assert oid in error.message
