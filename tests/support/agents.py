"""Agents' worktrees beside a repository, made with plain git and a record: for tests of what comes after `create`."""

from __future__ import annotations

from tests.support.repo import Name, Repo


def agent_worktree(repo: Repo, id_: str, base: str = "main", task: str | None = None) -> Repo:
    """A managed worktree of `repo`, on its branch `agent/<id>`, begun at `base`."""
    from git_agentos import open_workspace
    from git_agentos.worktree import record

    path = repo.path.parent / f"{repo.path.name}.worktrees" / id_
    repo.git("worktree", "add", "-q", "--no-track", "-b", f"agent/{id_}", str(path), base)
    location = open_workspace(path).context.location
    made = record.Record(
        id=id_,
        branch=f"agent/{id_}",
        path=str(path),
        base_ref=base,
        base_sha=repo.oid(base),
        created_at="2026-03-01T12:00:00Z",
        created_by="main",
        task=task,
    )
    record.write(location.git_dir, made)
    return Repo(path)


def agent_commit(repo: Repo, id_: str, files: dict[Name, str | bytes | None], base: str = "main") -> Repo:
    """An agent that has committed `files` (None: removed)."""
    made = agent_worktree(repo, id_, base)
    for name, data in files.items():
        if data is None:
            made.remove(name)
        else:
            made.write(name, data)
    made.commit(f"work of {id_}")
    return made
