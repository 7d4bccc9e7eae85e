"""What lies beside one run of pytest, outside of the worktree: its launcher and plugin, and what it writes.

Report, cache, coverage and temporary folders go here, and are removed afterwards. The report counts only if the plugin
has sealed it: who ends the process from within, and leaves a report of his own making, has left none.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos.process import deletion
from git_agentos.tdd.gate import cases, python, sandbox
from git_agentos.tdd.gate.cases import Case
from git_agentos.tdd.gate.setup import Site
from git_agentos.util import directories

_PREFIX = "agentos-tests-"
_PLUGIN = "agentos_evidence"
_LAUNCHER = f"""\
if __name__ == "__main__":
    import sys

    import pytest
    import {_PLUGIN}

    sys.exit(int(pytest.main()))
"""
# Run by every Python that tests start, where a finder would win over PYTHONPATH; then the one whose place this has.
_CUSTOMIZE = """\
import sys
from importlib import machinery, util

def _load(name, spec):
    sys.modules[name] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

_ours = _load("agentos_imports", util.spec_from_file_location("agentos_imports", {path!r}))
_ours.arrange()
_theirs = machinery.PathFinder.find_spec("sitecustomize", _ours.installed())
if _theirs is not None and _theirs.loader is not None:
    _load("sitecustomize", _theirs)
"""
_OPTIONS = ("-v", "--tb=short", "--color=no", "--maxfail=0")
_MOST_EVIDENCE = 4 << 20


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A scratch folder. Those that killed processes left are removed first."""
    parent = os.path.realpath(tempfile.gettempdir())
    directories.remove_abandoned(parent, _PREFIX, delete=deletion.remove_folder)
    with directories.scratch(parent, _PREFIX, delete=deletion.remove_folder) as path:
        yield path


@dataclass(frozen=True)
class Desk:
    """The folder of one run: the launcher and the plugin in one part of it, what comes of the run in another."""

    folder: str
    token: bytes
    canary: str | None
    places: tuple[str, ...]

    @classmethod
    def lay(cls, folder: str, site: Site, *, canary: bool) -> Desk:
        root = site.location.root
        places = python.places(root, site.others, site.interpreter.places)
        name = f"agentos-canary-{secrets.token_hex(4)}" if canary else None
        customizes = bool(site.others) and site.interpreter.finders
        desk = cls(folder, secrets.token_hex(32).encode(), name, places)
        for each in (desk.tools, desk.below, desk.left):
            os.mkdir(each)
        order = {
            "root": root, "others": list(site.others), "places": list(places), "canary": name,
            "below": [desk.below] if customizes else [], "report": desk.report, "evidence": desk.left,
        }  # fmt: skip
        customize = _CUSTOMIZE.format(path=os.path.join(desk.tools, "agentos_imports.py"))
        for file_name, data in (
            ("pytest", _LAUNCHER.encode()),
            (f"{_PLUGIN}.py", _own("evidence_plugin.py")),
            ("agentos_imports.py", _own("evidence_imports.py")),
            ("below/sitecustomize.py", customize.encode()),
            ("order.json", json.dumps(order).encode()),
            ("../left/token", desk.token),
        ):
            with open(os.path.join(desk.tools, file_name), "wb") as file:
                file.write(data)
        return desk

    @property
    def tools(self) -> str:
        return os.path.join(self.folder, "tools")

    @property
    def below(self) -> str:
        return os.path.join(self.tools, "below")

    @property
    def left(self) -> str:
        return os.path.join(self.folder, "left")

    @property
    def report(self) -> str:
        return os.path.join(self.left, "report.xml")

    def command(self, site: Site, tests: Sequence[str]) -> list[str]:
        """pytest's command line. A test whose name begins as an option would, or as a file of options, is named by its
        folder."""
        settings = {
            "junit_family": "xunit1",
            "junit_logging": "no",
            "cache_dir": os.path.join(self.left, "cache"),
        }
        words = [site.interpreter.python, os.path.join(self.tools, "pytest"), *_OPTIONS]
        words += [f"--rootdir={site.location.root}", f"--junitxml={self.report}", "-p", _PLUGIN]
        words += [word for name in site.interpreter.hidden for word in ("-p", f"no:{name}")]
        for name, value in settings.items():
            words += ["-o", f"{name}={value}"]
        return [*words, *(f"./{each}" if each.startswith(("-", "@")) else each for each in tests)]

    def wrapped(self, site: Site) -> list[str]:
        if site.bwrap is None:
            return []
        needed = [*site.interpreter.home, *site.interpreter.places, *site.others, self.tools]
        return sandbox.within(site.bwrap, site.location, needed, [self.left])

    def environment(self, site: Site) -> dict[str, str]:
        """Other things that tools of tests would leave in the worktree go where the report is. So do the folders of
        `tmp_path`: pytest removes old ones of all its runs in the end, however long that takes, and is not to be at
        those of runs that are not ours."""
        kept = {
            "PYTEST_DEBUG_TEMPROOT": self.left,
            "COVERAGE_FILE": os.path.join(self.left, "coverage"),
            "HYPOTHESIS_STORAGE_DIRECTORY": os.path.join(self.left, "hypothesis"),
        }
        return {**kept, **site.environment}

    def evidence(self) -> list[Mapping[str, Any]]:
        """What the plugin wrote, in each process of the run."""
        found: list[Mapping[str, Any]] = []
        for name in sorted(os.listdir(self.left)):
            if name.endswith(".json"):
                with contextlib.suppress(ValueError, OSError):
                    each = json.loads(_read(os.path.join(self.left, name)))
                    if isinstance(each, dict):
                        found.append(each)
        return found

    def cases(self, evidence: Sequence[Mapping[str, Any]]) -> tuple[Case, ...] | None:
        """Those of the report, if the plugin has sealed it."""
        try:
            data = _read(self.report, most=128 << 20)
        except OSError:
            return None
        seal = hmac.new(self.token, data, hashlib.sha256).hexdigest()
        return cases.read(data) if any(each.get("seal") == seal for each in evidence) else None


def _own(name: str) -> bytes:
    """A file that lies beside this one."""
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()


def _read(path: str, most: int = _MOST_EVIDENCE) -> bytes:
    """A file that tests may have put anything in the place of."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)
