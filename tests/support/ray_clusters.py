"""Ray clusters of several nodes on this machine. One at a time: Ray finds any that runs here.

They are patient: a node of a busy machine answers late, and is not lost. One that is killed is lost at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SMALL = {"object_store_memory": 100 << 20}
PATIENCE = 600.0  # seconds until a node has started
_PATIENT = {
    "RAY_health_check_timeout_ms": "120000",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_gcs_server_port_wait_time_s": "600",
    "RAY_memory_monitor_refresh_ms": "0",  # what else runs here may take memory, too
    "RAY_worker_niceness": "0",  # it is 15 otherwise: beside anything else, workers get next to nothing
}


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

    with alone(), variables(_PATIENT):
        made = Cluster(
            initialize_head=True, head_node_args={"include_dashboard": False, "wait": False, **_SMALL, **head}
        )
        try:
            made.wait_for_nodes(PATIENCE)
            yield made, [add(made, **each) for each in nodes]
        finally:
            made.shutdown()


def add(cluster: Any, **options: Any) -> Any:
    """Another node of a cluster, with the options of Ray's `add_node`, which has started."""
    node = cluster.add_node(wait=False, **_SMALL, **options)
    cluster.wait_for_nodes(PATIENCE)
    return node


@contextlib.contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """Nodes that are started meanwhile have these in their environment."""
    before = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
