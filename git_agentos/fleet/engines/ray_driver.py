"""The process that talks to a Ray cluster for the engine `ray`: Ray is imported here, and in what is sent to the
cluster (`ray_keeper.py`), and nowhere else.

    python -m git_agentos.fleet.engines.ray_driver DESCRIPTOR

It reads (number, name of a method of `Driver`, arguments) from a pipe, and answers each with (number, name of an error
class or None, what was returned or the arguments of the error). It ends when the pipe is closed.

A cluster that is there (`ray start`) is used; where there is none, and no address was given, one is started on this
machine, and ended with this process.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection
from typing import Any

from git_agentos.errors import AgentosError, FleetError, UsageError, system_reason
from git_agentos.fleet.engines.port import Order, Unfit

_NAMESPACE = "git-agentos"
_HEAD = {"node:__internal_head__": 0.001}  # Ray's own resource: where it is lost, so is the cluster
_OBJECTS = 100 << 20  # bytes of memory that Ray may use for values: ours are small
_PATIENCE = 10.0  # seconds for an address to answer
_LONGEST = 400  # characters of what Ray says in an error
_DEATHS = 10  # how often the keeper may be lost with no end of a worker in between
_HERE = "local"


class Driver:
    """What is connected to the cluster, and to the keeper of the fleet's workers there."""

    def __init__(self) -> None:
        self._retries = 0
        self._most: int | None = None
        self._is_ours = False
        self._ray: Any = None  # the module
        self._keeper: Any = None
        self._known: int | None = None  # how many ends were seen of this keeper
        self._deaths = 0
        self._orders: dict[str, Order] = {}  # what runs
        self._unsent: list[Order] = []

    def load(self) -> None:
        """Import Ray."""
        # Ray would report its use to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            import ray
        except ImportError as error:
            raise FleetError(
                f"the engine ray cannot be loaded: {error}", "pip install 'git-agentos[fleet]' installs it"
            ) from error
        self._ray = ray

    def connect(self, address: str | None, retries: int, most: int | None) -> None:
        """Connect to the cluster, or start one; the arguments are those of `RayEngine`."""
        self._retries, self._most = retries, most
        options: dict[str, Any] = {"namespace": _NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            _require_answer(address)
        elif (address := self._find()) is None:
            self._is_ours = True
            self._begin(options)
            return
        try:
            self._ray.init(address=address, **options)
        except Exception as error:  # it raises what its layers raise: gRPC's, OSError, RuntimeError
            raise _out_of_reach(address, _said(error)) from error

    def _find(self) -> str | None:
        """The address of the cluster to which this machine belongs, by its processes; None where there are none. Ray's
        own choice would be the one that was started last, also where that is gone, and be looked for for an hour."""
        services = self._ray._private.services
        found = sorted(services.find_gcs_addresses())
        last = services.find_bootstrap_address(None)
        if len(found) > 1 and last not in found:
            raise UsageError(
                f"this machine belongs to {len(found)} Ray clusters: {', '.join(found)}",
                "--address says which is meant",
            )
        address = last if last in found else next(iter(found), None)
        if address is not None:
            try:
                _require_answer(address)
            except FleetError:  # some processes outlive their cluster for a while
                return None
        return address

    def _begin(self, options: Mapping[str, Any]) -> None:
        """Start a cluster on this machine."""
        try:
            # Ray would give workers what other programs of this machine leave: they are what it is for.
            os.environ.setdefault("RAY_worker_niceness", "0")
            with _program_on_path():
                self._ray.init(address=_HERE, include_dashboard=False, object_store_memory=_OBJECTS, **options)
        except Exception as error:  # as above
            raise FleetError(
                f"no Ray cluster can be started on this machine: {_said(error)}",
                "'ray start --head' may say more; --address uses one that is there",
            ) from error

    def check(self, orders: Sequence[Order]) -> None:
        """As `port.Engine.check`."""
        with self._asked():
            nodes = [_Node(each) for each in self._ray.nodes() if each["Alive"]]
        for order in orders:
            try:
                self._ray.remote(lambda: None).options(**_options(order))
            except (TypeError, ValueError) as error:
                raise Unfit(order.task, f"Ray cannot start the task '{order.task}': {_said(error)}") from error
            _check_room(order, nodes)

    def start(self, order: Order) -> None:
        """Start a worker, once `poll` or `end` is called: many at a time."""
        self._orders[order.task] = order
        self._unsent.append(order)

    def poll(self, patience: float) -> list[tuple[str, int | None, bytes]]:
        """The workers that have ended since the last call: task, exit code, the end of what each has said. Where there
        is none, one is waited for. Where the keeper has died, another one starts what it had."""
        errors = self._ray.exceptions
        try:
            with self._asked():
                self._send()
                ends = self._ray.get(self._keeper.ended.remote(self._known, patience))
        except FleetError as error:
            if not isinstance(error.__cause__, errors.RayActorError) or self._deaths >= _DEATHS:
                raise
            self._deaths += 1
            if not isinstance(error.__cause__, errors.ActorUnavailableError):
                self._keeper = self._known = None
                self._unsent = list(self._orders.values())
            time.sleep(patience)
            return []
        self._known = (self._known or 0) + len(ends)
        self._deaths = 0
        return [each for each in ends if self._orders.pop(each[0], None) is not None]

    def cancel(self, task: str) -> None:
        """As `port.Engine.cancel`."""
        if task in self._orders:
            # Where the keeper has died, so have its workers.
            with self._asked(), contextlib.suppress(self._ray.exceptions.RayActorError):
                self._send()
                self._ray.get(self._keeper.cancel.remote(task))

    def end(self) -> None:
        """As `port.Engine.end`: what was started and not sent is sent to a cluster that stays."""
        if self._ray is None:
            return
        try:
            if self._unsent and not self._is_ours:
                with self._asked():
                    self._send()
        finally:
            self._ray.shutdown()

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """A cluster that does not answer is a FleetError."""
        try:
            yield
        except (self._ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
            raise FleetError(
                f"the Ray cluster does not answer: {_said(error)}",
                "what runs there goes on as long as the cluster does; submit again to wait for it",
            ) from error

    def _send(self) -> None:
        """Hand over what the keeper has not got."""
        if self._keeper is None:
            self._keeper = self._find_keeper()
        if self._known is None or self._unsent:
            known = self._ray.get(self._keeper.add.remote([self._sent(each) for each in self._unsent]))
            self._unsent = []
            if self._known is None:
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
    except (OSError, OverflowError) as error:
        why = system_reason(error) if isinstance(error, OSError) else "there is no such port"
        raise _out_of_reach(address, why) from error


def _out_of_reach(address: str | None, why: str) -> FleetError:
    where = f" at '{address}'" if address else ""
    return FleetError(
        f"the Ray cluster{where} cannot be reached: {why}",
        "'ray status' on its head node says whether it is up; Ray, Python and the token must be those that it has",
    )


@contextlib.contextmanager
def _program_on_path() -> Iterator[None]:
    """Nodes that are started meanwhile find the `git-agentos` of this Python first."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), before))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _said(error: BaseException) -> str:
    """What Ray says, on one line: some of it needs several, as where versions differ."""
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__


def main(descriptor: int) -> None:
    """Answer what comes through the pipe, until it is closed."""
    os.set_inheritable(descriptor, False)
    pipe: connection.Connection = connection.Connection(descriptor)
    driver = Driver()
    with contextlib.suppress(EOFError, OSError):
        while True:
            number, method, arguments = pipe.recv()
            pipe.send((number, *_answer(driver, method, arguments)))


def _answer(driver: Driver, method: str, arguments: Sequence[Any]) -> tuple[str | None, Any]:
    try:
        return None, getattr(driver, method)(*arguments)
    except Unfit as error:
        return Unfit.__name__, (error.task, error.message, error.hint)
    except AgentosError as error:
        kind = UsageError if isinstance(error, UsageError) else FleetError
        return kind.__name__, (error.message, error.hint)
    except Exception as error:  # noqa: BLE001  (Ray raises what its layers raise; the process above says it)
        return FleetError.__name__, (f"Ray has failed: {_said(error)}",)


if __name__ == "__main__":
    main(int(sys.argv[1]))
