"""The environment that commands of runs and workflows get."""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.process.contained import MARK
from git_agentos.store import database_path

# Variables of another run, or another workflow, that started the process which starts this one.
_OF_A_RUN = (
    "AGENTOS_TASK_ID", "AGENTOS_RUN_ID", "AGENTOS_ATTEMPT", "AGENTOS_STEP", "AGENTOS_FEEDBACK_FILE", MARK,
    "AGENTOS_PROMPT_FILE", "AGENTOS_TDD_NODE",
)  # fmt: skip


def for_command(base: Mapping[str, str], *, run_id: str, agent: str, task: str | None, mark: str) -> dict[str, str]:
    """`base` without git's own variables and without the URL of a database, with the identity of the run."""
    found = {
        key: value
        for key, value in base.items()
        if not key.startswith("GIT_") and key not in _OF_A_RUN and key != "OLDPWD"
    }
    if "://" in found.get(database_path.VARIABLE, ""):  # it may hold a password
        del found[database_path.VARIABLE]
    found |= {"AGENTOS_AGENT_ID": agent, "AGENTOS_RUN_ID": run_id, MARK: mark}
    if task is not None:
        found["AGENTOS_TASK_ID"] = task
    return found
