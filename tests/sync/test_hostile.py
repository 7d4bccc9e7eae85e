"""What a remote says is data: names, lists and checkpoints that somebody has made up do nothing here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos.sync import names
from tests.support.refusal import assert_refused
from tests.support.remotes import clone, connect, make_bare, sync
from tests.support.repo import Repo, git
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok


@pytest.fixture
def shared(repo: Repo, tmp_path: Path) -> Path:
    """A bare repository with a timeline of `repo`, the host `desk`."""
    path = make_bare(tmp_path, repo)
    connect(repo, path, "desk")
    repo.write("notes.txt", "changed\n")
    repo.write("untracked", "new\n")
    run_ok(repo.path, "checkpoint", "-m", "sound")
    sync(repo)
    return path


@pytest.fixture
def there(shared: Path, tmp_path: Path) -> Repo:
    """Another clone, which has fetched nothing."""
    return clone(tmp_path, shared, "lap")


def tree_with(repo: Repo, tree: str, name: str, content: bytes | None) -> str:
    """A tree with another file at its top, or without it."""
    rows = [
        row for row in repo.git("ls-tree", "-z", tree).split(b"\0") if row and not row.endswith(b"\t" + name.encode())
    ]
    if content is not None:
        blob = repo.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
        rows.append(f"100644 blob {blob}\t{name}".encode())
    return repo.git("mktree", "-z", stdin=b"".join(row + b"\0" for row in rows)).decode().strip()


def commit(repo: Repo, tree: str, parents: list[str], message: str) -> str:
    words = [word for parent in parents for word in ("-p", parent)]
    return repo.git("commit-tree", tree, *words, "-F", "-", stdin=message.encode()).decode().strip()


def raw_tree(repo: Repo, *rows: tuple[str, bytes, str]) -> str:
    """A tree as git itself would not write it: mode, name and id of each entry."""
    data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in rows)
    return repo.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=data).decode().strip()


def forge(
    repo: Repo,
    change: Callable[[dict[str, Any]], object] = lambda _: None,
    *,
    meta: bytes | None = None,
    extra: Callable[[str], str] = lambda tree: tree,
    untracked: Callable[[str], str] = lambda tree: tree,
    message: Callable[[str], str] = lambda text: text,
) -> str:
    """A timeline with one checkpoint that was made of the newest one of `repo`, changed; its commit."""
    tip = repo.oid("refs/agentos/timelines/main")
    checkpoint = repo.oid(f"{tip}^2")
    head, index, files, inner = (repo.oid(f"{checkpoint}^{number}") for number in (1, 2, 3, 4))
    fields = json.loads(repo.git("cat-file", "blob", f"{inner}:meta.json"))
    change(fields)
    data = json.dumps(fields).encode() if meta is None else meta
    tree = extra(tree_with(repo, f"{inner}^{{tree}}", "meta.json", data))
    inner = commit(repo, tree, [], "what a stash cannot hold\n")
    files = commit(repo, untracked(repo.oid(f"{files}^{{tree}}")), [], "untracked files\n")
    text = message(repo.text("log", "-1", "--format=%B", checkpoint) + "\n")
    made = commit(repo, f"{checkpoint}^{{tree}}", [head, index, files, inner], text)
    return commit(repo, f"{tip}^{{tree}}", [repo.oid(f"{tip}~1"), made], text)


def publish(repo: Repo, oid: str, name: str = "evil/timelines/main") -> None:
    """Push a commit as somebody else's timeline, with plain git."""
    repo.git("push", "-q", "--force", "origin", f"{oid}:refs/agentos/hosts/{name}")


LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "of another worktree": lambda meta: meta.update(worktree="dev-1"),
    "another HEAD": lambda meta: meta["head"].update(commit="1" * len(meta["head"]["commit"])),
    "no HEAD": lambda meta: meta["head"].update(commit=None),
    "a HEAD that is a number": lambda meta: meta["head"].update(commit=1),
    "no head at all": lambda meta: meta.pop("head"),
    "a branch that is a path": lambda meta: meta["head"].update(ref="refs/heads/../../hooks/x"),
    "a branch elsewhere": lambda meta: meta["head"].update(ref="refs/agentos/timelines/main"),
    "a lock": lambda meta: meta["head"].update(ref="refs/heads/main.lock"),
    "a time that is none": lambda meta: meta.update(created_at="\x1b[2J"),
    "a time without a zone": lambda meta: meta.update(created_at="2026-11-26T08:00:00"),
    "no time": lambda meta: meta.update(created_at=7),
    "an unknown trigger": lambda meta: meta.update(trigger="pwned"),
    "paths that are a text": lambda meta: meta.update(staged_changes="all"),
    "paths that are numbers": lambda meta: meta.update(untracked_files=[1]),
    "skipped that is none": lambda meta: meta.update(skipped=[{"path": 1, "reason": "x"}]),
    "metadata that is a list": lambda meta: meta.update(meta=[]),
    "a task that is a list": lambda meta: meta.update(task_id=[]),
    "a newer format": lambda meta: meta.update(format=2),
}


@pytest.mark.parametrize("lie", LIES)
def test_metadata_that_lies_is_refused(lie: str, repo: Repo, there: Repo) -> None:
    """It comes nowhere near a ref, and the sound timelines come all the same."""
    publish(repo, forge(repo, LIES[lie]))
    done = run(there.path, "--json", "sync")
    assert (done.code, [each["timeline"] for each in done.json["refused"]]) == (1, ["evil/main"]), str(done)
    assert [each["host"] for each in done.json["fetched"]] == ["desk"]
    assert list(_refs(there)) == ["refs/agentos/remotes/origin/desk/timelines/main"]


@pytest.mark.parametrize(
    "meta",
    [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"format": 1}', b'{"format": true, "head": {}}'],
    ids=["empty", "list", "null", "cut", "binary", "deep", "bare", "true"],
)
def test_metadata_that_is_none_is_refused(meta: bytes, repo: Repo, there: Repo) -> None:
    publish(repo, forge(repo, meta=meta))
    done = run(there.path, "--json", "sync")
    assert (done.code, [each["timeline"] for each in done.json["refused"]]) == (1, ["evil/main"]), str(done)


def _no_metadata(repo: Repo) -> str:
    return forge(repo, extra=lambda tree: tree_with(repo, tree, "meta.json", None))


def _no_chain(repo: Repo) -> str:
    """The project's own history, which has merges."""
    return repo.oid("HEAD")


def _of_a_merge(repo: Repo) -> str:
    first = commit(repo, "HEAD^{tree}", ["HEAD~1"], "one")
    return commit(repo, "HEAD^{tree}", [repo.oid("HEAD"), first], "merge")


def _without_a_root(repo: Repo) -> str:
    tip = repo.oid("refs/agentos/timelines/main")
    return commit(repo, f"{tip}^{{tree}}", [repo.oid("HEAD"), repo.oid(f"{tip}^2")], "on top of the project")


def _other_format(repo: Repo) -> str:
    return forge(repo, message=lambda text: text.replace("Agentos-Format: 1", "Agentos-Format: 9"))


@pytest.mark.parametrize("make", [_no_metadata, _no_chain, _of_a_merge, _without_a_root, _other_format])
def test_what_is_no_timeline_is_refused(make: Callable[[Repo], str], repo: Repo, there: Repo) -> None:
    publish(repo, make(repo))
    done = run(there.path, "--json", "sync")
    assert (done.code, [each["timeline"] for each in done.json["refused"]]) == (1, ["evil/main"]), str(done)


def test_what_is_not_a_commit_is_refused(repo: Repo, there: Repo) -> None:
    publish(repo, repo.oid("HEAD:notes.txt"))
    done = run(there.path, "--json", "sync")
    assert (done.code, [each["timeline"] for each in done.json["refused"]]) == (1, ["evil/main"]), str(done)


def test_a_timeline_that_was_written_anew_is_refused(repo: Repo, shared: Path, there: Repo) -> None:
    """What was fetched stays: nothing of it can be taken back by the remote."""
    sync(there)
    before = _refs(there)
    publish(repo, forge(repo), "desk/timelines/main")
    done = run(there.path, "--json", "sync")
    assert (done.code, done.json["refused"][0]["timeline"]) == (1, "desk/main")
    assert "does not continue" in done.json["refused"][0]["reason"]
    git(shared, "update-ref", "-d", "refs/agentos/hosts/desk/timelines/main")
    sync(there)
    assert _refs(there) == before


def test_a_ref_that_was_set_by_hand_is_checked_when_it_is_used(repo: Repo, there: Repo) -> None:
    publish(repo, forge(repo, LIES["another HEAD"]))
    there.git(
        "fetch",
        "-q",
        "origin",
        "refs/agentos/hosts/evil/timelines/main:refs/agentos/remotes/origin/evil/timelines/main",
    )
    assert_refused(there.path, "restore", "latest", "--host", "evil", mentions="is not sound", keeps=there.path)
    assert_refused(
        there.path, "checkpoint", "show", "latest", "--host", "evil", mentions="is not sound", keeps=there.path
    )


def _planted(repo: Repo, *folders: bytes) -> Callable[[str], str]:
    """A change of a tree that adds a program in a folder."""

    def change(tree: str) -> str:
        blob = repo.git("hash-object", "-w", "--stdin", stdin=b"#!/bin/sh\ntouch pwned\n").decode().strip()
        inner = raw_tree(repo, ("100755", b"post-checkout", blob))
        for name in reversed(folders[1:]):
            inner = raw_tree(repo, ("40000", name, inner))
        rows = [row.split(b"\t") for row in repo.git("ls-tree", "-z", tree).split(b"\0") if row]
        entries = [(fields.split()[0].decode().lstrip("0"), name, fields.split()[2].decode()) for fields, name in rows]
        return raw_tree(repo, *sorted([*entries, ("40000", folders[0], inner)], key=lambda each: each[1]))

    return change


@pytest.mark.parametrize(
    "folders", [(b".git", b"hooks"), (b".GIT", b"hooks"), (b"..",), (b"a", b"..", b"..")], ids=repr
)
def test_untracked_files_stay_in_the_worktree(folders: tuple[bytes, ...], repo: Repo, there: Repo) -> None:
    publish(repo, forge(repo, untracked=_planted(repo, *folders)))
    _restore_does_nothing(there)


@pytest.mark.parametrize(
    "folders",
    [
        (b"gitdir", b"hooks"),
        (b"gitdir", b"rebase-merge", b".."),
        (b"ignored", b".git", b"hooks"),
        (b"stages", b"1", b".git"),
    ],
    ids=repr,
)
def test_parts_of_a_checkpoint_stay_where_they_belong(folders: tuple[bytes, ...], repo: Repo, there: Repo) -> None:
    publish(repo, forge(repo, extra=_planted(repo, *folders)))
    _restore_does_nothing(there)


@pytest.mark.parametrize("key", ["empty_directories", "not_present", "staged_changes"])
@pytest.mark.parametrize("path", ["../outside", "/outside", ".git/hooks", "a/../../outside"])
def test_paths_in_metadata_stay_in_the_worktree(key: str, path: str, repo: Repo, there: Repo) -> None:
    publish(repo, forge(repo, lambda meta: meta.update({key: [path]})))
    (there.path.parent / "outside").mkdir()
    run(there.path, "sync", "--fetch")
    before = _hooks(there)
    run(there.path, "restore", "latest", "--host", "evil")
    assert (there.path.parent / "outside").is_dir()
    assert _hooks(there) == before


def _restore_does_nothing(there: Repo) -> None:
    before = complete_state(there.path)
    run(there.path, "sync", "--fetch")
    hooks = _hooks(there)
    done = run(there.path, "restore", "latest", "--host", "evil")
    assert done.code == 1, str(done)
    assert _hooks(there) == hooks
    assert not list(there.path.parent.rglob("*pwned*"))
    assert not list(there.path.parent.rglob("post-checkout"))
    assert_same(before, complete_state(there.path), "the restore was refused", refs=True)


def _hooks(there: Repo) -> list[str]:
    return sorted(os.listdir(there.git_dir / "hooks")) if (there.git_dir / "hooks").exists() else []


def test_a_nested_repository_brings_no_program(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """Its configuration comes without what git would run."""
    inner = Repo.init(repo.path / "inner")
    inner.write("file", "inside\n")
    inner.commit("inside")
    inner.config("core.fsmonitor", "touch pwned")
    inner.config("alias.status", "!touch pwned")
    inner.config("filter.x.smudge", "touch pwned")
    inner.config("user.name", "kept")
    run_ok(repo.path, "checkpoint")
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    sync(there)
    run_ok(there.path, "restore", "latest", "--host", "desk")
    found = git(there.path / "inner", "config", "--local", "--list").decode()
    assert "user.name=kept" in found
    assert "pwned" not in found
    assert (there.path / "inner" / "file").read_text() == "inside\n"


def test_fetched_timelines_are_never_ones_own(repo: Repo, shared: Path, there: Repo) -> None:
    """Not in any list, not for undo or revival, and they are not pushed on."""
    sync(there)
    assert run_ok(there.path, "checkpoint", "list", "--all")["checkpoints"] == []
    assert run(there.path, "checkpoint", "show", "latest").code == 1
    assert run(there.path, "restore", "latest", "--agent", "main").code == 1
    assert run_ok(there.path, "log", "list", "--all")["entries"] == []
    assert run(there.path, "worktree", "create", "main-2", "--revive").code == 1
    assert sync(there, "--all")["pushed"] == []
    assert list(_refs(there)) == ["refs/agentos/remotes/origin/desk/timelines/main"]


HOSTILE = [
    "refs/agentos/hosts/../timelines/main",
    "refs/agentos/hosts/./timelines/main",
    "refs/agentos/hosts/x/timelines/../../../../heads/main",
    "refs/agentos/hosts/x/timelines/..",
    "refs/agentos/hosts//timelines/main",
    "refs/agentos/hosts/x/timelines/",
    "refs/agentos/hosts/x/timelines/main.lock",
    "refs/agentos/hosts/x.lock/timelines/main",
    "refs/agentos/hosts/x/timelines/a b",
    "refs/agentos/hosts/x/timelines/\x1b[2J",
    "refs/agentos/hosts/x/timelines/-q",
    "refs/agentos/hosts/-x/timelines/main",
    "refs/agentos/hosts/x/timelines/main@0",
    "refs/agentos/hosts/x/timelines/main@1",
    "refs/agentos/hosts/x/timelines/main@02",
    "refs/agentos/hosts/x/timelines/main@99999999999",
    "refs/agentos/hosts/x/timelines/main@{1}",
    "refs/agentos/hosts/x/timelines/main/more",
    "refs/agentos/hosts/x/heads/main",
    "refs/agentos/hosts/x/timelines/" + "a" * 65,
    "refs/agentos/hosts/\u00e9/timelines/main",
    "refs/agentos/timelines/main",
    "refs/heads/main",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_are_none(name: str) -> None:
    assert names.parse(name) is None


@pytest.mark.parametrize("name", ["x/timelines/main", "a.b-c_1/timelines/dev-1@2", "x/timelines/main@10"])
def test_names(name: str) -> None:
    found = names.parse(names.HOSTS + name)
    assert found is not None
    assert found.on_remote == names.HOSTS + name
    assert names.parse_fetched(found.fetched_from("a/b")) == ("a/b", found)


def _serve(repo: Repo, folder: Path, lines: str) -> None:
    """Have a program answer as the remote: it lists what `lines`, a Python expression, says."""
    script = folder / "upload-pack"
    script.write_text(
        "#!/usr/bin/env python3\n"
        "import sys\n"
        f"names = {lines}\n"
        f"oid = {repo.oid('refs/agentos/timelines/main')!r}\n"
        f"able = b'\\0agent=x object-format={repo.text('rev-parse', '--show-object-format')}'\n"
        "for number, name in enumerate(names):\n"
        "    line = f'{oid} {name}'.encode() + (able if number == 0 else b'') + b'\\n'\n"
        "    sys.stdout.buffer.write(b'%04x' % (len(line) + 4) + line)\n"
        "sys.stdout.buffer.write(b'0000')\n"
        "sys.stdout.buffer.flush()\n"
        "sys.stdin.buffer.read()\n"
    )
    script.chmod(0o755)
    repo.config("remote.origin.uploadpack", str(script))


def test_a_remote_that_lists_such_names(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """They are left alone, and nothing is fetched for them."""
    _serve(repo, tmp_path, repr(HOSTILE))
    before = repo.git("for-each-ref")
    done = sync(repo, "--fetch")
    assert (done["fetched"], done["refused"]) == ([], [])
    assert repo.git("for-each-ref") == before


def test_a_remote_that_lists_too_much(repo: Repo, shared: Path, tmp_path: Path) -> None:
    _serve(repo, tmp_path, "(f'refs/agentos/hosts/h{n}/timelines/main' for n in range(200_100))")
    before = repo.git("for-each-ref")
    done = run(repo.path, "--json", "sync", "--fetch")
    assert (done.code, done.json["error"]["kind"]) == (1, "repository")
    assert "lists more refs" in done.json["error"]["message"]
    assert repo.git("for-each-ref") == before


def _refs(repo: Repo) -> dict[str, str]:
    rows = repo.text("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(row.split(" ") for row in rows)
