"""A workflow that is killed in any node, and resumed, ends as one that was not; no finished node is done again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.errors import AgentosError, TddError
from git_agentos.tdd import query
from git_agentos.worktree import creation
from tests.support import tool
from tests.support.env import PROJECT_ROOT
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE
from tests.support.signals import with_default_handlers
from tests.support.state import assert_same
from tests.support.tdd_project import (
    CODE,
    TESTS,
    WRONG,
    Person,
    context_of,
    decide,
    environment,
    nodes_of,
    project,
    resume,
    script,
    start,
    users_state,
)
from tests.support.waiting import wait_until

ROOT = PROJECT_ROOT
# One retry of the code is part of it.
WAY = ["N0", "N1", "N2", "N3", "N4", "N3", "N4", "N5", "N6", "N7", "N8"]
ENDED = [f"ended N{n}" for n in range(9)]
BEGINS = [f"begins N{n}" for n in range(1, 6)]


def run(repo: Repo, verb: str, agent: str, *strike: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tests.support.tdd_worker", str(repo.path), verb, agent, *strike]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture
def agent(tmp_path: Path) -> str:
    wrong = {"write": {"calc/more.py": WRONG, "calc/left_over.py": "x = 1\n"}}
    good = {"write": {"calc/more.py": CODE}, "delete": ["calc/left_over.py"]}
    return script(tmp_path, implement=[wrong, good])


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("strike", "database"),
    [(strike, "sqlite") for strike in [*ENDED, *(BEGINS if EXHAUSTIVE else BEGINS[2:3])]]
    + [(strike, "postgres") for strike in ([*ENDED, *BEGINS] if EXHAUSTIVE else ["ended N6"])],
    indirect=["database"],
)
def test_killed_workflow_is_resumed(repo: Repo, agent: str, strike: str) -> None:
    code = project(repo)
    before = users_state(code)
    base = code.oid()
    killed = run(code, "start", agent, *strike.split())
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (found,) = query.list_workflows(context_of(code), environment())
    done = nodes_of(found)
    assert done == WAY[: len(done)]
    if strike not in ("ended N7", "ended N8"):
        assert code.oid("main") == base
        assert_same(before, users_state(code), "the user's checkout", strict=True)
    # Whoever resumes it hears of what was not done yet, and of nothing else.
    person = Person(["approve"])
    ended = resume(code, found.id, person)
    assert (ended.state, nodes_of(ended)) == ("merged", WAY)
    assert ended.history[: len(done)] == found.history
    assert [each for each in person.heard if each.startswith("ended")] == [f"ended {each}" for each in WAY[len(done) :]]
    assert code.text("diff", "--name-only", base, "main").split() == ["calc/more.py", "tests/test_more.py"]
    assert code.git("show", "main:calc/more.py").decode() == CODE
    assert code.git("show", "main:tests/test_more.py").decode() == TESTS
    assert code.text("rev-list", "--count", f"{base}..main") == "2"
    assert code.text("for-each-ref", "--format=%(refname:short)", "refs/heads").split() == ["main", "other"]
    assert code.text("worktree", "list").count("\n") == 0
    assert code.read("calc/base.py").decode().endswith("# staged by the user\n# and not staged\n")


@pytest.mark.parametrize("strike", ["begins N1", "ended N3"])
def test_killed_workflow_is_aborted(repo: Repo, agent: str, strike: str) -> None:
    """An agent that can no longer be had is no reason to be stuck: what was killed can be aborted, and had back."""
    code = project(repo)
    before = users_state(code)
    killed = run(code, "start", agent, *strike.split())
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (found,) = query.list_workflows(context_of(code), environment())
    named = [each for each in tool.run(code.path, "--json", "doctor").json["findings"] if found.id in each["message"]]
    assert [each["code"] for each in named] == ["workflow-interrupted"]
    assert f"git agentos tdd resume {found.id}" in named[0]["hint"]
    assert f"git agentos tdd abort {found.id}" in named[0]["hint"]
    Path(agent.removeprefix("mock:")).unlink()
    with pytest.raises(TddError, match="is not waiting for a decision"):
        decide(code, found.id, "approve")
    ended = decide(code, found.id, "abort")
    assert (ended.state, ended.human_decision, ended.merge_commit) == ("aborted", "abort", None)
    assert nodes_of(ended) == [*nodes_of(found), "N6", "N8"]
    assert code.text("for-each-ref", "--format=%(refname:short)", "refs/heads").split() == ["main", "other"]
    assert code.text("worktree", "list").count("\n") == 0
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    # The folder of the run is deleted in the background.
    wait_until(
        lambda: found.id not in tool.run(code.path, "--json", "doctor").out.decode(), "doctor finds nothing of it"
    )
    made = creation.create(context_of(code), f"run-{found.id}", revive=True)
    assert (Path(str(made.path)) / "calc/left_over.py").exists() == (strike == "ended N3")


def test_workflow_killed_before_its_worktree_is_aborted(repo: Repo, agent: str, tmp_path: Path) -> None:
    """Killed by what sets the worktree up, which will not let it be made later either: it can be aborted."""
    code = project(repo)
    before = users_state(code)
    code.config("agentos.setup", f"[ -e '{tmp_path}/killed' ] || kill -KILL $(cat '{tmp_path}/pid'); false")
    words = [sys.executable, "-m", "tests.support.tdd_worker", str(code.path), "start", agent]
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE)
    (tmp_path / "pid").write_text(str(process.pid))
    assert process.communicate(timeout=120)[1] == b""
    assert process.returncode == -signal.SIGKILL
    (tmp_path / "killed").touch()
    (found,) = query.list_workflows(context_of(code), environment())
    assert (found.state, nodes_of(found)) == ("interrupted", [])
    with pytest.raises(AgentosError, match="set-up command"):
        resume(code, found.id)
    ended = decide(code, found.id, "abort")
    assert (ended.state, nodes_of(ended)) == ("aborted", ["N6", "N8"])
    assert ended.history[-1]["summary"] == "there was no worktree yet"
    code.git("config", "--unset", "agentos.setup")
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    assert code.text("for-each-ref", "--format=%(refname:short)", "refs/heads").split() == ["main", "other"]
    assert code.text("worktree", "list").count("\n") == 0
    assert start(code, agent).state == "waiting"


def test_interrupted_by_a_signal(repo: Repo, tmp_path: Path) -> None:
    """A model that is at work when the signal comes is ended, and asked again later."""
    code = project(repo)
    marker = tmp_path / "slow"
    marker.write_text("")
    slow = {"run": f"if [ -e '{marker}' ]; then rm '{marker}'; kill -INT $(cat '{tmp_path}/pid'); sleep 99; fi"}
    agent = script(tmp_path, scaffold=[{**slow, "write": {"tests/test_more.py": TESTS, "calc/more.py": WRONG}}])
    with with_default_handlers(signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.tdd_worker", str(code.path), "start", agent],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
    (tmp_path / "pid").write_text(str(process.pid))
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "interrupted\n")
    (found,) = query.list_workflows(context_of(code), environment())
    assert (found.state, nodes_of(found)) == ("interrupted", ["N0"])
    ended = resume(code, found.id, Person(["approve"]))
    assert ended.state == "waiting" or ended.state == "merged"


def test_a_protected_branch_that_was_moved_before_the_kill(repo: Repo, tmp_path: Path) -> None:
    """Where it was when the node began is on record: that it was moved is seen on resume, and nothing is done again."""
    code = project(repo)
    base = code.oid("main")
    moves = (
        'new=$(git commit-tree -m moved -p HEAD "HEAD^{tree}")'
        '; echo $new >"$(git rev-parse --git-common-dir)/refs/heads/main"'
        f"; kill -KILL $(cat '{tmp_path}/pid'); sleep 99"
    )
    words = [
        sys.executable,
        "-m",
        "tests.support.tdd_worker",
        str(code.path),
        "start",
        script(tmp_path, [{"run": moves}]),
    ]
    process = subprocess.Popen(words, cwd=ROOT)
    (tmp_path / "pid").write_text(str(process.pid))
    assert process.wait(timeout=120) == -signal.SIGKILL
    assert code.oid("main") != base
    (found,) = query.list_workflows(context_of(code), environment())
    assert (found.state, nodes_of(found)) == ("interrupted", ["N0"])
    ended = resume(code, found.id)
    assert (ended.state, nodes_of(ended), ended.words) == ("waiting", ["N0", "N1"], ["abort", "retry"])
    assert ended.reason is not None
    assert ended.reason.startswith("the protected branch 'main' was moved")
    assert ended.reason.endswith("set back")
    assert code.oid("main") == base


def test_second_process_on_a_workflow_is_refused(repo: Repo, tmp_path: Path) -> None:
    """The second is refused while the first is at work."""
    code = project(repo)
    gate = tmp_path / "gate"
    agent = script(
        tmp_path,
        scaffold=[
            {
                "run": f"touch '{gate}'; while [ -e '{gate}' ]; do sleep 0.05; done",
                "write": {"tests/test_more.py": TESTS, "calc/more.py": WRONG.replace("number\n", "None\n")},
            }
        ],
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.tdd_worker", str(code.path), "start", agent],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not gate.exists():
        assert process.poll() is None
    (found,) = query.list_workflows(context_of(code), environment())
    assert (found.state, found.node) == ("running", "N1_scaffold_tests")
    with pytest.raises(Exception, match="another process works"):
        resume(code, found.id)
    with pytest.raises(Exception, match="unfinished workflow"):
        start(code, agent)
    gate.unlink()
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "merged\n")
