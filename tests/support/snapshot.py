"""Everything there is of a repository and beside it: what a refused or failed command must have left alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.support import ref_storage
from tests.support.repo import Repo

# Objects that nothing names are no trace; nor are our empty folders and the files that turns are taken on, and what the
# guard's scripts note of the configuration.
_NO_TRACE = re.compile(
    r"\.git/objects(/|$)|\.git/agentos/guard/(chain|passed)(/|$)|\.git/agentos(/(locks|tmp|worktrees|runs)?)?$|\.git/agentos/(.*\.turn|loose-objects|repository-id|(worktree-)?filesystem\.json)$"
)
# git looks at files, and notes what it saw; it leaves empty folders where refs were.
_FLEETING = re.compile(r"\.git/(index|(logs/)?refs(/.*)?)$")
# What is in tables is compared by what git reads in them.
_TABLES = re.compile(r"\.git/(worktrees/[^/]+/)?reftable/")


def snapshot(repo: Repo) -> dict[str, bytes | str]:
    """Path (from the folder that the repository is in) -> contents, of all files, links and folders; refs by name."""
    top = repo.path.parent
    found: dict[str, bytes | str] = {}
    for folder, names, files in os.walk(os.fsencode(top)):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            key = os.fsdecode(os.path.relpath(path, os.fsencode(top)))
            if _NO_TRACE.search(key) or _TABLES.search(key) or key == f"{repo.path.name}.git/agentos":
                continue
            if os.path.islink(path):
                found[key] = "link to " + os.fsdecode(os.readlink(path))
            elif os.path.isdir(path):
                if not _FLEETING.search(key):
                    found[key] = "folder"
            elif not key.endswith(".git/index"):
                found[key] = Path(os.fsdecode(path)).read_bytes()
    found["refs"] = repo.git("for-each-ref")
    if ref_storage.is_reftable(repo.git_dir):
        found.update({f"reflog {name}": log for name, log in ref_storage.reflogs(repo.path).items()})
        found["root refs"] = repr(ref_storage.root_refs(repo.path))
        found["HEAD"] = str(ref_storage.head_ref(repo.path))
    return found


def assert_nothing_left(before: dict[str, bytes | str], repo: Repo) -> None:
    after = snapshot(repo)
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    assert not keys, [f"{key}: {before.get(key)!r} -> {after.get(key)!r}"[:300] for key in keys[:20]]
