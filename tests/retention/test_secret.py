"""`forget --secret`: the text is nowhere any more, and all that could not be reached is named."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from git_agentos.git import refs
from git_agentos.retention import secret_texts
from git_agentos.retention.secret_texts import Secrets
from git_agentos.workspace import open_workspace
from tests.support.forgotten import holders, take, timeline, unpack, unreachable
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok

SECRET = b'hunter2-\xc3\xa4"\\x42'
TEXT = SECRET.decode()


def forget(repo: Repo, *args: str, secret: bytes = SECRET) -> Any:
    done = run(repo.path, "forget", "--secret", "--json", *args, stdin=secret + b"\n")
    assert done.code == 0, done
    return done.json


def test_it_is_in_no_object_and_no_file(repo: Repo) -> None:
    repo.write("notes.txt", b"a secret: " + SECRET + b"\n")
    repo.write("new.txt", SECRET)
    repo.write("ignored.log", b"not saved")
    first = run_ok(repo.path, "checkpoint", "-m", f"with {TEXT} in it", "--meta", f"key={TEXT}")["id"]
    run_ok(repo.path, "log", "add", "decision", f"because of {TEXT}")
    run_ok(repo.path, "memory", "artifact", "--type", "report", "--path", "notes.txt", "--description", f"of {TEXT}")
    repo.write("notes.txt", b"nothing\n")
    repo.write("new.txt", b"nothing\n")
    second = run_ok(repo.path, "checkpoint", "-m", "second")["id"]
    repo.write("notes.txt", b"nothing more\n")
    third = run_ok(repo.path, "checkpoint", "-m", "third")["id"]
    assert holders(repo, SECRET), "the state before was meant to have it"
    assert holders(repo, json.dumps(TEXT)[1:-1].encode())
    before = complete_state(repo.path)

    done = forget(repo)
    new = {each["old"]: each["new"] for each in done["rewritten"]}
    assert list(new) == [second, first]
    assert done["kept"] == [third, new[second], new[first]]
    assert (done["forgotten"], done["protected"], done["unreachable"], done["dry_run"]) == ([], [], [], False)
    assert timeline(repo) == [new[first], new[second], third]
    assert holders(repo, SECRET) == []
    assert holders(repo, json.dumps(TEXT)[1:-1].encode()) == []
    assert holders(repo, base64.b64encode(SECRET)[:10]) == []
    assert_same(before, complete_state(repo.path), "forget --secret", permissions="all")
    repo.git("fsck", "--strict", "--no-dangling")

    shown = run_ok(repo.path, "checkpoint", "show", new[first])
    assert shown["description"] == "with (forgotten) in it"
    assert shown["meta"] == {"key": "(forgotten)"}
    reason = "forgotten: it was removed from this checkpoint"
    assert shown["skipped"] == [{"path": "new.txt", "reason": reason}, {"path": "notes.txt", "reason": reason}]
    entries = run_ok(repo.path, "log", "list")["entries"]
    assert [each["summary"] for each in entries if each["type"] == "decision"] == ["because of (forgotten)"]
    checkpoints = [each["checkpoint_id"] for each in entries if each["type"] == "checkpoint"]
    assert sorted(checkpoints) == sorted([new[first], new[second], third])
    assert run_ok(repo.path, "log", "search", "hunter2")["entries"] == []
    assert [each["description"] for each in run_ok(repo.path, "memory", "list")["items"]] == ["of (forgotten)"]


def test_the_former_id_leads_to_the_new_one(repo: Repo) -> None:
    repo.write("notes.txt", SECRET)
    repo.write("other.txt", b"as it was\n")
    old = run_ok(repo.path, "checkpoint", "-m", "first")["id"]
    repo.write("notes.txt", b"today's\n")
    repo.write("other.txt", b"today's\n")
    new = forget(repo)["rewritten"][0]["new"]
    for command in ("show", "diff"):
        done = run(repo.path, "checkpoint", command, old[:9])
        assert done.code == 0
        assert f"warning: checkpoint {old[:12]} was rewritten by 'git agentos forget': {new[:12]}" in done.err.decode()
    assert run(repo.path, "checkpoint", "cat", f"{old}:other.txt").out == b"as it was\n"
    restored = run(repo.path, "restore", old, "--no-branch", "--json")
    assert restored.code == 0
    assert b"was rewritten" in restored.err
    assert json.loads(restored.out)["checkpoint"] == new
    assert repo.read("notes.txt") == b"today's\n", "today's file was meant to be left alone"
    assert repo.read("other.txt") == b"as it was\n"


def test_rewritten_twice(repo: Repo) -> None:
    repo.write("one.txt", SECRET)
    repo.write("two.txt", b"another-secret")
    old = run_ok(repo.path, "checkpoint", "-m", "first")["id"]
    repo.write("one.txt", b"")
    repo.write("two.txt", b"")
    first = forget(repo)["rewritten"][0]["new"]
    second = forget(repo, secret=b"another-secret")["rewritten"][0]["new"]
    for former in (old, first):
        assert run_ok(repo.path, "checkpoint", "show", former)["id"] == second


def test_undo_goes_on_with_the_new_one(repo: Repo) -> None:
    repo.write("notes.txt", b"before\n")
    repo.write("untracked.txt", b"before\n")
    target = run_ok(repo.path, "checkpoint", "-m", "target")["id"]
    repo.write("notes.txt", SECRET)
    repo.write("untracked.txt", b"after\n")
    saved = run_ok(repo.path, "restore", target, "--no-branch")["saved"]
    new = {each["old"]: each["new"] for each in forget(repo)["rewritten"]}
    assert holders(repo, SECRET) == []
    done = run(repo.path, "undo", "--json")
    assert done.code == 0, done.err
    assert f"checkpoint {saved[:12]} was rewritten".encode() in done.err
    assert json.loads(done.out)["checkpoint"] == new[saved]
    assert repo.read("untracked.txt") == b"after\n"
    assert repo.read("notes.txt") == b"before\n", "the file without its former content stays as it is"


def test_what_cannot_be_reached_is_named(repo: Repo) -> None:
    repo.write("committed.txt", SECRET)
    repo.git("add", "committed.txt")
    repo.git("commit", "-qm", "with it")
    repo.write("committed.txt", SECRET + b" again")
    repo.write("plain.txt", b"plain")
    checkpoint = run_ok(repo.path, "checkpoint", "-m", "on top")["id"]
    tip = repo.text("rev-parse", "HEAD")
    done = forget(repo)
    assert [each["old"] for each in done["rewritten"]] == [checkpoint]
    own, files = done["unreachable"]
    assert own.startswith("your own commits (committed.txt): rewrite")
    assert files.startswith(f"files in '{repo.path}' (committed.txt): ")
    assert repo.text("rev-parse", "HEAD") == tip
    assert [each for each in holders(repo, SECRET) if not each.startswith("blob")] == []
    assert repo.git("show", "HEAD:committed.txt") == SECRET
    # Once the branch is rewritten, what only the checkpoint keeps is named with its id.
    repo.git("reset", "-q", "--hard", "HEAD~1")
    for ref in refs.logs(open_workspace(repo.path).context.location):
        repo.git("reflog", "expire", "--expire=all", "--expire-unreachable=all", ref)
    repo.try_git("update-ref", "-d", "ORIG_HEAD")
    again = forget(repo)
    new = done["rewritten"][0]["new"]
    held = [each for each in again["unreachable"] if f"git agentos forget {new[:12]}" in each]
    assert len(held) == 1, again
    run_ok(repo.path, "forget", new)
    assert holders(repo, SECRET) == []


def test_the_users_own_objects_stay(repo: Repo) -> None:
    repo.write("stashed.txt", b"only in the stash\n")
    repo.git("stash", "push", "-q", "--include-untracked")
    repo.git("stash", "drop", "-q")
    repo.git("commit", "-q", "--allow-empty", "-m", "only in the reflog")
    repo.git("reset", "-q", "--hard", "HEAD~1")
    theirs = unreachable(repo)
    take(repo, 3)
    repo.write("notes.txt", SECRET)
    run_ok(repo.path, "checkpoint", "-m", "with it")
    repo.write("notes.txt", b"")
    repo.git("repack", "-adq", "--keep-unreachable")
    forget(repo)
    assert holders(repo, SECRET) == []
    assert theirs <= unreachable(repo)
    repo.git("fsck", "--strict", "--no-dangling")


def test_a_dry_run_answers_the_same(repo: Repo) -> None:
    take(repo, 2)
    repo.write("notes.txt", SECRET)
    run_ok(repo.path, "checkpoint", "-m", "with it")
    repo.write("notes.txt", b"")
    before = holders(repo, SECRET), timeline(repo)
    would = forget(repo, "--dry-run")
    assert (holders(repo, SECRET), timeline(repo)) == before
    done = forget(repo)
    assert would.pop("freed_bytes") > 0
    assert done.pop("freed_bytes") >= 0
    assert (would.pop("dry_run"), done.pop("dry_run")) == (True, False)
    assert would == done


def test_it_is_in_the_name_of_a_file(repo: Repo) -> None:
    name = "key-abcdefgh123.txt"
    repo.write(name, b"contents\n")
    repo.write("plain.txt", b"plain\n")
    old = run_ok(repo.path, "checkpoint", "-m", "first")["id"]
    (repo.path / name).unlink()
    done = forget(repo, secret=b"abcdefgh123")
    assert holders(repo, b"abcdefgh123") == []
    new = done["rewritten"][0]["new"]
    assert run_ok(repo.path, "checkpoint", "show", old)["id"] == new
    assert [each["path"] for each in run_ok(repo.path, "checkpoint", "show", new)["skipped"]] == ["key-(forgotten).txt"]


def test_an_operation_in_progress_and_conflicts(repo: Repo) -> None:
    repo.write("both.txt", b"base\n")
    repo.git("add", "both.txt")
    repo.git("commit", "-qm", "base")
    repo.git("checkout", "-qb", "side")
    repo.write("both.txt", b"side\n")
    repo.git("commit", "-qam", "side")
    repo.git("checkout", "-q", "main")
    repo.write("both.txt", b"main\n")
    repo.git("commit", "-qam", "main")
    assert repo.try_git("merge", "side", "-m", f"merge {TEXT}") == 1
    repo.write("both.txt", b"resolved with " + SECRET)
    old = run_ok(repo.path, "checkpoint", "-m", "in a merge")["id"]
    repo.git("merge", "--abort")
    assert any(each.startswith("blob") for each in holders(repo, SECRET))
    new = forget(repo)["rewritten"][0]["new"]
    assert holders(repo, SECRET) == []
    assert run_ok(repo.path, "restore", old)["checkpoint"] == new
    assert (repo.git_dir / "MERGE_HEAD").exists()
    assert b"merge (forgotten)" in (repo.git_dir / "MERGE_MSG").read_bytes()
    repo.git("fsck", "--strict", "--no-dangling")


def test_ignored_files_raw_bytes_and_the_index(repo: Repo) -> None:
    repo.git("config", "agentos.includeIgnored", "*.env")
    repo.write(".gitignore", b"*.env\n")
    repo.write("key.env", SECRET)
    repo.write("mixed.txt", b"one\r\ntwo\n" + SECRET + b"\r\n")
    repo.write("staged.txt", SECRET)
    repo.git("add", "staged.txt", ".gitignore")
    repo.write("staged.txt", b"not staged\n")
    old = run_ok(repo.path, "checkpoint", "-m", "first")["id"]
    repo.git("rm", "-qf", "--cached", "staged.txt")
    for name in ("key.env", "mixed.txt", "staged.txt"):
        (repo.path / name).unlink()
    done = forget(repo)
    new = done["rewritten"][0]["new"]
    assert holders(repo, SECRET) == []
    skipped = [each["path"] for each in run_ok(repo.path, "checkpoint", "show", new)["skipped"]]
    assert skipped == ["key.env", "mixed.txt", "staged.txt"]
    assert run_ok(repo.path, "restore", old, "--no-branch")["checkpoint"] == new
    assert not (repo.path / "key.env").exists()


def test_all_worktrees_and_archives(repo: Repo) -> None:
    made = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"]))
    made.write("notes.txt", SECRET)
    run_ok(made.path, "log", "add", "decision", f"because of {TEXT}")
    run_ok(made.path, "checkpoint", "-m", f"{TEXT}")
    made.write("kept.txt", b"kept\n")
    run_ok(repo.path, "worktree", "archive", "dev-1")
    other = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-2")["path"]))
    run_ok(other.path, "log", "add", "decision", f"because of {TEXT}")
    run_ok(other.path, "checkpoint", "-m", "no row is left")
    done = forget(repo)
    assert done["unreachable"] == []
    assert holders(repo, SECRET, other.path / ".agentos") == []
    assert holders(repo, json.dumps(TEXT)[1:-1].encode(), other.path / ".agentos") == []
    revived = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--revive")["path"]))
    assert revived.read("kept.txt") == b"kept\n"
    assert revived.read("notes.txt") == repo.git("show", "HEAD:notes.txt"), "as in HEAD's commit"
    summaries = [each["summary"] for each in run_ok(revived.path, "log", "list")["entries"]]
    assert "because of (forgotten)" in summaries


def test_repositories_inside_are_named(repo: Repo) -> None:
    inner = Repo.init(repo.path / "inner")
    inner.write("inside.txt", SECRET)
    run_ok(repo.path, "checkpoint", "-m", "with a repository")
    (inner.path / "inside.txt").unlink()
    would, done = forget(repo, "--dry-run"), forget(repo)
    assert would["unreachable"] == done["unreachable"]
    text = f"the repository '{inner.path}', which is one of its own: give this command there, too"
    kept, named = done["unreachable"]
    assert named == text
    assert kept.startswith(
        "commits that no branch has, and that are in 1 checkpoint as HEAD or in a repository inside: "
    )
    assert forget(inner)["unreachable"] == []
    assert holders(inner, SECRET) == []
    run_ok(repo.path, "forget", "latest")
    assert forget(repo)["unreachable"] == []
    assert holders(repo, SECRET) == []


def test_loose_objects_and_packs(repo: Repo) -> None:
    take(repo, 2)
    repo.write("notes.txt", SECRET * 50)
    run_ok(repo.path, "checkpoint", "-m", "loose")
    unpack(repo)
    repo.write("notes.txt", SECRET * 60)
    run_ok(repo.path, "checkpoint", "-m", "packed")
    repo.git("repack", "-dq")
    repo.write("notes.txt", b"")
    forget(repo)
    assert holders(repo, SECRET) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there is no secret on standard input"),
        (b"\n\n", "there is no secret on standard input"),
        (b"long-enough\npsst\n", "line 2 of standard input has fewer than 8 bytes"),
    ],
)
def test_what_is_no_secret(repo: Repo, data: bytes, message: str) -> None:
    done = run(repo.path, "forget", "--secret", stdin=data)
    assert done.code == 2
    assert done.err.decode().startswith(f"error: {message}\n")
    assert b"psst" not in done.err


def test_it_goes_with_nothing_else(repo: Repo) -> None:
    oid = take(repo, 1)[0]
    for more in ([oid], ["--keep-last", "1"], ["--agent", "main"]):
        assert run(repo.path, "forget", "--secret", *more, stdin=SECRET).code == 2


def test_agents_only_look(repo: Repo) -> None:
    made = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"]))
    env = {"AGENTOS_AGENT_ID": "dev-1"}
    assert run(made.path, "forget", "--secret", stdin=SECRET, env=env).code == 3
    assert run(made.path, "forget", "--secret", "--dry-run", stdin=SECRET, env=env).code == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("before", range(4))
def test_forms(encoding: str, before: int) -> None:
    found = Secrets([SECRET])
    text = "x" * before + TEXT + "y"
    for data in (
        text.encode(encoding),
        base64.b64encode(text.encode()),
        base64.urlsafe_b64encode(text.encode()),
        json.dumps(text).encode(),
        json.dumps(json.dumps(text)).encode(),
        json.dumps(text, ensure_ascii=False).encode(),
    ):
        assert found.is_in(data)
        assert not found.is_in(found.replace(data))
    assert not found.is_in(b"hunter2-" + TEXT.upper().encode())
    assert json.loads(found.replace(json.dumps({"a": [text]}).encode())) == {"a": ["x" * before + "(forgotten)y"]}


def test_a_secret_that_is_the_placeholder() -> None:
    for text in (b"(forgotten)", b"forgotten", b"(removed)"):
        found = Secrets([text, b"(forgotten)"])
        assert not found.is_in(found.replace(b"a " + text + b" b"))


def test_parsing() -> None:
    assert secret_texts.parse(b"long-enough\r\nanother-one\nlong-enough\n").texts == (b"long-enough", b"another-one")
    assert "long" not in repr(secret_texts.parse(b"long-enough"))
