"""Shell text that hands workers to another program."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest

from git_agentos.errors import FleetError, UsageError
from git_agentos.fleet.engines.command import CommandEngine, expand
from git_agentos.fleet.engines.port import Order
from tests.support.waiting import wait_until

_WORDS = ("git-agentos", "fleet", "worker", "f", "it's a task", "--remote", "$HOME/`x`")


def _engine(template: str, folder: Path) -> CommandEngine:
    return CommandEngine(template, folder=str(folder), environment={"PATH": os.environ["PATH"]})


def test_the_command_is_one_word_of_shell_text(tmp_path: Path) -> None:
    """A program that takes text and has a shell run it gets these words, whatever is in them."""
    engine = _engine('sh -c \'eval "printf \\"%s\\\\n\\" $1" >got\' sh {command}', tmp_path)

    engine.check([])
    engine.start(Order("t", _WORDS))

    assert (tmp_path / "got").read_text().splitlines() == list(_WORDS)
    assert shlex.split(shlex.split(expand("{command}", Order("t", _WORDS)))[0]) == list(_WORDS)


def test_what_stands_for_something() -> None:
    template = "x {cpus} {gpus} {memory} ${name} ${cpus} {other} {a,b}"

    bare, full = (
        expand(template, order)
        for order in (Order("t", _WORDS), Order("t", _WORDS, cpus=0.5, gpus=2.0, memory=(512 << 20) + 1))
    )

    assert bare == "x 1 0 1024 ${name} ${cpus} {other} {a,b}"
    assert full == "x 0.5 2 513 ${name} ${cpus} {other} {a,b}"


def test_names_fit_everywhere_and_differ() -> None:
    def name(task: str, fleet: str = "f") -> str:
        return expand("{name}", Order(task, ("git-agentos", "fleet", "worker", fleet, task)))

    names = [name("fix-1"), name("fix_1"), name("fix-1", "other"), name("A" * 60), name("___")]

    assert len(set(names)) == len(names)
    assert names[0].startswith("agentos-fix-1-")
    for each in names:
        assert len(each) <= 50
        assert set(each) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert each == each.strip("-")


def test_passed_variables_are_in_its_environment_and_not_in_its_words(tmp_path: Path) -> None:
    engine = _engine("tr '\\0' '\\n' </proc/self/cmdline >words; echo $TOKEN >got; : {command}", tmp_path)
    if not os.path.exists("/proc/self/cmdline"):
        pytest.skip("no /proc here")

    engine.start(Order("t", _WORDS, environment={"TOKEN": "open sesame"}))

    assert (tmp_path / "got").read_text() == "open sesame\n"
    assert "sesame" not in (tmp_path / "words").read_text()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("sbatch --wrap command", "the template has no '{command}'"),
        ("sbatch ${command}", "the template has no '{command}'"),
        ("sbatch '{command}", "the template is no shell text: "),
    ],
)
def test_a_template_that_cannot_work_is_refused_first(template: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="^" + message.replace("{", r"\{")):
        _engine(template, tmp_path).check([Order("t", _WORDS)])


def test_a_template_that_fails_is_reported_without_secrets(tmp_path: Path) -> None:
    engine = _engine('echo "no $MY_TOKEN for you" >&2; exit 7; {command}', tmp_path)

    with pytest.raises(FleetError) as caught:
        engine.start(Order("t", _WORDS, environment={"MY_TOKEN": "abcdefghijkl"}))

    assert str(caught.value) == ("the template has failed for the task 't': no [redacted] for you (exit code 7)")


def test_what_was_run_is_told_without_secrets(tmp_path: Path) -> None:
    engine = _engine("echo abcdefghijkl {name} : {command}", tmp_path)
    order = Order("t", _WORDS, environment={"MY_TOKEN": "abcdefghijkl"})
    assert engine.describe("t") is None
    engine.start(order)
    assert engine.describe("t") == expand("echo [redacted] {name} : {command}", order)


def test_it_takes_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for such workers asks again and again."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert _engine("{command}", tmp_path).poll(0.5) == ()
    assert slept == [0.5]


def test_what_it_leaves_running_goes_on_and_nothing_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    engine = _engine("{ read line <go; echo $line >got; } >/dev/null 2>&1 & : {command}", tmp_path)

    engine.start(Order("t", _WORDS))
    engine.cancel("t")
    engine.end()

    assert engine.poll(0) == ()
    assert not engine.reports_ends
    with open(tmp_path / "go", "w") as pipe:
        pipe.write("gone on\n")
    got = tmp_path / "got"
    wait_until(lambda: got.exists() and got.read_text() == "gone on\n", "what it left running has ended with it")
