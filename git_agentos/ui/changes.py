"""What is shown of an event: what it says, and what it changed."""

from __future__ import annotations

import time
from collections.abc import Callable

from git_agentos.checkpoint import queries
from git_agentos.git.repository import Repository
from git_agentos.ui import patches
from git_agentos.ui.patches import MOST, Line
from git_agentos.ui.stream import Item
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.workspace import Workspace


class Changes(NamedTuple):
    """What is asked for: what an event changed; with `now`, what differs since in `folder`; with `older`, what changed
    from that event to this one."""

    item: Item
    folder: str | None
    now: bool = False
    older: Item | None = None


def comparison_of(wanted: Changes, open_workspace: Callable[[str | None], Workspace]) -> list[Line]:
    """The lines of it. It may take long: for a thread."""
    item, older = wanted.item, wanted.older
    context = open_workspace(wanted.folder).context
    repository = context.repository
    if older is not None and older.link is not None and item.link is not None:
        found = queries.compare(repository, older.link, item.link, MOST)
        head = [Line("text", f"from  {_name(older)}"), Line("text", f"to    {_name(item)}")]
        ids = f"{older.link.checkpoint[:12]} {item.link.checkpoint[:12]}"
        return [*head, _command(f"checkpoint diff {ids}"), *patches.comparison(found)]
    lines = _described(item)
    if item.link is None:
        return lines + (_commit(repository, item) if item.event.kind == "commit" else _files(item))
    if not wanted.now:
        since = queries.compare_with_previous(repository, item.link, MOST)
        if since is not None:
            return [*lines, Line("head", "what it changed"), *patches.comparison(since)]
        found = queries.compare_with_commit(repository, item.link, item.event.commit, MOST)
        return [*lines, Line("head", "the first of its timeline: what is not committed"), *patches.comparison(found)]
    if wanted.folder is None:
        return [*lines, Line("text", "there is no folder to compare it with")]
    lines += [_command(f"checkpoint diff {item.link.checkpoint[:12]}"), Line("head", "what differs now")]
    return lines + patches.comparison(queries.compare_with_now(repository, context.settings, item.link, MOST))


def _described(item: Item) -> list[Line]:
    event = item.event
    lines = [Line("head", _name(item))]
    if event.checkpoint_id is not None:
        lines.append(Line("text", f"checkpoint {event.checkpoint_id}"))
    elif event.kind == "commit":
        lines.append(Line("text", f"commit {event.id}"))
    who = f"by {event.agent}" + (f", task {event.task_id}" if event.task_id else "")
    return [*lines, Line("text", who), *(Line("text", row) for row in event.summary.split("\n")), Line("text", "")]


def _name(item: Item) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(item.at))
    return f"{moment}  {item.event.type or item.event.kind}"


def _command(words: str) -> Line:
    return Line("text", f"$ git agentos {words}")


def _commit(repository: Repository, item: Item) -> list[Line]:
    commit = repository.commit(item.event.id)
    parent = commit.parents[0] if commit.parents else None
    found = queries.compare_commits(repository, parent, item.event.id, MOST)
    return [Line("head", "what it changed"), *patches.comparison(found)]


def _files(item: Item) -> list[Line]:
    return [Line("text", each) for each in item.event.files]
