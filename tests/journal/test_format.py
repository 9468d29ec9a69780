"""The bytes of every version: vectors and the document's examples, which must never change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.copies.backup_mark import MarkedObject, decode_mark, encode_mark
from journal.image.image import Image
from journal.image.index_snapshot import decode_snapshot, encode_snapshot, name_of_snapshot
from journal.records.change import decode_change, encode_change
from journal.records.record import FIRST_CHAIN, HEADER_BYTES, ChainHash, Epoch, Kind, Lsn, encode_record
from journal.records.segment import SegmentReader, decode_segment_header, encode_segment_header

VECTORS = Path(__file__).parents[1] / "vectors"
Vectors = list[dict[str, Any]]
RECORDS_1: Vectors = json.loads((VECTORS / "journal_records.json").read_text())["records"]
RECORDS: Vectors = RECORDS_1 + json.loads((VECTORS / "journal_records_2.json").read_text())["records"]
SNAPSHOT_1: dict[str, Any] = json.loads((VECTORS / "journal_snapshot.json").read_text())
SNAPSHOT: dict[str, Any] = json.loads((VECTORS / "journal_snapshot_2.json").read_text())
HEADERS_2: Vectors = json.loads((VECTORS / "journal_headers_2.json").read_text())["records"]
HEADERS_3: Vectors = json.loads((VECTORS / "journal_headers_3.json").read_text())["records"]
ALL = [*RECORDS, *HEADERS_2, *HEADERS_3]
MARK: dict[str, Any] = json.loads((VECTORS / "journal_backup_mark.json").read_text())
DOCUMENT = (Path(journal.__file__).parent / "FORMAT.md").read_text()


def test_every_kind_has_a_vector() -> None:
    assert {record["kind"] for record in RECORDS} == {kind.name for kind in Kind}


@pytest.mark.parametrize("vector", ALL, ids=[record["name"] for record in ALL])
@pytest.mark.parametrize("piece", [1, 10_000])
def test_a_vector_is_read(vector: dict[str, Any], piece: int) -> None:
    data, before = bytes.fromhex(vector["record"]), ChainHash(bytes.fromhex(vector["chain_before"]))
    reader = SegmentReader(lsn=Lsn(vector["lsn"]), chain=before)
    record = None
    for at in range(0, len(data), piece):
        assert record is None
        reader.feed(data[at : at + piece])
        record = reader.next_record()
    assert record is not None
    reader.feed(b"junk")
    assert reader.buffered_bytes == 4
    header = record.header
    assert (header.kind.name, header.lsn, header.acknowledged_lsn) == (
        vector["kind"], vector["lsn"], vector["acknowledged_lsn"]
    )  # fmt: skip
    assert (header.time_ms, header.client.hex(), header.sequence) == (
        vector["time_ms"], vector["client"], vector["sequence"]
    )  # fmt: skip
    assert (record.meta.hex(), bytes(record.payload).hex()) == (vector["meta"], vector["payload"])
    assert header.chain.hex() == vector["chain_after"]


@pytest.mark.parametrize("vector", ALL, ids=[record["name"] for record in ALL])
def test_a_vector_is_written(vector: dict[str, Any]) -> None:
    reader = SegmentReader(lsn=Lsn(vector["lsn"]), chain=ChainHash(bytes.fromhex(vector["chain_before"])))
    reader.feed(bytes.fromhex(vector["record"]))
    record = reader.next_record()
    assert record is not None
    header = record.header
    if header.kind == Kind.HEADER:
        meta = encode_segment_header(decode_segment_header(record.meta))
    else:
        meta = encode_change(decode_change(header, record.meta))
    data, _ = encode_record(
        kind=header.kind,
        lsn=header.lsn,
        acknowledged_lsn=header.acknowledged_lsn,
        time_ms=header.time_ms,
        meta=meta,
        chain=ChainHash(bytes.fromhex(vector["chain_before"])),
        payload=record.payload,
        client=header.client,
        sequence=header.sequence,
    )
    assert (data + bytes(record.payload)).hex() == vector["record"]


@pytest.mark.parametrize("vector", [*HEADERS_2, *HEADERS_3], ids=lambda vector: vector["name"])
def test_what_later_versions_of_headers_say(vector: dict[str, Any]) -> None:
    header = decode_segment_header(bytes.fromhex(vector["meta"]))
    assert (header.format_version, header.paused_ms) == (vector["format_version"], vector["paused_ms"])
    assert header.oldest == vector.get("oldest", 0)


def _image(vectors: Vectors) -> Image:
    image = Image()
    for name in dict.fromkeys(record["segment"] for record in vectors):
        reader = SegmentReader(lsn=image.lsn)
        reader.feed(bytes.fromhex("".join(record["record"] for record in vectors if record["segment"] == name)))
        while (record := reader.next_record()) is not None:
            image.apply_record(record)
    return image


@pytest.mark.parametrize(("vectors", "snapshot"), [(RECORDS_1, SNAPSHOT_1), (RECORDS, SNAPSHOT)], ids=["1", "2"])
def test_the_vectors_are_one_log_and_make_the_image_of_the_snapshot(vectors: Vectors, snapshot: dict[str, Any]) -> None:
    assert vectors[0]["chain_before"] == FIRST_CHAIN.hex()
    images = _image(vectors), decode_snapshot(bytes.fromhex(snapshot["snapshot"]))
    assert list(images[0].claims) == list(images[1].claims)
    assert list(images[0].claims.ended) == list(images[1].claims.ended)
    for image in images:
        assert (image.lsn, image.chain.hex()) == (snapshot["lsn"], snapshot["chain"])
        files = [
            {
                "path": status.path,
                "is_directory": status.is_directory,
                "size": status.size,
                "modified_ms": status.modified_ms,
                "extents": []
                if status.is_directory
                else [[e.object, e.offset, e.length, e.crc] for e in image.tree.extents(status.path)],
            }
            for status in image.tree.walk()
        ]
        assert files == snapshot["files"]


def test_the_snapshot_is_written() -> None:
    image = _image(RECORDS)
    assert encode_snapshot(image).hex() == SNAPSHOT["snapshot"]
    assert str(name_of_snapshot(image, epoch=Epoch(3))) == SNAPSHOT["name"]


def test_the_mark_of_a_backup_is_read_and_written() -> None:
    objects = {name: MarkedObject(bytes=size, crc=crc) for name, size, crc in MARK["objects"]}
    mark = decode_mark(bytes.fromhex(MARK["mark"]))
    assert (mark.volume_id.hex(), mark.lsn, mark.chain.hex()) == (MARK["volume_id"], MARK["lsn"], MARK["chain"])
    assert mark.objects == objects
    assert encode_mark(mark).hex() == MARK["mark"]


def test_the_documents_examples_are_the_vectors() -> None:
    known = [record["record"] for record in RECORDS] + [SNAPSHOT["snapshot"][:40], MARK["mark"][:40]]
    examples = []
    for block in re.findall(r"```hex\n(.*?)```", DOCUMENT, re.DOTALL):
        lines = [re.split(r"\s{3,}", line)[0] for line in block.splitlines()]
        examples.append("".join("".join(lines).split()))
    assert len(examples) == 4
    assert all(example in known for example in examples)


def test_the_document_names_every_kind_with_its_number() -> None:
    rows = re.findall(r"^\| ([a-z]+) \| (\d+) \| .* \|$", DOCUMENT, re.MULTILINE)
    assert {(name, int(number)) for name, number in rows} == {(kind.name.lower(), int(kind)) for kind in Kind}
    assert re.search(rf"^\| {HEADER_BYTES} \| +\| meta", DOCUMENT, re.MULTILINE)
