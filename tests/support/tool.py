"""The tool under test, in process and as a command.

Both answer to the same protocol, so a scenario can run through either: `IN_PROCESS` calls `git_agentos.open_workspace`,
`COMMAND` starts `python -m git_agentos` with `--json`, as a script would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support import daemon

# Root may write and read anything; without these two capabilities it may not.
_DROPPED = "-dac_override,-dac_read_search"
UNPRIVILEGED = ["setpriv", f"--bounding-set={_DROPPED}", f"--inh-caps={_DROPPED}"]


@dataclass(frozen=True)
class Result:
    """What a command did."""

    args: tuple[str, ...]
    code: int
    out: bytes
    err: bytes

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    def __str__(self) -> str:
        return (
            f"git agentos {' '.join(self.args)} exited {self.code}\n"
            f"stdout: {self.out.decode(errors='replace')}\nstderr: {self.err.decode(errors='replace')}"
        )


def run(
    cwd: Path,
    *args: str | bytes,
    env: Mapping[str, str] | None = None,
    unprivileged: bool = False,
    stdin: bytes = b"",
) -> Result:
    """Run `git agentos ARGS` in `cwd`, never raising on its exit code. `unprivileged`: modes bind it, even as root."""
    prefix = UNPRIVILEGED if unprivileged and os.geteuid() == 0 else []
    with daemon.present(cwd, args):
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "git_agentos", *args],
            cwd=cwd,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=120,
            env=None if env is None else {**os.environ, **env},
        )
    return Result(tuple(os.fsdecode(arg) for arg in args), done.returncode, done.stdout, done.stderr)


def run_ok(cwd: Path, *args: str | bytes, env: Mapping[str, str] | None = None) -> Any:
    """Run `git agentos --json ARGS`, require success, and give the document."""
    done = run(cwd, "--json", *args, env=env)
    assert done.code == 0, str(done)
    return done.json


class Tool(Protocol):
    """Documents are the contract's JSON keys, either way."""

    def checkpoint(self, where: Path, description: str = "", *, trigger: str = "manual") -> dict[str, Any]: ...

    def restore(
        self,
        where: Path,
        spec: str,
        paths: Sequence[str] = (),
        *,
        branch: str | None = None,
        no_branch: bool = False,
        keep_new: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...

    def undo(self, where: Path) -> dict[str, Any]: ...


class _InProcess:
    def checkpoint(self, where: Path, description: str = "", *, trigger: str = "manual") -> dict[str, Any]:
        if daemon.MODE:  # which does the work of commands
            return COMMAND.checkpoint(where, description, trigger=trigger)
        return _document(_open(where).checkpoint(description, trigger=trigger))

    def restore(
        self,
        where: Path,
        spec: str,
        paths: Sequence[str] = (),
        *,
        branch: str | None = None,
        no_branch: bool = False,
        keep_new: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        done = _open(where).restore(spec, paths, branch=branch, no_branch=no_branch, keep_new=keep_new, dry_run=dry_run)
        return _document(done)

    def undo(self, where: Path) -> dict[str, Any]:
        return _document(_open(where).undo())


class _Command:
    def checkpoint(self, where: Path, description: str = "", *, trigger: str = "manual") -> dict[str, Any]:
        return _object(run_ok(where, "checkpoint", "-m", description, "--trigger", trigger))

    def restore(
        self,
        where: Path,
        spec: str,
        paths: Sequence[str] = (),
        *,
        branch: str | None = None,
        no_branch: bool = False,
        keep_new: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        options = [
            *(["--branch", branch] if branch is not None else []),
            *(["--no-branch"] if no_branch else []),
            *(["--keep-new"] if keep_new else []),
            *(["--dry-run"] if dry_run else []),
        ]
        return _object(run_ok(where, "restore", *options, spec, *(["--", *paths] if paths else [])))

    def undo(self, where: Path) -> dict[str, Any]:
        return _object(run_ok(where, "undo"))


IN_PROCESS: Tool = _InProcess()
COMMAND: Tool = _Command()


def _open(where: Path) -> Any:
    from git_agentos import open_workspace

    return open_workspace(where)


def _document(result: Any) -> dict[str, Any]:
    """A result as its JSON document has it."""
    from git_agentos.cli.render import json as documents

    return _object(documents.plain(result))


def _object(document: Any) -> dict[str, Any]:
    assert isinstance(document, dict)
    return document
