"""Where the graph's state is kept: any text, any number of processes, no foreign code, and no password in a message."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ormsgpack
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.types import Command

from git_agentos import log, open_workspace
from git_agentos.errors import DatabaseError, TddError, WorkflowConfigurationError
from git_agentos.process import mounts
from git_agentos.tdd import state_database
from git_agentos.util import locks
from tests.support import postgres
from tests.support.repo import Repo
from tests.support.waiting_graph import HOSTILE, first, graph, thread, walk


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "w.db")
    else:
        with postgres.database() as url:
            yield url


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_any_text_comes_back(where: str) -> None:
    expected = first({})
    expected["history"] = [*expected["history"], {"n": 2, "said": HOSTILE}]
    last = walk(where)
    assert (last.next, last.values) == ((), {**expected, "text": None})
    with state_database.open_checkpointer(where) as opened:
        states = [each.values.get("text") for each in graph(opened).get_state_history(thread("t"))]
        assert states == [None, HOSTILE, "begin\0", None]
        assert [each.config["configurable"]["thread_id"] for each in opened.list(None)] == ["t"] * 4
        opened.delete_thread("t")
        assert list(opened.list(None)) == []


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    max_leaves=20,
)


@given(VALUES)
@settings(max_examples=100, deadline=None)
def test_the_serializer_gives_back_what_json_can_hold(value: Any) -> None:
    serializer = state_database.serializer()
    again = serializer.loads_typed(serializer.dumps_typed(value))
    assert (again, type(again)) == (value, type(value))


@given(st.text(st.characters(exclude_categories=())), st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_state_comes_back(where: str, text: str, nested: dict[str, Any]) -> None:
    with state_database.open_checkpointer(where) as opened:
        made = graph(opened)
        name = os.urandom(4).hex()
        made.update_state(thread(name), {"text": text, "nested": nested}, as_node="first")
        found = made.get_state(thread(name)).values
        assert {key: found[key] for key in ("text", "nested")} == {"text": text, "nested": nested}


def test_a_long_text_is_kept_packed(tmp_path: Path) -> None:
    path = str(tmp_path / "w.db")
    with state_database.open_checkpointer(path) as opened:
        graph(opened).update_state(thread("t"), {"text": "line\n" * 100_000}, as_node="first")
        assert graph(opened).get_state(thread("t")).values["text"] == "line\n" * 100_000
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 500_000


# -- who may write there ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["msgpack", "json", "pickle"])
def test_row_that_names_code_does_not_run_it(tmp_path: Path, kind: str) -> None:
    """Rows as whoever can write to the file would make them, to have a folder made."""
    path, made = str(tmp_path / "w.db"), tmp_path / "made"
    bodies = {
        "msgpack": ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", str(made))))),
        "json": json.dumps({"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [str(made)]}).encode(),
        "pickle": f"cos\nmkdir\n(V{made}\ntR.".encode(),
    }
    walk(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", (kind, bodies[kind]))
        connection.execute("UPDATE writes SET type = ?, value = ?", (kind, bodies[kind]))
    with contextlib.suppress(Exception), state_database.open_checkpointer(path) as opened:
        list(opened.list(None))
        opened.get_tuple(thread("t"))
    assert not made.exists()


# -- many at once ----------------------------------------------------------------------------------------------------


def test_concurrent_processes(where: str) -> None:
    """They all find it empty, and make the tables in the same moment."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.support.waiting_graph", where, f"w{n}"], stdin=subprocess.PIPE
        )
        for n in range(3)
    ]
    for each in workers:
        assert each.stdin is not None
        each.stdin.close()
    assert [each.wait() for each in workers] == [0] * len(workers)
    with state_database.open_checkpointer(where) as opened:
        found = {each.config["configurable"]["thread_id"]: each for each in opened.list(None)}
        assert sorted(found) == ["w0", "w1", "w2"]


def test_concurrent_creation_of_the_tables() -> None:
    with postgres.database() as url:
        failures: list[BaseException] = []
        barrier = threading.Barrier(20)

        def work() -> None:
            try:
                barrier.wait()
                with state_database.open_checkpointer(url):
                    pass
            except BaseException as error:  # noqa: BLE001 (it is told below)
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(20)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failures == []
        with psycopg.connect(url) as connection:
            query = "SELECT count(*), count(DISTINCT v), bool_and(indisvalid) FROM checkpoint_migrations, pg_index"
            made, versions, valid = connection.execute(query).fetchone() or ()
            assert (made % versions, valid) == (0, True)


def test_the_log_is_written_while_it_is_open(repo: Repo) -> None:
    context = open_workspace(repo.path).context
    with state_database.open_checkpointer(state_database.location_of(context.location, {})) as opened:
        graph(opened).invoke({"text": "x"}, thread("t"), durability="sync")
        log.add(context, "action", "meanwhile")
        assert [each.summary for each in log.entries(context)] == ["meanwhile"]
        assert graph(opened).get_state(thread("t")).next == ("second",)


def test_the_log_is_written_without_a_write_ahead_log_too(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that other machines may use."""
    monkeypatch.setattr(mounts, "can_share_memory", lambda _: False)

    def sleep(_: float) -> None:
        pytest.fail("it was waited for")

    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    test_the_log_is_written_while_it_is_open(repo)


# -- where it is -----------------------------------------------------------------------------------------------------


def test_location_of_the_database(repo: Repo, tmp_path: Path) -> None:
    location = open_workspace(repo.path).context.location
    own = str(repo.path / ".agentos" / "issue_workflow.db")
    assert (state_database.location_of(location, {}, make=False), os.path.exists(repo.path / ".agentos")) == (
        own,
        False,
    )
    assert (state_database.location_of(location, {}), state_database.exists(own)) == (own, False)
    with state_database.open_checkpointer(own):
        pass
    assert state_database.exists(own)
    for value in ("postgresql://a:b@h/x", "postgres://h"):
        assert state_database.location_of(location, {"AGENTOS_WORKFLOW_DB": value}) == value
        assert state_database.exists(value)
    other = tmp_path / "a b" / "it's.db"
    assert state_database.location_of(location, {"AGENTOS_WORKFLOW_DB": str(other)}) == str(other)
    assert walk(str(other)).next == ()


def test_planted_database_is_refused(repo: Repo, tmp_path: Path) -> None:
    location = open_workspace(repo.path).context.location
    aim = tmp_path / "aim"
    own = state_database.location_of(location, {})
    os.symlink(aim, own)
    with pytest.raises(WorkflowConfigurationError, match="not a regular file"), state_database.open_checkpointer(own):
        pass
    with pytest.raises(WorkflowConfigurationError, match="not a regular file"):
        state_database.location_of(location, {}, make=False)
    assert not aim.exists()
    os.unlink(own)
    repo.write(".agentos/issue_workflow.db", b"")
    repo.git("add", "-f", ".agentos/issue_workflow.db")
    with pytest.raises(WorkflowConfigurationError, match="git tracks"):
        state_database.location_of(location, {})


# -- what can be wrong -----------------------------------------------------------------------------------------------


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    walk(str(path))
    data = bytearray(path.read_bytes())
    data[100:] = os.urandom(len(data) - 100)
    path.write_bytes(data)
    with (
        pytest.raises(DatabaseError, match="the workflow database"),
        state_database.open_checkpointer(str(path)) as opened,
    ):
        opened.get_tuple(thread("t"))
    path.write_bytes(b"no database at all")
    with pytest.raises(DatabaseError), state_database.open_checkpointer(str(path)):
        pass
    assert path.read_bytes() == b"no database at all"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ada:s3cret@127.0.0.1:1/x", "postgresql://ada@127.0.0.1:1/x' cannot be used: .*refused"),
        ("postgresql://ada:refused@127.0.0.1:1/x", "cannot be used: .*Connection …"),
        ("postgresql://ada:s3cret@127.0.0.1:1/x?connect_timeout=1&sslmode=bad", "cannot be used"),
        ("postgresql://ada:s3cret/x", "cannot be read as the URL"),
        ("postgresql://ada:p@s3cret@h/x", "cannot be read as the URL"),
        ("postgresql://ada:s3cret@[::1/x", "cannot be read as the URL"),
        ("postgresql://ada:s3cret@h/x?nonsense=s3cret", "cannot be read as the URL"),
        ("postgresql://ada:s3cret@h/x?port=s3cret", "cannot be read as the URL"),
    ],
)
def test_a_server_that_cannot_be_reached(url: str, said: str) -> None:
    with pytest.raises(DatabaseError, match=said) as caught, state_database.open_checkpointer(url):
        pass
    assert "s3cret" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


def test_a_server_that_refuses() -> None:
    with postgres.database() as url:
        scheme, _, rest = url.partition("://")
        user, _, host = rest.partition("@")
        name, _, password = user.partition(":")
        for wrong, said in (
            (f"{scheme}://{name}:s3cret%40x@{host}", "password authentication failed"),
            (f"{scheme}://{name}@{host}", "no password supplied"),
            (f"{scheme}://{user}@{host}x", "does not exist"),
        ):
            with pytest.raises(DatabaseError, match=said) as caught, state_database.open_checkpointer(wrong):
                pass
            assert caught.value.hint is not None
            for secret in ("s3cret", password):
                assert secret not in f"{caught.value} {caught.value.hint}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE ROLE reader LOGIN PASSWORD 's3cret'")
            try:
                reader = f"{scheme}://reader:s3cret@{host}"
                with (
                    pytest.raises(DatabaseError, match="permission denied") as caught,
                    state_database.open_checkpointer(reader),
                ):
                    pass
                assert "allowed" in str(caught.value.hint)
                with state_database.open_checkpointer(url):
                    pass
                rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"
                connection.execute(f"GRANT {rights} TO reader".encode())
                assert walk(reader).next == ()
            finally:
                connection.execute("DROP OWNED BY reader")
                connection.execute("DROP ROLE reader")


def test_a_connection_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """While an agent takes its time it is made again; one that is cut in the middle is told."""
    with postgres.database() as url, psycopg.connect(url, autocommit=True) as other:
        cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'git-agentos'"
        with state_database.open_checkpointer(url) as opened:
            made = graph(opened)
            made.invoke({"text": "x"}, thread("t"), durability="sync")
            assert other.execute(cut).fetchone() == (1,)
            monkeypatch.setattr(state_database, "_IDLE", 0.0)
            made.invoke(Command(resume="y"), thread("t"), durability="sync")
            assert made.get_state(thread("t")).next == ()
        monkeypatch.setattr(state_database, "_IDLE", 60.0)
        with pytest.raises(DatabaseError, match="cannot be used"), state_database.open_checkpointer(url) as opened:
            assert other.execute(cut).fetchone() == (1,)
            opened.get_tuple(thread("t"))


@pytest.mark.parametrize(
    ("module", "place", "extra"),
    [
        ("langgraph.checkpoint.sqlite", "w.db", "git-agentos[tdd]"),
        ("langgraph.checkpoint.postgres", "postgresql://ada:s3cret@h/x", "git-agentos[postgres]"),
    ],
)
def test_missing_extra_is_reported(module: str, place: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TddError, match="cannot be loaded") as caught, state_database.open_checkpointer(place):
        pass
    assert extra in str(caught.value.hint)
    assert "s3cret" not in f"{caught.value} {caught.value.hint}"


def test_texts_are_rows_of_their_own() -> None:
    """In PostgreSQL: what did not change is not written again."""
    with postgres.database() as url:
        walk(url)
        with psycopg.connect(url) as connection:
            inlined = connection.execute("SELECT checkpoint -> 'channel_values' FROM checkpoints").fetchall()
            assert not any(isinstance(value, str) for (values,) in inlined for value in values.values())
            rows = connection.execute("SELECT blob FROM checkpoint_blobs WHERE type = 'agentos-text'").fetchall()
            kept = [zlib.decompress(blob).decode("utf-8", "surrogatepass") for (blob,) in rows]
            assert sorted(kept) == sorted(["begin\0", HOSTILE])
