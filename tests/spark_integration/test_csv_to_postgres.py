"""The example that brings CSV files into a table: killed in the middle and started again, each row is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from spark_integration.pipelines.driver_process import QUICK_START, descendants, wait_until
from tests.connectors.sink.postgres_server import postgres_server
from tests.system.ports import free_port

if TYPE_CHECKING:
    from tests.connectors.sink.postgres_server import PostgresServer

pytestmark = pytest.mark.spark
_SCRIPT: Final = Path(__file__).parents[2] / "examples" / "csv_to_postgres.py"
_SCHEMA: Final = "id bigint, item string, price double"
_FILES: Final = 4
_ROWS: Final = 500


def _start(place: Path, server: PostgresServer, port: int) -> subprocess.Popen[bytes]:
    arguments = [str(place / "incoming"), _SCHEMA, server.dsn, "orders", f"127.0.0.1:{port}"]
    with (place / "example.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(_SCRIPT), *arguments],
            cwd=place,
            stdout=log,
            stderr=log,
            env=os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_SCRIPT.parents[1])},
        )


def _write(folder: Path, number: int) -> None:
    lines = [f'{number * _ROWS + n},"stück ""{n}"", groß",{n / 4}\n' for n in range(_ROWS)]
    (folder / f"{number}.csv").write_text("id,item,price\n" + "".join(lines), encoding="utf-8")


def test_csv_files_are_in_the_table_once(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for number in range(_FILES - 1):
        _write(incoming, number)
    with postgres_server(tmp_path / "postgres") as server:
        server.ask("CREATE TABLE orders (id bigint, item text, price double precision)")
        port = free_port()
        example = _start(tmp_path, server, port)
        wait_until(lambda: bool(list(tmp_path.glob("orders.sos/sink.log"))), seconds=600, what="the sink's log")
        wait_until(lambda: b"prepared" in (tmp_path / "orders.sos" / "sink.log").read_bytes(), seconds=600, what="rows")
        for pid in [example.pid, *descendants(example.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        example.wait()
        _write(incoming, _FILES - 1)
        again = _start(tmp_path, server, port)
        assert again.wait(180) == 0, (tmp_path / "example.log").read_text()[-3000:]
        rows = server.ask("SELECT id, item, price FROM orders ORDER BY id")
        wanted = range(_FILES * _ROWS)
        assert rows == [(n, f'stück "{n % _ROWS}", groß', n % _ROWS / 4) for n in wanted]
        assert server.ask("SELECT * FROM pg_prepared_xacts") == []
