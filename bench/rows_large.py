"""The row of large changes: thousands of files, all in one folder and in folders of 50.

Each command is measured against what git needs for the same files, and its time at 10,000 files against that at 1,000:
a command whose work grows with the square of the change shows there. Files are new text of about 1 KiB each, so nothing
that a contender stores is in the object store already.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import measure
from harness import TIMES, Bench, add_ratio, tool
from measure import Run, Series
from repositories import BenchError, content, sealed_environment

_LAYOUTS = {"in one folder": 1 << 30, "in folders of 50": 50}
_ADD = "git add -A, git write-tree"
_RESET = "git stash create, git reset --hard"
_PUSH = "git stash push --include-untracked"
_COPY = "cp -a"
_ADD_SCRIPT = "cp .git/index ../index && export GIT_INDEX_FILE=../index && git add -A && git write-tree"
_RESET_SCRIPT = "git stash create && git reset -q --hard"
_MOST_ROUNDS = 5
_GROWTH = 12.0


@dataclass
class _Place:
    """A repository whose `.git` is put back from a copy before each run."""

    path: Path
    names: list[str]
    environment: Mapping[str, str]
    clean: str = ""
    generation: int = 0

    def git(self, *words: str) -> None:
        command = ["git", "-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", *words]
        done = subprocess.run(command, cwd=self.path, env=dict(self.environment), capture_output=True, check=False)
        if done.returncode:
            raise BenchError(f"git {words[0]} failed")

    def write(self, generation: int, *, suffix: str = "", folder: Path | None = None) -> None:
        for name in self.names:
            path = (folder or self.path) / (name + suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(name, generation))

    def keep(self) -> None:
        shutil.rmtree(self.backup, ignore_errors=True)
        shutil.copytree(self.path / ".git", self.backup, symlinks=True)

    def put_back(self) -> None:
        """The `.git` as it was kept, and all files changed, as no run before has seen them."""
        self.generation += 1
        shutil.rmtree(self.path / ".git")
        subprocess.run(["cp", "-a", str(self.backup), str(self.path / ".git")], check=True)
        self.write(self.generation)
        time.sleep(0.1)  # a file that is younger than a tick of the clock is waited for

    @property
    def backup(self) -> Path:
        return self.path.with_name("git-backup")


def large(bench: Bench) -> None:
    """Checkpoint, restore, undo, archive and revive of large changes, in two layouts."""
    for layout, folder in list(_LAYOUTS.items())[: 1 if bench.scale.hurried else None]:
        ended: dict[str, dict[int, Series]] = {}
        for size in bench.scale.large:
            for kind in ("changed", "untracked"):
                bench.say(f"large: {size} {kind} files {layout}")
                for name, series in _changes(bench, layout, folder, size, kind).items():
                    ended.setdefault(f"{name} of {kind} files", {})[size] = series
        for size in bench.scale.large[:2]:
            bench.say(f"large: archive and revive, {size} files {layout}")
            for name, series in _ends(bench, layout, folder, size).items():
                ended.setdefault(name, {})[size] = series
        for name, by_size in ended.items():
            _growth(bench, name, layout, by_size)


def _place(bench: Bench, folder: int, size: int, kind: str) -> Iterator[_Place]:
    """A repository of `size` files, in which they all are `kind`; it is gone afterwards."""
    root = bench.cache / "large"
    shutil.rmtree(root, ignore_errors=True)
    names = [f"d{i // folder:04d}/f{i:05d}.txt" for i in range(size)]
    place = _Place(root / "repository", names, sealed_environment(root / "home"))
    place.path.mkdir(parents=True)
    try:
        place.git("init", "--quiet", "--initial-branch=main")
        for key, value in (("user.name", "Bench"), ("user.email", "bench@example.invalid"), ("gc.auto", "0")):
            place.git("config", key, value)
        (place.path / ".gitignore").write_text("*.ignored\n")
        if kind != "untracked":
            place.write(0)
        if not bench.scale.hurried:
            time.sleep(1.1)  # so that no stat data is suspect
        place.git("add", "--all")
        place.git("commit", "--quiet", "-m", "base")
        place.git("repack", "-adq")
        place.clean = _taken(bench, place)
        place.keep()
        yield place
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _taken(bench: Bench, place: _Place) -> str:
    taken = measure.run(tool(bench, "checkpoint", "--json", "-m", "clean"), place.path, place.environment)
    return str(json.loads(taken.stdout)["id"])


def _changes(bench: Bench, layout: str, folder: int, size: int, kind: str) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for place in _place(bench, folder, size, kind):
        restore = tool(bench, "restore", "-q", "--no-branch", place.clean)
        reset = ("sh", "-c", _RESET_SCRIPT) if kind == "changed" else ("git", "stash", "push", "-q", "-u")
        commands = {
            _ADD: ("sh", "-c", _ADD_SCRIPT),
            "checkpoint": tool(bench, "checkpoint", "-q", "-m", "bench"),
            _RESET if kind == "changed" else _PUSH: reset,
            "restore": restore,
            "undo": tool(bench, "undo", "-q"),
        }

        def prepare(name: str, _number: int, place: _Place = place, first: tuple[str, ...] = restore) -> None:
            place.put_back()
            if name == "undo":
                measure.run(first, place.path, place.environment)

        series = _alternate(bench, place, commands, prepare)
        found = {name: each for name, each in series.items() if name in ("checkpoint", "restore", "undo")}
        for name, other, limit in (
            ("checkpoint", _ADD, 1.2),
            *((name, _RESET if kind == "changed" else _PUSH, 1.5) for name in ("restore", "undo")),
        ):
            work = f"{name} of {size:,} {kind} files {layout}, against `{other}`"
            add_ratio(bench, "large", work, series[name], series[other], limit, judged=True)
    return found


def _ends(bench: Bench, layout: str, folder: int, size: int) -> dict[str, Series]:
    """Archive and revive of a worktree in which all files are changed, with as many ignored ones."""
    found: dict[str, Series] = {}
    for place in _place(bench, folder, size, "changed"):
        there = place.path.with_name("repository.worktrees") / "dev"
        copy = place.path.with_name("copy")
        archive = tool(bench, "worktree", "archive", "-q", "dev")
        commands = {
            _COPY: ("cp", "-a", str(there), str(copy)),
            "worktree archive": archive,
            "worktree create --revive": tool(bench, "worktree", "create", "-q", "dev", "--revive"),
        }

        def prepare(
            name: str, number: int, place: _Place = place, there: Path = there, first: tuple[str, ...] = archive
        ) -> None:
            _wait_for_trash(place)
            shutil.rmtree(place.path.with_name("copy"), ignore_errors=True)
            shutil.rmtree(there.parent, ignore_errors=True)
            place.put_back()
            measure.run(tool(bench, "worktree", "create", "-q", "dev"), place.path, place.environment)
            place.write(number + 100, folder=there)
            place.write(number + 100, suffix=".ignored", folder=there)
            time.sleep(0.1)
            if name == "worktree create --revive":
                measure.run(first, place.path, place.environment)
                _wait_for_trash(place)

        series = _alternate(bench, place, commands, prepare)
        found = {name: each for name, each in series.items() if name != _COPY}
        for name, each in found.items():
            work = f"{name} with {size:,} changed and {size:,} ignored files {layout}, against `{_COPY}` of them"
            add_ratio(bench, "large", work, each, series[_COPY], 3, judged=True)
    return found


def _alternate(
    bench: Bench, place: _Place, commands: Mapping[str, tuple[str, ...]], prepare: Callable[[str, int], None]
) -> dict[str, Series]:
    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], place.path, place.environment)

    return measure.alternate(tuple(commands), min(bench.rounds, _MOST_ROUNDS), prepare, timed)


def _wait_for_trash(place: _Place) -> None:
    """Until what was archived is deleted: that goes on in the background, and is nobody else's to pay for."""
    deadline = time.monotonic() + 300
    trashes = (place.path.with_name("repository.worktrees") / ".agentos-trash", place.path / ".git/agentos/trash")
    while any(each.is_dir() for each in trashes) and time.monotonic() < deadline:
        time.sleep(0.02)


def _growth(bench: Bench, name: str, layout: str, by_size: Mapping[int, Series]) -> None:
    few, many = bench.scale.large[:2]
    ratio = by_size[many].median / by_size[few].median
    bench.add(
        "large",
        f"{name} {layout}: time at {many:,} against {few:,}",
        f"≤ {_GROWTH:g} {TIMES}",
        f"{ratio:.1f} {TIMES}",
        ratio <= _GROWTH,
        f"{by_size[many].median:.2f} s against {by_size[few].median:.2f} s",
        judged=True,
    )
