"""Rows of streaming queries at real sinks, by way of a real relay: each once, in order, whatever the query's tasks do.

Two lives of one driver. What ends a query in the first one is mended before the second one, which goes on with it.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from sos_client.wire.checksum import crc32c
from spark_integration.pipelines.service_process import ServiceProcess, real_service
from tests.spark_integration.drive_sink import SinkSpecification
from tests.spark_integration.sink_driver import run_sink_driver, write_inputs
from tests.spark_integration.sink_place import SinkPlace, all_rows, as_lines, check_with_relay_beside_driver, sink_query

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
_LARGE: Final = [f"{number} ü" for number in range(300_000)]
_TEXTS: Final[tuple[list[str], ...]] = (["ä", "日本", "x" * 70_000], [], ["one"], _LARGE, ["after"])
_NUMBERED: Final = tuple([f"k{7 * n % 100} {n}" for n in range(batch * 500, batch * 500 + 500)] for batch in range(3))
_BINARY: Final = ([b"\n\x00\xff".hex(), b"\r\n".hex()], [bytes(range(256)).hex()])
_POISONED: Final = (["fine"], ["poison", "and more"], ["fine again"])
_ABORTS: Final = '("stream-content", 1, "poison")\n'


def test_each_row_once_and_in_order(tmp_path: Path) -> None:
    inputs = {"texts": _TEXTS, "numbered": _NUMBERED, "binary": _BINARY, "retried": _NUMBERED, "poisoned": _POISONED}
    for name, files in inputs.items():
        write_inputs(tmp_path / name, files)
    write_inputs(tmp_path / "away", [["waits"]])
    numbered = ["value", "split(value, ' ')[0] AS key", "bigint(split(value, ' ')[1]) AS sequence"]
    (tmp_path / "rules").write_text(_ABORTS)
    with real_service(tmp_path, "payments") as service, ExitStack() as stack:
        place = SinkPlace(folder=tmp_path, stack=stack, ports={}, sinks={})
        command = [sys.executable, "-m", "connectors", "relay", "--service", service.address]
        relay = ServiceProcess.start([*command, "--spool", str(tmp_path / "spool")], tmp_path / "relay.log")
        stack.callback(relay.stop)
        for name in ("texts", "numbered0", "numbered1", "numbered2", "binary", "retried"):
            place.serve(name)
        place.serve("poisoned", "--rules", str(tmp_path / "rules"))
        away = place.connect("away")
        numbered_sinks = place.connect("numbered0", "numbered1", "numbered2")
        poisoned = place.connect("poisoned")
        queries = [
            sink_query("texts", tmp_path, place.connect("texts")),
            replace(
                sink_query("numbered", tmp_path, numbered_sinks, order="sequence"),
                select=numbered,
                partitions=4,
            ),
            sink_query("binary", tmp_path, place.connect("binary"), select="unhex(value) AS value"),
            replace(sink_query("retried", tmp_path, place.connect("retried")), fails_first=True),
            sink_query("poisoned", tmp_path, poisoned, attempts="2"),
            sink_query("away", tmp_path, away, timeout="12"),
        ]
        specification = SinkSpecification(
            service=service.address,
            local=str(tmp_path / "spark"),
            master="local[2,3]",
            queries=queries,
            settings={"spark.hadoop.fs.sos.relay": relay.address},
        )
        reasons = run_sink_driver(tmp_path, specification)
        for name in ("texts", "numbered", "binary", "retried"):
            assert reasons[name] is None, reasons[name]
        refused, waited = reasons["poisoned"] or "", reasons["away"] or ""
        assert f"{poisoned}" in refused, refused
        assert "abort" in refused
        assert "is not committed after 1" in waited, waited
        assert away in waited
        assert place.committed("poisoned") == b"fine\n"
        place.sinks["poisoned"].stop()
        place.serve("poisoned")
        place.serve("away")
        again = run_sink_driver(tmp_path, specification)
        assert again == dict.fromkeys(again), again
        assert place.committed("away") == b"waits\n"
        assert place.committed("poisoned") == as_lines(all_rows(_POISONED))
        assert place.committed("texts") == as_lines(all_rows(_TEXTS))
        assert place.committed("retried") == as_lines(all_rows(_NUMBERED))
        assert place.committed("binary") == b"".join(bytes.fromhex(row) + b"\n" for row in all_rows(_BINARY))
        for number in range(3):
            share = [row for row in all_rows(_NUMBERED) if crc32c(row.split(" ")[0].encode()) % 3 == number]
            assert share
            assert place.committed(f"numbered{number}") == as_lines(share)


def test_a_checkpoint_that_was_put_back_by_one_batch(tmp_path: Path) -> None:
    """Its last batch is planned again. It is refused, and not taken for the one that the sink has; a fork goes on.

    The fork has the query's id, a sink of its own, and the same relay, which has both of them open.
    """
    write_inputs(tmp_path / "lines", [["a"], ["b"]])
    with real_service(tmp_path, "payments") as service, ExitStack() as stack:
        place = SinkPlace(folder=tmp_path, stack=stack, ports={}, sinks={})
        command = [sys.executable, "-m", "connectors", "relay", "--service", service.address]
        relay = ServiceProcess.start([*command, "--spool", str(tmp_path / "spool")], tmp_path / "relay.log")
        stack.callback(relay.stop)
        place.serve("lines")
        specification = SinkSpecification(
            service=service.address,
            local=str(tmp_path / "spark"),
            queries=[sink_query("lines", tmp_path, place.connect("lines"))],
            settings={"spark.hadoop.fs.sos.relay": relay.address},
        )
        assert run_sink_driver(tmp_path, specification) == {"lines": None}
        fork = ["fork", "sos://payments/lines", "sos://payments/fork", "--at", "batch:0", "--service", service.address]
        subprocess.run([sys.executable, "-m", "journal", *fork], check=True, timeout=600)
        place.serve("fork")
        forked = replace(sink_query("fork", tmp_path, place.connect("fork")), input=str(tmp_path / "lines"))
        rewind = ["rewind", "sos://payments/lines", "--to", "batch:0", "--apply", "--yes", "--service", service.address]
        subprocess.run([sys.executable, "-m", "journal", *rewind], check=True, timeout=600)
        both = replace(specification, queries=[*specification.queries, forked])
        reasons = run_sink_driver(tmp_path, both)
        reason = reasons["lines"] or ""
        assert "the sinks have another batch 1: the checkpoint was put back" in reason, reason
        assert place.committed("lines") == b"a\nb\n"
        assert reasons["fork"] is None, reasons["fork"]
        assert place.committed("fork") == b"b\n"


def test_relay_is_started_beside_the_driver_by_the_first_sink(tmp_path: Path) -> None:
    check_with_relay_beside_driver(tmp_path)
