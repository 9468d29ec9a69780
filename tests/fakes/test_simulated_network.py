"""The simulated network behaves as TCP does, the unpleasant parts included."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import check_two_way_stream

from tests.fakes.simulated_network import NetworkFaults, SimulatedNetwork
from tests.fakes.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.simulated_connection import SimulatedStream


@pytest.fixture
def network() -> SimulatedNetwork:
    return SimulatedNetwork(random.Random(3))


async def connected(network: SimulatedNetwork) -> tuple[SimulatedStream, SimulatedStream]:
    listener = network.listen("server:7400")
    client = await network.dial("server:7400", source="client")
    server = await listener.accept()
    return client, server


async def received_within(stream: SimulatedStream, seconds: float) -> bytes | None:
    with trio.move_on_after(seconds):
        return await stream.receive_some()
    return None


@in_virtual_time
async def test_is_a_stream_as_trio_wants_it(network: SimulatedNetwork) -> None:
    listener = network.listen("server:1")

    async def make() -> tuple[SimulatedStream, SimulatedStream]:
        return await network.dial("server:1", source="client"), await listener.accept()

    await check_two_way_stream(make, None)


@in_virtual_time
async def test_bytes_arrive_whole_and_in_order_through_a_small_buffer(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    sent = random.Random(1).randbytes(300_000)
    got = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, sent)
        while len(got) < len(sent):
            got += await server.receive_some()
    assert got == sent


@in_virtual_time
async def test_a_sender_waits_when_nobody_reads(network: SimulatedNetwork) -> None:
    client, _ = await connected(network)
    with trio.move_on_after(60) as scope:
        await client.send_all(bytes(100_000))
    assert scope.cancelled_caught


@in_virtual_time
async def test_nobody_listens(network: SimulatedNetwork) -> None:
    with pytest.raises(ConnectionRefusedError):
        await network.dial("server:7400", source="client")


@in_virtual_time
async def test_one_way_partition_holds_bytes_until_it_heals(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    network.partition("server", "client")
    await client.send_all(b"there")
    await server.send_all(b"back")
    assert (await received_within(server, 5) or b"").startswith(b"t")
    assert await received_within(client, 5) is None
    with pytest.raises(TimeoutError):
        await network.dial("server:7400", source="client")
    network.heal()
    assert (await received_within(client, 5) or b"").startswith(b"b")


@in_virtual_time
async def test_lost_replies(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    network.lose_replies(client.connection)
    await client.send_all(b"do it")
    assert await received_within(server, 5) is not None
    await server.send_all(b"done")
    with pytest.raises(trio.BrokenResourceError):
        await client.receive_some()


@in_virtual_time
async def test_cuts_reach_both_ends_or_one() -> None:
    heard = set()
    for seed in range(40):
        network = SimulatedNetwork(random.Random(seed))
        client, server = await connected(network)
        network.cut(client.connection)
        ends = 0
        for end in (client, server):
            try:
                ends += await received_within(end, 5) is not None
            except trio.BrokenResourceError:
                ends += 1
        heard.add(ends)
    assert heard == {1, 2}


@pytest.mark.parametrize("power_cut", [False, True])
@in_virtual_time
async def test_a_dead_host_is_silent_or_resets(network: SimulatedNetwork, power_cut: bool) -> None:  # noqa: FBT001
    client, _ = await connected(network)
    network.kill_host("server", power_cut=power_cut)
    if power_cut:
        assert await received_within(client, 60) is None
        network.restart_host("server")
    with pytest.raises(trio.BrokenResourceError):
        await client.receive_some()
    with pytest.raises(ConnectionRefusedError):
        await network.dial("server:7400", source="client")


@in_virtual_time
async def test_ghost_connections_reach_the_server_only() -> None:
    network = SimulatedNetwork(random.Random(1), faults=NetworkFaults(ghost_rate=1.0))
    listener = network.listen("server:1")
    with pytest.raises(TimeoutError):
        await network.dial("server:1", source="client")
    assert await received_within(await listener.accept(), 5) is None


@in_virtual_time
async def test_a_closed_peer_resets_who_goes_on_sending(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    await server.send_all(b"last words")
    await server.aclose()
    await client.send_all(b"hello?")
    await trio.sleep(5)
    with pytest.raises(trio.BrokenResourceError):
        await client.send_all(b"hello?")


@in_virtual_time
async def test_the_same_seed_gives_the_same_pieces() -> None:
    async def run(make_rng: Callable[[], random.Random]) -> list[tuple[float, bytes]]:
        client, server = await connected(SimulatedNetwork(make_rng()))
        start = trio.current_time()
        await client.send_all(bytes(range(200)))
        await client.aclose()
        pieces = []
        while piece := await server.receive_some():
            pieces.append((round(trio.current_time() - start, 9), piece))
        return pieces

    first = await run(lambda: random.Random(11))
    assert first == await run(lambda: random.Random(11))


@in_virtual_time
async def test_who_sleeps_when_all_falls_over_wakes_up(network: SimulatedNetwork) -> None:
    """What it waits with cannot be cancelled, and nobody else is left: the run would never end."""
    client, _ = await connected(network)
    network.fall_asleep("client")

    async def fall_over() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.receive_some)
            with network.until_it_falls_over():
                await trio.sleep(1)
                raise ValueError("on purpose")

    with pytest.raises(ExceptionGroup) as caught:
        await fall_over()
    assert caught.group_contains(ValueError)
    assert not network.is_asleep("client")
