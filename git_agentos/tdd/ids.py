"""What a workflow is called: `<issue>-<6 hex digits>`, its branch `feat/issue-<issue>`."""

from __future__ import annotations

import os
import re

from git_agentos.errors import UsageError
from git_agentos.run import context as contexts

_ISSUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")


def check_issue(text: str) -> str:
    """A well-formed issue id, without the `#` that people write before a number; UsageError otherwise."""
    issue = text.removeprefix("#")
    if not _ISSUE.match(issue) or issue.endswith((".lock", ".")) or ".." in issue:
        raise UsageError(
            f"'{text}' is not an issue id",
            "use up to 40 letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return issue


def new_id(issue: str) -> str:
    """The id of a new workflow, which no other clone or machine has either."""
    return contexts.check_id(f"{issue}-{os.urandom(3).hex()}")


def branch_of(issue: str) -> str:
    """The branch that the work on an issue is done on, short."""
    return f"feat/issue-{issue}"
