"""Workflow databases without what is to be forgotten, and the copies of the state of workflows in git."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs, tree_refs, trees
from git_agentos.git.repository import Writer
from git_agentos.git.trees import Change, Entry
from git_agentos.retention import forgetting
from git_agentos.retention.progress import Progress
from git_agentos.retention.redaction import Redaction
from git_agentos.store import database_path
from git_agentos.tdd import state_again, state_copies

if TYPE_CHECKING:
    from git_agentos.store import redaction as store_redaction

_COPY = b"database/issue_workflow.db"
_ROWS = b"rows.json"


def _change(redaction: Redaction, ids: Mapping[str, str]) -> store_redaction.Change:
    from git_agentos.store import redaction as rows

    return rows.Change(
        redaction.secrets.replace_text,
        ids,
        lambda connection: state_again.clean_tables(connection, redaction.secrets.replace_text),
    )


def attached(redaction: Redaction, writer: Writer, files: Mapping[bytes, Entry]) -> dict[bytes, Change]:
    """The files `database/…` of a checkpoint that differ when nothing that is to be forgotten is in them."""
    changes: dict[bytes, Change] = {}
    for name, (mode, oid) in files.items():
        if not redaction.secrets:
            continue
        data = writer.repository.blob(oid)
        if name == _COPY:
            from git_agentos.store import redaction as rows

            new = rows.clean_copy(data, _change(redaction, {}))
        else:
            new = redaction.secrets.replace(data)
        if new is not None and new != data:
            changes[name] = (mode, writer.write("blob", new))
    return changes


def rewrite_databases(context: OpenWorktree, redaction: Redaction, progress: Progress) -> None:
    """Change the rows in the databases of all worktrees. What cannot be changed is said."""
    variable = context.settings.workflow_db
    ids = {pair.old: pair.new for pair in progress.pairs}
    if not redaction.secrets and not ids:
        return
    if database_path.is_url(variable) and redaction.secrets:
        progress.unreachable.append(
            "the PostgreSQL database that AGENTOS_WORKFLOW_DB names: the state of workflows in it was not searched"
        )
    paths = dict.fromkeys(database_path.path_of(where, variable) for where in context.all_worktrees())
    owner = database_path.repository_id(context.location)
    for path in paths:
        from git_agentos.store import redaction as rows

        if not any(rows.files(path)):
            continue
        try:
            database_path.refuse_links(path)
            rows.clean_file(path, owner, _change(redaction, ids))
        except AgentosError as error:
            progress.unreachable.append(f"the workflow database '{path}': {error.message}")
            continue
        if any(_has_secret(redaction, each) for each in rows.files(path)):
            progress.unreachable.append(f"the workflow database '{path}': tables of other programs have it")


def _has_secret(redaction: Redaction, path: str) -> bool:
    with open(path, "rb") as file:
        return redaction.secrets.is_in(file.read())


def rewrite_copies(context: OpenWorktree, redaction: Redaction, progress: Progress) -> None:
    """Change the copies of the state of workflows in git."""
    if not redaction.secrets:
        return
    location = context.location
    repository = tree_refs.open_store(location)
    for id_ in state_copies.ids(location):
        name = state_copies.PREFIX + id_
        before = refs.resolve(location, name)
        files = dict(tree_refs.files(repository, name))
        try:
            new = _clean_copy(redaction, repository.blob(files[_ROWS][1])) if _ROWS in files else None
        except (AgentosError, ValueError, KeyError, TypeError) as error:
            progress.unreachable.append(f"the copy of the state of workflow '{id_}' in git: {error}")
            continue
        if new is None or before is None:
            continue
        progress.replaces(location, [before])

        def make(writer: Writer, kept: Mapping[bytes, Entry] = files, data: bytes = new) -> tree_refs.Files:
            return {**kept, _ROWS: (trees.REGULAR, writer.write("blob", data))}

        tree_refs.put(repository, name, make)
        forgetting.drop_reflog(context.repository, name)


def _clean_copy(redaction: Redaction, data: bytes) -> bytes | None:
    new = state_again.clean_document(data, redaction.secrets.replace_text)
    return None if new == data else new
