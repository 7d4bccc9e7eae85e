"""Timelines go to a remote and come to other machines: by whole states, and by what is on the remote."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from git_agentos.sync import chain, commands
from git_agentos.workspace import open_workspace
from tests.support import ref_storage
from tests.support.dirty import make_dirty
from tests.support.json_reference import check_document
from tests.support.remotes import (
    add_hook,
    branches_on,
    clone,
    connect,
    http_server,
    make_bare,
    refs_on,
    ssh_server,
    sync,
)
from tests.support.repo import Repo, fill, git, git_run
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok


def ids(repo: Repo, *words: str) -> list[str]:
    return [each["id"] for each in run_ok(repo.path, "checkpoint", "list", *words)["checkpoints"]]


def save(repo: Repo, text: str) -> str:
    repo.write("notes.txt", text)
    return str(run_ok(repo.path, "checkpoint", "-m", text)["id"])


def test_a_state_comes_to_another_machine(repo: Repo, shared: Path, tmp_path: Path) -> None:
    make_dirty(repo)
    before = complete_state(repo.path)
    saved = run_ok(repo.path, "checkpoint", "-m", "here")["id"]
    assert sync(repo)["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    assert list(refs_on(shared)) == ["desk/timelines/main"]
    assert branches_on(shared) == []

    there = clone(tmp_path, shared, "lap")
    done = sync(there)
    assert (done["pushed"], done["fetched"]) == ([], [{"timeline": "main", "host": "desk", "checkpoints": 1}])
    assert ids(there) == []
    assert ids(there, "--host", "desk") == ids(there, "--all", "--host", "de") == [saved]
    assert run_ok(there.path, "checkpoint", "show", "latest", "--host", "desk")["id"] == saved
    restored = run_ok(there.path, "restore", saved[:8], "--host", "desk")
    assert restored["checkpoint"] == saved
    assert_same(before, complete_state(there.path), "on the other machine", branch="any")
    there.git("fsck", "--no-dangling", "--connectivity-only")


def test_the_chain_there_is_the_one_here_as_long_as_nothing_is_left_out(repo: Repo, shared: Path) -> None:
    for text in "abc":
        save(repo, text)
        sync(repo)
        assert refs_on(shared)["desk/timelines/main"] == repo.oid("refs/agentos/timelines/main")
    done = sync(repo)
    assert (done["pushed"], done["fetched"], done["held_back"], done["refused"]) == ([], [], [], [])


def test_all_agents_and_twenty_refs_at_a_time(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """A server that takes no more refs in one push than 20 has them all."""
    add_hook(shared, "pre-receive", 'n=$(wc -l)\necho "$n" >>count\n[ "$n" -le 20 ]')
    tip = save(repo, "first") and repo.oid("refs/agentos/timelines/main")
    names = [f"dev-{n}" for n in range(44)]
    for name in names:
        repo.git("update-ref", f"refs/agentos/timelines/{name}", tip)
    done = sync(repo, "--all")
    assert {each["timeline"] for each in done["pushed"]} == {"main", *names}
    assert (shared / "count").read_text().split() == ["20", "20", "5"]
    assert len(refs_on(shared)) == 45
    only = clone(tmp_path, shared, "lap")
    # A timeline whose checkpoints say that they are of another worktree is not taken.
    assert [each["timeline"] for each in run(only.path, "--json", "sync").json["refused"]] == sorted(
        f"desk/{name}" for name in names
    )


def test_two_machines_with_the_same_agent(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """Each has its own timeline of `main`, and sees the other's."""
    other = clone(tmp_path, shared, "lap")
    fill(other)
    mine, theirs = save(repo, "mine"), save(other, "theirs")
    sync(repo)
    sync(other)
    sync(repo)
    assert sorted(refs_on(shared)) == ["desk/timelines/main", "lap/timelines/main"]
    assert (ids(repo), ids(repo, "--host", "lap")) == ([mine], [theirs])
    assert (ids(other), ids(other, "--host", "desk")) == ([theirs], [mine])


def test_the_newest_only_and_later_the_others(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """What was left out is appended later, and is shown where it belongs by its time."""
    saved = [save(repo, text) for text in "abcd"]
    assert sync(repo, "--push", "--last", "1")["pushed"][0]["checkpoints"] == 1
    there = clone(tmp_path, shared, "lap")
    sync(there)
    assert ids(there, "--host", "desk") == [saved[-1]]
    first = refs_on(shared)["desk/timelines/main"]
    assert run_ok(repo.path, "sync", "status")["timelines"] == [
        {"timeline": "main", "host": "desk", "ahead": 3, "behind": 0, "held_back": 0}
    ]
    saved.append(save(repo, "e"))
    assert sync(repo)["pushed"][0]["checkpoints"] == 4
    git(shared, "merge-base", "--is-ancestor", first, refs_on(shared)["desk/timelines/main"])
    assert run_ok(there.path, "sync", "status")["timelines"] == [
        {"timeline": "main", "host": "desk", "ahead": 0, "behind": None, "held_back": 0}
    ]
    sync(there)
    assert ids(there, "--host", "desk") == saved[::-1]
    assert run_ok(there.path, "checkpoint", "show", "latest", "--host", "desk")["id"] == saved[-1]


def test_what_it_prints(repo: Repo, shared: Path, tmp_path: Path) -> None:
    def said(where: Repo, *words: str) -> list[str]:
        done = run(where.path, "sync", *words)
        assert done.code == 0, str(done)
        return done.out.decode().splitlines()

    save(repo, "a")
    assert said(repo, "--dry-run") == ["would be pushed   main  desk  1 checkpoint"]
    assert said(repo, "status") == ["This clone is desk; the remote is origin.", "main  desk  1 ahead"]
    assert said(repo) == ["pushed   main  desk  1 checkpoint"]
    assert said(repo) == ["Nothing is new here or on origin."]
    assert said(repo, "-q") == []
    assert said(repo, "status", "origin") == ["This clone is desk; the remote is origin.", "main  desk  the same"]
    there = clone(tmp_path, shared, "lap")
    assert said(there, "status") == ["This clone is lap; the remote is origin.", "main  desk  new there"]
    assert said(there, "-q", "status") == ["main"]
    assert said(there, "origin", "-q") == ["desk/main"]
    check_document(run_ok(there.path, "sync", "status"))


@pytest.mark.parametrize("option", ["--filter=blob:none", "--depth=1"])
def test_in_a_clone_that_is_not_whole(option: str, repo: Repo, shared: Path, tmp_path: Path) -> None:
    """What was fetched is whole, and is restored without the remote."""
    make_dirty(repo)
    before = complete_state(repo.path)
    saved = run_ok(repo.path, "checkpoint")["id"]
    sync(repo)
    repo.git("push", "-q", "origin", "main~1:refs/heads/main")
    git(tmp_path, "clone", "-q", option, "--branch=main", shared.as_uri(), "lap")
    there = Repo(tmp_path / "lap")
    there.config("agentos.sync.host", "lap")
    sync(there)
    there.git("remote", "set-url", "origin", (tmp_path / "nowhere").as_uri())
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert_same(before, complete_state(there.path), "on the other machine", branch="any")


def test_many_at_once(repo: Repo, shared: Path) -> None:
    """Synchronised by several processes while others create checkpoints: each that was reported comes."""
    reported: list[str] = []

    def create(number: int) -> None:
        reported.append(run_ok(repo.path, "checkpoint", "-m", str(number))["id"])

    def synchronise(_: int) -> None:
        sync(repo, "--push")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda job: job[0](job[1]), [(each, n) for n in range(5) for each in (create, synchronise)]))
    sync(repo, "--push")
    tip = refs_on(shared)["desk/timelines/main"]
    rows = git(shared, "rev-list", "--first-parent", "--min-parents=2", "--parents", tip).decode().splitlines()
    assert sorted(row.split()[2] for row in rows) == sorted(reported)


def test_a_long_timeline_goes_in_portions(repo: Repo, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has arrived before it is refused is there, and the rest follows."""
    monkeypatch.setattr(chain, "_PORTION", 2)
    for text in "abcde":
        save(repo, text)
    hook = add_hook(shared, "pre-receive", "echo >>count; [ $(wc -l <count) -lt 3 ]")
    done = commands.sync(open_workspace(repo.path).context, push=True)
    assert [each.checkpoints for each in done.pushed] == [4]
    assert [each.timeline for each in done.refused] == ["main"]
    assert refs_on(shared)["desk/timelines/main"] == repo.oid("refs/agentos/timelines/main~1")
    hook.unlink()
    assert sync(repo)["pushed"][0]["checkpoints"] == 1


def test_a_dry_run_changes_nothing(repo: Repo, shared: Path, tmp_path: Path) -> None:
    save(repo, "a")
    before = repo.git("for-each-ref")
    done = sync(repo, "--dry-run")
    assert done["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    assert (refs_on(shared), repo.git("for-each-ref")) == ({}, before)
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    done = sync(there, "--dry-run")
    assert done["fetched"] == [{"timeline": "main", "host": "desk", "checkpoints": None}]
    assert there.git("for-each-ref") == b""


def test_the_newest_only_where_some_were_forgotten(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """What stands for forgotten checkpoints is none of them: the newest three are three."""
    saved = [save(repo, text) for text in "abcdefg"]
    run_ok(repo.path, "forget", saved[2], saved[4])
    assert sync(repo, "--push", "--last", "3")["pushed"][0]["checkpoints"] == 3
    there = clone(tmp_path, shared, "lap")
    sync(there)
    assert ids(there, "--host", "desk") == [saved[6], saved[5], saved[3]]
    assert sync(repo)["pushed"][0]["checkpoints"] == 2
    sync(there)
    assert ids(there, "--host", "desk") == ids(repo)


def test_after_checkpoints_were_forgotten(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """The log of what was forgotten comes along, and the objects of it are nowhere any more."""
    first, second, third = (save(repo, text) for text in ("first", "second", "third"))
    secret = repo.text("rev-parse", f"{second}:notes.txt")
    there = clone(tmp_path, shared, "lap")
    sync(repo)
    sync(there)
    run_ok(repo.path, "forget", second)
    done = sync(repo)
    assert (done["pushed"], done["refused"]) == ([], [])
    assert sorted(refs_on(shared)) == ["desk/timelines/main@2"]
    assert run_ok(repo.path, "sync", "status")["timelines"] == [
        {"timeline": "main", "host": "desk", "ahead": 0, "behind": 0, "held_back": 0}
    ]
    sync(there)
    assert ids(there, "--host", "desk") == ids(repo) == [third, first]
    assert run_ok(there.path, "restore", third, "--host", "desk")["checkpoint"] == third
    entries = [
        each["checkpoint_id"] for each in run_ok(repo.path, "log", "list")["entries"] if each["type"] == "checkpoint"
    ]
    assert second in entries
    git(shared, "gc", "-q", "--prune=now")
    assert git_run(shared, "cat-file", "-e", secret).returncode != 0
    fourth = save(repo, "fourth")
    assert sync(repo)["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    sync(there)
    assert ids(there, "--host", "desk") == [fourth, third, first]


def test_a_new_generation_after_checkpoints_are_gone(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """The rest is pushed under another name, and the old one deleted, here, there and on the other machine."""
    saved = [save(repo, text) for text in "abc"]
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    sync(there)
    # As `forget` does it: the timeline is built again without the first checkpoint.
    tip = repo.oid("refs/agentos/timelines/main")
    root = repo.oid(f"{tip}~3")
    for commit in (f"{tip}~1", tip):
        kept = repo.oid(f"{commit}^2")
        root = repo.text(
            "commit-tree",
            f"{commit}^{{tree}}",
            "-p",
            root,
            "-p",
            kept,
            "-m",
            repo.text("log", "-1", "--format=%B", kept),
        )
    repo.git("update-ref", "refs/agentos/timelines/main", root)
    assert run_ok(repo.path, "sync", "status")["timelines"][0]["behind"] == 1
    done = sync(repo)
    assert (done["pushed"], done["refused"]) == ([], [])
    assert list(refs_on(shared)) == ["desk/timelines/main@2"]
    assert repo.text("for-each-ref", "--format=%(refname)", "refs/agentos/remotes") == (
        "refs/agentos/remotes/origin/desk/timelines/main@2"
    )
    sync(there)
    assert ids(there, "--host", "desk") == saved[:0:-1]
    assert there.text("for-each-ref", "--format=%(refname)", "refs/agentos/remotes") == (
        "refs/agentos/remotes/origin/desk/timelines/main@2"
    )
    saved.append(save(repo, "d"))
    assert sync(repo)["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    assert list(refs_on(shared)) == ["desk/timelines/main@2"]


def test_a_refused_timeline_does_not_stop_others(repo: Repo, shared: Path) -> None:
    """What the server refuses is named, and the next sync pushes it."""
    save(repo, "a")
    repo.git("update-ref", "refs/agentos/timelines/dev-1", "refs/agentos/timelines/main")
    hook = add_hook(shared, "update", 'case $1 in */main) echo "not today" >&2; exit 1;; esac')
    done = run(repo.path, "--json", "sync", "--all")
    check_document(done.json)
    assert done.code == 1
    assert [each["timeline"] for each in done.json["pushed"]] == ["dev-1"]
    assert done.json["refused"] == [{"timeline": "main", "reason": "hook declined"}]
    hook.unlink()
    assert [each["timeline"] for each in sync(repo, "--all")["pushed"]] == ["main"]


def test_a_copied_clone_is_another_host(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """One that was copied with its git directory does not push to the refs of the first; one that was moved does."""
    repo.git("config", "--unset", "agentos.sync.host")
    save(repo, "a")
    first = sync(repo)["host"]
    repo.path.rename(tmp_path / "moved")
    moved = Repo(tmp_path / "moved")
    assert sync(moved)["host"] == first
    copied = Repo(tmp_path / "copied")
    shutil.copytree(moved.path, copied.path, symlinks=True)
    save(copied, "of the copy")
    done = sync(copied)
    assert done["host"] != first
    assert sync(moved)["host"] == first
    assert {name.split("/")[0] for name in refs_on(shared)} == {first, done["host"]}


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_name_that_two_clones_have(is_copy: bool, repo: Repo, shared: Path, tmp_path: Path) -> None:
    """Nothing is forced or deleted: the second is refused and told why; under a name of its own it can push."""
    if is_copy:
        save(repo, "before")
        sync(repo)
        shutil.copytree(repo.path, tmp_path / "lap", symlinks=True)
        other = Repo(tmp_path / "lap")
    else:
        other = clone(tmp_path, shared, "lap")
        other.config("agentos.sync.host", "desk")
        fill(other)
    save(repo, "mine")
    save(other, "theirs")
    sync(repo)
    kept = refs_on(shared)
    done = run(other.path, "--json", "sync")
    assert (done.code, done.json["pushed"]) == (1, [])
    [refused] = done.json["refused"]
    assert refused["reason"].startswith("another clone pushes as the host 'desk', too")
    assert refs_on(shared) == kept
    other.config("agentos.sync.host", "lap")
    assert sync(other)["pushed"]
    assert sorted(refs_on(shared)) == ["desk/timelines/main", "lap/timelines/main"]


@pytest.mark.parametrize("words", [("--push", "--fetch"), ("--last", "0"), ("nowhere",), ("--agent", "x", "--all")])
def test_usage(words: tuple[str, ...], repo: Repo, shared: Path) -> None:
    assert run(repo.path, "sync", *words).code == 2


def test_without_a_remote(repo: Repo) -> None:
    done = run(repo.path, "sync")
    assert done.code == 2
    assert b"there is no remote to synchronise with" in done.err


def test_a_remote_that_is_gone(repo: Repo, shared: Path) -> None:
    save(repo, "a")
    shared.rename(shared.with_name("elsewhere"))
    done = run(repo.path, "--json", "sync")
    assert (done.code, done.json["error"]["kind"]) == (1, "git")


def test_an_agent_may_not_push_or_allow(repo: Repo, shared: Path) -> None:
    """`sync` is as `git push` to the guard; to fetch is allowed, and to allow a finding never."""
    save(repo, "a")
    agent = {"AGENTOS_AGENT_ID": "dev-1"}
    assert run(repo.path, "sync", env=agent).code == 3
    assert run(repo.path, "sync", "--push", env=agent).code == 3
    assert run(repo.path, "sync", "--fetch", env=agent).code == 0
    assert run(repo.path, "sync", "--dry-run", env=agent).code == 0
    repo.config("agentos.policy.approvals", "allow")
    done = run(repo.path, "sync", "--fetch", "--allow", "0123456789abcdef", env=agent)
    assert done.code == 3
    assert refs_on(shared) == {}


def test_over_ssh(repo: Repo, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    with ssh_server(tmp_path / "keys", shared, monkeypatch) as url:
        _there_and_back(repo, url, shared, tmp_path)


def test_over_http(repo: Repo, shared: Path, tmp_path: Path) -> None:
    with http_server(shared) as url:
        _there_and_back(repo, url, shared, tmp_path)


def _there_and_back(repo: Repo, url: str, shared: Path, tmp_path: Path) -> None:
    repo.git("remote", "set-url", "origin", url)
    make_dirty(repo)
    before = complete_state(repo.path)
    saved = run_ok(repo.path, "checkpoint")["id"]
    assert sync(repo)["pushed"][0]["checkpoints"] == 1
    there = clone(tmp_path, shared, "lap")
    there.git("remote", "set-url", "origin", url)
    assert sync(there)["fetched"][0]["checkpoints"] == 1
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert_same(before, complete_state(there.path), "on the other machine", branch="any")
    run_ok(there.path, "checkpoint", "-m", "from there")
    assert sync(there)["pushed"]
    assert sync(repo)["fetched"]


def test_sha256_and_reftables(tmp_path: Path) -> None:
    options = ["--object-format=sha256"] + (["--ref-format=reftable"] if ref_storage.is_known() else [])
    repo = Repo.init(tmp_path / "repo", *options)
    make_dirty(fill(repo))
    shared = make_bare(tmp_path, repo)
    connect(repo, shared, "desk")
    before = complete_state(repo.path)
    saved = run_ok(repo.path, "checkpoint")["id"]
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    sync(there)
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert_same(before, complete_state(there.path), "on the other machine", branch="any")
