"""Measure git-agentos against git, side by side: `python bench/run.py --all`.

Nothing here decides whether a build passes: a time is reported, never asserted.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import report
import toolbox
from harness import TINY, Bench, Figure, Scale
from repositories import BenchError
from rows import ROWS

HERE = Path(__file__).resolve().parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows asked for; 0 when the harness worked, whatever it measured."""
    options = _parser().parse_args(arguments)
    cache: Path = options.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    scale = TINY if options.tiny else Scale()
    if options.sizes:
        scale = replace(scale, sizes=tuple(sorted(options.sizes)))
    load, begin = os.getloadavg(), time.monotonic()
    _say("installing git-agentos")
    tools = toolbox.prepare_tools(cache, options.venv)
    bench = Bench(cache, tools, scale, options.rounds, _say)
    for row in options.rows:
        try:
            ROWS[row](bench)
        except BenchError as error:
            _say(f"{row}: {error}")
            bench.figures.append(Figure(row, row, "", "not measured", None, str(error)))
    when = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    text = report.render(
        bench,
        report.machine(cache, tools, load),
        when,
        report.read_reasons(HERE / "reasons.toml"),
        time.monotonic() - begin,
        os.getloadavg(),
    )
    output = options.output or (HERE / "RESULTS.md" if options.all else None)
    if output is None:
        print(text)
    else:
        output.write_text(text, encoding="utf-8")
        _say("written")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every row, into bench/RESULTS.md unless --output is given")
    parser.add_argument(
        "--rows", type=_rows, default=list(ROWS), metavar="ROW,…", help=f"only these, printed: {', '.join(ROWS)}"
    )
    parser.add_argument(
        "--sizes", type=_numbers, metavar="N,…", help="numbers of files of the repositories (1000,20000,100000)"
    )
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="timed runs of each contender (9)")
    parser.add_argument(
        "--venv", type=Path, metavar="DIR", help="use this environment's git-agentos; else this copy is installed"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir(), "git-agentos-bench"),
        metavar="DIR",
        help="where repositories and environments are kept between runs (a folder below the system's temporary one)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report here")
    parser.add_argument(
        "--tiny", action="store_true", help="a few files of everything: tries the harness, means nothing"
    )
    return parser


def _rows(text: str) -> list[str]:
    rows = text.split(",")
    if unknown := [row for row in rows if row not in ROWS]:
        raise argparse.ArgumentTypeError(f"no such row: {', '.join(unknown)}")
    return rows


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
