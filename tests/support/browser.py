"""A browser without a window: Chromium, asked by its own protocol (Chrome DevTools)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.waiting import PATIENCE

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_BINARY = 2  # the opcode of a frame of bytes
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
    "--force-device-scale-factor=1", "--window-size=1000,600",
)  # fmt: skip


def program() -> str:
    """The path of Chromium; without one, the test is skipped, and fails in CI."""
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        if os.environ.get("AGENTOS_TEST_CI"):
            pytest.fail("Chromium is not installed")
        pytest.skip("Chromium is not installed")
    return found


def environment(folder: Path) -> dict[str, str]:
    """The environment of a browser that writes nowhere but into `folder`."""
    homes = {key: str(folder / key) for key in os.environ if key.startswith("XDG_")}
    return {**os.environ, **homes, "HOME": str(folder)}


class Browser:
    """One tab. `asked` are the URLs that it has asked for, `errors` what it has complained about."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._came = b""
        self.asked: list[str] = []
        self.errors: list[str] = []

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol; its answer."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE):
            while True:
                message = json.loads((await self._socket.receive()).data)
                if message.get("id") == number:
                    assert "error" not in message, message
                    found: dict[str, Any] = message["result"]
                    return found
                self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])
            case "Network.webSocketFrameReceived" if parameters["response"]["opcode"] == _BINARY:
                self._came += base64.b64decode(parameters["response"]["payloadData"])
            case "Network.webSocketCreated":
                self.asked.append(parameters["url"])
            case "Log.entryAdded":
                self.errors.append(parameters["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))

    async def open(self, url: str) -> None:
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.command(f"{domain}.enable")
        await self.command("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        found = await self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        return found["result"].get("value")

    async def until(self, text: str) -> None:
        """Wait until a text has come to the terminal in the page since the last call. What is drawn is in a canvas."""
        try:
            async with asyncio.timeout(PATIENCE):
                while text not in self.text:
                    await self.evaluate("new Promise(requestAnimationFrame)")
        except TimeoutError:
            raise AssertionError(f"'{text}' has not come:\n{self.text}\n{self.errors}") from None
        self._came = b""

    @property
    def text(self) -> str:
        """What has come to the terminal, without the sequences that move and colour it."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._came.decode("utf-8", "replace"))

    async def press(self, key: str) -> None:
        """Press a key as a person does."""
        named = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, "")}
        name, code, text = named.get(key) or (key, ord(key.upper()), key)
        given: dict[str, Any] = {"key": name, "windowsVirtualKeyCode": code}
        await self.command("Input.dispatchKeyEvent", type="keyDown", **given, **({"text": text} if text else {}))
        await self.command("Input.dispatchKeyEvent", type="keyUp", **given)

    async def drawn(self, path: Path) -> bytes:
        """A picture of what is on the screen now, which is also written into a file."""
        await self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found = await self.command("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))
        return path.read_bytes()


@contextlib.asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    """A browser with an empty profile in `folder`."""
    child = await create_subprocess_exec(
        program(), *_OPTIONS, f"--user-data-dir={folder}", "about:blank",
        stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=environment(folder),
    )  # fmt: skip
    try:
        assert child.stderr is not None
        said = b""
        async with asyncio.timeout(PATIENCE):
            while (found := re.search(rb"DevTools listening on ws://([^/\s]+)/", said)) is None:
                line = await child.stderr.readline()
                assert line, said.decode()
                said += line
        address = found[1].decode()
        drained = asyncio.create_task(child.stderr.read())
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{address}/json/list") as answer:
                [page] = [each for each in await answer.json() if each["type"] == "page"]
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Browser(socket)
        drained.cancel()
    finally:
        child.terminate()
        await child.wait()
