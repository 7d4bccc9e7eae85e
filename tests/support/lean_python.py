"""A Python with pytest and nothing else: it starts in a third of the time, and no plugin of ours takes part."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import venv
from pathlib import Path

_NEEDED = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")


def minimal_venv(folder: Path, *more: str, copied: bool = False) -> Path:
    """Make a virtual environment at `folder`, with `more` modules of this one (links to them, or copies); its
    interpreter."""
    venv.create(folder, symlinks=True, with_pip=False)
    for name in (*_NEEDED, *more):
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        found = Path(spec.submodule_search_locations[0] if spec.submodule_search_locations else str(spec.origin))
        there = site_packages(folder) / found.name
        if not copied:
            os.symlink(found, there)
        elif found.is_dir():
            shutil.copytree(found, there)
        else:
            shutil.copy2(found, there)
    (site_packages(folder) / "pluggy-1.dist-info").mkdir()
    version = importlib.metadata.version("pluggy")  # it asks for it
    told = f"Metadata-Version: 2.1\nName: pluggy\nVersion: {version}\n"
    (site_packages(folder) / "pluggy-1.dist-info" / "METADATA").write_text(told)
    return folder / "bin" / "python"


def site_packages(folder: Path) -> Path:
    """Where a virtual environment has what is installed."""
    return folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
