"""What a run is to do: options, files, the document that is kept of it, and what is said of each wrong value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos.errors import UsageError
from git_agentos.run import spec
from git_agentos.run.spec import RunSpec, StepSpec

AGENT = StepSpec(kind="agent", command="fix it")

WHOLE = """\
id = "T-42-1"
task = "T-42"
from = "main"
max-attempts = 3
on-failure = "rollback"
retry-from = "pre_run"
timeout = "30m"
protected = ["main", "release/*"]
guard = false

[[step]]
kind = "agent"
command = 'claude -p "$(cat task.md)"'

[[step]]
kind = "checkpoint"
message = "the agent is done"

[[step]]
kind = "validate"
command = "make test"
timeout = 90

[[step]]
kind = "rollback"
to = "step:2"
"""


def test_agents_come_before_validations() -> None:
    found = spec.from_options(["a", "b"], ["make test"], task="T-1", max_attempts=2, timeout=1.5, protected=("main",))
    assert found == RunSpec(
        steps=(
            StepSpec(kind="agent", command="a"),
            StepSpec(kind="agent", command="b"),
            StepSpec(kind="validate", command="make test"),
        ),
        task="T-1",
        max_attempts=2,
        timeout=1.5,
        protected=("main",),
    )


def test_missing_values_are_defaults() -> None:
    assert spec.from_options(["fix it"], [], task=None, guard=None, protected=None) == RunSpec(steps=(AGENT,))


def test_a_file_has_everything(tmp_path: Path) -> None:
    assert spec.from_file(_file(tmp_path, WHOLE)) == RunSpec(
        steps=(
            StepSpec(kind="agent", command='claude -p "$(cat task.md)"'),
            StepSpec(kind="checkpoint", message="the agent is done"),
            StepSpec(kind="validate", command="make test", timeout=90.0),
            StepSpec(kind="rollback", to="step:2"),
        ),
        run_id="T-42-1",
        task="T-42",
        base_ref="main",
        max_attempts=3,
        on_failure="rollback",
        retry_from="pre_run",
        timeout=1800.0,
        protected=("main", "release/*"),
        guard=False,
    )


def test_an_option_wins_over_the_file(tmp_path: Path) -> None:
    found = spec.from_file(_file(tmp_path, WHOLE), run_id="other", max_attempts=1, guard=True, task=None)
    assert (found.run_id, found.max_attempts, found.guard, found.task) == ("other", 1, True, "T-42")


def test_a_key_is_an_option_or_its_field_name(tmp_path: Path) -> None:
    text = 'max_attempts = 2\nprotected = "main, release/*"\n[[step]]\nkind = "agent"\ncommand = "fix it"\n'
    assert spec.from_file(_file(tmp_path, text)) == RunSpec(
        steps=(AGENT,), max_attempts=2, protected=("main", "release/*")
    )


KINDS = "'agent', 'validate', 'rollback', 'checkpoint'"
STEP = '[[step]]\nkind = "agent"\ncommand = "x"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-attempts = 0\n" + STEP, "'max-attempts' in '{}' takes a number from 1 to 1000, not '0'"),
        ("max-attempts = true\n" + STEP, "'max-attempts' in '{}' takes a number from 1 to 1000, not 'true'"),
        ('on-failure = "stop"\n' + STEP, "'on-failure' in '{}' takes 'rollback' or 'keep', not 'stop'"),
        ('retry-from = "main"\n' + STEP, "'retry-from' in '{}' takes 'here' or 'pre_run', not 'main'"),
        ('timeout = "soon"\n' + STEP, "'timeout' in '{}': 'soon' is not a time limit"),
        ("timeout = 0\n" + STEP, "'timeout' in '{}' takes a time limit such as 90s or 30m, not '0'"),
        ("timeout = inf\n" + STEP, "'timeout' in '{}' takes a time limit such as 90s or 30m, not 'inf'"),
        ("protected = [1]\n" + STEP, "'protected' in '{}' takes one line of text, not '1'"),
        ("protected = 1\n" + STEP, "'protected' in '{}' takes names of branches, not '1'"),
        ('guard = "no"\n' + STEP, "'guard' in '{}' takes true or false, not 'no'"),
        ('task = "a\\nb"\n' + STEP, "'task' in '{}' takes one line of text, not 'a\nb'"),
        ('id = "../x"\n' + STEP, "'../x' ('id' in '{}') is not a run id"),
        ("agent = 1\n" + STEP, "'agent' in '{}' is not known"),
        ("max-attempts = 1\nmax_attempts = 1\n" + STEP, "'max_attempts' in '{}' is there twice"),
        ("step = 1\n", "'step' in '{}' is not a list of tables"),
        ("", "there is no agent to run in '{}'"),
        ('[[step]]\nkind = "validate"\ncommand = "x"\n', "there is no agent to run in '{}'"),
        ('[[step]]\ncommand = "x"\n', f"'kind of step 1' in '{{}}' takes {KINDS}, not 'null'"),
        (STEP + '[[step]]\nkind = "merge"\n', f"'kind of step 2' in '{{}}' takes {KINDS}, not 'merge'"),
        ('[[step]]\nkind = "agent"\n', "'command of step 1' in '{}' is missing"),
        ('[[step]]\nkind = "agent"\ncommand = " "\n', "'command of step 1' in '{}' takes a text, not ' '"),
        ('[[step]]\nkind = "agent"\ncommand = "x"\nto = "y"\n', "'to of step 1' in '{}' is not known"),
        ('[[step]]\nkind = "rollback"\n', "'to of step 1' in '{}' is missing"),
        (STEP + '[[step]]\nkind = "rollback"\nto = "step:2"\n', "'to of step 2' in '{}' takes 'pre_run' or a step"),
        (STEP + '[[step]]\nkind = "rollback"\nto = "step:0"\n', "'to of step 2' in '{}' takes 'pre_run' or a step"),
        ('[[step]]\nkind = "agent"\ncommand = "x"\ntimeout = -1\n', "'timeout of step 1' in '{}' takes a time limit"),
        ("timeout = 2020-01-01\n" + STEP, "'timeout' in '{}' takes a time limit"),
        (f"timeout = 1{'0' * 400}\n" + STEP, "'timeout' in '{}' takes a time limit"),
        ("id = 07:32:00\n" + STEP, "'id' in '{}' takes one line of text"),
        ("[[step]]\nkind = [1]\n", f"'kind of step 1' in '{{}}' takes {KINDS}, not '[1]'"),
        ("[[step]]\nkind = {a = 2020-01-01}\n", f"'kind of step 1' in '{{}}' takes {KINDS}, not '"),
        ("x = [", "'{}' is not TOML: "),
    ],
)  # fmt: skip
def test_a_file_is_told_what_is_wrong_in_it(tmp_path: Path, text: str, message: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(UsageError, match=re.escape(message.format(path))):
        spec.from_file(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"on_failure": "x"}, "--on-failure takes 'rollback' or 'keep', not 'x'"),
        ({"max_attempts": 0}, "--max-attempts takes a number from 1 to 1000, not '0'"),
        ({"run_id": "x" * 61}, f"'{'x' * 61}' (--id) is too long for a run's id"),
        ({"run_id": "a b"}, "'a b' (--id) is not a run id"),
        ({"base_ref": ""}, "--from takes one line of text, not ''"),
    ],
)
def test_an_option_is_told_what_is_wrong_with_it(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        spec.from_options(["fix it"], [], **fields)


def test_a_wrong_option_beside_a_file_is_called_by_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("--max-attempts takes a number")):
        spec.from_file(_file(tmp_path, WHOLE), max_attempts=0)


@pytest.mark.parametrize(("agents", "message"), [([], "there is no agent to run"), ([""], "--agent takes a text")])
def test_there_has_to_be_an_agent(agents: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec.from_options(agents, ["make test"])


def test_missing_or_binary_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: no such file or directory"):
        spec.from_file(str(tmp_path / "none.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"task = '\xff'\n")
    with pytest.raises(UsageError, match="is not TOML"):
        spec.from_file(str(tmp_path / "bytes.toml"))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1.5h", 5400), ("1d", 86400), (" 2 m ", 120)]
)
def test_durations(text: str, seconds: float) -> None:
    assert spec.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "0", "0.0h", "1w", "1 minute", "1e3", "inf", "nan", "\u0661"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time limit"):
        spec.duration(text)


_LINES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
_SECONDS = st.none() | st.floats(min_value=0.001, max_value=1e9)
_STEPS = st.lists(
    st.one_of(
        st.builds(StepSpec, kind=st.sampled_from(["agent", "validate"]), command=_LINES, timeout=_SECONDS),
        st.builds(StepSpec, kind=st.just("checkpoint"), message=st.none() | _LINES),
        st.builds(StepSpec, kind=st.just("rollback"), to=st.sampled_from(["pre_run", "step:1"])),
    ),
    max_size=5,
)


@given(
    st.builds(
        RunSpec,
        steps=_STEPS.map(lambda steps: (AGENT, *steps)),
        run_id=st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}", fullmatch=True),
        task=st.none() | _LINES,
        base_ref=st.none() | _LINES,
        max_attempts=st.integers(1, 1000),
        on_failure=st.sampled_from(["keep", "rollback"]),
        retry_from=st.sampled_from(["here", "pre_run"]),
        timeout=_SECONDS,
        protected=st.none() | st.lists(st.sampled_from(["main", "release/*"])).map(tuple),
        guard=st.booleans(),
    )
)
def test_kept_document_is_the_spec(wanted: RunSpec) -> None:
    assert spec.from_json(spec.to_json(wanted), "spec.json") == wanted


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "agentos.run-spec.v1"}'])
def test_invalid_kept_document_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"spec\.json"):
        spec.from_json(text, "spec.json")


def _file(folder: Path, text: str) -> str:
    path = folder / "run.toml"
    path.write_text(text)
    return str(path)
