"""Where the graph is interrupted until a person has decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def wait_for_decision(value: Mapping[str, Any]) -> str:
    """Wait until a person has decided, and return the decision. Must be the first call of its node."""
    from langgraph.types import interrupt

    return str(interrupt(dict(value)))
