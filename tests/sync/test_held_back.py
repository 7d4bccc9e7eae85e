"""What a secret was found in does not leave this machine; everything else does, and what was allowed follows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import PolicyError
from git_agentos.sync import commands
from git_agentos.workspace import open_workspace
from tests.support.confirming import set_up
from tests.support.json_reference import check_document
from tests.support.remotes import clone, refs_on, sync
from tests.support.repo import Repo, git
from tests.support.tool import run, run_ok

# Made up, and put together here: no scanner of this project's own files is to find it.
SECRET = "ghp_" + "x7Qm2Lr9Tz" * 3 + "4Wv8Np"


@pytest.fixture
def shared(repo: Repo, shared: Path) -> Path:
    repo.git("push", "-q", "origin", "main")
    return shared


def save(repo: Repo, text: str) -> str:
    return str(run_ok(repo.path, "checkpoint", "-m", text)["id"])


def held_back(repo: Repo, *words: str) -> Any:
    """`sync`, which holds something back; its document. The secret is nowhere in what it prints."""
    for form in ([], ["--json"]):
        done = run(repo.path, *form, "sync", *words)
        assert SECRET.encode() not in done.out + done.err
        if done.code != 3:
            raise AssertionError(str(done))
        if form:
            check_document(done.json)
            return done.json
        assert b"held back" in done.err
    raise AssertionError


def is_there(path: Path) -> bool:
    """Whether an object of a bare repository has the secret."""
    out = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=path, capture_output=True, check=True
    ).stdout
    return SECRET.encode() in out


def allow(repo: Repo, tmp_path: Path, *fingerprints: str) -> Any:
    """`sync --allow`, by somebody who has the key of those who decide."""
    key = tmp_path / "key"
    key.write_text("a key\n")
    set_up(repo, "agentos.approvalKey", str(key))
    done = run(repo.path, "--json", "sync", *(word for each in fingerprints for word in ("--allow", each)))
    assert done.code in (0, 3), str(done)
    return done.json


def test_only_those_with_the_secret(repo: Repo, shared: Path, tmp_path: Path) -> None:
    first = save(repo, "without")
    repo.write("src/settings.py", f"one = 1\ntoken = '{SECRET}'\n")
    second = save(repo, "with it")
    repo.write("notes.txt", "more\n")
    third = save(repo, "with it still")
    repo.remove("src/settings.py")
    fourth = save(repo, "without again")
    done = held_back(repo)
    rows = [(each["timeline"], each["checkpoint"], each["path"], each["line"]) for each in done["held_back"]]
    assert list(dict.fromkeys(rows)) == [("main", oid, "src/settings.py", 2) for oid in (second, third)]
    assert all(each["kind"] and each["fingerprint"] for each in done["held_back"])
    assert not is_there(shared)
    there = clone(tmp_path, shared, "lap")
    sync(there)
    shown = run_ok(there.path, "checkpoint", "list", "--host", "desk")["checkpoints"]
    assert [each["id"] for each in shown] == [fourth, first]

    # Nothing is new: it is still said, and not looked for again.
    tips = refs_on(shared)
    assert held_back(repo)["held_back"] == done["held_back"]
    assert refs_on(shared) == tips
    assert run_ok(repo.path, "sync", "status")["timelines"][0] == {
        "timeline": "main", "host": "desk", "ahead": 0, "behind": 0, "held_back": 2
    }  # fmt: skip
    # A later one goes past them.
    repo.write("notes.txt", "again\n")
    fifth = save(repo, "later")
    assert held_back(repo)["held_back"] == done["held_back"]

    # What is allowed is appended, and shown where it belongs.
    after = allow(repo, tmp_path, *{each["fingerprint"] for each in done["held_back"]})
    assert (after["held_back"], after["pushed"][0]["checkpoints"]) == ([], 2)
    git(shared, "merge-base", "--is-ancestor", tips["desk/timelines/main"], refs_on(shared)["desk/timelines/main"])
    sync(there)
    shown = run_ok(there.path, "checkpoint", "list", "--host", "desk")["checkpoints"]
    assert [each["id"] for each in shown] == [fifth, fourth, third, second, first]
    # It is remembered.
    repo.write("notes.txt", "and again\n")
    repo.write("src/settings.py", f"one = 1\ntoken = '{SECRET}'\n")
    save(repo, "with what was allowed")
    assert sync(repo)["pushed"][0]["checkpoints"] == 1


def test_a_secret_in_a_commit(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """Every checkpoint on top of the commit is held back, also where the file is gone by then."""
    repo.write("token", SECRET)
    repo.commit("with a token")
    repo.git("rm", "-q", "token")
    repo.git("commit", "-qm", "without it")
    oid = save(repo, "on top")
    done = held_back(repo)
    assert [(each["checkpoint"], each["path"]) for each in done["held_back"]] == [(oid, "token")]
    assert not is_there(shared)
    assert refs_on(shared) == {}


@pytest.mark.parametrize("where", ["index", "description", "operation", "nested", "deep"])
def test_wherever_it_is(where: str, repo: Repo, shared: Path, tmp_path: Path) -> None:
    if where == "index":
        repo.write("notes.txt", SECRET)
        repo.add("notes.txt")
        repo.write("notes.txt", "nothing\n")
    elif where == "operation":
        (repo.git_dir / "MERGE_MSG").write_text(f"merge {SECRET}\n")
        (repo.git_dir / "MERGE_HEAD").write_text(repo.oid("HEAD~1") + "\n")
    elif where == "nested":
        inner = Repo.init(repo.path / "inner")
        inner.write("file", SECRET)
        inner.commit("inside")
        inner.git("rm", "-q", "file")
        inner.write("other", "x\n")
        inner.commit("gone")
    elif where == "deep":
        repo.write("/".join(["d"] * 300) + "/file", SECRET)
    oid = save(repo, SECRET if where == "description" else "with a secret")
    done = held_back(repo)
    assert {each["checkpoint"] for each in done["held_back"]} == {oid}
    assert not is_there(shared)


def test_what_the_remote_has_already(repo: Repo, shared: Path) -> None:
    """It is not searched again: nothing would be kept back by it."""
    repo.write("token", SECRET)
    repo.commit("with a token")
    repo.git("push", "-q", "origin", "main")
    save(repo, "on top")
    assert sync(repo)["pushed"][0]["checkpoints"] == 1


def test_an_archive_with_ignored_files(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """It stays, whatever is in them; one without any goes."""
    for name, content in (("dev-1", "PORT=1\n"), ("dev-2", None)):
        agent = Repo(Path(run_ok(repo.path, "worktree", "create", name, "--no-guard")["path"]))
        agent.write(".gitignore", ".env\n/.gitignore\n")
        agent.write("work", "done\n")
        if content is not None:
            agent.write(".env", content)
        run_ok(repo.path, "worktree", "archive", name)
    done = held_back(repo, "--all")
    [archive] = done["held_back"]
    assert {key: archive[key] for key in ("timeline", "path", "line", "kind", "fingerprint")} == {
        "timeline": "dev-1", "path": None, "line": None, "kind": "ignored-files", "fingerprint": None
    }  # fmt: skip
    assert sorted(refs_on(shared)) == ["desk/timelines/dev-1", "desk/timelines/dev-2"]
    there = clone(tmp_path, shared, "lap")
    sync(there)
    run_ok(there.path, "worktree", "create", "dev-2", "--revive", "--host", "desk")


def test_a_dry_run_says_the_same(repo: Repo, shared: Path) -> None:
    save(repo, "without")
    repo.write("token", SECRET)
    save(repo, "with it")
    dry = held_back(repo, "--dry-run")
    assert refs_on(shared) == {}
    real = held_back(repo)
    assert dry["held_back"] == real["held_back"]
    # The real one was the second by then: the first had pushed.
    assert dry["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]


def test_what_is_no_fingerprint(repo: Repo, shared: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a key\n")
    set_up(repo, "agentos.approvalKey", str(key))
    assert run(repo.path, "sync", "--allow", "two words").code == 2
    assert run(repo.path, "sync", "--allow", "").code == 2


def test_nobody_but_a_person_allows(repo: Repo, shared: Path) -> None:
    """Without a terminal and a key, nobody can be asked."""
    done = run(repo.path, "--json", "sync", "--allow", "0123456789abcdef")
    assert (done.code, done.json["error"]["kind"]) == (3, "policy")
    with pytest.raises(PolicyError):
        commands.sync(open_workspace(repo.path).context, allow=["0123456789abcdef"])
