"""A review as one HTML page: no script, no network, no font but the reader's own; for a phone as for a screen, by day
and by night.

Everything that is not ours is made visible first, as for a terminal (`quote`: controls, marks that turn the direction
of writing, bytes that are not UTF-8), then escaped, and isolated so that text from right to left does not turn what is
around it. The page's own policy forbids whatever might slip through: nothing is loaded and nothing runs.
"""

from __future__ import annotations

import contextlib
import html
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from git_agentos.cli import quote, text
from git_agentos.cli.text_log import duration, plain
from git_agentos.errors import StorageError

if TYPE_CHECKING:
    from git_agentos.history import Event
    from git_agentos.log import Entry
    from git_agentos.review import Decision, Patterns, Review

_MOST_FILES = 12
_WIDTH, _HEIGHT = 1000, 64
_LANES = ("commit", "checkpoint", "restore", "entry")

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="git-agentos">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header>
<p class="eyebrow">Review of an agent's work</p>
<h1><bdi>{agent}</bdi></h1>
<p class="span">{span}</p>
<ul class="counts">{counts}</ul>
{strip}
</header>
<nav aria-label="Sections"><div>{nav}</div></nav>
<main>
{sections}
</main>
<footer>Made by git-agentos on {made}. Times are UTC.</footer>
</body>
</html>
"""

_STYLE = """\
:root{--bg:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d8dee4;--error:#c62336;--decision:#0b66c2;
--commit:#8a5a00;--checkpoint:#1a7f4b;--restore:#7a3fc4;--entry:#59636e;--nudge:#0e7c86;--tint:#eef1f5}
@media (prefers-color-scheme:dark){:root{--bg:#0f1318;--card:#171c23;--ink:#e6eaef;--soft:#9aa5b1;--line:#2b333d;
--error:#ff7b86;--decision:#6cb2ff;--commit:#e3b35a;--checkpoint:#5fcf95;--restore:#c39bff;--entry:#9aa5b1;
--nudge:#56c8d4;--tint:#1f262f}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-padding-top:3.5rem}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans",sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:60rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
.eyebrow{margin:0;color:var(--soft);font-size:.85rem}
h1{margin:.1rem 0 .2rem;font-size:clamp(1.6rem,6vw,2.2rem);line-height:1.2}
.span{margin:0 0 1rem;color:var(--soft)}
.counts{display:grid;grid-template-columns:repeat(auto-fit,minmax(6.2rem,1fr));gap:.5rem;margin:0 0 1rem;padding:0;
list-style:none}
.counts li{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.5rem .7rem;
color:var(--soft);font-size:.85rem}
.counts b{display:block;color:var(--ink);font-size:1.35rem;line-height:1.2;font-variant-numeric:tabular-nums}
.counts .hot b{color:var(--error)}
figure{margin:0 0 .5rem;background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.6rem .7rem}
figure svg{display:block;width:100%;height:4.5rem}
svg line{stroke:var(--dot);stroke-width:5}
svg .lane{stroke:var(--line);stroke-width:1}
figcaption{display:flex;justify-content:space-between;gap:1rem;color:var(--soft);font-size:.8rem;margin-top:.35rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;margin:0 0 .35rem;padding:0;list-style:none;font-size:.8rem;
color:var(--soft)}
.legend i{display:inline-block;width:.6rem;height:.6rem;border-radius:50%;margin-right:.35rem}
nav{position:sticky;top:0;z-index:2;background:var(--bg);border-bottom:1px solid var(--line)}
nav div{display:flex;gap:.3rem;overflow-x:auto;max-width:60rem;margin:0 auto;padding:.5rem 1rem;scrollbar-width:none}
nav div::-webkit-scrollbar{display:none}
nav a{flex:none;color:var(--ink);text-decoration:none;padding:.35rem .8rem;border-radius:1rem;background:var(--tint);
font-size:.9rem}
nav a:focus-visible,summary:focus-visible{outline:2px solid var(--decision);outline-offset:2px}
section{margin:1.6rem 0}
h2{font-size:1.2rem;margin:0 0 .7rem}
h2 small{color:var(--soft);font-weight:400;font-size:.9rem}
h3{font-size:.95rem;margin:1.1rem 0 .4rem;color:var(--soft);font-weight:600}
.card{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--entry);border-radius:.6rem;
padding:.7rem .9rem;margin:0 0 .6rem}
.card.error{border-left-color:var(--error)}
.card.decision{border-left-color:var(--decision)}
.card p{margin:.15rem 0}
.what{font-weight:600;white-space:pre-wrap}
.meta{color:var(--soft);font-size:.85rem}
dl{display:grid;grid-template-columns:minmax(5.5rem,auto) 1fr;gap:.15rem .8rem;margin:.5rem 0 0;font-size:.92rem}
dt{color:var(--soft)}
dd{margin:0;white-space:pre-wrap;min-width:0}
dd ul{margin:0;padding-left:1.1rem}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.rows{list-style:none;margin:0;padding:0;background:var(--card);border:1px solid var(--line);border-radius:.6rem}
.rows li{display:flex;justify-content:space-between;align-items:baseline;gap:1rem;padding:.5rem .9rem}
.rows li+li{border-top:1px solid var(--line)}
.rows b{flex:none;font-variant-numeric:tabular-nums}
.empty{color:var(--soft);margin:0}
.day{position:sticky;top:3.1rem;z-index:1;background:var(--bg);padding:.3rem 0;margin:1rem 0 .2rem;font-size:.9rem}
ol.stream{list-style:none;margin:0;padding:0 0 0 .45rem;border-left:2px solid var(--line)}
.stream li{position:relative;padding:.3rem 0 .3rem 1rem}
.stream li::before{content:"";position:absolute;left:-.86rem;top:.75rem;width:.7rem;height:.7rem;border-radius:50%;
background:var(--dot);border:2px solid var(--bg)}
.stream time{color:var(--soft);font-size:.85rem;font-variant-numeric:tabular-nums;margin-right:.4rem}
.tag{display:inline-block;font-size:.78rem;font-weight:600;color:var(--dot);margin-right:.4rem}
.commit{--dot:var(--commit)}.checkpoint{--dot:var(--checkpoint)}.restore{--dot:var(--restore)}.entry{--dot:var(--entry)}
.is-error{--dot:var(--error)}.is-decision{--dot:var(--decision)}.is-nudge{--dot:var(--nudge)}
details{margin-top:.1rem}
summary{cursor:pointer;color:var(--soft);font-size:.85rem;padding:.15rem 0}
details ul{margin:.2rem 0 .2rem 1.1rem;padding:0;font-size:.88rem}
footer{color:var(--soft);font-size:.85rem;padding:1.5rem 1rem 2.5rem}
@media print{nav{display:none}body{background:#fff}.card,.rows,figure{break-inside:avoid}}"""


def review(found: Review) -> str:
    """The page."""
    counts = found.counts
    seen = found.patterns
    stands_out = len(seen.repeated_errors) + len(seen.churn) + len(seen.restores) + len(seen.silences)
    sections = (
        ("errors", "Errors", len(found.errors), _errors(found.errors)),
        ("decisions", "Decisions", len(found.decisions), _decisions(found.decisions)),
        ("patterns", "What stands out", stands_out, _patterns(seen)),
        ("timeline", "Timeline", len(found.events), _stream(found.events)),
    )
    tiles = (
        ("commits", "commit", ""),
        ("checkpoints", "checkpoint", ""),
        ("restores", "restore", ""),
        ("entries", "log entry", ""),
        ("decisions", "decision", ""),
        ("errors", "error", " class=hot" if counts["errors"] else ""),
    )
    return _PAGE.format(
        title=f"Review of {_line(found.agent)}",
        style=_STYLE,
        agent=_line(found.agent),
        span=_span(found.begin, found.end),
        counts="".join(
            f"<li{extra}><b>{counts[key]}</b>{noun if counts[key] == 1 else _plural(noun)}</li>"
            for key, noun, extra in tiles
        ),
        strip=_strip(found.events),
        nav="".join(f'<a href="#{id_}">{title} ({number})</a>' for id_, title, number, _ in sections),
        sections="\n".join(
            f'<section id="{id_}"><h2>{title} <small>{number}</small></h2>\n{body}\n</section>'
            for id_, title, number, body in sections
        ),
        made=_moment(datetime.now(UTC).isoformat(timespec="seconds")),
    )


def write(path: str, page: str) -> str:
    """Write a page to a file, whole or not at all; its absolute path. StorageError where it cannot be written."""
    target = os.path.abspath(path)
    temporary = f"{target}.{os.urandom(6).hex()}"
    try:
        if os.path.isdir(target):
            raise StorageError(f"'{path}' is a directory", "name a file")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(page.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}") from error
    return target


# -- what is shown ---------------------------------------------------------------------------------------------------


def _line(value: str) -> str:
    """Text on one line."""
    return html.escape(quote.line(value))


def _block(value: str) -> str:
    """Text of any number of lines, turned by no mark in it."""
    return f"<bdi>{html.escape(quote.block(value))}</bdi>"


def _path(name: str) -> str:
    return f"<code><bdi>{html.escape(quote.path(name))}</bdi></code>"


def _plural(noun: str) -> str:
    return noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"


def _short(identifier: str | None) -> str:
    return f"<code>{_line(text.short(identifier))}</code>"


def _parse(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _moment(time: str) -> str:
    """A moment as `2026-11-22 14:05`."""
    found = _parse(time)
    return f"{found:%Y-%m-%d %H:%M}" if found is not None else _line(time)


def _stamp(time: str) -> str:
    return f'<time datetime="{_line(time)}">{_moment(time)}</time>'


def _span(begin: str | None, end: str | None) -> str:
    if begin is None or end is None:
        return "Nothing has happened yet."
    first, last = _parse(begin), _parse(end)
    if first is None or last is None:
        return f"{_stamp(begin)} to {_stamp(end)}"
    seconds = int((last - first).total_seconds())
    return f"{_stamp(begin)} to {_stamp(end)} ({duration(seconds)})" if seconds else _stamp(begin)


def _strip(events: Sequence[Event]) -> str:
    """Everything along one line of time, a lane for each kind."""
    times = [(found.timestamp(), event) for event in events if (found := _parse(event.time)) is not None]
    if len(times) < 2:
        return ""
    first, last = min(each[0] for each in times), max(each[0] for each in times)
    span = (last - first) or 1.0
    step = _HEIGHT / len(_LANES)
    marks = []
    drawn: set[tuple[int, str, str]] = set()
    for seconds, event in times:
        x = round(6 + (seconds - first) / span * (_WIDTH - 12))
        name = _kind_class(event)
        if (x, event.kind, name) in drawn:
            continue  # a thousand on one spot are one
        drawn.add((x, event.kind, name))
        y = round(step * (_LANES.index(event.kind) + 0.5), 1)
        marks.append(f'<line x1="{x}" x2="{x}" y1="{y - step * 0.36:.1f}" y2="{y + step * 0.36:.1f}" class="{name}"/>')
    lanes = "".join(
        f'<line x1="0" x2="{_WIDTH}" y1="{step * (n + 0.5):.1f}" y2="{step * (n + 0.5):.1f}" class="lane"/>'
        for n in range(len(_LANES))
    )
    legend = "".join(
        f'<li><i style="background:var(--{name})"></i>{label}</li>'
        for name, label in (
            ("commit", "commits"),
            ("checkpoint", "checkpoints"),
            ("restore", "restores"),
            ("entry", "log entries"),
            ("decision", "decisions"),
            ("error", "errors"),
        )
    )
    return (
        f'<figure><ul class="legend">{legend}</ul>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="When it happened">'
        f"{lanes}{''.join(marks)}</svg>"
        f"<figcaption><span>{_moment(events[-1].time)}</span><span>{_moment(events[0].time)}</span></figcaption></figure>"
    )


def _kind_class(event: Event) -> str:
    special = event.kind == "entry" and event.type in ("error", "decision", "nudge")
    return f"{event.kind} is-{event.type}" if special else event.kind


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names (ours or escaped) and values (escaped)."""
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    return f"<dl>{shown}</dl>" if shown else ""


def _errors(errors: Sequence[Entry]) -> str:
    if not errors:
        return '<p class="empty">No errors were logged.</p>'
    cards = []
    for entry in reversed(errors):
        facts = _facts(
            [
                *((_line(str(key)), _block(plain(value))) for key, value in entry.details.items()),
                ("files", _files(entry.files_changed)),
                *_marks(entry),
            ]
        )
        cards.append(
            f'<article class="card error"><p class="what">{_block(entry.summary)}</p>'
            f'<p class="meta">{_stamp(entry.timestamp)} by {_line(entry.agent_id)}</p>{facts}</article>'
        )
    return "\n".join(cards)


def _decisions(decisions: Sequence[Decision]) -> str:
    if not decisions:
        return '<p class="empty">No decisions were logged.</p>'
    cards = []
    for each in reversed(decisions):
        others = "".join(f"<li>{_block(other)}</li>" for other in each.alternatives)
        facts = _facts(
            [
                ("because", _block(each.rationale) if each.rationale else ""),
                ("instead of", f"<ul>{others}</ul>" if others else ""),
                *((_line(str(key)), _block(plain(value))) for key, value in each.details.items()),
                ("files", _files(each.files_changed)),
                *_marks(each),
            ]
        )
        cards.append(
            f'<article class="card decision"><p class="what">{_block(each.summary)}</p>'
            f'<p class="meta">{_stamp(each.timestamp)} by {_line(each.agent_id)}</p>{facts}</article>'
        )
    return "\n".join(cards)


def _marks(one: Entry | Decision) -> list[tuple[str, str]]:
    return [
        ("commit", _short(one.commit) if one.commit else ""),
        ("checkpoint", _short(one.checkpoint_id) if one.checkpoint_id else ""),
        ("task", _line(one.task_id) if one.task_id else ""),
    ]


def _files(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
    return ", ".join(_path(path) for path in paths[:_MOST_FILES]) + more


def _patterns(seen: Patterns) -> str:
    groups = (
        (
            "Errors that came again",
            [(_block(each.summary), f"{each.count}\N{MULTIPLICATION SIGN}") for each in seen.repeated_errors],
        ),
        (
            "Files touched again and again",
            [(_path(each.path), f"{each.touches}\N{MULTIPLICATION SIGN}") for each in seen.churn],
        ),
        (
            "Restores",
            [
                (f"{_short(each.checkpoint_id)} restored; before it: {_short(each.saved)}", _stamp(each.time))
                for each in seen.restores
            ],
        ),
        (
            "Long silences",
            [(f"{_stamp(each.begin)} to {_stamp(each.end)}", duration(each.seconds)) for each in seen.silences],
        ),
    )
    shown = [
        f'<h3>{title}</h3><ul class="rows">'
        + "".join(f"<li><span>{what}</span><b>{how}</b></li>" for what, how in rows)
        + "</ul>"
        for title, rows in groups
        if rows
    ]
    return "\n".join(shown) or '<p class="empty">Nothing stands out.</p>'


def _stream(events: Sequence[Event]) -> str:
    if not events:
        return '<p class="empty">Nothing has happened yet.</p>'
    parts = []
    day = None
    for event in events:
        found = _parse(event.time)
        today = f"{found:%A, %d %B %Y}" if found is not None else _line(event.time)
        if today != day:
            parts.append(f'{"</ol>" if day is not None else ""}<h3 class="day">{today}</h3><ol class="stream">')
            day = today
        parts.append(_event(event, found))
    return "\n".join([*parts, "</ol>"])


def _event(event: Event, found: datetime | None) -> str:
    clock = f"{found:%H:%M}" if found is not None else ""
    name = _line((event.type if event.kind == "entry" else event.kind) or event.kind)
    identifier = f" {_short(event.id)}" if event.kind in ("commit", "checkpoint") else ""
    summary = _block(event.summary.split("\n", 1)[0]) if event.summary else ""
    if event.kind == "checkpoint" and event.type:
        summary = f'{summary} <span class="meta">({_line(event.type.replace("_", " "))})</span>'
    files = ""
    if event.files:
        rows = "".join(f"<li>{_path(path)}</li>" for path in event.files[: _MOST_FILES * 4])
        left = len(event.files) - _MOST_FILES * 4
        rows += f"<li>and {left} more</li>" if left > 0 else ""
        files = f"<details><summary>{text.count(len(event.files), 'file')}</summary><ul>{rows}</ul></details>"
    return (
        f'<li class="{_kind_class(event)}"><time datetime="{_line(event.time)}">{clock}</time>'
        f'<span class="tag">{name}</span>{summary}{identifier}{files}</li>'
    )
