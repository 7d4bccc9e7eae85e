"""A small graph that waits for input. `python -m tests.support.waiting_graph DATABASE ID` walks through it."""

from __future__ import annotations

import operator
import sys
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from git_agentos.tdd import state_database

HOSTILE = "n\0 \udcff \ud83d é \U0001f600 ' \\u0000"


class State(TypedDict, total=False):
    text: str | None
    lists: list[Any]
    nested: dict[str, Any]
    history: Annotated[list[Any], operator.add]
    number: float


def first(_: State) -> dict[str, Any]:
    return {
        "text": HOSTILE,
        "lists": [HOSTILE, 1 << 70, None, True, [2.5]],
        "nested": {HOSTILE: {"inner": HOSTILE}},
        "history": [{"n": 1, "what": HOSTILE}],
    }


def second(_: State) -> dict[str, Any]:
    word = interrupt({"n": 1})
    return {"text": None, "history": [{"n": 2, "said": word}]}


def graph(opened: Any) -> Any:
    made: Any = StateGraph(State)
    made.add_node("first", first)
    made.add_node("second", second)
    made.add_edge(START, "first")
    made.add_edge("first", "second")
    made.add_edge("second", END)
    return made.compile(checkpointer=opened)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def walk(where: str, name: str = "t") -> Any:
    """A workflow that waits, and is continued by another process's saver; its last state."""
    with state_database.open_checkpointer(where) as opened:
        graph(opened).invoke({"text": "begin\0", "history": []}, thread(name), durability="sync")
    with state_database.open_checkpointer(where) as opened:
        made = graph(opened)
        assert made.get_state(thread(name)).next == ("second",)
        made.invoke(Command(resume=HOSTILE), thread(name), durability="sync")
        return made.get_state(thread(name))


if __name__ == "__main__":
    sys.stdin.read()  # until all are there
    walk(sys.argv[1], sys.argv[2])
