"""What is said of fleets."""

from __future__ import annotations

from git_agentos.cli.render.text import fleet


def test_tasks_that_no_worker_has_begun() -> None:
    assert fleet.not_begun(["a"], 900, "sbatch --wrap 'x'\n:") == (
        "not begun 15 minutes after it was handed over: a; for 'a' this was run: sbatch --wrap 'x'\\n:"
    )
    many = fleet.not_begun([f"t{n}" for n in range(12)], 5400, "x" * 1000)
    assert many.startswith("not begun 1 hour 30 minutes after they were handed over: t0, t1, t2, t3, t4 and 7 more; ")
    assert many.endswith("x...") and len(many) < 450
