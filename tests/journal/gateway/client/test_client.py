"""The Python client when things go wrong: lost connections, other owners, old owners, silence, deadlines."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, JournalError, journal_error
from journal.files.tree_writing import NewFile, write_tree
from journal.gateway.client.client import ClientSettings, RemoteVolume, open_volume
from journal.gateway.client.remote_write import REPLAY_BYTES_MAX
from journal.gateway.client.service_pool import CONNECTIONS_MAX
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode
from journal.volume import PUT_BYTES_MAX, FileStatus
from sos_client.wire.errors import MisuseError
from tests.fakes.cut_stream import CutStream
from tests.journal.gateway.conftest import HELLO, Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

Clock = trio.testing.MockClock
ALONE = pytest.mark.parametrize("shared", [False], ids=["alone"], indirect=True)
"""Of tests that count connections, or play a service of version 1."""


class Network:
    """Addresses of services in memory; `cut` says what becomes of a new connection."""

    def __init__(self, **services: Service) -> None:
        self.services = services
        self.down: set[str] = set()
        self.dialled: list[str] = []
        self.cut: Callable[[trio.abc.Stream], trio.abc.Stream] = lambda stream: stream

    async def dial(self, address: str) -> trio.abc.Stream:
        self.dialled.append(address)
        await trio.lowlevel.checkpoint()
        if address in self.down:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.cut(self.services[address].connect().stream)


async def _code_of(asking: Awaitable[object]) -> JournalCode:
    with pytest.raises(JournalError) as caught:
        await asking
    return caught.value.code


async def _put(volume: RemoteVolume, path: str, content: bytes = b"x", *, overwrite: bool = False) -> int:
    return (await volume.put(path, content, overwrite=overwrite, operation=volume.new_operation())).size


@pytest.fixture
def other(nursery: trio.Nursery) -> Service:
    return Service(nursery)


async def test_one_connection_serves_one_request_after_the_other(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        for number in range(10):
            await _put(volume, f"f{number}")
    assert network.dialled == ["a"]


async def test_whoever_reads_the_log_is_told_where_it_is(service: Service) -> None:
    async with open_volume(["a"], "payments", dial=Network(a=service).dial) as volume:
        assert await volume.describe() == await service.volume.describe()


async def test_at_least_one_address_is_needed() -> None:
    with pytest.raises(MisuseError):
        async with open_volume([], "payments"):
            pass


@ALONE
async def test_many_tasks_share_a_bounded_number_of_connections(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume, trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(_put, volume, f"f{number}")
    assert len(service.volume.tree) == 51
    assert 1 < len(network.dialled) <= 8


async def test_a_service_that_comes_back_costs_a_pause(service: Service, autojump_clock: Clock) -> None:
    network = Network(a=service)
    network.down.add("a")

    async def come_back() -> None:
        await trio.sleep(30)
        network.down.clear()

    async with open_volume(["a"], "payments", dial=network.dial) as volume, trio.open_nursery() as nursery:
        nursery.start_soon(come_back)
        assert await _put(volume, "f") == 1
    assert 30 <= trio.current_time() <= 33


@pytest.mark.parametrize("seed", range(12))
async def test_lost_connections_lose_and_repeat_nothing(service: Service, seed: int, autojump_clock: Clock) -> None:
    """Connections break after any number of bytes, before or after the service did what it was asked."""
    chance = random.Random(seed)
    network = Network(a=service)
    network.cut = lambda stream: CutStream(
        stream, sent_max=int(chance.expovariate(1 / 300)), received_max=int(chance.expovariate(1 / 200))
    )
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        for number in range(30):
            await _put(volume, f"d/{number}", b"%d" % number)
            again = volume.new_operation()
            write = await volume.open_write(f"s/{number}", overwrite=False, operation=again)
            await write.write(b"streamed %d" % number)
            await write.commit()
            assert await volume.delete(f"d/{number}", recursive=False, operation=volume.new_operation())
            assert (await volume.read_file(f"s/{number}"))[1] == b"streamed %d" % number
    assert len(network.dialled) > 15
    assert service.volume.runs == 90


@pytest.mark.parametrize("seed", range(3))
async def test_lost_connections_in_large_files(service: Service, seed: int, autojump_clock: Clock) -> None:
    chance = random.Random(seed)
    data = chance.randbytes(3 * PUT_BYTES_MAX + 5)
    network = Network(a=service)
    network.cut = lambda stream: CutStream(
        stream, sent_max=int(chance.expovariate(1 / 6e6)), received_max=int(chance.expovariate(1 / 6e6))
    )
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        write = await volume.open_write("large", overwrite=False, operation=volume.new_operation())
        await write.write(data)
        assert (await write.commit()).size == len(data)
        assert b"".join([piece async for piece in volume.read("large")]) == data
    assert service.volume.runs == 1


async def test_a_file_too_large_to_keep_is_streamed(service: Service) -> None:
    network = Network(a=service)
    piece = bytes(PUT_BYTES_MAX - 1)
    count = REPLAY_BYTES_MAX // len(piece) + 3
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        write = await volume.open_write("huge", overwrite=False, operation=volume.new_operation())
        for _ in range(count):
            await write.write(piece)
        assert (await write.commit()).size == count * len(piece)
        cancelled = await volume.open_write("never", overwrite=False, operation=volume.new_operation())
        for _ in range(count):
            await cancelled.write(piece)
        await cancelled.cancel()
        assert [entry.path for entry in (await volume.list("")).entries] == ["huge"]


async def test_other_requests_go_on_while_a_file_is_streamed(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        write = await volume.open_write("huge", overwrite=False, operation=volume.new_operation())
        await write.write(bytes(REPLAY_BYTES_MAX + 3 * PUT_BYTES_MAX))
        await _put(volume, "small")
        assert [entry.path for entry in (await volume.list("")).entries] == ["small"]
        await write.write(b"the end")
        assert (await write.commit()).size == REPLAY_BYTES_MAX + 3 * PUT_BYTES_MAX + 7


async def test_a_streamed_file_that_is_refused_midway_frees_its_connection(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        for _ in range(10):
            write = await volume.open_write("bad//path", overwrite=False, operation=volume.new_operation())
            await write.write(bytes(REPLAY_BYTES_MAX + PUT_BYTES_MAX))
            assert await _code_of(write.commit()) is JournalCode.BAD_PATH
        lost = await volume.open_write("lost", overwrite=False, operation=volume.new_operation())
        await lost.write(bytes(REPLAY_BYTES_MAX + PUT_BYTES_MAX))
        service.volume.before_answer = trio.sleep_forever
        with trio.move_on_after(0.1):
            await lost.commit()
        service.volume.before_answer = None
        assert await _put(volume, "f") == 1


async def test_a_streamed_file_whose_connection_is_lost_was_not_written(service: Service) -> None:
    network = Network(a=service)
    network.cut = lambda stream: CutStream(stream, sent_max=REPLAY_BYTES_MAX // 2, received_max=1 << 20)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        write = await volume.open_write("huge", overwrite=False, operation=volume.new_operation())

        async def write_all() -> None:
            for _ in range(REPLAY_BYTES_MAX // PUT_BYTES_MAX + 2):
                await write.write(bytes(PUT_BYTES_MAX))

        assert await _code_of(write_all()) is JournalCode.UNAVAILABLE
        with pytest.raises(MisuseError):
            await write.write(b"more")
    assert service.volume.tree.keys() == {""}


async def test_the_owner_is_found_by_what_the_others_say(
    service: Service, other: Service, autojump_clock: Clock
) -> None:
    service.volumes.elsewhere["payments"] = "b"
    network = Network(a=service, b=other)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        for number in range(3):
            await _put(volume, f"f{number}")
    assert network.dialled == ["a", "b"]
    assert len(other.volume.tree) == 4


async def test_the_next_address_is_tried_when_nobody_knows_the_owner(
    service: Service, other: Service, autojump_clock: Clock
) -> None:
    service.volumes.elsewhere["payments"] = None
    network = Network(a=service, b=other)
    async with open_volume(["a", "b"], "payments", dial=network.dial) as volume:
        await _put(volume, "f")
    assert network.dialled == ["a", "b"]


async def test_an_owner_that_dies_is_left_for_its_successor(
    service: Service, other: Service, autojump_clock: Clock
) -> None:
    other.volume.epoch = 2
    network = Network(a=service, b=other)
    async with open_volume(["a", "b"], "payments", dial=network.dial) as volume:
        await _put(volume, "f")
        network.down.add("a")
        await service.gateway.stop()
        await _put(volume, "g")
        assert volume.epoch == 2
    assert "g" in other.volume.tree


@ALONE
async def test_a_refusal_of_an_older_epoch_is_not_believed(autojump_clock: Clock) -> None:
    """The old owner does not know the file, the newer one does."""

    async def dial(address: str) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        epoch = {"old": 1, "new": 2}[address]
        greeting = m.WelcomeAnswer(version=1, service=bytes(16), frame_bytes_max=1, piece_bytes_max=1, time_ms=0)
        status = FileStatus(path="f", is_directory=False, size=1, modified_ms=1)
        answers: list[m.Answer] = [greeting, m.OpenedAnswer(epoch=epoch, volume="payments")]
        answers.append(
            m.RefusalAnswer(epoch=1, code=JournalCode.NOT_FOUND, message="no f", fields=(("code", 1),))
            if address == "old"
            else m.StatusAnswer(epoch=2, status=status)
        )
        await there.send_all(b"".join(map(encode, answers)))
        return here

    async with open_volume(["old", "new"], "payments", dial=dial) as volume:
        assert await _code_of(volume.stat("f")) is JournalCode.NOT_FOUND
        volume.epoch = 2
        assert (await volume.stat("f")).size == 1


async def test_an_answer_of_an_older_epoch_is_not_believed(
    service: Service, other: Service, autojump_clock: Clock
) -> None:
    """The old owner has not noticed yet that it was replaced; the client has, and must not read the past."""
    other.volume.epoch = 2
    network = Network(a=service, b=other)
    async with open_volume(["a", "b"], "payments", dial=network.dial) as volume:
        volume.epoch = 2
        assert (await volume.list("")).entries == ()
        assert await _put(volume, "f") == 1
    assert service.volume.runs == 0


@pytest.mark.parametrize("before", ["the first connection", "the next request", "the next piece"])
async def test_an_epoch_that_was_never_an_owners_is_forgotten_when_the_owner_says_so(
    service: Service, autojump_clock: Clock, before: str
) -> None:
    """Somebody who is not the owner has answered once, for an epoch that could be; the members say that it is none."""
    service.volume.still_owned = True
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        if before != "the first connection":
            await _put(volume, "before")
        volume.epoch = 1000
        if before == "the next piece":
            write = await volume.open_write("f", overwrite=False, operation=volume.new_operation())
            for _ in range(3):
                await write.write(bytes(PUT_BYTES_MAX))
            await write.commit()
        else:
            await _put(volume, "f")
        assert volume.epoch == 1
    assert "f" in service.volume.tree


async def test_an_epoch_that_the_members_may_know_keeps_an_older_owner_away(
    service: Service, autojump_clock: Clock
) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        volume.epoch = 2
        assert await _code_of(_put(volume, "f")) is JournalCode.UNAVAILABLE
        assert volume.epoch == 2
    assert service.volume.runs == 0


@ALONE
async def test_an_epoch_that_was_seen_meanwhile_is_not_forgotten(autojump_clock: Clock) -> None:
    """The owner of before says that epoch 1000 is false; a newer one has answered since it was asked."""

    async def dial(_: str) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        greeting = m.WelcomeAnswer(version=1, service=bytes(16), frame_bytes_max=1, piece_bytes_max=1, time_ms=0)
        late = m.RefusalAnswer(
            epoch=1, code=JournalCode.NOT_OWNER, message="not so", fields=(("epoch", 1000), ("owned", 1))
        )
        answers: list[m.Answer] = [greeting, m.OpenedAnswer(epoch=1, volume="payments"), late]
        await there.send_all(b"".join(map(encode, answers)))
        return here

    async with open_volume(["a"], "payments", dial=dial) as volume:
        volume.epoch = 2
        assert await _code_of(volume.stat("f")) is JournalCode.UNAVAILABLE
        assert volume.epoch == 2


async def test_a_volume_that_nobody_has_is_an_error_at_once(
    service: Service, other: Service, autojump_clock: Clock
) -> None:
    network = Network(a=service, b=other)
    async with open_volume(["a", "b"], "unknown", dial=network.dial) as volume:
        assert await _code_of(_put(volume, "f")) is JournalCode.VOLUME_NOT_FOUND
    assert sorted(network.dialled) == ["a", "b"]
    assert trio.current_time() < 1


async def test_a_stranger_is_no_other_stranger_for_who_waited_for_a_connection(
    service: Service, other: Service, autojump_clock: Clock
) -> None:
    """Which service is asked may change while a task waits for one of few connections: what it hears is of that one."""
    network = Network(a=service, b=other)
    other.volumes.here.clear()
    network.down.add("a")

    async def come_back() -> None:
        await trio.sleep(5)
        network.down.clear()

    async with open_volume(["a", "b"], "payments", dial=network.dial) as volume, trio.open_nursery() as nursery:
        nursery.start_soon(come_back)
        for number in range(3 * CONNECTIONS_MAX):
            nursery.start_soon(_put, volume, f"f{number}")
    assert service.volume.runs == 3 * CONNECTIONS_MAX


async def test_nobody_there_is_unavailable_at_the_deadline(service: Service, autojump_clock: Clock) -> None:
    network = Network(a=service)
    network.down.add("a")
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        assert await _code_of(_put(volume, "f")) is JournalCode.UNAVAILABLE
    assert trio.current_time() == pytest.approx(limits.CLIENT_SECONDS)


@ALONE
async def test_no_answer_to_a_change_is_an_unknown_outcome(service: Service, autojump_clock: Clock) -> None:
    service.volume.before_answer = trio.sleep_forever
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial, settings=ClientSettings(seconds=10.0)) as volume:
        assert await _code_of(_put(volume, "f")) is JournalCode.OUTCOME_UNKNOWN
        assert "f" in service.volume.tree
        network.down.add("a")
        assert await _code_of(volume.stat("f")) is JournalCode.UNAVAILABLE


async def test_the_true_answer_comes_after_unknown_outcomes(service: Service, autojump_clock: Clock) -> None:
    async def below_quorum() -> None:
        await trio.sleep(1)
        if trio.current_time() < 40:
            raise journal_error(JournalCode.OUTCOME_UNKNOWN, "too few members answer")

    service.volume.before_answer = below_quorum
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        assert await _put(volume, "f") == 1
    assert service.volume.runs == 1


async def test_work_that_is_announced_is_waited_for(
    service: Service, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    async def slowly() -> None:
        await trio.sleep(60)

    nursery.start_soon(service.gateway.run)
    service.volume.before_answer = slowly
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        await _put(volume, "f")
    assert network.dialled == ["a"]


async def test_silence_is_a_lost_connection(service: Service, other: Service, autojump_clock: Clock) -> None:
    """A service that was stopped (SIGSTOP) says nothing; its successor does."""
    service.volume.before_answer = trio.sleep_forever
    network = Network(a=service, b=other)
    async with open_volume(["a", "b"], "payments", dial=network.dial) as volume:
        assert await _put(volume, "f") == 1
    assert limits.SILENCE_SECONDS_MAX <= trio.current_time() <= limits.SILENCE_SECONDS_MAX + 2


@pytest.mark.parametrize("lost", ["the middle", "the answer", "the owner"])
async def test_a_large_file_that_is_imported_is_sent_again(lost: str, service: Service, autojump_clock: Clock) -> None:
    """It can be read again; whether the first attempt was done or not, it is there once."""
    network, streams, told = Network(a=service), list[CutStream](), list[int]()

    def cut(stream: trio.abc.Stream) -> trio.abc.Stream:
        is_cut = lost == "the middle" and len(streams) < 3
        streams.append(CutStream(stream, sent_max=REPLAY_BYTES_MAX // 2 if is_cut else 1 << 30, received_max=1 << 30))
        return streams[-1]

    async def answer_once() -> None:
        service.volume.before_answer = None
        if lost == "the answer":
            for stream in streams:
                stream.cut()
        else:
            raise journal_error(JournalCode.NOT_OWNER, "handed over", {"epoch": 1, "owned": 0})

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(REPLAY_BYTES_MAX // PUT_BYTES_MAX + 4):
            if number == REPLAY_BYTES_MAX // PUT_BYTES_MAX + 3 and lost != "the middle" and len(told) < 21:
                service.volume.before_answer = answer_once
            yield bytes([number]) * PUT_BYTES_MAX

    size = REPLAY_BYTES_MAX + 4 * PUT_BYTES_MAX
    file = NewFile(path="", is_directory=False, size=size, modified_ms=7, pieces=pieces)
    network.cut = cut
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        await write_tree(volume, [file], "q", scratch="0", origin={"imported_files": 1}, progress=told.append)
        assert len([piece async for piece in volume.read("q")]) > 0
        assert (await volume.stat("q")).size == sum(told) == size
    assert service.volume.before_answer is None


@ALONE
async def test_refusals_are_final(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        await _put(volume, "f")
        assert await _code_of(_put(volume, "f")) is JournalCode.ALREADY_EXISTS
        assert await _code_of(volume.stat("missing")) is JournalCode.NOT_FOUND
        assert (await volume.read_file("f"))[1] == b"x"
    assert network.dialled == ["a"]


@ALONE
async def test_a_code_of_a_later_version_is_final(service: Service) -> None:
    async def say(stream: trio.abc.Stream) -> None:
        await stream.send_all(
            encode(m.WelcomeAnswer(version=1, service=bytes(16), frame_bytes_max=1, piece_bytes_max=1, time_ms=0))
            + encode(m.OpenedAnswer(epoch=1, volume="payments"))
            + encode(m.RefusalAnswer(epoch=1, code=99, message="not before Tuesday"))
        )

    async def dial(_address: str) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        await say(there)
        return here

    async with open_volume(["a"], "payments", dial=dial) as volume:
        with pytest.raises(JournalError, match="not before Tuesday") as caught:
            await volume.stat("f")
        assert caught.value.code is JournalCode.UNSUPPORTED


@pytest.mark.parametrize(
    "answers",
    [
        b"\0\0\0\1\xfe",
        encode(m.PongAnswer(epoch=1, number=1, time_ms=1)),
        encode(HELLO),
        b"",
    ],
    ids=["unknown type", "wrong answer", "a request", "closed"],
)
async def test_what_is_no_service_is_unavailable(answers: bytes, autojump_clock: Clock) -> None:
    async def dial(_address: str) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        if answers:
            await there.send_all(answers)
        await there.send_eof()
        return here

    async with open_volume(["a"], "payments", dial=dial, settings=ClientSettings(seconds=5.0)) as volume:
        assert await _code_of(volume.stat("f")) is JournalCode.UNAVAILABLE


@pytest.mark.parametrize("answers", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\1\xff"], ids=["http", "SOS"])
async def test_the_port_of_something_known_is_told_at_once(answers: bytes, autojump_clock: Clock) -> None:
    async def dial(_address: str) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        await there.send_all(answers)
        return here

    async with open_volume(["a", "b"], "payments", dial=dial) as volume:
        with pytest.raises(JournalError, match=r"a is the port|b is the port") as caught, trio.fail_after(2):
            await volume.stat("f")
        assert caught.value.code is JournalCode.BAD_REQUEST


async def test_a_kept_connection_that_was_closed_meanwhile_is_no_trouble(
    service: Service, autojump_clock: Clock
) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        await _put(volume, "f")
        await service.gateway.stop()
        service.gateway._stopping = False
        await _put(volume, "g")
    assert service.volume.runs == 2


@ALONE
async def test_cancelled_in_the_middle_the_connection_is_not_used_again(service: Service) -> None:
    gate = trio.Event()
    service.volume.before_answer = gate.wait
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        with trio.move_on_after(0.01):
            await _put(volume, "f")
        gate.set()
        assert await _put(volume, "g", b"gg") == 2
    assert network.dialled == ["a", "a"]


async def test_the_model_forgets_old_operations_as_the_journal_does(service: Service) -> None:
    network = Network(a=service)
    async with open_volume(["a"], "payments", dial=network.dial) as volume:
        operation = volume.new_operation()
        service.volume.answers.oldest_kept[operation.client] = operation.sequence + 1
        assert await _code_of(volume.put("f", b"", overwrite=False, operation=operation)) is JournalCode.EXPIRED
