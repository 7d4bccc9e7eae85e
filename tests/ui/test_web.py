"""The interface in a browser: who gets an answer, what a page may do, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from git_agentos import config
from git_agentos.guard.approval import approvals
from git_agentos.guard.approval.approvals import ApprovalRequest
from git_agentos.process import table
from git_agentos.ui import page_process, web
from tests.support import browser
from tests.support.confirming import confirm
from tests.support.repo import Repo, filled
from tests.support.tool import run, run_ok
from tests.support.waiting import PATIENCE, wait_until

_FILES = ("textual.js", "xterm.css", "mono.ttf", "mono-italic.ttf", "page.js")


class Served:
    """A server, as it was started by a command."""

    def __init__(self, folder: Path, *args: str, stdin: int = subprocess.DEVNULL, env: Mapping[str, str] | None = None):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "git_agentos", "ui", "--web", *args],
            cwd=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the URL is printed"
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url.startswith("http://"), self.process.communicate()
        parts = urlsplit(self.url)
        self.port = int(parts.port or 0)
        self.token = parts.query.removeprefix("token=")
        self.origin = f"http://127.0.0.1:{self.port}"

    @property
    def pages(self) -> list[int]:
        """The processes of its pages."""
        return [pid for pid in table.pids() if self.process.pid in table.parents(pid)]

    @property
    def interfaces(self) -> list[int]:
        """Those of them that are a page's interface, and no command of it. One that is about to be started has the
        interface's words, too."""
        found = [pid for pid in self.pages if "git_agentos.ui.page_process" in table.argv(pid)]
        return [pid for pid in found if not set(found) & set(table.parents(pid))]

    def end(self) -> tuple[bytes, bytes]:
        """What else it has written."""
        self.process.kill()
        return self.process.communicate()


@pytest.fixture(scope="module")
def repo_of_agents(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    made = filled(tmp_path_factory.mktemp("web") / "repo")
    run_ok(made.path, "worktree", "create", "dev-001", "--no-guard")
    return made


@pytest.fixture(scope="module")
def served(repo_of_agents: Repo) -> Iterator[Served]:
    """A server for tests that only ask it: those that end it have one of their own (`another`)."""
    started = Served(repo_of_agents.path)
    yield started
    started.end()


@pytest.fixture
def another(repo_of_agents: Repo) -> Iterator[Served]:
    started = Served(repo_of_agents.path)
    yield started
    started.end()


def ask(served: Served, target: str, *headers: str, method: str = "GET", host: str | None = None) -> tuple[int, bytes]:
    """Send a request as it is, without a library that would make it a better one; status and all that came. Status 0:
    nothing."""
    lines = [f"{method} {target} HTTP/1.1"]
    if host != "":
        lines.append(f"Host: {host or f'127.0.0.1:{served.port}'}")
    text = "\r\n".join([*lines, *headers, "Connection: close", "", ""])
    return send(served, text.encode("latin-1"))


def send(served: Served, data: bytes, *, ends: bool = False) -> tuple[int, bytes]:
    """Send bytes and read until the server closes the connection; with `ends`, nothing follows them."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        came = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(1 << 16):
                came += part
    return (int(came.split(b" ", 2)[1]) if came else 0), came


def refused(answer: tuple[int, bytes]) -> bool:
    """Whether the answer is 403 with nothing in it, or nothing."""
    status, came = answer
    return status == 0 or (status == 403 and came.endswith(b"\r\n\r\n"))


# -- who gets an answer ------------------------------------------------------------------------------------------------


def test_one_line_is_printed_and_the_token_is_nowhere_else(another: Served) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[A-Za-z0-9_-]{43}", another.url)  # 256 bits
    assert ask(another, f"/?token={another.token}")[0] == 200
    asyncio.run(_open_one(another))
    for pid in (another.process.pid, *another.pages):
        words, variables = table.argv(pid), table.environment(pid) or {}
        assert not any(another.token in each for each in (*words, *variables.values()))
    another.process.terminate()
    out, err = another.process.communicate()
    assert (out, err) == (b"", b"")


async def _open_one(served: Served) -> None:
    async with page(served) as found:
        await found.until(b"dev-001")


def test_two_servers_have_two_tokens(served: Served, repo_of_agents: Repo) -> None:
    other = Served(repo_of_agents.path)
    try:
        assert other.token != served.token and other.port != served.port
        assert refused(ask(served, f"/?token={other.token}"))
        assert refused(ask(other, f"/{served.token}/textual.js"))
    finally:
        other.end()


def test_with_the_token_the_page_and_its_files(served: Served) -> None:
    for host in ("127.0.0.1", "localhost"):
        for headers in ((), (f"Origin: http://{host}:{served.port}",)):
            status, came = ask(served, f"/?token={served.token}", *headers, host=f"{host}:{served.port}")
            assert status == 200
            assert f"ws://{host}:{served.port}/{served.token}/ws".encode() in came
            for name in _FILES:
                assert ask(served, f"/{served.token}/{name}", *headers, host=f"{host}:{served.port}")[0] == 200


@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "X"]
)
def test_nothing_without_the_token(served: Served, method: str) -> None:
    """Neither what is there nor what is not: all of it is answered alike."""
    wrong = served.token[:-1] + ("A" if served.token[-1] != "A" else "B")
    targets = [
        "/", "/?token=", f"/?token={wrong}", f"/?token={served.token.lower()}", f"/?Token={served.token}", "/ws",
        f"/{wrong}/ws?width=80&height=24", "/ws?width=80&height=24", "/static", "/static/", "/static/js/textual.js",
        "/textual.js", f"/{wrong}/textual.js", f"//{wrong}/textual.js", "/favicon.ico", "/robots.txt", "/download/x",
        "/static/../static/js/textual.js", "/%2e%2e/%2e%2e/etc/passwd", "/../../etc/passwd", "*", "/index.html",
    ]  # fmt: skip
    for target in targets:
        assert refused(ask(served, target, method=method)), target


def test_other_methods_are_refused_with_the_token_too(served: Served) -> None:
    for method in ("HEAD", "POST", "OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "get"):
        for target in (f"/?token={served.token}", f"/{served.token}/textual.js"):
            assert refused(ask(served, target, method=method)), (method, target)


def test_only_these_paths(served: Served) -> None:
    token = served.token
    coded = "".join(f"%{ord(each):02x}" for each in token)
    for target in (
        f"/?token={token}&ping=http://example.com/", f"/?delay=1&token={token}", f"/?token={token}&token={token}",
        f"/?token={coded}", f"/x?token={token}", f"/{token}", f"/{token}/", f"/{token}?token={token}",
        f"/{token}/ws",
        f"/{token}/ws?width=80&height=24", f"/{token}/ws?height=24&width=80", f"/{token}/../{token}/xterm.css",
        f"/{token}/./xterm.css", f"/{token}/%78term.css", f"/{token}//xterm.css", f"/{token}/xterm.css?x",
        f"/{token}/../../../../etc/passwd", f"/{token}/..%2f..%2fetc/passwd", f"/{token}/static/js/textual.js",
        f"/{token}/page.html", f"/{token}/web.py", f"/{coded}/xterm.css", f"/{token}/xterm.css\\..\\x",
        f"http://127.0.0.1:{served.port}/?token={token}", f"http://evil.example/?token={token}",
    ):  # fmt: skip
        assert refused(ask(served, target)), target


def test_the_host_has_to_be_its_own(served: Served) -> None:
    """A name of another site can be bound to this address."""
    port = served.port
    for host in (
        "evil.example", f"evil.example:{port}", "127.0.0.1", "localhost", f"127.0.0.1:{port + 1}", f"127.0.0.2:{port}",
        f"[::1]:{port}", f"localhost.:{port}", f"127.0.0.1:{port}@evil.example", f"127.0.0.1:{port}.evil.example",
        f"LOCALHOST.evil:{port}", f"0.0.0.0:{port}", f"127.1:{port}", f"127.0.0.1:0{port}", "",
    ):  # fmt: skip
        for target in (
            f"/?token={served.token}",
            f"/{served.token}/textual.js",
            f"/{served.token}/ws?width=80&height=24",
        ):
            assert refused(ask(served, target, f"Origin: http://127.0.0.1:{port}", host=host)), host
    two = f"127.0.0.1:{port}"
    assert refused(ask(served, f"/?token={served.token}", "Host: evil.example", host=two))


def test_another_origin_gets_nothing(served: Served) -> None:
    port = served.port
    for origin in (
        "http://evil.example", "null", "", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}",
        "http://127.0.0.1", f"http://127.0.0.1:{port}.evil.example", f"127.0.0.1:{port}", "file://",
        f"http://127.0.0.1:{port}/", f"HTTP://127.0.0.1:{port}",
    ):  # fmt: skip
        for target in (f"/?token={served.token}", f"/{served.token}/textual.js"):
            assert refused(ask(served, target, f"Origin: {origin}")), origin
    own = f"Origin: http://127.0.0.1:{port}"
    assert refused(ask(served, f"/?token={served.token}", own, "Origin: http://evil.example"))


_UPGRADE = (
    "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip


def _shake(
    served: Served, *headers: str, token: str | None = None, query: str = "width=80&height=24"
) -> tuple[int, bytes]:
    lines = [f"GET /{token or served.token}/ws?{query} HTTP/1.1", f"Host: 127.0.0.1:{served.port}", *_UPGRADE, *headers]
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        came = connection.recv(1 << 16)
        if came.startswith(b"HTTP/1.1 101"):
            wait_until(lambda: served.pages, "its process begins")
    return (int(came.split(b" ", 2)[1]) if came else 0), came


def test_a_websocket_has_to_come_from_the_page(served: Served) -> None:
    own = f"Origin: {served.origin}"
    for headers in ((), ("Origin: http://evil.example",), ("Origin: null",), (own, "Origin: http://evil.example")):
        assert refused(_shake(served, *headers)), headers
    assert refused(_shake(served, own, token="A" * 43))
    for query in ("", "width=80", "width=80&height=x", "width=80&height=99999", "width=80&height=24&token=x"):
        assert refused(_shake(served, own, query=query)), query
    assert served.pages == []
    assert _shake(served, own)[0] == 101
    wait_until(lambda: not served.pages, "its process ends with the connection")


@pytest.mark.parametrize(
    "data",
    [
        b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n y\r\n\r\n", b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request(served: Served, data: bytes) -> None:
    answer = send(served, data)
    assert answer[0] in (0, 403) and refused(answer), answer
    assert refused(send(served, data[:20], ends=True))
    assert ask(served, f"/?token={served.token}")[0] == 200


def test_no_other_address(served: Served) -> None:
    for address in ("127.0.0.2", "::1"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as connection, pytest.raises(OSError):
            connection.connect((address, served.port))


def test_headers_of_the_page(served: Served) -> None:
    head = ask(served, f"/?token={served.token}")[1].partition(b"\r\n\r\n")[0].decode()
    assert "Content-Security-Policy: default-src 'none'; script-src 'self';" in head
    assert f"connect-src 'self' ws://127.0.0.1:{served.port};" in head
    for each in ("Referrer-Policy: no-referrer", "X-Frame-Options: DENY", "Cache-Control: no-store", "nosniff"):
        assert each in head
    assert "Access-Control" not in head


# -- starting and ending -----------------------------------------------------------------------------------------------


def test_a_port_that_is_taken(served: Served, repo_of_agents: Repo) -> None:
    done = run(repo_of_agents.path, "ui", "--web", "--port", str(served.port))
    assert (done.code, done.out) == (1, b"")
    assert f"error: port {served.port} of 127.0.0.1 cannot be used: address already in use".encode() in done.err
    for port in ("65536", "-1", "x"):
        assert run(repo_of_agents.path, "ui", "--web", "--port", port).code == 2
    assert run(repo_of_agents.path, "ui", "--port", "8000").code == 2
    assert run(repo_of_agents.path, "ui", "--allow-approvals").code == 2


def test_a_port_that_is_given(another: Served, repo_of_agents: Repo) -> None:
    port = another.port
    another.end()
    again = Served(repo_of_agents.path, "--port", str(port))
    assert again.port == port
    again.end()


def test_outside_of_a_repository(tmp_path: Path) -> None:
    done = run(tmp_path, "ui", "--web")
    assert (done.code, done.out) == (1, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_every_process(another: Served, number: signal.Signals) -> None:
    async def opened() -> list[int]:
        async with page(another) as one, page(another) as two:
            await one.until(b"dev-001")
            await two.until(b"dev-001")
            pids, interfaces = another.pages, another.interfaces
            another.process.send_signal(number)
            await asyncio.to_thread(another.process.wait, PATIENCE)
            if number != signal.SIGKILL:
                assert not any(table.is_alive(pid) for pid in interfaces), "it has waited for their end"
            assert len(interfaces) == 2
            return pids

    pids = asyncio.run(opened())
    assert another.process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: not any(table.is_alive(pid) for pid in pids), "the pages' processes end")


def test_a_process_that_does_not_listen_is_killed(another: Served) -> None:
    async def opened() -> list[int]:
        async with page(another) as one:
            await one.until(b"dev-001")
            pids = another.pages
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # a git that it has just called ends by itself
                    os.kill(pid, signal.SIGSTOP)
            another.process.terminate()
            await asyncio.to_thread(another.process.wait, PATIENCE)
            return pids

    pids = asyncio.run(opened())
    wait_until(lambda: not any(table.is_alive(pid) for pid in pids), "the pages' processes end")


# -- a page ------------------------------------------------------------------------------------------------------------


class Page:
    """A websocket, and what has come by it."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self.connection = connection
        self.came = b""

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while text not in self.came:
                message = await self.connection.receive()
                assert message.type == aiohttp.WSMsgType.BINARY, (message, self.came[-500:])
                self.came += message.data

    async def type(self, keys: str) -> None:
        await self.connection.send_str(json.dumps(["stdin", keys]))

    async def closed(self) -> int | None:
        async with asyncio.timeout(PATIENCE):
            async for _ in self.connection:
                pass
        return self.connection.close_code


def page(served: Served) -> contextlib.AbstractAsyncContextManager[Page]:
    return _page(served.origin, served.token)


@contextlib.asynccontextmanager
async def _page(origin: str, token: str) -> AsyncIterator[Page]:
    async with aiohttp.ClientSession() as session:
        url = f"{origin}/{token}/ws?width=100&height=30"
        async with session.ws_connect(url, headers={"Origin": origin}) as connection:
            yield Page(connection)


def test_keys_are_typed_and_q_ends_it(served: Served) -> None:
    async def go() -> None:
        async with page(served) as found:
            await found.until(b"dev-001")
            await found.type("?")
            await found.until(b"escape")
            found.came = b""
            await found.type("\x1b")
            await found.until(b"dev-001")  # an escape and a key at once would be another key
            await found.type("q")
            assert await found.closed() == 1000

    asyncio.run(go())
    wait_until(lambda: not served.pages, "its process ends")
    assert served.process.poll() is None
    asyncio.run(go())


NewPage = Callable[[], contextlib.AbstractAsyncContextManager[Page]]


@contextlib.asynccontextmanager
async def _small_pages() -> AsyncIterator[NewPage]:
    async with _small_site() as (_, new_page):
        yield new_page


@contextlib.asynccontextmanager
async def _small_site() -> AsyncIterator[tuple[tuple[str, int], NewPage]]:
    """A server in this process, whose pages have small processes that end when they are told something. It is ended by
    a signal, and none of them is left then. Its address, and what opens a page."""
    announced: asyncio.Queue[str] = asyncio.Queue()
    before = _children()
    with web.listen(0) as listener:
        serving = asyncio.create_task(web.Site(["head", "-c", "1"], {}).serve(listener, announced.put_nowait))
        parts = urlsplit(await announced.get())
        token = parts.query.removeprefix("token=")
        yield (str(parts.hostname), int(parts.port or 0)), lambda: _page(f"http://{parts.netloc}", token)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await serving == 128 + signal.SIGTERM
        assert _children() == before


@pytest.mark.parametrize(
    "text",
    ["x", "[]", "{}", "1", '["resize", {"width": "x"}]', '["resize"]', '["stdin"]', '["stdin", 1]', "[[]]", '["x", 1]'],
)
def test_a_page_that_sends_something_else_is_closed(text: str) -> None:
    async def go() -> None:
        before = _children()
        async with _small_pages() as new_page, new_page() as found:
            await found.connection.send_str(text)
            await found.closed()
            while _children() != before:
                await asyncio.sleep(0.02)

    asyncio.run(go())


def test_pages_have_processes_of_their_own_up_to_a_limit() -> None:
    async def go() -> None:
        before = _children()
        async with _small_pages() as new_page, contextlib.AsyncExitStack() as stack:
            for number in range(16):
                await stack.enter_async_context(new_page())
                while len(_children() - before) <= number:
                    await asyncio.sleep(0.02)
            async with new_page() as more:
                assert await more.closed() == 1013
            assert len(_children() - before) == 16

    asyncio.run(go())


def test_whoever_does_not_show_the_token_uses_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that say nothing, or half of something: the oldest make room for the next, and those that have shown
    the token stay."""
    monkeypatch.setattr(web, "_STRANGER", 1e6)

    async def go() -> None:
        async with _small_site() as (address, new_page), contextlib.AsyncExitStack() as stack, new_page() as found:
            strangers = []
            for number in range(3 * web._MOST_STRANGERS):
                reader, writer = await asyncio.open_connection(*address)
                stack.callback(writer.close)
                writer.write(b"GET / HTTP/1.1\r\n" if number % 2 else b"")
                strangers.append(reader)
            async with asyncio.timeout(PATIENCE):
                for reader in strangers[: -web._MOST_STRANGERS]:
                    assert await _rest(reader) == b""
            assert not any(reader.at_eof() for reader in strangers[-web._MOST_STRANGERS :])
            async with new_page() as another:  # there is room for it
                await another.type("x")
                await another.closed()
            assert not found.connection.closed

    asyncio.run(go())


def test_who_does_not_show_the_token_has_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_STRANGER", 0.0)

    async def go() -> None:
        async with _small_site() as (address, _):
            for said in (b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9"):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(said)
                async with asyncio.timeout(PATIENCE):
                    assert await _rest(reader) == b""
                writer.close()

    asyncio.run(go())


def test_who_has_shown_the_token_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a stranger is over only after its first request has been answered."""
    timers: list[asyncio.TimerHandle] = []
    recognize = web._Server.recognize

    def noted(server: web._Server, handler: aiohttp.web.RequestHandler) -> None:
        timers.extend([server.strangers[handler]] if handler in server.strangers else [])
        recognize(server, handler)

    monkeypatch.setattr(web._Server, "recognize", noted)

    async def go() -> None:
        async with _small_site() as (_, new_page), new_page() as found:
            await asyncio.sleep(0)
            assert [timer.cancelled() for timer in timers] == [True]
            assert not found.connection.closed

    asyncio.run(go())


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What still comes until the server closes the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def _children() -> set[int]:
    return {pid for pid in table.pids() if table.parents(pid)[:1] == [os.getpid()]}


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_approvals_are_allowed_by_a_person_alone(repo_of_agents: Repo, tmp_path: Path) -> None:
    for env in ({}, {"AGENTOS_AGENT_ID": "dev-001"}):
        done = run(repo_of_agents.path, "ui", "--web", "--allow-approvals", env=env)
        assert (done.code, done.out) == (3, b"")
    dev = repo_of_agents.path.parent / "repo.worktrees" / "dev-001"
    done = run(dev, "ui", "--web", "--allow-approvals", env=_key(repo_of_agents, tmp_path))
    assert done.code == 3
    assert b"error: allowing decisions in the browser is not for agents" in done.err
    assert run_ok(repo_of_agents.path, "approvals", "list")["approvals"] == [], "nobody could grant it"


def _key(repo: Repo, folder: Path) -> dict[str, str]:
    """Variables by which git has a key for scripts, which a person has confirmed."""
    (folder / "key").write_text("secret\n")
    configuration = folder / "gitconfig"
    configuration.write_text(f"[agentos]\n\tapprovalKey = {folder / 'key'}\n")
    variables = {"GIT_CONFIG_GLOBAL": str(configuration)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
        confirm(repo.path)
    return variables


def _variables_of_a_page(started: Served) -> dict[str, str]:
    async def go() -> dict[str, str]:
        async with page(started) as found:
            await found.until(b"dev-001")
            own = started.interfaces
            found_ = dict(table.environment(own[0]) or {})
            if page_process.TERMINAL in found_:
                found_["at"] = os.readlink(f"/proc/{own[0]}/fd/{found_[page_process.TERMINAL]}")
            return found_

    return asyncio.run(go())


def test_nothing_is_decided_in_a_browser_unless_that_is_allowed(
    another: Served, repo_of_agents: Repo, tmp_path: Path
) -> None:
    """With the key neither, which any process of the user could use otherwise."""
    found = _variables_of_a_page(another)
    assert found[config.NO_DECISIONS] and page_process.TERMINAL not in found
    id_, key = _request(repo_of_agents), _key(repo_of_agents, tmp_path)
    words = ("approvals", "grant", id_)
    refused_ = run(repo_of_agents.path, *words, env={**key, config.NO_DECISIONS: "1"})
    assert refused_.code == 3
    assert b"is not allowed in this browser" in refused_.err
    assert _decision(repo_of_agents, id_) == ("pending", None)
    assert run(repo_of_agents.path, *words, env=key).code == 0
    assert _decision(repo_of_agents, id_) == ("granted", "key")


def _request(repo: Repo) -> str:
    """The id of a request of `dev-001` for a merge."""
    where = str(repo.path.parent / "repo.worktrees" / "dev-001")
    argv = ("git", "merge", "other")
    digest = approvals.command_digest(argv)
    request = ApprovalRequest("merge", ("merge",), argv, digest, where, where, None, None, "dev-001", "because")
    return approvals.file_request(approvals.open_store(str(repo.git_dir), os.environ), request).id


def _decision(repo: Repo, id_: str) -> tuple[str, str | None]:
    found = run_ok(repo.path, "approvals", "show", id_)
    return found["state"], found["decided_by"]


@contextlib.contextmanager
def _at_a_terminal(repo: Repo, *args: str) -> Iterator[tuple[Served, str]]:
    """A server that a person has started at a terminal, and the terminal's name."""
    ours, theirs = os.openpty()
    started = Served(repo.path, *args, stdin=theirs)
    try:
        yield started, os.ttyname(theirs)
    finally:
        started.end()
        os.close(ours)
        os.close(theirs)


async def _grant(started: Served, id_: str, answer: bytes) -> None:
    """Grant a request by the keys that a person types, until the page says so."""
    async with page(started) as found:
        await found.until(b"dev-001")
        await found.type("5")
        await found.until(id_[:8].encode())
        await found.type("g")
        await found.until(b"Allow this once")
        await found.type("y")
        await found.until(answer)


def test_a_grant_in_a_page_is_refused(repo: Repo) -> None:
    """Also if the server was started at a terminal."""
    run_ok(repo.path, "worktree", "create", "dev-001", "--no-guard")
    id_ = _request(repo)
    with _at_a_terminal(repo) as (started, _):
        asyncio.run(_grant(started, id_, b"not allowed"))
        assert _decision(repo, id_) == ("pending", None)


def test_a_grant_in_a_page_is_that_of_the_terminal(repo: Repo) -> None:
    run_ok(repo.path, "worktree", "create", "dev-001", "--no-guard")
    id_ = _request(repo)
    with _at_a_terminal(repo, "--allow-approvals") as (started, terminal):
        found = _variables_of_a_page(started)
        assert config.NO_DECISIONS not in found
        assert found["at"] == terminal
        asyncio.run(_grant(started, id_, b"granted"))
        assert _decision(repo, id_) == ("granted", "terminal")


# -- in a browser ------------------------------------------------------------------------------------------------------


def test_in_a_browser(repo: Repo, tmp_path: Path) -> None:
    run_ok(repo.path, "worktree", "create", "dev-001", "--no-guard")
    id_ = _request(repo)

    async def go(served: Served) -> None:
        async with browser.browser(tmp_path / "profile") as tab:
            await tab.open(served.url)
            await tab.until("dev-001")
            agents = await tab.drawn(tmp_path / "agents.png")
            await tab.press("?")
            await tab.until("escape")
            assert await tab.drawn(tmp_path / "help.png") != agents
            await tab.press("Escape")
            await tab.until("dev-001")
            await tab.press("5")
            await tab.until(id_[:8])
            await tab.press("g")
            await tab.until("Allow this once")
            await tab.press("y")
            await tab.until("granted")
            await tab.press("q")
            async with asyncio.timeout(PATIENCE):
                while not await tab.evaluate("document.body.classList.contains('-closed')"):
                    await asyncio.sleep(0.05)
            assert await tab.evaluate("getComputedStyle(document.querySelector('#ended')).display") == "flex"
            own = (f"http://127.0.0.1:{served.port}/", f"ws://127.0.0.1:{served.port}/", "data:,")
            assert [url for url in tab.asked if not url.startswith(own)] == []
            assert [each for each in tab.errors if "WebGL" not in each] == []

    with _at_a_terminal(repo, "--allow-approvals") as (served, _):
        asyncio.run(go(served))
    assert _decision(repo, id_) == ("granted", "terminal")
