"""Refs of a remote: created once, replaced by compare-and-swap, settled at once, and waited for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from git_agentos.fleet import names
from git_agentos.fleet.remote import DONE, REFUSED, TAKEN, Answer, FleetRefs, Remote, RemoteAway
from git_agentos.git import location, transport
from git_agentos.git.repository import Repository
from tests.support.ref_storage import TABLES, is_reftable
from tests.support.remotes import add_hook, clone, http_server
from tests.support.repo import Repo, git

TASKS, LIVE, RESULT = names.tasks_ref("f"), names.live_ref("f", "a"), names.result_ref("f", "a")


class Time:
    """A clock that goes on by pauses alone; `then` is done in each of them."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self._then = then

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        self._then()


def of(repo: Repo, wait: float = 0.0, time: Time | None = None) -> Remote:
    clock = time or Time()
    return Remote(
        Repository(location.locate(str(repo.path))), "origin", wait=wait, clock=lambda: clock.now, pause=clock.pause
    )


def commits(repo: Repo, number: int, revision: str = "HEAD") -> list[str]:
    return [repo.text("commit-tree", "-m", f"{n} {repo.path}", f"{revision}^{{tree}}") for n in range(number)]


def there(path: Path) -> dict[str, str]:
    rows = git(path, "for-each-ref", "--format=%(refname) %(objectname)", "refs/agentos/").decode().splitlines()
    return dict(row.split(" ") for row in rows)


def here(repo: Repo) -> dict[str, str]:
    rows = repo.text("for-each-ref", "--format=%(refname) %(objectname)", "refs/agentos/fleets/").splitlines()
    return dict(row.split(" ") for row in rows)


def test_a_ref_is_created_once_and_replaced_by_who_knows_it(repo: Repo, shared: Path, tmp_path: Path) -> None:
    one, two, three = commits(repo, 3)
    mine, other = of(repo), of(clone(tmp_path, shared, "two"))
    assert mine.create(TASKS, one) == Answer(DONE, one)
    assert mine.create(TASKS, one) == Answer(DONE, one)
    assert mine.create(TASKS, two) == Answer(TAKEN, one)
    assert mine.replace(TASKS, two, three) == Answer(TAKEN, one)
    assert there(shared) == {TASKS: one}
    assert here(repo) == {names.fetched_ref("origin", TASKS): one}
    assert other.fetch([TASKS, LIVE]) == {TASKS: one}
    assert other.tracked(TASKS) == one and other.repository.exists(one)
    assert mine.replace(TASKS, two, one) == Answer(DONE, two)
    assert mine.replace(TASKS, None, one) == Answer(TAKEN, two)
    assert mine.replace(TASKS, None, two) == Answer(DONE, None)
    assert mine.replace(TASKS, one, two) == Answer(TAKEN, None)
    assert there(shared) == here(repo) == {}
    assert other.fetch([TASKS, LIVE]) == {}
    assert other.tracked(TASKS) is None


def test_fleets_are_fetched_as_they_are_there(repo: Repo, shared: Path, tmp_path: Path) -> None:
    one, two, three = commits(repo, 3)
    mine, other = of(repo), of(clone(tmp_path, shared, "two"))
    for ref, oid in ((TASKS, one), (LIVE, two), (names.result_ref("f", "b"), three), (names.end_ref("g"), one)):
        mine.create(ref, oid)
    git(shared, "update-ref", "refs/agentos/fleet/f/other/x", one)
    f, g = FleetRefs("f", one, {"a": two}, {"b": three}), FleetRefs("g", end=one)
    assert mine.list() == {k: v for k, v in there(shared).items() if "other" not in k}
    assert mine.all_fetched() == (f, g)
    assert other.fetch_fleet("f") == f
    assert other.all_fetched() == (f,)
    assert other.fetch_all() == (f, g)
    mine.replace(LIVE, None, two)
    mine.replace(names.end_ref("g"), None, one)
    assert other.fetched("f") == f
    assert other.fetch_fleet("f") == FleetRefs("f", one, {}, {"b": three})
    assert other.fetch_all() == (FleetRefs("f", one, {}, {"b": three}),)
    assert other.fetch_fleet("h") == other.fetched("h") == FleetRefs("h")
    assert not list(Path(other.repository.location.common_dir).glob("**/*.lock"))


def test_the_first_result_counts_and_no_live_ref_is_left(repo: Repo, shared: Path, tmp_path: Path) -> None:
    first, second, one, two = commits(repo, 4)
    away = clone(tmp_path, shared, "two")
    away.git("fetch", "-q", repo.path.as_uri(), "HEAD")
    a, b = of(repo), of(away)
    theirs = commits(away, 2, "FETCH_HEAD")
    assert a.announce("f", "a", first, None) == Answer(DONE, first)
    assert b.announce("f", "a", theirs[0], None) == Answer(TAKEN, first)
    assert b.fetch([LIVE]) == {LIVE: first}
    assert b.announce("f", "a", theirs[0], first) == Answer(DONE, theirs[0])
    # The first worker comes back: it is told, and its result counts nevertheless if it is the first one.
    assert a.replace(LIVE, second, first) == Answer(TAKEN, theirs[0])
    assert a.settle("f", "a", one) == Answer(DONE, one)
    assert there(shared) == {RESULT: one}
    assert b.replace(LIVE, theirs[1], theirs[0]) == Answer(TAKEN, None)
    assert b.settle("f", "a", theirs[1]) == Answer(TAKEN, one)
    assert b.announce("f", "a", theirs[0], None) == Answer(TAKEN, one)
    assert there(shared) == {RESULT: one}
    assert a.settle("f", "a", one) == Answer(DONE, one)
    # A result that is lost is replaced.
    assert b.announce("f", "a", theirs[0], None, instead_of=one) == Answer(DONE, theirs[0])
    assert a.settle("f", "a", two) == Answer(TAKEN, one)
    assert b.settle("f", "a", theirs[1], instead_of=one) == Answer(DONE, theirs[1])
    assert there(shared) == {RESULT: theirs[1]}


def test_a_fleet_that_was_ended_gets_no_more_results(repo: Repo, shared: Path, tmp_path: Path) -> None:
    live, one, two = commits(repo, 3)
    worker, ending = of(repo), of(clone(tmp_path, shared, "two"))
    worker.announce("f", "a", live, None)
    ending.repository.git("fetch", "-q", repo.path.as_uri(), "HEAD")
    done = commits(Repo(Path(ending.repository.location.root)), 1, "FETCH_HEAD")[0]
    assert ending.create(names.end_ref("f"), done) == Answer(DONE, done)
    assert ending.fetch([LIVE]) == {LIVE: live}
    assert ending.replace(LIVE, None, live).state == DONE
    ended = Answer(REFUSED, None, "the fleet was ended")
    assert worker.settle("f", "a", one) == ended
    assert worker.announce("f", "a", live, None) == ended
    assert of(repo).settle("f", "b", two) == ended
    assert there(shared) == {names.end_ref("f"): done}


def test_a_fleet_that_is_ended_meanwhile(repo: Repo, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, end = commits(repo, 2)
    push = transport.swap

    def meanwhile(*args: object) -> object:
        monkeypatch.setattr(transport, "swap", push)
        git(repo.path, "push", "-q", "origin", f"{end}:{names.end_ref('f')}")
        return push(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(transport, "swap", meanwhile)
    assert of(repo).settle("f", "a", one) == Answer(REFUSED, None, "the fleet was ended")
    assert there(shared) == {names.end_ref("f"): end}


def test_of_many_results_at_once_one_counts(repo: Repo, shared: Path, tmp_path: Path) -> None:
    live, *results = commits(repo, 5)
    assert of(repo).create(LIVE, live) == Answer(DONE, live)
    clones = []
    for n in range(4):
        copy = clone(tmp_path, shared, f"w{n}")
        copy.git("fetch", "-q", repo.path.as_uri(), "HEAD")
        copy.git(
            "unpack-objects", "-q", stdin=repo.git("pack-objects", "--stdout", "-q", stdin="\n".join(results).encode())
        )
        clones.append(of(copy, wait=1000.0))
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda each: each[0].settle("f", "a", each[1]), zip(clones, results, strict=True)))
    counts = there(shared)
    assert list(counts) == [RESULT]
    assert sorted(answers) == sorted([Answer(DONE, counts[RESULT]), *[Answer(TAKEN, counts[RESULT])] * 3])


def test_a_remote_that_refuses_says_why(repo: Repo, shared: Path) -> None:
    one, two = commits(repo, 2)
    mine = of(repo, wait=1000.0)
    assert mine.create(LIVE, one) == Answer(DONE, one)
    add_hook(shared, "pre-receive", "exit 1")
    assert mine.create(TASKS, one) == Answer(REFUSED, None, "pre-receive hook declined")
    (shared / "hooks/pre-receive").unlink()
    add_hook(shared, "update", "case $1 in */results/*) exit 1;; esac")
    answer = mine.settle("f", "a", two)
    assert answer.state == REFUSED and answer.reason == "hook declined"
    assert there(shared) == {LIVE: one}


def test_an_answer_that_was_lost_is_looked_for(repo: Repo, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = commits(repo, 2)
    mine = of(repo)
    mine.create(LIVE, one)
    push = transport.swap
    said = iter((dict.fromkeys((RESULT, LIVE), "remote failed to report status"), {}))

    def broken(*args: object) -> object:
        push(*args)  # type: ignore[arg-type]
        return next(said)

    monkeypatch.setattr(transport, "swap", broken)
    assert mine.settle("f", "a", two) == Answer(DONE, two)
    assert there(shared) == {RESULT: two}
    assert here(repo) == {names.fetched_ref("origin", RESULT): two}
    assert mine.replace(RESULT, None, two) == Answer(DONE, None)


def test_a_remote_that_is_away_is_waited_for(repo: Repo, shared: Path) -> None:
    one, two = commits(repo, 2)
    hidden = shared.with_name("hidden")
    time = Time(lambda: time.now > 3000 and hidden.exists() and hidden.rename(shared))
    reasons: list[str] = []
    mine = of(repo, 24 * 3600.0, time)
    mine._away = reasons.append
    mine.create(LIVE, one)
    shared.rename(hidden)
    assert mine.settle("f", "a", two) == Answer(DONE, two)
    assert there(shared) == {RESULT: two}
    assert max(time.pauses) <= 60 and len(time.pauses) < 120 and time.pauses[0] <= 0.5 < time.pauses[3]
    assert len(reasons) == len(time.pauses) and "does not appear to be a git repository" in reasons[0]
    shared.rename(hidden)
    time.now = -24 * 3600.0  # nobody brings it back
    with pytest.raises(RemoteAway, match="the remote 'origin' cannot be reached: "):
        mine.create(TASKS, one)
    assert time.now >= 0
    never = Time()
    with pytest.raises(RemoteAway):
        of(repo, 0.0, never).fetch_all()
    assert never.pauses == []


def test_a_lock_that_a_killed_push_has_left_there(repo: Repo, shared: Path) -> None:
    """It is not said that the remote cannot be reached, but what to do."""
    (one,) = commits(repo, 1)
    mine = of(repo)
    lock = shared / (f"{TABLES}/tables.list.lock" if is_reftable(shared) else f"{RESULT}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    with pytest.raises(RemoteAway, match=r"the remote 'origin' cannot be changed: .*lock") as caught:
        mine.settle("f", "a", one)
    assert "has left the lock file there" in (caught.value.hint or "")
    lock.unlink()
    assert mine.settle("f", "a", one) == Answer(DONE, one)


def test_by_http(repo: Repo, shared: Path) -> None:
    one, two = commits(repo, 2)
    with http_server(shared) as url:
        repo.git("remote", "set-url", "origin", url)
        mine = of(repo)
        assert mine.create(LIVE, one) == Answer(DONE, one)
        assert mine.settle("f", "a", two) == Answer(DONE, two)
        assert mine.settle("f", "a", one) == Answer(TAKEN, two)
        assert there(shared) == {RESULT: two}
    with pytest.raises(RemoteAway):
        mine.list()
