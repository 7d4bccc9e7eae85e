"""`fleet collect`, `accept` and `end`: what they print, their documents and exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import fleet_results
from tests.support.command_line import Cli
from tests.support.confirming import set_up
from tests.support.fleet_results import Site, task, write
from tests.support.json_reference import check_document
from tests.support.repo import Repo


@pytest.fixture
def site(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A fleet: `a` and `b` conflict, `t` was tampered with, `w` waits."""
    made = fleet_results.make(tmp_path, repo)
    made.submit(task("a", write("f", "a")), task("b", write("f", "b")), task("t"), task("w"))
    made.work("a", "b")
    _, result, evidence = made.run("t")
    made.settle(replace(result, commit=repo.text("rev-parse", "main")), evidence)
    monkeypatch.chdir(repo.path)
    return made


def test_collect_accept_end(site: Site, cli: Cli) -> None:
    done = cli("fleet", "collect", "f")
    assert done.code == 1
    assert "'fleet/f/a', run f-a" in done.text and "the result of 't' is not used: its branch is at" in done.talk
    done = cli("--json", "fleet", "collect", "f")
    check_document(done.json)
    assert [each["task"] for each in done.json["results"]] == ["a", "b"]
    assert [each["task"] for each in done.json["refused"]] == ["t"]

    done = cli("--json", "fleet", "accept", "f", "--dry-run")
    check_document(done.json)
    assert (done.code, done.json["order"], done.json["dry_run"]) == (4, ["a", "b"], True)
    done = cli("fleet", "accept", "f")
    assert done.code == 3 and "accepting tasks of a fleet takes a terminal" in done.talk
    key = site.bare.parent / "key"
    key.write_text("any text")
    set_up(site.repo, "agentos.approvalKey", str(key))
    done = cli("fleet", "accept", "f")
    assert done.code == 4
    assert done.text.startswith("merged a ") and "b conflicts:\n    f" in done.text and "'main' is at" in done.text
    done = cli("fleet", "accept", "f", "a")
    assert (done.code, done.text) == (
        0,
        "Nothing of fleet f is to be merged into 'main':\n    a: 'main' has its work\n",
    )

    done = cli("fleet", "end", "f")
    assert done.code == 1 and "1 task of fleet 'f' has no result: w" in done.talk
    assert cli("fleet", "cancel", "f").code == 0
    done = cli("fleet", "end", "f")
    assert (done.code, done.text) == (
        0,
        "Fleet f has ended: 3 passed, 1 cancelled. One ref of 'origin' keeps it.\n",
    )
    done = cli("--json", "fleet", "end", "f")
    assert (done.code, done.json["counts"]["passed"]) == (0, 3)
