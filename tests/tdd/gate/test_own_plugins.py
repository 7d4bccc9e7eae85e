"""What git-agentos' own environment has of pytest's plugins changes nothing for a project that has none of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
import venv
from pathlib import Path

from git_agentos import open_workspace
from git_agentos.tdd.gate import python
from git_agentos.tdd.gate.pytest_run import run_pytest
from git_agentos.tdd.gate.setup import prepare
from tests.support.env import PROJECT_ROOT
from tests.support.lean_python import site_packages
from tests.support.repo import Repo

SEES = """\
def test_it(request):
    manager = request.config.pluginmanager
    names = ("anyio", "langsmith_plugin", "hypothesispytest", "xdist", "xdist.looponfail")
    assert [each for each in names if manager.hasplugin(each)] == []
    assert manager.hasplugin("agentos_evidence") and manager.hasplugin("terminal")
"""


def test_a_project_without_an_environment(repo: Repo) -> None:
    repo.write("tests/test_it.py", SEES)
    here = open_workspace(repo.path).context
    outside = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    for environment in (outside, {**outside, "VIRTUAL_ENV": sys.prefix}):
        found = prepare(here, environment, timeout=120, mark=uuid.uuid4().hex)
        assert "anyio" in found.interpreter.hidden_plugins
        tested = run_pytest(found, ())
        assert (tested.exit_code, [each.outcome for each in tested.cases or ()]) == (0, ["passed"]), tested.output


def test_a_project_with_one_has_its_plugins(repo: Repo) -> None:
    here = open_workspace(repo.path).context
    repo.config("agentos.tdd.python", sys.executable)
    here = open_workspace(repo.path).context
    found = prepare(here, os.environ, timeout=60, mark=uuid.uuid4().hex)
    assert found.interpreter.hidden_plugins == ()


def installed(folder: Path, name: str, *, needs: tuple[str, ...] = (), plugin: str = "", **files: str) -> None:
    """Something that is installed, as far as its metadata tell it."""
    there = site_packages(folder) / f"{name}-1.dist-info"
    there.mkdir()
    rows = [f"Requires-Dist: {each}\n" for each in needs]
    (there / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{''.join(rows)}")
    if plugin:
        (there / "entry_points.txt").write_text(f"[pytest11]\n{plugin} = {plugin}_module\n")
    for file, text in files.items():
        (there / file.replace("_json", ".json")).write_text(text)


def hidden(folder: Path) -> list[str]:
    load = "import json, sys; from git_agentos.tdd.gate import python"
    script = f"{load}; print(json.dumps(python.plugins_of_git_agentos(sys.executable)))"
    env = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    done = subprocess.run(
        [folder / "bin/python", "-c", script], env=env, check=True, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    found: list[str] = json.loads(done.stdout)
    return found


def test_plugins_installed_only_for_git_agentos(tmp_path: Path) -> None:
    venv.create(tmp_path / "e", symlinks=True, with_pip=False)
    folder = tmp_path / "e"
    installed(folder, "git_agentos", needs=("typer", "Brings.It >= 2; extra == 'tdd'", "both"), REQUESTED="")
    tests = "for-tests; extra == 'test'"
    installed(folder, "brings-it", needs=("deeper (>1)", tests), plugin="brought", REQUESTED="")
    installed(folder, "deeper", plugin="deep")
    installed(folder, "for-tests", plugin="injected")
    installed(folder, "both", plugin="both")
    installed(folder, "theirs", needs=("both",), plugin="theirs")
    installed(folder, "asked-for", plugin="asked", REQUESTED="")
    assert hidden(folder) == ["brought", "deep"]
    (site_packages(folder) / "git_agentos-1.dist-info/direct_url.json").write_text('{"dir_info": {"editable": true}}')
    assert hidden(folder) == ["asked", "both", "brought", "deep", "injected", "theirs"]


def test_other_interpreter_loads_none_of_our_plugins(tmp_path: Path) -> None:
    venv.create(tmp_path / "e", symlinks=True, with_pip=False)
    assert python.plugins_of_git_agentos(str(tmp_path / "e/bin/python")) == ()
    assert python.plugins_of_git_agentos(sys.executable) != ()
