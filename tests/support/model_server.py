"""A server on loopback that speaks OpenAI's protocol (and Anthropic's and Ollama's, as far as one answer needs it): it
does what a test has lined up, call by call."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What is answered to one call: `text` is a model's answer, `raw` any body in its place. A `text` that is a
    function is given what was asked. `hangs` answers nothing until the server ends."""

    text: str | Callable[[str], str] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    finish: str = "stop"
    hangs: bool = False
    drops: bool = False
    tokens: tuple[int, int] = (100, 10)


@dataclass
class Server:
    """What was asked of it: paths, headers (their names in lower case), decoded bodies. After the last reply that one
    is repeated. `waited_out` counts the calls that were left hanging until the server had enough of it."""

    replies: list[Reply]
    url: str = ""
    paths: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    waited_out: int = 0

    def messages(self, call: int = -1) -> list[tuple[str, str]]:
        """What one call said: role and text."""
        return [(each["role"], _text(each["content"])) for each in self.bodies[call]["messages"]]

    def reply(self) -> Reply:
        return self.replies[min(len(self.bodies), len(self.replies)) - 1]


@contextmanager
def serving(*replies: Reply) -> Iterator[Server]:
    """A server, while the test needs it; `url` has no path."""
    server = Server(list(replies))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.paths.append(self.path)
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.bodies.append(body)
            reply = server.reply()
            if reply.hangs and not server.ended.wait(30):
                server.waited_out += 1
            if reply.hangs or reply.drops:
                self.close_connection = True
                return
            data = reply.raw if reply.raw is not None else _body(self.path, body, reply)
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            server.paths.append(self.path)
            self.send_error(404)

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=lambda: http.serve_forever(0.02))
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()
        thread.join()


def _body(path: str, asked: Body, reply: Reply) -> bytes:
    last = _text(asked["messages"][-1]["content"])
    text = reply.text(last) if callable(reply.text) else reply.text or ""
    first, second = reply.tokens
    if reply.status != 200:
        answer: Body = {"error": {"message": text, "type": "error", "code": None}}
    elif path.endswith("/v1/messages"):
        answer = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"],
            "content": [{"type": "text", "text": text}], "stop_sequence": None,
            "stop_reason": {"stop": "end_turn", "length": "max_tokens"}[reply.finish],
            "usage": {"input_tokens": first, "output_tokens": second},
        }  # fmt: skip
    elif path.endswith("/api/chat"):
        answer = {
            "model": asked["model"], "created_at": "2026-01-01T00:00:00Z", "done": True, "done_reason": reply.finish,
            "message": {"role": "assistant", "content": text}, "prompt_eval_count": first, "eval_count": second,
        }  # fmt: skip
    else:
        answer = {
            "id": "1", "object": "chat.completion", "created": 1, "model": asked["model"],
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reply.finish}
            ],
            "usage": {"prompt_tokens": first, "completion_tokens": second, "total_tokens": first + second},
        }  # fmt: skip
    return json.dumps(answer).encode() + (b"\n" if path.endswith("/api/chat") else b"")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each["text"] for each in content)
