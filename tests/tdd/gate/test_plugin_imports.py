"""What is installed editable from the main checkout is imported from the worktree, whichever way it was installed.

`pip install -e` is done for real where nothing has to be fetched for it; other ways are written as their tools write
them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from textwrap import dedent

import pytest

from git_agentos import open_workspace
from git_agentos.tdd.gate import pytest_run
from git_agentos.tdd.gate.pytest_run import PytestResult, run_pytest
from git_agentos.tdd.gate.setup import prepare
from tests.support.agents import agent_worktree
from tests.support.lean_python import minimal_venv, site_packages
from tests.support.pytest_project import outcomes
from tests.support.repo import Repo

TEST = """\
import os, subprocess, sys
import {module} as found

def test_here():
    assert found.WHERE == "worktree"
    assert os.path.realpath(found.__file__).startswith(os.getcwd() + os.sep)

def test_below():
    out = subprocess.run([sys.executable, "-c", "import {module} as m; print(m.WHERE)"], cwd="/", capture_output=True)
    assert out.stdout == b"worktree\\n", out.stderr
"""
HERE = {"test_here": pytest_run.PASSED, "test_below": pytest_run.PASSED}


def both(repo: Repo, files: dict[str, str], module: str) -> Repo:
    """A worktree beside the main checkout, which has a `.venv`; in each, the module says where it is."""
    for name, text in files.items():
        repo.write(name, text)
    repo.write(".gitignore", ".venv/\n")
    repo.write("tests/test_it.py", TEST.format(module=module))
    repo.commit("a project")
    dev = agent_worktree(repo, "dev")
    for name, text in files.items():
        dev.write(name, text.replace("main", "worktree"))
    minimal_venv(repo.path / ".venv")
    return dev


def installed(repo: Repo, files: dict[str, str]) -> None:
    """What an installer has put into the main checkout's environment."""
    for name, text in files.items():
        (site_packages(repo.path / ".venv") / name).write_text(text)


def ran(dev: Repo) -> PytestResult:
    here = open_workspace(dev.path).context
    made = prepare(here, os.environ, timeout=60, mark=uuid.uuid4().hex)
    assert made.interpreter.path.endswith("/repo/.venv/bin/python")
    return run_pytest(made, ())


def of_it(found: PytestResult) -> dict[str, str]:
    return {node.partition("::")[2]: outcome for node, outcome in outcomes(found).items()}


def check(dev: Repo) -> None:
    found = ran(dev)
    assert (of_it(found), found.foreign) == (HERE, ()), found.output


FLAT = {"pkg/__init__.py": "WHERE = 'main'\n", "pkg/inner.py": "WHERE = 'main'\n"}
SOURCE = {"src/pkg/__init__.py": "WHERE = 'main'\n"}
ODD = {"lib/python/pkg/__init__.py": "WHERE = 'main'\n"}
MODULE = {"single.py": "WHERE = 'main'\n"}
SPACE = {"code/space/pkg/__init__.py": "WHERE = 'main'\n"}


@pytest.mark.parametrize(("files", "place"), [(FLAT, ""), (SOURCE, "src"), (ODD, "lib/python")])
def test_a_path_file(repo: Repo, files: dict[str, str], place: str) -> None:
    dev = both(repo, files, "pkg")
    installed(repo, {"project.pth": f"{repo.path / place}\n"})
    check(dev)


def test_a_path_file_through_a_link(repo: Repo, tmp_path: Path) -> None:
    dev = both(repo, ODD, "pkg")
    os.symlink(repo.path, tmp_path / "link")
    installed(repo, {"project.pth": f"{tmp_path}/link/lib/python\n"})
    check(dev)


def test_a_namespace(repo: Repo) -> None:
    dev = both(repo, SPACE, "space.pkg")
    repo.write("code/space/only_main.py", "")
    dev.append("tests/test_it.py", "\ndef test_gone():\n    try:\n        import space.only_main\n"
               "    except ImportError:\n        return\n    assert False\n")  # fmt: skip
    installed(repo, {"project.pth": f"{repo.path}/code\n"})
    found = ran(dev)
    assert (of_it(found), found.foreign) == ({**HERE, "test_gone": pytest_run.PASSED}, ()), found.output


def finder(name: str, mapping: dict[str, str], spaces: dict[str, list[str]] | None = None) -> dict[str, str]:
    """The files of an editable project, as setuptools writes them (cut down to what finds)."""
    text = f"""
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import spec_from_file_location
    from pathlib import Path
    MAPPING = {mapping!r}
    NAMESPACES = {spaces or {}!r}

    class _EditableFinder:
        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            if fullname in MAPPING:
                for each in (Path(MAPPING[fullname], "__init__.py"), Path(MAPPING[fullname]).with_suffix(".py")):
                    if each.exists():
                        return spec_from_file_location(fullname, each)
            return None

    class _EditableNamespaceFinder:
        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            if fullname in NAMESPACES:
                spec = PathFinder.find_spec(fullname, NAMESPACES[fullname])
                from importlib.machinery import ModuleSpec
                spec = ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = list(NAMESPACES[fullname])
                return spec
            return None

    def install():
        sys.meta_path.append(_EditableFinder)
        sys.meta_path.append(_EditableNamespaceFinder)
    """
    module = f"__editable___{name}_finder"
    return {f"{module}.py": dedent(text), f"__editable__.{name}.pth": f"import {module}; {module}.install()\n"}


@pytest.mark.parametrize(
    ("files", "module", "path"),
    [(FLAT, "pkg", "pkg"), (SOURCE, "pkg", "src/pkg"), (ODD, "pkg", "lib/python/pkg"), (MODULE, "single", "single")],
)
def test_setuptools_finder(repo: Repo, files: dict[str, str], module: str, path: str) -> None:
    dev = both(repo, files, module)
    installed(repo, finder("project_1_0", {module: f"{repo.path}/{path}"}))
    check(dev)


def test_setuptools_finder_of_a_namespace(repo: Repo) -> None:
    dev = both(repo, SPACE, "space.pkg")
    files = finder("p", {"space.pkg": f"{repo.path}/code/space/pkg"}, {"space": [f"{repo.path}/code/space"]})
    installed(repo, files)
    check(dev)


def test_setuptools_finder_of_a_package_of_another_name(repo: Repo) -> None:
    """Its folder is called otherwise: no path leads to it, only the finder does."""
    dev = both(repo, {"sources/__init__.py": "WHERE = 'main'\n"}, "pkg")
    installed(repo, finder("p", {"pkg": f"{repo.path}/sources"}))
    check(dev)


FIRST = """
import sys
from importlib.util import spec_from_file_location
KNOWN = {known!r}

class Finder:
    def find_spec(self, fullname, path=None, target=None):
        if fullname not in KNOWN:
            return None
        inner = [KNOWN[fullname].rpartition("/")[0]] if KNOWN[fullname].endswith("__init__.py") else None
        return spec_from_file_location(fullname, KNOWN[fullname], submodule_search_locations=inner)

sys.meta_path.insert(0, Finder())
"""


def first(repo: Repo, known: dict[str, str]) -> None:
    """A finder before all others, as those of scikit-build-core and meson-python are."""
    paths = {name: f"{repo.path}/{path}" for name, path in known.items()}
    installed(repo, {"_project_editable.py": FIRST.format(known=paths), "project.pth": "import _project_editable\n"})


@pytest.mark.parametrize("module", ["pkg", "pkg.inner"])
def test_a_finder_before_all_others(repo: Repo, module: str) -> None:
    dev = both(repo, FLAT, module)
    first(repo, {"pkg": "pkg/__init__.py", "pkg.inner": "pkg/inner.py"})
    check(dev)


def test_module_of_the_main_checkout_is_reported(repo: Repo) -> None:
    dev = both(repo, FLAT, "pkg")
    repo.write("pkg/built.py", "WHERE = 'main'\n")
    first(repo, {"pkg": "pkg/__init__.py", "pkg.built": "pkg/built.py"})
    dev.append("tests/test_it.py", "\ndef test_built():\n    import pkg.built\n")
    found = ran(dev)
    assert found.foreign == (f"{repo.path}/pkg/built.py",)
    assert found.exit_code == 0, found.output


def test_a_folder_with_the_name_of_something_installed_does_not_hide_it(repo: Repo) -> None:
    dev = both(repo, {**FLAT, "thing/data.txt": "", "xxsubtype.py": "1/0\n"}, "pkg")
    installed(repo, {"thing.py": "X = 1\n"})
    dev.append(
        "tests/test_it.py", "\ndef test_thing():\n    import thing, xxsubtype\n    assert thing.X and xxsubtype.bench\n"
    )
    found = ran(dev)
    assert found.exit_code == 0, found.output


def test_tests_are_still_rewritten(repo: Repo) -> None:
    dev = both(repo, FLAT, "pkg")
    dev.write("tests/__init__.py", "")
    dev.write("tests/helper.py", "def check(x):\n    assert x == 2\n")
    dev.write("tests/conftest.py", "import pytest\npytest.register_assert_rewrite('tests.helper')\n")
    dev.append("tests/test_it.py", "\ndef test_more():\n    from tests.helper import check\n    check(1)\n")
    found = ran(dev)
    assert "E   assert 1 == 2" in found.output


def test_a_plugin_of_the_project_itself_named_in_its_configuration(repo: Repo) -> None:
    plugin = "import pytest\nWHERE = 'main'\n@pytest.fixture\ndef where():\n    return WHERE\n"
    dev = both(repo, {"src/pkg/__init__.py": "WHERE = 'main'\n", "src/pkg/plugin.py": plugin}, "pkg")
    dev.write("pytest.ini", "[pytest]\naddopts = -p pkg.plugin\n")
    dev.append("tests/test_it.py", "\ndef test_plugin(where):\n    assert where == 'worktree'\n")
    installed(repo, {"project.pth": f"{repo.path}/src\n"})
    found = ran(dev)
    assert (of_it(found), found.foreign) == ({**HERE, "test_plugin": pytest_run.PASSED}, ()), found.output


@pytest.mark.slow
def test_in_several_processes(repo: Repo) -> None:
    """pytest-xdist's: each is arranged, and the report is one."""
    pytest.importorskip("xdist")
    dev = both(repo, SOURCE, "pkg")
    first(repo, {"pkg": "src/pkg/__init__.py"})
    repo.config("agentos.tdd.python", sys.executable)
    dev.write("pytest.ini", "[pytest]\naddopts = -n 2 -p no:hypothesispytest -p no:langsmith_plugin -p no:anyio\n")
    here = open_workspace(dev.path).context
    made = prepare(here, os.environ, timeout=100, mark=uuid.uuid4().hex)
    found = run_pytest(made, (), canary=True)
    assert found.canary is not None
    assert of_it(found) == {**HERE, found.canary[2:]: pytest_run.FAILED}, found.output
    assert (found.exit_code, found.foreign) == (1, ())


HATCH = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "project"
version = "1.0"
[tool.hatch.build]
dev-mode-dirs = ["lib/python"]
"""


@pytest.mark.slow
def test_pip_install_editable(repo: Repo) -> None:
    for name in ("hatchling", "pip"):
        pytest.importorskip(name)
    dev = both(repo, ODD, "pkg")
    repo.write("pyproject.toml", HATCH)
    build = minimal_venv(repo.path.parent / "build", "hatchling", "pathspec", "trove_classifiers")
    shutil.rmtree(repo.path / ".venv")
    build.parent.parent.rename(repo.path / ".venv")
    argv = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--python",
        str(repo.path / ".venv" / "bin" / "python"),
        "install",
    ]
    argv += ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q", "-e", "."]
    done = subprocess.run(argv, cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(site_packages(repo.path / ".venv").glob("*.pth"))
    check(dev)
