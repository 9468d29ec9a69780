"""What reading and writing checked msgpack arrays costs: `python -m tests.benchmarks.array_checks`.

One line a message: microseconds to read it and to write it, the least of some rounds, and what msgpack alone takes of
that. Where msgspec is installed (the project does not need it), the same message as one of its structs, too.
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer, decode_request, put_parts
from journal.gateway.wire.encoding import encode
from journal.records.change import PutChange, decode_change, encode_change
from journal.records.record import FIRST_CHAIN, FIRST_LSN, encode_record
from journal.volume import FileStatus, OperationId, PathClaim
from sos_client.wire import codec
from sos_client.wire.messages import Append, MessageType
from sos_client.wire.msgpack_edge import pack, unpack
from sos_server.storage.rows import ObjectState, decode_row, encode_row

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD: Final = 5
_PATH: Final = "checkpoint/state/0/12/7.delta"
_STAMP: Final = m.Stamp(
    operation=OperationId(bytes(16), 12345), claim=PathClaim(application="app-1", start_time=1 << 40), epoch_seen=12
)
_PUT: Final = m.PutRequest(path=_PATH, overwrite=False, stamp=_STAMP, payload=b"x" * 512)
_READ: Final = m.ReadRequest(path=_PATH, offset=0, length=None, modified_ms=None, epoch_seen=12)
_STATUS: Final = m.StatusAnswer(epoch=3, status=FileStatus(_PATH, False, 512, 1 << 40))
_APPEND: Final = Append(object="0000000000000000-00000001.seg", size=10, prefix_crc=5, epoch=3, holder=bytes(16))
_CHANGE: Final = PutChange(path=_PATH, modified_ms=1 << 40)
_ROW: Final = ObjectState(5, 1, "segment", 3, 100, 7, 8, None, 0, False)


def cases() -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    put, read, status = (memoryview(encode(message))[_HEAD:] for message in (_PUT, _READ, _STATUS))
    append = codec.encode(_APPEND)[_HEAD:]
    meta, row = encode_change(_CHANGE), encode_row(_ROW)
    _, header = encode_record(
        kind=_CHANGE.kind, lsn=FIRST_LSN, acknowledged_lsn=FIRST_LSN, time_ms=1, meta=meta, chain=FIRST_CHAIN
    )
    values = [_PATH, 0, None, None, 12]
    packed = pack(values)
    found: dict[str, Callable[[], object]] = {
        "msgpack alone, read": lambda: unpack(packed),
        "msgpack alone, write": lambda: pack(values),
        "file protocol PUT, read": lambda: put_parts(put),
        "file protocol PUT, write": lambda: encode(_PUT),
        "file protocol READ, read": lambda: decode_request(m.FileMessageType.READ, read),
        "file protocol READ, write": lambda: encode(_READ),
        "file protocol STATUS, read": lambda: decode_answer(m.FileMessageType.STATUS, status),
        "file protocol STATUS, write": lambda: encode(_STATUS),
        "SOS protocol APPEND, read": lambda: codec.decode_request(MessageType.APPEND, append),
        "SOS protocol APPEND, write": lambda: codec.encode(_APPEND),
        "record of a PUT, read": lambda: decode_change(header, meta),
        "record of a PUT, write": lambda: encode_change(_CHANGE),
        "catalog row, read": lambda: decode_row(row),
        "catalog row, write": lambda: encode_row(_ROW),
    }
    return found | _of_msgspec(packed)


def _of_msgspec(packed: bytes) -> dict[str, Callable[[], object]]:
    try:
        msgspec = importlib.import_module("msgspec")
    except ImportError:
        return {}
    least: Any = msgspec.Meta(ge=0, le=(1 << 63) - 1)
    number: Any = Annotated[int, least]
    fields = [("path", str), ("offset", number), *((name, number | None) for name in ("length", "time")), ("e", number)]
    made = msgspec.defstruct("Read", fields, array_like=True, frozen=True, forbid_unknown_fields=True)
    decoder, encoder = msgspec.msgpack.Decoder(made), msgspec.msgpack.Encoder()
    value = decoder.decode(packed)
    return {
        "msgspec, READ, read": lambda: decoder.decode(packed),
        "msgspec, READ, write": lambda: encoder.encode(value),
    }


def measure(rounds: int, calls: int) -> dict[str, float]:
    """Seconds for each case, one after the other in each round; the least counts."""
    least: dict[str, float] = {}
    for _ in range(rounds):
        for name, case in cases().items():
            began = time.perf_counter()
            for _ in range(calls):
                case()
            least[name] = min(least.get(name, 1e9), (time.perf_counter() - began) / calls)
    return least


def main() -> None:
    """Print a line for each case."""
    for name, seconds in measure(30, 2000).items():
        print(f"{name:28} {seconds * 1e6:6.2f} µs")


if __name__ == "__main__":
    main()
