"""The plugin that a gate loads into pytest, in the project's interpreter: PYTEST_DONT_REWRITE.

It uses nothing but the standard library and pytest, and supports old versions of both. `pytest_run` copies it into the
folder of a run, beside `job.json`, and the launcher imports it before pytest reads anything of the project. It

* makes imports come from the worktree (`plugin_imports`);
* adds, when the job asks for it, a test that always fails (the canary);
* writes the results: the outcome of each test, the plugins, which modules came from the worktree and which from another
  checkout. They carry a token that the plugin takes away before any code of the project runs: results without it are
  ignored, and so is a process that ends before pytest does.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from git_agentos.tdd.gate import plugin_imports as imports
else:
    import agentos_imports as imports  # the same module, by the name of its copy

JOB = imports.JOB
_MAX_FOREIGN = 100
_MAX_OWN = 20000
_MAX_MESSAGE = 2000


def _take_token() -> str | None:
    """The token of the results; None in a process that another process with this plugin has started."""
    path = os.path.join(JOB["results"], "token")
    try:
        with open(path, encoding="ascii") as file:
            token = file.read()
        os.unlink(path)
    except OSError:
        return None
    return token


_TOKEN = _take_token()
_PLUGINS: set[str] = set()
_CASES: list[tuple[str, str, str, bool]] = []  # node id, outcome, message, whether it was being collected


# -- outcomes ----------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        outcome = "failed" if report.when == "call" else "error"
    elif report.skipped:
        outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
    elif report.when == "call":
        outcome = "passed"
    else:
        return
    _CASES.append((report.nodeid, outcome, _message(report.longrepr)[:_MAX_MESSAGE], False))


@pytest.hookimpl(tryfirst=True)
def pytest_collectreport(report: Any) -> None:
    if not report.passed:
        text = _message(report.longrepr)
        raised = next((line[1:] for line in text.splitlines() if line.startswith("E ")), text)
        _CASES.append((report.nodeid, "skipped" if report.skipped else "error", raised[:_MAX_MESSAGE], True))


def _message(longrepr: Any) -> str:
    """What pytest reports of an exception or of a skip."""
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    return str(longrepr[-1] if isinstance(longrepr, tuple) else longrepr or "")


# -- files that pytest writes -----------------------------------------------------------------------------------------


def pytest_addoption(parser: Any) -> None:
    """Declare the option that the command line sets: a project may have disabled the plugin that does."""
    parser.addini("cache_dir", "where the cache is")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Redirect a report that the project's configuration asks for, so that it does not become part of the work."""
    if getattr(config.option, "xmlpath", None):
        config.option.xmlpath = os.path.join(JOB["results"], "report.xml")


def pytest_sessionstart(session: Any) -> None:
    """Keep a file name that is not UTF-8, which the cache cannot hold, from ending the run."""
    cache = getattr(session.config, "cache", None)
    if cache is None:
        return
    write = cache.set

    def write_if_possible(key: str, value: Any) -> None:
        try:
            write(key, value)
        except UnicodeEncodeError:
            pass

    cache.set = write_if_possible


def _rewrite_from_source() -> None:
    """Keep pytest from loading test modules that were compiled earlier: a forged one would replace its source.

    pytest has no public way to do this. `sys.pycache_prefix` would hide the compiled files of the standard library and
    of every installed package too, and a run would start a second later.
    """
    from _pytest.assertion import rewrite

    empty = pathlib.Path(JOB["results"], "compiled")
    rewrite.get_cache_dir = lambda file_path: empty  # noqa: ARG005


# -- the canary --------------------------------------------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: Any, items: list[Any]) -> None:
    if JOB["canary"]:
        items.append(_canary(session, JOB["canary"]))


def _canary(session: Any, name: str) -> Any:
    class Canary(pytest.Item):
        def runtest(self) -> None:
            raise AssertionError("this test always fails: it shows that failures are reported")

        def repr_failure(self, excinfo: Any, *_: Any, **__: Any) -> str:
            return f"E   {excinfo.value}"

        def reportinfo(self) -> Any:
            return JOB["root"], 0, self.name

    return Canary.from_parent(session, name=name)


# -- results -----------------------------------------------------------------------------------------------------------


def pytest_sessionfinish(session: Any) -> None:
    _note_plugins(session.config)


def pytest_unconfigure(config: Any) -> None:
    """Write the results, at the very end."""
    _note_plugins(config)
    own, foreign = _imported_files()
    results: dict[str, Any] = {"plugins": sorted(_PLUGINS), "foreign": foreign, "own": own}
    if _TOKEN and not hasattr(config, "workerinput"):
        results.update(token=_TOKEN, cases=_CASES)
    with open(os.path.join(JOB["results"], f"{os.getpid()}.json"), "w", encoding="ascii") as file:
        json.dump(results, file)


def _note_plugins(config: Any) -> None:
    for name, plugin in config.pluginmanager.list_name_plugin():
        if plugin is not None and getattr(plugin, "__file__", None) != __file__:
            _PLUGINS.add(_stable_name(str(name), plugin))


def _stable_name(name: str, plugin: Any) -> str:
    """A name that is the same in every run: of a conftest its path, of an unnamed plugin its class."""
    if name.isdigit():
        kind = plugin if isinstance(plugin, type) else type(plugin)
        return f"{kind.__module__}.{kind.__qualname__}"
    if os.path.isabs(name):
        real = os.path.realpath(name)
        return os.path.relpath(real, JOB["root"]) if imports.is_below(real, JOB["root"]) else real
    return name


def _imported_files() -> tuple[list[str], list[str]]:
    """The modules of the worktree (relative paths), and those of another checkout."""
    own, foreign = set(), set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str):
            continue
        real = os.path.realpath(file)
        if imports.other_checkout_of(real) is not None:
            foreign.add(file)
        elif file.endswith(".py") and imports.is_own(real):
            own.add(os.path.relpath(real, JOB["root"]))
    return sorted(own)[:_MAX_OWN], sorted(foreign)[:_MAX_FOREIGN]


imports.redirect_imports()
_rewrite_from_source()
