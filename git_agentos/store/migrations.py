"""The tables of the workflow database, version by version: `MIGRATIONS[n]` leads from version n to n + 1.

The version is SQLite's `user_version`. A migration runs in a transaction of its own (`database.opened`), and is never
changed after its release. The names of our tables begin with `agentos_`, since other programs may use the same file.

`repository` is `database_path.repository_id`, `worktree` the worktree's id: they separate the rows of several worktrees
in a shared file. `body` is the row as JSON, the line that a checkpoint carries; `carried` is that checkpoint, NULL
while there is none.
"""

from __future__ import annotations

_FIRST = (
    # The timeline commit up to which a worktree's timeline has been read into this file.
    """CREATE TABLE agentos_worktrees (
        repository TEXT NOT NULL,
        worktree TEXT NOT NULL,
        tip TEXT,
        PRIMARY KEY (repository, worktree)
    ) WITHOUT ROWID""",
    """CREATE TABLE agentos_log (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        repository TEXT NOT NULL,
        worktree TEXT NOT NULL,
        id TEXT NOT NULL,
        timestamp TEXT NOT NULL,
        type TEXT NOT NULL,
        agent TEXT NOT NULL,
        body TEXT NOT NULL,
        text TEXT NOT NULL,
        carried TEXT,
        UNIQUE (repository, worktree, id)
    )""",
    "CREATE INDEX agentos_log_time ON agentos_log (repository, worktree, timestamp, id)",
    "CREATE INDEX agentos_log_waiting ON agentos_log (repository, worktree) WHERE carried IS NULL",
    """CREATE TABLE agentos_memory (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        repository TEXT NOT NULL,
        worktree TEXT NOT NULL,
        id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        body TEXT NOT NULL,
        carried TEXT,
        UNIQUE (repository, worktree, id)
    )""",
    "CREATE INDEX agentos_memory_waiting ON agentos_memory (repository, worktree) WHERE carried IS NULL",
)

# The index for `log search`: every substring of three characters. Without FTS5, a search reads all rows instead.
# `entries` updates it; triggers cannot, because SQLite does not let them write to it if the schema is not trusted.
SEARCH = (
    """CREATE VIRTUAL TABLE agentos_log_search USING fts5 (
        text, content = 'agentos_log', content_rowid = 'seq', tokenize = 'trigram'
    )""",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST,)
LATEST = len(MIGRATIONS)
