"""Tests of the command line leave no file of a crash behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _temporary_files_go_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is kept of a bug outside of a repository goes to the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
