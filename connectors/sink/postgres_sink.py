"""A sink that is a table of PostgreSQL: each transaction of the relay is one of the database, prepared there.

PREPARE TRANSACTION makes the rows durable and lets COMMIT PREPARED or ROLLBACK PREPARED come from any connection, after
any crash. In the same transaction the sink writes into its own table (`sos_sinks`) which one this is: so a commit that
is asked for again is told apart from one that somebody rolled back by hand.

All calls block. What the database cannot do now closes the relay's connection (SinkUnavailableError), which then comes
again; rows that it will never take make the vote an abort.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from connectors.sink.transactions import SinkUnavailableError
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from connectors.sink.sink_history import SinkHistory, SinkTransaction
    from connectors.sink.sink_rows import SinkRow

GID_PREFIX: Final = "sos:"
NAME_BYTES_MAX: Final = 60
_BOOK: Final = (
    "CREATE TABLE IF NOT EXISTS sos_sinks "
    "(name text PRIMARY KEY, id text NOT NULL, transaction text NOT NULL, rows bigint NOT NULL)"
)
_REGISTER: Final = (
    "INSERT INTO sos_sinks (name, id, transaction, rows) VALUES (%s, %s, '', 0) ON CONFLICT (name) DO NOTHING"
)
_BOUND_LOCKS: Final = "SELECT set_config('lock_timeout', %s, false) WHERE current_setting('lock_timeout') = '0'"
_NOTE: Final = "UPDATE sos_sinks SET transaction = %s, rows = %s WHERE name = %s AND id = %s"
_LONG_SECONDS: Final = 60
LOCK_SECONDS: Final = 60
"""How long one statement waits for what others have locked, unless the database or the role says otherwise."""
_DEAD_PEER: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""After about a minute a machine that says nothing any more is given up; what --dsn says goes before this."""
_NOT_NOW: Final = (psycopg.OperationalError, psycopg.InterfaceError)
"""The connection is gone, the server starts or stops, too many are connected: not about the rows."""


class PostgresSink:
    """The four functions of a sink. `say` is told what an operator should know."""

    def __init__(
        self,
        dsn: str,
        *,
        table: str,
        name: str,
        history: SinkHistory,
        is_json: bool,
        create: bool,
        say: Callable[[str], None],
    ) -> None:
        """SettingsError when the database or the table cannot be used like this.

        A database that is away now is looked at when a relay connects.
        """
        if len(name.encode()) > NAME_BYTES_MAX or ":" in name:
            raise SettingsError(f"the sink's name {name!r} has more than {NAME_BYTES_MAX} bytes, or a colon")
        self._dsn = dsn
        self._table_name = table
        self._create = create
        self._is_checked = False
        self._table = sql.Identifier(*table.split("."))
        self._name = name
        self._history = history
        self._is_json = is_json
        self._say = say
        self._refused = ""
        self._received = 0  # into the transaction that is open
        self._named: set[str] = set()
        self._connection: psycopg.Connection | None = None
        self._columns: list[str] = []
        try:
            with self._now():
                self._check_once()
        except SinkUnavailableError as error:
            say(f"{error}; waiting for the database")

    # ── the four functions ────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, rows: Sequence[SinkRow]) -> None:
        """Into the open transaction."""
        if self._refused:
            return
        try:
            if self._is_json:
                self._insert_json(rows)
            else:
                self._copy(rows)
        except (psycopg.Error, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no JSON
            self._refuse(error)
        self._received += len(rows)

    def prepare(self, transaction: SinkTransaction) -> bool:
        """PREPARE TRANSACTION. False when the database does not take the rows."""
        try:
            if not self._refused:
                self._prepare(transaction)
        except psycopg.Error as error:
            self._refuse(error)
        if self._refused:
            self._say(f"{transaction.id} is voted to abort: {self._refused}")
            self._refused = ""
            self._roll_back()
            return False
        return True

    def commit(self, transaction: SinkTransaction) -> None:
        """COMMIT PREPARED; done if it was done."""
        with self._now():
            gid = self._gid(transaction.id)
            if gid in self._prepared():
                self._end("COMMIT PREPARED", gid)
            elif self._noted() != transaction.id:
                raise SinkUnavailableError(
                    f"{gid} is to be committed, and is not prepared in the database any more: somebody has rolled it "
                    "back there. Its rows are lost: run the query again with a table that has nothing"
                )

    def abort(self, transaction: SinkTransaction) -> None:
        """ROLLBACK PREPARED of this one; without an id, of all that no vote was given for."""
        self._refused = ""
        with self._now():
            self._roll_back()
            try:
                self._check_once()
            except SettingsError as error:
                raise SinkUnavailableError(str(error)) from error
            held = self._history.held
            kept = self._gid(held.id) if held is not None and not transaction.id else ""
            for gid, seconds in self._prepared().items():
                if gid != kept:
                    self._end("ROLLBACK PREPARED", gid)
                    self._say(f"rolled back {gid}, which was prepared for {seconds:.0f} s")
            if kept:
                self.name_what_waits()

    def name_what_waits(self) -> None:
        """Say which transaction has been prepared for long. Time never ends one: it may have been decided."""
        for gid, seconds in self._prepared().items():
            if seconds > _LONG_SECONDS and gid not in self._named:
                self._named.add(gid)
                self._say(
                    f"{gid} is prepared since {seconds:.0f} s, and its relay has not said how it ends: it locks what "
                    "it wrote, and holds up VACUUM. Start a relay for its query; what was decided stands in the "
                    "decisions beside the query's checkpoint (sos-journal cat)"
                )

    # ── the database ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_once(self) -> None:
        if self._is_checked:
            return
        try:
            self._check()
        except _NOT_NOW:
            raise
        except psycopg.Error as error:
            raise SettingsError(f"PostgreSQL: {_sentence(error)}") from error
        self._is_checked = True

    def _check(self) -> None:
        with self._connected().cursor() as cursor:
            cursor.execute("SHOW max_prepared_transactions")
            row = cursor.fetchone()
            if row is None or int(row[0]) < 1:
                raise SettingsError(
                    "the database prepares no transactions: set max_prepared_transactions in postgresql.conf to at "
                    "least the number of sinks that it has, and start it again"
                )
            cursor.execute(_BOOK)
            if self._create:
                cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} (value text NOT NULL)").format(self._table))
            cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(self._table))
            columns = [column.name for column in cursor.description or ()]
            self._register(cursor)
        self._connected().commit()
        if not self._is_json:
            self._columns = [column for column in ("key", "value") if column in columns]
            if "value" not in self._columns:
                raise SettingsError(
                    f"table {self._table_name} has no column `value` (text or bytea; and `key`, if keys are kept), "
                    "or say --json, for rows that are JSON objects whose fields are its columns"
                )
            self._is_binary = _binary_columns(self._connected(), self._table, self._columns)
            self._connected().commit()

    def _register(self, cursor: psycopg.Cursor) -> None:
        """The name is this log's from now on. What another log's sink has prepared under it is not ours to end.

        Asked first: an INSERT would wait for a prepared transaction that changes the row.
        """
        asked = "SELECT id FROM sos_sinks WHERE name = %s"
        row = cursor.execute(asked, (self._name,)).fetchone()
        if row is None:
            cursor.execute(_REGISTER, (self._name, self._history.id))
            row = cursor.execute(asked, (self._name,)).fetchone()
        if row is None or row[0] != self._history.id:
            raise SettingsError(
                f"the database knows another sink by the name {self._name!r}, with another log: give this one a --name "
                f"of its own. If that one is gone for good, delete its row: DELETE FROM sos_sinks WHERE name = "
                f"{sql.quote(self._name)}"
            )

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(**(_DEAD_PEER | conninfo_to_dict(self._dsn)), autocommit=True)
            self._connection.execute(_BOUND_LOCKS, (f"{LOCK_SECONDS}s",))
            self._connection.autocommit = False
        return self._connection

    def _copy(self, rows: Sequence[SinkRow]) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._columns))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(self._table, columns)
        with self._connected().cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                fields = {"key": row.key or None, "value": row.payload}
                copy.write_row([self._field(column, fields[column]) for column in self._columns])

    def _field(self, column: str, content: bytes | None) -> bytes | str | None:
        return content if content is None or self._is_binary[column] else content.decode()

    def _insert_json(self, rows: Sequence[SinkRow]) -> None:
        """Into the columns that each object names, so that the others have their defaults."""
        connection = self._connected()
        with connection.cursor() as cursor:
            if not self._received:  # locked from here on: no column comes or goes until the transaction ends
                cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(self._table))
                self._columns = [column.name for column in cursor.description or ()]
        texts = [row.payload.decode() for row in rows]
        with connection.pipeline(), connection.cursor() as cursor:
            for columns, alike in itertools.groupby(texts, self._columns_of):
                names = sql.SQL(", ").join(map(sql.Identifier, columns))
                statement = sql.SQL("INSERT INTO {0} ({1}) SELECT {1} FROM json_populate_record(NULL::{0}, %s::json)")
                cursor.executemany(statement.format(self._table, names), [(text,) for text in alike])

    def _columns_of(self, text: str) -> tuple[str, ...]:
        """All, if it names none or is not an object: what becomes of it is for the database to say."""
        found = json.loads(text, parse_int=str)  # as long as they like
        named = tuple(column for column in self._columns if isinstance(found, dict) and column in found)
        return named or tuple(self._columns)

    def _prepare(self, transaction: SinkTransaction) -> None:
        gid = self._gid(transaction.id)
        connection = self._connected()
        if self._received != transaction.rows:
            raise SinkUnavailableError(f"{self._received} of {transaction.rows} rows are in the open transaction")
        with connection.cursor() as cursor:
            cursor.execute(
                _NOTE, (transaction.id, transaction.first_row + transaction.rows, self._name, self._history.id)
            )
            if cursor.rowcount != 1:
                raise SinkUnavailableError(f"the row {self._name!r} of sos_sinks is not this sink's: start it again")
            cursor.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))
        connection.rollback()  # the client's own idea of a transaction: there is none any more
        self._received = 0

    def _prepared(self) -> dict[str, float]:
        """Those of this sink, with how long they have been."""
        with self._connected().cursor() as cursor:
            cursor.execute(
                "SELECT gid, extract(epoch FROM now() - prepared)::float8 FROM pg_prepared_xacts "
                "WHERE starts_with(gid, %s) AND database = current_database()",
                (self._gid(""),),
            )
            found = {str(gid): float(seconds) for gid, seconds in cursor.fetchall()}
        self._connected().rollback()
        return found

    def _noted(self) -> str:
        """The transaction that was committed last."""
        with self._connected().cursor() as cursor:
            cursor.execute(
                "SELECT transaction FROM sos_sinks WHERE name = %s AND id = %s", (self._name, self._history.id)
            )
            row = cursor.fetchone()
        self._connected().rollback()
        return "" if row is None else str(row[0])

    def _end(self, how: str, gid: str) -> None:
        connection = self._connected()
        connection.autocommit = True
        try:
            connection.execute(sql.SQL("{} {}").format(sql.SQL(how), sql.Literal(gid)))
        finally:
            if not connection.closed:
                connection.autocommit = False

    def _roll_back(self) -> None:
        """What is open, if the connection is."""
        self._received = 0
        if self._connection is not None and not self._connection.closed:
            with contextlib.suppress(psycopg.Error):
                self._connection.rollback()

    def _refuse(self, error: Exception) -> None:
        """The rows, unless the error is not about them."""
        if isinstance(error, _NOT_NOW) and not _is_about_rows(error):
            raise self._not_now(error) from error
        self._refused = _sentence(error)
        self._roll_back()

    @contextlib.contextmanager
    def _now(self) -> Iterator[None]:
        try:
            yield
        except _NOT_NOW as error:
            raise self._not_now(error) from error

    def _not_now(self, error: Exception) -> SinkUnavailableError:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        return SinkUnavailableError(f"PostgreSQL: {_sentence(error)}")

    def _gid(self, transaction: str) -> str:
        return f"{GID_PREFIX}{self._name}:{self._history.id}:{transaction}"


def _is_about_rows(error: psycopg.Error) -> bool:
    """Of what psycopg calls operational: a limit of the database, or a statement that took too long for it."""
    state = error.sqlstate or ""
    return state.startswith("54") or state == "57014"


def _binary_columns(connection: psycopg.Connection, table: sql.Identifier, columns: Sequence[str]) -> dict[str, bool]:
    with connection.cursor() as cursor:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        cursor.execute(sql.SQL("SELECT {} FROM {} LIMIT 0").format(names, table))
        return {column.name: column.type_code == psycopg.BINARY for column in cursor.description or ()}


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
