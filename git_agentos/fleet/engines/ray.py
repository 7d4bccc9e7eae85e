"""The engine `ray`: workers as tasks of a Ray cluster, which knows the resources, and starts them anew elsewhere where
a node is lost. Nothing else of this package imports Ray, but for what is sent to the cluster (`ray_keeper.py`).

A cluster that is there (`ray start`) is used; where there is none, and no address was given, one is started on this
machine, and ended with the engine.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from git_agentos import redact_lines
from git_agentos.errors import FleetError, UsageError, system_reason
from git_agentos.fleet.engines import port
from git_agentos.fleet.engines.port import Ended, Order, Unfit

_NAMESPACE = "git-agentos"
_HEAD = {"node:__internal_head__": 0.001}  # Ray's own resource: where it is lost, so is the cluster
_OBJECTS = 100 << 20  # bytes of memory that Ray may use for values: ours are small
_PATIENCE = 10.0  # seconds for an address to answer
_AUTO, _HERE = "auto", "local"


class RayEngine:
    """`address` is one that `ray.init` takes (None: the cluster of this machine). A worker that is lost with its node
    is started anew `retries` times; `most` workers run at once (None: as many as there is room for)."""

    name = port.RAY
    reports_ends = True
    program = ("git-agentos",)

    def __init__(self, *, address: str | None, retries: int, most: int | None = None) -> None:
        self._address = address
        self._retries = retries
        self._most = most
        self._is_ours = False
        self._ray: Any = None  # the module, once there is a connection
        self._keeper: Any = None
        self._known = 0  # how many ends were seen
        self._orders: dict[str, Order] = {}  # what runs
        self._unsent: list[Order] = []

    def check(self, orders: Sequence[Order], /) -> None:
        self._connect()
        with self._asked():
            nodes = [_Node(each) for each in self._ray.nodes() if each["Alive"]]
        for order in orders:
            try:
                self._ray.remote(lambda: None).options(**_options(order))
            except (TypeError, ValueError) as error:
                raise Unfit(order.task, f"Ray cannot start the task '{order.task}': {_first_line(error)}") from error
            _check_room(order, nodes)

    def start(self, order: Order, /) -> None:
        self._orders[order.task] = order
        self._unsent.append(order)

    def poll(self, patience: float, /) -> Sequence[Ended]:
        if not self._orders:
            return ()
        with self._asked():
            found = self._ask(patience)
        self._known += len(found)
        ended = []
        for task, code, said in found:
            if (order := self._orders.pop(task, None)) is not None:
                ended.append(Ended(task, code, _detail(said, order.environment)))
        return ended

    def cancel(self, task: str, /) -> None:
        if task in self._orders:
            with self._asked():
                self._send()
                self._ray.get(self._keeper.cancel.remote(task))

    def end(self) -> None:
        if self._ray is None:
            return
        try:
            if self._unsent and not self._is_ours:
                with self._asked():
                    self._send()
        finally:
            self._ray.shutdown()
            self._ray = self._keeper = None

    def _connect(self) -> None:
        if self._ray is not None:
            return
        # Ray would report its use to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            import ray
        except ImportError as error:
            raise FleetError(
                f"the engine ray cannot be loaded: {error}", "pip install 'git-agentos[fleet]' installs it"
            ) from error
        if self._address is not None:
            _require_answer(self._address)
        options: dict[str, Any] = {"namespace": _NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
        with _own_signals():
            try:
                ray.init(address=self._address or _AUTO, **options)
            except Exception as error:  # it raises what its layers raise: gRPC's, OSError, RuntimeError
                if self._address is not None or not isinstance(error, ConnectionError):
                    raise _out_of_reach(self._address, _first_line(error)) from error
                self._is_ours = True
                with _program_on_path():
                    ray.init(address=_HERE, include_dashboard=False, object_store_memory=_OBJECTS, **options)
        # It would print what nodes report, which may be the logs of one that was lost.
        with contextlib.suppress(AttributeError):
            ray._private.worker._worker_logs_enabled = False
        self._ray = ray

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """A cluster that does not answer is a FleetError."""
        try:
            yield
        except (self._ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
            raise FleetError(
                f"the Ray cluster does not answer: {_first_line(error)}",
                "what runs there goes on as long as the cluster does; submit again to wait for it",
            ) from error

    def _ask(self, patience: float) -> list[tuple[str, int | None, bytes]]:
        """The ends of workers since the last call. Where the keeper has died, another one starts what it had."""
        try:
            self._send()
            return self._ray.get(self._keeper.ended.remote(self._known, patience))  # type: ignore[no-any-return]
        except self._ray.exceptions.ActorDiedError:
            self._keeper = None
            self._unsent = list(self._orders.values())
            self._send()
            return []

    def _send(self) -> None:
        """Hand over what the keeper has not got."""
        is_new = self._keeper is None
        if is_new:
            self._keeper = self._find_keeper()
        if is_new or self._unsent:
            known = self._ray.get(self._keeper.add.remote([self._sent(each) for each in self._unsent]))
            self._unsent = []
            if is_new:
                self._known = known

    def _find_keeper(self) -> Any:
        """The keeper of the fleet: its name is what the commands of all its workers have in common."""
        from git_agentos.fleet.engines import ray_keeper
        from git_agentos.process import tied

        for module in (ray_keeper, tied):
            self._ray.cloudpickle.register_pickle_by_value(module)
        some = next(iter(self._orders.values()))
        place = len(some.argv) - 1 - some.argv[::-1].index(some.task)
        words = some.argv[:place] + some.argv[place + 1 :]
        return (
            self._ray.remote(ray_keeper.Keeper)
            .options(
                name=hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest(),
                get_if_exists=True,
                lifetime="detached",
                num_cpus=0,
                resources=_HEAD,
                max_concurrency=1000,
            )
            .remote(self._most)
        )

    def _sent(self, order: Order) -> tuple[str, tuple[str, ...], dict[str, str], dict[str, Any]]:
        options = _options(order) | {"max_retries": self._retries}
        return order.task, order.argv, dict(order.environment), options


def _options(order: Order) -> dict[str, Any]:
    """What a worker needs, as options of a Ray task."""
    options: dict[str, Any] = {"name": order.task, "num_cpus": 1 if order.cpus is None else order.cpus}
    if order.gpus is not None:
        options["num_gpus"] = order.gpus
    if order.memory is not None:
        options["memory"] = order.memory
    if order.labels:
        options["label_selector"] = dict(order.labels)
    return options


class _Node:
    """A node of the cluster, and what it has."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        resources = described["Resources"]
        self.has = {name: float(resources.get(key, 0)) for name, key in _RESOURCES.items()}
        self.labels: Mapping[str, str] = described.get("Labels") or {}

    def lacks(self, order: Order) -> bool:
        needs = {"cpus": order.cpus or 0, "gpus": order.gpus or 0, "memory": order.memory or 0}
        return any(self.has[name] < need for name, need in needs.items()) or any(
            self.labels.get(key) != value for key, value in order.labels.items()
        )


_RESOURCES = {"cpus": "CPU", "gpus": "GPU", "memory": "memory"}


def _check_room(order: Order, nodes: Sequence[_Node]) -> None:
    if not all(node.lacks(order) for node in nodes):
        return
    needs = [f"{name} = {value:g}" for name, value in (("cpus", order.cpus), ("gpus", order.gpus)) if value]
    needs += [f"memory = {order.memory} bytes"] if order.memory else []
    needs += [f"label {key}={value}" for key, value in order.labels.items()]
    most = {name: max((node.has[name] for node in nodes), default=0) for name in _RESOURCES}
    raise Unfit(
        order.task,
        f"no node of the Ray cluster has what the task '{order.task}' needs: {', '.join(needs) or 'a node'}",
        f"at most there are cpus = {most['cpus']:g}, gpus = {most['gpus']:g}, memory = {most['memory']:.0f} bytes "
        f"on one of its {len(nodes)} nodes",
    )


def _require_answer(address: str) -> None:
    """FleetError where nothing listens at an address: Ray would try it for minutes."""
    host, _, number = address.rpartition(":")
    if not number.isascii() or not number.isdigit() or "://" in address:
        raise UsageError(
            f"'{address}' is no address of a Ray cluster",
            "HOST:PORT, as 'ray start' says it; this machine must be one of the cluster's",
        )
    try:
        socket.create_connection((host.strip("[]"), int(number)), _PATIENCE).close()
    except OSError as error:
        raise _out_of_reach(address, system_reason(error)) from error


def _out_of_reach(address: str | None, why: str) -> FleetError:
    where = f" at '{address}'" if address else ""
    return FleetError(
        f"the Ray cluster{where} cannot be reached: {why}",
        "'ray status' on its head node says whether it is up; Ray and Python must have the versions that it has",
    )


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it begins: it is given back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _program_on_path() -> Iterator[None]:
    """Nodes that are started meanwhile find the `git-agentos` of this Python first."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), before))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _detail(said: bytes, environment: Mapping[str, str]) -> str | None:
    lines = redact_lines.clean_lines(said.splitlines(), redact_lines.secrets_of(environment))
    return next((os.fsdecode(line).strip() for line in reversed(lines) if line.strip()), None)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
