"""Rows and logs applied to memory: twice, out of step with the catalog, with pieces missing. No disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError
from sos_server.storage.catalog_format import CatalogCheckpoint, decode_record, encode_record
from sos_server.storage.contents import IN_FILE, Contents, LoggedBytes
from sos_server.storage.log_format import BLOCK_BYTES, NOTE, LogHeader, batch_length, first_generation
from sos_server.storage.recovery import Generation, LogChain, Replay, chain_of
from sos_server.storage.rows import (
    Claimed,
    EpochRaised,
    NamespaceMade,
    ObjectDeleted,
    ObjectMade,
    ObjectSealed,
    ObjectState,
    Row,
    encode_row,
)
from sos_server.storage.run_notes import note_of
from tests.sos_server.storage.test_formats import NONCE, make_batch

HISTORY: list[Row] = [
    NamespaceMade(1, "n", bytes(16)),
    Claimed(1, 1, b"a" * 16),
    ObjectMade(2, 1, "x", 1),
    ObjectMade(3, 1, "y", 1),
    Claimed(1, 2, b"b" * 16),
    EpochRaised(3, 2),
    ObjectSealed(2, 0, 0, 5.0),
    ObjectDeleted(2),
    ObjectMade(4, 1, "x", 2),
]


def header(generation: int, *, previous: int = 0, previous_end: int = 0, sequence: int = 1) -> LogHeader:
    return LogHeader(
        generation=generation,
        file_bytes=1 << 20,
        previous_generation=previous,
        previous_end=previous_end,
        catalog_sequence=sequence,
        identity=bytes(16),
        nonce=NONCE,
    )


def chain(
    headers: list[LogHeader], *, replay_from: int = 1, opened: int = 0, headless: tuple[int, ...] = ()
) -> LogChain:
    checkpoint = CatalogCheckpoint(sequence=3, replay_from=replay_from, open_generation=opened, next_number=1)
    return chain_of(headers, checkpoint, headless=headless)


def replayed(
    *batches: list[tuple[int, int, bytes]], contents: Contents | None = None, damage: tuple[int, ...] = ()
) -> Replay:
    """A log of these batches, with bits flipped at these places, replayed."""
    log = bytearray(BLOCK_BYTES)
    for number, pieces in enumerate(batches):
        log += make_batch(pieces, number=number)
    for place in damage:
        log[place] ^= 1
    replay = Replay(contents or Contents())
    replay.scan(memoryview(bytes(log)), Generation(header(7), None))
    return replay


def row(value: Row) -> tuple[int, int, bytes]:
    return 0, 0, encode_row(value)


def facts(contents: Contents) -> list[Row]:
    return [found for number in sorted(contents.numbers()) for found in contents.rows(number)]


@given(st.integers(0, len(HISTORY)), st.integers(0, len(HISTORY)))
def test_a_catalog_may_know_more_than_the_log_that_is_replayed(known: int, replay_from: int) -> None:
    """What a checkpoint has is whatever was true when it was written; the log is applied over it, from further back."""
    straight, checkpointed = Contents(), Contents()
    for value in HISTORY:
        straight.apply(value)
    before = Contents()
    for value in HISTORY[:known]:
        before.apply(value)
    for value in facts(before):
        checkpointed.apply(value)
    for value in HISTORY[min(known, replay_from) :]:
        checkpointed.apply(value)
    assert facts(checkpointed) == facts(straight)
    assert checkpointed.next_number == straight.next_number


@pytest.mark.parametrize(
    "rows",
    [
        [Claimed(9, 1, bytes(16))],
        [ObjectMade(2, 9, "x", 0)],
        [NamespaceMade(1, "n", bytes(16)), NamespaceMade(2, "n", bytes(16))],
        [
            NamespaceMade(1, "n", bytes(16)),
            ObjectMade(2, 1, "x", 0),
            ObjectState(3, 1, "x", 0, 0, 0, 0, None, 0, False),
        ],
    ],
)
def test_rows_that_contradict_each_other_are_damage(rows: list[Row]) -> None:
    contents = Contents()
    for value in rows[:-1]:
        contents.apply(value)
    with pytest.raises(DamagedError):
        contents.apply(rows[-1])


def test_rows_about_what_is_gone_change_nothing() -> None:
    contents = Contents()
    for value in (EpochRaised(5, 1), ObjectSealed(5, 0, 0, 1.0), ObjectDeleted(5)):
        contents.apply(value)
    assert facts(contents) == []
    assert contents.rows(5) == [ObjectDeleted(5)]


def test_pages_stay_in_order_while_objects_come_and_go() -> None:
    contents = Contents()
    contents.apply(NamespaceMade(1, "n", bytes(16)))
    namespace = contents.namespaces["n"]
    for number, name in enumerate("dbfa", 2):
        contents.apply(ObjectMade(number, 1, name, 0))
    assert [stored.name for stored in namespace.page("", 3)] == ["a", "b", "d"]
    contents.apply(ObjectDeleted(3))
    contents.apply(ObjectMade(9, 1, "c", 0))
    assert [stored.name for stored in namespace.page("a", 9)] == ["c", "d", "f"]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.data())
def test_logged_pieces_are_found_by_offset(lengths: list[int], data: st.DataObject) -> None:
    logged, places, offset = LoggedBytes(), [], 0
    for number, length in enumerate(lengths):
        logged.add(offset, length, number, number // 3, offset + 7)
        places.append((offset, length))
        offset += length
    start = data.draw(st.integers(0, offset - 1))
    end = data.draw(st.integers(start + 1, offset + 10))
    found = [(piece.offset, piece.length) for piece in logged.pieces(start, end)]
    assert found == [(at, length) for at, length in places if at < end and at + length > start]
    logged.forget(0)
    assert all(piece.generation > 0 for piece in logged.pieces(0, offset))


def test_the_chain_follows_back_links_only() -> None:
    """Generation 8's header failed, and 9 went on after 7: what 8 says does not count."""
    headers = [
        header(7, previous=6, previous_end=1),
        header(8, previous=7, previous_end=99),
        header(9, previous=7, previous_end=50),
    ]
    found = chain(headers, replay_from=7)
    assert [(g.header.generation, g.end) for g in found.generations] == [(7, 50), (9, None)]
    assert found.reports == []


def test_what_is_missing_from_a_chain_is_said_and_the_rest_is_kept() -> None:
    linked = [header(5), header(7, previous=6, previous_end=9)]
    found = chain(linked, replay_from=5)
    assert [g.header.generation for g in found.generations] == [5, 7]
    assert "generation 6" in found.reports[0]
    assert "generation 8" in chain(linked[1:], replay_from=7, opened=8).reports[0]
    assert "generation 8" in chain(linked[1:], replay_from=7, headless=(3, 8)).reports[0]
    assert "there was a record 4" in chain([header(7, sequence=4)], replay_from=7).reports[0]
    assert chain([], replay_from=1) == LogChain([], [])


def test_bytes_behind_a_loss_are_not_taken_for_what_was_lost() -> None:
    made = [row(NamespaceMade(1, "n", bytes(16))), row(ObjectMade(2, 1, "x", 0)), row(ObjectMade(3, 1, "y", 0))]
    replay = replayed(made, [(2, 0, b"lost")], [(2, 4, b"behind"), (3, 0, b"whole")], damage=(2 * BLOCK_BYTES + 4,))
    x, y = replay.contents.objects[2], replay.contents.objects[3]
    assert (x.size, x.damaged, y.size, y.crc) == (0, True, 5, crc32c(b"whole"))
    assert x.read_only is not None
    assert any("synced batch" in report for report in replay.reports)
    assert any("n/x: bytes from offset 0 to 4 were lost" in report for report in replay.reports)


def test_what_may_have_lost_bytes_at_its_end_is_damaged_when_a_start_accepts_the_loss() -> None:
    """Nobody knows whose bytes were in the batch: whatever was not sealed may be shorter than was acknowledged."""
    made = [
        row(NamespaceMade(1, "n", bytes(16))),
        *(row(ObjectMade(number, 1, f"o{number}", 0)) for number in (2, 3, 4, 5)),
        (2, 0, b"whole"),
        row(ObjectSealed(2, 5, crc32c(b"whole"), 1.0)),
        (3, 0, b"loses its end"),
        (4, 0, b"loses its end"),
    ]
    behind = [row(ObjectSealed(4, 20, 1, 2.0)), row(ObjectSealed(5, 0, 0, 2.0)), row(ObjectMade(6, 1, "later", 0))]
    replay = replayed(made, [(3, 13, b"lost"), (4, 13, b", too...")], behind, damage=(2 * BLOCK_BYTES + 4,))
    assert [(number, stored.damaged) for number, stored in replay.contents.objects.items()] == [
        *((2, False), (3, True), (4, True), (5, True), (6, False))
    ]
    assert any("n/o4 was sealed with 20 bytes, 13 are left" in report for report in replay.reports)
    assert replay.contents.changed >= {3, 4, 5}


def noted(number: int, offset: int, content: bytes) -> tuple[int, int, bytes]:
    return number | NOTE, offset, note_of(offset, memoryview(content)).encode()


RUN = bytes(range(256)) * 32
MADE = [row(NamespaceMade(1, "n", bytes(16))), row(ObjectMade(2, 1, "x", 0))]


def test_runs_and_pieces_follow_each_other() -> None:
    replay = replayed(MADE, [noted(2, 0, RUN), (2, 8192, b"between")], [(2, 8199, bytes(4089)), noted(2, 12288, RUN)])
    stored = replay.contents.objects[2]
    assert (replay.reports, stored.size, stored.namespace.used_bytes) == ([], 20480, 20480)
    assert stored.crc == crc32c(RUN + b"between" + bytes(4089) + RUN)
    assert stored.logged is not None
    places = [(piece.offset, piece.length, piece.position == IN_FILE) for piece in stored.logged.pieces(0, 20480)]
    assert places == [(0, 8192, True), (8192, 7, False), (8199, 4089, False), (12288, 8192, True)]


def test_a_run_that_the_catalog_knows_changes_nothing() -> None:
    contents = Contents()
    contents.apply(NamespaceMade(1, "n", bytes(16)))
    contents.apply(ObjectState(2, 1, "x", 0, 8192, crc32c(RUN), 5, None, 0, False))
    replay = replayed([noted(2, 0, RUN)], [(2, 8192, b"9")], [noted(7, 0, RUN)], contents=contents)
    assert (contents.objects[2].size, contents.objects[2].crc, replay.reports) == (8193, crc32c(RUN + b"9"), [])


def test_a_damaged_note_loses_its_run_and_what_was_appended_after_it() -> None:
    """Nobody knows how long the run was: none of it is shown, and nothing is taken for it."""
    note_at = 2 * BLOCK_BYTES + 40
    for place in range(note_at, note_at + 8):
        replay = replayed(
            MADE, [noted(2, 0, RUN), (2, 8192, b"after")], [row(ObjectMade(3, 1, "y", 0))], damage=(place,)
        )
        x = replay.contents.objects[2]
        assert (x.size, x.damaged, x.logged) == (0, True, None)
        assert any("n/x: what the log says of a run at offset 0 is damaged" in report for report in replay.reports)
        assert any("n/x: bytes from offset 0 to 8192 were lost" in report for report in replay.reports)
        assert replay.contents.objects[3].damaged is False


def test_a_run_behind_a_loss_is_not_taken_for_what_was_lost() -> None:
    replay = replayed(MADE, [(2, 0, bytes(4096))], [noted(2, 4096, RUN)], damage=(2 * BLOCK_BYTES + 4,))
    assert (replay.contents.objects[2].size, replay.contents.objects[2].logged) == (0, None)
    assert any("n/x: bytes from offset 0 to 4096 were lost" in report for report in replay.reports)


def test_a_torn_batch_says_how_much_of_a_run_it_cut() -> None:
    last = [noted(2, 0, RUN), (2, 8192, b"torn")]
    torn_behind = replayed(MADE, last, damage=(2 * BLOCK_BYTES + 40 + 8,))
    assert (torn_behind.contents.objects[2].size, torn_behind.contents.objects[2].cut_bytes) == (0, 8196)


def test_rows_that_are_lost_take_with_them_what_rests_on_them() -> None:
    rows = [row(NamespaceMade(1, "n", bytes(16))), row(ObjectMade(2, 1, "x", 0)), (2, 0, b"bytes")]
    replay = replayed(rows, [row(NamespaceMade(5, "m", bytes(16)))], damage=(BLOCK_BYTES + 40 + 3,))
    assert list(replay.contents.namespaces) == ["m"]
    assert len(replay.reports) == 2


def test_a_torn_batch_says_what_it_cut() -> None:
    made = [row(NamespaceMade(1, "n", bytes(16))), row(ObjectMade(2, 1, "x", 0)), (2, 0, b"kept")]
    replay = replayed(made, [(2, 4, b"never synced"), (9, 0, b"?")], damage=(2 * BLOCK_BYTES + 48,))
    stored = replay.contents.objects[2]
    assert (stored.size, stored.cut_bytes, stored.damaged) == (4, 12, False)
    assert replay.reports == []
    assert replay.contents.changed >= {2}


def test_replaying_over_what_is_copied_changes_nothing() -> None:
    contents = Contents()
    contents.apply(NamespaceMade(1, "n", bytes(16)))
    contents.apply(ObjectState(2, 1, "x", 0, 8, crc32c(b"12345678"), 5, None, 0, False))
    replay = replayed([(2, 0, b"1234"), (2, 4, b"5678")], [(2, 8, b"9")], [row(ObjectDeleted(7))], contents=contents)
    stored = contents.objects[2]
    assert (stored.size, stored.copied, stored.crc) == (9, 8, crc32c(b"123456789"))
    assert stored.logged is not None
    assert [piece.offset for piece in stored.logged.pieces(0, 9)] == [8]
    assert (replay.deleted, stored.namespace.used_bytes) == ([7], 9)


def test_the_first_batch_tells_the_generation_of_a_lost_header() -> None:
    batch = make_batch([(2, 0, b"x" * 5000)], generation=9)
    assert (batch_length(batch[:100]), first_generation(batch)) == (len(batch), 9)
    assert first_generation(batch[:BLOCK_BYTES]) == 0
    assert (batch_length(b""), batch_length(bytes(100))) == (0, 0)


@pytest.mark.parametrize("rows", [b"\0", b"\0\5abc", b"\0\2\x92\x06\2"])
def test_whole_records_with_cut_rows_are_damage(rows: bytes) -> None:
    checkpoint = CatalogCheckpoint(sequence=1, replay_from=1, open_generation=0, next_number=1)
    with pytest.raises(DamagedError):
        decode_record(encode_record(checkpoint, rows))
