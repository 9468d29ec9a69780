"""How the shim reads ingest volumes, without Spark: the vectors of the protocol, the example of the format, damage."""

from __future__ import annotations

import json
import re
from pathlib import Path

from connectors.wire.codec import decode
from connectors.wire.frames import MessageFrame, NotifyFrame
from sos_client.wire.limits import LENGTH_BYTES, TYPE_BYTES
from tests.spark_integration.java_checks import run_checks
from tests.spark_integration.memory_service import memory_service

_ROOT = Path(__file__).parents[2]
_VECTORS = _ROOT / "tests" / "vectors" / "connector_frames_wallaroo.json"


def _frames() -> list[str]:
    """Those of the vectors that a listener stores, and what they say."""
    lines = []
    for vector in json.loads(_VECTORS.read_text()):
        data = bytes.fromhex(vector["hex"])
        if vector["name"].split()[0] not in ("NOTIFY", "MESSAGE") or not vector["roundtrip"]:
            continue
        frame = decode(data[LENGTH_BYTES], memoryview(data)[LENGTH_BYTES + TYPE_BYTES :])
        if isinstance(frame, NotifyFrame):
            lines.append(f"{data.hex()}\tNOTIFY\t{frame.stream_id}\t{frame.stream_name}")
        if isinstance(frame, MessageFrame):
            said = (frame.stream_id, frame.message_id, frame.event_time, frame.key.hex(), frame.payload.hex())
            lines.append("\t".join([data.hex(), "MESSAGE", *map(str, said)]))
    return lines


def _example() -> str:
    """The block in FORMAT.md: of each line the words that are hex, up to what it means."""
    text = (_ROOT / "connectors" / "ingest" / "FORMAT.md").read_text()
    (block,) = re.findall(r"```hex\n(.*?)```", text, re.DOTALL)
    return "".join(re.split(r"\s{2,}", line)[0].replace(" ", "") for line in block.splitlines())


def test_java_reads_what_a_listener_stores(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    frames.write_text("".join(f"{line}\n" for line in _frames()))
    volumes = ("vectors", "example", "files", "named", "damaged", "empty", "again", "old", "new")
    with memory_service(*volumes) as address:
        outcome = run_checks("io.sos.spark.connector.source.SourceChecks", address, str(frames), _example())
    assert not outcome.failed, outcome.summary()
    assert len(outcome.passed) == 12
