"""`forget`: what is forgotten, what stays, and what still works afterwards."""

from __future__ import annotations

import json
import os

import pytest

from git_agentos import log, open_workspace
from git_agentos.checkpoint import timeline as timelines
from git_agentos.checkpoint.doctor import examine
from git_agentos.findings import Finding
from git_agentos.retention import forgetting
from tests.support.forgotten import objects, reached_from, store_size, take, timeline, unpack, unreachable
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok


def test_the_rest_stays_as_it_was(repo: Repo) -> None:
    ids = take(repo, 12)
    before = complete_state(repo.path)
    done = run_ok(repo.path, "forget", "--keep-last", "3")
    assert done["forgotten"] == ids[:8][::-1]
    assert done["kept"] == ids[8:][::-1]
    assert done["protected"] == [{"id": ids[-1], "reason": "newest"}]
    assert done["reasons"] == [{"id": each, "rules": ["last"]} for each in ids[8:11][::-1]]
    assert done["rewritten"] == []
    assert done["unreachable"] == []
    assert timeline(repo) == ids[8:]
    assert [each["id"] for each in run_ok(repo.path, "checkpoint", "list")["checkpoints"]] == ids[8:][::-1]
    assert_same(before, complete_state(repo.path), "forget", permissions="all")
    for number, oid in enumerate(ids[8:], 8):
        run_ok(repo.path, "restore", oid, "--no-branch")
        assert repo.read("notes.txt") == f"note {number}\n".encode() * 40
    run_ok(repo.path, "undo")
    assert repo.read("notes.txt") == b"note 10\n" * 40
    repo.git("fsck", "--strict", "--no-dangling")


def test_a_dry_run_answers_as_the_real_one(repo: Repo) -> None:
    take(repo, 9)
    unpack(repo)
    before = objects(repo), timeline(repo)
    would = run_ok(repo.path, "forget", "--keep-last", "2", "--dry-run")
    assert (objects(repo), timeline(repo)) == before
    done = run_ok(repo.path, "forget", "--keep-last", "2")
    sizes = [each.pop("freed_bytes") for each in (would, done)]
    assert (would.pop("dry_run"), done.pop("dry_run")) == (True, False)
    assert would == done
    assert sizes[0] == pytest.approx(sizes[1], rel=0.1)
    assert sizes[1] > 7 * 4096


def test_ids_are_forgotten_whatever_protects_them(repo: Repo) -> None:
    old = take(repo, 2, trigger="manual")
    new = take(repo, 2, trigger="milestone", first=2)
    assert run_ok(repo.path, "forget", "--keep-last", "1")["forgotten"] == []
    done = run_ok(repo.path, "forget", old[0][:10], "latest")
    assert done["forgotten"] == [new[1], old[0]]
    assert done["kept"] == [new[0], old[1]]
    assert done["protected"] == []
    assert timeline(repo) == [old[1], new[0]]
    again = take(repo, 1, first=9)
    assert timeline(repo) == [old[1], new[0], *again]
    refused = run(repo.path, "restore", new[1])
    assert refused.code == 1
    assert refused.err.startswith(f"error: checkpoint '{new[1]}' was forgotten\n".encode())
    everything = run_ok(repo.path, "forget", old[1], new[0], *again)
    assert everything["kept"] == []
    assert timeline(repo) == []
    assert run_ok(repo.path, "checkpoint", "list")["checkpoints"] == []
    assert timeline(repo) == []
    assert len(take(repo, 1, first=10)) == 1


def test_protected_ones_do_not_count(repo: Repo) -> None:
    wanted = take(repo, 3, trigger="manual")
    others = take(repo, 4, first=3)
    done = run_ok(repo.path, "forget", "--keep-last", "2")
    assert done["forgotten"] == [others[0]]
    assert done["protected"] == [
        {"id": others[3], "reason": "newest"},
        *({"id": each, "reason": "manual"} for each in wanted[::-1]),
    ]


def test_undo_and_recover_have_what_they_need(repo: Repo) -> None:
    ids = take(repo, 3)
    restored = run_ok(repo.path, "restore", ids[0], "--no-branch")
    take(repo, 2, first=5)
    done = run_ok(repo.path, "forget", "--keep-last", "1")
    assert {each["id"]: each["reason"] for each in done["protected"] if each["reason"] != "newest"} == {
        ids[0]: "undo", restored["saved"]: "undo",
    }  # fmt: skip
    assert run_ok(repo.path, "undo")["checkpoint"] == restored["saved"]
    assert repo.read("notes.txt") == b"note 2\n" * 40


def test_rules_and_ids_exclude_each_other(repo: Repo) -> None:
    ids = take(repo, 2)
    for words in ([], [ids[0], "--keep-last", "1"]):
        refused = run(repo.path, "forget", *words)
        assert (refused.code, timeline(repo)) == (2, ids)
    assert run(repo.path, "forget", "ffffffff").code == 1
    assert run(repo.path, "forget", "--agent", "nobody", "--keep-last", "1").code == 1


def test_an_agent_may_only_look(repo: Repo) -> None:
    ids = take(repo, 3)
    agent = {"AGENTOS_AGENT_ID": "dev-1"}
    refused = run(repo.path, "forget", "--keep-last", "1", env=agent)
    assert refused.code == 3
    assert b"forgetting checkpoints is not for agents" in refused.err
    assert run(repo.path, "forget", "--keep-last", "1", "--dry-run", env=agent).code == 0
    assert timeline(repo) == ids


def test_other_worktrees(repo: Repo) -> None:
    run_ok(repo.path, "worktree", "create", "dev-1")
    other = Repo(repo.path / run_ok(repo.path, "worktree", "path", "dev-1")["path"])
    mine, theirs = take(repo, 3), take(other, 3, first=50)
    first = timeline(repo, "dev-1")[0]
    assert run_ok(repo.path, "forget", "--agent", "dev-1", "--keep-last", "1")["forgotten"] == [theirs[0]]
    assert timeline(repo) == mine
    assert timeline(repo, "dev-1") == [first, *theirs[-2:]]
    run_ok(repo.path, "forget", "--all", "--keep-last", "1")
    assert timeline(repo) == mine[-2:]
    archived = run_ok(repo.path, "worktree", "archive", "dev-1")["checkpoint"]
    done = run_ok(repo.path, "forget", "--all", "--keep-last", "1")
    assert {"id": archived, "reason": "archive"} in done["protected"]
    run_ok(repo.path, "worktree", "create", "dev-1", "--revive")
    assert other.read("notes.txt") == b"note 52\n" * 40


# -- the log ---------------------------------------------------------------------------------------------------------


def test_the_log_is_kept(repo: Repo) -> None:
    for number in range(5):
        run_ok(repo.path, "log", "add", "decision", f"decided {number}")
        run_ok(
            repo.path, "memory", "artifact", "--path", "src/app.py", "--type", "code", "--description", f"item {number}"
        )
        take(repo, 2, first=2 * number)
    before = [run_ok(repo.path, *words) for words in (("log", "list"), ("memory", "list"))]
    run_ok(repo.path, "forget", "--keep-last", "1")
    ids = timeline(repo)
    assert [run_ok(repo.path, *words) for words in (("log", "list"), ("memory", "list"))] == before
    # The same from the timeline alone; and a second forget joins what the first has left.
    take(repo, 4, first=20)
    run_ok(repo.path, "forget", "--keep-last", "1")
    wanted = [run_ok(repo.path, *words) for words in (("log", "list"), ("memory", "list"))]
    os.unlink(repo.at(".agentos/issue_workflow.db"))
    assert [run_ok(repo.path, *words) for words in (("log", "list"), ("memory", "list"))] == wanted
    assert [each for each in wanted[0]["entries"] if each in before[0]["entries"]] == before[0]["entries"]
    assert not set(ids[:-1]) & set(timeline(repo))
    carriers = repo.text("log", "--first-parent", "--format=%s", "refs/agentos/timelines/main").splitlines()
    assert carriers.count("log of forgotten checkpoints") == 1


def test_a_carrier_holds_nothing_but_lines(repo: Repo) -> None:
    run_ok(repo.path, "log", "add", "decision", "decided")
    ids = take(repo, 4)
    run_ok(repo.path, "forget", "--keep-last", "1")
    rows = repo.text("log", "--first-parent", "--format=%P %s", "refs/agentos/timelines/main").splitlines()
    (held,) = (row.split()[1] for row in rows if row.endswith(" log of forgotten checkpoints"))
    assert repo.text("ls-tree", "-r", "--name-only", held) == "log.jsonl"
    assert repo.text("log", "-1", "--format=%P", held) == ""
    lines = [json.loads(line) for line in repo.text("cat-file", "blob", f"{held}:log.jsonl").splitlines()]
    assert [(each["type"], each["checkpoint_id"]) for each in lines] == [
        ("decision", None), ("checkpoint", ids[0]), ("checkpoint", ids[1]),
    ]  # fmt: skip


def test_a_newer_carrier_is_not_guessed_at(repo: Repo) -> None:
    run_ok(repo.path, "log", "add", "decision", "decided")
    take(repo, 3)
    run_ok(repo.path, "forget", "--keep-last", "1")
    tip = repo.oid("refs/agentos/timelines/main")
    for commit in repo.text("rev-list", "--first-parent", tip).split():
        if b"Agentos-Carrier" in repo.git("cat-file", "commit", commit):
            held = repo.oid(f"{commit}^2")
            data = repo.git("cat-file", "commit", held).replace(b"Agentos-Carrier: 1", b"Agentos-Carrier: 2")
            newer = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=data).decode().strip()
            repo.git("replace", held, newer)
    listed = run_ok(repo.path, "checkpoint", "list")["checkpoints"]
    assert len(listed) == 2


# -- readers ---------------------------------------------------------------------------------------------------------


def test_a_damaged_ref_is_rebuilt_as_it_was(repo: Repo) -> None:
    take(repo, 5)
    old = repo.oid("refs/agentos/timelines/main")
    repo.config("extensions.preciousObjects", "true")  # so that the old chain is still there
    done = run_ok(repo.path, "forget", "--keep-last", "1")
    assert done["unreachable"] == ["objects: 'extensions.preciousobjects' is set, so that none is deleted"]
    new = repo.oid("refs/agentos/timelines/main")
    assert (old != new, repo.try_git("cat-file", "-e", old)) == (True, 0)
    context = open_workspace(repo.path).context
    assert timelines.rebuild(context.repository, "main") == new


def test_doctor_finds_nothing(repo: Repo) -> None:
    take(repo, 4)
    run_ok(repo.path, "forget", "latest")
    context = open_workspace(repo.path).context
    found = list(examine(context.repository, context.settings))
    assert [each for each in found if isinstance(each, Finding) and each.severity != "info"] == []


def test_what_cannot_be_read_stays(repo: Repo) -> None:
    ids = take(repo, 5)
    unpack(repo)
    damaged = repo.oid(f"{ids[1]}^4")
    path = repo.git_dir / "objects" / damaged[:2] / damaged[2:]
    os.chmod(path, 0o644)
    path.unlink()
    done = run_ok(repo.path, "forget", "--keep-last", "1")
    assert {"id": ids[1], "reason": "unreadable"} in done["protected"]
    assert timeline(repo) == [ids[1], *ids[3:]]
    assert done["freed_bytes"] == 0
    assert len(done["unreachable"]) == 1


# -- what is freed ---------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(repo: Repo) -> Repo:
    """A repository in which the user's own unreachable objects share contents with checkpoints."""
    repo.write("notes.txt", "note 1\n" * 40)  # as checkpoint 1 has it
    repo.write("stashed.txt", "only in the stash\n")
    repo.git("stash", "push", "-q", "--include-untracked")
    repo.git("stash", "drop", "-q")
    repo.write("notes.txt", "note 2\n" * 40)
    repo.commit("only in the reflog")
    repo.git("reset", "-q", "--hard", "HEAD^")
    repo.git("tag", "-a", "-m", "gone", "gone")
    repo.git("tag", "-d", "gone")
    repo.git("hash-object", "-w", "--stdin", stdin=b"a blob that nothing names\n")
    return repo


@pytest.mark.parametrize("packed", ["loose", "packed", "gc"])
def test_exactly_the_forgotten_is_deleted(shared: Repo, packed: str) -> None:
    repo = shared
    theirs = objects(repo)
    ids = take(repo, 8)
    repo.write("staged.txt", "note 4\n" * 40)
    repo.add("staged.txt")
    if packed == "packed":
        repo.git("repack", "-q", "-a", "-d", "--keep-unreachable")
    elif packed == "gc":
        repo.git("gc", "-q")
    before, size = objects(repo), store_size(repo)
    mine = reached_from(repo, ids[:6])
    kept = reached_from(repo, ids[6:])
    done = run_ok(repo.path, "forget", "--keep-last", "1")
    assert done["forgotten"] == ids[:6][::-1]
    assert done["unreachable"] == []
    after = objects(repo)
    assert theirs <= after, "the user's own objects stay"
    staged = repo.oid(":staged.txt")
    assert before - after >= mine - kept - theirs - {staged}
    assert not (before - after) & (kept | theirs | {staged})
    assert unreachable(repo) <= theirs
    assert done["freed_bytes"] == pytest.approx(size - store_size(repo), abs=3 * 4096 + 0.3 * size)
    assert store_size(repo) < size
    repo.git("fsck", "--strict", "--no-dangling", "--full")


def test_a_reflog_of_the_timeline_does_not_keep_it(repo: Repo) -> None:
    repo.config("core.logAllRefUpdates", "always")
    ids = take(repo, 4)
    tip = repo.oid("refs/agentos/timelines/main")
    repo.git("update-ref", "--create-reflog", "-m", "x", "refs/agentos/timelines/main", tip, tip)
    (repo.git_dir / "logs/refs/agentos/timelines").mkdir(parents=True, exist_ok=True)
    run_ok(repo.path, "forget", "--keep-last", "1")
    assert not set(ids[:2]) & objects(repo)
    assert tip not in objects(repo)


def test_packed_refs_do_not_keep_it(repo: Repo) -> None:
    ids = take(repo, 4)
    repo.git("pack-refs", "--all")
    run_ok(repo.path, "forget", "--keep-last", "1")
    assert not set(ids[:2]) & objects(repo)


def test_what_other_worktrees_and_operations_need_stays(repo: Repo) -> None:
    ids = take(repo, 5)
    repo.git("stash", "-q", "--include-untracked")
    repo.git("stash", "drop", "-q")
    linked = Repo(repo.scratch / "linked")
    repo.git("worktree", "add", "-q", "--detach", str(linked.path), repo.oid(f"{ids[0]}^3"))
    (repo.git_dir / "MERGE_HEAD").write_text(repo.oid(f"{ids[1]}^2") + "\n")
    blob = repo.oid(f"{ids[2]}:notes.txt")
    linked.git("update-index", "--add", "--cacheinfo", f"100644,{blob},staged.txt")
    needed = reached_from(repo, [f"{ids[0]}^3", f"{ids[1]}^2"]) | {blob}
    run_ok(repo.path, "forget", *ids[:4])
    assert needed <= objects(repo)
    assert not set(ids[:4]) & objects(repo)


def test_a_pack_that_is_kept_is_named(repo: Repo) -> None:
    ids = take(repo, 4)
    repo.git("repack", "-q", "-a", "-d")
    (pack,) = (repo.git_dir / "objects/pack").glob("*.pack")
    pack.with_suffix(".keep").touch()
    done = run_ok(repo.path, "forget", "--keep-last", "1")
    assert set(ids[:2]) <= objects(repo)
    assert done["freed_bytes"] == 0
    (told,) = done["unreachable"]
    assert told.endswith(f"'{pack.stem}.keep' keeps their pack")
    pack.with_suffix(".keep").unlink()


def test_lists_of_packs_and_commits_are_written_again(repo: Repo) -> None:
    take(repo, 3)
    repo.git("repack", "-q", "-a", "-d")
    take(repo, 4, first=5)
    repo.git("repack", "-q")
    repo.git("commit-graph", "write", "--reachable")
    repo.git("multi-pack-index", "write")
    repo.git("update-server-info")
    ids = timeline(repo)
    run_ok(repo.path, "forget", "--keep-last", "1")
    assert not set(ids[:-2]) & objects(repo)
    repo.git("commit-graph", "verify")
    repo.git("multi-pack-index", "verify")
    listed = (repo.git_dir / "objects/info/packs").read_text().split()
    assert {each for each in listed if each.startswith("pack-")} == {
        each.name for each in (repo.git_dir / "objects/pack").glob("*.pack")
    }
    repo.git("fsck", "--strict", "--no-dangling", "--full")


def test_alternates_are_left_alone(repo: Repo) -> None:
    """Objects in another store are not ours to delete."""
    ids = take(repo, 4)
    borrower = Repo(repo.scratch / "borrower")
    repo.git("clone", "-q", "--shared", str(repo.path), str(borrower.path))
    borrower.git("update-ref", "refs/agentos/timelines/main", repo.oid("refs/agentos/timelines/main"))
    there = objects(repo)
    run_ok(borrower.path, "forget", "--keep-last", "1")
    assert timeline(borrower) == ids[-2:]
    assert objects(repo) == there


def test_what_a_git_add_is_writing_stays(repo: Repo) -> None:
    """An index that is being written names objects that are in no index yet: its lock says so."""
    take(repo, 2)
    lock = repo.git_dir / "index.lock"
    lock.touch()
    later = take(repo, 2, first=30)
    done = run_ok(repo.path, "forget", *later)
    assert set(later) <= objects(repo)
    assert len(done["unreachable"]) == 1
    lock.unlink()
    run_ok(repo.path, "forget", "--keep-last", "9")  # forgets nothing, and deletes what was left
    assert not set(later) & objects(repo)


def test_an_object_that_somebody_has_just_touched_stays(repo: Repo) -> None:
    """git touches an object instead of writing it again, and relies on it from then on."""
    from git_agentos.git import object_removal
    from git_agentos.git.object_removal import Care

    oid = repo.git("hash-object", "-w", "--stdin", stdin=b"contents").decode().strip()
    path = repo.git_dir / "objects" / oid[:2] / oid[2:]
    repository = open_workspace(repo.path).context.repository
    now = path.stat().st_mtime_ns
    done = object_removal.remove(repository, {oid}, Care(used_until=now - 1))
    assert (done.in_use, path.exists()) == ({oid}, True)
    done = object_removal.remove(repository, {oid}, Care(used_until=now))
    assert (done.in_use, path.exists()) == (set(), False)


def test_a_deletion_that_was_killed_is_finished(repo: Repo) -> None:
    ids = take(repo, 6)
    context = open_workspace(repo.path).context
    request = forgetting.Request(["main"], ids[:4])
    plans = forgetting.plans_of(context, request)
    from git_agentos.retention import chain, pending

    left = chain.left_behind(context.repository, plans[0])
    pending.note(context.location, pending.ROOTS, [plans[0].tip, *ids[:4]])
    forgetting.move(context, plans[0], left)
    assert timeline(repo) == ids[4:]
    assert set(ids[:4]) <= objects(repo)
    run_ok(repo.path, "forget", "--keep-last", "9")
    assert not set(ids[:4]) & objects(repo)
    assert unreachable(repo) == set()
    assert list((repo.git_dir / "agentos/forgotten").iterdir()) == []


def test_logs_of_the_log_module_stay_readable(repo: Repo) -> None:
    """`log.last` of a worktree whose newest checkpoint was forgotten."""
    take(repo, 2)
    run_ok(repo.path, "forget", "latest")
    context = open_workspace(repo.path).context
    last = log.last(context, context.location)
    assert last is not None
    assert last.type == "checkpoint"
