"""What other packages have put into a checkpoint: the log and the memory of a removed worktree, its database, and the
evidence of runs."""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.git.repository import Writer
from git_agentos.git.trees import Change, Entry
from git_agentos.retention import redacted_state
from git_agentos.retention.redacted_runs import EvidenceCleaner
from git_agentos.retention.redaction import Redaction


def rewrite_attachments(
    redaction: Redaction, writer: Writer, files: Mapping[bytes, Entry], digests: dict[str, str]
) -> dict[bytes, Change]:
    """Those of the files that differ when nothing that is to be forgotten is in them."""
    runs = {name: entry for name, entry in files.items() if name.startswith(b"runs/")}
    others = {name: entry for name, entry in files.items() if name not in runs}
    cleaner = EvidenceCleaner(redaction, digests)
    return {**cleaner.attached(writer, runs), **redacted_state.attached(redaction, writer, others)}
