"""`git agentos tdd`: tests come first, exit codes decide.

    state, routing    the state of a workflow, and which node is next (pure)
    context/          what may leave the machine, and the prompts made of it
    gate/             running pytest; the red and green gates with their vetoes; the audit
    models/           who writes: a script (mock), a headless agent's command, a chat model
    nodes, code_nodes what each node does; `node_run` has what is common to them
    graph             the graph, in LangGraph
    workflows, query  starting, resuming and deciding; showing: what the commands call
    inherited_work    what a model has written in another clone, taken over
    handover          workflows about which somebody decides elsewhere: tasks of a fleet
    doctor            what `doctor` reports about workflows
    state_database    the database of the graph's state: SQLite or PostgreSQL; `signed_rows`, `state_copies`
    state_again       the state of workflows, written again with other texts in it

The only folder that imports langgraph and langchain. `graph`, `nodes` (to wait for a decision), `signed_rows`,
`state_database` and `models.chat` alone do, inside of functions or as modules that nothing else loads: the names below
cost nothing until they are used, and tools that use nothing else never load LangGraph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from git_agentos.tdd.context.source_files import validate_context_limits, validate_context_path
    from git_agentos.tdd.gate.pytest_run import run_pytest_subprocess
    from git_agentos.tdd.models.mock import MockLLM
    from git_agentos.tdd.routing import (
        route_n0_load_context,
        route_n1_scaffold_tests,
        route_n2_fail_gate,
        route_n3_implement,
        route_n4_pass_gate,
        route_n5_audit,
        route_n6_human_review,
        route_n7_merge,
        route_n8_clean_up,
    )
    from git_agentos.tdd.state import ImplementationState

_HOMES = {  # of the names that are not in `routing`
    "ImplementationState": "git_agentos.tdd.state",
    "MockLLM": "git_agentos.tdd.models.mock",
    "run_pytest_subprocess": "git_agentos.tdd.gate.pytest_run",
    "validate_context_limits": "git_agentos.tdd.context.source_files",
    "validate_context_path": "git_agentos.tdd.context.source_files",
}

__all__ = [
    "ImplementationState", "MockLLM", "route_n0_load_context", "route_n1_scaffold_tests", "route_n2_fail_gate",
    "route_n3_implement", "route_n4_pass_gate", "route_n5_audit", "route_n6_human_review", "route_n7_merge",
    "route_n8_clean_up", "run_pytest_subprocess", "validate_context_limits", "validate_context_path",
]  # fmt: skip


if not TYPE_CHECKING:  # or mypy would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES.get(name, "git_agentos.tdd.routing")), name)
