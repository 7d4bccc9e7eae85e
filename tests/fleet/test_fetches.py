"""git's lock files that killed processes have left: no later fetch fails at them, and those of the living stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import LockedError
from git_agentos.fleet import ending, fetches, names
from git_agentos.git import stale_locks
from git_agentos.util import locks
from tests.support import fleets
from tests.support.fleets import Site, waits_for
from tests.support.ref_storage import is_reftable
from tests.support.repo import Repo, git
from tests.support.waiting import PATIENCE, running_process, wait_until

FETCHED = "refs/agentos/fleets/origin/f"
LOCKS = ("shallow.lock", "packed-refs.lock", "config.lock", f"{FETCHED}/tasks.lock", f"{FETCHED}/live/b.lock")


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    return fleets.make(repo, tmp_path)


def lock(repo: Repo, *paths: str) -> list[Path]:
    """Make lock files, as a git that is killed then leaves them."""
    made = [repo.git_dir / path for path in paths]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return made


def test_a_worker_goes_on_with_locks_that_were_left(site: Site) -> None:
    site.submit({"id": "a", "agent": "echo x >f"}, {"id": "b", "agent": "echo x >f", "validate": "true"})
    machine = site.machine("one")
    assert machine.work("a").code == 0
    site.submit({"id": "c", "agent": "echo x >f"}, fleet="g")  # its tasks have to be fetched
    lock(machine.clone, *LOCKS, "refs/agentos/fleets/origin/g/tasks.lock")
    for fleet, task in ((fleets.FLEET, "b"), ("g", "c")):
        done = machine.work(task, fleet=fleet)
        assert (done.code, b"cannot be reached" in done.err) == (0, False), done
    assert machine.left() == {}


def test_a_worker_goes_on_with_locks_that_were_left_beside_it(site: Site) -> None:
    """Another worker of the machine is killed while the run goes on."""
    site.configure("agentos.fleet.liveInterval", "1h")
    go, at = site.folder / "go", site.folder / "at"
    site.submit({"id": "a", "agent": f"echo x >f; touch '{at}'; {waits_for(go)}"})
    machine = site.machine("one")
    with machine.begin("a") as child:
        wait_until(at.exists, "the run goes on")
        lock(machine.clone, *LOCKS, f"{FETCHED}/results/a.lock", f"{FETCHED}/live/a.lock")
        go.touch()
        _, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, b"cannot be reached" in err) == (0, False), err
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert machine.left() == {}


_HOOK = """#!/bin/sh
touch '{folder}/at'
until [ -e '{folder}/go' ]; do sleep 0.02; done
exec "$@"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing proves that a process has ended")
@pytest.mark.parametrize("what", ["the group", "the worker"])
def test_a_worker_that_is_killed_in_the_middle_of_a_fetch(site: Site, what: str) -> None:
    """The remote waits before it sends the first object; git has locked the boundary of the clone then."""
    hook = site.folder / "hook"
    hook.write_text(_HOOK.format(folder=site.folder))
    hook.chmod(0o755)
    site.configure("uploadpack.packObjectsHook", str(hook))
    site.submit({"id": "a", "agent": "echo x >f"})
    machine = site.machine("one")
    child = machine.begin("a")
    wait_until((site.folder / "at").exists, "the fetch")
    boundary = machine.clone.git_dir / "shallow.lock"
    wait_until(boundary.exists, "the boundary is locked")
    if what == "the group":
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=PATIENCE)
        assert boundary.exists()
    else:
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE)
    with machine.begin("a") as second:
        (site.folder / "go").touch()
        _, err = second.communicate(timeout=PATIENCE)
    child.communicate(timeout=PATIENCE)
    assert second.returncode == 0, err
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert machine.left() == {}


def test_packs_that_killed_fetches_have_left(site: Site) -> None:
    """Those of a fetch that may still go on stay, and so does everything else."""
    site.submit({"id": "a", "agent": "echo x >f"}, {"id": "b", "agent": "echo x >f"})
    machine = site.machine("one")
    assert machine.work("a").code == 0
    location = open_workspace(machine.clone.path).context.location
    folder = machine.clone.git_dir / "objects" / "pack"
    old = [folder / name for name in ("tmp_pack_a1b2c3", "tmp_idx_a1b2c3", "tmp_rev_a1b2c3")]
    names_kept = ("tmp_pack_d4e5f6", "pack-1.pack", "tmp_pack_forget_pack-2.pack", "tmp_pack_a1b2c3d4e5f6")
    kept = [folder / name for name in names_kept]
    for path in (*old, *kept):
        path.write_bytes(b"PACK")
    for path in (*old, *kept[1:]):
        os.utime(path, (1, 1))
    with locks.hold(fetches._path(location), shared=True):
        fetches.remove_unfinished_packs(location)
    assert all(path.exists() for path in (*old, *kept))
    assert machine.work("b").code == 0
    assert [path for path in (*old, *kept) if path.exists()] == kept


def test_a_command_of_a_person_goes_on_with_locks_that_were_left(site: Site) -> None:
    """Its fetch has to create refs, and to delete some that are packed."""
    repo = site.repo
    site.submit({"id": "a", "agent": "x"})
    site.submit({"id": "a", "agent": "x"}, fleet="g")
    site.remote.fetch_all()
    repo.git("pack-refs", "--all")
    git(site.shared, "update-ref", "-d", names.tasks_ref("g"))
    git(site.shared, "update-ref", names.result_ref("f", "a"), repo.oid())
    lock(repo, "packed-refs.lock", f"{FETCHED}/results/a.lock")
    found = site.remote.fetch_all()
    assert [(each.fleet, dict(each.results)) for each in found] == [("f", {"a": repo.oid()})]
    assert list(repo.git_dir.rglob("*.lock")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing proves that a process has ended")
def test_a_lock_of_a_living_process_stays(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "_SHORTEST", 0)
    site.submit({"id": "a", "agent": "x"})
    name = "reftable/tables.list.lock" if is_reftable(site.repo.git_dir) else f"{FETCHED}/tasks.lock"
    (path,) = lock(site.repo, name)
    git(site.shared, "update-ref", names.tasks_ref("f"), site.repo.oid())
    with running_process("sh", "-c", f"exec sleep 600 >>'{path}'", cwd=site.folder) as child:
        wait_until(
            lambda: str(path) in map(os.path.realpath, Path(f"/proc/{child.pid}/fd").iterdir()), "it has it open"
        )
        with pytest.raises(LockedError, match=f"'{path}' exists, and a process that is alive may have made it"):
            site.remote.fetch_fleet("f")
        assert path.exists()
    assert site.remote.fetch_fleet("f").tasks == site.repo.oid()


def test_no_lock_is_removed_while_somebody_fetches(site: Site) -> None:
    """Who fetches may be in another container, where its processes are not seen from here."""
    location = open_workspace(site.repo.path).context.location
    (path,) = lock(site.repo, "shallow.lock")

    def look() -> None:
        assert not fetches.remove_left(location, patience=0.0)
        assert path.exists()

    fetches.fetch(location, look)
    assert fetches.remove_left(location, patience=0.0)
    assert not path.exists()


def test_what_the_remote_has_no_more_is_removed_from_a_clone(site: Site) -> None:
    site.submit({"id": "a", "agent": "echo x >f"})
    site.submit({"id": "b", "agent": "echo x >f"}, fleet="g")
    machine = site.machine("one")
    assert machine.work("a").code == 0
    assert machine.work("b", fleet="g").code == 0

    def here() -> list[str]:
        return machine.clone.text("for-each-ref", "--format=%(refname)", names.FETCHED).split()

    assert here() == [f"{names.FETCHED}origin/{fleet}/tasks" for fleet in "fg"]
    ending.end(open_workspace(site.repo.path).context, "f")
    site.submit({"id": "c", "agent": "echo x >f"}, fleet="h")
    assert machine.work("c", fleet="h").code == 0
    assert here() == [f"{names.FETCHED}origin/{fleet}/tasks" for fleet in "gh"]
    assert machine.left() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing proves that a process has ended")
def test_reading_objects_makes_no_lock(site: Site) -> None:
    """Workers that share a clone have a git each that reads objects for as long as they live."""
    (path,) = lock(site.repo, "shallow.lock")
    location = open_workspace(site.repo.path).context.location
    pipe = site.folder / "pipe"
    os.mkfifo(pipe)
    # The shell ends at once, so that the process is nobody's child.
    script = f"git cat-file --batch-command >/dev/null <'{pipe}' & echo $! >'{site.folder}/pid'"
    subprocess.run(["sh", "-c", script], cwd=site.repo.path, check=True)
    pid = (site.folder / "pid").read_text().strip()
    with open(pipe, "w"):
        wait_until(lambda: b"cat-file" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"), "git reads")
        assert stale_locks.remove(location, stale_locks.shared(location, 0.0)) == {str(path): None}
