"""A worker's clone has the bases of tasks, and no older history, unless the configuration says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import fleets
from tests.support.fleets import Site
from tests.support.remotes import ssh_server
from tests.support.repo import Repo, git

OLD = 5  # commits before the base


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    for number in range(OLD):
        repo.write("old.txt", f"{number}\n")
        repo.commit(f"old {number}")
    return fleets.make(repo, tmp_path)


def objects(repo: Repo) -> set[str]:
    """The ids of all objects that are there."""
    rows = repo.text("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(rows.split())


def configure(site: Site, history: str) -> None:
    """Set `agentos.fleet.history` for the workers of this test alone."""
    path = site.folder / "workers.gitconfig"
    path.write_text(f'[agentos "fleet"]\n\thistory = {history}\n\tliveInterval = 0\n')
    site.environment["GIT_CONFIG_GLOBAL"] = str(path)


def count(site: Site) -> str:
    """The command of an agent that notes how many commits it sees."""
    return f"git rev-list --count HEAD >'{site.folder}/count'; echo >f"


def counted(site: Site) -> int:
    """How many commits the agent of a task has seen."""
    return int((site.folder / "count").read_text())


def test_only_the_bases_are_fetched(site: Site) -> None:
    before, base = site.repo.oid("HEAD~2"), site.repo.oid("HEAD")
    site.submit({"id": "a", "agent": f"{count(site)}; git add f; git commit -qm f", "validate": "test -f f"})
    machine = site.machine("one")
    done = machine.work("a")
    assert done.code == 0, done
    assert counted(site) == 1
    there = objects(machine.clone)
    assert base in there
    assert before not in there
    assert site.result("a").state == "passed"
    assert (site.result("a").lines, site.result("a").files) == (1, 1)
    history = git(site.shared, "rev-list", f"{site.refs()['results/a']}^1").decode().split()
    assert history[1:] == site.repo.text("rev-list", "HEAD").split()
    assert not (site.shared / "shallow").exists()
    git(site.shared, "fsck", "--strict")
    assert machine.left() == {}


@pytest.mark.parametrize("was_shallow", [False, True])
def test_the_whole_history(site: Site, was_shallow: bool) -> None:
    site.submit({"id": "a", "agent": count(site)}, {"id": "b", "agent": count(site)})
    machine = site.machine("one")
    if was_shallow:
        assert machine.work("b").code == 0
        assert counted(site) == 1
    configure(site, "full")
    assert machine.work("a").code == 0
    assert counted(site) == int(site.repo.text("rev-list", "--count", "HEAD"))
    assert machine.left() == {}


def test_an_unknown_value(site: Site) -> None:
    configure(site, "some")
    site.submit({"id": "a", "agent": "true"})
    done = site.machine("one").work("a")
    assert done.code == 1
    assert b"give shallow or full" in done.err


def test_over_ssh(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked for as much of the history as by any other way, also by a clone that is shallow already."""
    site.submit({"id": "a", "agent": f"{count(site)}; git add f; git commit -qm f", "validate": "test -f f"})
    machine = site.machine("one")
    with ssh_server(site.folder, site.shared, monkeypatch) as url:
        for fleet, base in ((fleets.FLEET, "HEAD"), ("older", "HEAD~2")):
            site.repo.git("checkout", "-q", "--detach", base)
            before = site.repo.oid("HEAD~1")
            if fleet != fleets.FLEET:
                site.submit({"id": "a", "agent": count(site), "validate": "test -f f"}, fleet=fleet)
            words = [url if word == site.url else word for word in machine.words("a", fleet=fleet)]
            done = subprocess.run(words, cwd=site.folder, env=machine.environment, capture_output=True, check=False)
            assert done.returncode == 0, done
            assert counted(site) == 1
            assert before not in objects(machine.clone)
    assert not (site.shared / "shallow").exists()
    git(site.shared, "fsck", "--strict")
    assert machine.left() == {}


def test_bases_before_and_after_the_boundary(site: Site) -> None:
    """A fleet that is based on an older commit, one on what a task of the first has made, and tasks with two bases."""
    repo, machine = site.repo, site.machine("one")
    site.submit({"id": "a", "agent": "echo x >f; git add f; git commit -qm f"})
    assert machine.work("a").code == 0
    first = site.result("a").commit
    site.repo.git("fetch", "-q", "origin", f"{site.refs()['results/a']}")
    old = repo.oid("HEAD~3")
    for fleet, base in (("older", old), ("newer", first)):
        assert base is not None
        repo.git("checkout", "-q", "--detach", base)
        site.submit({"id": "a", "agent": "echo y >g; git add g; git commit -qm g"}, fleet=fleet)
        words = machine.words("a")
        words[words.index(fleets.FLEET)] = fleet
        done = subprocess.run(words, cwd=site.folder, env=machine.environment, capture_output=True, check=False)
        assert done.returncode == 0, done
        result = f"refs/agentos/fleet/{fleet}/results/a"
        assert git(site.shared, "rev-parse", f"{result}^1^").decode().strip() == base
    assert machine.left() == {}
    git(machine.clone.path, "fsck", "--connectivity-only")
