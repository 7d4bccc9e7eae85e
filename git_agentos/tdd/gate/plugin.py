"""What is loaded into pytest, in the project's interpreter: PYTEST_DONT_REWRITE.

Standard library and pytest only, and written for old versions of both: it is copied into a folder of its own, beside
`order.json` (what is to be done), and imported before pytest reads anything of the project. It

    has imports come from the worktree (`evidence_imports`)
    gives each test in the junit report its exact node id
    adds, when told, a test that has to fail (the canary)
    leaves evidence beside the report: which plugins there were, which modules came from the worktree and which from
    elsewhere, and a seal on the report, made with a token that is taken away before anything of the project is there
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from git_agentos.tdd.gate import plugin_imports as imports
else:
    import agentos_imports as imports  # the same, by the name that it has beside this

NODE_ID = "agentos_node_id"
_MOST_FOREIGN = 100
_MOST_OWN = 20000


def _token() -> bytes:
    """What the report is sealed with; empty in a process that another one of us has started."""
    path = os.path.join(imports.ORDER["evidence"], "token")
    try:
        with open(path, "rb") as file:
            found = file.read()
        os.unlink(path)
    except OSError:
        return b""
    return found


_TOKEN = _token()
_PLUGINS: set[str] = set()


def pytest_addoption(parser: Any) -> None:
    """We say where the cache is, also to a project that has switched it off."""
    if "cache_dir" not in getattr(parser, "_inidict", {"cache_dir": None}):
        parser.addini("cache_dir", "where the cache would be")


def pytest_itemcollected(item: Any) -> None:
    item.user_properties.append((NODE_ID, json.dumps(item.nodeid)))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: Any) -> None:
    """A file's name may be bytes that neither the report nor the cache can be written with: in the report, the node id
    tells it."""
    from _pytest import junitxml

    if getattr(config, "cache", None) is not None:
        config.cache.set = _leniently(config.cache.set)

    stash = getattr(config, "stash", None)
    xml = stash.get(getattr(junitxml, "xml_key", None), None) if stash is not None else None
    if xml is not None:
        config.pluginmanager.register(_Names(xml), "agentos_names")


def _leniently(write: Any) -> Any:
    def written(key: str, value: Any) -> None:
        try:
            write(key, value)
        except UnicodeEncodeError:
            pass

    return written


class _Names:
    def __init__(self, xml: Any) -> None:
        self._xml = xml

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        try:
            report.nodeid.encode("utf-8")
        except UnicodeEncodeError:
            reporter = self._xml.node_reporter(report)
            for name in ("file", "classname"):
                reporter.add_attribute(name, report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: Any) -> None:
        if not report.passed:
            self.pytest_runtest_logreport(report)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: Any, items: list[Any]) -> None:
    if imports.ORDER["canary"]:
        canary = _canary(session, imports.ORDER["canary"])
        pytest_itemcollected(canary)
        items.append(canary)


def _canary(session: Any, name: str) -> Any:
    class Canary(pytest.Item):
        def runtest(self) -> None:
            raise AssertionError("this test has to fail: it shows that failures are told")

        def repr_failure(self, excinfo: Any, *_: Any, **__: Any) -> str:
            return f"E   {excinfo.value}"

        def reportinfo(self) -> Any:
            return imports.ORDER["root"], 0, self.name

    return Canary.from_parent(session, name=name)


def pytest_sessionfinish(session: Any) -> None:
    _note_plugins(session.config)


def pytest_unconfigure(config: Any) -> None:
    """At the very end: the report has been written."""
    _note_plugins(config)
    found: dict[str, Any] = {"plugins": sorted(_PLUGINS), "foreign": _foreign(), "own": _own(), "seal": None}
    if _TOKEN and not hasattr(config, "workerinput"):
        try:
            with open(imports.ORDER["report"], "rb") as file:
                found["seal"] = hmac.new(_TOKEN, file.read(), hashlib.sha256).hexdigest()
        except OSError:
            pass
    with open(os.path.join(imports.ORDER["evidence"], f"{os.getpid()}.json"), "w", encoding="ascii") as file:
        json.dump(found, file)


def _note_plugins(config: Any) -> None:
    for name, plugin in config.pluginmanager.list_name_plugin():
        if plugin is not None and getattr(plugin, "__file__", None) != __file__ and not isinstance(plugin, _Names):
            _PLUGINS.add(_name_of(str(name), plugin))


def _name_of(name: str, plugin: Any) -> str:
    """A name that is the same in every run: a conftest by its path, what was registered without a name by its class."""
    if name.isdigit():
        kind = plugin if isinstance(plugin, type) else type(plugin)
        return f"{kind.__module__}.{kind.__qualname__}"
    if os.path.isabs(name):
        real = os.path.realpath(name)
        return os.path.relpath(real, imports.ORDER["root"]) if imports.is_below(real, imports.ORDER["root"]) else real
    return name


def _foreign() -> list[str]:
    """The files of modules that came from another checkout."""
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and imports.other_of(os.path.realpath(file)) is not None:
            found.add(file)
    return sorted(found)[:_MOST_FOREIGN]


def _own() -> list[str]:
    """The files of modules that came from the worktree, relative to it."""
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and file.endswith(".py") and imports.is_own(os.path.realpath(file)):
            found.add(os.path.relpath(os.path.realpath(file), imports.ORDER["root"]))
    return sorted(found)[:_MOST_OWN]


def _rewrite_from_source() -> None:
    """Nor does pytest believe what it has compiled itself: it is not where pytest looks for it from now on."""
    from _pytest.assertion import rewrite

    nowhere = pathlib.Path(imports.ORDER["evidence"], "compiled")
    rewrite.get_cache_dir = lambda file_path: nowhere  # noqa: ARG005


imports.arrange()
_rewrite_from_source()
