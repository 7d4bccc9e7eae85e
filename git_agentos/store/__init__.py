"""The workflow database: SQLite, one file for each worktree, in its `.agentos/`. The only folder that imports sqlite3.

database_path  where the file is
database       opening it: WAL, migrations, damage
migrations     the tables, version by version
rows           rows of the agent log and of the working memory
redaction      rows without some texts, in a file of which nothing else is left
threads        LangGraph's rows of one workflow

The three functions below are public; they import neither sqlite3 nor pygit2.
"""

from git_agentos.store.database_path import ensure_agentos_dir, get_checkpoint_db_path, get_repo_root

__all__ = ["ensure_agentos_dir", "get_checkpoint_db_path", "get_repo_root"]
