"""What the error of a failed git command says."""

from __future__ import annotations

import pytest

from git_agentos.git import process


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"warning: LF will be replaced by CRLF\nfatal: cannot open 'x'\n", "git add failed: cannot open 'x'"),
        (b"hint: try\nerror: bad thing\nfatal: died\n", "git add failed: died"),
        (b"error: bad thing\nhint: do this\n", "git add failed: bad thing"),
        (
            b"error: your changes would be lost\nhint: commit\nfatal: add failed\n",
            "git add failed: your changes would be lost",
        ),
        (b"fatal: add failed\n", "git add failed: add failed"),
        (
            b"fatal: unknown repository extension found:\n\tnew\n",
            "git add failed: unknown repository extension found: new",
        ),
        (b"fatal: nothing follows:\n", "git add failed: nothing follows:"),
        (b"warning: only this\n", "git add failed: warning: only this"),
        (b"", "git add failed: exit code 3"),
    ],
)
def test_a_failure_says_what_git_died_of(said: bytes, message: str) -> None:
    error = process.failure(["--git-dir", ".git", "add"], 3, said)
    assert (error.message, error.status, error.stderr) == (message, 3, said.decode().strip())
