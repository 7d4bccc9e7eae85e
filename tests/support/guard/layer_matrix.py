"""The commands that are tried for real against each layer of the guard, and what each layer makes of them.

The commands are in `destructive`. The outcome is

    stopped      nothing has changed
    saved        something has changed, and all of it is still in place or in a checkpoint; a restore brings files and
                 index back exactly
    nothing lost the same, but for the restore: no checkpoint was taken, git itself keeps all of it
    not covered  something was lost

The first column is git without a guard: what each command would have done.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from git_agentos.git import version
from tests.support import at_rest
from tests.support.env import PROJECT_ROOT
from tests.support.guard import destructive_commands, inventory
from tests.support.guard.inventory import Inventory, Project
from tests.support.repo import GitFailed, git
from tests.support.state import complete_state
from tests.support.tool import run_ok

_NONE = "no guard"
PAGE = PROJECT_ROOT / "docs" / "guard-coverage.md"
_BEGIN, _END = "<!-- made by tests/support/guard/layer_matrix.py -->\n", "<!-- end -->\n"
LAYERS = (_NONE, "fsmonitor", "hooks", "shim", "harness", "together")
STOPPED, SAVED, KEPT, LOST = "stopped", "saved", "nothing lost", "**not covered**"
# Without a guard the same outcomes have other names.
_UNGUARDED = {STOPPED: "no change", KEPT: KEPT, LOST: "loses"}


@dataclass(frozen=True)
class MatrixCase:
    """A destructive command; `family` groups the rows of the table."""

    family: str
    text: str

    @property
    def needs(self) -> tuple[int, int]:
        """The git that it takes."""
        return destructive_commands.NEWER_GIT if self.family == destructive_commands.NEWER else version.OLDEST


CASES = tuple(MatrixCase(family, text) for family, text in destructive_commands.commands())


def real_git() -> str:
    found = shutil.which("git")
    assert found is not None
    return found


class MatrixProject:
    """One place where commands are tried: a project that is put back before each."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._live = root / "live"
        self._live.mkdir()
        self._arena = inventory.build(self._live)
        for layer in (_NONE, "shim", "harness"):
            self._keep(layer)
        for each in (self._arena.agent, self._arena.other):
            run_ok(self._arena.main.path, "guard", "enable", each.path.name)
        self._keep("together")
        for layer, key in (("fsmonitor", "core.hooksPath"), ("hooks", "core.fsmonitor")):
            self._put_back("together")
            git(self._arena.agent.path, "config", "--worktree", "--unset", key)
            self._keep(layer)
        self._before: dict[str, Inventory] = {}

    def _keep(self, layer: str) -> None:
        at_rest.copy(self._live, self._root / layer)

    def _put_back(self, layer: str) -> Project:
        at_rest.copy(self._root / layer, self._live)
        return self._arena

    def attempt(self, case: MatrixCase, layer: str) -> str:
        """Run the command against one layer, and say what became of what was at stake."""
        arena = self._put_back(layer)
        if layer not in self._before:
            self._before[layer] = Inventory.of(arena)
            arena = self._put_back(layer)
        before = self._before[layer]
        text = case.text
        for name, value in (
            ("main", arena.main.path), ("other", arena.other.path), ("common", arena.git_dir), ("git", real_git()),
            ("root", arena.root),
        ):  # fmt: skip
            text = text.replace("{" + name + "}", str(value))
        self._run(arena, text, layer)
        after = self._after(arena)
        if after is None or inventory.lost(arena, before, after):
            outcome = LOST
        elif not inventory.changed(before, after):
            outcome = STOPPED
        else:
            outcome = KEPT if layer == _NONE or not self._comes_back(arena, before, after) else SAVED
        return _UNGUARDED[outcome] if layer == _NONE else outcome

    def _after(self, arena: Project) -> Inventory | None:
        """What there is afterwards; None where git cannot read one of the worktrees or the repository any more."""
        try:
            return Inventory.of(arena)
        except (GitFailed, OSError):
            return None

    def _run(self, arena: Project, text: str, layer: str) -> None:
        argv = ["bash", "-c", text]
        where = arena.agent.path
        if layer == "harness":
            event = {
                "session_id": "s1", "transcript_path": "/dev/null", "cwd": str(where), "hook_event_name": "PreToolUse",
                "permission_mode": "default", "tool_name": "Bash", "tool_input": {"command": text},
            }  # fmt: skip
            asked = subprocess.run(
                [sys.executable, "-m", "git_agentos", "guard", "harness", "claude-code"],
                cwd=where, input=json.dumps(event).encode(), capture_output=True, check=False, timeout=60,
            )  # fmt: skip
            answer = json.loads(asked.stdout or b"{}").get("hookSpecificOutput", {}).get("permissionDecision", "allow")
            if asked.returncode != 0 or answer != "allow":
                return
        elif layer in ("shim", "together"):
            argv = [sys.executable, "-m", "git_agentos", "guard", "exec", "--", *argv]
        environment = {
            **os.environ,
            "GIT_EDITOR": "true",
            "GIT_SEQUENCE_EDITOR": "true",
            "FILTER_BRANCH_SQUELCH_WARNING": "1",
        }
        subprocess.run(
            argv, cwd=where, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120
        )

    def _comes_back(self, arena: Project, before: Inventory, after: Inventory) -> bool:
        """Whether a restore brings the agent's files and index back exactly, where they have changed."""
        agent = arena.agent
        then, now = before.worktrees[agent.path.name], after.worktrees[agent.path.name]
        if then is None or now is None or (then.files == now.files and then.index == now.index):
            return True
        for each in run_ok(agent.path, "checkpoint", "list")["checkpoints"]:
            run_ok(agent.path, "restore", "--no-branch", each["id"])
            state = complete_state(agent.path)
            if state.files == then.files and state.index == then.index:
                return True
        return False


def _in_numbers(rows: dict[MatrixCase, dict[str, str]]) -> list[str]:
    """A table with how many commands have which outcome, by layer."""
    lines = ["", "## In numbers", "", f"Of {len(rows)} commands:", "", f"| | {' | '.join(LAYERS[1:])} |"]
    lines.append("|---" * len(LAYERS) + "|")
    for outcome in (STOPPED, SAVED, KEPT, LOST):
        counts = (sum(row[layer] == outcome for row in rows.values()) for layer in LAYERS[1:])
        lines.append(f"| {outcome} | {' | '.join(map(str, counts))} |")
    lose = sum(row[_NONE] == _UNGUARDED[LOST] for row in rows.values())
    return [*lines, "", f"Without a guard, {lose} of them lose something in this repository."]


def table(rows: dict[MatrixCase, dict[str, str]]) -> str:
    """The page's tables: all in numbers, and one a family."""
    lines = _in_numbers(rows)
    family = ""
    for case, row in rows.items():
        if case.family != family:
            family = case.family
            lines += ["", f"## {family[:1].upper()}{family[1:]}", ""]
            lines += [f"| command | {' | '.join(LAYERS)} |", "|---" * (len(LAYERS) + 1) + "|"]
        text = case.text.replace("\n", " ⏎ ").replace("|", "\\|")
        lines.append(f"| `{text}` | {' | '.join(row[layer] for layer in LAYERS)} |")
    return "\n".join(lines[1:]) + "\n"


def documented() -> dict[str, dict[str, str]]:
    """The outcomes by layer of each command, as the page has them."""
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {
        text.replace("\\|", "|").replace(" ⏎ ", "\n"): dict(zip(LAYERS, cells.split(" | "), strict=True))
        for text, cells in rows
    }


def write(folder: Path) -> None:
    """Make the page's tables again, of what a run of test_coverage.py has left in `folder`. Rows
    that need a newer git than that run had are not changed."""
    old = documented()
    rows = {}
    for number, case in enumerate(CASES):
        path = folder / f"{number}.json"
        rows[case] = json.loads(path.read_text()) if path.exists() or case.text not in old else old[case.text]
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    PAGE.write_text(f"{before}{_BEGIN}\n{table(rows)}\n{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
