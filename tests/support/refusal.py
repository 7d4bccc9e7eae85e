"""What every refusal must be: the exit code of the contract, a message for people, one JSON document for scripts, no
traceback, and nothing changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.repo import git
from tests.support.state import assert_unchanged, complete_state
from tests.support.tool import Result, run


def assert_refused(
    cwd: Path,
    *args: str | bytes,
    code: int = 1,
    mentions: str = "",
    keeps: Path | None = None,
    env: Mapping[str, str] | None = None,
    unprivileged: bool = False,
) -> Any:
    """Run the command for people and for scripts; both must refuse with `code` and name `mentions`, and leave the
    repository at `keeps` as it was, checkpoints included. Gives the JSON error.
    """
    before = None if keeps is None else complete_state(keeps, strict=True)
    ours = None if keeps is None else git(keeps, "for-each-ref", "refs/agentos")

    plain = run(cwd, *args, env=env, unprivileged=unprivileged)
    assert_is_error(plain, code)
    assert plain.out == b"", str(plain)
    assert plain.err.strip() != b"", str(plain)
    assert mentions in plain.err.decode(errors="replace"), str(plain)

    scripted = run(cwd, "--json", *args, env=env, unprivileged=unprivileged)
    assert_is_error(scripted, code)
    document = scripted.json
    assert document["schema"] == "agentos.error.v1", str(scripted)
    assert set(document) == {"schema", "error"}, str(scripted)
    assert set(document["error"]) == {"kind", "message", "hint"}, str(scripted)
    message = document["error"]["message"]
    assert mentions in f"{message} {document['error']['hint']}", str(scripted)
    assert message[:1] not in ("", " "), str(scripted)
    assert not message.endswith("."), str(scripted)

    if keeps is not None and before is not None:
        assert_unchanged(before, complete_state(keeps, strict=True), f"a refused {args!r} changed something")
        assert git(keeps, "for-each-ref", "refs/agentos") == ours, "a refused command took a checkpoint"
    return document["error"]


def assert_is_error(done: Result, code: int) -> None:
    """The exit code, and no traceback in sight."""
    assert done.code == code, str(done)
    assert b"Traceback" not in done.err + done.out, str(done)
