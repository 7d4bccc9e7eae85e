"""What goes to which stream, when it is coloured, and what never reaches a terminal."""

from __future__ import annotations

import ast
import io

import pytest

from git_agentos.cli.output import Output
from git_agentos.cli.text import Style, Text
from git_agentos.errors import AgentosError
from tests.support.env import PROJECT_ROOT

CLI = PROJECT_ROOT / "git_agentos" / "cli"


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def streams(*, terminal: bool, encoding: str = "utf-8") -> tuple[Output, io.BytesIO, io.BytesIO]:
    out, err = io.BytesIO(), io.BytesIO()
    kind = _Terminal if terminal else io.TextIOWrapper
    return Output(kind(out, encoding=encoding), kind(err, encoding=encoding)), out, err


def coloured(style: Style) -> Text:
    return Text(style.paint("yellow", "id") + "\n", "id\n", ("note",), ("warning",), ("hint",))


@pytest.mark.parametrize(
    ("terminal", "no_color", "term", "expected"),
    [
        (True, None, "xterm", b"\x1b[33mid\x1b[m\n"),
        (True, "", "xterm", b"\x1b[33mid\x1b[m\n"),
        (True, "1", "xterm", b"id\n"),
        (True, None, "dumb", b"id\n"),
        (False, None, "xterm", b"id\n"),
    ],
)
def test_colour_only_on_a_terminal_that_wants_it(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, no_color: str | None, term: str, expected: bytes
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    output, out, err = streams(terminal=terminal)
    output.show("x", {}, coloured)
    assert out.getvalue() == expected
    assert (b"\x1b" in err.getvalue()) is (b"\x1b" in expected)


def test_the_result_on_stdout_and_talk_on_stderr() -> None:
    output, out, err = streams(terminal=False)
    output.show("x", {}, coloured)
    assert out.getvalue() == b"id\n"
    assert err.getvalue() == b"warning: warning\nnote\nhint: hint\n"


def test_quiet_keeps_the_warnings() -> None:
    output, out, err = streams(terminal=False)
    output.quiet = True
    output.show("x", {}, coloured)
    assert (out.getvalue(), err.getvalue()) == (b"id\n", b"warning: warning\n")


def test_json_is_alone() -> None:
    output, out, err = streams(terminal=True)
    output.json = True
    output.show("x", {"a": 1}, coloured)
    assert (out.getvalue(), err.getvalue()) == (b'{"schema": "agentos.x.v1", "a": 1}\n', b"")


def test_an_encoding_that_cannot_say_it_escapes_it() -> None:
    output, out, _ = streams(terminal=False, encoding="ascii")
    output.show("x", {}, lambda _: Text("é\udcff\n"))
    assert out.getvalue() == b"\\xe9\\udcff\n"


def test_bytes_are_written_as_they_are() -> None:
    output, out, _ = streams(terminal=False)
    output.show("x", {}, lambda _: Text(b"\xff\x00\r\n"))
    assert out.getvalue() == b"\xff\x00\r\n"


def test_an_error_without_streams_is_survived() -> None:
    output = Output(None, None)
    assert output.fail(AgentosError("x", "y")) == 1
    output.show("x", {}, coloured)


def test_only_output_prints() -> None:
    """No other module of the package names a standard stream, `print` or typer's ways to print.

    Hooks, which load none of the commands' modules, have `talk`.
    """
    # entry flushes at the end, service opens and flushes, terminal asks whether it is one, web leads what libraries say
    allowed = {"output.py", "entry.py", "service.py", "talk.py", "terminal.py", "web.py"}
    for file in sorted(CLI.parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Name) and node.id == "print":
                pytest.fail(f"{file.name}:{node.lineno} prints")
            if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr", "echo", "secho"):
                owner = node.value
                if isinstance(owner, ast.Name) and owner.id in ("sys", "typer") and file.name not in allowed:
                    pytest.fail(f"{file.name}:{node.lineno} uses {owner.id}.{node.attr}")
