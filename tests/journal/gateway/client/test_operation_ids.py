"""Ids of changes: none is pushed out of the kept answers by others of its client, however long it waits."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, JournalError, journal_error, refused
from journal.gateway.client.client import ClientSettings, open_volume
from journal.gateway.client.operation_ids import OperationIds
from journal.gateway.client.remote_write import REPLAY_BYTES_MAX
from journal.gateway.wire.limits import CLIENT_IDS_MAX
from journal.image import operation_window
from journal.volume import PUT_BYTES_MAX
from sos_client.retry import RetryPolicy
from tests.fakes.cut_stream import CutStream
from tests.fakes.serve_memory_volume import gateway_over
from tests.journal.cluster import create, memory_cluster, open_on
from tests.journal.gateway.test_journal_contract import OneVolume

if TYPE_CHECKING:
    from journal.gateway.client.client import RemoteVolume
    from tests.journal.gateway.conftest import Service

GREETING_BYTES = 70
"""More than the answers to HELLO and OPEN have, and less than they have with one to a PUT."""


@pytest.fixture
def ids() -> OperationIds:
    return OperationIds(random.Random(1))


def test_one_change_after_the_other_needs_one_client_id(ids: OperationIds) -> None:
    operations = []
    for _ in range(5):
        operations.append(ids.lend())
        ids.give_back(operations[-1])
    assert len({one.client for one in operations}) == 1
    assert [one.sequence for one in operations] == [1, 2, 3, 4, 5]


def test_no_client_id_is_lent_to_two_changes_at_once(ids: OperationIds) -> None:
    operations = [ids.lend() for _ in range(CLIENT_IDS_MAX)]
    assert len({one.client for one in operations}) == CLIENT_IDS_MAX
    ids.give_back(operations[3])
    ids.give_back(operations[3])
    again = ids.lend()
    assert again == operations[3]._replace(sequence=2)


def test_with_too_many_changes_those_lent_longest_ago_are_shared(ids: OperationIds) -> None:
    operations = [ids.lend() for _ in range(CLIENT_IDS_MAX)]
    more = [ids.lend() for _ in range(3)]
    assert more == [one._replace(sequence=2) for one in operations[:3]]
    ids.give_back(operations[0])
    ids.give_back(more[0])
    assert ids.lend() == operations[0]._replace(sequence=3)


def test_an_id_without_an_answer_stays_with_its_change(ids: OperationIds) -> None:
    """Unknown outcomes are asked for again; what is answered, or refused for good, is not."""
    unanswered: list[BaseException] = [journal_error(JournalCode.OUTCOME_UNKNOWN, "?"), KeyboardInterrupt()]
    for error in unanswered:
        operation = ids.lend()
        with pytest.raises(type(error)), ids.until_answered(operation):
            raise error
        assert ids.lend().client != operation.client
    refused_one = ids.lend()
    with pytest.raises(JournalError), ids.until_answered(refused_one):
        raise refused(JournalCode.NOT_FOUND, "no")
    assert ids.lend().client == refused_one.client


async def test_a_write_that_was_cancelled_gives_its_id_back(service: Service) -> None:
    async def dial(_address: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return service.connect().stream

    async with open_volume(["a"], "payments", dial=dial) as volume:
        operation = volume.new_operation()
        for size in (1, REPLAY_BYTES_MAX + PUT_BYTES_MAX):
            write = await volume.open_write("f", overwrite=True, operation=operation)
            await write.write(bytes(size))
            await write.cancel()
            operation = volume.new_operation()
        for size in (1, 3 * PUT_BYTES_MAX, REPLAY_BYTES_MAX + PUT_BYTES_MAX):
            write = await volume.open_write("f", overwrite=True, operation=operation)
            await write.write(bytes(size))
            await write.commit()
            operation = volume.new_operation()
        assert operation.sequence == 6


async def put(volume: RemoteVolume, path: str) -> int:
    return (await volume.put(path, b"once", overwrite=False, operation=volume.new_operation())).size


async def test_a_change_is_not_pushed_out_by_others_of_its_client(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal keeps some 30 answers; 200 come before this one is asked for again, a minute later."""
    monkeypatch.setattr(operation_window, "KEPT_BYTES_MAX", 30 * operation_window.ANSWER_BYTES)
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            gateway = gateway_over(OneVolume(journal))
            dialled: list[str] = []

            async def dial(address: str) -> trio.abc.Stream:
                here, there = trio.testing.memory_stream_pair()
                nursery.start_soon(lambda: gateway.talk(there, peer=address))
                await trio.lowlevel.checkpoint()
                dialled.append(address)
                return here if len(dialled) > 1 else CutStream(here, sent_max=1000, received_max=GREETING_BYTES)

            lost = trio.Event()
            settings = ClientSettings(
                retry=RetryPolicy(first_seconds=60, pause_seconds_max=100), on_trouble=lambda _: lost.set()
            )

            async with open_volume(["a"], "payments", dial=dial, settings=settings) as volume:
                sizes: list[int] = []

                async def put_slowly() -> None:
                    sizes.append(await put(volume, "slow"))

                async with trio.open_nursery() as putting:
                    putting.start_soon(put_slowly)
                    await lost.wait()
                    for number in range(200):
                        await put(volume, f"quick/{number}")
                    assert not sizes
                assert sizes == [4]
