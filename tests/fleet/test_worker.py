"""A worker does a task in a clone of its machine, pushes one result, and leaves nothing but the pool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_repository
from git_agentos.fleet import names, progress, records, worker
from git_agentos.fleet.records import Result
from git_agentos.fleet.remote import Remote
from git_agentos.util import times
from tests.support import fleets, tool
from tests.support.fleet_engine import put_live
from tests.support.fleets import Machine, Site, waits_for
from tests.support.repo import Repo, git
from tests.support.waiting import PATIENCE, wait_until

SECRET = "ghp_" + "x7Qm2Lr9Tz" * 3 + "4Wv8Np"


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    return fleets.make(repo, tmp_path)


def counted(folder: Path, name: str) -> str:
    """Shell text that notes each time that it runs."""
    return f"echo x >>'{folder / name}'"


def times_run(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text().split()) if path.exists() else 0


def add_result(site: Site, task: str, state: str, *, attempts: int = 0, instead_of: str | None = None) -> str:
    """What `fleet cancel`, or the submitter of a task that is lost, does."""
    remote = site.remote
    made = Result(task=task, state=state, attempts=attempts, ended_at=times.now_text())
    with remote.repository.writer() as writer:
        oid = records.write_result(writer, fleets.FLEET, made, b"A <a@example.org>")
        writer.flush()
    assert remote.settle(fleets.FLEET, task, oid, instead_of=instead_of).state == "done"
    return oid


def test_a_task_has_one_result_and_nothing_is_left(site: Site) -> None:
    site.submit({"id": "a", "agent": "echo work >new.txt", "validate": "grep -q work new.txt"})
    machine = site.machine("one")
    done = machine.work("a")
    assert done.code == 0, done
    assert sorted(site.refs()) == ["results/a", "tasks"]
    found = site.result("a")
    assert (found.state, found.attempts, found.outcome) == ("passed", 1, "ok")
    assert (found.lines, found.files, found.held_back, found.detail) == (1, 1, (), None)
    assert site.show("a", "new.txt") == b"work\n"  # what was validated is committed
    assert machine.left() == {}
    assert len(machine.pool()) == 1
    again = machine.work("a", "--json")
    assert (again.code, again.json["state"], again.json["run"]) == (0, "there", None)
    assert again.json["result"] == site.refs()["results/a"]


def test_a_failed_run_is_a_result(site: Site) -> None:
    site.submit({"id": "a", "agent": "echo bad >f", "validate": "echo no >&2; exit 3", "max_attempts": 2})
    machine = site.machine("one")
    assert machine.work("a").code == 1
    found = site.result("a")
    assert (found.state, found.outcome, found.attempts) == ("failed", "failed", 1)
    assert found.detail is not None and "exit code 3" in found.detail
    assert site.show("a", "f") == b"bad\n"
    message = git(site.shared, "log", "-1", "--format=%B", f"{site.refs()['results/a']}^1")
    assert b"\n\nThe run has failed.\n\nAgentos-Agent: run-f-a\n" in message
    assert machine.left() == {}


def test_work_that_nothing_has_validated_is_committed_and_says_so(site: Site) -> None:
    """Also what the agent has staged, or committed in part; what it has changed before a validation of a failed run."""
    site.submit(
        {"id": "a", "agent": "echo one >one; git add one; git commit -qm one; echo two >two; echo 3 >3; git add 3"},
        {"id": "b", "steps": [{"kind": "validate", "command": "true"}, {"kind": "agent", "command": "echo x >f"}]},
        {"id": "c", "agent": "echo x >f", "validate": "echo made >report; exit 1"},
        {"id": "d", "agent": "echo x >f; exit 1"},
        {"id": "e", "agent": "git commit -q --allow-empty -m e; git checkout -q --detach; echo x >f"},
    )
    machine = site.machine("one")
    assert [machine.work(id_).code for id_ in "abcde"] == [0, 0, 1, 1, 0]
    shown = {id_: f"{site.refs()[f'results/{id_}']}^1" for id_ in "abcde"}
    changed = {id_: git(site.shared, "diff", "--name-only", site.repo.oid("HEAD"), oid) for id_, oid in shown.items()}
    assert changed == {"a": b"3\none\ntwo\n", "b": b"f\n", "c": b"f\n", "d": b"f\n", "e": b""}
    bodies = {id_: git(site.shared, "log", "-1", "--format=%b", oid) for id_, oid in shown.items()}
    assert all(bodies[id_].startswith(b"Nothing has validated this.\n") for id_ in "ab")
    assert all(bodies[id_].startswith(b"The run has failed.\n") for id_ in "cd")
    assert machine.left() == {}

    repo = open_repository(site.repo.path)
    collected = repo.fleets.collect(fleets.FLEET)
    assert [(each.task, each.state, each.uncommitted) for each in collected.results] == [
        ("a", "passed", 0), ("b", "passed", 0), ("c", "failed", 1), ("d", "failed", 0), ("e", "passed", 1)
    ]  # fmt: skip
    assert collected.refused == ()
    last = collected.results[-1]  # its HEAD was on no branch: its work is in the checkpoint
    words = ["--agent", f"run-{last.run_id}", "--worktree", "again", last.checkpoint]
    assert tool.run(site.repo.path, "restore", *words).code == 0
    assert (site.repo.path.with_name("repo.worktrees") / "again" / "f").read_text() == "x\n"


def test_a_worker_needs_no_identity_of_its_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.submit({"id": "a", "agent": "echo x >f; git add f; git commit -qm f"})
    bare = site.folder / "bare.gitconfig"
    bare.write_text("[user]\n\tuseConfigOnly = true\n")
    site.environment["GIT_CONFIG_GLOBAL"] = str(bare)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    done = site.machine("one").work("a")
    assert done.code == 0, done
    who = "%an <%ae>"
    assert git(site.shared, "log", "-1", f"--format={who}", f"{site.refs()['results/a']}^1") == git(
        site.shared, "log", "-1", f"--format={who}", site.refs()["tasks"]
    )


def test_variables_come_by_the_environment_of_the_worker(site: Site) -> None:
    site.submit({"id": "a", "agent": 'echo "$WANTED" >f', "validate": "true"})
    site.environment["WANTED"] = "given"
    assert site.machine("one").work("a").code == 0
    assert site.show("a", "f") == b"given\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("none", "a"), 1, b"there is no fleet 'none' on the remote"),
        ((fleets.FLEET, "none"), 1, b"'none'"),
        ((fleets.FLEET, "../x"), 2, b"../x"),
    ],
)
def test_unknown_tasks(site: Site, words: tuple[str, str], code: int, message: bytes) -> None:
    site.submit({"id": "a", "agent": "true"})
    machine = site.machine("one")
    line = machine.words("a")
    at = line.index("worker") + 1
    line[at : at + 2] = words
    done = subprocess.run(line, cwd=site.folder, env=machine.environment, capture_output=True, check=False)
    assert done.returncode == code
    assert message in done.stderr
    assert sorted(site.refs()) == ["tasks"]


# -- more than one worker ----------------------------------------------------------------------------------------------


def test_a_second_worker_on_the_same_machine_is_refused(site: Site) -> None:
    go = site.folder / "go"
    site.submit({"id": "a", "agent": f"echo x >f; {waits_for(go)}"})
    machine = site.machine("one")
    first = machine.begin("a")
    wait_until(lambda: "live/a" in site.refs(), "the first worker begins")
    second = machine.work("a", "--json")
    assert (second.code, second.json["error"]["kind"]) == (1, "locked")
    go.touch()
    assert first.communicate(timeout=PATIENCE) is not None
    assert first.returncode == 0
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert machine.left() == {}


def test_of_two_machines_the_first_result_counts(site: Site) -> None:
    """The first worker is cut off after its first step; another one does its work; then the first is back."""
    folder, go = site.folder, site.folder / "go"
    steps = [
        {"kind": "agent", "command": "echo x >f"},
        {"kind": "validate", "command": f"[ -e '{folder}/second' ] || {{ touch '{folder}/waits'; {waits_for(go)}; }}"},
    ]
    site.submit({"id": "a", "steps": steps})
    one, two = site.machine("one"), site.machine("two")
    first = one.begin("a")
    wait_until(lambda: "live/a" in site.refs() and site.live("a").step == 1, "the first worker has done a step")
    wait_until((folder / "waits").exists, "it is in the second one")
    (folder / "second").touch()
    assert two.work("a").code == 0
    counts = site.refs()["results/a"]
    assert site.result("a").attempts == 2
    go.touch()
    _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 4, err
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert site.refs()["results/a"] == counts
    assert two.left() == {}
    left = one.left()
    assert left.pop("evidence") == [names.run_id(fleets.FLEET, "a")]
    assert sorted(left.pop("refs")) == [
        f"refs/agentos/runs/{names.run_id(fleets.FLEET, 'a')}",
        f"refs/agentos/timelines/run-{names.run_id(fleets.FLEET, 'a')}",
    ]
    assert left == {"files": [f"agentos/runs/{names.run_id(fleets.FLEET, 'a')}.turn"]}  # as of any run


def test_a_worker_whose_task_was_cancelled_stops(site: Site) -> None:
    site.submit(
        {"id": "a", "steps": [{"kind": "agent", "command": "echo 1 >f"}, {"kind": "agent", "command": "sleep 60"}]}
    )
    machine = site.machine("one")
    child = machine.begin("a")
    wait_until(lambda: "live/a" in site.refs() and site.live("a").step == 1, "one step is done")
    oid = add_result(site, "a", "cancelled")
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=PATIENCE)
    assert site.refs() == {"tasks": site.refs()["tasks"], "results/a": oid}
    assert machine.work("a").code == 0  # and removes what the first has left
    assert machine.left() == {}


def test_a_worker_that_was_killed_as_it_began_too_late_leaves_no_live_ref(site: Site) -> None:
    """It was killed after it had announced itself, and before it has seen that there is a result."""
    site.submit({"id": "a", "agent": "echo x >f"})
    result = add_result(site, "a", "cancelled")
    put_live(site.remote, fleets.FLEET, "a")
    assert sorted(site.refs()) == ["live/a", "results/a", "tasks"]
    done = site.machine("one").work("a", "--json")
    assert (done.code, done.json["state"], done.json["result"]) == (0, "there", result)
    assert sorted(site.refs()) == ["results/a", "tasks"]


@pytest.mark.parametrize("state", ["cancelled", "passed"])
def test_a_run_ends_in_the_middle_of_a_step_if_another_result_counts(
    site: Site, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Nothing is pushed meanwhile: the result is seen by looking. A lost one does not end it."""
    monkeypatch.setattr(progress, "LOOK_EVERY", 0.2)
    site.submit({"id": "a", "agent": f"{counted(site.folder, 'agent')}; {waits_for(site.folder / 'never')}"})
    machine = site.machine("one")
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    looks: list[str | None] = []
    given: list[str] = []
    fetch = Remote.fetch_result

    def look(remote: Remote, fleet: str, task: str) -> str | None:
        looks.append(fetch(remote, fleet, task))
        return looks[-1]

    def give() -> None:
        wait_until(lambda: "live/a" in site.refs() and times_run(site.folder, "agent") == 1, "the step runs")
        given.append(add_result(site, "a", "lost"))
        wait_until(lambda: looks[-2:] == [given[0]] * 2, "the worker has looked twice at the lost result")
        given.append(add_result(site, "a", state, instead_of=given[0]))

    monkeypatch.setattr(Remote, "fetch_result", look)
    giver = threading.Thread(target=give, daemon=True)
    giver.start()
    done = worker.work(worker.Request(fleets.FLEET, "a", site.url), machine.environment, Silent())
    giver.join(PATIENCE)
    assert (done.state, done.result) == (worker.REFUSED, given[-1])
    assert done.run is not None and done.run.state == "cancelled"
    assert site.refs() == {"tasks": site.refs()["tasks"], "results/a": given[-1]}


class Silent:
    """An observer that says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def test_what_a_machine_has_of_a_lost_task_is_not_lost(cut_off: tuple[Site, Machine]) -> None:
    site, machine = cut_off
    add_result(site, "a", "lost", attempts=1)
    assert machine.work("b").code == 0
    done = machine.work("a")
    assert done.code == 0, done
    assert times_run(site.folder, "agent") == 1
    assert (site.result("a").state, site.result("a").attempts) == ("passed", 2)
    assert machine.left() == {}


def test_a_lost_result_is_replaced(site: Site) -> None:
    site.submit({"id": "a", "agent": "echo x >f", "validate": "true"})
    lost = add_result(site, "a", "lost", attempts=3)
    machine = site.machine("one")
    assert machine.work("a").code == 0
    found = site.result("a")
    assert (found.state, found.attempts) == ("passed", 4)
    assert found.result != lost
    assert machine.left() == {}


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cut_off(site: Site) -> tuple[Site, Machine]:
    """A task with a worker that was killed in its second step, after it has said so on the remote."""
    folder = site.folder
    (folder / "block").touch()
    steps = [
        {"kind": "agent", "command": f"{counted(folder, 'agent')}; echo work >f; echo more >>tracked.txt; git add f"},
        {"kind": "validate", "command": f"{counted(folder, 'validate')}; [ ! -e '{folder}/block' ] || sleep 300"},
    ]
    site.repo.write("tracked.txt", "text\n")
    site.repo.commit("tracked")
    site.submit({"id": "a", "steps": steps}, {"id": "b", "agent": "echo b >b"})
    machine = site.machine("one")
    child = machine.begin("a")
    wait_until(lambda: times_run(folder, "validate") == 1, "the second step")
    wait_until(lambda: "live/a" in site.refs() and site.live("a").step == 1, "live says so")
    fleets.kill(child)
    (folder / "block").unlink()
    return site, machine


@pytest.mark.parametrize("where", ["one", "two"])
@pytest.mark.parametrize("options", [(), ("--from-start",)])
def test_a_killed_worker_is_gone_on_with(cut_off: tuple[Site, Machine], where: str, options: tuple[str, ...]) -> None:
    site, first = cut_off
    second = site.machine(where)
    done = second.work("a", *options)
    assert done.code == 0, done
    assert times_run(site.folder, "agent") == (2 if options else 1)
    assert times_run(site.folder, "validate") == 2
    found = site.result("a")
    assert (found.state, found.attempts) == ("passed", 2)
    assert site.show("a", "f") == b"work\n"
    assert site.show("a", "tracked.txt") == b"text\nmore\n"
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert second.left() == {}
    kinds = [each["event"] for each in site.evidence("a")]
    assert kinds.count("step-ended") == 2
    assert ("resumed" in kinds) == (not options)
    if where == "two":
        assert first.work("b").code == 0  # and removes what was left of the other task
        assert first.left() == {}


@pytest.mark.parametrize("what", ["evidence", "record", "timeline"])
def test_what_cannot_be_gone_on_with_is_begun_anew(cut_off: tuple[Site, Machine], what: str) -> None:
    site, _ = cut_off
    live, shared = site.refs()["live/a"], site.shared
    parents = git(shared, "show", "-s", "--format=%P", live).decode().split()
    tree = git(shared, "rev-parse", f"{live}^{{tree}}").decode().strip()
    if what == "timeline":
        parents[1] = site.repo.oid("HEAD")
    else:
        path = "live.json" if what == "record" else "evidence/events.jsonl"
        data = git(shared, "show", f"{live}:{path}").replace(b'"step', b'"stop', 3)
        tree = _tree_with(shared, tree, path, data)
    words = [word for parent in parents for word in ("-p", parent)]
    who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@x"}
    made = git(shared, "commit-tree", *words, "-m", "x", tree, env=who).decode().strip()
    git(shared, "update-ref", names.live_ref(fleets.FLEET, "a"), made)
    second = site.machine("two")
    done = second.work("a")
    assert done.code == 0, done
    assert times_run(site.folder, "agent") == 2
    assert site.result("a").state == "passed"
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert second.left() == {}


def _tree_with(shared: Path, tree: str, path: str, data: bytes) -> str:
    """A tree with another file in it."""
    index = {"GIT_INDEX_FILE": str(shared / "index.test")}
    blob = git(shared, "hash-object", "-w", "--stdin", stdin=data).decode().strip()
    git(shared, "read-tree", tree, env=index)
    git(shared, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=index)
    return git(shared, "write-tree", env=index).decode().strip()


def test_an_interrupted_worker_says_how_far_it_is(site: Site) -> None:
    site.configure("agentos.fleet.liveInterval", "1h")
    folder = site.folder
    site.submit(
        {
            "id": "a",
            "steps": [
                {"kind": "agent", "command": f"{counted(folder, 'agent')}; echo 1 >f"},
                {"kind": "validate", "command": f"{counted(folder, 'v')}; [ -e '{folder}/go' ] || sleep 60"},
            ],
        }
    )
    child = site.machine("one").begin("a")
    wait_until(lambda: times_run(folder, "v") == 1, "the second step")
    assert "live/a" not in site.refs()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert site.live("a").step == 1
    (folder / "go").touch()
    assert site.machine("two").work("a").code == 0
    assert times_run(folder, "agent") == 1


# -- the remote is away ------------------------------------------------------------------------------------------------


def test_a_remote_that_is_away_is_waited_for(site: Site) -> None:
    away, go = site.shared.with_suffix(".away"), site.folder / "go"
    site.submit({"id": "a", "agent": f"echo x >f; {waits_for(go)}"})
    machine = site.machine("one")
    child = machine.begin("a")
    wait_until(lambda: "live/a" in site.refs(), "the worker begins")
    site.shared.rename(away)
    go.touch()
    assert child.stderr is not None
    while line := child.stderr.readline():
        if b"cannot be reached: " in line and line.rstrip().endswith(b"; it is tried again"):
            break
    away.rename(site.shared)
    child.communicate(timeout=PATIENCE)
    assert child.returncode == 0
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert machine.left() == {}


def test_a_result_that_could_not_be_pushed_is_pushed_by_the_next_worker(site: Site) -> None:
    site.configure("agentos.fleet.remoteWait", "0")
    folder, away, go = site.folder, site.shared.with_suffix(".away"), site.folder / "go"
    site.submit({"id": "a", "agent": f"{counted(folder, 'agent')}; echo x >f; {waits_for(go)}"})
    machine = site.machine("one")
    child = machine.begin("a")
    wait_until(lambda: "live/a" in site.refs(), "the worker begins")
    site.shared.rename(away)
    go.touch()
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 1
    assert b"cannot be reached" in err
    away.rename(site.shared)
    done = machine.work("a")
    assert done.code == 0, done
    assert times_run(folder, "agent") == 1
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert machine.left() == {}


# -- secrets -----------------------------------------------------------------------------------------------------------


def has_secret(shared: Path) -> bool:
    """Whether an object of a bare repository has the secret."""
    listed = git(shared, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").decode()
    return any(SECRET.encode() in git(shared, "cat-file", "-p", line.split()[0]) for line in listed.splitlines())


@pytest.mark.parametrize("committed", [False, True])
def test_a_secret_is_not_pushed(site: Site, committed: bool) -> None:
    text = f"{SECRET[:20]}' '{SECRET[20:]}"
    before = "echo before >g; git add g; git commit -qm before; " if committed else ""
    agent = f"{before}printf '%s%s' '{text}' >f"
    after = "; git add f; git commit -qm after; echo x >h; git add h; git commit -qm h" if committed else ""
    site.submit(
        {
            "id": "a",
            "steps": [{"kind": "agent", "command": agent + after}, {"kind": "agent", "command": "echo more >i"}],
        }
    )
    machine = site.machine("one")
    done = machine.work("a")
    assert done.code == 0, done
    found = site.result("a")
    assert found.state == "passed"
    assert len(found.held_back) == 1
    assert found.detail is not None and "'f'" in found.detail and found.held_back[0] in found.detail
    assert not has_secret(site.shared)
    assert found.commit is not None
    names_there = git(site.shared, "ls-tree", "--name-only", found.commit).decode().split()
    assert ("g" in names_there) == committed
    assert "f" not in names_there
    assert machine.left() == {}


def test_output_is_redacted(site: Site) -> None:
    text = f"{SECRET[:20]}' '{SECRET[20:]}"
    site.submit({"id": "a", "agent": f"echo x >f; printf '%s%s\\n' '{text}'"})
    assert site.machine("one").work("a").code == 0
    assert site.result("a").held_back == ()
    assert not has_secret(site.shared)


# -- the pool ----------------------------------------------------------------------------------------------------------


def test_a_worktree_is_as_new_for_the_next_task(site: Site) -> None:
    """Whatever a task has done in its worktree, the next one finds what a checkout gives."""
    repo = site.repo
    for path, text in {"a.txt": "a", "b/c.txt": "c", "gone.txt": "g", ".gitignore": "*.log", "run.sh": "x"}.items():
        repo.write(path, f"{text}\n")
    repo.commit("files")
    wild = """
        echo changed >a.txt; rm gone.txt; chmod +x run.sh; echo log >x.log; mkdir -p d/e empty; echo y >d/e/f
        git init -q inner; echo z >inner/z; git rm -q --cached b/c.txt; echo staged >new; git add new
        git update-index --assume-unchanged run.sh; git config --worktree core.autocrlf true 2>/dev/null
        mkdir .agentos 2>/dev/null; echo k >.agentos/own
    """
    look = "git status --porcelain --ignored; ls -A; cat a.txt b/c.txt gone.txt; stat -c %A run.sh; git ls-files -v"
    site.submit(
        {"id": "a", "agent": wild},
        {"id": "b", "agent": f"({look}) >../b; echo >f"},
        {"id": "c", "agent": f"({look}) >../c; echo >f"},
    )
    machine = site.machine("one")
    assert machine.work("b").code == 0
    assert machine.work("a").code == 0
    assert len(machine.pool()) == 1
    assert machine.work("c").code == 0
    above = machine.clone.path.parent / "repository.worktrees"
    assert (above / "c").read_text() == (above / "b").read_text()
    for name in "bc":
        (above / name).unlink()
    assert len(machine.pool()) == 1
    assert machine.left() == {}
    (prepared_path,) = machine.clone.path.parent.glob("repository.worktrees/.pool/*")
    prepared = Repo(prepared_path)
    assert prepared.text("status", "--porcelain", "--ignored") == ""
    assert prepared.text("diff", "--stat", repo.oid("HEAD")) == ""


def test_what_runs_have_left_is_packed_and_deleted_when_it_is_old(site: Site) -> None:
    """Nobody else calls `git gc` in a clone of workers."""
    site.submit({"id": "a", "agent": "echo a >f"}, {"id": "b", "agent": "echo b >f"})
    machine = site.machine("one")
    assert machine.work("a").code == 0
    clone, folder = machine.clone, machine.clone.git_dir / "objects" / "pack"
    left = []
    for number in range(51):
        oid = git(clone.path, "hash-object", "-w", "--stdin", stdin=b"%d" % number).decode().strip()
        name = git(clone.path, "pack-objects", "-q", str(folder / "pack"), stdin=oid.encode()).decode().strip()
        (clone.git_dir / "objects" / oid[:2] / oid[2:]).unlink()
        left.append(oid)
        if number < 50:
            for path in folder.glob(f"pack-{name}.*"):
                os.utime(path, (1, 1))
    assert machine.work("b").code == 0
    wait_until(lambda: len(list(folder.glob("*.pack"))) < 5, "it is packed")
    wait_until(lambda: not (clone.git_dir / "gc.pid").exists(), "git gc has ended")
    found = git(clone.path, "cat-file", "--batch-check", stdin="\n".join(left).encode()).decode().splitlines()
    assert [line.endswith(" missing") for line in found] == [True] * 50 + [False]
    git(clone.path, "fsck", "--no-dangling", "--no-progress")
    assert machine.left() == {}


def test_the_record_is_json_that_the_tables_describe(site: Site) -> None:
    site.submit({"id": "a", "agent": "echo x >f"})
    done = site.machine("one").work("a", "--json")
    body = json.loads(done.out)
    assert (body["schema"], body["state"], body["run"]["state"]) == ("agentos.fleet-worker.v1", "pushed", "passed")
