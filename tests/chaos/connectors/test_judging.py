"""Whoever follows the sinks of a crash test sees what a sink must not do, also when it writes its log again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from connectors.sink.file_sink import FileSink
from connectors.sink.sink_log import SinkLog
from connectors.sink.sink_rows import SinkRow
from tests.chaos.connectors.judge import SinkFollower, Verdicts
from tests.chaos.connectors.lines import STREAMS, TotalLines, amount
from tests.chaos.connectors.watch import Watch

if TYPE_CHECKING:
    from pathlib import Path


def total(count: int) -> bytes:
    return f"{STREAMS[0]} {count} {sum(amount(number) for number in range(count))}".encode()


class WrittenSink:
    """A sink's two files, and who follows it."""

    def __init__(self, folder: Path, *, log_bytes_max: int = 1 << 20) -> None:
        self.out, self.log_path = folder / "out", folder / "log"
        self.log = SinkLog(self.log_path, bytes_max=log_bytes_max)
        self.file = FileSink(self.out, self.log.history)
        self.verdicts = Verdicts()
        self.follower = SinkFollower(self.out, self.log_path, TotalLines(), self.verdicts)
        self.log.write("instance", instance="q")

    def prepare(self, name: str, *rows: bytes) -> None:
        first = self.log.history.end
        self.file.receive([SinkRow(first, b"", row) for row in rows])
        after = first + sum(map(len, rows))
        self.log.write("prepared", transaction=name, vote=True, first=first, after=after, rows=len(rows))

    def commit(self, name: str, *rows: bytes) -> None:
        self.prepare(name, *rows)
        self.log.write("committed", transaction=name)


@pytest.fixture
def sink(tmp_path: Path) -> WrittenSink:
    return WrittenSink(tmp_path)


def test_committed_rows_are_judged_and_others_are_not(sink: WrittenSink) -> None:
    sink.commit("t1", total(1), total(3))
    sink.follower.look()
    sink.prepare("t2", total(4))
    sink.follower.look()
    assert sink.follower.rows == 2
    sink.log.write("committed", transaction="t2")
    sink.follower.look()
    sink.follower.look_again()
    assert (sink.follower.rows, sink.follower.findings) == (3, [])


def test_a_row_that_comes_again_is_found(sink: WrittenSink) -> None:
    sink.commit("t1", total(1))
    sink.commit("t2", total(1))
    sink.follower.look()
    assert "came again" in sink.follower.findings[0]


def test_committed_rows_that_change_are_found(sink: WrittenSink) -> None:
    sink.commit("t1", total(1))
    sink.follower.look()
    sink.out.write_bytes(sink.out.read_bytes().replace(b"1", b"2", 1))
    sink.follower.look_again()
    assert "has changed" in sink.follower.findings[0]


def test_committed_rows_that_are_gone_are_found(sink: WrittenSink) -> None:
    sink.prepare("t1", total(1), total(2))
    sink.out.write_bytes(b"")
    sink.log.write("committed", transaction="t1")
    sink.follower.look()
    assert "has fewer" in sink.follower.findings[0]


def test_a_log_that_forgets_a_commit_is_found(sink: WrittenSink) -> None:
    sink.commit("t1", total(1))
    before = sink.log_path.read_bytes()
    sink.commit("t2", total(2))
    sink.follower.look()
    sink.log_path.with_name("other").write_bytes(before)
    sink.log_path.with_name("other").replace(sink.log_path)
    sink.follower.look()
    assert "were committed, and now" in sink.follower.findings[0]


def test_a_log_that_is_written_again_is_followed(tmp_path: Path) -> None:
    sink = WrittenSink(tmp_path, log_bytes_max=600)
    for number in range(1, 30):
        sink.commit(f"q:{number}:1.{number}", total(number))
        sink.follower.look()
        sink.follower.look_again()
    assert sink.log_path.stat().st_size < 1000
    assert (sink.follower.rows, sink.follower.findings) == (29, [])


def test_sinks_that_disagree_are_found() -> None:
    verdicts = Verdicts()
    verdicts.take("a", "t1", "committed")
    verdicts.take("b", "t1", "committed")
    assert verdicts.findings == []
    verdicts.take("c", "t1", "aborted")
    assert verdicts.findings == ["transaction t1: aborted at c, and committed at a"]


def test_whoever_waits_is_told_of_rows_and_of_findings(sink: WrittenSink) -> None:
    watch = Watch([sink.follower], sink.verdicts)
    watch.start()
    assert not watch.wait_for(1, 0.2)
    for stream in STREAMS:
        sink.commit(f"t-{stream}", f"{stream} 1 {amount(0)}".encode())
    assert watch.wait_for(1, 10)
    assert not watch.wait_for(2, 0.2)
    watch.note("somebody has seen something")
    assert watch.wait_for(2, 10)
    watch.stop()
    assert watch.findings == ["somebody has seen something"]
