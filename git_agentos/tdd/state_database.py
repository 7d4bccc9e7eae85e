"""The database of the graph's state: the workflow database of a worktree, or one PostgreSQL for a fleet.

    AGENTOS_WORKFLOW_DB=postgresql://…   LangGraph's own tables in that database (extra `postgres`)
    otherwise                            the same in the SQLite file that has log and memory (`store.location`)

Other writers are not trusted: rows are signed (`signed_rows`) and read as plain values and LangGraph's own few
types, and they never cause an import. Text that neither database takes (names that are not UTF-8, NUL) is kept all the
same, and no message contains a password.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from git_agentos.errors import DatabaseError, TddError
from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.store import database, database_path
from git_agentos.tdd import state_copies
from git_agentos.tdd.signed_rows import Signed, SignedValue, Unreadable
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    import psycopg
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from psycopg.rows import DictRow

    Checkpointer = BaseCheckpointSaver[Any]

DATABASE_FILE = "tdd.json"  # in the evidence of a workflow's run: the file that has its state

_CONNECT_TIMEOUT = 10  # seconds, unless the URL names another
_SETUP_TIMEOUT = 60.0  # seconds, while another process creates the tables
_IDLE = 30.0  # seconds after which something on the way may have cut a connection
_SETUP_LOCK_ID = 0x6167656E746F73  # of the advisory lock for creating the tables
_MIN_COMPRESSED = 1 << 10
# What reading a row may raise: its content may come from any process that can write to the database.
_READ_ERRORS = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, ImportError, EOFError,
    MemoryError, zlib.error,
)  # fmt: skip
_JSON, _COMPRESSED, _TEXT, _SIGNED = "agentos-json", "agentos-json-zlib", "agentos-text", "agentos-signed"


def location_of(location: Location, environment: Mapping[str, str], *, make: bool = True) -> str:
    """The database for the worktree at `location`: the path of a file, or a URL (which may contain a password). The
    folder of the file is created, unless `make` is False. WorkflowConfigurationError if there can be none."""
    value = environment.get(database_path.VARIABLE, "").strip()
    if database_path.is_url(value):
        return value
    return database_path.prepare(location, value) if make else database_path.check(location, value)


def exists(database: str) -> bool:
    """Whether a database may exist: of a URL that is only known once it is opened."""
    return database_path.is_url(database) or os.path.isfile(database)


def may_be_shared(database: str) -> bool:
    """Whether other clones may have workflows in a database: it is not a worktree's own file."""
    folder, name = os.path.split(database)
    return name != database_path.NAME or os.path.basename(folder) != database_path.FOLDER


@contextlib.contextmanager
def open_checkpointer(database: str, copied: Location | None = None) -> Iterator[Checkpointer]:
    """The checkpointer of a database, ready for use; any number of processes may have one at once. Rows that are
    written to a worktree's own file are copied to the repository `copied`.

    TddError if a library is not installed; DatabaseError if the database cannot be used, now or later.
    """
    is_shared = may_be_shared(database)
    opening = (
        _postgres(database) if database_path.is_url(database) else _sqlite(database, None if is_shared else copied)
    )
    with opening as checkpointer:
        yield checkpointer


def trusting(checkpointer: Checkpointer) -> Checkpointer:
    """The same checkpointer for showing what another user has written, whose signatures cannot be verified here."""
    found: Any = copy.copy(checkpointer)
    found.is_trusting = True
    return found  # type: ignore[no-any-return]  # a copy of the same type


def missing_extra(extra: str, error: ImportError) -> TddError:
    """The error for an extra that is not installed."""
    what = {"tdd": "LangGraph", "postgres": "LangGraph's saver for PostgreSQL"}[extra]
    return TddError(f"{what} cannot be loaded: {error}", f"pip install 'git-agentos[{extra}]' installs it")


# -- SQLite ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sqlite(path: str, copied: Location | None) -> Iterator[Checkpointer]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError as error:
        raise missing_extra("tdd", error) from error

    if os.path.basename(os.path.dirname(path)) == database_path.FOLDER:
        database_path.refuse_links(path)

    class Saver(Signed, SqliteSaver):
        """LangGraph's, with rows that are signed and copied."""

        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            written = super().put(config, checkpoint, metadata, new_versions)
            self.copy_rows(config)
            return written

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, writes, task_id, task_path)
            self.copy_rows(config)

        def delete_thread(self, thread_id: str) -> None:
            super().delete_thread(thread_id)
            if copied is not None:
                state_copies.delete(copied, str(thread_id))

        def copy_rows(self, config: Any) -> None:
            if copied is not None:
                with self.lock:
                    state_copies.save(copied, self.conn, str(config["configurable"]["thread_id"]), path)

        def first_metadata(self) -> Iterator[tuple[str, str, bytes | str | None]]:
            """The id, the first checkpoint's id and its metadata of every thread."""
            with self.cursor(transaction=False) as cursor:
                columns = "thread_id, min(checkpoint_id), metadata"
                yield from cursor.execute(f"SELECT {columns} FROM checkpoints GROUP BY thread_id").fetchall()

    with database.opened(path, across_threads=True) as opened:
        saver = Saver(opened.connection, serde=serializer(), user_key=signing.key(process.environment()))
        saver.setup()
        yield saver


# -- PostgreSQL ------------------------------------------------------------------------------------------------------


class _Server(NamedTuple):
    """How a database is reached, and its name in messages: without the password."""

    parameters: dict[str, Any]
    name: str

    @classmethod
    def parse(cls, url: str) -> _Server:
        """The server of a URL; DatabaseError, which does not repeat it, if it is malformed."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        found: dict[str, Any] = {}
        with contextlib.suppress(psycopg.Error, ValueError):
            found = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
        host, port = str(found.get("host", "")), str(found.get("port", ""))
        # Otherwise a part of a password that was not escaped would be taken for one of these, and shown.
        if not found or "@" in host or not all(each.isdigit() for each in port.split(",") if each):
            raise DatabaseError(
                f"the value of {database_path.VARIABLE} cannot be read as the URL of a database",
                "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with '%40' for an '@' in the password",
            )
        user = f"{found['user']}@" if "user" in found else ""
        name = f"postgresql://{user}{host}{port and ':'}{port}/{found.get('dbname', '')}"
        return cls({"connect_timeout": _CONNECT_TIMEOUT, "application_name": "git-agentos", **found}, name)

    def connect(self) -> psycopg.Connection[DictRow]:
        """A new connection: each statement is a transaction of its own, and none is prepared (poolers lose those)."""
        import psycopg
        from psycopg.rows import dict_row

        with self.converted_errors():
            return psycopg.connect(**self.parameters, autocommit=True, prepare_threshold=None, row_factory=dict_row)

    @contextlib.contextmanager
    def converted_errors(self) -> Iterator[None]:
        """Convert the driver's errors to ours."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            text = " ".join(str(error).split())
            hint = "check that the server runs and can be reached from here"
            if "password" in text or "authentication" in text or "role " in text:
                hint = f"give USER:PASSWORD in {database_path.VARIABLE}, or the password in ~/.pgpass"
            elif error.sqlstate is not None and error.sqlstate.startswith("42"):
                hint = "the user of the database must be allowed to create and to use tables"
            raise DatabaseError(
                f"the workflow database '{self.name}' cannot be used: {self._without_password(text)}", hint
            ) from None

    def _without_password(self, text: str) -> str:
        password = self.parameters.get("password")
        for secret in {password, quote(password, safe="")} if password else ():
            text = text.replace(secret, "…")
        return text


@contextlib.contextmanager
def _postgres(url: str) -> Iterator[Checkpointer]:
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
    except ImportError as error:
        raise missing_extra("postgres", error) from error

    server = _Server.parse(url)

    class TextSaver(PostgresSaver):
        """LangGraph's, with every text in a row of its own: written only when it changes, and outside of `jsonb`, which
        does not take every text."""

        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            values = {
                key: _Text(value) if type(value) is str else value
                for key, value in checkpoint["channel_values"].items()
            }
            with_texts = {**checkpoint, "channel_values": values}
            return super().put(config, with_texts, metadata, new_versions)  # type: ignore[arg-type]  # other values

    class Saver(Signed, TextSaver):
        """The same, with signed rows, and with a new connection if it was cut while an agent worked."""

        last_use = time.monotonic()

        def prepare_use(self) -> None:
            with self.lock:
                if time.monotonic() - self.last_use > _IDLE:
                    self.conn = _living_connection(server, self.conn)
                self.last_use = time.monotonic()

    saver = Saver(server.connect(), serde=serializer(), user_key=signing.key(process.environment()))
    try:
        with server.converted_errors():
            _create_tables(server, saver)
            yield saver
    finally:
        with contextlib.suppress(Exception):
            saver.conn.close()


def _living_connection(server: _Server, connection: Any) -> psycopg.Connection[DictRow]:
    """The connection, or a new one if it was cut."""
    import psycopg

    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        connection.close()
        return server.connect()
    return connection  # type: ignore[no-any-return]  # never a pool here


def _create_tables(server: _Server, saver: PostgresSaver) -> None:
    """Create the tables, one process at a time.

    The others wait between statements: an index that is created `CONCURRENTLY` waits for every statement that began
    before it, and one that waits for the lock would be such.
    """
    connection: Any = saver.conn
    deadline = time.monotonic() + _SETUP_TIMEOUT
    while not _has_tables(connection, saver):
        if connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (_SETUP_LOCK_ID,)).fetchone()["mine"]:
            try:
                saver.setup()
            finally:
                with contextlib.suppress(Exception):
                    connection.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK_ID,))
        elif time.monotonic() > deadline:
            raise DatabaseError(
                f"another process is creating the tables in '{server.name}', and does not finish",
                "end what keeps a transaction open in that database, then try again",
            )
        else:
            time.sleep(0.05)


def _has_tables(connection: Any, saver: PostgresSaver) -> bool:
    if connection.execute("SELECT to_regclass('checkpoint_migrations') AS found").fetchone()["found"] is None:
        return False
    newest = connection.execute("SELECT max(v) AS v FROM checkpoint_migrations").fetchone()["v"]
    return newest is not None and newest >= len(saver.MIGRATIONS) - 1


# -- rows ------------------------------------------------------------------------------------------------------------


class _Text:
    """A text that is to be written to a row of its own."""

    def __init__(self, text: str) -> None:
        self.text = text


def serializer() -> SerializerProtocol:
    """JSON for plain values, LangGraph's format for its own types, and no other type."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    class Serializer(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            if isinstance(obj, SignedValue):
                return _SIGNED, obj.to_bytes()
            if isinstance(obj, _Text):
                return _TEXT, zlib.compress(obj.text.encode("utf-8", "surrogatepass"))
            if not _is_plain(obj):
                return super().dumps_typed(obj)
            data = json.dumps(obj).encode("ascii")
            return (_JSON, data) if len(data) < _MIN_COMPRESSED else (_COMPRESSED, zlib.compress(data))

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            try:
                return self._load(*data)
            except _READ_ERRORS as error:
                return Unreadable(error)

        def _load(self, kind: str, body: bytes) -> Any:
            if kind == _SIGNED:
                mac, inner, rest = SignedValue.split(body)
                return SignedValue(self._load(inner, rest), inner, rest, mac)
            if kind == _TEXT:
                return zlib.decompress(body).decode("utf-8", "surrogatepass")
            if kind in (_JSON, _COMPRESSED):
                return json.loads(zlib.decompress(body) if kind == _COMPRESSED else body)
            return super().loads_typed((kind, body))

    return Serializer(allowed_msgpack_modules=None)


def _is_plain(value: Any) -> bool:
    """Whether JSON gives the same value back."""
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(each) for key, each in value.items())
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or type(value) in (str, int, float, bool)
