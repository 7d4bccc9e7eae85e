"""The interface in a browser: a server on loopback, a process of the interface for each page.

textual-serve has the page's program (a terminal in JavaScript) and the way in which it talks to a process of the
interface; the server is our own, because whoever can use it can do what its user can. So:

* Only who has the token is answered: 256 random bits, new for each server, in the URL that is printed and in no
  command line and no environment. The page gets what it needs from paths that begin with the token.
* The `Host` of a request has to be this server's address, so that no other site's name can be bound to it (DNS
  rebinding), and its `Origin`, if there is one, too. A websocket has to have one: browsers always send it.
* Whatever else is asked for gets 403 and nothing in it.
* A connection that has not shown the token is closed after some seconds, and there are never many of them: whoever
  opens more, closes the oldest. All users of the machine can connect to loopback.

The page asks no other host: it is our own (`page.html`, `page.js`), and its content security policy says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import html
import importlib.resources
import os
import re
import secrets
import signal
import socket
import string
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import WSMsgType, web

from git_agentos import config
from git_agentos.errors import UiError, UsageError, system_reason
from git_agentos.git.location import locate
from git_agentos.guard import operator
from git_agentos.ui.page_process import PageProcess
from git_agentos.util import quote

ADDRESS = "127.0.0.1"
DECIDING = "allowing decisions in the browser"
_TOKEN_BYTES = 32
_MOST_PORT = 65535
_MOST_PAGES = 16
_MOST_STRANGERS = 64  # connections that have not shown the token
_STRANGER = 10.0  # seconds that such a connection may last
_LONGEST_MESSAGE = 1 << 20
_PATIENCE = 5.0  # seconds
_SIGNALLED = 128
_OUR_ERROR = 500
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TRY_AGAIN = 1013  # codes of RFC 6455 and its registry
_GOING_AWAY = 1001
_SIZE = re.compile(r"width=(\d{1,4})&height=(\d{1,4})", re.ASCII)
# What the page needs of textual-serve, by the name under which it is asked for.
_FILES = {
    "textual.js": ("js/textual.js", "text/javascript"),
    "xterm.css": ("css/xterm.css", "text/css"),
    "mono.ttf": ("fonts/RobotoMono-VariableFont_wght.ttf", "font/ttf"),
    "mono-italic.ttf": ("fonts/RobotoMono-Italic-VariableFont_wght.ttf", "font/ttf"),
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src data:;"
        " connect-src 'self' ws://$host; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Server": "git-agentos",
}


def run(
    directory: str,
    agent: str | None,
    announce: Callable[[str], None],
    *,
    port: int = 0,
    allow_approvals: bool = False,
) -> int:
    """Serve the interface of the repository that `directory` is in, as `agent`, until a signal ends it; the exit code.

    `announce` is given the URL, once it is served. `port` 0 is any that is free. With `allow_approvals`, pages may
    decide for agents, as the person whose terminal this is: PolicyError unless it is one (or there is the key).
    UsageError for a number that is no port, UiError where it is taken, RepositoryError outside of a repository.
    """
    location = locate(directory or ".")
    terminal = None
    if allow_approvals and operator.require_operator(location, agent, DECIDING) == "terminal":
        terminal = os.dup(sys.stdin.fileno())  # their own stdin is what the page sends
    argv = [sys.executable, "-P", "-m", "git_agentos.ui.page_process", directory, *([] if agent is None else [agent])]
    env = {} if allow_approvals else {config.NO_DECISIONS: "1"}
    gc.enable()  # a command switches it off, since it ends soon
    sys.stdout = sys.stderr  # where textual-serve writes what a process has said
    with listen(port) as listener:
        title = quote.line(os.path.basename(location.root))
        return asyncio.run(Site(argv, env, title=title, terminal=terminal).serve(listener, announce))


def listen(port: int) -> socket.socket:
    """A socket that listens on loopback."""
    if not 0 <= port <= _MOST_PORT:
        raise UsageError(f"there is no port {port}", f"ports are numbers from 1 to {_MOST_PORT}, 0 is any that is free")
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        hint = "give another one with --port, or none"
        raise UiError(f"port {port} of {ADDRESS} cannot be used: {system_reason(error)}", hint) from error


class Site:
    """What is served: pages, of which each has a process `argv` with the variables `env` beside ours. `title` is that
    of the page, `terminal` a descriptor that the processes get as the terminal of a person."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], *, title: str = "", terminal: int | None = None):
        self._argv, self._env, self._terminal = tuple(argv), dict(env), terminal
        self._title = title
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._hosts: frozenset[str] = frozenset()
        self._pages: set[_Page] = set()
        files = importlib.resources.files("textual_serve") / "static"
        self._files = {name: (files.joinpath(path).read_bytes(), kind) for name, (path, kind) in _FILES.items()}
        own = importlib.resources.files("git_agentos.ui")
        self._template = string.Template(own.joinpath("page.html").read_text("utf-8"))
        self._files["page.js"] = (own.joinpath("page.js").read_bytes(), "text/javascript")

    async def serve(self, listener: socket.socket, announce: Callable[[str], None]) -> int:
        """Serve until a signal comes; the exit code."""
        port = listener.getsockname()[1]
        self._hosts = frozenset(f"{name}:{port}" for name in (ADDRESS, "localhost"))
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        for each in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, _end, ended, each)
        runner = web.ServerRunner(_Server(self._answer, lingering_time=0), shutdown_timeout=_PATIENCE)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            announce(f"http://{ADDRESS}:{port}/?token={self._token}")
            return _SIGNALLED + await ended
        finally:
            await asyncio.gather(*(page.end() for page in list(self._pages)))
            await runner.cleanup()

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request: the page, a file of it, its websocket; nothing without the token."""
        host = self._host(request)
        if host is None or request.method != "GET":
            return _forbidden()
        first, _, rest = request.raw_path.removeprefix("/").partition("/")
        if not rest and self._is_token(first.removeprefix("?token=")) and first.startswith("?"):
            _recognize(request)
            return _found(self._page(host), "text/html", host)
        if not self._is_token(first):
            return _forbidden()
        _recognize(request)
        name, _, query = rest.partition("?")
        if name == "ws":
            return await self._open_page(request, query)
        if rest in self._files:
            return _found(*self._files[rest], host)
        return _forbidden()

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token.encode())

    def _host(self, request: web.BaseRequest) -> str | None:
        """The name by which this server was asked; None where that is not one of its own, or another site asks."""
        hosts, origins = request.headers.getall("Host", []), request.headers.getall("Origin", [])
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return None
        if len(origins) > 1 or any(origin.removeprefix("http://") not in self._hosts for origin in origins):
            return None
        return hosts[0] if all(origin.startswith("http://") for origin in origins) else None

    def _page(self, host: str) -> bytes:
        return self._template.substitute(token=self._token, host=host, title=html.escape(self._title)).encode()

    async def _open_page(self, request: web.BaseRequest, query: str) -> web.StreamResponse:
        size = _SIZE.fullmatch(query)
        socket_ = web.WebSocketResponse(heartbeat=15, max_msg_size=_LONGEST_MESSAGE)
        if size is None or "Origin" not in request.headers or not socket_.can_prepare(request).ok:
            return _forbidden()
        await socket_.prepare(request)
        if len(self._pages) >= _MOST_PAGES:
            await socket_.close(code=_TRY_AGAIN, message=b"too many pages are open")
            return socket_
        process = PageProcess(self._argv, self._env, socket_, self._terminal)
        page = _Page(socket_, process)
        self._pages.add(page)
        try:
            await process.start(int(size[1]), int(size[2]))
            await page.pass_on()
        finally:
            self._pages.discard(page)
            await page.end()
        return socket_


class _Page:
    """An open page: its websocket, and its process."""

    def __init__(self, socket_: web.WebSocketResponse, process: PageProcess) -> None:
        self._socket, self._process = socket_, process

    async def pass_on(self) -> None:
        """Give the process what the page sends, until it is closed. A page that sends something else is closed."""
        async for message in self._socket:
            if message.type != WSMsgType.TEXT:
                return
            try:
                kind, *values = message.json()
                await self._take(kind, *values)
            except (ValueError, TypeError, KeyError):
                return

    async def _take(self, kind: str, value: Any = None) -> None:
        if kind == "stdin":
            await self._process.send_bytes(bytes(value, "utf-8", "replace"))
        elif kind == "resize":
            await self._process.set_terminal_size(int(value["width"]), int(value["height"]))
        elif kind == "ping":
            await self._socket.send_json(["pong", str(value)])
        elif kind in ("blur", "focus"):
            await self._process.send_meta({"type": kind})
        else:
            raise ValueError("this is no message")

    async def end(self) -> None:
        """End the process, and close the page."""
        await self._process.end()
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
            await self._socket.close(code=_GOING_AWAY)


class _Server(web.Server):
    """A server whose answer to what is no request is 403, too. `strangers` are the connections that have not shown the
    token, the oldest first."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], **options: Any) -> None:
        super().__init__(handler, **options)
        self.strangers: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.strangers[handler] = self._loop.call_later(_STRANGER, transport.abort)
        if len(self.strangers) > _MOST_STRANGERS:
            oldest = next(iter(self.strangers))
            self.recognize(oldest)
            self._connections[oldest].abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self.recognize(handler)
        super().connection_lost(handler, exc)

    def recognize(self, handler: web.RequestHandler) -> None:
        """A connection is no stranger's any more."""
        timer = self.strangers.pop(handler, None)
        if timer is not None:
            timer.cancel()


class _Connection(web.RequestHandler):
    def __init__(self, server: _Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server

    def recognize(self) -> None:
        """A request has shown the token."""
        self._server.recognize(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (aiohttp's)
    ) -> web.StreamResponse:
        if status == _OUR_ERROR:
            self.log_exception("a request could not be answered", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun")
        return _forbidden()


def _recognize(request: web.BaseRequest) -> None:
    """A request has shown the token."""
    if isinstance(request.protocol, _Connection):
        request.protocol.recognize()


def _end(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


def _found(body: bytes, kind: str, host: str) -> web.Response:
    headers = {name: value.replace("$host", host) for name, value in _HEADERS.items()}
    return web.Response(body=body, headers={**headers, "Content-Type": f"{kind}; charset=utf-8"})


def _forbidden() -> web.Response:
    answer = web.Response(status=403, headers={"Server": _HEADERS["Server"]})
    answer.force_close()
    return answer
