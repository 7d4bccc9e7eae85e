"""Timelines go to a remote encrypted, and come to those who have a key: as whole states. Nobody else reads a word."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pyrage
import pytest

from git_agentos.sync import bundles, chain, commands
from git_agentos.workspace import open_workspace
from tests.support import ref_storage
from tests.support.age import Key, decrypt_with, encrypt_to
from tests.support.dirty import make_dirty
from tests.support.remotes import (
    add_hook,
    branches_on,
    clone,
    connect,
    http_server,
    make_bare,
    refs_on,
    require,
    ssh_server,
    sync,
)
from tests.support.repo import Repo, fill, git
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok

# Made up, and put together here: no scanner of this project's own files is to find it.
SECRET = "ghp_" + "x7Qm2Lr9Tz" * 3 + "4Wv8Np"


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path, "ada")


@pytest.fixture
def shared(repo: Repo, tmp_path: Path, key: Key) -> Path:
    """A bare repository that `repo`, the host `desk`, has as its remote, and pushes to encrypted."""
    path = make_bare(tmp_path, repo)
    connect(repo, path, "desk")
    encrypt_to(repo, key.recipient)
    return path


@pytest.fixture
def there(shared: Path, tmp_path: Path, key: Key) -> Repo:
    """Another machine's clone, with the key."""
    made = clone(tmp_path, shared, "lap")
    decrypt_with(made, key.path)
    return made


def save(repo: Repo, text: str) -> str:
    repo.write("notes.txt", text)
    return str(run_ok(repo.path, "checkpoint", "-m", text)["id"])


def ids(repo: Repo, *words: str) -> list[str]:
    return [each["id"] for each in run_ok(repo.path, "checkpoint", "list", *words)["checkpoints"]]


def everything(path: Path) -> bytes:
    """All that a bare repository says: its objects, their names, and its refs."""
    args = ["git", "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(args, cwd=path, capture_output=True, check=True).stdout + git(path, "for-each-ref")


def test_a_state_comes_to_another_machine(repo: Repo, shared: Path, there: Repo) -> None:
    make_dirty(repo)
    before = complete_state(repo.path)
    saved = run_ok(repo.path, "checkpoint", "-m", "here")["id"]
    assert sync(repo)["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    assert list(refs_on(shared)) == ["desk/bundles/main"]
    assert branches_on(shared) == []
    assert sync(there)["fetched"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    assert there.text("for-each-ref", "--format=%(refname) %(objectname)") == (
        f"refs/agentos/remotes/origin/desk/timelines/main {repo.oid('refs/agentos/timelines/main')}"
    )
    assert ids(there, "--host", "desk") == [saved]
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert_same(before, complete_state(there.path), "on the other machine", branch="any")
    there.git("fsck", "--no-dangling", "--connectivity-only")


def test_nobody_without_the_key_reads_anything(repo: Repo, shared: Path, there: Repo) -> None:
    """Contents, names, messages, the log and metadata are nowhere on the remote."""
    repo.write("folder-plain/name-plain.txt", "content-plain\n")
    run_ok(repo.path, "log", "add", "decision", "entry-plain")
    repo.commit("commit-plain")
    repo.write("untracked-plain.txt", "more-plain\n")
    run_ok(repo.path, "checkpoint", "-m", "description-plain", "--meta", "key-plain=value-plain")
    sync(repo)
    said = everything(shared)
    assert b"-plain" not in said
    assert str(repo.path).encode() not in said
    for name, oid in (
        row.split(" ") for row in repo.text("for-each-ref", "--format=%(refname) %(objectname)").split("\n")
    ):
        assert oid.encode() not in said, name
    # Which shows that the search finds what is there.
    encrypt_to(repo)
    sync(repo)
    for word in ("folder", "name", "content", "entry", "commit", "untracked", "more", "description", "key", "value"):
        assert f"{word}-plain".encode() in everything(shared), word


def test_the_next_bundle_has_only_what_is_new(repo: Repo, shared: Path, there: Repo) -> None:
    """It is small, the remote gets four objects, and nobody fetches an earlier bundle again, or keeps one."""
    repo.write("large", random.Random(1).randbytes(300_000))
    first = save(repo, "first")
    sync(repo)
    before = refs_on(shared)["desk/bundles/main"]
    sync(there)
    # Whoever needed it again could not have it.
    [bundle] = git(shared, "rev-parse", f"{before}^2:0000.age").decode().split()
    Repo(shared).git("cat-file", "-e", bundle)
    (shared / "objects" / bundle[:2] / bundle[2:]).unlink()

    second = save(repo, "second")
    assert sync(repo)["pushed"][0]["checkpoints"] == 1
    after = refs_on(shared)["desk/bundles/main"]
    new = git(shared, "rev-list", "--objects", "--no-object-names", after, f"^{before}").decode().split()
    assert len(new) == 4  # the commit of the chain, that of the bundle, its tree, and one piece
    [size] = git(shared, "cat-file", "-s", f"{after}^2:0000.age").decode().split()
    assert int(size) < 10_000
    assert sync(there)["fetched"][0]["checkpoints"] == 1
    assert ids(there, "--host", "desk") == [second, first]
    for each in (repo, there):
        assert all(
            each.try_git("cat-file", "-e", oid) != 0
            for oid in new
            if oid != each.text("hash-object", "-t", "tree", "/dev/null")
        )
    assert sync(repo)["pushed"] == sync(there)["fetched"] == []


def test_what_the_remote_has_is_in_no_bundle(repo: Repo, shared: Path, there: Repo) -> None:
    """Commits of its branches come along, and stay there when the branch is deleted."""
    repo.write("large", random.Random(1).randbytes(300_000))
    repo.commit("public")
    repo.git("push", "-q", "origin", "HEAD:refs/heads/topic")
    saved = save(repo, "on top")
    sync(repo)
    tip = refs_on(shared)["desk/bundles/main"]
    assert git(shared, "rev-list", "--parents", "-1", f"{tip}^2").decode().split()[1:] == [repo.oid("HEAD")]
    assert int(git(shared, "cat-file", "-s", f"{tip}^2:0000.age")) < 10_000
    git(shared, "update-ref", "-d", "refs/heads/topic")
    git(shared, "gc", "-q", "--prune=now")
    sync(there)
    assert ids(there, "--host", "desk") == [saved]
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert (there.path / "large").read_bytes() == repo.read("large")
    there.git("fsck", "--no-dangling")
    # And it goes on where there is no branch any more, and with another branch.
    for name in (None, "more"):
        if name is not None:
            repo.write(name, random.Random(2).randbytes(300_000))
            repo.commit(name)
            repo.git("push", "-q", "origin", f"HEAD:refs/heads/{name}")
        saved = save(repo, "later")
        sync(repo)
        tip = refs_on(shared)["desk/bundles/main"]
        assert int(git(shared, "cat-file", "-s", f"{tip}^2:0000.age")) < 10_000
        if name is not None:
            git(shared, "update-ref", "-d", f"refs/heads/{name}")
            git(shared, "gc", "-q", "--prune=now")
        sync(there)
        assert ids(there, "--host", "desk")[0] == saved
    there.git("fsck", "--no-dangling")


def test_an_archive_with_ignored_files_comes_back_exactly(repo: Repo, shared: Path, there: Repo) -> None:
    """So does what has a secret: it is encrypted, so nothing is held back."""
    agent = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--no-guard")["path"]))
    agent.write(".gitignore", ".env\ncache/\n")
    agent.write(".env", f"TOKEN={SECRET}\n")
    agent.write("cache/a", "cached\n")
    agent.write("settings.py", f"token = '{SECRET}'\n")
    make_dirty(agent)
    before = complete_state(agent.path)
    run_ok(repo.path, "worktree", "archive", "dev-1")
    done = sync(repo, "--all")
    assert (done["held_back"], [each["timeline"] for each in done["pushed"]]) == ([], ["dev-1"])
    assert SECRET.encode() not in everything(shared)
    sync(there)
    made = run_ok(there.path, "worktree", "create", "dev-1", "--revive", "--host", "desk")["path"]
    assert_same(before, complete_state(made), "the revived worktree")


def test_two_machines_with_the_same_agent(repo: Repo, shared: Path, there: Repo, key: Key) -> None:
    encrypt_to(there, key.recipient)
    decrypt_with(repo, key.path)
    fill(there)
    mine, theirs = save(repo, "mine"), save(there, "theirs")
    sync(repo)
    sync(there)
    sync(repo)
    assert sorted(refs_on(shared)) == ["desk/bundles/main", "lap/bundles/main"]
    assert (ids(repo), ids(repo, "--host", "lap")) == ([mine], [theirs])
    assert (ids(there), ids(there, "--host", "desk")) == ([theirs], [mine])


def test_what_it_prints(repo: Repo, shared: Path, there: Repo) -> None:
    def said(where: Repo, *words: str) -> list[str]:
        done = run(where.path, "sync", *words)
        assert done.code == 0, str(done)
        return done.out.decode().splitlines()

    save(repo, "a")
    assert said(repo, "--dry-run") == ["would be pushed   main  desk  1 checkpoint"]
    assert refs_on(shared) == {}
    assert said(repo, "status") == ["This clone is desk; the remote is origin.", "main  desk  1 ahead"]
    assert said(repo) == ["pushed   main  desk  1 checkpoint"]
    assert said(repo) == ["Nothing is new here or on origin."]
    assert said(repo, "status") == ["This clone is desk; the remote is origin.", "main  desk  the same"]
    assert said(there, "status") == ["This clone is lap; the remote is origin.", "main  desk  new there"]
    assert said(there, "--dry-run") == ["would be fetched  main  desk"]
    assert there.git("for-each-ref") == b""
    assert said(there) == ["fetched  main  desk  1 checkpoint"]
    assert said(there, "status") == ["This clone is lap; the remote is origin.", "main  desk  the same"]


def test_the_newest_only_and_later_the_others(repo: Repo, shared: Path, there: Repo) -> None:
    saved = [save(repo, text) for text in "abcd"]
    assert sync(repo, "--push", "--last", "1")["pushed"][0]["checkpoints"] == 1
    sync(there)
    assert ids(there, "--host", "desk") == [saved[-1]]
    assert sync(repo)["pushed"][0]["checkpoints"] == 3
    sync(there)
    assert ids(there, "--host", "desk") == saved[::-1]


def test_after_checkpoints_were_forgotten(repo: Repo, shared: Path, there: Repo) -> None:
    first, second, third = (save(repo, text) for text in ("first", "second", "third"))
    sync(repo)
    sync(there)
    run_ok(repo.path, "forget", second)
    assert sync(repo)["refused"] == []
    assert list(refs_on(shared)) == ["desk/bundles/main@2"]
    sync(there)
    assert ids(there, "--host", "desk") == [third, first]
    fourth = save(repo, "fourth")
    assert sync(repo)["pushed"][0]["checkpoints"] == 1
    sync(there)
    assert ids(there, "--host", "desk") == [fourth, third, first]
    assert there.text("for-each-ref", "--format=%(refname)") == "refs/agentos/remotes/origin/desk/timelines/main@2"


def test_from_clear_to_encrypted_and_back(repo: Repo, shared: Path, there: Repo) -> None:
    """Each is a new generation; what was pushed the other way stays until somebody deletes it."""
    encrypt_to(repo)
    saved = [save(repo, "clear")]
    sync(repo)
    sync(there)
    clear = refs_on(shared)
    encrypt_to(repo, Key(there.path.parent, "another").recipient, _recipient(there))
    saved.append(save(repo, "hidden"))
    assert run_ok(repo.path, "sync", "status")["timelines"][0]["ahead"] == 2
    assert sync(repo)["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 2}]
    assert sync(repo)["pushed"] == []
    assert sorted(refs_on(shared)) == ["desk/bundles/main@2", "desk/timelines/main"]
    assert refs_on(shared).items() > clear.items()
    sync(there)
    assert ids(there, "--host", "desk") == saved[::-1]
    # As documented: it is deleted with plain git.
    repo.git("push", "-q", "origin", "--delete", "refs/agentos/hosts/desk/timelines/main")
    saved.append(save(repo, "hidden, too"))
    assert sync(repo)["pushed"][0]["checkpoints"] == 1
    assert list(refs_on(shared)) == ["desk/bundles/main@2"]
    encrypt_to(repo)
    assert sync(repo)["pushed"][0]["checkpoints"] == 3
    assert sorted(refs_on(shared)) == ["desk/bundles/main@2", "desk/timelines/main@3"]
    assert refs_on(shared)["desk/timelines/main@3"] == repo.oid("refs/agentos/timelines/main")
    sync(there)
    assert ids(there, "--host", "desk") == saved[::-1]
    assert (sync(repo)["pushed"], sync(there)["fetched"]) == ([], [])


def _recipient(repo: Repo) -> str:
    """The recipient whose key a clone has."""
    return Path(repo.text("config", "agentos.sync.identity")).read_text().split()[3]


def test_recipients_who_come_and_go(repo: Repo, shared: Path, there: Repo, key: Key, tmp_path: Path) -> None:
    """A new one can read everything: it is pushed again. One who has gone reads nothing that comes after."""
    bob = Key(tmp_path, "bob")
    other = clone(tmp_path, shared, "bob")
    decrypt_with(other, bob.path)
    saved = [save(repo, "for ada")]
    sync(repo)
    encrypt_to(repo, key.recipient, bob.recipient)
    saved.append(save(repo, "for both"))
    assert sync(repo)["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    assert list(refs_on(shared)) == ["desk/bundles/main@2"]
    sync(other)
    sync(there)
    assert ids(other, "--host", "desk") == ids(there, "--host", "desk") == saved[::-1]
    encrypt_to(repo, key.recipient)
    saved.append(save(repo, "for ada again"))
    sync(repo)
    assert list(refs_on(shared)) == ["desk/bundles/main@2"]
    done = run(other.path, "--json", "sync")
    assert (done.code, done.json["fetched"]) == (1, [])
    assert "encrypted to other keys" in done.json["refused"][0]["reason"]
    assert ids(other, "--host", "desk") == saved[1::-1]
    sync(there)
    assert ids(there, "--host", "desk") == saved[::-1]
    encrypt_to(repo, key.recipient, bob.recipient)
    sync(repo)
    sync(other)
    assert list(refs_on(shared)) == ["desk/bundles/main@3"]
    assert ids(other, "--host", "desk") == saved[::-1]


def test_a_key_of_openssh(repo: Repo, shared: Path, there: Repo, tmp_path: Path) -> None:
    program = require("ssh-keygen", "openssh-client")
    subprocess.run([program, "-q", "-t", "ed25519", "-N", "", "-C", "ada@desk", "-f", tmp_path / "id"], check=True)
    encrypt_to(repo, (tmp_path / "id.pub").read_text().strip())
    decrypt_with(there, tmp_path / "id")
    saved = save(repo, "a")
    sync(repo)
    sync(there)
    assert ids(there, "--host", "desk") == [saved]


def test_a_bundle_by_hand(repo: Repo, shared: Path, key: Key, tmp_path: Path) -> None:
    """As documented: git and age are enough, where git-agentos is not installed."""
    saved = save(repo, "a")
    sync(repo)
    tip = refs_on(shared)["desk/bundles/main"]
    data = git(shared, "cat-file", "blob", f"{tip}^2:0000.age")
    keys = [line for line in key.path.read_text().splitlines() if not line.startswith("#")]
    (tmp_path / "one.bundle").write_bytes(
        pyrage.decrypt(data, [pyrage.x25519.Identity.from_str(each) for each in keys])
    )
    algorithm = repo.text("rev-parse", "--show-object-format")
    made = Repo.init(tmp_path / "plain", f"--object-format={algorithm}")
    made.git("bundle", "verify", str(tmp_path / "one.bundle"))
    made.git("fetch", "-q", str(tmp_path / "one.bundle"), "refs/agentos/hosts/*:refs/recovered/*")
    assert made.oid("refs/recovered/desk/timelines/main^2") == saved
    message = git(shared, "log", "-1", "--format=%B", f"{tip}^2").decode()
    assert message.split("\n\n")[1].splitlines() == ["Agentos-Bundle: 1", "Agentos-Recipients: 1"]


def test_a_large_bundle_goes_in_pieces(repo: Repo, shared: Path, there: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "_PIECE", 1000)
    repo.write("large", random.Random(1).randbytes(30_000))
    saved = save(repo, "a")
    assert commands.sync(open_workspace(repo.path).context, push=True).pushed
    names = git(shared, "ls-tree", "--name-only", f"{refs_on(shared)['desk/bundles/main']}^2").decode().split()
    assert names == [f"{number:04}.age" for number in range(len(names))]
    assert len(names) > 30
    sync(there)
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert (there.path / "large").read_bytes() == repo.read("large")


def test_a_long_timeline_goes_in_portions(
    repo: Repo, shared: Path, there: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has arrived before it is refused is there, and the rest follows."""
    monkeypatch.setattr(chain, "_PORTION", 2)
    saved = [save(repo, text) for text in "abcde"]
    hook = add_hook(shared, "pre-receive", "echo >>count; [ $(wc -l <count) -lt 3 ]")
    done = commands.sync(open_workspace(repo.path).context, push=True)
    assert [each.checkpoints for each in done.pushed] == [4]
    assert [each.timeline for each in done.refused] == ["main"]
    sync(there)
    assert ids(there, "--host", "desk") == saved[3::-1]
    hook.unlink()
    assert sync(repo)["pushed"][0]["checkpoints"] == 1
    sync(there)
    assert ids(there, "--host", "desk") == saved[::-1]


def test_all_agents(repo: Repo, shared: Path, there: Repo) -> None:
    """What the server refuses is named, and the next sync pushes it."""
    for name in ("dev-1", "dev-2"):
        agent = Repo(Path(run_ok(repo.path, "worktree", "create", name, "--no-guard")["path"]))
        save(agent, name)
    hook = add_hook(shared, "update", 'case $1 in */dev-1) echo "not today" >&2; exit 1;; esac')
    done = run(repo.path, "--json", "sync", "--all")
    assert (done.code, [each["timeline"] for each in done.json["pushed"]]) == (1, ["dev-2"])
    assert done.json["refused"] == [{"timeline": "dev-1", "reason": "hook declined"}]
    hook.unlink()
    assert [each["timeline"] for each in sync(repo, "--all")["pushed"]] == ["dev-1"]
    assert sorted(each["timeline"] for each in sync(there)["fetched"]) == ["dev-1", "dev-2"]


@pytest.mark.parametrize("option", ["--filter=blob:none", "--depth=1"])
def test_in_a_clone_that_is_not_whole(option: str, repo: Repo, shared: Path, tmp_path: Path, key: Key) -> None:
    """What was fetched is whole, and what is pushed from there is."""
    make_dirty(repo)
    before = complete_state(repo.path)
    repo.git("push", "-q", "origin", "main~1:refs/heads/main")
    saved = run_ok(repo.path, "checkpoint")["id"]
    sync(repo)
    git(tmp_path, "clone", "-q", option, "--branch=main", shared.as_uri(), "lap")
    there = Repo(tmp_path / "lap")
    there.config("agentos.sync.host", "lap")
    decrypt_with(there, key.path)
    encrypt_to(there, key.recipient)
    theirs = save(there, "theirs")
    sync(there)
    there.git("remote", "set-url", "origin", (tmp_path / "nowhere").as_uri())
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert_same(before, complete_state(there.path), "on the other machine", branch="any")
    decrypt_with(repo, key.path)
    sync(repo)
    assert ids(repo, "--host", "lap") == [theirs]
    repo.git("fsck", "--no-dangling")


def test_over_ssh(repo: Repo, shared: Path, there: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    with ssh_server(tmp_path / "keys", shared, monkeypatch) as url:
        _there_and_back(repo, there, url)


def test_over_http(repo: Repo, shared: Path, there: Repo) -> None:
    with http_server(shared) as url:
        _there_and_back(repo, there, url)


def _there_and_back(repo: Repo, there: Repo, url: str) -> None:
    encrypt_to(there, _recipient(there))
    decrypt_with(repo, Path(there.text("config", "agentos.sync.identity")))
    for each in (repo, there):
        each.git("remote", "set-url", "origin", url)
    for text in "ab":
        saved = save(repo, text)
        assert sync(repo)["pushed"][0]["checkpoints"] == 1
        assert sync(there)["fetched"][0]["checkpoints"] == 1
        run_ok(there.path, "restore", saved, "--host", "desk")
        theirs = run_ok(there.path, "checkpoint", "-m", f"{text} from there")["id"]
        assert sync(there)["pushed"]
        assert sync(repo)["fetched"]
        assert ids(repo, "--host", "lap")[0] == theirs


def test_sha256_and_reftables(tmp_path: Path, key: Key) -> None:
    options = ["--object-format=sha256"] + (["--ref-format=reftable"] if ref_storage.is_known() else [])
    repo = Repo.init(tmp_path / "repo", *options)
    make_dirty(fill(repo))
    shared = make_bare(tmp_path, repo)
    connect(repo, shared, "desk")
    encrypt_to(repo, key.recipient)
    before = complete_state(repo.path)
    saved = run_ok(repo.path, "checkpoint")["id"]
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    decrypt_with(there, key.path)
    sync(there)
    run_ok(there.path, "restore", saved, "--host", "desk")
    assert_same(before, complete_state(there.path), "on the other machine", branch="any")
    last = save(repo, "later")
    sync(repo)
    sync(there)
    assert ids(there, "--host", "desk") == [last, saved]


def test_doctor_names_what_was_pushed_clear(repo: Repo, shared: Path, there: Repo) -> None:
    """With ignored files whose names say that they hold secrets; until it is deleted on the remote."""

    def said() -> list[str]:
        found = run(repo.path, "--json", "doctor").json["findings"]
        return [each["message"] for each in found if each["code"] == "pushed-secrets"]

    repo.write(".gitignore", ".env\nbuild/\n")
    repo.write(".env", "PORT=1\n")
    repo.write("build/out", "x\n")
    repo.config("agentos.includeIgnored", "*")
    save(repo, "encrypted")
    sync(repo)
    assert said() == []
    encrypt_to(repo)
    sync(repo)
    assert said() == [
        "timeline 'main' was pushed to 'origin' unencrypted, with ignored files that may have secrets: '.env'"
    ]
    encrypt_to(repo, _recipient(there))
    sync(repo)
    assert len(said()) == 1
    repo.git("push", "-q", "origin", "--delete", "refs/agentos/hosts/desk/timelines/main@2")
    sync(repo)
    assert said() == []
    # Those of other clones are for these.
    sync(there)
    found = run(there.path, "--json", "doctor").json["findings"]
    assert [each for each in found if each["code"] == "pushed-secrets"] == []
