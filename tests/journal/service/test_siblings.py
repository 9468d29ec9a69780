"""Services of shards that tell clients, and pages, where the other shards are."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, JournalError
from journal.service.siblings import LOOK_UP_SECONDS, LOOK_UP_SECONDS_MAX, Siblings
from journal.takeover.owner_board import GIVEN_BACK

HERE, THERE = "payments.shard-0-of-2", "payments.shard-1-of-2"
OTHERS = ["payments", "payments.shard-1-of-3", "orders.shard-1-of-2", HERE]


class Board:
    """Where owners write their addresses, in memory."""

    def __init__(self) -> None:
        self.address = "here:7420"
        self.known: tuple[int, str | None] = (4, "there:7421")
        self.seconds = 0.1
        self.asked = 0

    async def publish(self, volume: str, *, epoch: int, holder: bytes) -> None:
        raise NotImplementedError

    async def give_back(self, volume: str, *, epoch: int, holder: bytes) -> None:
        raise NotImplementedError

    async def look_up(self, volume: str) -> tuple[int, str | None]:
        assert volume == THERE
        self.asked += 1
        await trio.sleep(self.seconds)
        return self.known


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def siblings(board: Board) -> Siblings:
    return Siblings([HERE, "orders"], board)


async def said(siblings: Siblings) -> JournalError:
    await siblings.look_up(THERE)
    return siblings.elsewhere(THERE)


def test_only_shards_of_a_volume_that_is_here_are_looked_for(siblings: Siblings) -> None:
    assert siblings.is_sibling(THERE)
    assert not any(siblings.is_sibling(name) for name in OTHERS)


async def test_who_asks_the_wrong_service_is_sent_to_the_right_one(siblings: Siblings, autojump_clock: object) -> None:
    error = await said(siblings)
    assert error.code is JournalCode.NOT_OWNER
    assert error.fields == {"volume": THERE, "address": "there:7421", "epoch": 4}
    assert await siblings.addresses(HERE, "here:7420") == ["here:7420", "there:7421"]
    assert await siblings.addresses("orders", "here:7420") == ["here:7420"]


@pytest.mark.parametrize("known", [(0, None), (4, None), (4, GIVEN_BACK)])
async def test_a_shard_that_nobody_serves_is_named_and_waited_for(
    siblings: Siblings, board: Board, known: tuple[int, str | None], autojump_clock: object
) -> None:
    board.known = known
    error = await said(siblings)
    assert error.code is JournalCode.UNAVAILABLE
    assert f"{THERE} is not served at present" in error.message


async def test_the_board_is_asked_once_for_many_clients_and_again_after_a_moment(
    siblings: Siblings, board: Board, autojump_clock: object
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(siblings.look_up, THERE)
    assert board.asked == 1
    board.known = (5, "elsewhere:7422")
    await trio.sleep(LOOK_UP_SECONDS)
    assert "elsewhere:7422" in (await said(siblings)).message


async def test_servers_that_do_not_answer_are_not_waited_for_and_what_was_known_stands(
    siblings: Siblings, board: Board, autojump_clock: object
) -> None:
    await siblings.look_up(THERE)
    for board.known, board.seconds in (((0, None), 0.1), ((9, "late:1"), 1000.0)):
        await trio.sleep(LOOK_UP_SECONDS)
        began = trio.current_time()
        assert "there:7421" in (await said(siblings)).message
        assert trio.current_time() - began <= LOOK_UP_SECONDS_MAX
