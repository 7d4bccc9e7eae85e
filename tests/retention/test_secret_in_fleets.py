"""What was fetched of fleets is dropped where it has what is to be forgotten; what was collected is rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos.fleet import collection, names
from git_agentos.retention import rewriting
from git_agentos.retention.redaction import Wanted
from git_agentos.run import query
from tests.support import fleet_results
from tests.support.fleet_results import Site, task, write
from tests.support.repo import Repo

SECRET = "correct-horse-battery"


@pytest.fixture
def site(tmp_path: Path, repo: Repo) -> Site:
    made = fleet_results.make(tmp_path, repo)
    made.submit(task("a", f"echo {SECRET} >f"), task("b", write("private/g", "b")), task("c"))
    made.work("a", "b", "c")
    return made


def fetched(site: Site) -> list[str]:
    found = site.repo.text("for-each-ref", "--format=%(refname)", names.FETCHED).split()
    return [each.removeprefix("refs/agentos/fleets/origin/") for each in found]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_secret(site: Site, *, dry_run: bool) -> None:
    """It is in the tasks, too: a command has it."""
    site.remote().fetch_fleet("f")
    before = fetched(site)
    done = rewriting.rewrite(site.context, Wanted(secrets=(SECRET.encode(),)), dry_run=dry_run)
    [said] = [each for each in done.unreachable if "fleet" in each]
    assert said.startswith("2 refs of the fleet 'f' on the remote 'origin'")
    if dry_run:
        assert fetched(site) == before
        return
    assert fetched(site) == ["f/results/b", "f/results/c"]
    objects = site.repo.text("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").split("\n")
    blobs = [row.split()[0] for row in objects if row.endswith("blob")]
    assert not any(SECRET in site.repo.text("cat-file", "blob", oid) for oid in blobs)


def test_a_path(site: Site) -> None:
    site.remote().fetch_fleet("f")
    rewriting.rewrite(site.context, Wanted(globs=("private/",)))
    assert fetched(site) == ["f/results/a", "f/results/c", "f/tasks"]


def test_what_was_collected(site: Site) -> None:
    collection.collect(site.context, "f")
    rewriting.rewrite(site.context, Wanted(secrets=(SECRET.encode(),)))
    assert fetched(site) == ["f/results/b", "f/results/c"]
    assert query.show(site.context, "f-a").state == "passed"
    for pattern in ("refs/agentos/runs/*", "refs/agentos/timelines/*"):
        assert site.repo.text("for-each-ref", pattern)
        listed = site.repo.text("rev-list", "--objects", f"--glob={pattern}").split()
        assert not any(
            SECRET in site.repo.text("cat-file", "-p", each) for each in listed if len(each) == len(listed[0])
        )
