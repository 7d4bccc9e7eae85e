"""Putting git's own files in place: the sparse checkout, the index, the operation in progress.

Each comes by one rename or small write, and tells the application of the plan how it is taken back.
"""

from __future__ import annotations

import contextlib
import functools
import os

from git_agentos.checkpoint import operation
from git_agentos.checkpoint.apply import Application
from git_agentos.checkpoint.state import Sparse, State
from git_agentos.config import Settings
from git_agentos.git.repository import Repository


def set_sparse(repository: Repository, settings: Settings, application: Application, sparse: Sparse | None) -> None:
    """Put a sparse checkout's patterns and settings in force; None leaves what there is."""
    if sparse is None or sparse.patterns is None:
        return
    path = os.path.join(repository.location.git_dir, "info", "sparse-checkout")
    wanted = repository.blob(sparse.patterns)
    before: bytes | None = None
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        before = file.read()
    if before != wanted:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _replace_file(path, wanted)
        application.remember(functools.partial(_replace_file, path, before))
    _set_config(repository, settings, application, "core.sparseCheckout", True)
    _set_config(repository, settings, application, "core.sparseCheckoutCone", sparse.cone)


def _set_config(repository: Repository, settings: Settings, application: Application, key: str, value: bool) -> None:
    present = settings.values.get(key.lower(), ["false" if key == "core.sparseCheckout" else "true"])[-1]
    if present == ("true" if value else "false"):
        return
    scope = "--worktree" if "extensions.worktreeconfig" in settings.values else "--local"
    repository.git("config", scope, key, "true" if value else "false")

    def back() -> None:
        repository.git("config", scope, key, present)

    application.remember(back)


def _replace_file(path: str, data: bytes | None) -> None:
    if data is None:
        os.unlink(path)
        return
    temporary = f"{path}.agentos-{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def set_index(repository: Repository, application: Application, new: str, scratch: str) -> None:
    """Put the index file `new` in the place of the index; where there is no such file, the index goes."""
    real = os.path.join(repository.location.git_dir, "index")
    kept = os.path.join(scratch, "old-index")
    had = True
    try:
        os.link(real, kept)
    except FileNotFoundError:
        had = False
    if os.path.exists(new):
        with open(new, "rb") as file:
            os.fsync(file.fileno())
        os.rename(new, real)
    elif had:
        os.unlink(real)
    application.remember(lambda: os.rename(kept, real) if had else os.unlink(real))


def set_operation(repository: Repository, application: Application, target: State, scratch: str) -> None:
    """Make the operation in progress the target's."""
    location = repository.location
    before = operation.read(location)
    wanted = {name: repository.blob(oid) for name, oid in target.operation_files.items()}
    if before == wanted:
        return
    operation.check_names(wanted)
    application.remember(lambda: operation.write(location, before, scratch=scratch))
    operation.write(location, wanted, scratch=scratch)
