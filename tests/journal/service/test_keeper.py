"""Keeping a volume: taking it over with patience, losing it once and for all, and pointing to whoever has it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from prometheus_client import CollectorRegistry

from journal.errors import JournalCode, JournalError, journal_error
from journal.service.exposition import VolumeCollector
from journal.service.keeper import (
    HOLD_SECONDS,
    LOOK_UP_SECONDS,
    SILENCE_SECONDS,
    SILENCE_SECONDS_MAX,
    UNCLAIMED_SECONDS,
    VolumeKeeper,
    VolumeKeepers,
)
from journal.takeover.owner_board import GIVEN_BACK
from sos_client.serving.event_log import EventLog
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Clock = trio.testing.MockClock
TAKEN = journal_error(JournalCode.NOT_OWNER, "epoch 9 has it", {"epoch": 9})


class Board:
    """Where owners write their addresses, in memory."""

    def __init__(self) -> None:
        self.published: list[tuple[str, int]] = []
        self.given_back: list[tuple[str, int]] = []
        self.address = "here:7420"
        self.known: tuple[int, str | None] = (0, None)

    async def publish(self, volume: str, *, epoch: int, holder: bytes) -> None:
        assert len(holder) == 16
        await trio.lowlevel.checkpoint()
        self.published.append((volume, epoch))

    async def give_back(self, volume: str, *, epoch: int, holder: bytes) -> None:
        assert len(holder) == 16
        await trio.lowlevel.checkpoint()
        self.given_back.append((volume, epoch))

    async def look_up(self, volume: str) -> tuple[int, str | None]:
        assert volume == "payments"
        await trio.lowlevel.checkpoint()
        return self.known


class Opening:
    """Fails as often as it is told, then gives a volume."""

    def __init__(self, *failures: JournalCode) -> None:
        self.failures = list(failures)
        self.opened: list[MemoryVolume] = []
        self.closed = 0
        self.board = Board()
        self.alive = True
        self.lines: list[str] = []
        self.turns: list[int | None] = []

    async def is_alive(self, address: str) -> bool:
        await trio.sleep(0.01)
        return self.alive

    @asynccontextmanager
    async def open(self, name: str, unless_above: int | None) -> AsyncIterator[MemoryVolume]:
        self.turns.append(unless_above)
        await trio.sleep(1)
        if self.failures:
            raise journal_error(self.failures.pop(0), "not now")
        self.opened.append(MemoryVolume(name=name, epoch=len(self.opened) + 3))
        yield self.opened[-1]
        self.closed += 1

    def keeper(self, *, standby: bool = False) -> VolumeKeeper:
        log = EventLog(write=self.lines.append)
        return VolumeKeeper(
            "payments",
            open_volume=self.open,
            board=self.board,
            is_alive=self.is_alive,
            log=log,
            standby=standby,
        )


def _code(keeper: VolumeKeeper) -> JournalCode:
    with pytest.raises(JournalError) as caught:
        keeper.owned()
    return caught.value.code


async def test_a_volume_is_taken_over_and_written_down(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    keeper = opening.keeper()
    assert _code(keeper) is JournalCode.UNAVAILABLE
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert keeper.owned() is opening.opened[0]
    assert opening.board.published == [("payments", 3)]
    assert keeper.failure is None


async def test_takeover_is_tried_until_it_succeeds(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening(JournalCode.UNAVAILABLE, JournalCode.OUTCOME_UNKNOWN, JournalCode.NOT_OWNER)
    keeper = opening.keeper()
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    assert keeper.owned() is opening.opened[0]
    assert trio.current_time() < 10


@pytest.mark.parametrize("code", [JournalCode.VOLUME_NOT_FOUND, JournalCode.LOST, JournalCode.LOCKED])
async def test_what_cannot_mend_itself_is_not_tried_again(code: JournalCode, autojump_clock: Clock) -> None:
    opening = Opening(code)
    keeper = opening.keeper()
    await keeper.run()
    assert keeper.failure is not None
    assert keeper.failure.code is code
    assert _code(keeper) is code


async def test_a_lost_volume_is_closed_and_its_new_owner_named(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    keeper = opening.keeper()
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    opening.opened[0].lose(TAKEN)
    await trio.sleep(0.1)
    assert opening.closed == 1
    with pytest.raises(JournalError) as caught:
        keeper.owned()
    assert caught.value.fields == {"volume": "payments", "address": None, "epoch": 9}
    opening.board.known = (9, "10.0.0.9:7420")
    await trio.sleep(LOOK_UP_SECONDS + 0.1)
    with pytest.raises(JournalError) as caught:
        keeper.owned()
    assert caught.value.code is JournalCode.NOT_OWNER
    assert caught.value.fields == {"volume": "payments", "address": "10.0.0.9:7420", "epoch": 9}
    await trio.sleep(1000)
    assert len(opening.opened) == 1, "two services must not take a volume from each other in turns"


async def test_a_volume_that_failed_is_taken_over_again(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    keeper = opening.keeper()
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    await trio.sleep(1)
    opening.opened[0].lose(journal_error(JournalCode.UNAVAILABLE, "too few members"))
    await trio.sleep(0.1)
    assert _code(keeper) is JournalCode.UNAVAILABLE
    await trio.sleep(5)
    assert keeper.owned() is opening.opened[1]
    assert opening.board.published == [("payments", 3), ("payments", 4)]


async def test_a_standby_leaves_a_living_owner_alone(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    opening.board.known = (7, "10.0.0.9:7420")
    keeper = opening.keeper(standby=True)
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    await trio.sleep(1000)
    with pytest.raises(JournalError) as caught:
        keeper.owned()
    assert caught.value.fields["address"] == "10.0.0.9:7420"
    opening.alive = False
    await trio.sleep(SILENCE_SECONDS - LOOK_UP_SECONDS - 0.1)
    assert not opening.opened
    await trio.sleep(3)
    assert keeper.owned() is opening.opened[0]


async def test_a_standby_that_lost_again_is_more_patient(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    opening.alive = False
    opening.board.known = (7, "10.0.0.9:7420")
    keeper = opening.keeper(standby=True)
    nursery.start_soon(keeper.run)
    waits = []
    for round_number in range(10):
        began = trio.current_time()
        while len(opening.opened) == round_number:  # noqa: ASYNC110 - the opening is not to know of it
            await trio.sleep(0.5)
        waits.append(trio.current_time() - began)
        opening.opened[-1].lose(TAKEN)
        opening.board.known = (9 + round_number, "10.0.0.9:7420")
    assert waits == sorted(waits)
    assert waits[0] < SILENCE_SECONDS + 5
    assert SILENCE_SECONDS_MAX < waits[-1] < SILENCE_SECONDS_MAX + 10


async def test_a_standby_that_is_cut_off_itself_waits(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    opening.alive = False
    opening.board.known = (0, None)  # no server answers
    keeper = opening.keeper(standby=True)
    nursery.start_soon(keeper.run)
    await trio.sleep(1000)
    assert not opening.opened
    opening.board.known = (3, "here:7420")
    await trio.sleep(LOOK_UP_SECONDS + 2)
    assert keeper.owned() is opening.opened[0], "the volume was its own before it was restarted"


async def test_volumes_in_numbers(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    keeper = opening.keeper()
    registry = CollectorRegistry()
    registry.register(VolumeCollector([keeper]))
    assert registry.get_sample_value("sos_journal_volume_owned", {"volume": "payments"}) == 0
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    assert registry.get_sample_value("sos_journal_volume_owned", {"volume": "payments"}) == 1
    assert registry.get_sample_value("sos_journal_volume_epoch", {"volume": "payments"}) == 3
    member = {"volume": "payments", "member": "a:7400"}
    assert registry.get_sample_value("sos_journal_volume_member_in_sync", member) == 1


def test_volumes_by_name() -> None:
    keepers = VolumeKeepers([Opening().keeper()], board=Board())
    with pytest.raises(JournalError, match="it has payments") as caught:
        keepers.owned("other")
    assert caught.value.code is JournalCode.VOLUME_NOT_FOUND


async def test_a_volume_that_is_given_back_is_taken_over_again(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    keeper = opening.keeper()
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    opening.opened[-1].lose(TAKEN)
    opening.board.known = (9, "10.0.0.9:7420")
    await trio.sleep(1000)
    assert len(opening.opened) == 1
    opening.board.known = (9, GIVEN_BACK)
    await trio.sleep(10 * LOOK_UP_SECONDS)
    assert len(opening.opened) == 2
    assert keeper.owned().name == "payments"


async def test_a_claim_that_nobody_followed_up_is_no_owner(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    keeper = opening.keeper()
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    opening.board.known = (9, None)
    opening.opened[0].lose(TAKEN)
    await trio.sleep(UNCLAIMED_SECONDS - 1)
    assert len(opening.opened) == 1
    await trio.sleep(5)
    assert keeper.owned() is opening.opened[1]


async def test_a_claim_as_high_as_ours_that_nobody_followed_up_is_no_owner(
    nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    """It was granted by a member that had not granted ours yet; what is written down for its epoch is our address."""
    opening = Opening()
    keeper = opening.keeper()
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    epoch = opening.opened[0].epoch
    opening.board.known = (epoch, opening.board.address)
    opening.opened[0].lose(journal_error(JournalCode.NOT_OWNER, "somebody has it", {"epoch": epoch}))
    await trio.sleep(UNCLAIMED_SECONDS - 1)
    with pytest.raises(JournalError, match="ask the other services"):
        keeper.owned()
    await trio.sleep(5)
    assert keeper.owned() is opening.opened[1]


async def test_a_standby_has_at_once_what_is_given_back(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    """Whoever asks for it makes it look, and is kept waiting until it has it."""
    opening = Opening()
    opening.board.known = (7, "10.0.0.9:7420")
    keeper = opening.keeper(standby=True)
    nursery.start_soon(keeper.run)
    await keeper.settled.wait()
    await trio.sleep(10.01)
    opening.board.known = (7, GIVEN_BACK)
    began = trio.current_time()
    await keeper.settle()
    assert keeper.owned() is opening.opened[0]
    assert trio.current_time() - began < 1 + 0.4  # of which opening it takes one here
    assert opening.turns == [7]  # and does not have it if somebody has claimed it meanwhile


async def test_a_standby_that_another_one_has_overtaken_waits_again(
    nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    opening = Opening(JournalCode.NOT_OWNER)
    opening.board.known = (7, GIVEN_BACK)
    keeper = opening.keeper(standby=True)
    nursery.start_soon(keeper.run)
    await trio.sleep(0.5)
    opening.board.known = (8, "10.0.0.9:7420")
    await trio.sleep(1000)
    assert not opening.opened
    assert not opening.failures
    opening.alive = False
    await trio.sleep(SILENCE_SECONDS + 2)
    assert opening.opened, "it has taken turns with nobody, so it need not be more patient"
    assert opening.turns == [7, 8]


async def test_who_ends_gives_its_volume_back(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening()
    keeper = opening.keeper()
    await keeper.give_back()
    nursery.start_soon(keeper.run)
    await keeper.settle()
    await keeper.give_back()
    assert opening.board.given_back == [("payments", 3)]


async def test_who_asks_is_kept_waiting_for_a_bounded_time(nursery: trio.Nursery, autojump_clock: Clock) -> None:
    opening = Opening(*[JournalCode.UNAVAILABLE] * 99)
    keeper = opening.keeper()
    nursery.start_soon(keeper.run)
    await keeper.settle()
    assert trio.current_time() == HOLD_SECONDS
