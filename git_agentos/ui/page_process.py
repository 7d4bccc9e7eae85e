"""The process of one page in a browser: the server starts it (`PageProcess`), and this module is what it runs.

    python -m git_agentos.ui.page_process DIRECTORY [AGENT]

A person's terminal is handed over as a descriptor, whose number is in `AGENTOS_UI_TERMINAL`: commands that decide for
agents get it as their stdin, and find out themselves whether it is one. Without it there is none, and where approvals
are off, the environment says so to all commands (`config.NO_DECISIONS`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

if TYPE_CHECKING:
    from aiohttp import web

TERMINAL = "AGENTOS_UI_TERMINAL"
_PATIENCE = 3.0  # seconds
_LOOK = 1.0  # seconds between looks whether the server is there


class PageProcess(AppService):
    """A process of the interface, whose screen is sent to a page.

    It is in a process group of its own, in the session of the server: a terminal that is handed over stays its own.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], socket: web.WebSocketResponse, terminal: int | None
    ) -> None:
        """`env` are variables beside those of the server; `terminal` is a person's."""
        super().__init__(
            "",
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=self._close,
            download_manager=DownloadManager(),
        )
        self._argv, self._env, self._terminal, self._socket = argv, env, terminal, socket

    async def _close(self) -> None:
        await self._socket.close()

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        env = {**self._build_environment(width, height), **self._env, "TERM": "xterm-256color"}
        kept = () if self._terminal is None else (self._terminal,)
        if self._terminal is not None:
            env[TERMINAL] = str(self._terminal)
        self._process = await create_subprocess_exec(
            *self._argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env, pass_fds=kept, process_group=0
        )
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Send what it writes to the page; the page is closed when it has ended."""
        try:
            await super().run()
        finally:
            await self._close()

    async def on_meta(self, data: bytes) -> None:
        """It may end the page, and nothing else: open no other page, and send no files."""
        if json.loads(data)["type"] == "exit":
            await super().on_meta(data)

    async def end(self) -> None:
        """End it: as it is asked to, else as it is told to."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(TimeoutError, OSError):
            await asyncio.wait_for(self.stop(), _PATIENCE)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _PATIENCE)


def main() -> int:
    """Run the interface as a page's process."""
    from textual.drivers.web_driver import WebDriver

    from git_agentos.ui.app import Interface

    directory, *agent = sys.argv[1:]
    # stdin is what the page sends.
    number = int(os.environ.pop(TERMINAL, "-1"))
    terminal = number if number >= 0 else os.open(os.devnull, os.O_RDONLY)
    app = Interface(directory, agent[0] if agent else None, driver=WebDriver, terminal=terminal)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    app.run()
    return app.return_code or 0


def _end_with(server: int) -> None:
    """End when the server is gone, which may have been killed."""
    while os.getppid() == server:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
