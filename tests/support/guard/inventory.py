"""What is at stake in a repository where an agent works, and what of it is still there after a command.

`build` makes a project with everything that a destructive git command can take away: two managed worktrees with staged,
unstaged, untracked and ignored work, a dirty main worktree, commits that nobody pushed, a branch that nobody merged,
stashes, commits that only a reflog reaches, a dangling one, and a remote with branches of its own.

`Stake.of` reads all of it with plain git and `os`. `lost(before, after)` names what is neither in place nor in a
checkpoint afterwards, `changed` what differs at all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.repo import ZERO, Repo, blob_id, git, git_run
from tests.support.state import State, complete_state, differences
from tests.support.tool import run_ok


@dataclass(frozen=True)
class Project:
    """The folders of one project: `main` is its main worktree, `agent` and `other` those of two agents."""

    root: Path

    @property
    def main(self) -> Repo:
        return Repo(self.root / "app")

    @property
    def agent(self) -> Repo:
        return Repo(self.root / "app.worktrees" / "dev")

    @property
    def other(self) -> Repo:
        return Repo(self.root / "app.worktrees" / "other")

    @property
    def origin(self) -> Path:
        return self.root / "origin.git"

    @property
    def git_dir(self) -> Path:
        return self.main.path / ".git"


def build(root: Path) -> Project:
    """Make the project in the folder `root`, which is empty. Nothing is guarded yet."""
    arena = Project(root)
    git(root, "init", "-q", "--bare", "--template=", str(arena.origin))
    main = Repo.init(arena.main.path, "--template=")
    for name in ("app.py", "notes.txt", "keep.txt", "docs/guide.md"):
        main.write(name, f"{name}, first version\n")
    main.write(".gitignore", "build/\n*.log\n")
    main.commit("first")
    main.append("notes.txt", "second version\n")
    main.commit("second")
    main.git("tag", "v1")
    main.git("remote", "add", "origin", str(arena.origin))
    main.git("branch", "old", "HEAD~1")
    main.git("push", "-q", "origin", "main", "old", "v1")
    main.git("checkout", "-q", "-b", "topic")
    main.write("build/out.log", "tracked on topic\n")
    main.git("add", "-f", "build/out.log")
    main.write("topic.txt", "nobody merged this\n")
    main.commit("work that nobody merged")
    main.git("checkout", "-q", "main")
    # No reflog but the branch's own remembers it, and that one goes with the branch.
    main.git("reflog", "expire", "--expire=now", "HEAD")
    for name in ("dev", "other"):
        run_ok(main.path, "worktree", "create", "--no-guard", name)
    # Its pushed branch will be behind by one commit, and have one that the agent has not: a push is no fast-forward.
    agent = arena.agent
    agent.write("pushed.txt", "somebody else's work\n")
    agent.commit("pushed by somebody else")
    agent.git("push", "-q", "origin", "HEAD:refs/heads/shared")
    agent.git("reset", "-q", "--hard", "HEAD~1")
    agent.write("one.txt", "one\n")
    agent.commit("amended away")
    agent.write("one.txt", "one, committed and not pushed\n")
    agent.add("one.txt")
    agent.git("commit", "-q", "--amend", "-m", "not pushed")
    agent.write("two.txt", "two, committed and not pushed\n")
    agent.commit("not pushed either")
    for text in ("older stash\n", "newer stash\n"):
        agent.append("keep.txt", text)
        agent.git("stash", "-q")
    for each in (agent, arena.other, main):
        dirty(each)
    agent.git("hash-object", "-w", "--stdin", stdin=b"dangling\n")
    agent.git("commit-tree", "-m", "dangling", "HEAD^{tree}")
    return arena


def dirty(repo: Repo) -> None:
    """Work of every kind that no commit holds."""
    where = repo.path.name
    repo.append("app.py", f"staged in {where}\n")
    repo.add("app.py")
    repo.append("app.py", "and edited again\n")
    repo.append("notes.txt", f"unstaged in {where}\n")
    repo.write("docs/new.md", f"staged and new in {where}\n")
    repo.add("docs/new.md")
    repo.write("untracked.txt", f"untracked in {where}\n")
    repo.write("drafts/idea.txt", f"an idea in {where}\n")
    repo.write("build/out.log", f"an hour of building in {where}\n")


@dataclass(frozen=True)
class Inventory:
    """Everything that could be lost. `worktrees` maps a folder to its state, None where it is gone; `bytes` are ids of
    blobs that files and indexes hold; `commits` what refs and reflogs name; `reflogs` pairs of a log and a commit;
    `remote` its refs."""

    worktrees: Mapping[str, State | None]
    bytes: frozenset[str]
    commits: frozenset[str]
    reflogs: frozenset[tuple[str, str]]
    refs: Mapping[str, str]
    stashes: tuple[str, ...]
    remote: Mapping[str, str]
    dangling: frozenset[str]

    @classmethod
    def of(cls, arena: Project) -> Inventory:
        states = {each.path.name: _state(each) for each in (arena.main, arena.agent, arena.other)}
        blobs: set[str] = set()
        for state in states.values():
            if state is not None:
                blobs |= {entry.oid for entry in state.index}
                blobs |= {blob_id(file.data) for file in state.files.values() if file.kind == "file"}
        refs = _refs(arena.git_dir)
        reflogs = frozenset(_reflogs(arena.git_dir))
        return cls(
            worktrees=states,
            bytes=frozenset(blobs),
            commits=frozenset({*refs.values(), *(oid for _, oid in reflogs)}),
            reflogs=reflogs,
            refs={name: oid for name, oid in refs.items() if not name.startswith("refs/agentos/")},
            stashes=tuple(_stashes(arena.git_dir)),
            remote=_refs(arena.origin),
            dangling=frozenset(_dangling(arena.git_dir)),
        )


def changed(before: Inventory, after: Inventory) -> list[str]:
    """What is not as it was, one line each. That a checkpoint now holds what nothing reached is no change."""
    found = []
    for name, state in before.worktrees.items():
        now = after.worktrees[name]
        if state is None or now is None:
            found += [f"the worktree {name} is gone"] if state is not None else []
        else:
            found += [f"{name}: {line}" for line in differences(state, now)]
    if before.refs != after.refs:
        found.append("refs")
    if before.stashes != after.stashes:
        found.append("stashes")
    if before.remote != after.remote:
        found.append("the remote's refs")
    if not before.reflogs <= after.reflogs:
        found.append("reflogs")
    return found


def lost(arena: Project, before: Inventory, after: Inventory) -> list[str]:
    """What is neither in place nor in a checkpoint, nor reachable from a ref or a reflog."""
    kept = _kept(arena.git_dir)
    found = [f"bytes of {oid[:8]}" for oid in sorted(before.bytes - after.bytes - kept)]
    found += [f"commit {oid[:8]}" for oid in sorted(before.commits - after.commits - kept)]
    found += [f"dangling {oid[:8]}" for oid in sorted(before.dangling - _present(arena.git_dir, before.dangling))]
    for name, oid in before.remote.items():
        now = after.remote.get(name)
        if now is None or (now != oid and git_run(arena.origin, "merge-base", "--is-ancestor", oid, now).returncode):
            found.append(f"{name} of the remote")
    return found


def _state(repo: Repo) -> State | None:
    return complete_state(repo.path) if (repo.path / ".git").exists() and _works(repo.path) else None


def _works(path: Path) -> bool:
    return git_run(path, "rev-parse", "--git-dir").returncode == 0


def _lines(git_dir: Path, *args: str) -> Iterator[str]:
    done = git_run(git_dir.parent, "--git-dir", str(git_dir), *args) if git_dir.is_dir() else None
    if done is not None and done.returncode == 0:
        yield from done.stdout.decode().splitlines()


def _refs(git_dir: Path) -> dict[str, str]:
    lines = _lines(git_dir, "for-each-ref", "--format=%(refname) %(objectname)")
    return {name: oid for name, _, oid in (line.partition(" ") for line in lines)}


def _stashes(git_dir: Path) -> Iterator[str]:
    yield from _lines(git_dir, "log", "-g", "--format=%H", "refs/stash", "--")


def _reflogs(git_dir: Path) -> Iterator[tuple[str, str]]:
    """Every log of a ref, of linked worktrees' HEADs too, with each commit that it names."""
    for folder, _, names in os.walk(git_dir):
        if f"{os.sep}logs" in folder and "/refs/agentos" not in folder:
            for name in names:
                path = Path(folder, name)
                for line in path.read_text().splitlines():
                    yield from ((str(path), oid) for oid in line.split(" ")[:2] if oid != ZERO)


def _dangling(git_dir: Path) -> set[str]:
    rows = (line.split(" ") for line in _lines(git_dir, "fsck", "--unreachable", "--no-progress"))
    return {row[2] for row in rows if row[0] == "unreachable"}


def _present(git_dir: Path, ids: frozenset[str]) -> set[str]:
    if not git_dir.is_dir():
        return set()
    done = subprocess.run(
        ["git", "--git-dir", str(git_dir), "cat-file", "--batch-check=%(objectname)"],
        input="\n".join(sorted(ids)),
        capture_output=True,
        text=True,
        check=False,
    )
    return {line for line in done.stdout.splitlines() if not line.endswith(" missing")}


def _kept(git_dir: Path) -> set[str]:
    """Every object that refs reach: what checkpoints hold is among it, since timelines are refs."""
    return {line.split(" ")[0] for line in _lines(git_dir, "rev-list", "--objects", "--all", "--reflog")}
