"""The engine `ray` where Ray is not installed: the error is the same where it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.errors import FleetError
from git_agentos.fleet.engines.ray import RayEngine


def test_without_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError(\"No module named 'ray'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(FleetError, match="the engine ray cannot be loaded: No module named 'ray'") as caught:
        RayEngine(address=None, retries=2).check([])

    assert caught.value.hint == "pip install 'git-agentos[fleet]' installs it"


def test_ray_is_imported_when_it_is_asked_for() -> None:
    script = "import sys, git_agentos.fleet.engines.ray; print('ray' in sys.modules)"

    out = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert out.stdout == b"False\n"
