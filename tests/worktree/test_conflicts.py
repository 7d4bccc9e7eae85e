"""`worktree conflicts`: which pairs conflict and where, and in which order to merge."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.worktree.conflicts import Conflict, order
from tests.support.agents import agent_commit, agent_worktree
from tests.support.json_reference import check_document
from tests.support.refusal import assert_refused
from tests.support.repo import Repo, git_run
from tests.support.state import assert_unchanged, complete_state
from tests.support.tool import run, run_ok

LINES = [f"line {n}\n" for n in range(30)]


def _edited(**lines: str) -> str:
    changed = list(LINES)
    for name, text in lines.items():
        changed[int(name[1:])] = text + "\n"
    return "".join(changed)


def _conflicts(repo: Repo, *args: str) -> Any:
    document = run_ok(repo.path, "worktree", "conflicts", *args)
    assert check_document(document) == "conflicts"
    return document


def _pairs(document: Any) -> dict[tuple[str, str], list[str]]:
    return {(each["a"], each["b"]): each["files"] for each in document["pairs"]}


def _four(repo: Repo) -> None:
    agent_commit(repo, "dev-a", {"src/lib/util.py": _edited(l3="a", l20="a"), "readme.txt": "a\n"})
    agent_commit(repo, "dev-b", {"src/lib/util.py": _edited(l3="b"), "docs/guide.md": "b\n"})
    agent_commit(repo, "dev-c", {"src/lib/util.py": _edited(l20="c"), "readme.txt": "c\n"})
    agent_commit(repo, "dev-d", {"apart.txt": "d\n"})


def test_conflicting_pairs_are_those_git_cannot_merge(repo: Repo) -> None:
    _four(repo)
    before = complete_state(repo.path, strict=True)
    objects = _objects(repo)

    found = _conflicts(repo)

    assert _pairs(found) == {
        ("dev-a", "dev-b"): ["src/lib/util.py"],
        ("dev-a", "dev-c"): ["readme.txt", "src/lib/util.py"],
    }
    assert "CONFLICT (content): Merge conflict in readme.txt" in found["pairs"][1]["messages"]
    assert found["order"] == ["dev-d", "dev-b", "dev-a", "dev-c"]
    assert [each["id"] for each in found["agents"]] == ["dev-a", "dev-b", "dev-c", "dev-d"]
    assert_unchanged(before, complete_state(repo.path, strict=True), "looking for conflicts")
    assert _objects(repo) == objects, "objects were written to the store"
    for a, b in itertools.combinations("abcd", 2):
        expected = git_run(repo.path, "merge-tree", "--write-tree", f"agent/dev-{a}", f"agent/dev-{b}").returncode
        assert ((f"dev-{a}", f"dev-{b}") in _pairs(found)) == bool(expected)


def _objects(repo: Repo) -> set[str]:
    return {str(path) for path in (repo.git_dir / "objects").rglob("*") if path.is_file()}


def test_named_worktrees_alone_are_compared(repo: Repo) -> None:
    _four(repo)
    found = _conflicts(repo, "dev-c", "dev-d", "dev-a", "dev-a")
    assert list(_pairs(found)) == [("dev-a", "dev-c")]
    assert found["order"] == ["dev-d", "dev-a", "dev-c"]
    assert _conflicts(repo, "dev-a") == {
        "schema": "agentos.conflicts.v1",
        "pairs": [],
        "order": ["dev-a"],
        "agents": [{"id": "dev-a", "commit": repo.oid("agent/dev-a"), "checkpoint": None}],
        "left_out": [],
    }
    assert_refused(repo.path, "worktree", "conflicts", "nobody", mentions="no agent 'nobody'", keeps=repo.path)


def test_no_worktree_and_the_text(repo: Repo) -> None:
    assert _conflicts(repo)["order"] == []
    assert run(repo.path, "worktree", "conflicts").code == 0
    _four(repo)
    told = run(repo.path, "worktree", "conflicts").out.decode()
    assert "2 of 6 pairs conflict" in told
    assert "dev-a with dev-c:\n    readme.txt\n    src/lib/util.py\n" in told
    assert told.endswith("Merge in this order: dev-d, dev-b, dev-a, dev-c\n")
    assert run(repo.path, "worktree", "conflicts", "-q").out == b"dev-d\ndev-b\ndev-a\ndev-c\n"


def test_uncommitted_work_counts_with_dirty(repo: Repo) -> None:
    one = agent_commit(repo, "dev-1", {"one.txt": "one\n"})
    two = agent_commit(repo, "dev-2", {"two.txt": "two\n"})
    three = agent_worktree(repo, "dev-3")
    one.write("src/lib/util.py", _edited(l3="one"))
    two.write("src/lib/util.py", _edited(l3="two"))
    two.write("new.txt", "untracked in two\n")
    three.write("new.txt", "untracked in three\n")
    for each in (one, two, three):
        run_ok(each.path, "checkpoint")
    one.write("src/lib/util.py", "not in the checkpoint\n")
    before = complete_state(repo.path, strict=True)

    assert _conflicts(repo)["pairs"] == []
    found = _conflicts(repo, "--dirty")

    assert _pairs(found) == {("dev-1", "dev-2"): ["src/lib/util.py"], ("dev-2", "dev-3"): ["new.txt"]}
    assert found["order"] == ["dev-1", "dev-2", "dev-3"]
    latest = [run_ok(each.path, "checkpoint", "show", "latest")["id"] for each in (one, two, three)]
    assert [each["checkpoint"] for each in found["agents"]] == latest
    assert_unchanged(before, complete_state(repo.path, strict=True), "looking for conflicts")


def test_a_checkpoint_that_commits_have_left_behind_does_not_count(repo: Repo) -> None:
    one = agent_commit(repo, "dev-1", {"one.txt": "one\n"})
    one.write("src/lib/util.py", _edited(l3="thought better of"))
    run_ok(one.path, "checkpoint")
    one.git("checkout", "-q", "--", ".")
    one.write("more.txt", "more\n")
    one.commit("more")
    agent_commit(repo, "dev-2", {"src/lib/util.py": _edited(l3="two")})
    found = _conflicts(repo, "--dirty")
    assert found["pairs"] == []
    assert found["agents"][0] == {"id": "dev-1", "commit": one.oid(), "checkpoint": None}


def test_names_that_are_not_utf8_and_odd_conflicts(repo: Repo) -> None:
    name = b"caf\xe9\n.txt"
    agent_commit(repo, "dev-1", {name: "one\n", "readme.txt": None})
    agent_commit(repo, "dev-2", {name: "two\n", "readme.txt": "kept\n"})
    assert _pairs(_conflicts(repo)) == {("dev-1", "dev-2"): [os.fsdecode(name), "readme.txt"]}
    shown = run(repo.path, "worktree", "conflicts").out
    assert b'"caf\\351\\n.txt"' in shown


def test_a_folder_that_was_split(repo: Repo) -> None:
    """A conflict of which no path is in conflict: git names the folder alone."""
    repo.config("merge.directoryRenames", "true")
    repo.write("old/a.txt", "a" * 99)
    repo.write("old/b.txt", "b" * 99)
    repo.commit("a folder")
    one = agent_worktree(repo, "dev-1")
    one.git("mv", "old/a.txt", "a.txt")
    one.git("mv", "old/b.txt", "docs/b.txt")
    one.commit("split")
    agent_commit(repo, "dev-2", {"old/c.txt": "c\n"})
    done = git_run(repo.path, "merge-tree", "--write-tree", "agent/dev-1", "agent/dev-2")
    if done.returncode == 0:
        pytest.skip("this git sees no conflict in it")
    assert _pairs(_conflicts(repo))[("dev-1", "dev-2")]


def test_merge_drivers_count(repo: Repo) -> None:
    repo.config("merge.ours2.driver", "true")
    repo.write(".gitattributes", "readme.txt merge=ours2\n")
    repo.commit("a driver")
    agent_commit(repo, "dev-1", {"readme.txt": "one\n"})
    agent_commit(repo, "dev-2", {"readme.txt": "two\n"})
    assert _conflicts(repo)["pairs"] == []


def test_histories_with_nothing_in_common(repo: Repo) -> None:
    one = agent_worktree(repo, "dev-1")
    one.git("checkout", "-q", "--orphan", "fresh")
    one.write("readme.txt", "begun anew\n")
    one.commit("begun anew")
    agent_commit(repo, "dev-2", {"two.txt": "two\n"})
    assert "readme.txt" in _pairs(_conflicts(repo))[("dev-1", "dev-2")]


def test_from_any_worktree_and_where_objects_are_borrowed(repo: Repo, tmp_path: Path) -> None:
    _four(repo)
    wanted = _conflicts(repo)
    there = Repo(tmp_path / "repo.worktrees" / "dev-d")
    assert _conflicts(there)["pairs"] == wanted["pairs"]
    shared = tmp_path / "shared"
    repo.git("clone", "-q", "--shared", str(repo.path), str(shared))
    clone = Repo(shared)
    for name in "abcd":
        clone.git("fetch", "-q", "origin", f"agent/dev-{name}:agent/dev-{name}")
    ids = [f"dev-{name}" for name in "abcd"]
    assert _conflicts(clone, *ids)["pairs"] == wanted["pairs"]


def test_the_order_is_greedy() -> None:
    def pair(a: str, b: str) -> Conflict:
        return Conflict(a, b, ["f"], [])

    # c conflicts with three; once a is through, b, d and e have only c left, and it comes last.
    pairs = [pair("a", "b"), pair("b", "c"), pair("c", "d"), pair("c", "e")]
    assert order(["e", "d", "c", "b", "a"], pairs) == ["a", "b", "d", "c", "e"]
    assert order(["b", "a"], []) == ["a", "b"]
    assert order([], []) == []


def test_scratch_is_gone(repo: Repo) -> None:
    _four(repo)
    _conflicts(repo, "--dirty")
    location = open_workspace(repo.path).context.location
    assert os.listdir(os.path.join(location.state_dir, "tmp")) == []


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("seed", range(6))
def test_shortcut_agrees_with_git(repo: Repo, seed: int) -> None:
    """Edits at random, by which most pairs are decided without a merge: the answer is git's for every pair."""
    chosen = random.Random(seed)
    for number in range(12):
        repo.write(f"d{number % 3}/f{number}.txt", "".join(f"{number} {line}\n" for line in range(12)))
    repo.commit("files")
    bases = [repo.oid()]
    repo.write("d0/f0.txt", "begun later\n")
    bases.append(repo.commit("later"))
    ids = [f"dev-{number}" for number in range(7)]
    for id_ in ids:
        dev = agent_worktree(repo, id_, chosen.choice(bases))
        for _ in range(chosen.randrange(1, 4)):
            _edit_at_random(dev, chosen)
            dev.commit("work")
        if id_ == "dev-5":
            dev.try_git("merge", "-q", "--no-edit", "agent/dev-1")
            dev.try_git("merge", "--abort")
        _edit_at_random(dev, chosen)
        if chosen.random() < 0.8:
            run_ok(dev.path, "checkpoint")
    for options in ([], ["--dirty"]):
        found = _conflicts(repo, *options)
        commits = {each["id"]: each["commit"] for each in found["agents"]}
        if options:
            for each in found["agents"]:
                if each["checkpoint"]:
                    tree = repo.text("rev-parse", f"refs/agentos/timelines/{each['id']}^{{tree}}")
                    commits[each["id"]] = repo.text("commit-tree", tree, "-p", f"{each['checkpoint']}^1", "-m", "x")
        for a, b in itertools.combinations(ids, 2):
            done = git_run(repo.path, "merge-tree", "--write-tree", commits[a], commits[b])
            assert done.returncode == ((a, b) in _pairs(found)), (a, b, options, done.stdout.decode())


def _edit_at_random(dev: Repo, chosen: random.Random) -> None:
    number = chosen.randrange(12)
    name = f"d{number % 3}/f{number}.txt"
    kind = chosen.choice(["edit", "edit", "edit", "add", "add", "remove", "move", "folder", "link", "mode"])
    if kind == "add":
        dev.write(f"d{number % 3}/new{chosen.randrange(5)}.txt", f"new {chosen.randrange(3)}\n")
    elif kind == "folder":
        dev.remove(f"d{number % 3}/new{chosen.randrange(5)}.txt")
        dev.write(f"d{number % 3}/new{chosen.randrange(5)}.txt/below", "below\n")
    elif not os.path.isfile(dev.at(name)) or os.path.islink(dev.at(name)):
        return
    elif kind == "edit":
        lines = dev.read(name).splitlines(keepends=True)
        lines[chosen.randrange(len(lines))] = b"edited %d\n" % chosen.randrange(100)
        dev.write(name, b"".join(lines))
    elif kind == "remove":
        dev.remove(name)
    elif kind == "move":
        os.rename(dev.at(name), dev.at(f"d{(number + 1) % 3}/f{number}.txt"))
    elif kind == "link":
        dev.link(name, "elsewhere")
    else:
        dev.chmod(name, 0o755)


@pytest.mark.parametrize("content", [None, b"", b"[]\n", b"\0" * 41])
def test_a_damaged_worktree_is_left_out_and_named(repo: Repo, content: bytes | None) -> None:
    _four(repo)
    head = repo.path / ".git/worktrees/dev-c/HEAD"
    head.unlink()
    if content is None:
        head.mkdir()
    else:
        head.write_bytes(content)
    found = _conflicts(repo)
    assert [each["id"] for each in found["left_out"]] == ["dev-c"]
    assert found["order"] == ["dev-a", "dev-d", "dev-b"] or set(found["order"]) == {"dev-a", "dev-b", "dev-d"}
    assert b"'dev-c' is left out" in run(repo.path, "worktree", "conflicts").err
    named = run(repo.path, "worktree", "conflicts", "dev-a", "dev-c")
    assert (named.code, b"git agentos worktree repair dev-c" in named.err) == (1, True)
