"""Freezing: what is frozen, and that every change to it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_agentos.tdd.gate import frozen_files, pytest_config

FILES = {
    "src/shop/a.py": "code",
    "src/shop/test_a.py": "a test beside the code",
    "src/shop/a_test.py": "another",
    "src/shop/conftest.py": "",
    "src/shop/tests/data/rows.bin": "\0",
    "src/test/code.py": "no test",
    "test/helper.py": "helps",
    "tests/__init__.py": "",
    "tests/__pycache__/test_b.pyc": "cache",
    "tests/left.log": "left",
    "pytest.ini": "[pytest]\n",
    "sub/tox.ini": "[tox]\n[pytest]\naddopts = -x\n",
    "setup.cfg": "[metadata]\nname = x\n",
    "pyproject.toml": "[project]\nname = 'x'\n",
    "readme.txt": "tests",
    "node_modules/x/test_x.py": "",
    ".venv/pyvenv.cfg": "",
    ".venv/lib/test_x.py": "",
    ".git/test_x.py": "",
    "x.egg-info/entry_points.txt": "[console_scripts]\nx = y\n",
}
FROZEN = [
    "pytest.ini", "src/shop/a_test.py", "src/shop/conftest.py", "src/shop/test_a.py", "src/shop/tests/data/rows.bin",
    "sub/tox.ini#pytest", "test/helper.py", "tests/__init__.py",
]  # fmt: skip


def fill(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fill(tmp_path / "wo'rk\" tree", FILES)


def test_tests_and_configuration_are_hashed(root: Path) -> None:
    frozen = frozen_files.hash_inputs(str(root))
    assert list(frozen) == FROZEN
    assert frozen_files.diff(frozen, frozen_files.hash_inputs(str(root))) == []
    assert frozen_files.paths(frozen) == sorted(each.removesuffix("#pytest") for each in FROZEN)


def test_configured_names_of_tests_are_frozen(root: Path) -> None:
    fill(root, {"checks/check_a.py": "", "checks/a.py": "", "pytest.toml": "[pytest]\npython_files = ['check_*.py']\n"})
    assert {"checks/check_a.py", "pytest.toml"} == set(frozen_files.hash_inputs(str(root))) - set(FROZEN)


def test_a_name_for_tests_that_all_code_has_freezes_no_code(root: Path) -> None:
    fill(root, {"pytest.ini": "[pytest]\npython_files = *.py\n"})
    assert list(frozen_files.hash_inputs(str(root))) == FROZEN


@pytest.mark.parametrize(
    "change, said",
    [
        ({"src/shop/a.py": "other"}, []),
        ({"readme.txt": "other", "tests/__pycache__/x.pyc": "", "tests/.coverage": ""}, []),
        ({"pyproject.toml": "[project]\nname = 'x'\ndependencies = []\n"}, []),
        ({"sub/tox.ini": "[pytest]\n; a remark\naddopts=-x\n"}, []),
        ({"sub/tox.ini": "[pytest]\naddopts = -x -k a\n"}, ["pytest's part of sub/tox.ini was changed"]),
        ({"sub/tox.ini": "[tox]\n"}, ["pytest's part of sub/tox.ini was removed"]),
        ({"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-x'\n"}, ["pytest's part of pyproject.toml is new"]),
        ({"pyproject.toml": "[project.entry-points.pytest11]\nx = 'x'\n"}, ["pytest's part of pyproject.toml is new"]),
        ({"pyproject.toml": "not = [toml"}, ["pytest's part of pyproject.toml is new"]),
        ({"setup.cfg": "[tool:pytest]\n"}, ["pytest's part of setup.cfg is new"]),
        ({"x.egg-info/entry_points.txt": "[pytest11]\nx = y"}, ["pytest's part of x.egg-info/entry_points.txt is new"]),
        ({"tests/__init__.py": "x"}, ["tests/__init__.py was changed"]),
        ({"src/shop/tests/data/rows.bin": "x"}, ["src/shop/tests/data/rows.bin was changed"]),
        ({"tests/more.json": ""}, ["tests/more.json is new"]),
        ({"deep/er/conftest.py": ""}, ["deep/er/conftest.py is new"]),
        ({"deep/er/conftest.cpython-311.pyc": ""}, ["deep/er/conftest.cpython-311.pyc is new"]),
        ({"usercustomize/__init__.py": ""}, ["usercustomize/__init__.py is new"]),
        ({"src/pluggy.py": ""}, ["src/pluggy.py is new"]),
        ({".pytest.ini": ""}, [".pytest.ini is new"]),
    ],
)  # fmt: skip
def test_changes_are_reported(root: Path, change: dict[str, str], said: list[str]) -> None:
    frozen = frozen_files.hash_inputs(str(root))
    fill(root, change)
    assert frozen_files.diff(frozen, frozen_files.hash_inputs(str(root))) == said


def test_the_code_of_a_project_that_is_a_part_of_pytest_may_change(root: Path) -> None:
    fill(root, {"src/pluggy/__init__.py": "", "src/pluggy/hooks.py": "a"})
    frozen = frozen_files.hash_inputs(str(root))
    fill(root, {"src/pluggy/__init__.py": "b", "src/pluggy/hooks.py": "b"})
    assert frozen_files.diff(frozen, frozen_files.hash_inputs(str(root))) == []


def test_links_are_not_followed_but_what_they_lead_to_here_is_frozen(root: Path, tmp_path: Path) -> None:
    outside = fill(tmp_path / "outside", {"test_o.py": "", "folder/test_f.py": ""})
    fill(root, {"shared/rows.txt": "1", "lib/checks/one.py": "1"})
    (root / "tests/rows.txt").symlink_to("../shared/rows.txt")
    (root / "tests/checks").symlink_to("../lib/checks")
    (root / "tests/outside").symlink_to(outside)
    (root / "test_o.py").symlink_to(outside / "test_o.py")
    (root / "tests/round").symlink_to("..")
    frozen = frozen_files.hash_inputs(str(root))
    new = {"shared/rows.txt", "lib/checks/one.py", "tests/rows.txt", "tests/checks", "tests/outside", "test_o.py"}
    assert set(frozen) - set(FROZEN) == {*new, "tests/round"}
    fill(root, {"shared/rows.txt": "2"})
    (root / "test_o.py").unlink()
    (root / "test_o.py").symlink_to(outside / "folder/test_f.py")
    assert frozen_files.diff(frozen, frozen_files.hash_inputs(str(root))) == [
        "shared/rows.txt was changed",
        "test_o.py was changed",
    ]


def test_a_pipe_and_a_name_of_any_bytes(root: Path) -> None:
    os.mkfifo(root / "tests" / "test_pipe.py")
    name = os.fsdecode(b"tests/test_\xff\n.py")
    fill(root, {name: ""})
    frozen = frozen_files.hash_inputs(str(root))
    assert frozen["tests/test_pipe.py"] == "no plain file"
    (root / name).write_text("x")
    assert frozen_files.diff(frozen, frozen_files.hash_inputs(str(root))) == [f"{name} was changed"]


def test_data_written_by_a_run_is_ignored_and_code_is_not(root: Path) -> None:
    before = frozen_files.hash_inputs(str(root))
    fill(root, {"tests/out.txt": "1", "src/shop/tests/data/rows.bin": "1", "tests/new.py": ""})
    after = frozen_files.ignore_written(before, frozen_files.hash_inputs(str(root)))
    assert frozen_files.diff(before, after) == ["tests/new.py is new"]
    assert "tests/out.txt" not in frozen_files.paths(after)
    fill(root, {"tests/out.txt": "2", "src/shop/tests/data/rows.bin": "2"})
    (root / "tests/out.txt").unlink()
    assert frozen_files.diff(after, frozen_files.hash_inputs(str(root))) == []


def test_the_environment_is_one_hash_that_a_new_dependency_does_not_change(root: Path, tmp_path: Path) -> None:
    site = fill(
        tmp_path / "lib/site-packages", {"_pytest/runner.py": "", "a.dist-info/entry_points.txt": "[pytest11]\n"}
    )

    def hashes() -> dict[str, str]:
        environment = frozen_files.hash_environment([str(site), str(root)])
        return {**frozen_files.hash_inputs(str(root)), frozen_files.PYTHON: environment}

    before = hashes()
    assert frozen_files.PYTHON not in frozen_files.paths(before)
    fill(site, {"requests/__init__.py": "", "requests.dist-info/entry_points.txt": "[console_scripts]\nx = y\n"})
    assert frozen_files.diff(before, hashes()) == []
    for change in ({"_pytest/runner.py": "x"}, {"x.pth": ""}, {"b.dist-info/entry_points.txt": "[pytest11]\nx = y\n"}):
        before = hashes()
        fill(site, change)
        assert frozen_files.diff(before, hashes()) == [
            "the interpreter, its startup files, its plugins, or pytest itself were changed"
        ]
    assert frozen_files.diff(before, frozen_files.hash_inputs(str(root))) == []  # the interpreter was not hashed


NAMES = st.sampled_from(
    ["tests/test_a.py", "tests/data.json", "conftest.py", "pytest.ini", "shop/test_b.py", "tests/sub/x.txt", "x.pth"]
)


@pytest.mark.law
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, st.text("ab", max_size=2)), st.dictionaries(NAMES, st.text("ab", max_size=2)))
def test_exactly_what_differs_is_told(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, str], after: dict[str, str]
) -> None:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    frozen = frozen_files.hash_inputs(str(fill(one, before)))
    said = frozen_files.diff(frozen, frozen_files.hash_inputs(str(fill(other, after))))
    words = {
        name: "was removed" if name not in after else "is new" if name not in before else "was changed"
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }
    assert list(said) == [f"{name} {words[name]}" for name in sorted(words)]


def test_names_of_all_configuration_files_together(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "setup.cfg": "[tool:pytest]\npython_files = a_*.py b_*.py\npython_functions = check\n",
            "pyproject.toml": "[tool.pytest.ini_options]\npython_files = ['c_*.py']\n",
            "tox.ini": "no section\n",
        },
    )
    assert pytest_config.read_options(str(tmp_path)) == pytest_config.Options(
        ("c_*.py", "a_*.py", "b_*.py"), ("check",)
    )
