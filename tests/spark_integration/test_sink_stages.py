"""What Spark's sink stages and names as committed, byte by byte, and what it refuses; the relay is in memory."""

from __future__ import annotations

import hashlib
import json
import struct
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio

from connectors.relay.manifest import place_of
from journal.gateway.client.client import open_volume
from tests.spark_integration.drive_sink import SinkQuery, SinkSpecification
from tests.spark_integration.memory_service import memory_service
from tests.spark_integration.sink_driver import run_sink_driver, write_inputs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
_LARGE: Final = "c" * 3_000_000
_FILES: Final[tuple[list[str], ...]] = (["ä", "b", _LARGE], [], ["d"])
"""A batch for each; the second one is empty."""

_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "plain": {"select": ["value"], "options": {"connect": " h:7500, [::1]:7501", "attempts": "7", "cookie": 'a"\\\té'}},
    "ordered": {
        "select": [
            "encode(value, 'utf-8') AS value",
            "nullif(left(value, 1), 'b') AS key",
            "1000L - ascii(value) AS sequence",
        ],
        "options": {"order": "sequence"},
    },
    "counted": {
        "select": ["concat(grouped, ':', count) AS value"],
        "group_by": "length(value)",
        "output_mode": "update",
    },
}
_REFUSED: Final[dict[str, dict[str, Any]]] = {
    "has no option 'colour'; it has connect, relay, order": {"options": {"colour": "blue"}},
    "needs the option connect": {"options": {"connect": ""}},
    "'h' is not HOST:PORT": {"options": {"connect": "h"}},
    "was given h:1 twice": {"options": {"connect": "h:1,h:1"}},
    "knows the orders partition and sequence, not 'time'": {"options": {"order": "time"}},
    "a number from 1 to": {"options": {"timeout": "soon"}},
    "needs a checkpoint on a volume": {"options": {"checkpointLocation": "/tmp/nowhere"}},
    "writes to no path": {"options": {"path": "/tmp/rows"}},
    "needs a column value": {"select": ["value AS key"]},
    "no place for the column more, only for value, key and sequence": {"select": ["value", "1 AS more"]},
    "of type binary or string, not bigint: CAST(value AS STRING)": {"select": ["1L AS value"]},
    "needs a column sequence": {"options": {"order": "sequence"}},
    "takes a column sequence of type bigint, not string": {
        "select": ["value", "value AS sequence"],
        "options": {"order": "sequence"},
    },
    "does not support Complete mode": {**_QUERIES["counted"], "output_mode": "complete"},
    "takes streams (writeStream)": {"is_stream": False},
    "row 1 of partition 0 of batch 0 has no value (it is null); sinks know no such rows, so filter them out": {
        "select": ["string(null) AS value"]
    },
    "has an empty value": {"select": ["'' AS value"]},
    "no sequence, or a negative one": {"select": ["value", "-1L AS sequence"], "options": {"order": "sequence"}},
    "a key of 65536 bytes; at most 65535": {"select": ["value", "repeat('k', 65536) AS key"]},
    "a value of 4190001 bytes; at most 4190000": {"select": ["repeat('v', 4190001) AS value"]},
}


def _query(name: str, folder: str, told: dict[str, Any]) -> SinkQuery:
    options = {"connect": "h:7500", "checkpointLocation": f"sos://payments/{name}", **told.get("options", {})}
    if not told.get("is_stream", True):
        del options["checkpointLocation"]
    return SinkQuery(name=name, input=folder, **{"select": ["value"], **told, "options": options})


def _read_rows(content: bytes) -> list[tuple[int | None, bytes | None, bytes]]:
    """A staged file, as connectors/relay/STAGING.md has it: sequence, key, value."""
    version, columns = content[:2]
    assert version == 1
    at, rows = 2, []

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        assert at <= len(content)
        return content[at - size : at]

    def sized() -> bytes | None:
        (size,) = struct.unpack(">I", take(4))
        return None if size == 0xFFFFFFFF else take(size)

    while at < len(content):
        sequence = struct.unpack(">Q", take(8))[0] if columns & 2 else None
        key = sized() if columns & 1 else None
        value = sized()
        assert value is not None
        rows.append((sequence, key, value))
    return rows


async def _files(service: str, name: str) -> dict[str, bytes]:
    found, folders = {}, [""]
    async with open_volume([service], name) as volume:
        while folders:
            for entry in (await volume.list(folders.pop())).entries:
                if entry.is_directory:
                    folders.append(entry.path)
                    continue
                async with aclosing(volume.read(entry.path)) as pieces:
                    found[entry.path] = b"".join([bytes(piece) async for piece in pieces])
    return found


def _committed(files: dict[str, bytes], name: str) -> list[tuple[dict[str, Any], list[Any]]]:
    """By batch: the manifest, and the rows of the parts that it names."""
    manifests = [json.loads(content) for path, content in files.items() if path.startswith("commits/")]
    own = [each for each in manifests if each["checkpoint"] == f"sos://payments/{name}"]
    batches = []
    for manifest in sorted(own, key=lambda each: each["batch"]):
        place = place_of(manifest["query"], manifest["checkpoint"])
        assert f"commits/{place}/{manifest['batch']}" in files
        rows = []
        for part, count, size in manifest["parts"]:
            content = files[f"staged/{place}/{manifest['batch']}/{manifest['run']}/{part}"]
            of_part = _read_rows(content)
            assert (len(of_part), len(content)) == (count, size)
            rows += of_part
        batches.append((manifest, rows))
    return batches


def test_what_is_staged_and_what_is_refused(tmp_path: Path) -> None:
    files = write_inputs(tmp_path / "input", _FILES)
    line = write_inputs(tmp_path / "line", [["x"]])
    queries = [_query(name, files, told) for name, told in _QUERIES.items()]
    queries += [_query(f"refused{number}", line, told) for number, told in enumerate(_REFUSED.values())]
    with memory_service("payments", "relay") as service:
        settings = {"spark.hadoop.fs.sos.relay": service}
        specification = SinkSpecification(service=service, local=str(tmp_path), queries=queries, settings=settings)
        reasons = run_sink_driver(tmp_path, specification)
        staged = trio.run(_files, service, "relay")
        checkpoints = trio.run(_files, service, "payments")
    for name in _QUERIES:
        assert reasons[name] is None, reasons[name]
    for number, says in enumerate(_REFUSED):
        assert says in (reasons[f"refused{number}"] or ""), f"{says}: {reasons[f'refused{number}']}"
    _check_plain(_committed(staged, "plain"), checkpoints)
    assert [rows for _, rows in _committed(staged, "ordered")] == [
        [(1000 - ord(text[0]), None if text == "b" else text[0].encode(), text.encode()) for text in batch]
        for batch in (["ä", _LARGE, "b"], [], ["d"])
    ]
    counted = [sorted(value for _, _, value in rows) for _, rows in _committed(staged, "counted")]
    assert counted == [[b"1:2", b"3000000:1"], [], [b"1:3"]]


def _check_plain(batches: list[tuple[dict[str, Any], list[Any]]], checkpoints: dict[str, bytes]) -> None:
    assert [rows for _, rows in batches] == [[(None, None, text.encode()) for text in batch] for batch in _FILES]
    for number, (manifest, _) in enumerate(batches):
        query, run, parts = (manifest.pop(key) for key in ("query", "run", "parts"))
        assert query
        assert run
        assert bool(parts) == bool(_FILES[number])
        assert manifest == {
            "version": 2,
            "batch": number,
            "plan": hashlib.sha256(checkpoints[f"plain/offsets/{number}"]).hexdigest(),
            "checkpoint": "sos://payments/plain",
            "sinks": ["h:7500", "[::1]:7501"],
            "order": "partition",
            "cookie": 'a"\\\té',
            "attempts": 7,
        }
