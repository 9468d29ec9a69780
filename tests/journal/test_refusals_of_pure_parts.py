"""Each refusal of the pure parts once, with bytes or values made for it."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from journal.checkpoint import state_checks
from journal.checkpoint.batches import BatchHistory
from journal.checkpoint.checks import Severity, wanted_contents
from journal.checkpoint.layout import LogFormatError, arrange, parse_checksum, parse_commit, parse_sst_list
from journal.checkpoint.operator_metadata import parse_operator
from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError, journal_error
from journal.image import image as image_module
from journal.image import operation_window
from journal.image.image import Image
from journal.image.index_snapshot import decode_snapshot, encode_snapshot
from journal.image.nodes import Directory, modified_ms_of, pack_extent, pack_file
from journal.image.operation_window import OperationWindow
from journal.image.preconditions import check_rename
from journal.records.change import MakeDirectoryChange, MarkChange, PinChange, PutChange, TrimChange, decode_change
from journal.records.record import FIRST_CHAIN, Kind, Lsn, decode_header, encode_record
from journal.records.segment import SegmentReader, decode_segment_header, encode_segment_header
from journal.volume import FileStatus, OperationId
from sos_client.wire.checksum import crc32c
from sos_client.wire.msgpack_edge import pack, unpack
from tests.journal.checkpoints import checkpoint, examine, rocksdb_zip
from tests.journal.histories import FIRST_TIME_MS, History
from tests.journal.image.test_image import Written

# ---- records and segments


def test_an_impossible_header_is_damage_even_with_a_right_crc() -> None:
    data, _ = encode_record(
        kind=Kind.TRIM, lsn=Lsn(5), acknowledged_lsn=Lsn(0), time_ms=1, meta=pack([0]), chain=FIRST_CHAIN, payload_crc=0
    )
    broken = bytearray(data)
    struct.pack_into(">Q", broken, 24, 6)  # acknowledged beyond itself
    struct.pack_into(">I", broken, 72, crc32c(broken[:72]))
    with pytest.raises(DamagedJournalError, match="impossible"):
        decode_header(memoryview(broken), lsn=Lsn(5), before=FIRST_CHAIN)


def test_a_path_that_is_no_text_is_damage() -> None:
    meta = pack([7, None])
    _, header = encode_record(
        kind=Kind.PUT, lsn=Lsn(0), acknowledged_lsn=Lsn(0), time_ms=1, meta=meta, chain=FIRST_CHAIN
    )
    with pytest.raises(DamagedJournalError, match="must be a path"):
        decode_change(header, meta)


def _header_values() -> list[Any]:
    values = unpack(encode_segment_header(History().open_segment()), string_bytes_max=100)
    assert isinstance(values, list)
    return values


def test_a_header_that_contradicts_itself_is_damage() -> None:
    values = _header_values()
    values[2] = values[2] * 3
    with pytest.raises(DamagedJournalError, match=r"membership\.configurations must be"):
        decode_segment_header(pack(values))
    values = _header_values()
    values[6] = [f"{50:016x}-00000001-{'0' * 32}.seg", 50, bytes(8)]
    with pytest.raises(DamagedJournalError, match="ends before it begins"):
        decode_segment_header(pack(values))


def test_a_header_in_the_wrong_place_is_damage() -> None:
    header = History().open_segment()
    data, _ = encode_record(
        kind=Kind.HEADER, lsn=Lsn(77), acknowledged_lsn=Lsn(0), time_ms=1, meta=encode_segment_header(header),
        chain=FIRST_CHAIN,
    )  # fmt: skip
    reader = SegmentReader(lsn=Lsn(77))
    reader.feed(data)
    with pytest.raises(DamagedJournalError, match="says that it starts at 0"):
        reader.next_record()


# ---- image and snapshot


def test_too_many_pins_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "PINS_MAX", 1)
    written = Written()
    written.add(PinChange(name="one", lsn=Lsn(0), expires_ms=FIRST_TIME_MS * 2))
    with pytest.raises(DamagedJournalError, match="more than 1 pins"):
        written.add(PinChange(name="two", lsn=Lsn(0), expires_ms=FIRST_TIME_MS * 2))


def test_a_directory_has_a_time_as_a_file_has() -> None:
    assert modified_ms_of(Directory(5)) == 5


def _snapshot(change: Any) -> bytes:
    """A snapshot with a right CRC around values that `change` has had in its hands."""
    written = Written()
    written.add(PutChange(path="a/x"), b"1")
    written.add(TrimChange(lsn=Lsn(0)))
    data = encode_snapshot(written.image)
    values = unpack(data[20:], array_max=1000, string_bytes_max=1000, binary_bytes_max=5000)
    body = pack(change(values))
    return data[:8] + struct.pack(">QI", len(body), crc32c(body)) + body


def _with(index: int, value: object) -> Any:
    def change(values: list[Any]) -> list[Any]:
        values[index] = value
        return values

    return change


_FILE = pack_file(1, pack_extent(0, 0, 1, 0))


@pytest.mark.parametrize(
    "change",
    [
        lambda _values: "no array",
        _with(1, b"none"),
        _with(5, ["no segment"]),
        _with(6, [["a", 1, "", b"", b""]] * 2),
        _with(6, [["a/b", 1, "", b"", b""]]),
        _with(6, [["", 1, "x/x", b"", _FILE * 2]]),
        _with(6, [["", 1, "x", b"", _FILE * 2]]),
        _with(6, [["", 1, "x", struct.pack(">I", 9), b"123456789"]]),
        _with(6, [["", 1, "x", struct.pack(">I", 8), b"123456789"]]),
        _with(6, [["", 1, "x", b"", pack_file(1, pack_extent(9, 0, 1, 0))]]),
        _with(6, [[5, 1, "", b"", b""]]),
        _with(6, [["", 1, "x", "no bytes", _FILE]]),
        _with(7, [[1, 1, b"not 20 bytes"]]),
        _with(11, [[b"nobody", 1]]),
        _with(12, ["no answer"]),
        _with(12, [[b"nobody", 1, 1, None]]),
        _with(12, [[bytes(16), -1, 1, None]]),
        _with(12, [[bytes(16), 1, 1, "no answer"]]),
        _with(12, [[bytes(16), 1, 1, [5, 1, 1, None]]]),
        _with(12, [[bytes(16), 1, 1, ["path", -1, 1, None]]]),
    ],
)
def test_a_snapshot_that_contradicts_itself_is_damage(change: Any) -> None:
    with pytest.raises(DamagedJournalError, match="makes no sense"):
        decode_snapshot(_snapshot(change))


def test_what_had_expired_is_in_the_snapshot() -> None:
    image = decode_snapshot(_snapshot(_with(11, [[bytes(16), 5]])))
    with pytest.raises(JournalError, match="not run"):
        image.operations.find(OperationId(client=bytes(16), sequence=5))


def test_clients_with_answers_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_window, "CLIENTS_MAX", 1)
    window = OperationWindow()
    for client in range(3):
        window.keep(OperationId(client=bytes([client]) * 16, sequence=1), None, time_ms=1, recorded=True)
    assert all(window.find(OperationId(client=bytes([client]) * 16, sequence=1)) for client in range(3))


def test_renames_that_are_refused() -> None:
    written = Written()
    written.add(PutChange(path="file"))
    written.add(PutChange(path="other"))
    written.add(MakeDirectoryChange(path="dir"))
    written.add(MarkChange(values={"k": 1}))
    codes = []
    for source, target, overwrite in (("file", "dir", True), ("file", "other", False), ("dir", "other", True)):
        with pytest.raises(JournalError) as caught:
            check_rename(written.image, source, target, overwrite=overwrite, claim=None)
        codes.append(caught.value.code)
    assert codes == [JournalCode.IS_DIRECTORY, JournalCode.ALREADY_EXISTS, JournalCode.NOT_DIRECTORY]
    assert check_rename(written.image, "file", "other", overwrite=True, claim=None)


def test_errors_come_back_from_the_wire_as_what_they_were() -> None:
    error = journal_error(JournalCode.OUTCOME_UNKNOWN, "who knows", {"lsn": 5})
    assert isinstance(error, UnavailableError)
    assert error.outcome_unknown
    assert error.fields == {"lsn": 5}
    assert not journal_error(JournalCode.LOCKED, "in use").outcome_unknown  # type: ignore[attr-defined]


def test_an_image_is_that_of_no_epoch_at_first() -> None:
    assert Image().epoch == 0


# ---- Spark's checkpoints


@pytest.mark.parametrize(
    ("parse", "data"),
    [
        (parse_commit, b'v2\n{"stateUniqueIds":{"x":[]}}'),
        (parse_operator, b'v1\n{"operatorInfo":{},"stateStoreInfo":[{}]}'),
        (parse_operator, b'v1\n{"operatorInfo":{},"stateStoreInfo":[1]}'),
        (parse_operator, b'v2\n{"operatorInfo":{},"stateStoreInfo":[{"numPartitions":1,"stateSchemaFilePaths":[1]}]}'),
        (parse_sst_list, b'v1\n{"sstFiles":[{}]}'),
    ],
)
def test_logs_that_are_not_sparks(parse: Any, data: bytes) -> None:
    with pytest.raises(LogFormatError):
        parse(data)


def test_other_checksums_are_left_alone() -> None:
    assert parse_checksum(b'{"algorithm":"MD5"}') is None
    assert parse_checksum(b"crc\0\0\0") is None


def test_a_broken_zip_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: data for name, data in checkpoint("rocksdb").items() if not name.endswith(".crc")}
    files["state/0/0/4.zip"] = b"no zip"
    assert [finding.path for finding in examine(files).findings] == ["state/0/0/4.zip"]
    monkeypatch.setattr(state_checks, "ZIP_METADATA_BYTES_MAX", 1)
    with pytest.raises(LogFormatError, match="too large"):
        state_checks.sst_files(rocksdb_zip({"000001-x.sst": 1}))


def test_many_broken_stores_are_summed_up() -> None:
    files = checkpoint("hdfs")
    for partition in range(8):
        files[f"state/0/{partition}/3.delta"] = b""
    for name in [name for name in files if name.startswith("offsets/")]:
        files[name] = files[name].replace(b'shuffle.partitions": "2"', b'shuffle.partitions": "8"')
    diagnosis = examine({name: data for name, data in files.items() if not name.endswith("4.delta")})
    assert any(finding.what == "the same in 3 more stores" for finding in diagnosis.findings)


def test_a_wide_gap_is_not_listed_to_its_end() -> None:
    files = checkpoint("none", batches=2)
    files["offsets/900"] = files["offsets/2"]
    files["offsets/9000"] = files["offsets/2"]
    warned = [finding for finding in examine(files).findings if finding.severity is Severity.WARNING]
    assert any("and 193 more missing" in finding.what for finding in warned)


def test_files_elsewhere_and_directories_are_not_of_the_checkpoint() -> None:
    directory = FileStatus(path="q/offsets", is_directory=True, size=0, modified_ms=1)
    strange = directory._replace(path="other/offsets/1", is_directory=False)
    zipped = strange._replace(path="q/state/0/0/1.zip")
    found = arrange("q", [directory, strange, zipped])
    assert list(found.files) == ["state/0/0/1.zip"]
    assert wanted_contents(found) == []


def test_a_batch_without_state() -> None:
    log, history = History(), BatchHistory()
    change = PutChange(path="q/commits/3")
    history.note(log.add(change), change)
    (batch,) = history.of("q")
    assert (batch.state_versions, batch.duration_ms) == (None, None)
