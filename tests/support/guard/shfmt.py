"""A system that shfmt is not installed on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest


def without_shfmt(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let this process be one of a Python without it, with nothing but git on PATH, and a folder that is relative."""
    (folder / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", f"{folder}:.venv/bin")
