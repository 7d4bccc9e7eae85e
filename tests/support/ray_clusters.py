"""Ray clusters of several nodes on this machine. One at a time: Ray finds any that runs here."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

_SMALL = {"object_store_memory": 100 << 20}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """No other test has a cluster meanwhile."""
    with open(os.path.join(tempfile.gettempdir(), f"agentos-ray-{os.getuid()}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def cluster(head: dict[str, Any], *nodes: dict[str, Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """A cluster with a head and more nodes, each with the options of Ray's `add_node`: the cluster, and those nodes."""
    from ray.cluster_utils import Cluster

    with alone():
        made = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **_SMALL, **head})
        try:
            yield made, [made.add_node(**_SMALL, **each) for each in nodes]
        finally:
            made.shutdown()
