"""The example in docs/runs.md, and the orchestrator in docs/examples: they run as they stand."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from git_agentos.run import spec
from tests.support.documents import blocks, environment, run_shell
from tests.support.env import PROJECT_ROOT
from tests.support.repo import git

DOCS = PROJECT_ROOT / "docs"
RUNS = DOCS / "runs.md"

AGENT = """
case $AGENTOS_TASK_ID in
good) echo good >shared ;;
clash) echo clash >shared ;;
bad) echo broken >broken ;;
esac
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


@pytest.mark.slow
def test_the_example(tmp_path: Path, env: dict[str, str]) -> None:
    told = "".join(run_shell(each, tmp_path, env) for each in blocks(RUNS, "runnable", "sh"))
    assert "Run fix-1 passed" in told
    assert "2 at 3 each: 5, not 6" in told
    assert "The evidence of run fix-1 is complete" in told
    assert "Run wreck-1 failed" in told


def test_the_file_in_the_documents_is_one(tmp_path: Path) -> None:
    """The TOML in runs.md, and that in the manual."""
    text = RUNS.read_text().split("```toml\n", 1)[1].split("```", 1)[0]
    manual = (DOCS.parent / "man/git-agentos-run.1").read_text().split(".SH FILE\n", 1)[1].split(".fi\n", 1)[0]
    plain = manual.split(".nf\n", 1)[1].replace("\\\\-", "-").replace("\\-", "-").replace("\\(aq", "'")
    for number, each in enumerate((text, plain)):
        file = tmp_path / f"{number}.toml"
        file.write_text(each)
        read = spec.from_file(str(file))
        assert [step.kind for step in read.steps] == ["agent", "validate", "checkpoint"]
        assert (read.task, read.max_attempts, read.on_failure) == ("T-42", 3, "rollback")
        assert tomllib.loads(each)["step"][1]["timeout"] == "10m"


@pytest.mark.slow
def test_the_orchestrator(tmp_path: Path, env: dict[str, str]) -> None:
    root = tmp_path / "app"
    git(tmp_path, "init", "--quiet", str(root), env=env)
    (root / "README").write_text("app\n")
    git(root, "add", ".", env=env)
    git(root, "commit", "--quiet", "-m", "start", env=env)
    agent = tmp_path / "agent.sh"
    agent.write_text(AGENT)
    program: list[str | Path] = [sys.executable, DOCS / "examples/orchestrator.py", root, "good", "bad", "clash"]
    options = ["--agent", f"sh {agent}", "--validate", "test ! -e broken"]
    done = subprocess.run([*program, *options], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    told = done.stdout.splitlines()
    assert (done.returncode, told[:1]) == (1, ["good: merged into main"]), done.stderr
    assert told[1].startswith("bad: failed: ")
    assert told[2].startswith("bad: rolled back to ")
    assert told[3:] == ["clash: passed, but conflicts with main: shared"]
    assert (root / "shared").read_text() == "good\n"
    assert not (root / "broken").exists()
    assert git(root, "status", "--porcelain", env=env) == b""
    assert git(root, "log", "--format=%s", "--first-parent", "main", env=env).count(b"\n") == 2
    assert "bad: agent, attempt 2\n" in done.stderr
