"""What our HTML pages share: no script, no network, no font but the reader's own; for a phone as for a screen, by day
and by night.

Everything that is not ours is made visible first, as for a terminal (`quote`: controls, marks that turn the direction
of writing, bytes that are not UTF-8), then escaped, and isolated so that text from right to left does not turn what is
around it. The page's own policy forbids whatever might slip through: nothing is loaded and nothing runs.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from git_agentos.cli import quote
from git_agentos.cli.render.text import layout as text
from git_agentos.cli.render.text.layout import duration
from git_agentos.errors import StorageError
from git_agentos.util.files import replace

_MOST_FILES = 12

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
<p class="eyebrow">{eyebrow}</p>
<h1><bdi>{heading}</bdi></h1>
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


@dataclass(frozen=True)
class Section:
    """A part of a page; `number` is how many things it has, None where nobody counts them. `body` is HTML."""

    id: str
    title: str
    number: int | None
    body: str


@dataclass(frozen=True)
class Tile:
    """One of the numbers at the top; `hot` where it is bad news."""

    number: str
    label: str
    hot: bool = False


def page(
    *,
    title: str,
    eyebrow: str,
    heading: str,
    when: str,
    tiles: Iterable[Tile],
    sections: Sequence[Section],
    strip: str = "",
    style: str = "",
) -> str:
    """The page. `title`, `eyebrow` and `heading` are text, the others HTML."""
    return _PAGE.format(
        title=line(title),
        style=_STYLE + style,
        eyebrow=line(eyebrow),
        heading=line(heading),
        span=when,
        counts="".join(
            f"<li{' class=hot' if each.hot else ''}><b>{each.number}</b>{each.label}</li>" for each in tiles
        ),
        strip=strip,
        nav="".join(f'<a href="#{each.id}">{each.title}{_number(each, " ({})")}</a>' for each in sections),
        sections="\n".join(
            f'<section id="{each.id}"><h2>{each.title}{_number(each, " <small>{}</small>")}</h2>\n'
            f"{each.body}\n</section>"
            for each in sections
        ),
        made=moment(datetime.now(UTC).isoformat(timespec="seconds")),
    )


def _number(section: Section, form: str) -> str:
    return form.format(section.number) if section.number is not None else ""


def write(path: str, page: str) -> str:
    """Write a page to a file, whole or not at all; its absolute path. StorageError where it cannot be written."""
    target = os.path.abspath(path)
    try:
        if os.path.isdir(target):
            raise StorageError(f"'{path}' is a directory", "name a file")
        replace(target, page.encode("utf-8"))
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}") from error
    return target


# -- what is shown ---------------------------------------------------------------------------------------------------


def line(value: str) -> str:
    """Text on one line."""
    return html.escape(quote.line(value))


def block(value: str) -> str:
    """Text of any number of lines, turned by no mark in it."""
    return f"<bdi>{html.escape(quote.block(value))}</bdi>"


def path(name: str) -> str:
    return f"<code><bdi>{html.escape(quote.path(name))}</bdi></code>"


def short(identifier: str | None) -> str:
    return f"<code>{line(text.abbrev(identifier))}</code>"


def parse(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def moment(time: str) -> str:
    """A moment as `2026-11-22 14:05`."""
    found = parse(time)
    return f"{found:%Y-%m-%d %H:%M}" if found is not None else line(time)


def stamp(time: str) -> str:
    return f'<time datetime="{line(time)}">{moment(time)}</time>'


def span(begin: str | None, end: str | None) -> str:
    if begin is None or end is None:
        return "Nothing has happened yet."
    first, last = parse(begin), parse(end)
    if first is None or last is None:
        return f"{stamp(begin)} to {stamp(end)}"
    seconds = int((last - first).total_seconds())
    return f"{stamp(begin)} to {stamp(end)} ({duration(seconds)})" if seconds else stamp(begin)


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names (ours or escaped) and values (escaped)."""
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    return f"<dl>{shown}</dl>" if shown else ""


def files(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
    return ", ".join(path(each) for each in paths[:_MOST_FILES]) + more
