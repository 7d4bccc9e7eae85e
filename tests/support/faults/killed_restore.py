"""A restore that is killed at each of its renames and at each step of its journal, on any file system."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.faults.server import Runner, has_journal
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE, evenly

_KILLS = 1000 if EXHAUSTIVE else 3
Look = Callable[[Repo], object]


def check(runner: Runner, repo: Repo, wreck: Callable[[Repo], object], *, exact: Look, like: Look) -> list[str]:
    """Save the state, `wreck` it and restore it; then restore it again and again, killed at another step each time.
    `recover` finishes that, `recover --abort` aborts it. Returns the steps of a restore that is not killed.

    `exact` is what a complete restore has to bring back; `like`, what has to be as before or after also when a restore
    was recovered.
    """
    runner.run_ok(repo.path, "checkpoint")
    first = repo.text("rev-parse", "refs/agentos/timelines/main^2")
    before, before_like = exact(repo), like(repo)
    wreck(repo)
    wrecked = like(repo)
    command = ("restore", first, "--no-branch")
    steps = runner.run_ok(repo.path, *command).steps
    assert exact(repo) == before
    near = [n for n, step in enumerate(steps, 1) if "os.rename" in step or "journal" in step]
    for count, step in enumerate(evenly(near, _KILLS)):
        wreck(repo)
        done = runner.run(repo.path, *command, step=step, mode="kill")
        what = f"killed before step {step}: {done.steps[-1]}"
        abort, interrupted = count % 2 == 1, has_journal(repo)
        runner.run_ok(repo.path, "recover", *(["--abort"] if abort else []))
        if interrupted:
            assert like(repo) == (wrecked if abort else before_like), what
        runner.run_ok(repo.path, *command)
        assert exact(repo) == before, what
        assert not list(repo.path.rglob(".agentos-*")), what
        repo.git("fsck", "--strict")
    return steps
