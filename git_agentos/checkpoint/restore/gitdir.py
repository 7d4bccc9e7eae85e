"""Replaces git's own files: the sparse checkout, the index, the operation in progress.

Each is replaced by one rename or small write, and registers how the application of the plan reverts it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil

from git_agentos.checkpoint import operation
from git_agentos.checkpoint.model import Sparse, State
from git_agentos.checkpoint.restore.application import Application
from git_agentos.config import Settings, boolean
from git_agentos.git import worktrees
from git_agentos.git.repository import Repository
from git_agentos.util import files


def set_sparse(repository: Repository, settings: Settings, application: Application, sparse: Sparse | None) -> None:
    """Set the target's sparse checkout: its patterns and settings. None turns a sparse checkout off and keeps the
    patterns, as `git sparse-checkout disable` does."""
    on = boolean(settings.values, "core.sparsecheckout", default=False)
    if sparse is None:
        if on:
            _set_config(repository, settings, application, "core.sparseCheckout", False)
        return
    path = os.path.join(repository.location.git_dir, "info", "sparse-checkout")
    wanted = repository.blob(sparse.patterns) if sparse.patterns is not None else None
    before: bytes | None = None
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        before = file.read()
    if before != wanted:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _replace_file(path, wanted)
        application.on_revert(functools.partial(_replace_file, path, before))
    if not on:
        _set_config(repository, settings, application, "core.sparseCheckout", True)
    for key, value, default in (
        ("core.sparseCheckoutCone", sparse.cone, True),
        ("index.sparse", sparse.sparse_index, False),
    ):
        if boolean(settings.values, key.lower(), default=default) != value:
            _set_config(repository, settings, application, key, value)


def _set_config(repository: Repository, settings: Settings, application: Application, key: str, value: bool) -> None:
    """Set a value for this worktree only."""
    scope = _scope(repository, settings)
    before = repository.git("config", scope, "--null", "--get", key, ok=(0, 1))
    repository.git("config", scope, key, "true" if value else "false")

    def back() -> None:
        if before:
            repository.git("config", scope, key, before.removesuffix(b"\0"))
        else:
            repository.git("config", scope, "--unset", key, ok=(0, 5))

    application.on_revert(back)


def _scope(repository: Repository, settings: Settings) -> str:
    """The option with which `git config` sets a value for this worktree only.

    If several worktrees share all configuration, `extensions.worktreeConfig` is turned on first, as by
    `git sparse-checkout`.
    """
    if boolean(settings.values, "extensions.worktreeconfig", default=False):
        return "--worktree"
    location = repository.location
    if location.is_main and next(worktrees.linked_git_dirs(location.common_dir), None) is None:
        return "--local"
    shared = os.path.join(location.common_dir, "config")
    of_main = os.path.join(location.common_dir, "config.worktree")
    for key in ("core.worktree", "core.bare"):
        found = repository.git("config", "--file", shared, "--null", "--get", key, ok=(0, 1)).removesuffix(b"\0")
        if found and (key == "core.worktree" or found == b"true"):
            repository.git("config", "--file", of_main, key, found)
            repository.git("config", "--file", shared, "--unset", key)
    repository.git("config", "--file", shared, "extensions.worktreeConfig", "true")
    return "--worktree"


def _replace_file(path: str, data: bytes | None) -> None:
    if data is None:
        os.unlink(path)
    else:
        files.replace(path, data)


def set_index(repository: Repository, application: Application, new: str, scratch: str) -> None:
    """Replace the index by the file `new`; if there is no such file, remove the index."""
    real = os.path.join(repository.location.git_dir, "index")
    kept = os.path.join(scratch, "old-index")
    had = True
    try:
        os.link(real, kept)
    except FileNotFoundError:
        had = False
    except OSError as error:
        if error.errno not in files.NO_LINKS:
            raise
        shutil.copy2(real, kept)
    if os.path.exists(new):
        files.install(new, real)
    elif had:
        os.unlink(real)
    application.on_revert(lambda: os.rename(kept, real) if had else os.unlink(real))


def set_operation(repository: Repository, application: Application, target: State, scratch: str) -> None:
    """Make the operation in progress the target's."""
    location = repository.location
    before = operation.read(location)
    wanted = {name: repository.blob(oid) for name, oid in target.operation_files.items()}
    if before == wanted:
        return
    operation.check_names(wanted)
    application.on_revert(lambda: operation.write(location, before, scratch=scratch))
    operation.write(location, wanted, scratch=scratch)
