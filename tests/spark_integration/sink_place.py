"""Sinks as processes, what they have committed, and queries that send to them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from connectors.sink.file_sink import committed_pieces
from spark_integration.pipelines.service_process import ServiceProcess
from tests.spark_integration.drive_sink import SinkQuery, SinkSpecification
from tests.spark_integration.sink_driver import run_sink_driver, write_inputs
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(slots=True, kw_only=True)
class SinkPlace:
    """Sinks by name, and what they have committed."""

    folder: Path
    stack: ExitStack
    ports: dict[str, int]
    sinks: dict[str, ServiceProcess]

    def connect(self, *names: str) -> str:
        return ",".join(f"127.0.0.1:{self.ports.setdefault(name, free_port())}" for name in names)

    def serve(self, name: str, *more: str) -> None:
        """From now on, until it is stopped."""
        files = ["--out", str(self.folder / f"{name}.out"), "--log", str(self.folder / f"{name}.jsonl")]
        command = [sys.executable, "-m", "connectors", "receive", *files, *more]
        address = self.connect(name)
        self.sinks[name] = ServiceProcess.start(command, self.folder / f"{name}.log", listen=address)
        self.stack.callback(self.sinks[name].stop)

    def committed(self, name: str) -> bytes:
        return b"".join(committed_pieces(self.folder / f"{name}.out", self.folder / f"{name}.jsonl"))


def as_lines(rows: Sequence[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def all_rows(files: Sequence[Sequence[str]]) -> list[str]:
    return [row for file in files for row in file]


def sink_query(name: str, folder: Path, connect: str, *, select: str = "value", **options: str) -> SinkQuery:
    location = f"sos://payments/{name}"
    return SinkQuery(
        name=name,
        input=str(folder / name),
        select=select.split("; "),
        options={"connect": connect, "checkpointLocation": location, **options},
    )


def check_with_relay_beside_driver(folder: Path, environment: dict[str, str] | None = None) -> None:
    """Three kinds of queries, and nothing but the helper to start what they need."""
    write_inputs(folder / "plain", [["ä 0", "b 1"], [], ["c 2"]])
    write_inputs(folder / "ordered", [[f"x {n}" for n in range(200)]])
    write_inputs(folder / "counted", [["a", "b", "a"], ["a"]])
    with ExitStack() as stack:
        place = SinkPlace(folder=folder, stack=stack, ports={}, sinks={})
        for name in ("plain", "ordered", "counted"):
            place.serve(name)
        ordered = sink_query("ordered", folder, place.connect("ordered"), order="sequence")
        select = ["value", "bigint(split(value, ' ')[1]) AS sequence"]
        counted = sink_query("counted", folder, place.connect("counted"), select="concat(grouped, ' ', count) AS value")
        queries = [
            sink_query("plain", folder, place.connect("plain")),
            replace(ordered, select=select, partitions=3),
            replace(counted, group_by="value", output_mode="update"),
        ]
        specification = SinkSpecification(service=None, local=str(folder / "spark"), queries=queries)
        reasons = run_sink_driver(folder, specification, environment)
        assert reasons == dict.fromkeys(reasons), reasons
        assert place.committed("plain").decode() == "ä 0\nb 1\nc 2\n"
        assert place.committed("ordered") == as_lines([f"x {n}" for n in range(200)])
        first, second, last = place.committed("counted").decode().splitlines()
        assert {first, second} == {"a 2", "b 1"}
        assert last == "a 3"
