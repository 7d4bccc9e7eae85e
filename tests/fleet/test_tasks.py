"""Files of tasks: what is read of them, what is recorded, and what is said where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos.errors import FleetError, UsageError
from git_agentos.fleet import tasks
from git_agentos.fleet.tasks import Task, Tdd
from git_agentos.run.spec import AGENT, CHECKPOINT, VALIDATE, RunSpec, StepSpec

TOML = '''
[[task]]
id = "fix-1"
agent = "echo 1 >f"
validate = ["make test", "make lint"]
base = "main"
max_attempts = 3
time_limit = "30m"
cpus = 2
gpus = 0
memory = "512m"
labels = {zone = "a"}

[[task]]
id = "many"
agent = """
[[task]]
two lines"""
validate = "true"
samples = 2

[[task]]
id = "steps"
steps = [{kind = "agent", command = "a", timeout = "5s"}, {kind = "checkpoint", message = "m"}]

[[task]]
id = "tests"
tdd = {issue = 42, lld = "docs/42.md"}
agent = "anthropic:opus"
'''

JSON = r"""
{"id": "fix-1", "agent": "echo 1 >f", "validate": ["make test", "make lint"], "base": "main", "max_attempts": 3, "time_limit": 1800, "cpus": 2, "gpus": 0, "memory": 536870912, "labels": {"zone": "a"}}

{"id": "many", "agent": "[[task]]\ntwo lines", "validate": "true", "samples": 2}
{"id": "steps", "steps": [{"kind": "agent", "command": "a", "timeout": "5s"}, {"kind": "checkpoint", "message": "m"}]}
{"id": "tests", "tdd": {"issue": "42", "lld": "docs/42.md"}, "agent": "anthropic:opus"}
"""  # noqa: E501 - a task is a line


def spec(id_: str, *commands: str, **fields: object) -> RunSpec:
    kinds = [AGENT] + [VALIDATE] * len(commands[1:])
    steps = tuple(StepSpec(kind, command) for kind, command in zip(kinds, commands, strict=True))
    return RunSpec(steps, task=id_, **fields)  # type: ignore[arg-type]


WANTED = (
    Task(
        "fix-1",
        spec=spec("fix-1", "echo 1 >f", "make test", "make lint", max_attempts=3, timeout=1800.0),
        base="main",
        cpus=2.0,
        gpus=0.0,
        memory=512 << 20,
        labels={"zone": "a"},
    ),
    Task("many.1", "many", spec("many.1", "[[task]]\ntwo lines", "true")),
    Task("many.2", "many", spec("many.2", "[[task]]\ntwo lines", "true")),
    Task(
        "steps",
        spec=RunSpec((StepSpec(AGENT, "a", timeout=5.0), StepSpec(CHECKPOINT, message="m")), task="steps"),
    ),
    Task("tests", tdd=Tdd("42", "docs/42.md", "anthropic:opus")),
)


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.jsonl", JSON), ("a.txt", JSON)])
def test_both_forms_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = tasks.read_file(str(path)).tasks
    assert found == WANTED
    lines = tasks.to_lines(found)
    assert tasks.from_lines(lines, "refs/x") == found
    assert tasks.to_lines(tasks.from_lines(lines, "refs/x")) == lines


_A = 'id = "a"\nagent = "true"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'t' has no task"),
        ("[[task]]\nagent = 'x'", "'t', line 1: this task has no 'id'"),
        (f"\n[[task]]\n{_A}[[task]]\n{_A}", "'t', line 6: the task 'a' is there already in line 2"),
        (f"[[task]]\n{_A}[[task]]\nid = 'A'\nagent = 'x'", "'t', line 5: the task 'A' differs only in case"),
        (f"[[task]]\nid = 'a.2'\nagent='x'\n[[task]]\n{_A}samples = 3", "'t', line 5: the task 'a.2' is there already"),
        ("[[task]]\nagent = 'x'\nid = 'a b'", "'t', line 3: 'a b' (id) is not a task id"),
        ("[[task]]\nid = 'a.lock'\nagent = 'x'", "'t', line 2: 'a.lock' (id) is not a task id"),
        (f"[[task]]\nid = '{'a' * 59}'\nagent = 'x'\nsamples = 2", "(id) is not a task id"),
        (f"[[task]]\n{_A}colour = 'red'", "'t', line 4: 'colour' is not known"),
        ("colour = 1", "'t': 'colour' is not known"),
        ("task = 1", "'t': 'task' is not a list of tables"),
        ("[[task]]\nid = 'a'", "'t', line 1: there is no agent to run"),
        (f"[[task]]\n{_A}steps = []", "'t', line 3: 'steps' and 'agent' cannot be used together"),
        ("[[task]]\nid = 'a'\nsteps = [{kind = 'x'}]", "'t', line 3: 'kind of step 1' in 'a' takes"),
        ("[[task]]\nid = 'a'\nsteps = [{kind = 'validate', command = 'x'}]", "'t', line 3: there is no agent to run"),
        (f"[[task]]\n{_A}samples = 0", "'t', line 4: 'samples' takes a number from 1 to 1000, not '0'"),
        (f"[[task]]\n{_A}max-attempts = true", "'t', line 4: 'max_attempts' takes a number from 1 to 1000, not 'true'"),
        (f"[[task]]\n{_A}time_limit = 'soon'", "'t', line 4: 'time_limit': 'soon' is not a time limit"),
        (f"[[task]]\n{_A}memory = '3 apples'", "'t', line 4: 'memory' takes a size such as '512m'"),
        (f"[[task]]\n{_A}cpus = -1", "'t', line 4: 'cpus' takes a number from"),
        (f"[[task]]\n{_A}gpus = nan", "'t', line 4: 'gpus' takes a number from"),
        (f"[[task]]\n{_A}labels = ['a']", "'t', line 4: 'labels' takes a table of texts"),
        (f"[[task]]\n{_A}labels.zone = 1", "'t', line 4: 'labels' takes a table of texts"),
        (f"[[task]]\n{_A}[task.labels]\nzone = 1", "'t', line 4: 'labels' takes a table of texts"),
        (f"[[task]]\n{_A}validate = 7", "'t', line 4: 'validate' takes a text or a list of texts"),
        (f"[[task]]\n{_A}tdd = {{lld = 'x'}}", "'t', line 4: 'tdd' takes a table with 'issue'"),
        (f"[[task]]\n{_A}tdd = {{issue = 'x'}}", "'t', line 4: 'tdd' takes a table with 'issue' and 'lld'"),
        ("[[task]]\nid = 'a'\ntdd = {issue = 'x', lld = 'y'}", "'t', line 3: there is no agent to write tests"),
        (f"[[task]]\n{_A}tdd = {{issue = '/', lld = 'y'}}", "'t', line 4: '/' is not an issue id"),
        ("[[task]]\nid = 'a'\ntdd = {issue = 'x'}\nvalidate = 'x'", "'t', line 4: 'tdd' and 'validate' cannot be used"),
        ("task = [{id = 'a', agent = 'x', colour = 1}]", "'t': 'colour' is not known"),
        ("[[task]", "'t' is not TOML: "),
        ('{"id": "a", "agent": "x"}\n\n{', "'t', line 3: this is not JSON"),
        ('{"id": "a", "agent": "x"}\n[]', "'t', line 2: this is no object"),
        ('{"id": "a", "id": "b", "agent": "x"}', "'t', line 1: 'id' is there twice"),
        ('{"id": "a", "agent": "x", "labels": {"b": "1", "b": "2"}}', "'t', line 1: 'b' is there twice"),
        ('{"id": "a", "agent": "\\ud800"}', "'t', line 1: 'agent' takes a text"),
        ('{"id": "a", "agent": "x\\u0000"}', "'t', line 1: 'agent' takes a text"),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t").write_text(text)
    with pytest.raises(UsageError) as raised:
        tasks.read_file("t")
    assert said in raised.value.message


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: no such file"):
        tasks.read_file(str(tmp_path / "t"))
    (tmp_path / "t").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        tasks.read_file(str(tmp_path / "t"))


GOOD = b'{"id": "a", "max_attempts": 1, "steps": [{"command": "x", "kind": "agent"}]}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"x\n",
        b"[]\n",
        b"{}\n",
        GOOD[:-1],
        GOOD + GOOD,
        GOOD.replace(b'"a"', b'"../a"'),
        GOOD.replace(b'"id"', b'"colour": 1, "id"'),
        GOOD.replace(b'"max_attempts": 1', b'"max_attempts": "1"'),
        GOOD.replace(b'"id": "a"', b'"cpus": "2", "id": "a"'),
        GOOD.replace(b'"id": "a"', b'"id": "a", "labels": {"x": 1}'),
        GOOD.replace(b'"id": "a"', b'"id": "a", "labels": 7'),
        GOOD.replace(b', "steps": [{"command": "x", "kind": "agent"}]', b""),
        GOOD.replace(b"agent", b"other"),
    ],
)
def test_recorded_tasks_are_not_trusted(line: bytes) -> None:
    assert tasks.from_lines(GOOD, "refs/x")
    with pytest.raises(FleetError, match="'refs/x' is damaged"):
        tasks.from_lines(line, "refs/x")
