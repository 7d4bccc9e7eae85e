"""The commits of a fleet: written, read again, and not trusted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from git_agentos.errors import FleetError
from git_agentos.fleet import records
from git_agentos.fleet.records import DamagedRecord, Fleet, Live, Result
from git_agentos.fleet.tasks import Task
from git_agentos.git import location
from git_agentos.git.repository import Repository
from git_agentos.run.spec import AGENT, RunSpec, StepSpec
from tests.support.repo import Repo

WHO = b"A <a@example.com>"
NOW = "2026-11-26T12:00:00.000Z"


def opened(repo: Repo) -> Repository:
    return Repository(location.locate(str(repo.path)))


def task(id_: str, base: str | None = None) -> Task:
    return Task(id_, spec=RunSpec((StepSpec(AGENT, "true"),), task=id_), base=base)


def fleet_of(repo: Repo) -> Fleet:
    head = repo.oid()
    other = repo.text("commit-tree", "-m", "other", "HEAD^{tree}")
    return Fleet(
        "f", head, (task("a"), task("b", "other"), task("c", "HEAD")), NOW, "local", {"other": other, "HEAD": head}
    )


LIVE = Live("a", 2, "machine", NOW, NOW, "f-a", step=3)
RESULT = Result(
    "a", "passed", 2, "ok", "machine", NOW, NOW, "all is well", "f-a", None, 3, 1, ("sha256:1",), checkpoint="c" * 40
)  # fmt: skip


def test_what_is_written_is_read_again(repo: Repo) -> None:
    repository = opened(repo)
    fleet = fleet_of(repo)
    head, tree = repo.oid(), repo.oid("HEAD^{tree}")
    with repository.writer() as writer:
        written = records.write_tasks(writer, fleet, WHO)
        lives = [replace(LIVE), replace(LIVE, commit=head), replace(LIVE, commit=head, timeline=fleet.bases["other"])]
        live_oids = [records.write_live(writer, "f", each, WHO, tree) for each in lives]
        results = [replace(RESULT, base=head), replace(RESULT, timeline=head), Result("a", "cancelled")]
        result_oids = [records.write_result(writer, "f", each, WHO, tree) for each in results]
        bare = records.write_result(writer, "f", results[0], WHO)
        writer.flush()
    repository = opened(repo)
    found = records.read_tasks(repository, written, "f")
    assert found == fleet
    assert [found.base_of(each) for each in found.tasks] == [head, fleet.bases["other"], head]
    assert records.read_task(repository, written, "f", "b") == replace(fleet, tasks=fleet.tasks[1:2])
    with pytest.raises(FleetError, match="fleet 'f' has no task 'd'"):
        records.read_task(repository, written, "f", "d")
    assert repo.text("rev-parse", f"{written}^@").split() == [head, fleet.bases["other"]]
    assert [records.read_live(repository, oid, "f", "a") for oid in live_oids] == lives
    read = [records.read_result(repository, oid, "f", "a") for oid in result_oids]
    assert read == [replace(each, result=oid) for each, oid in zip(results, result_oids, strict=True)]
    assert [records.evidence_tree(repository, oid) for oid in (*result_oids, *live_oids, bare)] == [tree] * 6 + [None]
    # git agrees that these are commits.
    assert repo.git("fsck", "--no-dangling", "--strict") == b""


def commit_of(repo: Repo, files: dict[str, bytes], *parents: str) -> str:
    rows = [
        f"100644 blob {repo.git('hash-object', '-w', '--stdin', stdin=data).decode().strip()}\t{name}\n"
        for name, data in files.items()
    ]
    tree = repo.git("mktree", stdin="".join(rows).encode()).decode().strip()
    return repo.text("commit-tree", "-m", "x", tree, *(word for each in parents for word in ("-p", each)))


def changed(oid: str, repo: Repo, name: str, **fields: object) -> str:
    """A commit with other values in its document."""
    document = json.loads(repo.git("cat-file", "blob", f"{oid}:{name}"))
    document = {key: value for key, value in {**document, **fields}.items() if value != "gone"}
    parents = repo.text("rev-parse", f"{oid}^@").split()
    names = repo.text("ls-tree", "--name-only", oid).split()
    files = {each: repo.git("cat-file", "blob", f"{oid}:{each}") for each in names}
    return commit_of(repo, files | {name: json.dumps(document).encode()}, *parents)


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": "other"},
        {"fleet": "g"},
        {"task": "b"},
        {"run_id": "f-b"},
        {"attempt": "1"},
        {"attempt": -1},
        {"attempt": True},
        {"attempt": 10**30},
        {"worker": None},
        {"worker": "gone"},
        {"started_at": "yesterday"},
        {"parents": []},
        {"parents": ["timeline", "timeline"]},
        {"parents": [["commit"]]},
        {"parents": 1},
    ],
)
def test_live_records_are_not_trusted(repo: Repo, fields: dict[str, object]) -> None:
    with opened(repo).writer() as writer:
        oid = records.write_live(writer, "f", replace(LIVE, commit=repo.oid()), WHO)
        writer.flush()
    assert records.read_live(opened(repo), changed(oid, repo, "live.json"), "f", "a").commit == repo.oid()
    with pytest.raises(DamagedRecord, match="'refs/agentos/fleet/f/live/a' is damaged"):
        records.read_live(opened(repo), changed(oid, repo, "live.json", **fields), "f", "a")


@pytest.mark.parametrize(
    "fields",
    [{"state": "running"}, {"state": None}, {"held_back": "x"}, {"held_back": [1]}, {"lines": "1"}, {"run_id": "x"}],
)
def test_results_are_not_trusted(repo: Repo, fields: dict[str, object]) -> None:
    with opened(repo).writer() as writer:
        oid = records.write_result(writer, "f", RESULT, WHO)
        writer.flush()
    assert records.read_result(opened(repo), changed(oid, repo, "result.json"), "f", "a").state == "passed"
    with pytest.raises(DamagedRecord, match="'refs/agentos/fleet/f/results/a' is damaged"):
        records.read_result(opened(repo), changed(oid, repo, "result.json", **fields), "f", "a")


@pytest.mark.parametrize(
    "fields",
    [{"id": "g"}, {"base": "x"}, {"base": None}, {"bases": []}, {"bases": {}}, {"bases": {"other": 1}}, {"engine": 1}],
)
def test_tasks_are_not_trusted(repo: Repo, fields: dict[str, object]) -> None:
    with opened(repo).writer() as writer:
        oid = records.write_tasks(writer, fleet_of(repo), WHO)
        writer.flush()
    assert records.read_tasks(opened(repo), changed(oid, repo, "fleet.json"), "f").id == "f"
    with pytest.raises(DamagedRecord, match="'refs/agentos/fleet/f/tasks' is damaged"):
        records.read_tasks(opened(repo), changed(oid, repo, "fleet.json", **fields), "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "'live.json' is no JSON that can be read"),
        (b"{", "'live.json' is no JSON that can be read"),
        (b"\xff", "'live.json' is no JSON that can be read"),
        (b"[" * 100_000, "'live.json' is no JSON that can be read"),
        (b"[]", "'live.json' has not the schema 'agentos.fleet-live.v1'"),
        (b'{"schema": "agentos.fleet-live.v1"}', "'fleet' is missing"),
        (None, "it has no file 'live.json', or one that is too large"),
    ],
)
def test_what_is_wrong_is_a_sentence(repo: Repo, text: bytes | None, said: str) -> None:
    files = {"other": b""} if text is None else {"live.json": text}
    with pytest.raises(DamagedRecord) as raised:
        records.read_live(opened(repo), commit_of(repo, files), "f", "a")
    assert raised.value.message == f"'refs/agentos/fleet/f/live/a' is damaged: {said}"


def test_a_value_that_is_wrong_is_named(repo: Repo) -> None:
    with opened(repo).writer() as writer:
        oid = records.write_result(writer, "f", RESULT, WHO)
        writer.flush()
    for field, value, said in (
        ("task", "b", "it is of another task"),
        ("run_id", "g-a", "it is of another run"),
        ("state", "running", "its state is not one of a result"),
        ("lines", "1", "'lines' has a value that it cannot have"),
        ("ended_at", "yesterday", "'ended_at' is no time"),
        ("parents", ["commit"], "the commit has other parents than it says"),
        ("outcome", "gone", "'outcome' is missing"),
    ):
        with pytest.raises(DamagedRecord) as raised:
            records.read_result(opened(repo), changed(oid, repo, "result.json", **{field: value}), "f", "a")
        assert raised.value.message == f"'refs/agentos/fleet/f/results/a' is damaged: {said}"


def test_something_else_is_an_error_that_names_the_ref(repo: Repo) -> None:
    repository = opened(repo)
    head, tree, missing = repo.oid(), repo.oid("HEAD^{tree}"), "1" * repository.hash.hex_length
    with opened(repo).writer() as writer:
        link = writer.write("blob", b"fleet.json")
        folder = writer.write_tree(
            b"120000 fleet.json\0" + bytes.fromhex(link) + b"120000 live.json\0" + bytes.fromhex(link)
        )
        linked = writer.write_commit(folder, [head], b"x\n", WHO, 0)
        writer.flush()
    for oid in (head, tree, missing, linked, commit_of(repo, {"live.json": b"[" * 100_000})):
        with pytest.raises(DamagedRecord, match="'refs/agentos/fleet/f/tasks' is damaged"):
            records.read_tasks(repository, oid, "f")
        with pytest.raises(DamagedRecord, match="'refs/agentos/fleet/f/live/a' is damaged"):
            records.read_live(repository, oid, "f", "a")
        with pytest.raises(DamagedRecord, match="'refs/agentos/fleet/f/results/a' is damaged"):
            records.read_result(repository, oid, "f", "a")
