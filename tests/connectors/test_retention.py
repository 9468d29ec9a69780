"""What an ingest volume may forget, how far behind a reader is, and what the small files of the volume say."""

from __future__ import annotations

import pytest

from connectors.ingest.drain_order import DrainOrder, drain_text, parse_drain
from connectors.ingest.known_streams import KnownStreams
from connectors.ingest.reader_position import ReaderPosition, parse_reader, reader_text
from connectors.ingest.report import STREAMS_SHOWN_MAX, volume_report
from connectors.ingest.retention import MessageFile, MessageRetention, bytes_behind, files_to_delete

DAY = 86_400
FILES = [MessageFile(0, 100, 1000), MessageFile(10, 100, 2000), MessageFile(20, 100, 3000), MessageFile(30, 50, 4000)]


def firsts(
    *, readers: list[int], streams_from: int = 30, seconds: int = 1, size: int = 0, now_ms: int = 9000
) -> list[int]:
    retention = MessageRetention(seconds=seconds, size=size)
    gone = files_to_delete(FILES, readers=readers, streams_from=streams_from, retention=retention, now_ms=now_ms)
    return [file.first for file in gone]


def test_files_go_when_all_readers_have_passed_them() -> None:
    assert firsts(readers=[30]) == [0, 10, 20]
    assert firsts(readers=[30, 29]) == [0, 10]
    assert firsts(readers=[9]) == []
    assert firsts(readers=[10]) == [0]


def test_without_a_reader_all_is_needed() -> None:
    assert firsts(readers=[]) == []


def test_a_listener_that_begins_needs_what_follows_the_newest_streams() -> None:
    assert firsts(readers=[30], streams_from=20) == [0, 10]
    assert firsts(readers=[30], streams_from=0) == []


def test_the_last_file_stays() -> None:
    assert firsts(readers=[1000], streams_from=1000) == [0, 10, 20]
    assert files_to_delete([], readers=[1], streams_from=0, retention=MessageRetention(), now_ms=0) == []


def test_age_or_size_whichever_comes_first() -> None:
    assert firsts(readers=[30], now_ms=3500) == [0, 10]
    assert firsts(readers=[30], seconds=DAY, size=260) == [0]
    assert firsts(readers=[30], seconds=0, size=150) == [0, 10]
    assert firsts(readers=[30], seconds=0) == []


@pytest.mark.parametrize(("needs", "behind"), [(35, 0), (30, 50), (25, 100), (20, 150), (5, 300), (0, 350), (40, 0)])
def test_how_far_behind(needs: int, behind: int) -> None:
    assert bytes_behind(FILES, 35, needs) == behind


def test_a_file_without_rows_keeps_nobody() -> None:
    assert bytes_behind([*FILES, MessageFile(35, 40, 5000)], 35, 20) == 150


def test_a_reader_is_read_as_it_was_written() -> None:
    text = reader_text(17, {"query": "my clicks", "application": "a"})
    assert text == b"sos-ingest-reader 1 17\nquery my clicks\napplication a\n"
    found = parse_reader("q-0", text, 5)
    assert (found.name, found.needs, found.written_ms, found.understood) == ("q-0", 17, 5, True)
    assert found.remarks == {"query": "my clicks", "application": "a"}
    assert reader_text(0) == b"sos-ingest-reader 1 0\n"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"sos-ingest-reader 2 17\n",
        b"sos-ingest-reader 1\n",
        b"sos-ingest-reader 1 -1\n",
        b"sos-ingest-reader 1 x\n",
        b"sos-ingest-reader 1 9223372036854775808\n",
        b"sos-ingest-reader 1 17 18\n",
        b"\xff\xff",
    ],
)
def test_what_is_not_understood_needs_everything(text: bytes) -> None:
    found = parse_reader("q", text, 5)
    assert (found.needs, found.understood, found.remarks) == (0, False, {})


def test_an_order_to_drain() -> None:
    order = DrainOrder(epoch=7, address="b:7431")
    assert drain_text(order) == b"sos-ingest-drain 1 7 b:7431\n"
    assert parse_drain(drain_text(order)) == order
    for wrong in (b"", b"sos-ingest-drain 2 7 b:1", b"sos-ingest-drain 1 x b:1", b"sos-ingest-drain 1 7", b"\xff"):
        assert parse_drain(wrong) is None


def test_a_report_has_what_is_stored() -> None:
    streams = KnownStreams()
    streams.introduce(1, "one")
    streams.introduce(2, "two")
    streams.points[2] = 9
    readers = [
        ReaderPosition(name="q", needs=25, written_ms=3, remarks={"query": "x"}),
        ReaderPosition(name="late", needs=4, written_ms=3),
        ReaderPosition(name="odd", needs=0, written_ms=3, understood=False),
    ]
    report = volume_report(
        volume="v", files=FILES[1:], next_sequence=35, readers=readers, streams=streams, in_use={2: "p:1", 3: "p:2"}
    )
    assert (report["oldest_sequence"], report["next_sequence"], report["log_bytes"]) == (10, 35, 250)
    found = [(one["lag_messages"], one["lag_bytes"], one["rewind_messages"]) for one in report["readers"]]
    assert found == [(10, 100, 15), (31, 250, 0), (35, 250, 0)]
    assert [one["lost_messages"] for one in report["readers"]] == [0, 6, 0]
    assert report["streams"] == [
        {"stream_id": 2, "name": "two", "point_of_reference": 9, "peer": "p:1"},
        {"stream_id": 1, "name": "one", "point_of_reference": None, "peer": None},
    ]
    empty = volume_report(volume="v", files=[], next_sequence=4, readers=[], streams=KnownStreams(), in_use={})
    assert (empty["oldest_sequence"], empty["streams"]) == (4, [])


def test_a_report_of_very_many_streams_shows_some_of_them() -> None:
    streams = KnownStreams()
    for stream_id in range(STREAMS_SHOWN_MAX + 5):
        streams.introduce(stream_id, "s")
    in_use = {STREAMS_SHOWN_MAX + 2: "p:1"}
    report = volume_report(volume="v", files=[], next_sequence=0, readers=[], streams=streams, in_use=in_use)
    assert report["streams_known"] == STREAMS_SHOWN_MAX + 5
    assert len(report["streams"]) == STREAMS_SHOWN_MAX
    assert report["streams"][0]["peer"] == "p:1"
