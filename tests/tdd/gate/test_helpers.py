"""What tests use outside of the files that are frozen by name: which of it are helpers, and which is the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos.tdd.gate import frozen_files, helpers, pytest_config

TEST = "tests/test_price.py"
ASSERTS = "def same(one, other):\n    assert one == other\n"
CODE = "def price(count):\n    return count\n"


@pytest.mark.parametrize(
    "files, found",
    [
        ({TEST: "import price\n", "price.py": CODE}, []),
        ({TEST: "import price\n", "price.py": "def price(n):\n    assert n\n    return n\n"}, []),
        ({TEST: "import price\n", "price.py": "def price(n):\n    assert False, 'later'\n"}, []),
        ({TEST: "import price\n", "price.py": "def price(n):\n    raise AssertionError('later')\n"}, []),
        ({TEST: "import checks\n", "checks.py": ASSERTS}, ["checks.py"]),
        ({TEST: "import checks\n", "checks.py": "def same(a, b):\n    if a != b:\n        raise AssertionError(a)\n"},
         ["checks.py"]),
        ({TEST: "from checks import same\n", "src/checks.py": ASSERTS}, ["src/checks.py"]),
        ({TEST: "from lib import checks\n", "lib/__init__.py": "", "lib/checks.py": ASSERTS}, ["lib/checks.py"]),
        ({TEST: "import one\n", "one.py": "import two\n\ndef check_a(n):\n    assert n\n", "two.py": ASSERTS},
         ["one.py", "two.py"]),
        ({TEST: "import price\nimport checks\n", "price.py": "import checks\n" + CODE, "checks.py": ASSERTS}, []),
        ({TEST: "import helpers\n", "helpers.py": "EXPECTED = 6\n"}, ["helpers.py"]),
        ({TEST: "from mock_87.adding import add\n", "mock_87/__init__.py": "", "mock_87/adding.py": CODE}, []),
        ({TEST: "import url_helpers\nimport test_mode\n", "url_helpers.py": CODE, "snapshot.py": CODE}, []),
        ({"tests/test_helpers.py": "import helpers\n", "helpers.py": CODE}, []),
        ({TEST: "import made\n", "made.py": "import pytest\n\n@pytest.fixture\ndef a(): pass\n"}, ["made.py"]),
        ({TEST: "", "conftest.py": "pytest_plugins = ['plug']\n", "plug.py": ""}, ["plug.py"]),
        ({TEST: "", "conftest.py": "from hooks import *\n", "hooks.py": "def pytest_runtest_makereport(): pass\n"},
         ["hooks.py"]),
        ({TEST: "", "pytest.ini": "[pytest]\naddopts = -q -p more.plug\n", "more/plug.py": ""}, ["more/plug.py"]),
        ({TEST: "import my.plug\n", "pyproject.toml": "[project.entry-points.pytest11]\nmy = 'my.plug'\n",
          "my/plug.py": "import pytest\n"}, []),
        ({TEST: "open('golden/a.txt')\nopen('price.txt')\n", "golden/a.txt": "", "price.txt": ""}, ["golden/a.txt"]),
        ({TEST: "import lib.checks\n", "pytest.ini": "[pytest]\npythonpath = deep\n", "deep/lib/checks.py": ASSERTS},
         ["deep/lib/checks.py"]),
        ({TEST: "import a\n", "a.py": "import b\n", "b.py": "import a\n"}, []),
    ],
)  # fmt: skip
def test_helpers_and_code(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    root = str(tmp_path)
    frozen = frozen_files.hash_inputs(root)
    starts = [each for each in files if frozen_files.is_test(each)]
    said = helpers.find_helpers(
        root, starts, lambda path: frozen_files.has_content(frozen, root, path), pytest_config.read_options(root)
    )
    assert list(said) == found
