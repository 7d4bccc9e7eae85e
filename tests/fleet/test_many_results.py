"""Fleets with many results: each verifies, is collected and accepted, and in the end there is one ref."""

from __future__ import annotations

from pathlib import Path

from git_agentos.fleet import acceptance, collection, ending, status
from tests.support import fleet_results, many_results, sampling
from tests.support.repo import Repo, git

_NUMBER = 1000 if sampling.EXHAUSTIVE else 50


def test_many_results(tmp_path: Path, repo: Repo) -> None:
    site = fleet_results.make(tmp_path, repo)
    made = many_results.submit(site, _NUMBER)
    assert status.status(site.context, "f").counts["passed"] == _NUMBER

    done = collection.collect(site.context, "f")
    assert ({each.task: each.commit for each in done.results}, done.refused) == (
        {id_: each.commit for id_, each in made.items()},
        (),
    )
    accepted = acceptance.accept(site.context, "f")
    assert ([each.task for each in accepted.merged], accepted.conflicts, accepted.refused) == ([*made], (), ())
    assert all((site.repo.path / f"{id_}.txt").read_text() == f"{id_}\n" for id_ in made)

    ended = ending.end(site.context, "f")
    assert {each.id: each.result for each in ended.tasks} == {id_: each.result for id_, each in made.items()}
    assert site.refs() == ["refs/agentos/fleet/f/end"]
    assert git(site.bare, "fsck", "--strict", "--no-dangling") == b""
    assert collection.collect(site.context, "f") == done
