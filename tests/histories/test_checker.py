"""The judge itself: it says nothing about a right history, and something about each kind of wrong one."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import TYPE_CHECKING

import msgpack
import pytest

from sos_client.wire.checksum import crc32c
from tests.fakes.virtual_time import in_virtual_time
from tests.histories.checker import Call, check, digest_of, from_lines, to_lines
from tests.histories.log_bytes import BrokenLogError, read_log
from tests.journal.cluster import create, memory_cluster, open_on

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENT = b"c" * 16
HEX = CLIENT.hex()
OWNER = b"o" * 16


class Writer:
    """Segments by the letter of FORMAT.md."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.lsn, self.chain, self.time_ms = 0, bytes(8), 1000
        self.name = ""

    def segment(self, epoch: int, *, holder: bytes = b"h" * 16) -> Writer:
        link = None if not self.name else [self.name, self.lsn, self.chain]
        self.name = f"{self.lsn:016x}-{epoch:08x}-{holder.hex()}.seg"
        self.objects[self.name] = b""
        configuration = [[[b"i" * 16, b"n" * 16, "a:1"]], 1]
        meta = [1, b"v" * 16, [configuration, None], epoch, holder, [b"i" * 16 + b"n" * 16], link, 0, 0, 0, ""]
        self.record(1, meta, client=bytes(16), sequence=0)
        return self

    def record(
        self, kind: int, meta: object, payload: bytes = b"", *, client: bytes = CLIENT, sequence: int = 0
    ) -> Writer:
        packed = msgpack.packb(meta)
        self.time_ms += 1
        fixed = struct.pack(
            ">4sBBHIIQQQ16sQII",
            *(b"SOSr", 1, kind, 0, len(packed), len(payload), self.lsn, 0, self.time_ms, client, sequence),
            *(crc32c(packed), crc32c(payload)),
        )
        fixed += struct.pack(">I", crc32c(fixed))
        self.chain = hashlib.blake2b(self.chain + fixed, digest_size=8).digest()
        data = fixed + self.chain + packed + payload
        self.objects[self.name] += data
        self.lsn += len(data)
        return self

    def put(self, path: str, payload: bytes, sequence: int) -> Writer:
        return self.record(2, [path, None], payload, sequence=sequence)


def put(path: str, content: bytes, sequence: int, asked: float, *, kind: str = "put", answer: str = "done") -> Call:
    return Call(
        client="d", kind=kind, path=path, asked=asked, answered=asked + 1, answer=answer,
        content=digest_of(content), operation=(HEX, sequence),
    )  # fmt: skip


def read(path: str, content: bytes | None, asked: float, *, client: str = "d") -> Call:
    answer = "NOT_FOUND" if content is None else "done"
    digest = None if content is None else digest_of(content)
    return Call(client=client, kind="read", path=path, asked=asked, answered=asked + 1, answer=answer, content=digest)


def history() -> tuple[Writer, list[Call]]:
    """a=1, b=2, then a is renamed to c, b is deleted; everything is read in between."""
    log = Writer().segment(1).put("a", b"1", 1).put("b", b"2", 2).segment(2)
    log.record(9, ["a", "c"], sequence=3).record(8, ["b"], sequence=4)
    calls = [
        put("a", b"1", 1, 0),
        read("a", b"1", 2),
        put("b", b"2", 2, 4, kind="create"),
        put("b", b"3", 9, 6, kind="create", answer="ALREADY_EXISTS"),
        Call(client="d", kind="rename", path="a", target="c", asked=8, answered=9, answer="done", operation=(HEX, 3)),
        Call(client="d", kind="delete", path="b", asked=10, answered=11, answer="done", operation=(HEX, 4)),
        Call(client="d", kind="delete", path="b", asked=12, answered=13, answer="nothing", operation=(HEX, 5)),
        read("b", None, 14),
        read("c", b"1", 16),
        put("z", b"", 6, 18, answer="OUTCOME_UNKNOWN"),
    ]
    return log, calls


def test_a_right_history_is_right() -> None:
    log, calls = history()
    assert check(calls, read_log([log.objects])) == []
    assert from_lines(to_lines(calls)) == calls


def changed(calls: list[Call], number: int, **fields: object) -> list[Call]:
    return [dataclasses.replace(call, **fields) if at == number else call for at, call in enumerate(calls)]  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[Writer], object], Callable[[list[Call]], list[Call]], str]] = {
    "an acknowledged change is lost": (lambda log: log, lambda calls: [*calls, put("y", b"", 7, 20)], "not in the log"),
    "done twice": (lambda log: log.put("a", b"1", 1), list, "done 2 times"),
    "a phantom": (lambda log: log.put("x", b"x", 77), list, "never asked for"),
    "other content": (lambda log: log, lambda calls: changed(calls, 0, content=digest_of(b"9")), "other content"),
    "another path": (lambda log: log, lambda calls: changed(calls, 0, path="q"), "not what was asked for"),
    "another kind": (lambda log: log, lambda calls: changed(calls, 5, kind="create"), "a record of kind 8"),
    "refused, and done": (lambda log: log, lambda calls: changed(calls, 0, answer="UNAVAILABLE"), "is in the log"),
    "out of order": (lambda log: log, lambda calls: changed(calls, 0, asked=100.0, answered=101.0), "before it was"),
    "should have been refused": (lambda log: log.put("c", b"4", 8),
                                 lambda calls: [*calls, put("c", b"4", 8, 20, kind="create")], "should have been"),
    "refused without reason": (lambda log: log, lambda calls: changed(calls, 3, path="n"), "ALREADY_EXISTS, which was"),
    "nothing there, it says": (lambda log: log, lambda calls: changed(calls, 6, path="c", asked=20, answered=21),
                               "nothing, which was"),
    "a stale read": (lambda log: log, lambda calls: changed(calls, 7, answer="done", content=digest_of(b"2")), "read"),
    "a read of what never was": (lambda log: log, lambda calls: changed(calls, 1, content=digest_of(b"5")), "read"),
    "a read from the future": (lambda log: log, lambda calls: [read("c", b"1", 1, client="e"), *calls], "read"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_seen(name: str) -> None:
    spoil_log, spoil_calls, words = WRONG[name]
    log, calls = history()
    spoil_log(log)
    findings = check(spoil_calls(calls), read_log([log.objects]))
    assert any(words in finding for finding in findings), findings


def append(content: bytes, sequence: int, asked: float, based_on: tuple[int, int], *, answer: str = "done") -> Call:
    return Call(
        client="d", kind="append", path="a", asked=asked, answered=asked + 1, answer=answer,
        content=digest_of(content), based_on=based_on, operation=(HEX, sequence),
    )  # fmt: skip


def growing() -> tuple[Writer, list[Call]]:
    """a=1 grows by 2; a writer that knows the file of before is refused; an owner joins it, and it grows by 3."""
    log = Writer().segment(1).put("a", b"1", 1)
    first = log.time_ms
    log.record(6, ["a", 1], b"2", sequence=2)
    second = log.time_ms
    log.record(3, [1, 0], b"12").record(4, [1, "a", 2, second], client=OWNER)
    log.record(6, ["a", 2], b"3", sequence=4)
    calls = [
        put("a", b"1", 1, 0),
        append(b"2", 2, 2, (1, first)),
        append(b"x", 3, 4, (1, first), answer="CHANGED"),
        append(b"3", 4, 6, (2, second)),
        read("a", b"123", 8),
    ]
    return log, calls


def test_files_that_grow_are_judged() -> None:
    log, calls = growing()
    assert check(calls, read_log([log.objects])) == []
    assert from_lines(to_lines(calls)) == calls


def join(log: Writer, content: bytes, modified_ms: int) -> Writer:
    log.record(3, [2, 0], content)
    return log.record(4, [2, "a", len(content), modified_ms], client=OWNER, sequence=9)


GROWN_WRONG: dict[str, tuple[Callable[[Writer], object], Callable[[list[Call]], list[Call]], str]] = {
    "to another file of that size": (lambda log: log, lambda calls: changed(calls, 3, based_on=(2, 1)), "should have"),
    "other content": (lambda log: log, lambda calls: changed(calls, 1, content=digest_of(b"9")), "other content"),
    "refused without reason": (lambda log: log,
                               lambda calls: changed(calls, 2, based_on=(3, 1006), asked=9, answered=10),
                               "CHANGED, which was never so"),
    "joined with other content": (lambda log: join(log, b"9", 1006), list, "never asked for"),
    "joined under another time": (lambda log: join(log, b"123", 1), list, "never asked for"),
    "of another size": (lambda log: log.record(6, ["a", 9], b"4", sequence=5), list, "other than 9 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWN_WRONG)
def test_files_that_grow_wrongly_are_seen(name: str) -> None:
    spoil_log, spoil_calls, words = GROWN_WRONG[name]
    log, calls = growing()
    spoil_log(log)
    findings = check(spoil_calls(calls), read_log([log.objects]))
    assert any(words in finding for finding in findings), findings


def test_time_that_goes_back_is_seen() -> None:
    log = Writer().segment(1).put("a", b"1", 1)
    log.time_ms -= 500
    log.put("a", b"2", 2)
    calls = [put("a", b"1", 1, 0), put("a", b"2", 2, 2)]
    assert check(calls, read_log([log.objects])) == [f"time goes back at LSN {read_log([log.objects])[2].begin}"]


def test_copies_complete_each_other() -> None:
    log, calls = history()
    first, last = sorted(log.objects)
    flipped = bytearray(log.objects[first])
    flipped[-1] ^= 1
    torn = {**log.objects, last: log.objects[last][:-3]}
    damaged = {**log.objects, first: bytes(flipped)}
    assert check(calls, read_log([torn, damaged])) == []
    again = {**damaged, f"{first}.01": log.objects[first]}
    assert check(calls, read_log([again])) == []
    with pytest.raises(BrokenLogError, match="no copy has the record"):
        read_log([damaged])


def test_what_no_header_goes_on_from_never_counted() -> None:
    log, calls = history()
    first = min(log.objects)
    beyond = Writer().segment(1).put("a", b"1", 1).put("b", b"2", 2).put("lost", b"?", 8)
    assert len(beyond.objects[first]) > len(log.objects[first])
    assert check(calls, read_log([{**log.objects, first: beyond.objects[first]}])) == []


def test_less_than_was_acknowledged_is_seen() -> None:
    log, _ = history()
    with pytest.raises(BrokenLogError, match="no copy has"):
        read_log([log.objects], acknowledged=log.lsn + 1)
    with pytest.raises(BrokenLogError, match="no copy has a whole header"):
        read_log([{}])


@in_virtual_time
async def test_it_reads_what_the_journal_writes() -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            await journal.rename("a", "b")
            await journal.put("large", bytes(5000))
            lsn = journal.acknowledged_lsn
        copies = [{name: bytes(one.content) for name, one in servers.objects(name).items()} for name in servers.names]
    records = read_log(copies, acknowledged=lsn)
    client = records[-1].client.hex()
    assert [record.kind for record in records if record.client.hex() == client] == [2, 9, 2]
    assert check([], records, strangers=[client]) == []
    assert len(check([], records)) == 3
