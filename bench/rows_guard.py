"""The rows of the guard: what it costs a command that loses nothing, and one that needed approval and has it.

The worktree is a managed one. Compared are git as it is guarded, git with the guard taken out by the command line
(`-c core.fsmonitor= -c core.hooksPath=`), and git with an empty sh hook wherever the guard has one.
"""

from __future__ import annotations

import functools
import os
import pty
import shlex
import shutil
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

import measure
from harness import TIMES, Bench, ms, tool
from measure import Run, Series
from repositories import Arena

_OUT = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_HARMLESS = (("status",), ("diff",), ("log", "-1"), ("add", "--all"))
_PICKED = 10
_FETCHED = 500


class Guarded:
    """A guarded worktree of an arena, and a folder of empty hooks beside it."""

    def __init__(self, bench: Bench, size: int) -> None:
        self.bench = bench
        self.arena: Arena = bench.arena(size, "guard")
        self.arena.fresh()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.arena.git("worktree", "prune")
        for name in self.arena.git("for-each-ref", "--format=%(refname)", "refs/heads/agent").decode().split():
            self.arena.git("update-ref", "-d", name)
        self._run(self.arena.path, *tool(bench, "worktree", "create", "-q", "dev"))
        self._key = self.arena.path.parent / "approval.key"
        self._key.write_text("bench\n")
        self.arena.git("config", "agentos.approvalKey", str(self._key))
        self._confirm()
        self._make_empty_hooks()

    def _confirm(self) -> None:
        """Let the key count, as a person does at a terminal; earlier versions do not ask for it."""
        ours, theirs = pty.openpty()
        argv = tool(self.bench, "guard", "confirm")
        subprocess.run(
            argv, cwd=self.arena.path, env=self.arena.environment, stdin=theirs, capture_output=True, check=False
        )
        os.close(ours)
        os.close(theirs)

    @property
    def folder(self) -> Path:
        return self.arena.path.with_name(self.arena.path.name + ".worktrees")

    @property
    def path(self) -> Path:
        return self.folder / "dev"

    def _run(self, where: Path, *argv: str) -> Run:
        return measure.run(argv, where, self.arena.environment)

    def plain(self, *arguments: str) -> bytes:
        """git in the worktree without the guard."""
        return self._run(self.path, "git", *_OUT, *arguments).stdout

    def _make_empty_hooks(self) -> None:
        placed = Path(self.plain("config", "--worktree", "core.hooksPath").decode().strip())
        empty = self.arena.path.parent / "empty-hooks"
        shutil.rmtree(empty, ignore_errors=True)
        empty.mkdir()
        for name in os.listdir(placed):
            hook = empty / name
            hook.write_text("#!/bin/sh\nexit 0\n" if name != "fsmonitor" else "#!/bin/sh\nexit 1\n")
            hook.chmod(0o755)
        self.empty = (
            "-c", f"core.hooksPath={empty}", "-c", f"core.fsmonitor={empty}/fsmonitor",
            "-c", "core.fsmonitorHookVersion=2",
        )  # fmt: skip


def guard(bench: Bench) -> None:
    """What the guard costs: questions, harmless commands, everyday work, and commands of many steps."""
    _check(bench)
    for size in {bench.size_near(1_000), bench.size_near(20_000)}:
        _harmless(bench, Guarded(bench, size), judged=size == bench.size_near(20_000))
    _everyday(bench, Guarded(bench, bench.size_near(1_000)))
    _below_exec(bench, Guarded(bench, bench.size_near(1_000)))
    _of_many_steps(bench, Guarded(bench, bench.size_near(1_000)))


def _everyday(bench: Bench, place: Guarded) -> None:
    """An agent's usual commands: what they wait for, and the processor time until they go on (what is recorded
    afterwards, by a process of its own, is not in it)."""
    changed = place.path / "everyday.txt"
    place.plain("branch", "--force", "everyday")

    def edit(*more: tuple[str, ...]) -> Callable[[], None]:
        def prepare() -> None:
            for command in (("reset", "-q", "--hard"), ("clean", "-qfd"), ("switch", "-q", "agent/dev")):
                place.plain(*command)
            changed.write_text(os.urandom(8).hex())
            for command in more:
                place.plain(*command)

        return prepare

    rows: tuple[tuple[tuple[str, ...], Callable[[], None], float], ...] = (
        (("commit", "-q", "-m", "everyday"), edit(("add", "--all")), 0.2),
        (("switch", "-q", "everyday"), edit(("add", "--all"), ("commit", "-q", "-m", "one")), 0.2),
        (("add", "-A"), edit(), 0.02),
        (("stash", "pop", "-q"), edit(("add", "--all"), ("stash", "-q")), 0.2),
    )
    for command, before, most in rows:
        text = "git " + " ".join(command[: 2 if command[0] in ("stash", "add") else 1])
        bench.say(f"guard: {text}, time until it goes on")
        commands = {"guarded": ("git", *command), "git": ("git", *_OUT, *command)}
        series = _alternate(
            bench, commands, lambda _: place.path, place.arena.environment, rounds=9,
            prepare=functools.partial(_prepare, bench, place, before),
        )  # fmt: skip
        used, alone = (statistics.median(series[name].processor) for name in ("guarded", "git"))
        bench.add(
            "guard",
            f"`{text}` in a guarded worktree, processor time until it goes on",
            f"≤ {most * 1000:.0f} ms",
            f"{used * 1000:.0f} ms",
            used <= most,
            f"{alone * 1000:.0f} ms without the guard; to wait for: {_spreads(series['guarded'], series['git'])}",
            judged=not bench.scale.hurried,
        )


def _prepare(bench: Bench, place: Guarded, before: Callable[[], None], _name: str, _number: int) -> None:
    """As `before` has it, with nothing of the round before still at work."""
    measure.run(tool(bench, "checkpoint", "list", "-n", "1"), place.path, place.arena.environment)
    before()


def _below_exec(bench: Bench, place: Guarded) -> None:
    """`git status` where both the shim and the worktree's layers are."""
    bench.say("guard: git status below guard exec")
    shim = _shim_of(bench, place)
    commands = {"shim": (shim, "status", "--short"), "git": ("git", *_OUT, "status", "--short")}
    series = _alternate(bench, commands, lambda _: place.path, place.arena.environment, rounds=25)
    more = (series["shim"].median - series["git"].median) * 1000
    used = (statistics.median(series["shim"].processor) - statistics.median(series["git"].processor)) * 1000
    bench.add(
        "guard",
        "`git status` below `guard exec`, over git without the guard",
        "≤ 10 ms",
        f"{more:.1f} ms",
        more <= 10,
        f"processor time {used:.1f} ms; {_spreads(series['shim'], series['git'])}",
        judged=not bench.scale.hurried,
    )


def _check(bench: Bench) -> None:
    arena = bench.arena(bench.size_near(1_000), "guard")
    arena.fresh()
    check, imports = "guard check", "import typer"
    commands = {
        check: tool(bench, "guard", "check", "--", "git", "status"),
        imports: (bench.tools.python, "-c", imports),
    }
    series = _alternate(bench, commands, lambda _: arena.path, arena.environment, rounds=15)
    ratio = series[check].median / series[imports].median
    bench.add(
        "guard",
        f"`guard check -- git status`, whole process, against `{imports}`",
        f"≤ 1.3 {TIMES}",
        f"{ratio:.2f} {TIMES}",
        ratio <= 1.3,
        _spreads(series[check], series[imports]),
        judged=True,
    )


def _harmless(bench: Bench, place: Guarded, *, judged: bool) -> None:
    size = place.arena.size
    for command in _HARMLESS:
        text = "git " + " ".join(command)
        bench.say(f"guard: {text}, {size} files")
        commands = {"guarded": ("git", *command), "git": ("git", *_OUT, *command)}
        series = _alternate(bench, commands, lambda _: place.path, place.arena.environment, rounds=15)
        more = (series["guarded"].median - series["git"].median) * 1000
        bench.add(
            "guard",
            f"`{text}` in a guarded worktree of {size:,} files, over git",
            "≤ 5 ms",
            f"{more:.1f} ms",
            more <= 5,
            _spreads(series["guarded"], series["git"]),
            judged=judged or not bench.scale.hurried,
        )
    shim = _shim_of(bench, place)
    # In a place that no layer guards: the shim's own cost.
    commands = {"shim": (shim, "status", "--short"), "git": ("git", "status", "--short")}
    series = _alternate(bench, commands, lambda _: place.arena.path, place.arena.environment, rounds=25)
    more = (series["shim"].median - series["git"].median) * 1000
    bench.add(
        "guard",
        f"`git status` through the shim, {size:,} files, over git",
        "≤ 3 ms",
        f"{more:.1f} ms",
        more <= 3,
        _spreads(series["shim"], series["git"]),
        judged=judged or not bench.scale.hurried,
    )


def _shim_of(bench: Bench, place: Guarded) -> str:
    """The `git` that a command below `guard exec` finds."""
    found = measure.run(
        tool(bench, "guard", "exec", "--", "sh", "-c", "command -v git"), place.path, place.arena.environment
    )
    return found.stdout.decode().strip()


def _of_many_steps(bench: Bench, place: Guarded) -> None:
    """Commands of many steps, guarded, against an empty sh hook in the same places."""
    remote = place.arena.path.parent / "many.git"
    _make_remote(place, remote)
    for number in range(_PICKED):
        (place.path / f"picked-{number}.txt").write_text(f"{number}\n")
        place.plain("add", "--all")
        place.plain("commit", "-q", "-m", f"picked {number}")
    top = place.plain("rev-parse", "HEAD").decode().strip()
    rows: tuple[tuple[str, tuple[tuple[str, ...], ...], Callable[[], None], float], ...] = (
        (f"a rebase of {_PICKED} commits", (("rebase", "-q", "--force-rebase", f"HEAD~{_PICKED}"),),
         lambda: _ignore(place.plain("reset", "-q", "--hard", top)), 2.5),
        (f"a fetch of {_FETCHED} refs", (("fetch", "-q", str(remote), "+refs/heads/*:refs/remotes/many/*"),),
         lambda: _forget(place), 1.5),
        ("`git gc`", (("gc", "-q"),), lambda: None, 1.5),
        ("`git stash` and `git stash pop`", (("stash", "-q"), ("stash", "pop", "-q")),
         lambda: _ignore((place.path / "picked-0.txt").write_text("changed\n")), 4),
    )  # fmt: skip
    for work, steps, before, limit in rows:
        bench.say(f"guard: {work}")
        _compare(bench, place, work, steps, before, limit)


def _compare(
    bench: Bench,
    place: Guarded,
    work: str,
    steps: tuple[tuple[str, ...], ...],
    before: Callable[[], None],
    limit: float,
) -> None:
    """A row: git commands that follow each other in one shell, in the guarded worktree, against empty hooks there."""
    commands = {
        name: ("sh", "-c", " && ".join(shlex.join(("git", *options, *step)) for step in steps))
        for name, options in (("guarded", ()), ("empty", place.empty))
    }
    series = measure.alternate(
        tuple(commands),
        max(bench.rounds, 7) if not bench.scale.hurried else 1,
        lambda _name, _number: before(),
        lambda name, _number: measure.run(commands[name], place.path, place.arena.environment),
    )
    ratio = series["guarded"].median / series["empty"].median
    bench.add(
        "guard",
        f"{work} in a guarded worktree, against an empty sh hook in the same places",
        f"≤ {limit} {TIMES}",
        f"{ratio:.2f} {TIMES}",
        ratio <= limit,
        _spreads(series["guarded"], series["empty"]),
        judged=not bench.scale.hurried,
    )


def _make_remote(place: Guarded, remote: Path) -> None:
    shutil.rmtree(remote, ignore_errors=True)
    environment = dict(place.arena.environment)
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], env=environment, check=True)
    lines = "".join(f"create refs/heads/b{number} {_commit(place)}\n" for number in range(_FETCHED))
    place.plain("push", "-q", str(remote), "HEAD:refs/heads/main")
    subprocess.run(
        ["git", "--git-dir", str(remote), "update-ref", "--stdin"], input=lines.encode(), env=environment, check=True
    )


def _commit(place: Guarded) -> str:
    return place.plain("rev-parse", "HEAD").decode().strip()


def _forget(place: Guarded) -> None:
    """No ref of the remote is here, as before the first fetch."""
    names = place.plain("for-each-ref", "--format=delete %(refname)", "refs/remotes/many").decode()
    subprocess.run(
        ["git", *_OUT, "update-ref", "--stdin"],
        cwd=place.path, input=names.encode(), env=dict(place.arena.environment), check=True,
    )  # fmt: skip


def _alternate(
    bench: Bench,
    commands: dict[str, tuple[str, ...]],
    where: Callable[[str], Path],
    environment: object,
    *,
    rounds: int,
    prepare: Callable[[str, int], None] = lambda _name, _number: None,
) -> dict[str, Series]:
    return measure.alternate(
        tuple(commands),
        1 if bench.scale.hurried else max(bench.rounds, rounds),
        prepare,
        lambda name, _number: measure.run(commands[name], where(name), environment),  # type: ignore[arg-type]
    )


def _spreads(one: Series, other: Series) -> str:
    return f"{ms(one)} against {ms(other)} ({one.spread()}; {other.spread()})"


def _ignore(_value: object) -> None:
    """For a callback whose answer nobody needs."""
