"""`.ci/matrix`, which `make test-matrix` and CI run: what it says where it can make no system, and what it tries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.support.env import PROJECT_ROOT

_SCRIPT = PROJECT_ROOT / ".ci" / "matrix"


def test_it_says_why_it_is_skipped(tmp_path: Path) -> None:
    for name in ("bash", "dirname", "id"):
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    done = subprocess.run(
        [tmp_path / "bash", _SCRIPT, "all"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    reason = "there is no debootstrap: apt-get install debootstrap" if os.geteuid() == 0 else "only root can make one"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"skipped: no Debian system can be made to test other versions of git and Python in: {reason}\n"
    )


def test_usage(tmp_path: Path) -> None:
    for words in ([], ["nothing"], ["make", "sid"], ["run", str(tmp_path)]):
        done = subprocess.run([_SCRIPT, *words], capture_output=True, text=True, check=False)
        if done.stdout.startswith("skipped"):
            continue
        assert done.returncode == 2 and ".ci/matrix make SUITE FOLDER" in done.stderr, (words, done)


def test_the_readme_names_what_is_tried() -> None:
    cells = re.findall(r"^(\w+) +([\d.]+) +([\d.]+) +(.+)$", _SCRIPT.read_text(), re.MULTILINE)
    tried = [(git, python) for _, git, python, formats in cells if formats != "refused"]
    assert len(tried) == 3
    readme = " ".join((PROJECT_ROOT / "README.md").read_text().split())
    gits, pythons = (f"{', '.join(each[:-1])} and {each[-1]}" for each in zip(*tried, strict=True))
    assert f"`make test-matrix` tries git {gits} with Python {pythons}" in readme
