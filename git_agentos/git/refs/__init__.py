"""Refs: HEAD and refs, read and moved by compare-and-swap. Nothing above `git` knows how a repository stores them.

port        what can be done with refs, and which backend serves a repository
files       the backend for refs in files: git's locks, with owners that can be proven dead
reftable    the backend for reftable: read here, changed by a `git update-ref` that waits for us before it commits
tables      the format of reftable files, read
reflog      the lines of reflogs
model       the values: HEAD, the reason of a move, a ref that was moved by another process
"""

from git_agentos.git.refs.model import PER_WORKTREE, Head, ReflogEntry, RefMoved, is_well_formed
from git_agentos.git.refs.port import (
    are_locked_by_caller,
    check_spelling,
    damaged,
    delete,
    drop,
    has_head,
    is_file,
    is_symbolic,
    list_refs,
    logs,
    own_refs,
    read_head,
    read_log,
    rebuild_head,
    repair,
    resolve,
    root_refs,
    set_head,
    shortened_logs,
    symbolic,
    target,
    transaction,
    update,
)

__all__ = [
    "PER_WORKTREE",
    "Head",
    "RefMoved",
    "ReflogEntry",
    "are_locked_by_caller",
    "check_spelling",
    "damaged",
    "delete",
    "drop",
    "has_head",
    "is_file",
    "is_symbolic",
    "is_well_formed",
    "list_refs",
    "logs",
    "own_refs",
    "read_head",
    "read_log",
    "rebuild_head",
    "repair",
    "resolve",
    "root_refs",
    "set_head",
    "shortened_logs",
    "symbolic",
    "target",
    "transaction",
    "update",
]
