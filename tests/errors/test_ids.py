"""Ids that name nothing, too much, something else, or something of somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tests.support.operations import diverge, expect_stop
from tests.support.refusal import assert_refused
from tests.support.repo import Repo, digest
from tests.support.tool import IN_PROCESS, run, run_ok

TIMELINE = "refs/agentos/timelines/main"
TOO_LONG = "one digit more than an id"
_USES = (
    ["restore"],
    ["restore", "--dry-run"],
    ["restore", "--no-branch"],
    ["checkpoint", "show"],
    ["checkpoint", "diff"],
)
USES = pytest.mark.parametrize("words", _USES, ids=" ".join)


def uses_of(*specs: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrize `words` and `spec`: each use with each spec."""

    def marked(test: Callable[..., None]) -> Callable[..., None]:
        with_specs = pytest.mark.parametrize("spec", specs)(test)
        return cast(Callable[..., None], pytest.mark.sampled(one_in=5)(USES(with_specs)))

    return marked


@pytest.fixture
def taken(repo: Repo) -> str:
    """A checkpoint of a dirty state, which has then been wrecked."""
    repo.write("readme.txt", "staged then\n")
    repo.add("readme.txt")
    repo.write("readme.txt", "unstaged then\n")
    repo.write("untracked.txt", "untracked then\n")
    checkpoint = str(IN_PROCESS.checkpoint(repo.path)["id"])
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-fdq")
    repo.write("readme.txt", "work since\n")
    return checkpoint


@uses_of("deadbeef", "0123456789012345678901234567890123456789", "@{99}")
def test_unknown(repo: Repo, taken: str, words: list[str], spec: str) -> None:
    assert_refused(repo.path, *words, spec, mentions=spec, keeps=repo.path)


def test_a_number_that_is_too_large_is_not_answered_with_a_new_checkpoint(repo: Repo, taken: str) -> None:
    error = assert_refused(repo.path, "restore", "@{99}", mentions="has no checkpoint @{99}", keeps=repo.path)
    assert error["hint"] == "git agentos checkpoint list shows the checkpoints"


@pytest.mark.parametrize("more", ["0", "00", "f"])
def test_an_id_and_more_digits_is_no_commit(repo: Repo, more: str) -> None:
    """Newer versions of git ignore some digits after a complete id."""
    mistyped = repo.oid() + more
    assert_refused(repo.path, "worktree", "create", "dev", "--from", mistyped, mentions=mistyped, keeps=repo.path)


@uses_of("abc", "xyz12345", "@{x}", "@{-1}", "@{}", "latest~1", "main", TOO_LONG, "")
def test_malformed(repo: Repo, taken: str, words: list[str], spec: str) -> None:
    spec = "a" * (len(taken) + 1) if spec is TOO_LONG else spec
    assert_refused(repo.path, *words, spec, code=2, keeps=repo.path)


@pytest.mark.parametrize("spec", ["latest", "@{0}"])
def test_no_checkpoint_at_all(repo: Repo, spec: str) -> None:
    assert_refused(repo.path, "restore", spec, mentions="checkpoint", keeps=repo.path)


def test_an_id_is_required(repo: Repo, taken: str) -> None:
    assert_refused(repo.path, "restore", code=2, keeps=repo.path)


@USES
def test_ambiguous(repo: Repo, taken: str, words: list[str]) -> None:
    one, two = _colliding(repo, taken)
    _append(repo, one)
    _append(repo, two)
    error = assert_refused(repo.path, *words, one[:4], mentions=one[:4], keeps=repo.path)
    assert "ambiguous" in error["message"]
    assert run_ok(repo.path, "checkpoint", "show", one)["id"] == one


@uses_of("HEAD", "HEAD^{tree}", "HEAD:readme.txt", TIMELINE, f"{TIMELINE}^2^2")
def test_object_is_not_a_checkpoint(repo: Repo, taken: str, words: list[str], spec: str) -> None:
    assert_refused(repo.path, *words, repo.oid(spec), mentions=repo.oid(spec)[:8], keeps=repo.path)


def test_abbreviated_commit_is_not_a_checkpoint(repo: Repo, taken: str) -> None:
    assert_refused(repo.path, "restore", repo.oid()[:10], mentions=repo.oid()[:8], keeps=repo.path)


def test_a_stash_is_no_checkpoint(repo: Repo, taken: str) -> None:
    stash = repo.text("stash", "create")
    assert_refused(repo.path, "restore", stash, keeps=repo.path)


@USES
def test_foreign(repo: Repo, taken: str, words: list[str]) -> None:
    """Another worktree's checkpoint: an error that says where it belongs and how to ask for it."""
    linked = Repo(repo.path.parent / "dev-001")
    repo.git("worktree", "add", "-q", str(linked.path))
    error = assert_refused(linked.path, *words, taken, mentions=taken[:8], keeps=linked.path)
    assert "--all" in f"{error['hint']}" or "--agent" in f"{error['hint']}"


def test_a_future_format(repo: Repo, taken: str) -> None:
    raw = repo.git("cat-file", "commit", taken)
    assert b"Agentos-Format: 1\n" in raw
    future = _write(repo, raw.replace(b"Agentos-Format: 1\n", b"Agentos-Format: 2\n"))
    _append(repo, future)
    error = assert_refused(repo.path, "restore", future, keeps=repo.path)
    assert "format" in error["message"].lower()
    assert "2" in error["message"]


@pytest.mark.parametrize("trailer", [b"", b"Agentos-Format: x\n", b"Agentos-Format: \n", b"Agentos-Format: 0\n"])
def test_a_format_that_cannot_be_read(repo: Repo, taken: str, trailer: bytes) -> None:
    """Somebody rewrote the commit: fail closed."""
    raw = repo.git("cat-file", "commit", taken)
    broken = _write(repo, raw.replace(b"Agentos-Format: 1\n", trailer))
    _append(repo, broken)
    assert_refused(repo.path, "restore", broken, keeps=repo.path)


@pytest.mark.parametrize("parents", [0, 1, 2, 3])
def test_a_commit_with_the_trailers_and_too_few_parents(repo: Repo, taken: str, parents: int) -> None:
    raw = repo.git("cat-file", "commit", taken)
    lines = raw.split(b"\n")
    found = [line for line in lines if line.startswith(b"parent ")]
    kept = [line for line in lines if not line.startswith(b"parent ") or line in found[:parents]]
    broken = _write(repo, b"\n".join(kept))
    _append(repo, broken)
    assert_refused(repo.path, "restore", broken, keeps=repo.path)


def test_meta_json_is_not_json(repo: Repo, taken: str) -> None:
    side = _side_tree(repo, taken, b"{ this is no json")
    raw = repo.git("cat-file", "commit", taken)
    old = repo.oid(f"{taken}^4")
    commit = repo.text("commit-tree", "-m", "side", side)
    broken = _write(repo, raw.replace(old.encode(), commit.encode()))
    _append(repo, broken)
    assert_refused(repo.path, "restore", broken, keeps=repo.path)


_MISSING = {
    "worktree blob": "{id}:readme.txt",
    "worktree tree": "{id}^{{tree}}",
    "index commit": "{id}^2",
    "index tree": "{id}^2^{{tree}}",
    "index blob": "{id}^2:readme.txt",
    "untracked commit": "{id}^3",
    "untracked tree": "{id}^3^{{tree}}",
    "untracked blob": "{id}^3:untracked.txt",
    "side commit": "{id}^4",
    "meta.json": "{id}^4:meta.json",
}


@pytest.mark.parametrize("what", _MISSING)
def test_missing_objects_are_found_before_anything_is_touched(repo: Repo, taken: str, what: str) -> None:
    oid = repo.oid(_MISSING[what].format(id=taken))
    _lose(repo, oid)
    error = assert_refused(repo.path, "restore", taken, keeps=repo.path)
    assert "missing" in error["message"], error
    assert repo.read("readme.txt") == b"work since\n"


def test_a_missing_conflict_stage(repo: Repo) -> None:
    diverge(repo)
    expect_stop(repo, "merge", "topic")
    taken = IN_PROCESS.checkpoint(repo.path)["id"]
    tree = repo.text("ls-tree", "-r", f"{taken}^4")
    stages = [line.split()[2] for line in tree.splitlines() if "\tstages/" in line]
    assert len(stages) == 3, tree
    repo.git("merge", "--abort")
    for oid in stages:
        path = repo.loose_object(oid)
        kept = path.read_bytes()
        path.chmod(0o600)
        path.unlink()
        assert_refused(repo.path, "restore", taken, mentions="missing")
        path.write_bytes(kept)


def test_a_restore_of_one_path_needs_only_its_objects_or_says_so(repo: Repo, taken: str) -> None:
    _lose(repo, repo.oid(f"{taken}^3:untracked.txt"))
    done = run(repo.path, "restore", taken, "readme.txt")
    if done.code == 0:
        assert repo.read("readme.txt") == b"unstaged then\n"
    else:
        assert done.code == 1
        assert repo.read("readme.txt") == b"work since\n"


@pytest.mark.parametrize(
    "words",
    [
        ["checkpoint", "--trigger", "whenever"],
        ["checkpoint", "--meta", "no-equals-sign"],
        ["checkpoint", "--no-such-option"],
        ["checkpoint", "list", "-n", "-1"],
        ["checkpoint", "list", "-n", "many"],
        ["checkpoint", "list", "--trigger", "whenever"],
        ["checkpoint", "cat", "latest"],
        ["--as", "no spaces", "checkpoint"],
        ["--as", ".hidden", "checkpoint"],
        ["--as", "x" * 65, "checkpoint"],
        ["--as", "", "checkpoint"],
        ["no-such-command"],
        ["restore", "latest", "--worktree", "x", "--no-branch"],
    ],
    ids=" ".join,
)
def test_usage(repo: Repo, taken: str, words: list[str]) -> None:
    assert_refused(repo.path, *words, code=2, keeps=repo.path)


def _lose(repo: Repo, oid: str) -> None:
    path = repo.loose_object(oid)
    path.chmod(0o600)
    path.unlink()


def _write(repo: Repo, raw: bytes) -> str:
    return repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw).decode().strip()


def _append(repo: Repo, checkpoint: str) -> None:
    """Put a commit on the timeline with plain git, as DESIGN.md section 4 lays it out."""
    previous = repo.oid(TIMELINE)
    message = repo.git("show", "-s", "--format=%B", checkpoint)
    tree = repo.oid(f"{previous}^{{tree}}")
    tip = repo.git("commit-tree", tree, "-p", previous, "-p", checkpoint, stdin=message).decode().strip()
    repo.git("update-ref", TIMELINE, tip, previous)


def _side_tree(repo: Repo, checkpoint: str, meta: bytes) -> str:
    blob = repo.git("hash-object", "-w", "--stdin", stdin=meta).decode().strip()
    entries = repo.git("ls-tree", "-z", f"{checkpoint}^4").split(b"\0")
    lines = [
        b"100644 blob " + blob.encode() + b"\tmeta.json" if line.endswith(b"\tmeta.json") else line for line in entries
    ]
    return repo.git("mktree", "-z", stdin=b"\0".join(lines)).decode().strip()


def _colliding(repo: Repo, checkpoint: str) -> tuple[str, str]:
    """Two checkpoints whose ids begin with the same four digits: `checkpoint` with another subject each."""
    raw = repo.git("cat-file", "commit", checkpoint)
    head, _, message = raw.partition(b"\n\n")
    seen: dict[str, bytes] = {}
    for candidate in _variants(head, message):
        prefix = digest(b"commit %d\0" % len(candidate) + candidate).hexdigest()[:4]
        if prefix in seen:
            return _write(repo, seen[prefix]), _write(repo, candidate)
        seen[prefix] = candidate
    raise AssertionError("no collision")


def _variants(head: bytes, message: bytes) -> Iterator[bytes]:
    for number in range(10_000):
        yield head + b"\n\nvariant %d\n\n" % number + message
