"""One run of pytest: its exit code, what it said, its cases, and that nothing is left of it."""

from __future__ import annotations

import fcntl
import getpass
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from git_agentos.errors import RepositoryError
from git_agentos.process import contained, marked
from git_agentos.tdd import run_pytest_subprocess
from git_agentos.tdd.gate import pytest_run
from git_agentos.tdd.state import ExitCode
from tests.support.pytest_project import outcomes, pytest_project, run_tests, setup_of
from tests.support.repo import Repo
from tests.support.state import complete_state


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained, "GRACE", 0.3)


@pytest.fixture
def project(tmp_path: Path) -> Repo:
    return pytest_project(tmp_path)


EVERYTHING = """\
import unittest

import pytest


@pytest.fixture
def broken():
    raise ValueError("up")


@pytest.fixture
def leaving():
    yield
    raise ValueError("down")


def test_passes(): pass
def test_fails(): assert 1 == 2
def test_setup(broken): pass
def test_teardown(leaving): pass
def test_both(leaving): assert 0
@pytest.mark.skip(reason="later")
def test_skips(): pass
def test_skips_inside(): pytest.skip("now")
@pytest.mark.xfail
def test_xfails(): assert 0
@pytest.mark.xfail
def test_xpasses(): pass
@pytest.mark.xfail(strict=True)
def test_xpasses_strictly(): pass
@pytest.mark.parametrize("x", ["a::b", "[", "/", " ä\\n"])
def test_with(x): pass
class TestOuter:
    class TestInner:
        def test_method(self): pass
class TestOld(unittest.TestCase):
    def test_parts(self):
        with self.subTest("one"): self.assertEqual(1, 2)
"""


def test_every_outcome_by_its_exact_node_id(project: Repo) -> None:
    project.write("tests/sub dir/test_all-of'em.py", EVERYTHING)
    found = run_tests(project)
    inside = "tests/sub dir/test_all-of'em.py::"
    assert outcomes(found) == {
        inside + "test_passes": pytest_run.PASSED,
        inside + "test_fails": pytest_run.FAILED,
        inside + "test_setup": pytest_run.ERROR,
        inside + "test_teardown": pytest_run.ERROR,
        inside + "test_both": pytest_run.FAILED,
        inside + "test_skips": pytest_run.SKIPPED,
        inside + "test_skips_inside": pytest_run.SKIPPED,
        inside + "test_xfails": pytest_run.XFAILED,
        inside + "test_xpasses": pytest_run.PASSED,
        inside + "test_xpasses_strictly": pytest_run.FAILED,
        inside + "test_with[a::b]": pytest_run.PASSED,
        inside + "test_with[[]": pytest_run.PASSED,
        inside + "test_with[/]": pytest_run.PASSED,
        inside + "test_with[ \\xe4\\n]": pytest_run.PASSED,
        inside + "TestOuter::TestInner::test_method": pytest_run.PASSED,
        inside + "TestOld::test_parts": pytest_run.FAILED,
    }
    assert found.exit_code == 1
    assert {case.path for case in found.cases or ()} == {inside[:-2]}
    assert not any(case.collecting for case in found.cases or ())
    assert "test_fails FAILED" in found.output
    assert (found.canary, found.interrupted, found.foreign) == (None, False, ())


def test_names_may_be_any_bytes(project: Repo) -> None:
    project.write(b"te sts/test_\xff.py", "def test_a(): assert 0\n")
    found = run_tests(project)
    name = os.fsdecode(b"te sts/test_\xff.py")
    assert [(case.node_id, case.path) for case in found.cases or ()] == [(f"{name}::test_a", name)], found.output
    assert run_tests(project, f"{name}::test_a").exit_code == 1
    project.write(b"te sts/test_\xff.py", "import nowhere\n")
    found = run_tests(project)
    assert (found.exit_code, [case.collecting for case in found.cases or ()]) == (2, [True]), found.output


def test_node_ids_can_be_given_again(project: Repo) -> None:
    project.write("tests/test_a.py", EVERYTHING)
    project.write("-v/@test_b.py", "def test_b(): pass\n")
    project.write("@x/test_c.py", "def test_c(): pass\n")
    wanted = ["tests/test_a.py::test_with[a::b]", "tests/test_a.py::TestOuter", "-v/@test_b.py", "@x"]
    assert list(outcomes(run_tests(project, *wanted))) == [
        "tests/test_a.py::test_with[a::b]",
        "tests/test_a.py::TestOuter::TestInner::test_method",
        "-v/@test_b.py::test_b",
        "@x/test_c.py::test_c",
    ]


def test_node_ids_are_relative_to_the_worktree_wherever_the_configuration_is(project: Repo) -> None:
    project.write("parts/one/pytest.ini", "[pytest]\naddopts = -x -q\n")
    project.write("parts/one/tests/test_a.py", "def test_a(): assert 0\ndef test_b(): assert 0\n")
    found = run_tests(project, "parts/one/tests")
    inside = "parts/one/tests/test_a.py::"
    assert outcomes(found) == {
        inside + "test_a": pytest_run.FAILED,
        inside + "test_b": pytest_run.FAILED,
    }  # in spite of -x


@pytest.mark.parametrize(
    ("text", "code", "cases"),
    [
        ("import nowhere\n", 2, {"tests/test_a.py": pytest_run.ERROR}),
        ("def test(:\n", 2, {"tests/test_a.py": pytest_run.ERROR}),
        ("import pytest\npytest.skip('all', allow_module_level=True)\n", 5, {"tests/test_a.py": pytest_run.SKIPPED}),
        ("X = 1\n", 5, {}),
        ("import sys\nsys.exit(0)\n", 3, None),
        ("import pytest\ndef test(): pytest.exit('now', 0)\n", 0, {}),
        ("import os\nos._exit(0)\n", 0, None),
        ("import os\ndef test(): os._exit(1)\n", 1, None),
        ("import os\ndef test(): os.kill(os.getpid(), 9)\n", 128 + signal.SIGKILL, None),
    ],
)  # fmt: skip
def test_runs_without_results(project: Repo, text: str, code: int, cases: dict[str, str] | None) -> None:
    project.write("tests/test_a.py", text)
    found = run_tests(project)
    assert found.exit_code == code, found.output
    if cases is None:
        assert found.cases is None or code == 3
    else:
        assert outcomes(found) == cases
        assert all(case.collecting for case in found.cases or ())


def test_bad_usage(project: Repo) -> None:
    project.write("tests/test_a.py", "def test(): pass\n")
    found = run_tests(project, "tests/test_none.py")
    assert (found.exit_code, found.cases) == (4, ())
    project.write("conftest.py", "import nowhere\n")
    found = run_tests(project)
    assert (found.exit_code, found.cases) == (4, None)
    assert "No module named 'nowhere'" in found.output


def test_an_error_while_collecting_says_what_was_raised(project: Repo) -> None:
    project.write("tests/test_a.py", "from nowhere import x\n")
    found = run_tests(project)
    assert [case.message for case in found.cases or ()] == ["ModuleNotFoundError: No module named 'nowhere'"]


def test_deselected_tests_are_absent(project: Repo) -> None:
    project.write("pytest.ini", "[pytest]\naddopts = -k 'not other'\n")
    project.write("test_a.py", "def test_one(): pass\ndef test_other(): assert 0\n")
    found = run_tests(project, canary=True)
    assert outcomes(found) == {"test_a.py::test_one": pytest_run.PASSED, str(found.canary): pytest_run.FAILED}


# -- what cannot be believed -------------------------------------------------------------------------------------------

FORGED = """\
import json, os
def test_a():
    folder = os.environ["PYTEST_DEBUG_TEMPROOT"]
    forged = {"token": "", "cases": [["test_a.py::test_a", "passed", "", False]], "plugins": ["x", 1], "foreign": 7}
    with open(os.path.join(folder, "1.json"), "w") as file:
        json.dump(forged, file)
    with open(os.path.join(folder, "2.json"), "w") as file:
        file.write("[")
    os.mkfifo(os.path.join(folder, "3.json"))
    os.mkdir(os.path.join(folder, "4.json"))
    os.symlink("/dev/zero", os.path.join(folder, "5.json"))
    os.mkdir(os.path.join(folder, "locked"), 0)
    assert not os.path.exists(os.path.join(folder, "token"))
    os._exit(0)
"""


def test_results_without_the_token_are_ignored(project: Repo) -> None:
    project.write("test_a.py", FORGED)
    found = run_tests(project)
    assert (found.exit_code, found.cases, found.plugins, found.foreign) == (0, None, ("x",), ())


def test_a_report_that_the_project_configures_is_not_written_to_the_worktree(project: Repo) -> None:
    project.write("pytest.ini", "[pytest]\naddopts = --junitxml=report.xml\n")
    project.write("test_a.py", "def test_a(): pass\n")
    assert run_tests(project).exit_code == 0
    assert not project.exists("report.xml")


def test_the_canary_has_to_fail(project: Repo) -> None:
    project.write("test_a.py", "def test_a(): pass\n")
    honest = run_tests(project, canary=True)
    assert honest.exit_code == 1
    assert outcomes(honest) == {"test_a.py::test_a": pytest_run.PASSED, str(honest.canary): pytest_run.FAILED}
    project.write("conftest.py", "def pytest_sessionfinish(session): session.exitstatus = 0\n")
    assert run_tests(project, canary=True).exit_code == 0
    project.write("conftest.py", "def pytest_runtest_call(item): item.runtest = lambda: None\n")
    forced = run_tests(project, canary=True)
    assert (forced.exit_code, outcomes(forced)[str(forced.canary)]) == (0, pytest_run.PASSED)
    assert forced.canary != honest.canary


def test_modules_of_the_worktree_do_not_replace_pytest(project: Repo) -> None:
    forged = "import os\nos._exit(0)\n"
    for name in ("pytest", "_pytest", "pluggy", "json", "agentos_evidence", "sitecustomize", "usercustomize"):
        project.write(f"{name}.py", forged)
    project.write("test_a.py", "def test_a(): assert 0\n")
    found = run_tests(project, "test_a.py")
    assert (found.exit_code, outcomes(found)) == (1, {"test_a.py::test_a": pytest_run.FAILED})


PLANT = """\
import importlib._bootstrap_external as loading, importlib.util as util, inspect, os, pathlib, sys
source, text, kind = sys.argv[1:]
made, code, target = os.stat(source), compile(text, source, "exec"), pathlib.Path(util.cache_from_source(source))
data = loading._code_to_timestamp_pyc(code, int(made.st_mtime), made.st_size)
if kind == "pytest":
    import pytest
    from _pytest.assertion import rewrite
    target = target.with_name(target.name.replace(".pyc", f"-pytest-{pytest.__version__}.pyc"))
    if "source_hash" in inspect.getsource(rewrite._read_pyc):
        data = loading._code_to_hash_pyc(code, util.source_hash(pathlib.Path(source).read_bytes()), True)
target.parent.mkdir(exist_ok=True)
target.write_bytes(data)
"""


def planted(python: str, source: Path, text: str, kind: str) -> None:
    """Compile `text`, and put it where what is compiled of `source` is looked for, by Python or by pytest."""
    subprocess.run([python, "-c", PLANT, str(source), text, kind], check=True)


def test_compiled_files_do_not_replace_their_source(project: Repo) -> None:
    project.write("pkg/__init__.py", "")
    project.write("pkg/code.py", "X = 1\n")
    project.write("tests/helper.py", "Y = 1\n")
    project.write("tests/test_a.py", "import helper\nfrom pkg.code import X\ndef test_a(): assert X + helper.Y == 4\n")
    python = setup_of(project).interpreter.path
    for name, text in (("pkg/code.py", "X = 2\n"), ("tests/helper.py", "Y = 2\n")):
        planted(python, project.path / name, text, "python")
    planted(python, project.path / "tests/test_a.py", "def test_a(): pass\n", "pytest")
    found = run_tests(project)
    assert "assert (1 + 1) == 4" in found.output
    project.remove("pkg/code.py")
    os.rename(next(project.path.glob("pkg/__pycache__/code*")), project.path / "pkg" / "code.pyc")
    assert "has no source" in run_tests(project).output


def test_plugins_are_told_by_names_that_stay(project: Repo) -> None:
    project.write("helper.py", "")
    project.write("pytest.ini", "[pytest]\naddopts = -p helper\n")
    project.write("tests/conftest.py", "class Odd: pass\ndef pytest_configure(config):\n"
                  "    config.pluginmanager.register(Odd())\n")  # fmt: skip
    project.write("tests/test_a.py", "def test_a(): pass\n")
    first, second = run_tests(project, "tests"), run_tests(project, "tests")
    assert first.exit_code == 0, first.output
    assert first.plugins == second.plugins
    assert {"helper", "tests/conftest.py", "tests.conftest.Odd", "junitxml"} - {"tests.conftest.Odd"} <= set(
        first.plugins
    )
    assert any(each.endswith("conftest.Odd") for each in first.plugins)
    assert not any("agentos" in each or each.isdigit() for each in first.plugins)


# -- what it gets ------------------------------------------------------------------------------------------------------


def test_environment_has_no_keys_and_no_pytest_options(project: Repo, tmp_path: Path) -> None:
    written = tmp_path / "environment"
    project.write("test_a.py", f"import os\ndef test_a(): open({str(written)!r}, 'w').write(repr(dict(os.environ)))\n")
    hostile = {
        "PYTEST_ADDOPTS": "--collect-only", "PYTEST_PLUGINS": "nowhere", "PYTHONOPTIMIZE": "2",
        "PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere", "GIT_DIR": "/nowhere", "AGENTOS_AGENT_ID": "x",
        "ANTHROPIC_API_KEY": "k", "openai_base_url": "http://x", "MY_TOKEN": "t", "SSH_AUTH_SOCK": "/nowhere",
        "URL": "https://u:hunter22@host/",
        "ODD": "ghp_" + "a" * 36, "LANG": "C.UTF-8", "KEEP": "this", "PWD": "/nowhere",
    }  # fmt: skip
    setup = setup_of(project, {**os.environ, **hostile})
    found = pytest_run.run_pytest(setup, ())
    assert found.exit_code == 0, found.output
    got: dict[str, str] = eval(written.read_text())
    assert {name for name in got if name in hostile} == {"PYTHONPATH", "LANG", "KEEP", "PWD"}
    assert got["PYTHONPATH"] == str(project.path)
    assert got["PWD"] == str(project.path)
    assert got["PYTHONDONTWRITEBYTECODE"] == "1"
    assert [name for name in got if name.startswith("AGENTOS_")] == [marked.MARK]


def test_passed_variables_reach_tests_and_are_redacted(project: Repo) -> None:
    project.config("agentos.tdd.passEnvironment", "DATABASE_URL, DB_PASSWORD GIT_DIR")
    project.write("test_a.py", "import os\ndef test_a(): print(os.environ['DB_PASSWORD']); assert 0\n"
                  "def test_b(): assert 'hunter' in os.environ['DATABASE_URL']\n"
                  "def test_c(): assert 'GIT_DIR' not in os.environ\n")  # fmt: skip
    extra = {"DATABASE_URL": "postgresql://u:hunter22@h/d", "DB_PASSWORD": "correct horse", "GIT_DIR": "/nowhere"}
    found = pytest_run.run_pytest(setup_of(project, {**os.environ, **extra}), ())
    assert outcomes(found) == {
        "test_a.py::test_a": pytest_run.FAILED,
        "test_a.py::test_b": pytest_run.PASSED,
        "test_a.py::test_c": pytest_run.PASSED,
    }
    assert "correct horse" not in found.output
    assert "[redacted]" in found.output


def test_run_leaves_no_file_in_the_worktree(project: Repo) -> None:
    project.write("pytest.ini", "[pytest]\naddopts = --strict-config --ff\ncache_dir = .cache/tests\n")
    project.write("pkg/__init__.py", "")
    project.write("test_a.py", "import pkg\ndef test_a(): pass\n")
    project.commit("all")
    before = complete_state(project.path)
    assert run_tests(project).exit_code == 0
    assert complete_state(project.path) == before
    assert project.git("status", "--porcelain", "--ignored") == b""
    project.write("pytest.ini", "[pytest]\naddopts = --strict-config -p no:cacheprovider\nfilterwarnings = error\n")
    assert run_tests(project).exit_code == 0


def test_temporary_folders_are_its_own(project: Repo, tmp_path: Path) -> None:
    """pytest removes those of earlier runs when it ends: all but the last three, in our time limit."""
    shared = tmp_path / "temporary"
    for name in (f"pytest-{number}" for number in range(6)):
        folder = shared / f"pytest-of-{getpass.getuser()}" / name
        folder.mkdir(mode=0o700, parents=True)
        (folder / "file").touch()
    before = sorted(shared.rglob("*"))
    project.write("test_a.py", "def test_a(tmp_path): (tmp_path / 'x').touch(); print(f'in {tmp_path}'); assert 0\n")
    found = pytest_run.run_pytest(setup_of(project, {**os.environ, "TMPDIR": str(shared)}), ())
    assert outcomes(found) == {"test_a.py::test_a": pytest_run.FAILED}
    assert sorted(shared.rglob("*")) == before
    where = next(line.removeprefix("in ") for line in found.output.splitlines() if line.startswith("in "))
    assert not os.path.lexists(where)


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_run_exceeding_the_limit_is_ended(project: Repo) -> None:
    project.write("test_a.py", "import time\ndef test_a(): time.sleep(600)\n")
    for seconds in (3, 60):  # a busy machine may take longer to come to the test
        found = pytest_run.run_pytest(setup_of(project, timeout=float(seconds)), ())
        assert (found.exit_code, found.cases, found.interrupted) == (ExitCode.TIMED_OUT, None, False)
        assert found.output.endswith(f"[git-agentos: ended after {seconds} seconds]\n")
        if "test_a.py::test_a" in found.output:
            break
    assert "test_a.py::test_a" in found.output


def test_run_that_is_stopped(project: Repo) -> None:
    begun = threading.Event()
    project.write("test_a.py", "import time\ndef test_a(): time.sleep(600)\n")
    found = run_tests(project, show=lambda line: begun.set() if b"collected" in line else None, stop=begun.is_set)
    assert (found.interrupted, found.cases) == (True, None)
    assert found.exit_code not in (0, 1)


def test_run_leaves_no_process(project: Repo, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    project.write("test_a.py", "import os, subprocess\ndef test_a():\n"
                  "    child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
                  f"    open({str(told)!r}, 'w').write(str(child.pid))\n    child.returncode = 0\n")  # fmt: skip
    found = run_tests(project)
    assert found.exit_code == 0, found.output
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_folder_of_a_killed_process_is_removed_by_the_next(
    project: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, living, linked = (tmp_path / f"agentos-tests-{name}" for name in ("left", "living", "linked"))
    mine = tmp_path / "mine"
    for folder in (left, living, mine):
        (folder / "results").mkdir(parents=True)
    (left / "results").chmod(0o500)
    linked.symlink_to(mine)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    project.write("test_a.py", "def test_a(): pass\n")
    descriptor = os.open(living, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert run_tests(project).exit_code == 0
    finally:
        os.close(descriptor)
    assert [each.exists() for each in (left, living, linked, mine / "results")] == [False, True, True, True]
    assert len(list(tmp_path.glob("agentos-tests-*"))) == 2


def test_lines_are_shown_while_it_runs(project: Repo, tmp_path: Path) -> None:
    fifo = tmp_path / "go on"
    os.mkfifo(fifo)
    project.write("test_a.py", f"def test_a(): open({str(fifo)!r}).read()\ndef test_b(): pass\n")
    shown: list[bytes] = []

    def show(line: bytes) -> None:
        shown.append(line)
        if b"collected 2 items" in line:
            threading.Thread(target=lambda: fifo.write_text("")).start()

    assert run_tests(project, show=show).exit_code == 0
    assert any(line.startswith(b"test_a.py::test_b PASSED") for line in shown)


def test_output_is_bounded_and_kept(project: Repo, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    project.write(
        "test_a.py", "def test_a():\n    for n in range(60_000): print(f'line {n:06} {\"x\" * 30}')\n    assert 0\n"
    )
    project.write("pytest.ini", "[pytest]\naddopts = --capture=no\n")
    found = run_tests(project, output=str(kept))
    assert found.exit_code == 1
    assert "line 000000 " in found.output
    assert "line 059999 " in found.output
    assert "bytes are left out here]" in found.output
    assert found.output.rstrip().endswith("=")
    assert len(found.output) < (64 << 10) + 200
    limit = pytest_run.FILE_HEAD + pytest_run.FILE_TAIL
    assert limit - 200 <= kept.stat().st_size < limit + 200
    assert kept.read_bytes().count(b"bytes are left out here]") == 1
    project.remove("pytest.ini")
    project.write("test_a.py", "def test_a(): print('\\0 token=ghp_' + 'a' * 36, b'\\xff'); assert 0\n")
    found = run_tests(project, output=str(kept))
    assert kept.read_bytes().decode("utf-8", "replace").replace("\0", "\ufffd") == found.output
    assert "ghp_" not in found.output


def test_missing_worktree_runs_nothing(project: Repo) -> None:
    setup = setup_of(project)
    os.rename(project.path, project.path.parent / "elsewhere")
    found = pytest_run.run_pytest(setup, ())
    assert (found.exit_code, found.cases) == (126, None)


# -- for tools that want nothing else ----------------------------------------------------------------------------------


def test_run_pytest_subprocess(project: Repo, tmp_path: Path) -> None:
    project.write("test_a.py", "def test_a(): assert 0\n")
    code, said = run_pytest_subprocess(str(project.path))
    assert code == 1
    assert "test_a.py::test_a FAILED" in said
    project.write("test_a.py", "def test_a(): pass\n")
    assert run_pytest_subprocess(str(project.path))[0] == 0
    project.write("test_a.py", "import time\ndef test_a(): time.sleep(600)\n")
    began = time.monotonic()
    assert run_pytest_subprocess(str(project.path), timeout=2)[0] == -1
    assert time.monotonic() - began < 120


def test_run_pytest_subprocess_outside_of_a_repository(project: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / ".venv").mkdir(parents=True)
    os.rename(tmp_path / "venv", folder / ".venv2")
    (folder / ".venv").rmdir()
    os.rename(folder / ".venv2", folder / ".venv")
    (folder / "test_a.py").write_text("def test_a(): pass\n")
    code, said = run_pytest_subprocess(str(folder))
    assert (code, "test_a.py::test_a PASSED" in said) == (0, True), said
    with pytest.raises(RepositoryError):
        run_pytest_subprocess(str(tmp_path / "none"))
