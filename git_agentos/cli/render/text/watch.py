"""`watch` as text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import duration, lines
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.watch.control import WatchStatus

_UNIT = """\
[Unit]
Description=git-agentos watches {root}

[Service]
ExecStart={python} -I -m git_agentos -C {root} watch start --foreground
Restart=on-failure

[Install]
WantedBy=default.target
"""


def status(watch: WatchStatus, style: Style) -> Text:
    """`watch start`, `stop` and `status`."""
    if not watch.running:
        return Text("No daemon watches this repository.\n", hints=("'git agentos watch start' starts one",))
    ends = "" if watch.idle_seconds is None else f"; ends after {duration(int(watch.idle_seconds))} without work"
    rows = [f"A daemon watches this repository (process {watch.pid}{ends})."]
    for each in watch.worktrees:
        what = (
            count(each["folders"], "folder")
            if each["watching"]
            else style.paint("yellow", f"not watched: {each['reason']}")
        )
        rows.append(f"  {quote.path(each['path'])}  {what}")
    return Text(lines(rows), quiet=f"{watch.pid}\n")


def unit(root: str) -> str:
    """A service file for systemd's user manager (systemd.service(5)): `%` and quotes have a meaning there."""
    return _UNIT.format(root=_word(root), python=_word(sys.executable))


def _word(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != text or " " in text else text
