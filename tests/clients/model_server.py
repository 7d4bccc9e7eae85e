"""A model server on loopback that plays a script.

It speaks what the clients speak: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini. A client
repeats the whole conversation with every request, so the request alone tells which turn is next: the number of tool
calls that it holds. A request without the client's tools (a title, a summary) is answered with SUMMARY.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

SUMMARY = "what was done so far"


class Shell(NamedTuple):
    """The model runs a command."""

    command: str


class Write(NamedTuple):
    """The model makes a file with the client's own tool; `path` is absolute."""

    path: str
    text: str


class Call(NamedTuple):
    """The model calls another tool, such as one of an MCP server. `tool` is its name, as each client calls it; for
    Codex the namespace and a full stop come first, if there is one. `arguments` makes them of what the tools have
    returned so far, as text."""

    tool: str
    arguments: Callable[[Sequence[str]], Mapping[str, Any]]

    def given(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.arguments(_results(request)))


class Say(NamedTuple):
    """The model ends its turn."""

    text: str


Turn = Shell | Write | Call | Say


class Reply(NamedTuple):
    """The body of a response and its content type."""

    body: bytes
    kind: str = "application/json"


class ModelServer:
    """Plays `script`, one turn for each tool result; a context manager. `url` is without a path.

    In a conversation without the text `prompt`, which is a sub-agent's, it plays `of_subagent`. With `filled`, every
    answer says that the conversation has so many tokens, until the client has replaced it by SUMMARY; then it plays
    `compacted`.
    """

    def __init__(
        self,
        script: Sequence[Turn],
        of_subagent: Sequence[Turn] = (),
        prompt: str = "",
        *,
        filled: int = 10,
        compacted: Sequence[Turn] = (),
    ) -> None:
        self.script, self.of_subagent, self.prompt = tuple(script), tuple(of_subagent), prompt
        self.filled, self.compacted = filled, tuple(compacted)
        self.requests: list[Mapping[str, Any]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def tool_results(self) -> list[str]:
        """What the tools returned to the model, as text, in their order: from the longest conversation."""
        return max((_results(request) for request in self.requests), key=len, default=[])

    def answer(self, path: str, request: Mapping[str, Any]) -> Reply:
        self.requests.append(request)
        path = path.partition("?")[0]
        if path.endswith("/messages"):
            return _anthropic(self, request)
        if path.endswith("/responses"):
            return _responses(self, request)
        if path.endswith("/chat/completions"):
            return _chat(self, request)
        if path.endswith((":generateContent", ":streamGenerateContent")):
            return _gemini(self, request, stream=":stream" in path)
        return _json({"input_tokens": 10, "totalTokens": 10})  # the counting of tokens

    def turn(self, calls: int, request: Mapping[str, Any]) -> Turn:
        if not request.get("tools"):
            return Say(SUMMARY)
        is_subagent = self.of_subagent and self.prompt not in json.dumps(request)
        script = self.of_subagent if is_subagent else self.compacted if self.is_compacted(request) else self.script
        return script[calls] if calls < len(script) else Say("done")

    def is_compacted(self, request: Mapping[str, Any]) -> bool:
        return bool(self.compacted) and SUMMARY in json.dumps(request)

    def tokens(self, request: Mapping[str, Any]) -> int:
        """How many tokens the conversation has."""
        return 10 if self.is_compacted(request) else self.filled


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(_json({"object": "list", "data": [{"id": "test-model", "object": "model"}]}))

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                data = b"".join(self._chunks())
            else:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = json.loads(data or b"{}")
            self._send(server.answer(self.path, found if isinstance(found, dict) else {}))

        def _chunks(self) -> Iterator[bytes]:
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def _send(self, reply: Reply) -> None:
            self.send_response(200)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
            """Say nothing on stderr."""

    return Handler


# -- the four protocols ------------------------------------------------------------------------------------------------


def _anthropic(server: ModelServer, request: Mapping[str, Any]) -> Reply:
    calls = _count(request.get("messages"), "tool_use")
    turn = server.turn(calls, request)
    usage = {**_usage(server, request), "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message: dict[str, Any] = {"id": f"msg_{calls}", "type": "message", "role": "assistant", "content": [],
               "model": request.get("model"), "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    if isinstance(turn, Say):
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": turn.text}
        whole, reason = {**block, "text": turn.text}, "end_turn"
    else:
        if isinstance(turn, Shell):
            name, given = "Bash", {"command": turn.command, "description": "a step of the script"}
        elif isinstance(turn, Call):
            name, given = turn.tool, turn.given(request)
        else:
            name, given = "Write", {"file_path": turn.path, "content": turn.text}
        block = {"type": "tool_use", "id": f"toolu_{calls}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        whole, reason = {**block, "input": given}, "tool_use"
    if not request.get("stream"):
        return _json({**message, "content": [whole], "stop_reason": reason})
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return _stream(events, named=True)


def _responses(server: ModelServer, request: Mapping[str, Any]) -> Reply:
    calls = _count(request.get("input"), "function_call")
    turn = server.turn(calls, request)
    item: dict[str, Any]
    if isinstance(turn, Say):
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{calls}", "role": "assistant", "content": content}
    else:
        # Without metadata of the model, Codex offers no apply_patch tool, but takes its command in the shell.
        namespace = ""
        if isinstance(turn, Call):
            (namespace, _, name), given = turn.tool.rpartition("."), turn.given(request)
        else:
            name, given = "exec_command", {"cmd": turn.command if isinstance(turn, Shell) else _apply_patch(turn)}
        item = {"type": "function_call", "id": f"fc_{calls}", "call_id": f"call_{calls}", "name": name,
                "arguments": json.dumps(given)}  # fmt: skip
        if namespace:
            item["namespace"] = namespace
    item["status"] = "completed"
    response = {"id": f"resp_{calls}", "object": "response", "created_at": 0, "model": request.get("model"),
                "status": "completed", "output": [item],
                "usage": _usage(server, request)}  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return _stream(events, named=True)


def _apply_patch(turn: Write) -> str:
    lines = "".join(f"+{line}\n" for line in turn.text.splitlines())
    return f"apply_patch <<'END'\n*** Begin Patch\n*** Add File: {turn.path}\n{lines}*** End Patch\nEND\n"


def _chat(server: ModelServer, request: Mapping[str, Any]) -> Reply:
    calls = sum(len(part["tool_calls"] or []) for part in _objects(request.get("messages")) if "tool_calls" in part)
    turn = server.turn(calls, request)
    message: dict[str, Any]
    if isinstance(turn, Say):
        message, reason = {"role": "assistant", "content": turn.text}, "stop"
    else:
        tools = [part.get("name") for part in _objects(request.get("tools"))]
        if isinstance(turn, Shell):
            name, given = "bash", {"command": turn.command, "description": "a step of the script"}
        elif isinstance(turn, Call):
            name, given = turn.tool, turn.given(request)
        elif "write" in tools:  # opencode
            name, given = "write", {"filePath": turn.path, "content": turn.text}
        else:  # Copilot CLI
            name, given = "create", {"path": turn.path, "file_text": turn.text}
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"index": 0, "id": f"call_{calls}", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    tokens = server.tokens(request)
    usage = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
    base = {"id": f"chatcmpl-{calls}", "created": 0, "model": request.get("model"), "usage": usage}
    if not request.get("stream"):
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reason}
        return _json({**base, "object": "chat.completion", "choices": [choice]})
    base["object"] = "chat.completion.chunk"
    events = [
        {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    return _stream(events, last=b"data: [DONE]\n\n")


def _gemini(server: ModelServer, request: Mapping[str, Any], *, stream: bool) -> Reply:
    calls = sum("functionCall" in part for part in _objects(request.get("contents")))
    turn = server.turn(calls, request)
    part: dict[str, Any]
    if isinstance(turn, Say):
        part = {"text": turn.text if stream else json.dumps({"reasoning": "", "next_speaker": "user"})}
    elif isinstance(turn, Shell):
        part = {"functionCall": {"name": "run_shell_command", "args": {"command": turn.command}}}
    elif isinstance(turn, Call):
        part = {"functionCall": {"name": turn.tool, "args": turn.given(request)}}
    else:
        part = {"functionCall": {"name": "write_file", "args": {"file_path": turn.path, "content": turn.text}}}
    tokens = server.tokens(request)
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 10, "totalTokenCount": tokens + 10}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [candidate], "usageMetadata": usage}
    return _stream([whole]) if stream else _json(whole)


def _usage(server: ModelServer, request: Mapping[str, Any]) -> dict[str, int]:
    tokens = server.tokens(request)
    return {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10}


# -- their parts -------------------------------------------------------------------------------------------------------


def _json(body: Mapping[str, Any]) -> Reply:
    return Reply(json.dumps(body).encode())


def _stream(events: Sequence[Mapping[str, Any]], *, named: bool = False, last: bytes = b"") -> Reply:
    """Server-sent events; `named`: each with its type in a line of its own."""
    names = [f"event: {event['type']}\n" if named else "" for event in events]
    text = "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True))
    return Reply(text.encode() + last, "text/event-stream")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object in `value`, outer ones first."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _objects(each)


def _count(value: Any, kind: str) -> int:
    return sum(part.get("type") == kind for part in _objects(value))


def _results(request: Mapping[str, Any]) -> list[str]:
    found = []
    for part in _objects([request.get(key) for key in ("messages", "input", "contents")]):
        if part.get("type") == "tool_result" or part.get("role") == "tool":
            found.append(_text(part.get("content")))
        elif part.get("type") == "function_call_output":
            found.append(_text(part.get("output")))
        elif "functionResponse" in part:
            found.append(_text(part["functionResponse"].get("response")))
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(each for part in _objects(value) for each in part.values() if isinstance(each, str))
