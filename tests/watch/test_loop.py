"""The parts of the daemon that count time or work, without a daemon: what is done when, and how much at a time."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from git_agentos import __version__
from git_agentos.git.location import Location, locate
from git_agentos.watch import automatic, periodic, place, protocol
from git_agentos.watch.daemon import Daemon, Log
from git_agentos.watch.periodic import Periodic
from git_agentos.watch.server import Request, Server
from tests.support.repo import Repo
from tests.support.waiting import wait_until
from tests.support.watch import service as make_service
from tests.support.watch import watching

# -- server ------------------------------------------------------------------------------------------------------------


class _Source:
    """What the loop waits for; `reads` counts. It is readable while something is in the pipe."""

    def __init__(self) -> None:
        self.reads = 0
        self._readable, self.pipe = os.pipe()

    def fileno(self) -> int:
        return self._readable

    def read(self) -> int:
        self.reads += 1
        return 1

    def close(self) -> None:
        os.close(self._readable)
        os.close(self.pipe)


def test_events_are_read_before_each_answer(tmp_path: Path) -> None:
    """Also where the loop has seen the request only. Asking and events count as work, connecting does not."""
    source = _Source()
    reads: list[int] = []

    def answer(request: Request) -> bytes:
        reads.append(source.reads)
        return protocol.accept(__version__, request.name.encode())

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "sock"))
    listener.listen()
    server = Server(listener, source, answer)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "sock"))
        server.last_asked = server.last_event = 0.0
        server.turn(10)
        assert (reads, server.last_asked, server.last_event) == ([], 0.0, 0.0)
        client.sendall(protocol.request(__version__, "changes", b"x"))
        server.turn(10)
        assert client.recv(1000) == protocol.accept(__version__, b"changes")
    assert reads == [1]
    assert server.last_asked > 0 and server.last_event == 0
    os.write(source.pipe, b"x")
    server.turn(10)
    assert source.reads == 2 and server.last_event > 0
    server.close()
    source.close()


def test_an_error_in_a_request_is_said_and_logged(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a client sends, others are served."""

    def fail(_: Request) -> str:
        raise ValueError("broken")

    service = make_service(b"\7" * 32, lambda _: 0)
    monkeypatch.setattr(service, "serve", fail)
    ours, other = socket.socketpair()
    with watching(repo.path) as watch, ours, other:
        log = Log(str(repo.path / "log"))
        daemon = Daemon(locate(str(repo.path)), watch.repository, service, __version__, log)
        request = Request(__version__, "run", [], ours, 0.0)
        assert daemon.answer(request) == protocol.decline(__version__, "it has failed")
        assert daemon.answer(request._replace(name="watch", arguments=[b"/"])) == protocol.decline(
            __version__, "it is no worktree of this repository"
        )
    assert repo.read("log").endswith(b" run: ValueError: broken\n")


# -- checkpoints by itself ---------------------------------------------------------------------------------------------


class _Orders:
    """A service that notes what it is to do, and when; `fail` is told to the newest."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self.given: list[float] = []
        self.fail: Callable[[str], None] = print

    def start(self, argv: Sequence[str], failed: Callable[[str], None]) -> bool:
        self.given.append(self._clock.now)
        self.fail = failed
        return True

    def saved(self, worktrees: Sequence[Location]) -> Sequence[Location]:
        return worktrees


class _Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_when_checkpoints_are_created(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds after the last change, at the latest after `agentos.auto.periodic`, and a minute after a failure."""
    repo.config("agentos.auto.periodic", "10s")
    clock = _Clock()
    orders = _Orders(clock)
    monkeypatch.setattr(periodic, "time", clock)
    said: list[str] = []
    with watching(repo.path) as watch:
        made = Periodic(locate(str(repo.path)), watch.repository, orders, said.append)  # type: ignore[arg-type]

        def pass_(seconds: int, write: bool = False) -> list[float]:
            """The orders of so many seconds, in seconds of them."""
            begin, before = clock.now, len(orders.given)
            for number in range(seconds * 10):
                clock.now = begin + number / 10
                if write:
                    repo.write("f", f"{clock.now}\n")
                watch.repository.read()
                made.turn()
            clock.now = begin + seconds
            return [round(each - begin) for each in orders.given[before:]]

        assert pass_(20) == [2]  # the first one, of what was there
        assert pass_(1, write=True) == []
        assert pass_(20) == [2]
        assert pass_(25, write=True) == [10, 20]
        assert pass_(20) == [2]
        orders.fail("the disk is full")
        assert pass_(59) == []
        assert pass_(20) == [1]
        assert said == [f"no checkpoint of {repo.path}: the disk is full"]
        watch.worktree.end("it cannot be watched")  # so it may be changing all the time
        assert pass_(35) == [10, 20, 30]


def test_so_many_commands_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of which has a child, until its client is gone."""
    monkeypatch.setattr("git_agentos.watch.service._PATIENCE", 60.0)
    monkeypatch.setattr("git_agentos.watch.service._MOST", 3)
    service = make_service(b"\7" * 32, lambda _: 0)
    arguments = [b"x", b"2", b"git-agentos", b"status"]
    pairs = [socket.socketpair() for _ in range(4)]

    def serve(connection: socket.socket) -> str:
        since = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        return service.serve(Request(__version__, "run", arguments, connection, since))

    assert [serve(ours) for ours, _ in pairs] == ["", "", "", "it has too much to do"]
    pairs[0][1].shutdown(socket.SHUT_RDWR)
    wait_until(lambda: serve(pairs[3][0]) == "", "one has ended, and there is room for another")
    assert service.served == 4
    for each in pairs:
        each[1].shutdown(socket.SHUT_RDWR)
    wait_until(lambda: not service.is_busy, "they have ended")
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_two_checkpoints_of_its_own_at_a_time(tmp_path: Path) -> None:
    go = tmp_path / "go"

    def work(_: Sequence[str]) -> int:
        wait_until(go.exists, "it may end")
        return 1

    service = make_service(None, work)
    failed: list[str] = []
    assert [service.start(("checkpoint",), failed.append) for _ in range(3)] == [True, True, False]
    assert service.is_busy
    go.touch()
    wait_until(lambda: not service.is_busy, "they are done")
    assert failed == ["exit code 1"] * 2
    assert service.start(("checkpoint",), failed.append)
    wait_until(lambda: not service.is_busy, "it is done")


# -- started by itself -------------------------------------------------------------------------------------------------


def test_many_commands_start_one(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has begun a moment ago may not serve yet. `watch start` and a day without crashes begin anew."""
    location = locate(str(repo.path))
    started: list[float] = []
    now = int(time.time()) + 0.9
    monkeypatch.setattr("git_agentos.process.programs.start_in_background", lambda *_, **__: started.append(now))
    monkeypatch.setattr(time, "time", lambda: now)

    def keep(times: int = 1) -> list[str | None]:
        return [automatic.keep_running(location, {"agentos.watch": ["true"]}, {}) for _ in range(times)]

    assert keep(5) == [None] * 5
    assert len(started) == 1
    for number in (2, 3):
        now += 11
        assert keep(2) == [None] * 2
        assert len(started) == number
    now += 11
    said = "the watch daemon has ended 3 times within ten minutes, and is not started again"
    assert keep(2) == [said, None]
    assert automatic.has_given_up(location.common_dir)
    automatic.want(location)
    assert not automatic.has_given_up(location.common_dir)
    assert keep(2) == [None] * 2
    assert len(started) == 4
    now -= 86400  # the clock is set back
    assert keep(2) == [None] * 2
    assert len(started) == 5
    assert os.path.exists(place.file(location.common_dir, "starts"))
