"""What the refs and reflogs of a nested repository reach is held by the checkpoint around it, and comes back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos.git import refs
from git_agentos.git.location import locate
from tests.support import git_version, ref_storage
from tests.support.repo import Repo, fill, filled, git_run
from tests.support.state import assert_same, complete_state
from tests.support.tool import IN_PROCESS, run, run_ok

Make = Callable[[Repo], None]


def _nested(repo: Repo) -> Repo:
    inner = filled(repo.path / "inner")
    inner.config("core.logAllRefUpdates", "always")
    return inner


def _stashes(inner: Repo) -> None:
    for number in range(3):
        inner.write("readme.txt", f"stashed {number}\n")
        inner.write(f"new-{number}.txt", "untracked\n")
        inner.git("stash", "push", "-q", "--include-untracked", "-m", f"stash {number}")


def _blob_tags(inner: Repo) -> None:
    blob = inner.git("hash-object", "-w", "--stdin", stdin=b"only a tag has this\n").decode().strip()
    tree = inner.git("mktree", stdin=f"100644 blob {blob}\tin-a-tree\n".encode()).decode().strip()
    inner.git("tag", "on-a-blob", blob)
    inner.git("tag", "-a", "-m", "annotated", "annotated-blob", blob)
    inner.git("tag", "on-a-tree", tree)
    inner.git("tag", "-a", "-m", "annotated", "annotated-tree", tree)
    inner.git("tag", "-a", "-m", "tag of a tag", "tag-of-tag", "annotated-blob")
    inner.git("update-ref", "refs/other/blob", blob)


def _other_refs(inner: Repo) -> None:
    inner.git("notes", "add", "-m", "a note", "HEAD")
    inner.git("notes", "--ref", "review", "add", "-m", "another", "HEAD")
    inner.git("update-ref", "refs/heads-up/x", "HEAD")
    inner.git("update-ref", "refs/remotes/origin/main", "HEAD")
    inner.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    inner.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    inner.git("symbolic-ref", "refs/heads/dangling", "refs/heads/not-there")
    inner.git("update-ref", "refs/worktree/mine", "HEAD")


def _lost_commits(inner: Repo) -> None:
    for number in range(4):
        inner.write("readme.txt", f"given up {number}\n")
        inner.commit(f"given up {number}")
    inner.git("reset", "-q", "--hard", "HEAD~3")
    inner.git("checkout", "-q", "--detach")
    inner.write("readme.txt", "detached\n")
    inner.commit("detached")
    inner.git("checkout", "-q", "main")
    inner.git("branch", "gone")
    inner.git("commit", "-q", "--amend", "-m", "amended")


def _packed(inner: Repo) -> None:
    _blob_tags(inner)
    _other_refs(inner)
    _stashes(inner)
    inner.git("pack-refs", "--all")
    inner.git("repack", "-adfq")


def _unborn(inner: Repo) -> None:
    _stashes(inner)
    inner.git("checkout", "-q", "--orphan", "fresh")


def _alternates(inner: Repo) -> None:
    source = Repo.init(inner.path.parent.parent / "alternate")
    fill(source)
    source.write("borrowed.txt", "borrowed\n")
    source.commit("borrowed")
    (inner.git_dir / "objects/info").mkdir(exist_ok=True)
    (inner.git_dir / "objects/info/alternates").write_text(f"{source.git_dir}/objects\n")
    inner.git("branch", "borrowed", source.oid())


_CASES: dict[str, Make] = {
    "stashes": _stashes,
    "tags-of-blobs-and-trees": _blob_tags,
    "notes-symbolic-and-other-refs": _other_refs,
    "commits-only-reflogs-have": _lost_commits,
    "packed": _packed,
    "unborn-branch": _unborn,
    "alternates": _alternates,
}


def _holdings(inner: Repo) -> dict[str, str]:
    """All refs, symbolic ones as such, and all reflogs, with what each names; and what `fsck` says."""
    listed = inner.text("for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines()
    found = {"refs": "\n".join(line for line in listed if "refs/agentos/" not in line)}
    location = locate(str(inner.path))
    for name, lines in refs.logs(location).items():
        found[f"reflog of {name}"] = b"\n".join(lines).decode()
        for oid in {word.decode() for line in lines for word in line.split(b" ")[:2]}:
            if oid.strip("0"):
                inner.git("rev-list", "--objects", oid)
    found["symbolic"] = repr(refs.symbolic(location))
    found["HEAD"] = ref_storage.head_ref(inner.path) or inner.oid()
    found["stash"] = inner.text("stash", "list", "--format=%H %gs")
    found["status"] = inner.text("status", "--porcelain=v2", "--branch")
    done = git_run(inner.path, "fsck", "--full", "--no-dangling")  # a symbolic ref that leads nowhere is an error to it
    found["fsck"] = (done.stdout + done.stderr).decode()
    return found


@pytest.mark.parametrize("case", _CASES)
def test_commits_reached_by_refs_and_reflogs_come_back(case: str, repo: Repo) -> None:
    inner = _nested(repo)
    _CASES[case](inner)
    inner.append("readme.txt", "dirty\n")
    before = _holdings(inner)
    taken = IN_PROCESS.checkpoint(repo.path)
    shutil.rmtree(inner.path)
    shutil.rmtree(repo.path / "alternate", ignore_errors=True)
    repo.git("gc", "-q", "--prune=now")
    done = IN_PROCESS.restore(repo.path, taken["id"])
    assert done["skipped"] == []
    assert _holdings(inner) == before


@pytest.mark.parametrize("case", ["stashes", "tags-of-blobs-and-trees", "packed"])
def test_an_archive_holds_them(case: str, repo: Repo) -> None:
    home = Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"])
    inner = _nested(Repo(home))
    _CASES[case](inner)
    before = _holdings(inner)
    run_ok(repo.path, "worktree", "archive", "dev-1")
    assert not home.exists()
    repo.git("gc", "-q", "--prune=now")
    run_ok(repo.path, "worktree", "create", "dev-1", "--revive")
    assert _holdings(inner) == before


def test_a_nested_repository_with_worktrees_of_its_own_is_not_archived(repo: Repo, tmp_path: Path) -> None:
    """They need its git directory, and what they have staged is nowhere else."""
    home, other = Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"]), tmp_path / "other"
    inner = _nested(Repo(home))
    inner.git("worktree", "add", "-q", "--detach", str(other))
    Repo(other).write("readme.txt", "only here\n")
    lost = Repo(other).commit("only here")
    done = run(repo.path, "worktree", "archive", "dev-1")
    assert done.code == 1 and str(other).encode() in done.err, str(done)
    assert Repo(other).oid() == lost
    taken = IN_PROCESS.checkpoint(home)
    shutil.rmtree(inner.path)
    IN_PROCESS.restore(home, taken["id"])
    inner.git("rev-list", "--objects", lost)


def test_a_submodule_of_a_nested_repository_comes_back(repo: Repo) -> None:
    """Its git directory lies in the nested repository's, and goes with it."""
    inner = _nested(repo)
    upstream = filled(repo.scratch / "upstream")
    inner.git("submodule", "--quiet", "add", str(upstream.path), "sub")
    inner.commit("a submodule")
    sub = Repo(inner.path / "sub")
    sub.write("local.txt", "never pushed\n")
    tip = sub.commit("never pushed")
    sub.append("readme.txt", "dirty\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    shutil.rmtree(inner.path)
    done = IN_PROCESS.restore(repo.path, taken["id"])
    assert done["skipped"] == []
    assert sub.oid() == tip
    assert sub.read("readme.txt").endswith(b"dirty\n")


def test_a_dry_run_answers_as_the_restore_would(repo: Repo) -> None:
    """A repository inside that has not changed is not named; one that has is; and nothing is written."""
    inner = _nested(repo)
    _stashes(inner)
    repo.append("readme.txt", "dirty\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.append("readme.txt", "more\n")
    objects = sorted((repo.git_dir / "objects").rglob("*"))
    assert IN_PROCESS.restore(repo.path, taken["id"], dry_run=True)["changed"] == ["readme.txt"]
    inner.append("readme.txt", "inside\n")
    dry = IN_PROCESS.restore(repo.path, taken["id"], dry_run=True)["changed"]
    assert sorted((repo.git_dir / "objects").rglob("*")) == objects
    assert dry == IN_PROCESS.restore(repo.path, taken["id"])["changed"] == ["inner", "readme.txt"]
    for words in (["--dry-run"], []):
        done = run(repo.path, "restore", taken["id"], *words, "--", "no-such-path")
        assert done.code == 2 and b"no-such-path" in done.err, str(done)


def test_a_damaged_nested_repository_is_named_and_the_rest_is_saved(repo: Repo) -> None:
    home = Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"])
    inner = _nested(Repo(home))
    ref_storage.point_nowhere(inner, "refs/tags/broken")
    Repo(home).write("beside.txt", "beside\n")
    taken = IN_PROCESS.checkpoint(home)
    assert "beside.txt" in taken["untracked_files"]
    assert any(item["path"].startswith("inner/") for item in taken["skipped"])
    done = run(repo.path, "worktree", "archive", "dev-1")
    assert done.code == 1 and b"inner/" in done.err, str(done)
    assert inner.path.exists()


def test_a_repository_with_reftables_is_made_again_with_them(repo: Repo) -> None:
    """By a git that can move reflogs into tables; an older one has the same refs in files."""
    ref_storage.require()
    inner = fill(Repo.init(repo.path / "inner", "-b", "main", "--ref-format=reftable"))
    inner.git("tag", "-a", "-m", "a tag", "v2")
    inner.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    inner.git("checkout", "-q", "--detach", "HEAD~1")
    inner.append("notes.txt", "dirty\n")
    before, logs = complete_state(repo.path), ref_storage.reflogs(inner.path)
    assert {"HEAD", "refs/heads/main", "refs/heads/other"} <= logs.keys()
    taken = IN_PROCESS.checkpoint(repo.path)
    shutil.rmtree(inner.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert ref_storage.is_reftable(inner.git_dir) == (git_version.HERE >= (2, 48))
    after = complete_state(repo.path)
    assert_same(before.nested[b"inner"], after.nested[b"inner"], "made again", refs=True)
    found = ref_storage.reflogs(inner.path)
    assert found.keys() == logs.keys()
    # HEAD was put where it is once more.
    assert all(found[name].endswith(log) for name, log in logs.items())
