"""The copy of each workflow's state in git: a tree that the ref `refs/agentos/workflows/<id>` keeps.

    rows.json      its rows in the workflow database (`store.threads`), which are signed
    place.json     {"repository", "database"}: whose it is, and the file that has it

It is written with every row, so it is as new as the database. `git clean -fdx` removes the database and the evidence of
the run, and neither copy: both are rebuilt before workflows are read. An agent that replaces a copy gains nothing that
it could not gain in the database.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, AgentosWarning, RunError, system_reason
from git_agentos.git import tree_refs, trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Writer
from git_agentos.run import evidence_store
from git_agentos.run.context import is_id
from git_agentos.store import database, database_path, threads
from git_agentos.store.database import Connection
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout

PREFIX = "refs/agentos/workflows/"
_ROWS, _PLACE = b"rows.json", b"place.json"


def save(location: Location, connection: Connection, id_: str, path: str) -> None:
    """Copy the rows of a workflow. A failure is a warning: they are copied again with the next row."""
    if not is_id(id_):
        return
    try:
        data = threads.take(connection, id_)
        if data is None:
            return
        where = {"repository": database_path.repository_id(location), "database": path}
        files = {_ROWS: data, _PLACE: json.dumps(where).encode("ascii") + b"\n"}

        def make(writer: Writer) -> tree_refs.Files:
            return {name: (trees.REGULAR, writer.write("blob", content)) for name, content in files.items()}

        tree_refs.put(tree_refs.open_store(location), PREFIX + id_, make)
    except (AgentosError, OSError) as error:
        reason = system_reason(error) if isinstance(error, OSError) else error
        text = f"the state of workflow '{id_}' was not copied to git: {reason}"
        warnings.warn(AgentosWarning(text), stacklevel=2)


def copy_missing(location: Location) -> None:
    """Copy the state of the workflows in a worktree's own database that have no copy: an older version made none."""
    path = database_path.path_of(location, "")
    if not os.path.lexists(path):
        return
    with contextlib.suppress(AgentosError, OSError):
        database_path.check(location, "")
        copied = set(ids(location))
        with database.opened_to_read(path) as opened:
            for id_ in threads.names(opened.connection):
                if id_ not in copied:
                    save(location, opened.connection, id_, path)


def delete(location: Location, id_: str) -> None:
    """Delete the copy of a workflow."""
    if is_id(id_):
        with contextlib.suppress(AgentosError, OSError):
            tree_refs.delete(location, PREFIX + id_)


def ids(location: Location) -> list[str]:
    """The ids of the workflows that have a copy."""
    return [name for name in tree_refs.names(location, PREFIX) if is_id(name)]


def restore_missing(context: OpenWorktree, *, every: bool = False) -> list[str]:
    """Restore rows that the database lacks, and rebuild the evidence of those workflows; their ids.

    Rows are missing if the file is gone, or was created again since; if the file exists and only rows were removed,
    they are missing only if the evidence is gone too. Evidence alone is rebuilt if all of `.agentos` is gone, or with
    `every`.
    """
    location = context.location
    if not os.path.lexists(os.path.join(layout.main_folder(location), database_path.FOLDER)):
        evidence_store.rebuild_folders(location)
    known = ids(location)
    if every:
        _rebuild_evidence(location, known)
    return [id_ for id_ in known if _restore(context, id_)]


def lost(context: OpenWorktree) -> list[str]:
    """The ids of the workflows whose state is missing in the database, while git has a copy."""
    return [id_ for id_ in ids(context.location) if _missing(context, id_) is not None]


def _rebuild_evidence(location: Location, known: list[str]) -> None:
    for id_ in known:
        with contextlib.suppress(AgentosError, OSError):
            evidence_store.open_or_rebuild(location, id_)


class _Missing(NamedTuple):
    """The rows that a database lacks."""

    database: str
    rows: bytes


def _restore(context: OpenWorktree, id_: str) -> bool:
    missing = _missing(context, id_)
    with contextlib.suppress(AgentosError, OSError):
        if missing is not None:
            database_path.ensure_folder(os.path.dirname(os.path.dirname(missing.database)))
            database_path.refuse_links(missing.database)
            threads.give(missing.database, id_, missing.rows)
            _rebuild_evidence(context.location, [id_])
            return True
    return False


def _missing(context: OpenWorktree, id_: str) -> _Missing | None:
    location = context.location
    repository = tree_refs.open_store(location)
    found = tree_refs.files(repository, PREFIX + id_)
    with contextlib.suppress(AgentosError, OSError, ValueError, KeyError, TypeError, RecursionError):
        where = json.loads(repository.blob(found[_PLACE][1]))
        if where["repository"] != database_path.repository_id(location, make=False):
            return None
        target = _database_for(context, str(where["database"]))
        at = threads.state(target, id_)
        is_robbed = at == threads.WITHOUT and target == where["database"] and _has_evidence(location, id_)
        if at == threads.THERE or is_robbed:
            return None
        return _Missing(target, repository.blob(found[_ROWS][1]))
    return None


def _database_for(context: OpenWorktree, recorded: str) -> str:
    """The file that the rows are restored to: the recorded one, if it is the database of a worktree of this repository,
    else that of the main worktree. A copy can name any path."""
    living = (*context.all_worktrees(), context.location)
    own = [os.path.join(each.root, database_path.FOLDER, database_path.NAME) for each in living]
    return recorded if recorded in own else own[0]


def _has_evidence(location: Location, id_: str) -> bool:
    try:
        evidence_store.open_existing(location, id_)
    except RunError:
        return False
    except AgentosError:  # something else is in its place
        return True
    return True
