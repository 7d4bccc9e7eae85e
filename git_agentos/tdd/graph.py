"""The graph, in LangGraph: built and drawn from `routing.ROUTES`.

What one has to know about LangGraph (version 1.2): a node that was interrupted runs again from its top; only with
`durability="sync"` is a finished node never repeated after a kill; new input to a graph that waits silently starts it
again, so that it is only ever given `Command(resume=…)`. Tracing to its makers' service is off, whatever the
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

    from git_agentos.tdd.node_run import Session
    from git_agentos.tdd.nodes import Node

_MAX_STEPS = 10_000  # LangGraph's own limit would end a workflow in its third round; ours are in the state


@dataclass(frozen=True)
class Position:
    """Where a workflow stands: its state, the next node (None: it has ended), and whether it waits for a decision."""

    state: ImplementationState
    node: str | None
    waits: bool


class Graph:
    """The compiled graph of one workflow, with its checkpointer. Without a session its nodes do nothing."""

    def __init__(self, session: Session | None, checkpointer: BaseCheckpointSaver[Any]) -> None:
        from git_agentos.tdd.nodes import NODES as FUNCTIONS

        functions: Mapping[str, Node] = FUNCTIONS
        self._checkpointer = checkpointer
        self._app = _build(
            lambda name: partial(functions[name], session) if session is not None else _do_nothing
        ).compile(checkpointer=checkpointer)

    def begin(self, id_: str, state: ImplementationState) -> None:
        """Start a thread, and run it until it ends or waits."""
        self._run(id_, state, _metadata(state))

    def resume(self, id_: str) -> None:
        """Resume a thread that was interrupted."""
        self._run(id_, None)

    def decide(self, id_: str, decision: str) -> None:
        """Resume a thread that waits, with the decision."""
        from langgraph.types import Command

        self._run(id_, Command(resume=decision))

    def set_decision(self, id_: str, update: Mapping[str, Any]) -> None:
        """Write a decision into the state of a thread that was interrupted, as if it had waited."""
        with _untraced():
            self._app.update_state(_config(id_), dict(update), as_node=N6)

    def replace(self, id_: str, state: ImplementationState) -> None:
        """Replace a thread by one that has ended in `state`."""
        self.delete(id_)
        with _untraced():
            self._app.update_state(_config(id_, _metadata(state)), dict(state), as_node=N8)

    def position(self, id_: str) -> Position | None:
        """Where a thread stands; None if there is none. Tampered if its rows are not as they were written."""
        with _untraced():
            try:
                snapshot = self._app.get_state(_config(id_))
            except (LookupError, TypeError, ValueError, AttributeError) as error:  # the rows of another application
                raise Tampered(id_, f"it cannot be read ({error})") from error
        if not snapshot.values:
            return None
        node = snapshot.next[0] if snapshot.next else None
        return Position(snapshot.values, node, node == N6 and bool(snapshot.interrupts))

    def delete(self, id_: str) -> None:
        """Delete a thread."""
        self._checkpointer.delete_thread(id_)

    def _run(self, id_: str, value: Any, metadata: Mapping[str, str] | None = None) -> None:
        with _untraced():
            self._app.invoke(value, _config(id_, metadata), durability="sync")


def threads(checkpointer: BaseCheckpointSaver[Any], repository: str | None) -> list[str]:
    """The ids of all threads that are workflows, newest first; of one repository, or of all. Damaged ones are included
    as far as they can be recognized."""
    if hasattr(checkpointer, "first_metadata"):
        firsts = sorted(checkpointer.first_metadata(), key=lambda each: str(each[1]), reverse=True)
        return [str(id_) for id_, _, metadata in firsts if _is_workflow(metadata, repository)]
    wanted = {"agentos": "tdd", "source": "input"}
    if repository is not None:
        wanted["repository"] = repository
    found = [
        (each.checkpoint["ts"], each.config["configurable"]["thread_id"])
        for each in checkpointer.list(None, filter=wanted)
    ]
    return list(dict.fromkeys(id_ for _, id_ in sorted(found, reverse=True)))


def _is_workflow(metadata: object, repository: str | None) -> bool:
    try:
        found = json.loads(metadata)  # type: ignore[arg-type]  # TypeError for what is no text
        return found["agentos"] == "tdd" and repository in (None, found["repository"])
    except (ValueError, RecursionError):
        return True  # damaged
    except (TypeError, KeyError):
        return False  # another application's


def mermaid() -> str:
    """The graph as Mermaid, drawn from the code."""
    return str(_build(lambda _: _do_nothing).compile().get_graph().draw_mermaid())


def _build(function_of: Callable[[str], Callable[[Any], Any]]) -> Any:
    try:
        from langgraph.graph import START, StateGraph
    except ImportError as error:
        from git_agentos.tdd import state_database

        raise state_database.missing_extra("tdd", error) from error

    builder: Any = StateGraph(ImplementationState)  # its signature does not take plain functions of a TypedDict
    for name in NODES:
        builder.add_node(name, function_of(name))
    builder.add_edge(START, N0)
    for name, (route, targets) in ROUTES.items():
        if len(targets) == 1:
            builder.add_edge(name, targets[0])
        else:
            builder.add_conditional_edges(name, route, list(targets))
    return builder


def _do_nothing(_: ImplementationState) -> dict[str, Any]:
    return {}


def _metadata(state: ImplementationState) -> Mapping[str, str]:
    return {"agentos": "tdd", "repository": state["repository"], "issue": state["issue_id"]}


def _config(id_: str, metadata: Mapping[str, str] | None = None) -> Any:
    config: dict[str, Any] = {"configurable": {"thread_id": id_}, "recursion_limit": _MAX_STEPS}
    if metadata is not None:
        config["metadata"] = dict(metadata)
    return config


@contextmanager
def _untraced() -> Iterator[None]:
    from langsmith import tracing_context

    with tracing_context(enabled=False):
        yield
