"""The two backends over the same repository: every question has the same answer, which is git's."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos.errors import RepositoryError
from git_agentos.git.hash_algorithm import SHA1
from git_agentos.git.location import locate
from git_agentos.git.objects import loose
from git_agentos.git.objects.libgit2_store import Libgit2Store
from git_agentos.git.objects.pack_index import PackIndex
from git_agentos.git.objects.plumbing import PlumbingStore
from git_agentos.git.objects.store import ObjectStore, SwitchingStore
from tests.support import ref_storage
from tests.support.repo import Repo, git

MISSING = "1" * 40


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A SHA-1 repository with three commits, on two branches, and a large file in versions that make deltas."""
    ref_storage.use_oldest(monkeypatch)
    made = Repo.init(tmp_path / "repo")
    for version in range(3):
        made.write("large", "".join(f"line {n} of {n * n}\n" for n in range(3000)) + str(version))
        made.write("folder/link", f"{version}")
        made.commit(f"version {version}")
    made.git("tag", "-a", "-m", "a tag", "v1", "HEAD~1")
    made.git("branch", "side", "HEAD~1")
    return made


def all_oids(repo: Repo) -> list[str]:
    return repo.text("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()


def libgit2(repo: Repo) -> ObjectStore:
    return Libgit2Store(str(repo.git_dir), str(repo.git_dir / "objects"))


def plumbing(repo: Repo) -> PlumbingStore:
    location = locate(str(repo.path))
    return PlumbingStore(location.git_dir, os.path.join(location.common_dir, "objects"), SHA1, location.environment())


def assert_same(repo: Repo, oids: list[str]) -> None:
    """Both stores, opened now, say of these objects what git says, and of all others that they do not exist."""
    for store in (libgit2(repo), plumbing(repo)):
        for oid in oids:
            kind, size = repo.text("cat-file", "-t", oid), int(repo.text("cat-file", "-s", oid))
            assert store.read(oid) == (kind, repo.git("cat-file", kind, oid)), oid
            assert store.header(oid) == (kind, size)
            assert store.exists(oid) and store.is_known(oid)
            assert store.lookup(oid[:12]) == store.lookup(oid) == (kind, oid)
        assert store.exists_on_disk([*oids, MISSING]) == set(oids)
        assert (store.read(MISSING), store.header(MISSING), store.lookup(MISSING[:12])) == (None, None, None)
        assert not store.exists(MISSING) and not store.is_known(MISSING)


PACKED = {
    "loose": [],
    "one pack with deltas": [["repack", "-adfq", "--depth=50"]],
    "loose and packed": [["repack", "-adfq"], ["commit", "-q", "--allow-empty", "-m", "loose"]],
    "many packs, with an index over them": [
        ["repack", "-q"], ["commit", "-q", "--allow-empty", "-m", "another"], ["repack", "-q"],
        ["multi-pack-index", "write"],
    ],
    "an index of version 1": [["-c", "pack.indexVersion=1", "repack", "-adfq"]],
    "no delta base in front": [["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"]],
}  # fmt: skip


@pytest.mark.parametrize("commands", PACKED.values(), ids=PACKED.keys())
def test_however_objects_are_stored(commands: list[list[str]], repo: Repo) -> None:
    for words in commands:
        repo.git(*words)
    assert_same(repo, all_oids(repo))


@pytest.mark.parametrize("relative", [False, True])
def test_alternates(relative: bool, repo: Repo, tmp_path: Path) -> None:
    """An alternate of an alternate, one of them packed."""
    repo.git("repack", "-adq")
    middle = Repo(tmp_path / "middle")
    git(tmp_path, "clone", "-q", "--shared", "--no-checkout", str(repo.path), str(middle.path))
    middle.git("read-tree", "HEAD")
    middle.git("commit", "-q", "--allow-empty", "-m", "in the middle")
    last = Repo(tmp_path / "last")
    git(tmp_path, "clone", "-q", "--shared", "--no-checkout", str(middle.path), str(last.path))
    if relative:
        (last.git_dir / "objects/info/alternates").write_text("# a comment\n\n../../../middle/.git/objects\n")
    last.git("read-tree", "HEAD")
    last.git("commit", "-q", "--allow-empty", "-m", "at the end")
    assert len(set(all_oids(repo)) & set(all_oids(last))) == len(all_oids(repo))
    assert_same(last, all_oids(last))


def test_objects_that_appear_and_disappear(repo: Repo) -> None:
    """Stores that are open already see what other processes write, pack and prune."""
    stores = (libgit2(repo), plumbing(repo))
    before = all_oids(repo)
    for store in stores:
        assert store.read(before[0]) is not None
    new = repo.text("commit-tree", "-m", "unreachable", "HEAD^{tree}")
    for store in stores:
        assert store.exists(new) and store.is_known(new) and store.exists_on_disk([new]) == {new}
    repo.git("branch", "kept", new)
    repo.git("repack", "-adq")
    for store in stores:
        assert store.exists(new) and store.exists_on_disk([new, *before]) == {new, *before}
        assert store.read(new) == ("commit", repo.git("cat-file", "commit", new))
    repo.git("branch", "-D", "-q", "kept")
    repo.git("repack", "-adq")
    repo.git("prune", "--expire=now")
    for store in stores:
        assert store.exists_on_disk([new, *before]) == set(before)
    for store in stores:
        assert all(store.read(oid) is not None for oid in before)


def test_a_replaced_object_is_read_as_it_is(repo: Repo) -> None:
    head, other = repo.oid(), repo.oid("HEAD~2")
    repo.git("replace", head, other)
    expected = ("commit", repo.git("--no-replace-objects", "cat-file", "commit", head))
    for store in (libgit2(repo), plumbing(repo)):
        assert store.read(head) == expected
    repo.git("repack", "-adq")
    for store in (libgit2(repo), plumbing(repo)):
        assert store.read(head) == expected
        assert store.is_ancestor(repo.oid("side"), head)


def test_a_partial_clone_fetches_nothing(repo: Repo, tmp_path: Path) -> None:
    repo.config("uploadpack.allowFilter", "true")
    repo.config("uploadpack.allowAnySHA1InWant", "true")
    part = Repo(tmp_path / "part")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo.path}", str(part.path))
    blob = repo.oid("HEAD:large")
    packs = sorted(os.listdir(part.git_dir / "objects/pack"))
    for store in (libgit2(part), plumbing(part)):
        assert store.read(part.oid()) is not None
        assert (store.exists(blob), store.read(blob), store.header(blob), store.lookup(blob)) == (
            False,
            None,
            None,
            None,
        )
    assert sorted(os.listdir(part.git_dir / "objects/pack")) == packs


def test_ancestry(repo: Repo) -> None:
    main, first = repo.oid(), repo.oid("HEAD~2")
    repo.git("checkout", "-q", "side")
    side = repo.commit("beside")
    repo.git("checkout", "-q", "--orphan", "alone")
    alone = repo.commit("alone")
    for store in (libgit2(repo), plumbing(repo)):
        assert store.merge_base(main, side) == repo.oid("main~1")
        assert store.merge_base(main, alone) is None
        assert [store.is_ancestor(*pair) for pair in ((first, main), (main, first), (main, main), (alone, main))] == [
            True, False, True, False,
        ]  # fmt: skip
        assert store.independent([first, side, main, alone, side]) == [side, main, alone]
        assert store.independent([main, first]) == store.independent([first, main]) == [main]
        assert store.independent([]) == []


@pytest.mark.parametrize("depth", [1, 2])
def test_ancestry_ends_where_a_shallow_clone_does(depth: int, repo: Repo, tmp_path: Path) -> None:
    part = Repo(tmp_path / "part")
    git(tmp_path, "clone", "-q", f"--depth={depth}", f"file://{repo.path}", str(part.path))
    last = part.text("rev-list", "HEAD").split()[-1]
    for store in (libgit2(part), plumbing(part)):
        assert store.is_ancestor(last, part.oid())
        assert store.merge_base(part.oid(), last) == last


def test_a_prefix_of_several_objects(repo: Repo) -> None:
    """Loose and packed: 4 digits are ambiguous among enough objects, and no name of a ref counts."""
    for n in range(700):
        repo.write(f"many/{n}", str(n))
    repo.commit("many")
    oids = all_oids(repo)
    by_prefix: dict[str, list[str]] = {}
    for oid in oids:
        by_prefix.setdefault(oid[:4], []).append(oid)
    several = next(prefix for prefix, found in by_prefix.items() if len(found) > 1)
    one = next(prefix for prefix, found in by_prefix.items() if len(found) == 1)
    repo.git("branch", one, "HEAD~1")
    for pack in (False, True):
        if pack:
            repo.git("repack", "-adq")
        for store in (libgit2(repo), plumbing(repo)):
            assert store.lookup(several) is None
            assert store.lookup(one) == (repo.text("cat-file", "-t", by_prefix[one][0]), by_prefix[one][0])
            for wrong in ("", "12", one + "x", by_prefix[one][0] + "0", "../" * 4, f"{one}\n{one}"):
                assert store.lookup(wrong) is None, wrong


# -- damage --------------------------------------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-9])


def _empty(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [_truncate, _empty])
def test_a_damaged_loose_object_is_an_error(damage: Callable[[Path], None], repo: Repo) -> None:
    oid = repo.oid("HEAD:large")
    damage(Path(loose.path(str(repo.git_dir / "objects"), oid)))
    for store in (libgit2(repo), plumbing(repo)):
        with pytest.raises(RepositoryError, match=f"object {oid} cannot be read"):
            store.read(oid)


def test_an_object_with_the_content_of_another_is_an_error(repo: Repo) -> None:
    oid, other = repo.oid("HEAD:large"), repo.oid("HEAD~1:large")
    objects = str(repo.git_dir / "objects")
    os.replace(loose.path(objects, other), loose.path(objects, oid))
    for store in (libgit2(repo), plumbing(repo)):
        with pytest.raises(RepositoryError, match=f"object {oid} cannot be read"):
            store.read(oid)


def test_nothing_is_read_from_a_damaged_pack(repo: Repo) -> None:
    """An error, or None: git itself calls such an object missing."""
    repo.git("repack", "-adfq")
    oid = repo.oid("HEAD:large")
    [pack] = (repo.git_dir / "objects/pack").glob("*.pack")
    pack.chmod(0o644)
    data = pack.read_bytes()
    pack.write_bytes(data[:20] + bytes(len(data) - 40) + data[-20:])
    for store in (libgit2(repo), plumbing(repo)):
        try:
            assert store.read(oid) is None
        except RepositoryError as error:
            assert f"object {oid} cannot be read" in error.message


@pytest.mark.parametrize("size", [0, 7, 1000, 1100])
def test_an_index_that_is_cut_off_is_passed_over(size: int, repo: Repo) -> None:
    """What only that pack has counts as missing, as git says; all other objects are read."""
    repo.git("repack", "-adq")
    packed = repo.oid()
    new = repo.commit("after")
    [index] = (repo.git_dir / "objects/pack").glob("*.idx")
    index.chmod(0o644)
    data = index.read_bytes()
    index.write_bytes(data[:size])
    with pytest.raises(ValueError, match=r"too short|cannot mmap|unknown version"):
        PackIndex(str(index), SHA1.raw_length)
    store = plumbing(repo)
    assert store.exists(new) and store.read(new) is not None
    assert not store.exists(packed) and store.read(packed) is None


# -- the child -----------------------------------------------------------------------------------------------------


def pack_large_file(repo: Repo) -> str:
    """The oid of a packed blob that is left to git."""
    repo.write("huge", os.urandom(1 << 20))
    repo.commit("huge")
    repo.git("repack", "-adq")
    return repo.oid("HEAD:huge")


def test_a_child_that_is_killed_is_started_again(repo: Repo) -> None:
    huge = pack_large_file(repo)
    store = plumbing(repo)
    expected = store.read(huge)
    child = store._cat_file._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert store.read(huge) == expected is not None


def test_no_child_for_small_objects(repo: Repo) -> None:
    repo.git("repack", "-adfq")
    store = plumbing(repo)
    for oid in all_oids(repo):
        assert store.read(oid) is not None
    assert store._cat_file._child is None


def test_one_child_for_all_reads_and_none_afterwards(repo: Repo) -> None:
    pack_large_file(repo)
    store = plumbing(repo)
    for oid in all_oids(repo):
        store.read(oid)
    child = store._cat_file._child
    assert child is not None
    for oid in all_oids(repo):
        assert store.header(oid) is not None
    assert store._cat_file._child is child and child.poll() is None
    del store
    assert child.returncode == 0


def test_a_store_whose_repository_is_gone(repo: Repo) -> None:
    store = plumbing(repo)
    shutil.rmtree(repo.git_dir)
    assert not store.exists(MISSING)
    assert store.read(MISSING) is None


def test_libgit2_takes_over_when_that_pays(repo: Repo) -> None:
    """And is not opened before; where it cannot be opened, plumbing goes on."""
    opened: list[ObjectStore] = []

    def fast() -> ObjectStore:
        opened.append(libgit2(repo))
        return opened[0]

    def broken() -> ObjectStore:
        raise RepositoryError("it cannot be opened")

    head, older = repo.oid(), repo.oid("HEAD~1")
    content = ("commit", repo.git("cat-file", "commit", head))
    switching, staying = SwitchingStore(plumbing(repo), fast), SwitchingStore(plumbing(repo), broken)
    for store in (switching, staying):
        assert [store.read(head) for _ in range(20)] == [content] * 20
        assert opened == []
    for store in (switching, staying):
        assert [store.read(head) for _ in range(1000)] == [content] * 1000
        assert store.merge_base(head, older) == older
    assert len(opened) == 1
