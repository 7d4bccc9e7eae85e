"""The graph, in LangGraph: built and drawn from `routing.ROUTES`, and every call into LangGraph that there is.

What LangGraph does that one has to know (its version 1.2): a node that was interrupted runs again from its top; only
with `durability="sync"` is a finished node never repeated after a kill; new input to a graph that waits silently starts
it again, so that nothing but `Command(resume=…)` is given to one. Tracing to its makers' service is off, whatever the
environment says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from git_agentos.tdd.routing import ROUTES
from git_agentos.tdd.signed_rows import Tampered
from git_agentos.tdd.state import N0, N6, N8, NODES, ImplementationState

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from git_agentos.tdd.node_run import Site
    from git_agentos.tdd.nodes.frame import Node

_STEPS = 10_000  # LangGraph's own limit would end a workflow in its third round; ours are in the state


@dataclass(frozen=True)
class Position:
    """Where a thread stands: its state, the node that comes next (None: it has ended), whether it waits there for a
    word, and when it was last written (ISO 8601)."""

    state: ImplementationState
    node: str | None
    waits: bool
    updated_at: str | None


class Graph:
    """The compiled graph of one workflow, on its saver."""

    def __init__(self, site: Site | None, saver: BaseCheckpointSaver[Any]) -> None:
        from git_agentos.tdd.nodes import NODES as WORK

        nodes: Mapping[str, Node] = WORK
        self._saver = saver
        self._app = _built(lambda name: partial(nodes[name], site) if site is not None else _nothing).compile(
            checkpointer=saver
        )

    def begin(self, id_: str, state: ImplementationState) -> None:
        """Start a thread, and go on until it ends or waits."""
        self._go(id_, state, _metadata(state))

    def go_on(self, id_: str) -> None:
        """Go on with a thread that was interrupted."""
        self._go(id_, None)

    def answer(self, id_: str, word: str) -> None:
        """Give a thread that waits its word, and go on."""
        from langgraph.types import Command

        self._go(id_, Command(resume=word))

    def say(self, id_: str, update: Mapping[str, Any]) -> None:
        """Put into a thread that was interrupted what a person said of it, as if it had waited; `go_on` goes on."""
        with _untraced():
            self._app.update_state(_config(id_), dict(update), as_node=N6)

    def replace(self, id_: str, state: ImplementationState) -> None:
        """Make a thread anew that has ended in `state`."""
        self.forget(id_)
        with _untraced():
            self._app.update_state(_config(id_, _metadata(state)), dict(state), as_node=N8)

    def position(self, id_: str) -> Position | None:
        """Where a thread stands; None where there is none. Tampered where its rows are not as they were written."""
        with _untraced():
            try:
                found = self._app.get_state(_config(id_))
            except (LookupError, TypeError, ValueError, AttributeError) as error:  # of a thread that is none of ours
                raise Tampered(id_, f"it cannot be read ({error})") from error
        if not found.values:
            return None
        node = found.next[0] if found.next else None
        return Position(found.values, node, node == N6 and bool(found.interrupts), found.created_at)

    def forget(self, id_: str) -> None:
        """Remove a thread that has come to nothing."""
        self._saver.delete_thread(id_)

    def _go(self, id_: str, value: Any, metadata: Mapping[str, str] | None = None) -> None:
        with _untraced():
            self._app.invoke(value, _config(id_, metadata), durability="sync")


def threads(saver: BaseCheckpointSaver[Any], repository: str | None) -> list[str]:
    """The ids of all threads that are workflows of ours, the newest first; of one repository, or of all. One that is
    damaged is among them, as far as that can be told."""
    if hasattr(saver, "first_metadata"):
        firsts = sorted(saver.first_metadata(), key=lambda each: str(each[1]), reverse=True)
        return [str(id_) for id_, _, metadata in firsts if _is_wanted(metadata, repository)]
    wanted = {"agentos": "tdd", "source": "input"}
    if repository is not None:
        wanted["repository"] = repository
    found = [
        (each.checkpoint["ts"], each.config["configurable"]["thread_id"]) for each in saver.list(None, filter=wanted)
    ]
    return list(dict.fromkeys(id_ for _, id_ in sorted(found, reverse=True)))


def _is_wanted(metadata: object, repository: str | None) -> bool:
    try:
        found = json.loads(metadata)  # type: ignore[arg-type]  # TypeError for what is no text
        return found["agentos"] == "tdd" and repository in (None, found["repository"])
    except (ValueError, RecursionError):
        return True  # damaged
    except (TypeError, KeyError):
        return False  # somebody else's


def ask(value: Mapping[str, Any]) -> str:
    """Stop here until a person has said a word, and return it. Stands alone in its node."""
    from langgraph.types import interrupt

    return str(interrupt(dict(value)))


def mermaid() -> str:
    """The graph as Mermaid, drawn from the code."""
    return str(_built(lambda _: _nothing).compile().get_graph().draw_mermaid())


def _built(work: Callable[[str], Callable[[Any], Any]]) -> Any:
    try:
        from langgraph.graph import START, StateGraph
    except ImportError as error:
        from git_agentos.tdd import state_database

        raise state_database.missing("tdd", error) from error

    builder: Any = StateGraph(ImplementationState)  # its signature has no room for plain functions of a TypedDict
    for name in NODES:
        builder.add_node(name, work(name))
    builder.add_edge(START, N0)
    for name, (route, targets) in ROUTES.items():
        if len(targets) == 1:
            builder.add_edge(name, targets[0])
        else:
            builder.add_conditional_edges(name, route, list(targets))
    return builder


def _nothing(_: ImplementationState) -> dict[str, Any]:
    return {}


def _metadata(state: ImplementationState) -> Mapping[str, str]:
    return {"agentos": "tdd", "repository": state["repository"], "issue": state["issue_id"]}


def _config(id_: str, metadata: Mapping[str, str] | None = None) -> Any:
    config: dict[str, Any] = {"configurable": {"thread_id": id_}, "recursion_limit": _STEPS}
    if metadata is not None:
        config["metadata"] = dict(metadata)
    return config


@contextmanager
def _untraced() -> Iterator[None]:
    from langsmith import tracing_context

    with tracing_context(enabled=False):
        yield
