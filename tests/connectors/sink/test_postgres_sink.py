"""The four functions of a sink of PostgreSQL, called directly, with a real database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from connectors.sink.postgres_sink import PostgresSink
from connectors.sink.sink_history import SinkTransaction
from connectors.sink.sink_log import SinkLog
from connectors.sink.sink_session import SinkRow
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
