"""The page that `git agentos report --html` writes."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from git_agentos import log, open_workspace
from git_agentos.cli.render.html import report as pages
from git_agentos.report import lanes
from tests.support import browser
from tests.support.agents import agent_worktree
from tests.support.json_reference import check_document
from tests.support.page import Page, assert_harmless
from tests.support.repo import Repo
from tests.support.team import Team
from tests.support.tool import run, run_ok

HOSTILE = '<script>alert("x")</script> \x1b[31mred \u202edesrever\u2066 caf\udce9 <img src=http://x/y onerror=a()>'
ATTRIBUTES = {"class", "id", "href", "aria-label", "aria-hidden", "datetime", "lang", "charset", "name", "content",
              "http-equiv", "role", "style", "tabindex", "data-agent", "data-kind", "data-id", "type", "for",
              "scope"}  # fmt: skip
Marks = dict[str, Counter[tuple[str | None, ...]]]


class _Marks(HTMLParser):
    """The marks on a page: kind, id, time and words, by the lane that each is in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lanes: Marks = {}
        self._agent: str | None = None
        self._mark: tuple[str | None, ...] = ()
        self._time: str | None = None
        self._words: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if "data-agent" in found:
            self._agent = found["data-agent"] or ""
            assert self._agent not in self.lanes
            self.lanes[self._agent] = Counter()
        elif "data-kind" in found:
            self._mark, self._words = (found["data-kind"], found["data-id"]), ""
        elif tag == "time" and self._mark:
            self._time = found["datetime"]

    def handle_endtag(self, tag: str) -> None:
        if tag == "li" and self._mark:
            assert self._agent is not None
            self.lanes[self._agent][*self._mark, self._time, self._words] += 1
            self._mark, self._words = (), None
        elif tag == "article":
            self._agent = None

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words += data


def _written(repo: Repo, *args: str) -> tuple[Any, str]:
    """The document, and the page."""
    path = repo.path.parent / "report.html"
    document = run_ok(repo.path, "report", "--html", str(path), *args)
    assert check_document(document) == "report"
    assert document["html"] == str(path)
    return document, path.read_text(encoding="utf-8")


def _assert_every_mark_once(document: Any, text: str) -> None:
    shown = _Marks(text).lanes
    assert list(shown) == [each["id"] for each in document["agents"]]
    for each in document["agents"]:
        wanted = Counter((mark["kind"], mark["id"], mark["at"]) for mark in each["marks"])
        assert Counter({found[:3]: number for found, number in shown[each["id"]].items()}) == wanted, each["id"]


def test_each_lane_and_each_mark_is_on_the_page_once(repo: Repo) -> None:
    team = Team(repo)
    document, text = _written(repo)
    _assert_every_mark_once(document, text)
    page = Page(text)
    assert_harmless(page, ATTRIBUTES)
    for wanted in (*team.agents, "the left one", "it broke", "both.txt", team.run.run_id, "archived", "broken"):
        assert wanted in page.text
    fields = [attributes.get("class") for tag, attributes in page.tags if tag == "td"]
    count = len(document["conflicts"]["agents"])
    assert fields.count("self") == count
    assert len(fields) == 1 + count * count
    assert fields.count("heat-1") == 2 * len(document["conflicts"]["pairs"]) > 0


def test_options_are_those_of_the_document(repo: Repo) -> None:
    Team(repo)
    document, text = _written(repo, "--agent", "left", "--agent", "idle", "--since", "2026-06-01")
    assert [each["id"] for each in document["agents"]] == ["idle", "left"]
    _assert_every_mark_once(document, text)
    assert "only since 2026-06-01" in Page(text).text
    assert "Nothing since 2026-06-01" in Page(text).text


def test_nothing_comes_out_of_what_agents_wrote(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    other = agent_worktree(repo, "other")
    for there in (dev, other):
        there.write(b"</li><script>\xff\x1b[0m\xe2\x80\xae.txt", str(there.path))
        there.git("add", "-A")
        message = HOSTILE.encode("utf-8", "surrogateescape").decode("latin-1")
        there.git("commit", "-q", "-m", message)
    context = open_workspace(dev.path).context
    for kind in ("error", "decision"):
        log.add(context, kind, HOSTILE)
    log.write(context, "turn", HOSTILE, details={"turn": HOSTILE, "event": "began"})
    run_ok(dev.path, "checkpoint", "-m", HOSTILE, "--task", HOSTILE)
    dev.git("checkout", "-q", "-b", 'a"><i>\u202eb')
    document, text = _written(repo)
    page = Page(text)
    assert_harmless(page, ATTRIBUTES)
    shown = _Marks(text).lanes["dev"]
    assert sum(shown.values()) == len(document["agents"][0]["marks"]) == 5
    assert Counter(found[0] for found in shown.elements()) == Counter(
        mark["kind"] for mark in document["agents"][0]["marks"]
    )
    assert '<script>alert("x")</script>' in page.text, "it is shown for what it is"
    for escape in ("\\033[31mred", "\\342\\200\\256desrever", "caf\\351", "\\377\\033[0m", 'a"><i>\\342\\200\\256b'):
        assert escape in page.text, escape


def test_a_repository_without_agents(empty_repo: Repo) -> None:
    document, text = _written(empty_repo)
    _assert_every_mark_once(document, text)
    assert "There are no agents' worktrees" in Page(text).text


def test_a_moment_of_its_own(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    run_ok(dev.path, "checkpoint")
    document, text = _written(repo)
    _assert_every_mark_once(document, text)
    assert 'style="--x:0.0;--row:0"' in text


def test_marks_lie_where_their_times_are(repo: Repo) -> None:
    Team(repo)
    document, text = _written(repo)
    at = [mark["at"] for each in document["agents"] for mark in each["marks"]]
    axis = pages._axis(min(at), max(at))
    assert axis is not None
    assert (axis.position(min(at)), axis.position(max(at)), axis.position("no time")) == (0.0, 100.0, 0.0)
    found = [float(each) for each in re.findall(r"--x:([\d.]+);", text)]
    assert found == [axis.position(each) for each in at]


def test_the_path_is_what_is_printed(repo: Repo, tmp_path: Path) -> None:
    agent_worktree(repo, "dev")
    done = run(tmp_path, "-C", str(repo.path), "report", "--html", "r.html")
    assert done.out.decode() == f"Wrote the report to {repo.path / 'r.html'}\n", str(done)
    assert run(repo.path, "report", "-q", "--html", "r.html").out.decode() == f"{repo.path / 'r.html'}\n"
    assert run_ok(repo.path, "report")["html"] is None


def test_a_link_is_replaced_and_not_followed(repo: Repo) -> None:
    agent_worktree(repo, "dev")
    repo.write("precious.txt", "precious\n")
    repo.link("r.html", "precious.txt")
    run_ok(repo.path, "report", "--html", "r.html")
    assert repo.read("precious.txt") == b"precious\n"
    assert not (repo.path / "r.html").is_symlink()


def test_each_kind_has_a_colour() -> None:
    style = (Path(pages.__file__).parent / "templates/style.css").read_text()
    for kind in lanes.KINDS:
        assert f".mark-{kind}{{--dot:var(--{kind})}}" in style
        assert len(re.findall(rf"--{kind}:#", style)) == 2, "in the light, and in the dark"


# -- in a browser ----------------------------------------------------------------------------------------------------


# Frames of the page, as wide as a phone and as a large screen (a window cannot be as narrow as a phone), and what the
# browser makes of it: widths of frame and page, and how many marks are drawn in it, and are shown in lists.
_FRAMES = """<!doctype html><body>{frames}<script>
const result = [];
const look = frame => {{
  const page = frame.contentDocument, width = frame.contentWindow.innerWidth;
  const box = each => each.getBoundingClientRect();
  const inside = each => 0 <= box(each).left && box(each).right <= width;
  const marks = [...page.querySelectorAll("[data-kind]")];
  const drawn = marks.filter(inside).filter(
    each => frame.contentWindow.getComputedStyle(each, "::before").display === "block");
  const row = [width, page.documentElement.scrollWidth, drawn.length];
  page.querySelectorAll(".switch").forEach(each => each.click());
  row.push(marks.filter(inside).filter(each => box(each).height > 10).length);
  result.push(row);
  document.body.dataset.result = JSON.stringify(result);
}};
onload = () => document.querySelectorAll("iframe").forEach(look);
</script>"""


def test_in_chromium(repo: Repo, tmp_path: Path) -> None:
    """On a phone and on a large screen, the page is as wide as the window, and each mark is drawn, or in the list."""
    chromium = browser.program()
    Team(repo)
    document, text = _written(repo)
    frames = "".join(f'<iframe style="width:{width}px" srcdoc="{html.escape(text)}"></iframe>' for width in (400, 1280))
    page = tmp_path / "frames.html"
    page.write_text(_FRAMES.format(frames=frames), encoding="utf-8")
    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    words = [*options.split(), "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--dump-dom"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    argv, own = [chromium, *words, profile, page.as_uri()], browser.environment(tmp_path)
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=own)
    found = re.search(r'data-result="([^"]+)"', done.stdout)
    assert found is not None
    count = sum(len(each["marks"]) for each in document["agents"])
    assert json.loads(found[1]) == [[width, width, count, count] for width in (400, 1280)]
