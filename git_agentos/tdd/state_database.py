"""Where the graph's state is kept: the workflow database of a worktree, or one PostgreSQL for a fleet.

    AGENTOS_WORKFLOW_DB=postgresql://…   LangGraph's own tables in that database (extra `postgres`)
    otherwise                            the same in the SQLite file that log and memory are in (`store.database_path`)

Whoever can write there is not trusted: what is kept is signed (`signed`), a row is read as plain values and LangGraph's
own few types, and nothing is imported on its word. Text that neither database takes (names that are not UTF-8, NUL) is
kept all the same, and no message has a password in it.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from git_agentos.errors import DatabaseError, TddError
from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.store import database, database_path
from git_agentos.tdd import state_copies
from git_agentos.tdd.signed_rows import Signed, Unreadable, Vouched

if TYPE_CHECKING:
    import psycopg
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from psycopg.rows import DictRow

    Opened = BaseCheckpointSaver[Any]

_CONNECT = 10  # seconds, where the URL does not say
_PATIENCE = 60.0  # seconds, while another process makes the tables
_IDLE = 30.0  # seconds after which a connection may have been cut by what lies between
_TURN = 0x6167656E746F73  # the advisory lock of whoever makes the tables
_SMALL = 1 << 10
# What reading may end in: whoever can write to the database chose what is read.
_UNREADABLE = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, ImportError, EOFError,
    MemoryError, zlib.error,
)  # fmt: skip
_PLAIN, _PACKED, _TEXT, _SIGNED = "agentos-json", "agentos-json-zlib", "agentos-text", "agentos-signed"


def place(location: Location, environment: Mapping[str, str], *, make: bool = True) -> str:
    """Where the state is kept for whoever stands in `location`: the path of a file, or a URL (a password may be in it).
    The folder for the file is made, unless `make` is False. WorkflowConfigurationError where there is no place."""
    value = environment.get(database_path.VARIABLE, "").strip()
    if database_path.is_url(value):
        return value
    return database_path.prepare(location, value) if make else database_path.check(location, value)


def exists(where: str) -> bool:
    """Whether there may be something at a place: what is behind a URL is only known once it is opened."""
    return database_path.is_url(where) or os.path.isfile(where)


@contextlib.contextmanager
def opened(where: str, copied: Location | None = None) -> Iterator[BaseCheckpointSaver[Any]]:
    """The saver for a place, ready for use; any number of processes may have one at once. What is written to a
    worktree's own file is copied to the repository `copied`.

    TddError where what it needs is not installed; DatabaseError where the database cannot be used, now or later.
    """
    own = (
        os.path.split(where)[1] == database_path.NAME
        and os.path.basename(os.path.dirname(where)) == database_path.FOLDER
    )
    with _postgres(where) if database_path.is_url(where) else _sqlite(where, copied if own else None) as saver:
        yield saver


def trusting(opened: Opened) -> Opened:
    """The same saver for looking at what another user has written, which nothing vouches for here."""
    found: Any = copy.copy(opened)
    found.is_trusting = True
    return found  # type: ignore[no-any-return]  # a copy of the same type


def missing(extra: str, error: ImportError) -> TddError:
    """What is to be said where an extra is not installed."""
    what = {"tdd": "LangGraph", "postgres": "LangGraph's saver for PostgreSQL"}[extra]
    return TddError(f"{what} cannot be loaded: {error}", f"pip install 'git-agentos[{extra}]' installs it")


# -- SQLite ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sqlite(path: str, copied: Location | None) -> Iterator[BaseCheckpointSaver[Any]]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError as error:
        raise missing("tdd", error) from error

    if os.path.basename(os.path.dirname(path)) == database_path.FOLDER:
        database_path.refuse_links(path)

    class Saver(Signed, SqliteSaver):
        """The same, signed, and copied."""

        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            done = super().put(config, checkpoint, metadata, new_versions)
            self._copy(config)
            return done

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, writes, task_id, task_path)
            self._copy(config)

        def delete_thread(self, thread_id: str) -> None:
            super().delete_thread(thread_id)
            if copied is not None:
                state_copies.drop(copied, str(thread_id))

        def _copy(self, config: Any) -> None:
            if copied is not None:
                with self.lock:
                    state_copies.save(copied, self.conn, str(config["configurable"]["thread_id"]), path)

        def first_metadata(self) -> Iterator[tuple[str, str, bytes | str | None]]:
            """The id, the first checkpoint's id and its metadata of every thread."""
            with self.cursor(transaction=False) as cursor:
                columns = "thread_id, min(checkpoint_id), metadata"
                yield from cursor.execute(f"SELECT {columns} FROM checkpoints GROUP BY thread_id").fetchall()

    with database.opened(path, across_threads=True) as found:
        saver = Saver(found.connection, serde=_serializer(), user_key=signing.key(process.environment()))
        saver.setup()
        yield saver


# -- PostgreSQL ------------------------------------------------------------------------------------------------------


class _Server(NamedTuple):
    """How the database is reached, and how it is called where people read it: without the password."""

    parameters: dict[str, Any]
    name: str

    @classmethod
    def of(cls, url: str) -> _Server:
        """What a URL means; DatabaseError, which does not repeat it, where that is nothing."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        found: dict[str, Any] = {}
        with contextlib.suppress(psycopg.Error, ValueError):
            found = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
        host, port = str(found.get("host", "")), str(found.get("port", ""))
        # Otherwise a part of a password that was not escaped is taken for one of these, and shown.
        if not found or "@" in host or not all(each.isdigit() for each in port.split(",") if each):
            raise DatabaseError(
                f"the value of {database_path.VARIABLE} cannot be read as the URL of a database",
                "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with '%40' for an '@' in the password",
            )
        user = f"{found['user']}@" if "user" in found else ""
        name = f"postgresql://{user}{host}{port and ':'}{port}/{found.get('dbname', '')}"
        return cls({"connect_timeout": _CONNECT, "application_name": "git-agentos", **found}, name)

    def connect(self) -> psycopg.Connection[DictRow]:
        """A new connection: each statement is a transaction of its own, and none is prepared (poolers lose those)."""
        import psycopg
        from psycopg.rows import dict_row

        with self.telling():
            return psycopg.connect(**self.parameters, autocommit=True, prepare_threshold=None, row_factory=dict_row)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            said = " ".join(str(error).split())
            hint = "check that the server runs and can be reached from here"
            if "password" in said or "authentication" in said or "role " in said:
                hint = f"give USER:PASSWORD in {database_path.VARIABLE}, or the password in ~/.pgpass"
            elif error.sqlstate is not None and error.sqlstate.startswith("42"):
                hint = "the user of the database must be allowed to make and to use tables"
            raise DatabaseError(
                f"the workflow database '{self.name}' cannot be used: {self._without_password(said)}", hint
            ) from None

    def _without_password(self, text: str) -> str:
        password = self.parameters.get("password")
        for secret in {password, quote(password, safe="")} if password else ():
            text = text.replace(secret, "…")
        return text


@contextlib.contextmanager
def _postgres(url: str) -> Iterator[BaseCheckpointSaver[Any]]:
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
    except ImportError as error:
        raise missing("postgres", error) from error

    server = _Server.of(url)

    class Texts(PostgresSaver):
        """The same with a connection that is made again where it was cut while an agent took its time, and with every
        text in a row of its own: written when it changes, and free of what `jsonb` does not take."""

        used = time.monotonic()

        @contextlib.contextmanager
        def _cursor(self, *, pipeline: bool = False) -> Iterator[psycopg.Cursor[DictRow]]:
            with self.lock:
                if time.monotonic() - self.used > _IDLE:
                    self.conn = _alive(server, self.conn)
            with super()._cursor(pipeline=pipeline) as cursor:
                yield cursor
            self.used = time.monotonic()

        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            values = {
                key: _Text(value) if type(value) is str else value
                for key, value in checkpoint["channel_values"].items()
            }
            kept = {**checkpoint, "channel_values": values}
            return super().put(config, kept, metadata, new_versions)  # type: ignore[arg-type]  # one with another value

    class Saver(Signed, Texts):
        """The same, signed."""

    saver = Saver(server.connect(), serde=_serializer(), user_key=signing.key(process.environment()))
    try:
        with server.telling():
            _set_up(server, saver)
            yield saver
    finally:
        with contextlib.suppress(Exception):
            saver.conn.close()


def _alive(server: _Server, connection: Any) -> psycopg.Connection[DictRow]:
    """The connection, or a new one where it has been cut."""
    import psycopg

    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        connection.close()
        return server.connect()
    return connection  # type: ignore[no-any-return]  # never a pool here


def _set_up(server: _Server, saver: PostgresSaver) -> None:
    """Make the tables, one process at a time.

    Whoever waits does so between statements: an index that is made `CONCURRENTLY` waits for every statement that was
    there before it, and one that waited for the lock would be such.
    """
    connection: Any = saver.conn
    deadline = time.monotonic() + _PATIENCE
    while not _is_set_up(connection, saver):
        if connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (_TURN,)).fetchone()["mine"]:
            try:
                saver.setup()
            finally:
                with contextlib.suppress(Exception):
                    connection.execute("SELECT pg_advisory_unlock(%s)", (_TURN,))
        elif time.monotonic() > deadline:
            raise DatabaseError(
                f"the tables in '{server.name}' are being made by another process, and do not get ready",
                "end what keeps a transaction open in that database, then try again",
            )
        else:
            time.sleep(0.05)


def _is_set_up(connection: Any, saver: PostgresSaver) -> bool:
    if connection.execute("SELECT to_regclass('checkpoint_migrations') AS found").fetchone()["found"] is None:
        return False
    newest = connection.execute("SELECT max(v) AS v FROM checkpoint_migrations").fetchone()["v"]
    return newest is not None and newest >= len(saver.MIGRATIONS) - 1


# -- rows ------------------------------------------------------------------------------------------------------------


class _Text:
    """A text on its way into a row of its own."""

    def __init__(self, text: str) -> None:
        self.text = text


def _serializer() -> SerializerProtocol:
    """JSON where a value is plain, LangGraph's format for the types of its own, and no other type."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    class Serializer(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            if isinstance(obj, Vouched):
                return _SIGNED, obj.to_bytes()
            if isinstance(obj, _Text):
                return _TEXT, zlib.compress(obj.text.encode("utf-8", "surrogatepass"))
            if not _is_plain(obj):
                return super().dumps_typed(obj)
            data = json.dumps(obj).encode("ascii")
            return (_PLAIN, data) if len(data) < _SMALL else (_PACKED, zlib.compress(data))

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            try:
                return self._loaded(*data)
            except _UNREADABLE as error:
                return Unreadable(error)

        def _loaded(self, kind: str, body: bytes) -> Any:
            if kind == _SIGNED:
                mac, inner, rest = Vouched.split(body)
                return Vouched(self._loaded(inner, rest), inner, rest, mac)
            if kind == _TEXT:
                return zlib.decompress(body).decode("utf-8", "surrogatepass")
            if kind in (_PLAIN, _PACKED):
                return json.loads(zlib.decompress(body) if kind == _PACKED else body)
            return super().loads_typed((kind, body))

    return Serializer(allowed_msgpack_modules=None)


def _is_plain(value: Any) -> bool:
    """Whether JSON gives the same back."""
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(each) for key, each in value.items())
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or type(value) in (str, int, float, bool)
