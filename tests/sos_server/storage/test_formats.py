"""What lies on a server's disk, byte for byte: vectors, the examples of STORAGE.md, and what is not whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError
from sos_server.storage import rows
from sos_server.storage.catalog_format import (
    HEADER_BYTES,
    CatalogCheckpoint,
    decode_record,
    encode_record,
    encode_rows,
    record_bytes,
)
from sos_server.storage.log_format import (
    BLOCK_BYTES,
    LogHeader,
    LogScan,
    ScannedBatch,
    batch_length,
    decode_log_header,
    encode_log_header,
    first_generation,
    read_batch,
    scan_log,
)
from sos_server.storage.object_layout import (
    CHUNK_BYTES,
    GROUP_BYTES,
    ObjectCopy,
    checksum_position,
    data_position,
    group_ranges,
)
from sos_server.storage.rows import KINDS, ObjectMade, decode_row, encode_row
from sos_server.storage.run_notes import RunNote, decode_note, note_of
from sos_server.store.gathering import GatheredBatch

VECTORS = Path(__file__).parents[2] / "vectors"
STORAGE = Path(rows.__file__).parent / "STORAGE.md"
NUMBERS = st.integers(0, (1 << 63) - 1)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.text("abcXYZ019._-", min_size=1, max_size=128),
    "incarnation": st.binary(min_size=16, max_size=16),
    "holder": st.binary(min_size=16, max_size=16),
    "time": st.floats(0, 1e12),
    "sealed_time": st.none() | st.floats(0, 1e12),
    "damaged": st.booleans(),
}
ROWS = st.one_of(
    [
        st.builds(kind, **{name: FIELDS.get(name, NUMBERS) for name in kind.__dataclass_fields__})
        for kind in KINDS.values()
    ]
)


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"storage_{name}.json").read_text())


def plain(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def example(name: str) -> bytes:
    """The bytes of a hex example in STORAGE.md: hex words at the beginning of each line."""
    block = re.search(rf"```hex {name}\n(.*?)```", STORAGE.read_text(), re.DOTALL)
    assert block is not None
    words = re.findall(r"^((?:[0-9a-f]{4,}(?: |$))+)", block[1], re.MULTILINE)
    return bytes.fromhex("".join(words).replace(" ", ""))


NONCE = bytes.fromhex("a0a1a2a3a4a5a6a7")


def make_batch(
    pieces: list[tuple[int, int, bytes]], *, generation: int = 7, number: int = 0, nonce: bytes = NONCE
) -> bytes:
    batch = GatheredBatch(bytearray(1 << 20), 1 << 20)
    for object_number, offset, payload in pieces:
        batch.add_piece(object_number, offset, crc32c(payload), payload)
    return bytes(batch.finish(generation=generation, number=number, nonce=nonce))


def scan(log: bytes, end: int | None = None) -> tuple[list[ScannedBatch], LogScan]:
    result = LogScan()
    return list(scan_log(memoryview(log), generation=7, nonce=NONCE, end=end, scan=result)), result


@pytest.mark.parametrize("vector", vectors("rows")["rows"], ids=lambda vector: vector["type"])
def test_row_vectors(vector: Any) -> None:
    row = getattr(rows, vector["type"])(**{name: plain(value) for name, value in vector["fields"].items()})
    assert encode_row(row).hex() == vector["hex"]
    assert decode_row(bytes.fromhex(vector["hex"])) == row


@pytest.mark.parametrize("vector", vectors("rows")["damaged"], ids=lambda vector: vector["why"])
def test_damaged_row_vectors(vector: Any) -> None:
    with pytest.raises(DamagedError):
        decode_row(bytes.fromhex(vector["hex"]))


@given(ROWS)
def test_rows_survive(row: rows.Row) -> None:
    assert decode_row(encode_row(row)) == row


@given(st.binary(max_size=200))
def test_any_bytes_are_a_row_or_damage(data: bytes) -> None:
    try:
        row = decode_row(data)
    except DamagedError:
        return
    assert decode_row(encode_row(row)) == row


def test_log_vectors_and_examples() -> None:
    header = vectors("log_3")["header"]
    fields = {name: plain(value) for name, value in header["fields"].items()}
    block = encode_log_header(LogHeader(**fields))
    assert block == bytes.fromhex(header["hex"]).ljust(BLOCK_BYTES, b"\0")
    assert decode_log_header(block) == LogHeader(**fields)
    assert example("log-header").ljust(BLOCK_BYTES, b"\0") == block

    content = read_vector(vectors("log_2")["batch"])
    made = make_batch([(0, 0, encode_row(ObjectMade(2, 1, "a", 0))), (2, 0, b"hello")])
    assert made == content == example("log-batch").ljust(BLOCK_BYTES, b"\0")

    noted = GatheredBatch(bytearray(1 << 20), 1 << 20)
    noted.add_note(2, note_of(0, memoryview(bytes(8192))))
    noted.add_piece(2, 8192, crc32c(b"hello"), b"hello")
    content = read_vector(vectors("log_3")["batch"])
    assert bytes(noted.finish(generation=7, number=1, nonce=NONCE)) == content
    assert content == example("log-note").ljust(BLOCK_BYTES, b"\0")


@pytest.mark.parametrize("vector", vectors("log_3")["notes"], ids=lambda vector: str(vector["offset"]))
def test_note_vectors(vector: Any) -> None:
    content = bytes(place % 251 for place in range(vector["length"]))
    note = note_of(vector["offset"], memoryview(content))
    assert note == RunNote(vector["offset"], vector["length"], tuple(vector["crcs"]))
    assert note.encode().hex() == vector["hex"]
    assert decode_note(vector["offset"], bytes.fromhex(vector["hex"])) == note
    assert note.crc_after(crc32c(b"before")) == crc32c(content, crc32c(b"before"))
    assert sum(length for _, length, _ in note.parts()) == vector["length"]


@pytest.mark.parametrize("vector", vectors("log_3")["damaged_notes"], ids=lambda vector: vector["why"])
def test_damaged_note_vectors(vector: Any) -> None:
    assert decode_note(vector["offset"], bytes.fromhex(vector["hex"])) is None


def test_a_log_of_version_2_is_read() -> None:
    header = vectors("log_2")["header"]
    fields = {name: plain(value) for name, value in header["fields"].items()}
    block = bytes.fromhex(header["hex"]).ljust(BLOCK_BYTES, b"\0")
    assert decode_log_header(block) == LogHeader(**fields, version=2)
    log = memoryview(block + read_vector(vectors("log_2")["batch"]))
    (read,) = scan_log(log, generation=7, nonce=NONCE, end=None, scan=LogScan())
    assert [entry[:3] for entry in read.entries] == [(0, 0, 7), (2, 0, 5)]


def test_a_version_that_is_not_known_is_refused() -> None:
    header = bytearray.fromhex(vectors("log_3")["header"]["hex"])
    header[5] = 4
    for newer in (crc32c(header[:-4]), crc32c(b"a layout that nobody knows yet")):
        block = (header[:-4] + newer.to_bytes(4, "big")).ljust(BLOCK_BYTES, b"\0")
        with pytest.raises(DamagedError, match="version 4, this server knows versions 1 to 3 only"):
            decode_log_header(bytes(block))
    record = bytearray.fromhex(vectors("catalog")["record"]["hex"])
    record[5], record[HEADER_BYTES - 1] = 2, record[HEADER_BYTES - 1] ^ 1
    for cut in (len(record), HEADER_BYTES):
        with pytest.raises(DamagedError, match="version 2, this server knows version 1 only"):
            decode_record(bytes(record[:cut]))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_version_that_rotted_is_damage_where_the_checksum_shows_it(version: int) -> None:
    name = "log" if version == 1 else f"log_{version}"
    block = bytearray.fromhex(vectors(name)["header"]["hex"]).ljust(BLOCK_BYTES, b"\0")
    record = bytearray.fromhex(vectors("catalog")["record"]["hex"])
    for bit in range(16):
        changed, other = bytearray(block), bytearray(record)
        for one in (changed, other):
            one[4 + bit // 8] ^= 1 << bit % 8
        assert decode_log_header(bytes(changed)) is None
        assert decode_record(bytes(other)) is None


def test_a_note_is_torn_wherever_the_batch_is_cut() -> None:
    """At every byte: its header, the note, the payload after it, the directory. What was before it counts."""
    first, noted = make_batch([(2, 0, b"x" * 100)]), bytes.fromhex(vectors("log_3")["batch"]["hex"])
    before = bytes(BLOCK_BYTES) + first
    for cut in range(len(noted)):
        batches, found = scan(before + noted[:cut].ljust(2 * BLOCK_BYTES, b"\0"))
        assert ([batch.number for batch in batches], found.end, found.damage) == ([0], len(before), []), cut
    batches, found = scan(before + noted.ljust(2 * BLOCK_BYTES, b"\0"))
    assert ([batch.number for batch in batches], found.entries) == ([0, 1], 1 + 2 + 1)


def test_log_files_of_version_1_are_read() -> None:
    header = vectors("log")["header"]
    fields = {name: plain(value) for name, value in header["fields"].items()}
    block = bytes.fromhex(header["hex"]).ljust(BLOCK_BYTES, b"\0")
    assert decode_log_header(block) == LogHeader(**fields, nonce=b"", version=1)
    batch = read_vector(vectors("log")["batch"])
    log = memoryview(block + batch + batch[:BLOCK_BYTES].replace(bytes(8), bytes(7) + b"\1", 1))
    scanned = list(scan_log(log, generation=7, nonce=b"", end=None, scan=LogScan()))
    assert [(read.start, read.payload_start) for read in scanned] == [(BLOCK_BYTES, BLOCK_BYTES + 32)]
    assert (batch_length(batch[:100]), first_generation(batch)) == (len(batch), 7)
    assert batch_length(batch[:31]) == 0


def read_vector(vector: Any) -> bytes:
    """The batch, read as the vector says that it is."""
    content = bytes.fromhex(vector["hex"]).ljust(vector["bytes"], b"\0")
    nonce = plain(vector.get("nonce", b""))
    read = read_batch(memoryview(content), 0, generation=vector["generation"], nonce=nonce, number=vector["number"])
    assert read is not None
    assert [list(entry) for entry in read.entries] == vector["entries"]
    assert read.is_whole(memoryview(content))
    return content


def test_without_the_generations_nonce_nothing_is_a_batch() -> None:
    """Neither what comes next, nor what would make a tail look like damage; in no file of either version."""
    other = make_batch([(2, 15000, b"forged")], number=3, nonce=bytes(8))
    old = read_vector(vectors("log")["batch"]).replace(bytes(8), (3).to_bytes(8, "big"), 1)
    for behind in (other, bytes(BLOCK_BYTES) + other, old):
        batches, found = scan(LOG + behind)
        assert [batch.start for batch in batches] == STARTS[:3]
        assert (found.end, found.torn, found.damage) == (STARTS[3], None, [])
    assert not list(scan_log(memoryview(LOG), generation=7, nonce=b"", end=None, scan=LogScan()))


def test_catalog_vectors_and_example() -> None:
    vector = vectors("catalog")["record"]
    checkpoint = CatalogCheckpoint(
        sequence=vector["sequence"],
        replay_from=vector["replay_from"],
        open_generation=vector["open_generation"],
        next_number=vector["next_number"],
    )
    record = encode_record(checkpoint, encode_rows(bytes.fromhex(row) for row in vector["rows"]))
    assert record == bytes.fromhex(vector["hex"]).ljust(vector["bytes"], b"\0")
    assert record == example("catalog-record").ljust(BLOCK_BYTES, b"\0")
    assert record_bytes(record) == len(record)
    decoded = decode_record(record)
    assert decoded is not None
    assert decoded[0] == checkpoint
    assert [encode_row(row).hex() for row in decoded[1]] == vector["rows"]


@given(st.data())
def test_a_changed_bit_is_never_overlooked(data: st.DataObject) -> None:
    """In a header, a record, or a batch with its payload: nothing is read from it any more."""
    header = encode_log_header(
        LogHeader(
            generation=7,
            file_bytes=1,
            previous_generation=6,
            previous_end=0,
            catalog_sequence=0,
            identity=bytes(16),
            nonce=NONCE,
        )
    )
    record = encode_record(
        CatalogCheckpoint(sequence=1, replay_from=1, open_generation=1, next_number=1),
        encode_rows([encode_row(ObjectMade(2, 1, "a", 0))]),
    )
    batch = make_batch([(2, 0, b"hello")])
    which, used = data.draw(st.sampled_from([(header, 76), (record, 65), (batch, 69)]))
    bit = data.draw(st.integers(0, 8 * used - 1))
    changed = bytearray(which)
    changed[bit // 8] ^= 1 << bit % 8
    if which is batch:
        read = read_batch(memoryview(changed), 0, generation=7, nonce=NONCE, number=0)
        assert read is None or not read.is_whole(memoryview(changed))
        return
    assert (decode_log_header(bytes(changed)) if which is header else decode_record(bytes(changed))) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_no_header_record_or_batch(data: bytes) -> None:
    assert decode_log_header(data) is None
    assert decode_record(data) is None
    assert read_batch(memoryview(data), 0, generation=0, nonce=b"", number=0) is None


LOG = bytes(BLOCK_BYTES) + b"".join(make_batch([(2, n * 5000, bytes([n]) * 5000)], number=n) for n in range(3))
STARTS = [BLOCK_BYTES * n for n in (1, 3, 5, 7)]


def test_scan_finds_all_batches_and_their_end() -> None:
    batches, found = scan(LOG + bytes(3 * BLOCK_BYTES))
    assert [batch.start for batch in batches] == STARTS[:3]
    assert (found.end, found.torn, found.damage) == (STARTS[3], None, [])


@given(st.integers(1, 2 * BLOCK_BYTES), st.booleans())
def test_a_tail_is_cut_wherever_it_is_torn(missing: int, stale: bool) -> None:  # noqa: FBT001
    """What is not there may be zeros, or an older generation's batches: both are common in recycled files."""
    behind = make_batch([(9, 0, b"old" * 4000)], generation=6) * 2 if stale else bytes(4 * BLOCK_BYTES)
    torn = LOG[: len(LOG) - missing]
    batches, found = scan(torn + behind[len(behind) - missing :])
    if LOG[len(torn) :].strip(b"\0"):
        assert [batch.start for batch in batches] == STARTS[:2]
        assert (found.end, found.damage) == (STARTS[2], [])


def test_a_torn_payload_still_tells_whose_it_was() -> None:
    log = bytearray(LOG)
    log[STARTS[2] + 1000 : STARTS[2] + 2000] = bytes(1000)
    batches, found = scan(bytes(log))
    assert len(batches) == 2
    assert found.torn is not None
    assert [entry[:3] for entry in found.torn.entries] == [(2, 10000, 5000)]


@pytest.mark.parametrize("place", [0, 5, 38, 1000])
@pytest.mark.parametrize("end", [None, STARTS[3]])
def test_damage_before_the_end_is_not_taken_for_a_tail(place: int, end: int | None) -> None:
    log = bytearray(LOG)
    log[STARTS[1] + place] ^= 1
    batches, found = scan(bytes(log), end)
    assert found.end == STARTS[3]
    if place < 40:
        assert found.damage == [STARTS[1]]
        assert [batch.start for batch in batches] == [STARTS[0], STARTS[2]]
    else:
        assert [batch.is_whole(memoryview(log)) for batch in batches] == [True, False, True]


def test_a_known_end_makes_the_last_batch_damage() -> None:
    log = bytearray(LOG)
    log[STARTS[2]] ^= 1
    batches, found = scan(bytes(log), STARTS[3])
    assert (len(batches), found.damage, found.end) == (2, [STARTS[2]], STARTS[3])


def test_nothing_behind_a_back_link_counts() -> None:
    batches, found = scan(LOG, STARTS[2])
    assert (len(batches), found.end, found.damage) == (2, STARTS[2], [])


@pytest.mark.parametrize("vector", vectors("catalog")["positions"], ids=lambda vector: str(vector["offset"]))
def test_position_vectors(vector: Any) -> None:
    assert data_position(vector["offset"]) == vector["data"]
    assert checksum_position(vector["offset"] // CHUNK_BYTES) == vector["checksum"]


@given(st.lists(st.integers(1, 3 * CHUNK_BYTES), max_size=12), st.integers(0, 3))
def test_laid_out_bytes_lie_where_readers_look(lengths: list[int], base_chunks: int) -> None:
    """In whatever pieces they come, and wherever in a group or across one they begin."""
    base = GROUP_BYTES - base_chunks * CHUNK_BYTES
    content = bytes(range(251)) * (sum(lengths) // 251 + 1)
    copy = ObjectCopy(base, 0, 0)
    position = 0
    for length in lengths:
        piece = memoryview(content)[position : position + length]
        copy.add(piece, crc32c(piece))
        position += length
    file = {start: b"".join(buffers) for start, buffers in copy.extents()}
    assert copy.size == base + position
    for offset in range(base, copy.size, CHUNK_BYTES):
        chunk = content[offset - base : min(offset - base + CHUNK_BYTES, position)]
        (start,) = [s for s in file if s <= data_position(offset) < s + len(file[s])]
        inside = data_position(offset) - start
        assert file[start][inside : inside + len(chunk)] == chunk
        if len(chunk) == CHUNK_BYTES:
            place = checksum_position(offset // CHUNK_BYTES)
            (start,) = [s for s in file if s <= place < s + len(file[s])]
            assert file[start][place - start : place - start + 4] == crc32c(chunk).to_bytes(4, "big")
        else:
            assert copy.tail_crc == crc32c(chunk)


@given(st.lists(st.integers(1, 2 * CHUNK_BYTES), min_size=1, max_size=6), st.integers(0, 3))
def test_runs_between_pieces_leave_the_file_as_pieces_alone_would(lengths: list[int], base_chunks: int) -> None:
    """Every second stretch that has whole blocks is a run of them; what is beside it is laid out."""
    base = GROUP_BYTES - base_chunks * CHUNK_BYTES
    content = memoryview(bytes(range(251)) * (sum(lengths) // 251 + 1))[: sum(lengths)]
    alone, mixed, in_file = ObjectCopy(base, 0, 0), ObjectCopy(base, 0, 0), {}
    alone.add(content, crc32c(content))
    position = 0
    for number, length in enumerate(lengths):
        start, stop = position, position + length
        first, last = -(-start // BLOCK_BYTES) * BLOCK_BYTES, stop // BLOCK_BYTES * BLOCK_BYTES
        if number % 2 == 0 and first < last:
            mixed.add(content[start:first], crc32c(content[start:first]))
            mixed.pass_run(note_of(base + first, content[first:last]))
            in_file[first] = content[first:last]
            start = last
        mixed.add(content[start:stop], crc32c(content[start:stop]))
        position = stop
    assert (mixed.size, mixed.crc, mixed.tail_crc) == (alone.size, alone.crc, alone.tail_crc)
    places = {place: byte for extents in (alone.extents(),) for place, byte in bytes_of(extents)}
    found = dict(bytes_of(mixed.extents()))
    for first, run in in_file.items():
        for start, stop in group_ranges(base + first, base + first + len(run)):
            piece = [run[start - base - first : stop - base - first]]
            assert not found.keys() & {data_position(start), data_position(stop - 1)}
            found.update(bytes_of([(data_position(start), piece)]))
    assert found == places


def bytes_of(extents: Any) -> Any:
    for position, buffers in extents:
        yield from enumerate(b"".join(buffers), position)


@given(st.integers(1, 200_000), st.integers(0, 1 << 20))
def test_a_damaged_piece_stays_visible(length: int, place: int) -> None:
    """Its chunks get CRCs that their bytes do not have; the object's CRC is still that of what was sent."""
    sent = bytes(length)
    kept = bytearray(sent)
    kept[place % length] ^= 1
    copy = ObjectCopy(0, 0, 0)
    copy.add(memoryview(bytes(kept)), crc32c(sent))
    copy.add(memoryview(b"more"), crc32c(b"more"))
    assert copy.damaged
    assert copy.crc == crc32c(sent + b"more")
    if length + 4 < CHUNK_BYTES:
        assert copy.tail_crc != crc32c(bytes(kept) + b"more")
