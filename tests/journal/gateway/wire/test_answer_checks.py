"""A service that lies, or mixes its answers up, is not believed; the true one is, afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, JournalError
from journal.gateway.client.client import ClientSettings, open_volume
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.answer_checks import (
    CHARACTERS_KEPT_MAX,
    ENTRIES_KEPT_MAX,
    Kept,
    bytes_due,
    check_answer,
    check_epoch,
    check_file,
)
from journal.gateway.wire.encoding import encode
from journal.volume import ClaimedPath, FileStatus, OperationId, PathClaim
from sos_client.wire.errors import ProtocolError
from sos_client.wire.frames import FrameSplitter
from sos_client.wire.limits import EPOCHS_AHEAD_MAX
from tests.journal.gateway.conftest import HELLO, OPEN, Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from journal.gateway.client.client import RemoteVolume

STAMP = m.Stamp(operation=OperationId(client=bytes(16), sequence=1), claim=None, epoch_seen=0)
CLAIM = PathClaim(application="app", start_time=1)


def entry(path: str, size: int = 3, *, is_directory: bool = False) -> FileStatus:
    return FileStatus(path=path, is_directory=is_directory, size=size, modified_ms=7)


def status(path: str, size: int = 3, *, is_directory: bool = False, epoch: int = 5) -> m.StatusAnswer:
    return m.StatusAnswer(epoch=epoch, status=entry(path, size, is_directory=is_directory))


def page(*paths: str, more: bool = False) -> m.PageAnswer:
    return m.PageAnswer(epoch=5, entries=tuple(entry(path) for path in paths), more=more)


def claims(*paths: str, more: bool = False) -> m.ClaimPageAnswer:
    return m.ClaimPageAnswer(epoch=5, claims=tuple(ClaimedPath(path, CLAIM) for path in paths), more=more)


WELCOME = m.WelcomeAnswer(version=1, service=bytes(16), frame_bytes_max=1, piece_bytes_max=1, time_ms=0)
STAT = m.StatRequest(path="f", epoch_seen=0)
PUT = m.PutRequest(path="f", overwrite=True, stamp=STAMP, payload=b"abc")
APPEND = m.AppendRequest(path="f", size=1, modified_ms=7, stamp=STAMP, payload=b"bc")
LIST = m.ListRequest(path="d", after="b", limit=2, epoch_seen=0)
ROOT = m.ListRequest(path="", after="", limit=2, epoch_seen=0)
CLAIMS = m.ClaimsRequest(after=None, limit=2, epoch_seen=0)
READ = m.ReadRequest(path="f", offset=1, length=None, modified_ms=7, epoch_seen=0)
MKDIRS = m.MkdirsRequest(path="d", stamp=STAMP)
DELETE = m.DeleteRequest(path="d", recursive=False, stamp=STAMP)
NOT_DONE = m.DoneAnswer(epoch=5, applied=False)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (HELLO, WELCOME),
        (OPEN, m.OpenedAnswer(epoch=5, volume="payments")),
        (STAT, status("f")),
        (STAT, status("f", is_directory=True)),
        (PUT, status("f")),
        (APPEND, status("f")),
        (LIST, page("d/c", "d/ü")),
        (LIST, page("d/c", more=True)),
        (LIST, page()),
        (ROOT, page("a", "b")),
        (m.ListRequest(path="f", after="", limit=2, epoch_seen=0), page("f")),
        (CLAIMS, claims("", "a", more=True)),
        (m.ClaimsRequest(after="a", limit=2, epoch_seen=0), claims("a/b")),
        (m.PingRequest(number=1), m.PongAnswer(epoch=5, number=1, time_ms=0)),
        (DELETE, NOT_DONE),
        (m.ReleaseRequest(path="d", stamp=STAMP), NOT_DONE),
        (MKDIRS, m.DoneAnswer(epoch=5, applied=True)),
    ],
)
def test_what_may_be_answered(request_: m.Request, answer: m.Answer) -> None:
    check_answer(request_, answer)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (HELLO, dataclasses.replace(WELCOME, version=2)),
        (OPEN, m.OpenedAnswer(epoch=5, volume="other")),
        (STAT, status("g")),
        (PUT, status("g")),
        (PUT, status("f", 4)),
        (PUT, status("f", is_directory=True)),
        (APPEND, status("f", 2)),
        (LIST, page("e/c")),
        (LIST, page("dc")),
        (LIST, page("d/")),
        (LIST, page("d/c/d")),
        (LIST, page("d/b")),
        (LIST, page("d/d", "d/c")),
        (LIST, page("d/c", "d/c")),
        (LIST, page("d/c", "d/d", "d/e")),
        (LIST, page(more=True)),
        (LIST, page("d")),
        (m.ListRequest(path="f", after="", limit=2, epoch_seen=0), page("f", more=True)),
        (CLAIMS, claims("b", "a")),
        (CLAIMS, claims("a", "b", "c")),
        (CLAIMS, claims(more=True)),
        (m.ClaimsRequest(after="a", limit=2, epoch_seen=0), claims("a")),
        (m.PingRequest(number=1), m.PongAnswer(epoch=5, number=2, time_ms=0)),
        (MKDIRS, NOT_DONE),
    ],
)
def test_what_cannot_be_the_answer(request_: m.Request, answer: m.Answer) -> None:
    with pytest.raises(ProtocolError):
        check_answer(request_, answer)


def test_how_many_bytes_a_read_is_due() -> None:
    assert bytes_due(READ, entry("f", 10)) == 9
    assert bytes_due(dataclasses.replace(READ, length=4), entry("f", 10)) == 4
    assert bytes_due(dataclasses.replace(READ, offset=11), entry("f", 10)) == 0
    for wrong in (entry("g"), entry("f", is_directory=True), entry("f")._replace(modified_ms=8)):
        with pytest.raises(ProtocolError):
            bytes_due(READ, wrong)


def test_what_is_written_is_a_file_of_that_size() -> None:
    check_file("f", entry("f"), 3)
    with pytest.raises(ProtocolError):
        check_file("f", entry("f"), 4)


def test_epochs_that_cannot_be() -> None:
    """What a server of the same clock lets somebody claim can be, also when the clocks differ by days."""
    for now_seconds in (0.0, 1_900_000_000.7):
        last = int(now_seconds) + 2 * EPOCHS_AHEAD_MAX
        check_epoch(last, now_seconds)
        for epoch in (last + 1, 2**63 - 1):
            with pytest.raises(ProtocolError):
                check_epoch(epoch, now_seconds)


def test_what_is_kept_of_all_pages_is_bounded() -> None:
    kept = Kept(what="d")
    kept.add(["a"] * ENTRIES_KEPT_MAX)
    with pytest.raises(JournalError) as caught:
        kept.add(["b"])
    assert caught.value.code is JournalCode.TOO_LARGE
    with pytest.raises(JournalError, match="more than is kept"):
        Kept(what="d").add(["a" * (CHARACTERS_KEPT_MAX + 1)])


class Liar:
    """A service that greets as the true one does, and then gives one answer to whatever is asked."""

    def __init__(self, nursery: trio.Nursery, *answers: m.Answer | m.FileData) -> None:
        self._nursery = nursery
        self._answers = b"".join(map(encode, answers))
        self.connections = 0
        self.asked = 0  # on all of them together

    def connect(self) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._talk, there)
        return here

    async def _talk(self, stream: trio.abc.Stream) -> None:
        splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)
        with contextlib.suppress(trio.BrokenResourceError):  # it is left in the middle of a word
            await self._answer(stream, splitter)

    async def _answer(self, stream: trio.abc.Stream, splitter: FrameSplitter) -> None:
        frames = 0
        async with stream:
            while data := await stream.receive_some(65_536):
                splitter.feed(bytes(data))
                while splitter.next_frame() is not None:
                    frames += 1
                    self.connections += frames == 1
                    self.asked += frames > 2
                    if frames == 2:
                        await stream.send_all(encode(WELCOME) + encode(m.OpenedAnswer(epoch=0, volume="payments")))
                    elif frames > 2:
                        await stream.send_all(self._answers)


async def write_large(volume: RemoteVolume) -> None:
    write = await volume.open_write("large", overwrite=True, operation=volume.new_operation())
    await write.write(bytes(3 << 20))
    await write.commit()


LIES: list[tuple[tuple[m.Answer | m.FileData, ...], Callable[[RemoteVolume], Awaitable[object]]]] = [
    ((status("g"),), lambda volume: volume.stat("f")),
    ((status("f", epoch=2**63 - 1),), lambda volume: volume.stat("f")),
    ((page("x", more=True),), lambda volume: volume.list("d")),
    (
        (status("f"), m.FileData(offset=0, payload=b"abcdef"), m.ReadEndAnswer(epoch=5, next_offset=6)),
        lambda volume: volume.read_file("f"),
    ),
    ((status("f"), m.ReadEndAnswer(epoch=5, next_offset=0)), lambda volume: volume.read_file("f")),
    (
        (status("new", 99),),
        lambda volume: volume.put("new", b"x", overwrite=True, operation=volume.new_operation()),
    ),
    ((status("large", 99),), write_large),
    ((NOT_DONE,), lambda volume: volume.mkdirs("d", operation=volume.new_operation())),
]


async def test_after_an_answer_of_another_kind_no_connection_is_used_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Whose answers are one too many would answer each request with the answer to the one before."""
    liar = Liar(nursery, m.DoneAnswer(epoch=5, applied=True))

    async def dial(_address: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return liar.connect()

    async with open_volume(["liar"], "payments", dial=dial, settings=ClientSettings(seconds=5)) as volume:
        with pytest.raises(JournalError, match="answered DoneAnswer to StatRequest"):
            await volume.stat("f")
    assert liar.asked == liar.connections > 1


async def test_a_running_client_follows_an_epoch_that_somebody_took_as_far_as_the_clock_goes(service: Service) -> None:
    async def dial(_address: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return service.connect().stream

    async with open_volume(["a"], "payments", dial=dial, settings=ClientSettings(seconds=5)) as volume:
        assert (await volume.stat("")).is_directory
        assert volume.epoch == 1
        service.volume.epoch = int(time.time()) + EPOCHS_AHEAD_MAX
        assert (await volume.stat("")).is_directory
        assert volume.epoch == service.volume.epoch


@pytest.mark.parametrize("lie", range(len(LIES)))
async def test_a_liar_is_left_and_the_true_service_asked(
    lie: int, service: Service, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    answers, asking = LIES[lie]
    liar = Liar(nursery, *answers)

    async def dial(address: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return liar.connect() if address == "liar" else service.connect().stream

    async with open_volume(["true"], "payments", dial=dial) as honest:
        await honest.put("f", b"abc", overwrite=True, operation=honest.new_operation())
        await honest.mkdirs("d", operation=honest.new_operation())
    troubles: list[Exception] = []
    settings = ClientSettings(seconds=20, on_trouble=troubles.append)
    async with open_volume(["liar", "true"], "payments", dial=dial, settings=settings) as volume:
        await asking(volume)
        assert volume.epoch == service.volume.epoch
        assert (await volume.stat("f")).size == 3
    assert [type(one) for one in troubles] == [ProtocolError]
