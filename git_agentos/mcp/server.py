"""The server: speaks MCP on stdin and stdout, by the SDK's low-level server.

stdout holds the protocol and nothing else; warnings of commands go to stderr. The server ends when its input does.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from git_agentos import __version__
from git_agentos.errors import AgentosError, UsageError, system_reason
from git_agentos.mcp import arguments, tools
from git_agentos.mcp.command import Commands
from git_agentos.mcp.tools import Tool

_INSTRUCTIONS = (
    "git-agentos saves the complete working state of this git worktree, and restores it. Create a checkpoint before "
    "anything risky (checkpoint_create). If something went wrong, find the last good state (checkpoint_list, "
    "checkpoint_show) and restore it (restore: first a dry run, then the real one); undo takes that back. If a command "
    "was denied, guard_check says why and what to do instead; approvals_status says whether a person has granted it."
)


def serve(before: Sequence[str]) -> None:
    """Serve until the input ends. `before` are words that come before the name of each command: `-C PATH`."""
    gc.enable()  # a command switches it off, since it ends soon
    anyio.run(_serve, Commands(before))


async def _serve(commands: Commands) -> None:
    server = make(commands)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def make(commands: Commands) -> Server[dict[str, Any]]:
    """The server with all tools."""
    table = {each.name: each for each in tools.TOOLS}
    listed = [_described(each) for each in table.values()]

    async def list_tools(_: object, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = table.get(params.name)
            if tool is None:
                raise UsageError("there is no tool of this name", f"the tools are: {', '.join(table)}")
            given = arguments.check(params.arguments or {}, tool.takes)
            text, document = await tool.call(commands, given)
        except AgentosError as error:
            return _failed(error.kind, error.message, error.hint)
        except OSError as error:
            return _failed("system", f"the command cannot be started: {system_reason(error)}", None)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=_utf8(document))

    return Server(
        "git-agentos",
        version=__version__,
        title="git agentos",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.hints.read_only,
        destructive_hint=tool.hints.destructive,
        idempotent_hint=tool.hints.idempotent,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.takes,
        output_schema=tool.gives,
        annotations=hints,
    )


def _failed(kind: str, message: str, hint: str | None) -> types.CallToolResult:
    text = json.dumps({"kind": kind, "message": message, "hint": hint})
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _utf8(value: Any) -> Any:
    """A document without lone surrogates (bytes of names that are not UTF-8), which the protocol cannot have: they are
    written as JSON writes them, `\\udcff`."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_utf8(key): _utf8(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_utf8(each) for each in value]
    return value
