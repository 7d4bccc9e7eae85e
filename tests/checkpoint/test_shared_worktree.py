"""Agents in one worktree: each sees its own checkpoints, and undoes its own restores."""

from __future__ import annotations

import pytest

from git_agentos import log, open_workspace
from git_agentos.errors import AgentosError, RestoreError
from git_agentos.workspace import Workspace
from tests.support.repo import Repo
from tests.support.state import assert_unchanged, complete_state
from tests.support.tool import run


def at(repo: Repo, who: str) -> Workspace:
    return open_workspace(repo.path, agent=who)


def refused(repo: Repo, who: str, match: str) -> AgentosError:
    """`who`'s undo is refused, in a dry run as well, and nothing changes."""
    before = complete_state(repo.path, strict=True)
    for dry in (True, False):
        with pytest.raises(RestoreError, match=match) as caught:
            at(repo, who).undo(dry_run=dry)
    assert_unchanged(before, complete_state(repo.path, strict=True), "a refused undo")
    return caught.value


def test_checkpoint_list_has_only_the_agents_own(repo: Repo) -> None:
    of_a = at(repo, "a").checkpoint("by a")
    of_b = at(repo, "b").checkpoint("by b")
    of_main = at(repo, "main").checkpoint("by the worktree's own")
    for who, made in (("a", of_a), ("b", of_b), ("main", of_main)):
        assert [each.id for each in at(repo, "a").checkpoints(agent=who)] == [made.id]
    assert [each.id for each in at(repo, "a").checkpoints()] == [of_main.id, of_b.id, of_a.id]


def test_worktree_used_only_by_other_agents(repo: Repo) -> None:
    made = at(repo, "boss").checkpoint("c")
    assert [each.id for each in at(repo, "boss").checkpoints(agent="main")] == [made.id]


def test_undo_is_refused_to_another_agent(repo: Repo) -> None:
    first = at(repo, "a").checkpoint("first")
    repo.write("readme.txt", "changed\n")
    done = at(repo, "a").restore(first.id, no_branch=True)
    error = refused(repo, "b", "made by agent 'a', not by 'b'")
    assert error.hint is not None
    assert done.saved is not None
    assert f"git agentos restore {done.saved[:8]}" in error.hint
    at(repo, "a").undo()
    assert repo.read("readme.txt") == b"changed\n"
    refused(repo, "b", "the last undo in this worktree was made by agent 'a'")
    at(repo, "a").undo()
    assert repo.read("readme.txt") == b"a readme\nsecond line\n"


def test_undo_keeps_what_another_agent_has_checkpointed_since(repo: Repo) -> None:
    first = at(repo, "a").checkpoint("first")
    repo.write("readme.txt", "changed\n")
    at(repo, "a").restore(first.id, no_branch=True)
    repo.write("by-b.txt", "work\n")
    saved = at(repo, "b").checkpoint("b's work")
    at(repo, "a").checkpoint("and a's")
    refused(repo, "a", f"agent 'b' has worked in this worktree since: checkpoint {saved.id[:8]}")


def test_undo_keeps_what_another_agent_has_logged_since(repo: Repo) -> None:
    first = at(repo, "a").checkpoint("first")
    log.add(at(repo, "b").context, "action", "before the restore", files=["x"])
    repo.write("readme.txt", "changed\n")
    at(repo, "a").restore(first.id, no_branch=True)
    log.add(at(repo, "b").context, "nudge", "a word, no files")
    log.add(at(repo, "a").context, "action", "own", files=["readme.txt"])
    at(repo, "a").undo(dry_run=True)
    log.add(at(repo, "b").context, "action", "rewrote the parser", files=["src/app.py"])
    refused(repo, "a", "agent 'b' has worked in this worktree since .'rewrote the parser'.")


def test_the_other_agents_own_failed_restore_is_no_change(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    from git_agentos.checkpoint.restore import application

    first = at(repo, "a").checkpoint("first")
    repo.write("readme.txt", "changed\n")
    at(repo, "a").restore(first.id, no_branch=True)
    repo.write("docs/guide.md", "changed too\n")
    with monkeypatch.context() as patch:
        patch.setattr(application.Application, "mismatches", lambda _: [b"docs/guide.md"])
        with pytest.raises(RestoreError):
            at(repo, "b").restore(first.id, no_branch=True)
    at(repo, "a").undo()
    assert repo.read("readme.txt") == b"changed\n"


def test_a_restore_that_others_made_before_this_was_recorded(repo: Repo) -> None:
    """A record without a name, of an earlier version, is anybody's to undo."""
    import json

    first = at(repo, "a").checkpoint("first")
    repo.write("readme.txt", "changed\n")
    at(repo, "a").restore(first.id, no_branch=True)
    path = repo.git_dir / "agentos" / "last-restore.json"
    body = json.loads(path.read_text())
    assert body.pop("by") == "a"
    path.write_text(json.dumps(body))
    at(repo, "b").undo()
    assert repo.read("readme.txt") == b"changed\n"


def test_refusal_names_the_agent_and_the_restore(repo: Repo) -> None:
    assert run(repo.path, "--as", "a", "checkpoint").code == 0
    repo.write("readme.txt", "changed\n")
    assert run(repo.path, "--as", "a", "restore", "latest", "--no-branch").code == 0
    done = run(repo.path, "--as", "b", "undo")
    assert done.code == 1
    assert b"agent 'a'" in done.err
    assert b"git agentos restore " in done.err
    assert run(repo.path, "--as", "a", "undo").code == 0
