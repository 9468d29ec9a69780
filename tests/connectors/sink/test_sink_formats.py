"""A sink's log and its rules: what is read, what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import connectors.sink
from connectors.sink.durable_file import DurableFile
from connectors.sink.file_sink import FileSink, committed_pieces
from connectors.sink.sink_history import (
    SinkHistory,
    SinkLogError,
    SinkTransaction,
    first_line,
    log_line,
    read_line,
    shortened,
)
from connectors.sink.sink_log import SinkLog
from connectors.sink.sink_rows import SinkRow, SinkRows, payloads_of
from connectors.sink.sink_rules import SinkRules, parse_rules
from connectors.wire.row_run import RowRun
from sos_client.settings import SettingsError


def prepared(name: str, first: int, after: int, *, vote: bool = True) -> bytes:
    return log_line("prepared", transaction=name, vote=vote, first=first, after=after, rows=2)


def history_of(*lines: bytes) -> SinkHistory:
    history = SinkHistory()
    for number, line in enumerate((first_line("0123456789abcdef"), *lines), start=1):
        read_line(line, history, number=number, what="log")
    return history


def test_the_history_is_what_the_lines_say() -> None:
    history = history_of(
        log_line("instance", instance="q"),
        prepared("t1", 0, 9),
        log_line("committed", transaction="t1", at="2030-01-01T00:00:00Z"),
        prepared("t2", 9, 20, vote=False),
        log_line("aborted", transaction="t2"),
        log_line("note", text="by hand"),
        prepared("t3", 9, 20),
    )
    assert (history.instance, history.end, history.rows, history.last) == ("q", 9, 2, "t1")
    assert history.id == "0123456789abcdef"
    third = SinkTransaction(id="t3", first=9, after=20, first_row=2, rows=2)
    assert history.prepared == {"t3": (third, True)}
    assert history.held == third
    assert history_of(prepared("t", 0, 1, vote=False)).held is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"kind": "other"}',
        b'{"kind": "sink", "format": 3}',
        log_line("state", instance="q", last="t", end="nine", rows=0),
        log_line("committed", transaction="unknown"),
        log_line("aborted", transaction="unknown"),
        b'{"kind": "prepared", "transaction": "t"}',
    ],
)
def test_what_is_not_a_line(line: bytes) -> None:
    with pytest.raises(SinkLogError, match="log: line 2 cannot be read"):
        history_of(line)


def test_what_is_not_the_log_of_a_sink() -> None:
    with pytest.raises(SinkLogError, match="not the log of a sink"):
        read_line(log_line("note"), SinkHistory(), number=1, what="log")


@pytest.mark.parametrize(("first", "vote"), [(0, False), (5, True)])
def test_what_cannot_have_been_committed(first: int, *, vote: bool) -> None:
    with pytest.raises(SinkLogError, match="cannot have been committed"):
        history_of(prepared("t", first, 9, vote=vote), log_line("committed", transaction="t"))


def test_rules_are_those_of_wallaroo() -> None:
    rules = parse_rules(
        [
            "# a comment",
            "",
            '("A comment as Wallaroo\'s sink has them.",)',
            '("txnid-regexp", ":3:", False, True, False)',
            "('txnid-regexp', ':3:1', True, False, True)",
            '("stream-content", 1, "boo.*m")',
        ]
    )
    third, again = rules.for_transaction("q:3:2.1"), rules.for_transaction("q:3:1.1")
    assert third is not None
    assert again is not None
    assert (third.vote, third.close_before, third.close_after) == (False, True, False)
    assert (again.vote, again.close_before, again.close_after) == (True, False, True)
    assert rules.for_transaction("q:4:1.1") is None
    assert rules.refuse_row(b"a boom")
    assert not rules.refuse_row(b"a row")
    assert SinkRules().for_transaction("t") is None


@pytest.mark.parametrize("line", ["()", "1", '("txnid-regexp", "(", True, True, True)', "open('x')", "(", '("x", 1)'])
def test_what_is_not_a_rule(line: str) -> None:
    with pytest.raises(SettingsError, match="line 2 of the rules"):
        parse_rules(["", line])


def logs_of_the_document() -> list[bytes]:
    document = (Path(connectors.sink.__file__).parent / "SINK_LOG.md").read_text(encoding="utf-8")
    return [example.encode() for example in re.findall(r"```log\n(.*?)```", document, re.DOTALL)]


def read_log_text(text: bytes) -> SinkHistory:
    history = SinkHistory()
    for number, line in enumerate(text.splitlines(), start=1):
        read_line(line, history, number=number, what="log")
    return history


def test_the_log_of_the_document() -> None:
    """Of format 1, which is read as it ever was."""
    history = read_log_text(logs_of_the_document()[0])
    assert (history.instance, history.end, history.rows, history.last) == ("q", 9, 2, "q:0:1.1")


def test_the_shortened_log_of_the_document() -> None:
    text = logs_of_the_document()[1]
    history = read_log_text(text)
    assert (history.instance, history.last, history.end, history.rows) == ("q", "q:0:1.1", 9, 2)
    assert list(history.prepared) == ["q:1:1.2"]
    assert shortened(history) == text


def test_a_state_is_the_second_line() -> None:
    state = log_line("state", instance="q", last="t1", end=9, rows=2)
    assert history_of(state).end == 9
    with pytest.raises(SinkLogError, match="the second line"):
        history_of(log_line("instance", instance="q"), state)


def test_a_long_log_begins_again_with_what_it_comes_to(tmp_path: Path) -> None:
    """With the vote that was given, so that a relay gets the same answers; and the filter gives the same."""
    rows, path = tmp_path / "rows", tmp_path / "log"
    log = SinkLog(path, bytes_max=2000)
    sink = FileSink(rows, log.history)
    log.write("instance", instance="q")
    sizes = []
    for number in range(100):
        sink.receive([SinkRow(log.history.end, b"", f"row {number:03}".encode())])
        transaction = f"q:{number}:1.{number}"
        end = log.history.end
        log.write("prepared", transaction=transaction, vote=True, first=end, after=end + 7, rows=1)
        whole = b"".join(f"row {one:03}\n".encode() for one in range(number))
        assert b"".join(committed_pieces(rows, path)) == whole
        log.close()
        log = SinkLog(path, bytes_max=2000)
        assert log.history.held is not None
        assert log.history.held.id == transaction
        log.write("committed", transaction=transaction)
        sizes.append(path.stat().st_size)
    sink.close()
    assert max(sizes) < 2300
    assert (log.history.instance, log.history.end, log.history.rows) == ("q", 700, 100)
    assert (log.history.last, log.history.prepared) == ("q:99:1.99", {})
    assert len(SinkLog(path).history.id) == 16
    log.close()


def test_a_log_that_cannot_be_shortened_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SinkLog(tmp_path / "log", bytes_max=1)
    log.write("instance", instance="q")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    for number in range(50):
        log.write("prepared", transaction=str(number), vote=False, first=0, after=0, rows=0)
        log.write("aborted", transaction=str(number))
    assert (tmp_path / "log").read_bytes().count(b"\n") == 103 - 1
    assert not (tmp_path / "log.new").exists()
    log.close()


def test_rows_are_made_when_they_are_looked_at() -> None:
    rows = SinkRows([RowRun(5, 8, [b"a", b"bc"], None), RowRun(8, 10, [b"de"], [b"key"])])
    expected = [SinkRow(5, b"", b"a"), SinkRow(6, b"", b"bc"), SinkRow(8, b"key", b"de")]
    assert (list(rows), len(rows), rows[1], rows[-1], rows[1:]) == (expected, 3, expected[1], expected[2], expected[1:])
    assert payloads_of(rows) == payloads_of(expected) == [b"a", b"bc", b"de"]
    assert payloads_of(SinkRows([RowRun(0, 1, [b"a"], None)])) == [b"a"]


def test_much_is_written_out_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told to the disk as it comes; what is in the file is the same, also when it is cut and grows again."""
    monkeypatch.setattr("connectors.sink.durable_file.WRITE_OUT_BYTES", 1000)
    told: list[tuple[int, int]] = []
    advise = os.posix_fadvise

    def noted(handle: int, start: int, length: int, advice: int) -> None:
        told.append((start, length))
        advise(handle, start, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", noted)
    file = DurableFile(tmp_path / "out")
    file.append(b"a" * 600)
    file.append(b"b" * 600)
    file.append(b"c" * 600)
    file.sync()
    assert told == [(0, 1200), (0, 1800)]
    file.append(b"d" * 10)
    file.sync()
    assert len(told) == 2
    file.cut(500)
    file.append(b"e" * 1000)
    file.sync()
    assert told[2:] == [(500, 1000), (500, 1000)]
    file.close()
    assert (tmp_path / "out").read_bytes() == b"a" * 500 + b"e" * 1000
