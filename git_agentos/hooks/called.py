"""A hook as git called it."""

from __future__ import annotations

from typing import NamedTuple


class Called(NamedTuple):
    """`pid` is the git process that called; `args` what git gave the hook."""

    pid: int
    args: tuple[str, ...]
