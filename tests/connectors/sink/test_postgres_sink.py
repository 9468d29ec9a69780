"""The four functions of a sink of PostgreSQL, called directly, with a real database."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from connectors.sink import postgres_sink
from connectors.sink.postgres_sink import PostgresSink
from connectors.sink.sink_history import SinkTransaction
from connectors.sink.sink_log import SinkLog
from connectors.sink.sink_rows import SinkRow
from connectors.sink.transactions import SinkUnavailableError
from sos_client.settings import SettingsError
from tests.connectors.sink.postgres_server import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.connectors.sink.postgres_server import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with postgres_server(tmp_path_factory.mktemp("database") / "postgres") as server:
        yield server


def sink_of(server: PostgresServer, log: Path, table: str, **more: Any) -> PostgresSink:
    given: dict[str, Any] = {"name": table, "is_json": False, "create": True, "say": lambda _: None} | more
    return PostgresSink(server.dsn, table=table, history=SinkLog(log).history, **given)


def rows(*payloads: bytes) -> list[SinkRow]:
    return [SinkRow(0, b"", payload) for payload in payloads]


def transaction(name: str, count: int = 1) -> SinkTransaction:
    return SinkTransaction(id=name, first=0, after=count, first_row=0, rows=count)


NOTHING = SinkTransaction(id="", first=0, after=0, first_row=0, rows=0)


def test_a_name_belongs_to_one_log(server: PostgresServer, tmp_path: Path) -> None:
    first = sink_of(server, tmp_path / "a", "one")
    first.receive(rows(b"a"))
    assert first.prepare(transaction("q:0:1.1"))
    with pytest.raises(SettingsError, match=r"another sink by the name 'one', .* WHERE name = 'one'"):
        sink_of(server, tmp_path / "b", "one")
    second = sink_of(server, tmp_path / "b", "one", name="two")
    second.abort(NOTHING)
    sink_of(server, tmp_path / "a", "one").commit(transaction("q:0:1.1"))
    assert server.ask("SELECT value FROM one") == [("a",)]
    assert server.ask("SELECT name, transaction, rows FROM sos_sinks WHERE name IN ('one', 'two') ORDER BY name") == [
        ("one", "q:0:1.1", 1),
        ("two", "", 0),
    ]


def test_what_others_have_locked_is_not_waited_for_without_end(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_sink, "LOCK_SECONDS", 1)
    sink = sink_of(server, tmp_path / "log", "locked")
    with psycopg.connect(server.dsn) as other:
        other.execute("LOCK TABLE locked")
        with pytest.raises(SinkUnavailableError, match="lock timeout"):
            sink.receive(rows(b"a"))
    sink.abort(NOTHING)
    sink.receive(rows(b"b"))
    assert sink.prepare(transaction("q:0:1.1"))


def test_a_machine_that_is_gone_is_noticed_and_the_dsn_goes_before_the_defaults(
    server: PostgresServer, tmp_path: Path
) -> None:
    sink = PostgresSink(
        f"{server.dsn} keepalives_idle=7 options='-c lock_timeout=3s'",
        table="parameters",
        name="parameters",
        history=SinkLog(tmp_path / "log").history,
        is_json=False,
        create=True,
        say=lambda _: None,
    )
    connection = sink._connected()
    parameters = connection.info.get_parameters()
    assert (parameters["keepalives_idle"], parameters["keepalives_interval"]) == ("7", "10")
    assert (parameters["keepalives_count"], parameters["tcp_user_timeout"]) == ("3", "60000")
    assert connection.execute("SHOW lock_timeout").fetchone() == ("3s",)


def test_columns_that_an_object_does_not_name_have_their_defaults(server: PostgresServer, tmp_path: Path) -> None:
    server.ask(
        "CREATE TABLE visits (number int GENERATED ALWAYS AS IDENTITY, who text DEFAULT 'nobody', "
        "n numeric, twice numeric GENERATED ALWAYS AS (n * 2) STORED)"
    )
    sink = sink_of(server, tmp_path / "log", "visits", is_json=True)
    objects = (b'{"n": 1, "more": 0}', b'{"n": 2, "who": null}', b'{"who": "b", "n": 3}', b'{"n": 4}')
    sink.receive(rows(*objects))
    assert sink.prepare(transaction("q:0:1.1", 4))
    sink.commit(transaction("q:0:1.1", 4))
    server.ask("ALTER TABLE visits ADD COLUMN more int DEFAULT 7")
    sink.receive(rows(b'{"n": 5, "more": 1}', b'{"n": %s}' % (b"9" * 5000)))
    assert sink.prepare(transaction("q:1:1.1", 2))
    sink.commit(transaction("q:1:1.1", 2))
    found = server.ask("SELECT number, who, twice::int, more FROM visits WHERE n < 9 ORDER BY number")
    assert found == [
        (1, "nobody", 2, 7),
        (2, None, 4, 7),
        (3, "b", 6, 7),
        (4, "nobody", 8, 7),
        (5, "nobody", 10, 1),
    ]
    for wrong in (b"[" * 100_000, b"7", b"[]", b"nothing", b'{"n": NaN}', b'{"n": "x"}'):
        sink.receive(rows(*objects, wrong, *objects))
        assert not sink.prepare(transaction("q:2:1.1", 9)), wrong


def test_rows_beyond_a_limit_of_the_database_are_refused(server: PostgresServer, tmp_path: Path) -> None:
    sink = sink_of(server, tmp_path / "log", "indexed")
    server.ask("CREATE INDEX ON indexed (value)")
    sink.receive(rows(random.Random(1).randbytes(8000).hex().encode()))  # 54000
    assert not sink.prepare(transaction("q:0:1.1"))
    server.ask(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NEW; END';"
        "CREATE TRIGGER slow BEFORE INSERT ON indexed FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    sink._connected().execute("SET statement_timeout = 100")
    sink._connected().commit()
    sink.receive(rows(b"a"))  # 57014
    assert not sink.prepare(transaction("q:1:1.1"))
    server.ask("DROP TRIGGER slow ON indexed")
    sink.receive(rows(b"b"))
    assert sink.prepare(transaction("q:2:1.1"))


def test_a_database_that_is_away_at_the_start_is_waited_for(server: PostgresServer, tmp_path: Path) -> None:
    said: list[str] = []
    server.kill()
    try:
        sink = sink_of(server, tmp_path / "log", "later", say=said.append)
        without = sink_of(server, tmp_path / "without", "nowhere", create=False)
        with pytest.raises(SinkUnavailableError, match="Connection refused"):
            sink.abort(NOTHING)
    finally:
        server.start()
    assert "waiting for the database" in said[0]
    sink.abort(NOTHING)
    sink.receive(rows(b"a"))
    assert sink.prepare(transaction("q:0:1.1"))
    for _ in range(2):
        with pytest.raises(SinkUnavailableError, match='relation "nowhere" does not exist'):
            without.abort(NOTHING)
    server.ask("CREATE TABLE nowhere (value text)")
    without.abort(NOTHING)
