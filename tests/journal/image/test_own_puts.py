"""A writer's own PUTs, applied once and shared with the image that follows: as if each applied the records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.image.image import Image
from journal.image.index_snapshot import encode_snapshot
from journal.records.change import DeleteChange, PutChange, RenameChange, encode_change, encode_put
from journal.records.record import Kind, Lsn, encode_record
from journal.volume import OperationId
from sos_client.wire.checksum import crc32c
from tests.journal.histories import History

PATHS = ("a", "d/a", "d/b", "d/e/a", "e/a")
CLIENT = bytes(range(16))

puts = st.tuples(
    st.just("put"), st.sampled_from(PATHS), st.sampled_from((0, 3, 3, 70_000)), st.sampled_from((None, None, 5))
)
others = st.tuples(st.sampled_from(("delete", "rename", "segment")), st.sampled_from(PATHS), st.just(0), st.none())


class Writer:
    """Three images of one log: the writer's two, and one that applies all records one by one."""

    def __init__(self) -> None:
        self.history = History()
        self.images = self.pending, self.following, self.true = Image(), Image(), Image()
        self.following.keeps_answers = False
        self.open_segment()

    def open_segment(self) -> None:
        segment = self.history.open_segment()
        for image in self.images:
            image.apply(self.history.headers[-1], segment)

    def put(self, path: str, size: int, modified_ms: int | None) -> None:
        payload = bytes([len(self.history.headers) % 256]) * size
        sequence = len(self.history.headers)
        change = PutChange(path=path, modified_ms=modified_ms)
        assert encode_put(path, modified_ms) == encode_change(change)
        header = self.history.add(change, payload, client=CLIENT, sequence=sequence)
        status, file = self.pending.put_own(header, path, modified_ms)
        self.following.put_again(header, path, file)
        assert self.true.apply(header, change) == status
        assert (status.size, status.crc) == (size, crc32c(payload))
        for image in (self.pending, self.true):
            kept = image.operations.find(OperationId(CLIENT, sequence))
            assert kept is not None
            assert kept.answer == status

    def change(self, kind: str, path: str) -> None:
        if self.true.tree.find(path) is None:
            return
        target = f"moved/{len(self.history.headers)}"
        change = DeleteChange(path=path) if kind == "delete" else RenameChange(source=path, target=target)
        header = self.history.add(change)
        for image in self.images:
            image.apply(header, change)


@given(st.lists(puts | others, max_size=30))
def test_what_is_shared_is_what_each_would_have(steps: list[tuple[str, str, int, int | None]]) -> None:
    writer = Writer()
    for kind, path, size, modified_ms in steps:
        if kind == "put":
            writer.put(path, size, modified_ms)
        elif kind == "segment":
            writer.open_segment()
        else:
            writer.change(kind, path)
    truth = writer.true
    for image in writer.images:
        assert (image.lsn, image.chain, image.time_ms) == (truth.lsn, truth.chain, truth.time_ms)
        assert list(image.tree.walk()) == list(truth.tree.walk())
        assert image.tree.objects_in_use() == truth.tree.objects_in_use()
        assert (image.tree.file_count, image.tree_bytes) == (truth.tree.file_count, truth.tree_bytes)
    assert encode_snapshot(writer.pending) == encode_snapshot(truth)


def test_a_put_that_does_not_fit_is_the_writers_mistake() -> None:
    writer = Writer()
    writer.put("d/a", 3, None)
    meta = encode_put("d", None)
    _, header = encode_record(
        kind=Kind.PUT, lsn=writer.pending.lsn, acknowledged_lsn=Lsn(0), time_ms=10**13, meta=meta,
        chain=writer.pending.chain,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="does not fit its own tree"):
        writer.pending.put_own(header, "d", None)


def test_a_put_without_an_id_keeps_no_answer() -> None:
    writer = Writer()
    header = writer.history.add(PutChange(path="a"), b"x")
    writer.pending.put_own(header, "a", None)
    assert len(writer.pending.operations) == 0
