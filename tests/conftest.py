"""The sealed environment of the whole run, and fixtures that make real repositories."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import daemon, elsewhere, filesystems, sampling
from tests.support.command_line import Cli, command_line
from tests.support.disk import mounted
from tests.support.env import seal
from tests.support.remotes import connect, make_bare
from tests.support.repo import Repo, filled, make_template

# Sealed when this file is imported, before any test module is: nothing at all may run with the developer's environment.
_HOME = Path(tempfile.mkdtemp(prefix="agentos-home-"))
seal(_HOME)
_GITCONFIG = (_HOME / ".gitconfig").read_bytes()
_OPEN = contextlib.ExitStack()
_PLACE = _OPEN.enter_context(filesystems.mounted(elsewhere.KIND)) if elsewhere.KIND else None
_TEMPLATE = Path(tempfile.mkdtemp(prefix="agentos-template-", dir=_PLACE))
make_template(_TEMPLATE / "repo")


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)
    shutil.rmtree(_TEMPLATE, ignore_errors=True)
    _OPEN.close()


@pytest.hookimpl(tryfirst=True)  # before pytest makes the folders of the tests
def pytest_configure(config: pytest.Config) -> None:
    sampling.configure(config)
    if _PLACE is not None:
        config.option.basetemp = str(_PLACE / "tests")


def pytest_report_header() -> str:
    return sampling.header()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.sample(config, items)


@pytest.fixture(autouse=True)
def _sealed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No test runs in the project's own repository, nor finds a repository above its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    yield
    daemon.end_all()
    # All tests of a process have one home folder: one that would leave this there needs a home of its own.
    gitconfig, runtime = _HOME / ".gitconfig", _HOME / ".run"
    is_same, has_runtime = gitconfig.read_bytes() == _GITCONFIG, runtime.exists()
    gitconfig.write_bytes(_GITCONFIG)
    shutil.rmtree(runtime, ignore_errors=True)
    assert is_same, "the test has changed the user's configuration"
    assert not has_runtime, "the test has made a runtime folder, in which other tests look for sockets"


@pytest.fixture
def home() -> Path:
    """The sealed home folder."""
    return _HOME


@pytest.fixture
def empty_repo(tmp_path: Path) -> Repo:
    """A repository without a commit."""
    return Repo.init(tmp_path / "repo")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A clean repository with a small history (see `tests.support.repo.fill`)."""
    return filled(tmp_path / "repo")


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[[str], Repo]:
    """Make further repositories with a small history, by name."""
    return lambda name: filled(tmp_path / name)


@pytest.fixture
def shared(repo: Repo, tmp_path: Path) -> Path:
    """A bare repository that `repo`, the host `desk`, has as its remote."""
    path = make_bare(tmp_path, repo)
    connect(repo, path, "desk")
    return path


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`cli("restore", "latest")` is `git agentos restore latest` in the current directory, in this process."""
    return command_line(monkeypatch)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 24 MiB (see `tests.support.disk`)."""
    with mounted(24) as folder:
        yield folder
