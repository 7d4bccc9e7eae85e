"""A hook's program that dies at a step: `python -m tests.support.hook_worker LOG STEP NAME GIT-PID ARG…`, in a script.

The steps are those of `tests.support.faults.injector`, counted from the moment the imports are done; their names go to
the file LOG. With STEP 0 it lives.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> int:
    from git_agentos.hooks import entry
    from tests.support.faults.injector import Steps

    for name in ("hooks.judges", "hooks.pending", "hooks.recorders", "guard.enforcement.saving", "log"):
        importlib.import_module(f"git_agentos.{name}")
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    Steps(int(sys.argv[2]), "kill", log).begin()
    return entry.main(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
