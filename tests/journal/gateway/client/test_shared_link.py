"""The Python client on a shared connection: whose answer is whose, what others notice when one gives up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, JournalError
from journal.gateway.client import service_pool
from journal.gateway.client.client import SHARED_PUT_BYTES_MAX, ClientSettings, open_volume
from journal.gateway.client.shared_link import IN_PROGRESS_MAX
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.tagging import OF_THE_CONNECTION, tagged
from journal.volume import FileStatus
from tests.fakes.cut_stream import CutStream
from tests.journal.gateway.client.test_client import Network
from tests.journal.gateway.conftest import Service

if TYPE_CHECKING:
    from journal.gateway.client.client import RemoteVolume

Clock = trio.testing.MockClock
SHARED = ClientSettings(shared=True)
BRIEF = ClientSettings(shared=True, seconds=5.0)
WELCOME = m.WelcomeAnswer(version=2, service=bytes(16), frame_bytes_max=1, piece_bytes_max=1, time_ms=0)
STATUS = FileStatus(path="f", is_directory=False, size=1, modified_ms=1)
pytestmark = pytest.mark.parametrize("shared", [True], ids=["shared"], indirect=True)


async def _put(volume: RemoteVolume, path: str, content: bytes = b"x") -> int:
    return (await volume.put(path, content, overwrite=True, operation=volume.new_operation())).size


class Scripted:
    """A service that greets, at some epoch, and answers the first request with what it is told to."""

    def __init__(self, *frames: bytes, epoch: int = 1) -> None:
        opened = tagged(1, encode(m.OpenedAnswer(epoch=epoch, volume="payments")))
        self._answers = encode(WELCOME) + opened, b"".join(frames)
        self.dialled = 0
        self.asked = 0  # on all connections together

    async def dial(self, _address: str) -> trio.abc.Stream:
        self.dialled += 1
        here, there = trio.testing.memory_stream_pair()
        answers = iter(self._answers)

        async def answer() -> None:
            self.asked += 1
            await there.send_all(next(answers, b""))

        here.send_stream.send_all_hook = answer
        self.asked -= 1  # for the greeting
        return here


class ChokedStream(trio.abc.Stream):
    """Nothing is taken from its sender before `taking`."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner
        self.taking = trio.Event()
        self.taking.set()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.taking.wait()
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.taking.wait()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()


class SlowStream(ChokedStream):
    """What comes does so at 20 KB/s."""

    _rest = b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if not self._rest:
            self._rest = bytes(await super().receive_some(max_bytes))
        await trio.sleep(0.1)
        piece, self._rest = self._rest[:2000], self._rest[2000:]
        return piece


async def test_many_tasks_share_one_connection(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume, trio.open_nursery() as nursery:
        for number in range(600):
            nursery.start_soon(_put, volume, f"f{number}", b"%d" % number)
    assert len(service.volume.tree) == 601
    assert all(service.volume.tree[f"f{number}"].content == b"%d" % number for number in range(600))
    assert network.dialled == ["a"]


async def test_large_puts_and_what_is_read_have_connections_of_their_own(service: Service) -> None:
    network, content = Network(a=service), os.urandom(SHARED_PUT_BYTES_MAX + 1)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        assert await _put(volume, "small", content[:-1]) == SHARED_PUT_BYTES_MAX
        assert network.dialled == ["a"]
        assert await _put(volume, "large", content) == len(content)
        assert network.dialled == ["a", "a"]
        assert (await volume.read_file("large"))[1] == content
        before = await volume.stat("large")
        await volume.append(
            "large", content, size=before.size, modified_ms=before.modified_ms, operation=volume.new_operation()
        )
    assert network.dialled == ["a", "a"]


async def test_who_gives_up_leaves_the_connection_to_the_others(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        await _put(volume, "before")
        gate = trio.Event()
        service.volume.before_answer = gate.wait
        with trio.move_on_after(0.05) as impatient:
            await _put(volume, "given up")
        assert impatient.cancelled_caught
        service.volume.before_answer = trio.lowlevel.checkpoint
        assert await _put(volume, "after") == 1
        gate.set()
        assert await _put(volume, "later") == 1
    assert network.dialled == ["a"]
    assert "given up" in service.volume.tree


async def test_who_gave_up_counts_until_its_answer_comes(
    service: Service, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    """Else those that are given up, and what of them could not be sent, would be without a bound."""
    nursery.start_soon(service.gateway.run)
    async with open_volume(["a"], "payments", dial=Network(a=service).dial) as volume:
        await _put(volume, "before")
        gate = trio.Event()
        service.volume.before_answer = gate.wait
        for round_number in range(3):
            async with trio.open_nursery() as asking:
                for number in range(IN_PROGRESS_MAX - 50):
                    asking.start_soon(_put, volume, f"{round_number}-{number}")
                await trio.sleep(0.1)
                asking.cancel_scope.cancel()
        service.volume.before_answer = trio.lowlevel.checkpoint
        gate.set()
        assert await _put(volume, "after") == 1
        await trio.sleep(0.1)
    assert len(service.volume.tree) == len(["", "before", "after"]) + IN_PROGRESS_MAX


async def test_what_is_given_up_before_it_has_left_is_never_sent(service: Service, autojump_clock: Clock) -> None:
    network, choked = Network(a=service), []

    def cut(stream: trio.abc.Stream) -> trio.abc.Stream:
        choked.append(ChokedStream(stream))
        return choked[-1]

    network.cut = cut
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        await _put(volume, "before")
        taking = choked[0].taking = trio.Event()
        async with trio.open_nursery() as asking:
            asking.start_soon(_put, volume, "on its way")
            await trio.sleep(0.1)
            with trio.move_on_after(0.05):
                await _put(volume, "given up")
            taking.set()
        assert await _put(volume, "after") == 1
    assert set(service.volume.tree) == {"", "before", "on its way", "after"}
    assert network.dialled == ["a"]


async def test_of_what_never_left_it_is_known_that_nothing_was_changed(
    service: Service, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    """It waits for room, while all that may be in progress is at a service that works on it."""
    nursery.start_soon(service.gateway.run)
    service.volume.before_answer = trio.sleep_forever
    codes = []
    async with open_volume(["a"], "payments", dial=Network(a=service).dial, settings=BRIEF) as volume:

        async def change(path: str) -> None:
            with pytest.raises(JournalError) as caught:
                await _put(volume, path)
            codes.append(caught.value.code)

        async with trio.open_nursery() as asking:
            for number in range(IN_PROGRESS_MAX + 10):
                asking.start_soon(change, f"f{number}")
    assert codes.count(JournalCode.UNAVAILABLE) == 10
    assert codes.count(JournalCode.OUTCOME_UNKNOWN) == IN_PROGRESS_MAX


async def test_what_comes_slowly_is_no_silence(service: Service, nursery: trio.Nursery, autojump_clock: Clock) -> None:
    """A large answer over a slow line takes longer than a service may be silent."""
    nursery.start_soon(service.gateway.run)
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        for number in range(300):
            await _put(volume, f"{number:0250}")
    network.cut = SlowStream
    began = trio.current_time()
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        assert len((await volume.list("")).entries) == 300
    assert trio.current_time() - began > 2 * limits.SILENCE_SECONDS_MAX
    assert network.dialled == ["a", "a"]


async def test_a_connection_that_breaks_costs_nobody_more_than_another_try(
    service: Service, autojump_clock: Clock
) -> None:
    network = Network(a=service)
    network.cut = lambda stream: CutStream(stream, sent_max=2500, received_max=900)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        for round_number in range(5):
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(_put, volume, f"{round_number}/{number}")
    assert service.volume.runs == 100
    assert len(network.dialled) >= 4


class OfVersion1(trio.abc.Stream):
    """A connection to a service that refuses every other version, as services of version 1 do."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner
        self._greeted = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        version = int.from_bytes(bytes(data)[5:7]) if not self._greeted else 1
        self._greeted = True
        if version == 1:
            await self._inner.send_all(data)
            return
        fields = (("minimum", 1), ("maximum", 1))
        refusal = m.RefusalAnswer(epoch=0, code=JournalCode.VERSION, message="version 1 only", fields=fields)
        await self._inner.aclose()
        self._inner, there = trio.testing.memory_stream_pair()
        await there.send_all(encode(refusal))
        await there.aclose()

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_a_service_of_version_1_is_spoken_to_as_before(service: Service, autojump_clock: Clock) -> None:
    network = Network(a=service)
    network.cut = OfVersion1
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        for number in range(5):
            assert await _put(volume, f"f{number}") == 1
        assert network.dialled == ["a", "a"]
        network.cut = lambda stream: stream
        await trio.sleep(service_pool.SINGLE_SECONDS)
        assert await _put(volume, "upgraded") == 1
        assert await _put(volume, "shared") == 1
    assert network.dialled == ["a", "a", "a"]


async def test_silence_breaks_the_connection_while_an_answer_is_due(autojump_clock: Clock) -> None:
    silent = Scripted()
    async with open_volume(["a"], "payments", dial=silent.dial, settings=BRIEF) as volume:
        with pytest.raises(JournalError, match="no sign for 2 s"):
            await volume.stat("f")
    assert 2 <= silent.dialled <= 3


async def test_an_idle_connection_may_be_silent(service: Service, autojump_clock: Clock) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        await _put(volume, "f")
        await trio.sleep(100)
        await _put(volume, "f")
    assert network.dialled == ["a"]


@pytest.mark.parametrize(
    "frame",
    [
        tagged(3, encode(m.StatusAnswer(epoch=1, status=STATUS))),
        tagged(2, encode(m.StatusAnswer(epoch=1, status=STATUS._replace(path="another")))),
        tagged(2, encode(m.StatusAnswer(epoch=2**60, status=STATUS))),
        tagged(2, encode(m.DoneAnswer(epoch=1, applied=True))),
        tagged(OF_THE_CONNECTION, encode(m.StatusAnswer(epoch=1, status=STATUS))),
        tagged(
            OF_THE_CONNECTION, encode(m.RefusalAnswer(epoch=1, code=JournalCode.NOT_FOUND, message="no", fields=()))
        ),
        encode(m.ByeAnswer()),
        b"\0\0\0\1\xfe",
    ],
    ids=["another tag", "another path", "impossible epoch", "another kind", "no tag", "of nobody", "short", "unknown"],
)
async def test_what_cannot_be_an_answer_is_not_believed(frame: bytes, autojump_clock: Clock) -> None:
    liar = Scripted(frame)
    async with open_volume(["a"], "payments", dial=liar.dial, settings=BRIEF) as volume:
        with pytest.raises(JournalError) as caught:
            await volume.stat("f")
    assert caught.value.code is JournalCode.UNAVAILABLE
    assert liar.asked == liar.dialled > 1, "no connection is used again after that"


async def test_waiting_is_a_sign_of_life(service: Service, nursery: trio.Nursery, autojump_clock: Clock) -> None:
    nursery.start_soon(service.gateway.run)

    async def slow() -> None:
        await trio.sleep(30)

    service.volume.before_answer = slow
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        assert await _put(volume, "f") == 1
    assert network.dialled == ["a"]
    assert service.volume.runs == 1


async def test_the_owner_elsewhere_is_asked_and_those_who_wait_get_their_answers(
    service: Service, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    """One request is told of another owner, while another one waits at the first service."""
    other = Service(nursery)
    network = Network(a=service, b=other)
    nursery.start_soon(service.gateway.run)
    async with open_volume(["a", "b"], "payments", dial=network.dial) as volume:
        gate = trio.Event()
        service.volume.before_answer = gate.wait
        sizes = []

        async def waiting() -> None:
            sizes.append(await _put(volume, "slow"))

        nursery.start_soon(waiting)
        await trio.testing.wait_all_tasks_blocked()
        service.volume.before_answer = trio.lowlevel.checkpoint
        service.volumes.elsewhere["payments"] = "b"
        assert await _put(volume, "quick") == 1
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sizes == [1]
    assert "quick" in other.volume.tree
    assert "slow" in service.volume.tree


async def test_what_a_dial_fails_with_is_told_to_all_who_wait_for_it(autojump_clock: Clock) -> None:
    dialled = 0

    async def dial(_address: str) -> trio.abc.Stream:
        nonlocal dialled
        dialled += 1
        await trio.sleep(1)
        raise ConnectionRefusedError(111, "Connection refused")

    codes = []
    async with open_volume(["a"], "payments", dial=dial, settings=BRIEF) as volume:

        async def ask() -> None:
            with pytest.raises(JournalError, match="refused") as caught:
                await volume.stat("f")
            codes.append(caught.value.code)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
    assert codes == [JournalCode.UNAVAILABLE] * 20
    assert dialled < 10


async def test_no_answer_to_a_change_is_an_unknown_outcome(
    service: Service, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    nursery.start_soon(service.gateway.run)
    service.volume.before_answer = trio.sleep_forever
    async with open_volume(["a"], "payments", dial=Network(a=service).dial, settings=BRIEF) as volume:
        with pytest.raises(JournalError) as caught:
            await _put(volume, "f")
    assert caught.value.code is JournalCode.OUTCOME_UNKNOWN
    assert "f" in service.volume.tree
