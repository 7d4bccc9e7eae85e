"""The SDK's client, connected with a server that is a real process, for tests that are not asynchronous."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent, Tool

SERVER = (sys.executable, "-P", "-m", "git_agentos")


class Reply(NamedTuple):
    """What a tool returned: its text, and what it has as structured content (None of an error)."""

    is_error: bool
    text: str
    structured: Any

    @property
    def document(self) -> Any:
        """The document of a call that succeeded: the text, of which the structured content is a copy."""
        assert not self.is_error, self.text
        assert self.text.isascii()
        return json.loads(self.text)

    @property
    def error(self) -> Any:
        assert self.is_error, self.text
        assert self.structured is None
        found = json.loads(self.text)
        assert list(found) == ["kind", "message", "hint"]
        return found


class Connection:
    """A client that is connected. `call` waits for the reply, `begin` does not."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self._client = portal, client

    def tools(self) -> list[Tool]:
        return self._portal.call(self._client.list_tools).tools

    def call(self, name: str, /, **arguments: Any) -> Reply:
        reply: Reply = self._portal.call(self._call, name, arguments, None)
        return reply

    def begin(self, name: str, /, *, seconds: float | None = None, **arguments: Any) -> Future[Reply]:
        """Call a tool; after `seconds` the client cancels the call."""
        return self._portal.start_task_soon(self._call, name, arguments, seconds)

    async def _call(self, name: str, arguments: Mapping[str, Any], seconds: float | None) -> Reply:
        with anyio.move_on_after(seconds):
            done = await self._client.call_tool(name, dict(arguments))
            assert isinstance(done, CallToolResult)
            [content] = done.content
            assert isinstance(content, TextContent)
            return Reply(done.is_error, content.text, done.structured_content)
        return Reply(True, "cancelled", None)


@contextlib.contextmanager
def connect(
    folder: Path, *, words: Sequence[str] = ("mcp",), env: Mapping[str, str] | None = None, argv: Sequence[str] = SERVER
) -> Iterator[Connection]:
    """A server in a folder, and a client of it."""
    command, *rest = [*argv, *words]
    parameters = StdioServerParameters(command=command, args=rest, env={**os.environ, **(env or {})}, cwd=str(folder))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(parameters))) as client,
    ):
        yield Connection(portal, client)


class RawServer:
    """A server whose lines the test writes and reads itself."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [*SERVER, "mcp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._next = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", hello)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def begin(self, method: str, params: object) -> int:
        self._next += 1
        self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, params: object) -> Any:
        wanted = self.begin(method, params)
        while (found := self.read()).get("id") != wanted:
            assert found["jsonrpc"] == "2.0"
        return found

    def call(self, name: str, arguments: object) -> Any:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def end(self) -> tuple[bytes, bytes]:
        """Close its input; what is left on stdout, and stderr."""
        out, err = self.process.communicate(timeout=60)
        return out, err
