"""`log timeline` and `log review`: what an agent did, in one stream, in the terminal and as a page."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace, review
from git_agentos.log import Entry
from tests.support.agents import agent_commit, agent_worktree
from tests.support.json_reference import check_document
from tests.support.page import Page, assert_harmless
from tests.support.refusal import assert_refused
from tests.support.repo import Repo
from tests.support.tool import run, run_ok

HOSTILE = '<script>alert("x")</script> \x1b[31mred \u202edesrever\u2066 caf\udce9 <img src=http://x/y onerror=a()>'


def _timeline(repo: Repo, *args: str) -> Any:
    document = run_ok(repo.path, "log", "timeline", *args)
    assert check_document(document) == "log-timeline"
    return document


def _review(repo: Repo, *args: str) -> Any:
    document = run_ok(repo.path, "log", "review", *args)
    assert check_document(document) == "log-review"
    return document


def _add(repo: Repo, kind: str, summary: str, details: Any = None, *files: str) -> Any:
    words = ["log", "add", kind, summary]
    words += ["--json-details", json.dumps(details)] if details is not None else []
    for file in files:
        words += ["--file", file]
    return run_ok(repo.path, *words)


def _commit(repo: Repo, message: str, when: datetime | None = None) -> str:
    stamp = (when or datetime.now(UTC)).isoformat()
    repo.git("add", "-A")
    repo.git("commit", "-q", "--allow-empty", "-m", message, env={"GIT_AUTHOR_DATE": stamp})
    return repo.oid()


def _busy(repo: Repo) -> tuple[Repo, dict[str, str]]:
    """An agent that has done one of everything; the ids of it."""
    dev = agent_worktree(repo, "dev-001")
    ids = {"milestone": run_ok(dev.path, "checkpoint", "--trigger", "milestone", "-m", "begun")["id"]}
    ids["action"] = _add(dev, "action", "looked around", None, "src/app.py")["id"]
    dev.write("src/app.py", "one\n")
    ids["commit"] = _commit(dev, "one", datetime.now(UTC) + timedelta(seconds=1))
    dev.write("src/app.py", "two\n")
    ids["checkpoint"] = run_ok(dev.path, "checkpoint", "-m", "two\nand more", "--task", "T-1")["id"]
    dev.write("src/app.py", "three\n")
    ids["saved"] = run_ok(dev.path, "restore", ids["milestone"], "--no-branch")["saved"]
    ids["decision"] = _add(dev, "decision", "go on")["id"]
    return dev, ids


# -- the stream ------------------------------------------------------------------------------------------------------


def test_timeline_has_all_kinds_ordered_by_time(repo: Repo) -> None:
    dev, ids = _busy(repo)
    found = _timeline(dev)
    assert found["agent"] == "dev-001"
    events = found["events"]
    assert [each["time"] for each in events] == sorted((each["time"] for each in events), reverse=True)
    told = {(each["kind"], each["type"], each["id"]): each for each in events}
    assert set(told) == {
        ("checkpoint", "milestone", ids["milestone"]),
        ("entry", "action", ids["action"]),
        ("commit", None, ids["commit"]),
        ("checkpoint", "manual", ids["checkpoint"]),
        ("restore", "before_restore", ids["milestone"]),
        ("entry", "decision", ids["decision"]),
    }, "one event for each: no second one from what the log says of checkpoints and restores"
    restored = told["restore", "before_restore", ids["milestone"]]
    assert restored["checkpoint_id"] == ids["saved"]
    assert restored["summary"] == f"restored {ids['milestone'][:8]}; the state before is saved as {ids['saved'][:8]}"
    commit = told["commit", None, ids["commit"]]
    assert (commit["summary"], commit["files"], commit["agent"]) == ("one", ["src/app.py"], "A U Thor")
    saved = told["checkpoint", "manual", ids["checkpoint"]]
    assert (saved["summary"], saved["task_id"], saved["files"]) == ("two", "T-1", ["src/app.py"])
    assert told["entry", "action", ids["action"]]["files"] == ["src/app.py"]


def test_commits_are_those_since_the_base_by_author_time(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev-001")
    late = _commit(dev, "written late", datetime(2031, 1, 1, tzinfo=UTC))
    early = _commit(dev, "written early", datetime(2001, 1, 1, tzinfo=UTC))
    commits = [each for each in _timeline(dev)["events"] if each["kind"] == "commit"]
    assert [each["id"] for each in commits] == [late, early]
    assert commits[0]["time"] == "2031-01-01T00:00:00.000Z"
    assert [each["id"] for each in _timeline(dev, "-n", "1")["events"]] == [late]
    assert _timeline(dev, "-n", "0")["events"] == []
    # In the main worktree there is no base: it is the whole history.
    assert {each["summary"] for each in _timeline(repo)["events"]} == {"first", "second"}
    assert {each["summary"] for each in _timeline(dev, "main")["events"]} == {"first", "second"}


def test_review_of_another_agent_and_of_a_removed_one(repo: Repo) -> None:
    dev, _ = _busy(repo)
    events = _timeline(dev)["events"]
    assert _timeline(repo, "dev-001")["events"] == events
    run_ok(dev.path, "checkpoint", "-m", "the last")
    wanted = _timeline(repo, "dev-001")["events"]
    assert len(wanted) == len(events) + 1
    repo.git("worktree", "remove", "--force", str(dev.path))
    assert _timeline(repo, "dev-001")["events"] == wanted
    assert _review(repo, "dev-001")["counts"]["restores"] == 1


def test_agents_sharing_a_worktree_are_told_apart(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev-001")
    run_ok(dev.path, "log", "add", "action", "mine")
    run_ok(dev.path, "--as", "helper", "log", "add", "action", "the helper's")
    run_ok(dev.path, "--as", "helper", "checkpoint", "-m", "the helper's too")
    assert {each["summary"] for each in _timeline(dev, "helper")["events"]} == {"the helper's", "the helper's too"}
    assert "mine" in {each["summary"] for each in _timeline(dev)["events"]}


def test_review_of_an_unknown_agent_is_refused(repo: Repo) -> None:
    run_ok(repo.path, "log", "list")  # the database is made
    assert_refused(repo.path, "log", "timeline", "nobody", mentions="'nobody'", keeps=repo.path)
    assert_refused(repo.path, "log", "review", "nobody", mentions="'nobody'", keeps=repo.path)
    assert_refused(repo.path, "log", "timeline", "-n", "x", code=2, mentions="-n takes a number")


def test_a_repository_in_which_nothing_has_happened(empty_repo: Repo) -> None:
    assert _timeline(empty_repo)["events"] == []
    found = _review(empty_repo)
    assert (found["begin"], found["end"], found["events"]) == (None, None, [])
    assert run(empty_repo.path, "log", "timeline").code == 0
    assert run(empty_repo.path, "log", "review").code == 0
    run_ok(empty_repo.path, "log", "review", "--html", "r.html")
    assert "No events yet" in empty_repo.read("r.html").decode()


def test_the_words(repo: Repo) -> None:
    dev, ids = _busy(repo)
    told = run(dev.path, "log", "timeline").out.decode()
    rows = [re.split(r"  +", line, maxsplit=2)[1:] for line in told.splitlines()]
    kinds = [row[0] for row in rows]
    assert sorted(kinds) == ["action", "checkpoint", "checkpoint", "commit", "decision", "restore"]
    assert f"{ids['checkpoint'][:8]}  two (manual)" in told
    brief = run(dev.path, "log", "timeline", "-q").out.decode().split()
    assert brief == [each["id"] for each in _timeline(dev)["events"]]


# -- the review ------------------------------------------------------------------------------------------------------


def test_errors_and_decisions_with_what_else_was_considered(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev-001")
    _add(dev, "error", "it broke", {"command": "make", "exit_code": 2}, "Makefile")
    why = {"rationale": "it is shorter", "alternatives": ["a loop", "a table"], "risk": "low"}
    _add(dev, "decision", "recursion", why)
    _add(dev, "decision", "names", {"alternatives": {"short": "unclear", "long": ""}})
    run_ok(
        dev.path, "log", "add", "decision", "tabs", "--detail", "alternatives=spaces; both", "--detail", "rationale=r"
    )

    found = _review(dev)

    assert [(each["summary"], each["details"], each["files_changed"]) for each in found["errors"]] == [
        ("it broke", {"command": "make", "exit_code": 2}, ["Makefile"])
    ]
    told = [(each["summary"], each["rationale"], each["alternatives"], each["details"]) for each in found["decisions"]]
    assert told == [
        ("recursion", "it is shorter", ["a loop", "a table"], {"risk": "low"}),
        ("names", None, ["short: unclear", "long"], {}),
        ("tabs", "r", ["spaces", "both"], {}),
    ]
    assert found["counts"] == {
        "commits": 0, "checkpoints": 0, "restores": 0, "entries": 4, "errors": 1, "decisions": 3,
    }  # fmt: skip
    words = run(dev.path, "log", "review").out.decode()
    assert "    because: it is shorter\n      instead of: a loop\n" in words
    assert "      command: make\n" in words
    assert run(dev.path, "log", "review", "-q").out == b"it broke\n"


def test_repeated_errors() -> None:
    def error(number: int, summary: str) -> Entry:
        time = f"2026-01-01T00:00:{number:02}.000Z"
        return Entry(str(number), time, "error", summary, {}, None, [], None, None, "a", "a")

    found = review.repeated(
        [
            error(1, "test 3 of 17 failed at 0xdeadbeef"),
            error(2, "cannot open 'a.txt'"),
            error(3, "Test 4 of 17 failed at 0xcafe\nwith more below"),
            error(4, 'cannot open "b c.txt"'),
            error(5, "no module in src/lib/x.py"),
            error(6, "test 5 of 17 failed at 0x1"),
            error(7, "alone"),
        ]
    )
    assert [(each.summary, each.count) for each in found] == [
        ("test 5 of 17 failed at 0x1", 3),
        ('cannot open "b c.txt"', 2),
    ]
    assert (found[0].first, found[0].last) == ("2026-01-01T00:00:01.000Z", "2026-01-01T00:00:06.000Z")


def test_files_touched_again_and_again(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev-001")
    name = b"caf\xe9.txt"
    for number in range(4):
        dev.write(name, f"{number}\n")
        dev.write("once.txt", "once\n")
        run_ok(dev.path, "checkpoint")
    for number in range(3):
        dev.write("often.txt", f"{number}\n")
        _commit(dev, f"{number}")
    found = _review(dev)["patterns"]["churn"]
    assert found == [
        {"path": os.fsdecode(name), "touches": 3, "checkpoints": 3, "commits": 1},
        {"path": "often.txt", "touches": 3, "checkpoints": 0, "commits": 3},
    ]


def test_restores_are_patterns(repo: Repo) -> None:
    dev, ids = _busy(repo)
    found = _review(dev)["patterns"]["restores"]
    assert [(each["checkpoint_id"], each["saved"]) for each in found] == [(ids["milestone"], ids["saved"])]


def test_long_silences() -> None:
    def at(minutes: float) -> str:
        return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)).isoformat()

    assert review.silences([]) == []
    assert review.silences([at(0)]) == []
    assert [each.seconds for each in review.silences([at(0), at(45)])] == [45 * 60]
    busy = [at(n) for n in range(20)]
    found = review.silences([*busy, at(19 + 29), at(19 + 29 + 31), at(19 + 29 + 31 + 200)])
    assert [each.seconds for each in found] == [200 * 60, 31 * 60]
    assert found[0].begin == "2026-01-01T01:19:00.000Z"
    steady = [at(40 * n) for n in range(20)]
    assert review.silences(steady) == [], "forty minutes are this agent's usual pause"


# -- the page --------------------------------------------------------------------------------------------------------


def _page(repo: Repo) -> Page:
    path = repo.path.parent / "review.html"
    document = _review(repo, "--html", str(path))
    assert document["html"] == str(path)
    data = path.read_bytes()
    return Page(data.decode("utf-8"))


def _hostile(repo: Repo) -> Repo:
    dev = agent_worktree(repo, "dev-001")
    context = open_workspace(dev.path).context
    from git_agentos import log

    for kind in ("error", "decision", "action"):
        details = {HOSTILE: HOSTILE, "rationale": HOSTILE, "alternatives": [HOSTILE]}
        log.add(context, kind, HOSTILE, details=details, files=[HOSTILE], task_id=HOSTILE)
    dev.write(b"</li><script>\xff\x1b[0m.txt", "hostile\n")
    _commit(dev, HOSTILE.encode("utf-8", "surrogateescape").decode("latin-1"))
    run_ok(dev.path, "checkpoint", "-m", HOSTILE)
    return dev


def test_the_page_is_one_file_that_nothing_comes_out_of(repo: Repo) -> None:
    page = _page(_hostile(repo))
    allowed = {"class", "id", "href", "aria-label", "datetime", "lang", "charset", "name", "content", "http-equiv",
               "viewbox", "preserveaspectratio", "role", "x1", "x2", "y1", "y2", "style"}  # fmt: skip
    assert_harmless(page, allowed)
    assert '<script>alert("x")</script>' in page.text, "it is shown for what it is"
    assert "\\033[31mred" in page.text
    assert "\\342\\200\\256desrever" in page.text
    assert "caf\\351" in page.text
    assert "\\377\\033[0m.txt" in page.text


def test_the_page_is_made_for_a_phone_and_for_the_night(repo: Repo) -> None:
    dev = _busy(repo)[0]
    page = _page(dev)
    metas = {attributes.get("name"): attributes.get("content") for tag, attributes in page.tags if tag == "meta"}
    assert metas["viewport"] == "width=device-width, initial-scale=1"
    assert metas["color-scheme"] == "light dark"
    text = (dev.path.parent / "review.html").read_text(encoding="utf-8")
    assert "@media (prefers-color-scheme:dark)" in text
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text


def test_the_page_tells_what_the_terminal_tells(repo: Repo) -> None:
    dev, ids = _busy(repo)
    _add(dev, "error", "it broke", {"output": "first\nsecond"})
    page = _page(dev)
    for wanted in ("dev-001", "it broke", "first\nsecond", "looked around", ids["commit"][:8], "go on", "restored"):
        assert wanted in page.text, wanted


@pytest.mark.parametrize("target", ["missing/r.html", "."])
def test_a_page_that_cannot_be_written(repo: Repo, target: str) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    run_ok(repo.path, "log", "list")  # the database is made
    assert_refused(repo.path, "log", "review", "--html", target, mentions="'", keeps=repo.path)


def test_the_page_is_written_whole_or_not_at_all(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from git_agentos.cli.render.html import page as html
    from git_agentos.errors import StorageError

    place = tmp_path / "out"
    place.mkdir()
    (place / "r.html").write_text("before")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(StorageError, match="no space left"):
            html.write(str(place / "r.html"), "after")
    assert (place / "r.html").read_text() == "before"
    assert os.listdir(place) == ["r.html"]
    assert html.write(str(place / "r.html"), "after") == str(place / "r.html")
    assert (place / "r.html").read_text() == "after"


def test_the_file_is_where_the_command_is_told_to_work(repo: Repo, tmp_path: Path) -> None:
    done = run(tmp_path, "-C", str(repo.path), "log", "review", "--html", "r.html")
    assert done.code == 0, str(done)
    assert repo.exists("r.html")
    assert str(repo.path / "r.html") in done.out.decode()


def test_guard_decision_is_not_listed_as_the_agents(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev")
    _add(dev, "decision", "keep the queue")
    assert run(dev.path, "worktree", "remove", "dev").code == 3  # it waits for approval, and is in the log
    found = _review(dev)
    assert [each["summary"] for each in found["decisions"]] == ["keep the queue"]
    assert found["counts"]["decisions"] == 1
    assert any(each["summary"].startswith("guard: ") for each in found["events"])
    document = run_ok(dev.path, "worktree", "complete")["document"]
    assert "keep the queue" in document and "guard: " not in document
    assert (
        run(dev.path, "worktree", "complete", "-q").out.decode().strip()
        == run_ok(dev.path, "checkpoint", "list")["checkpoints"][0]["id"][:8]
    )
