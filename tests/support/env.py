"""The sealed environment of every test.

Nothing of the developer's machine may decide a test: not their git configuration, identity, editor, locale, time zone,
umask, nor a `GIT_*` or `AGENTOS_*` variable that a hook or an agent left behind. `seal` builds the whole environment
from nothing but PATH and a home folder made for the run.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

UMASK = 0o022
DATE = "2026-03-01T12:00:00+00:00"
PROJECT_ROOT = Path(__file__).resolve().parents[2]

# What a test run itself may need from outside. Everything else is dropped.
_KEPT = (
    "PATH",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "COVERAGE_PROCESS_START",
    "COVERAGE_FILE",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    # With which format `git init` makes the repositories of the tests.
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
)
_KEPT_PREFIXES = ("PYTEST_", "HYPOTHESIS_", "SOAK_", "AGENTOS_TEST_", "PIP_")

_GIT_CONFIG = """\
[user]
\tname = A U Thor
\temail = author@example.com
[init]
\tdefaultBranch = main
\ttemplateDir =
[protocol "file"]
\tallow = always
[gc]
\tauto = 0
[maintenance]
\tauto = false
[advice]
\tdetachedHead = false
[core]
\tpager = cat
[agentos]
\twatch = false
"""


def sealed_environment(home: Path, outside: MutableMapping[str, str]) -> dict[str, str]:
    """The environment for a test run whose home folder is `home` (made here, with a git configuration)."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)  # tests that drop root's rights read the configuration as somebody else
    config = home / ".gitconfig"  # where git finds it without a variable, too
    config.write_text(_GIT_CONFIG)
    kept = {key: value for key, value in outside.items() if key in _KEPT or key.startswith(_KEPT_PREFIXES)}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_RUNTIME_DIR": str(home / ".run"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "false",
        "GIT_SEQUENCE_EDITOR": "false",
        "GIT_AUTHOR_DATE": DATE,
        "GIT_COMMITTER_DATE": DATE,
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "C",
        "TZ": "UTC",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PYTHONPATH": str(PROJECT_ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def seal(home: Path) -> None:
    """Make `os.environ` and the umask of this process the sealed ones."""
    sealed = sealed_environment(home, os.environ)
    os.environ.clear()
    os.environ.update(sealed)
    os.umask(UMASK)
