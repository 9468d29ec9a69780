"""Keeping volumes: take each one over, serve it while it is ours, and say who has it when it is not.

How a volume is opened, and where its owner's address is written down, come from outside: this module knows neither
servers nor sockets.
"""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, Final, Protocol

import trio

from journal.errors import JournalCode, JournalError, journal_error
from journal.records.shards import parse_shard
from journal.service.siblings import Siblings
from journal.takeover.owner_board import GIVEN_BACK
from journal.volume import ServedVolume
from sos_client.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from journal.statistics import VolumeStatistics
    from sos_client.serving.event_log import EventLog

LOOK_UP_SECONDS: Final = 0.5
"""How often a service that does not have a volume looks where it is; at once when a client asks for it."""
LOOK_UP_SECONDS_MIN: Final = 0.05
"""However many clients ask."""
GIVEN_BACK_SECONDS: Final = 0.2
"""Standbys that see at the same moment that a volume was given back look once more within this time."""
SILENCE_SECONDS: Final = 1.5
"""How long an owner must be silent before a standby takes its volume. To be wrong costs a pause, as a restart does."""
UNCLAIMED_SECONDS: Final = 10.0
"""How long somebody's claim counts who has not written down where it serves: as long as a takeover may well last."""
HOLD_SECONDS: Final = 2.0
"""How long who opens the volume is kept waiting while it is about to have an owner: it would only ask again."""
STEADY_SECONDS: Final = 600.0
"""A standby that had the volume for this long has not taken turns with anybody."""
SILENCE_SECONDS_MAX: Final = 320.0
"""Each time a standby has lost the volume again it waits twice as long, up to this: two that cannot see each other but
both reach the servers would else take turns."""
_RETRY: Final = RetryPolicy(first_seconds=0.2, pause_seconds_max=5.0)
_LASTING: Final = frozenset(
    {
        JournalCode.VOLUME_NOT_FOUND,
        JournalCode.LOST,
        JournalCode.DAMAGED,
        JournalCode.TOO_NEW,
        JournalCode.LOCKED,
        JournalCode.BAD_REQUEST,
    }
)
"""Trying again does not help: somebody must do something."""


class OwnedVolume(ServedVolume, Protocol):
    """A volume that this process owns."""

    @property
    def holder(self) -> bytes:
        """Which writer process this is."""

    def now_ms(self) -> int:
        """The volume's own clock, which gives files their times and does not follow at once who sets a clock."""

    async def wait_lost(self) -> JournalError:
        """Return, with the reason, when this process can no longer write the volume."""

    def statistics(self) -> VolumeStatistics:
        """For metrics; costs next to nothing."""

    def query_commits(self) -> Mapping[str, int]:
        """For metrics: when each query has committed its last batch, in milliseconds since 1970."""


class OwnerBoard(Protocol):
    """Where owners write down at which address they serve a volume."""

    @property
    def address(self) -> str:
        """What this service writes down."""

    async def publish(self, volume: str, *, epoch: int, holder: bytes) -> None:
        """Write down that this service has the volume now. Best effort: whoever cannot read it asks every address."""

    async def look_up(self, volume: str) -> tuple[int, str | None]:
        """The highest epoch known, and the address of that owner if it is written down."""

    async def give_back(self, volume: str, *, epoch: int, holder: bytes) -> None:
        """Write down that whoever stands by may take it over at once. Best effort, within a bounded time."""


class VolumeKeeper:
    """One volume: `run` in a nursery, `owned` for each request.

    `is_alive` says within a bounded time whether a service answers at an address.
    """

    def __init__(
        self,
        name: str,
        *,
        open_volume: Callable[[str, int | None], AbstractAsyncContextManager[OwnedVolume]],
        board: OwnerBoard,
        is_alive: Callable[[str], Awaitable[bool]],
        log: EventLog,
        standby: bool = False,
    ) -> None:
        self.name = name
        self.settled = trio.Event()  # owned once, or known to be hopeless
        self.failure: JournalError | None = None  # hopeless: why
        self._open_volume = open_volume
        self._board = board
        self._is_alive = is_alive
        self._log = log
        self._standby = standby
        self._patience_seconds = SILENCE_SECONDS
        self._volume: OwnedVolume | None = None
        self._epoch = 0  # of our last ownership
        self._asked = trio.Event()  # somebody wants to know who has the volume
        self._known = trio.Event()  # somebody has it, and this service knows who; made again each time
        self._absent: JournalError = journal_error(
            JournalCode.UNAVAILABLE, f"volume {name} is being taken over; ask again in a moment"
        )

    def owned(self) -> ServedVolume:
        """The volume, or why it cannot be used here now."""
        if self._volume is None:
            raise self._absent
        return self._volume

    @property
    def owned_volume(self) -> OwnedVolume | None:
        """The volume while it is ours."""
        return self._volume

    @property
    def absence(self) -> JournalError:
        """Why it is not: NOT_OWNER if somebody else has it, as for a standby."""
        return self._absent

    async def settle(self) -> None:
        """Return when it is known who has the volume, which `owned` then says, or after a bounded time."""
        if self._volume is None and self.failure is None:
            self._asked.set()
            with trio.move_on_after(HOLD_SECONDS):
                await self._known.wait()

    async def give_back(self) -> None:
        """This service ends: let a standby take the volume over at once."""
        volume = self._volume
        if volume is not None:
            await self._board.give_back(self.name, epoch=volume.epoch, holder=volume.holder)
            self._log.audit("volume given back", volume=self.name, epoch=volume.epoch)

    def statistics(self) -> VolumeStatistics | None:
        """For metrics; None while the volume is not ours."""
        return None if self._volume is None else self._volume.statistics()

    async def run(self) -> None:
        """Take the volume over and keep it; once a newer owner has it, tell where it is. Ends only when hopeless."""
        failures = 0
        turn = await self._wait_for_turn(0) if self._standby else None
        while True:
            epoch_before, began = self._epoch, trio.current_time()
            error = await self._keep(turn)
            turn = None
            if self._epoch != epoch_before:  # the image that was, which refers to itself: do not wait for the collector
                gc.unfreeze()
                gc.collect()
            failures = failures + 1 if self._epoch == epoch_before else 1
            if error.code is JournalCode.NOT_OWNER and (self._epoch or self._standby):
                self._log.error("volume lost to another owner", volume=self.name, reason=str(error))
                known = error.fields.get("epoch")
                turn = await self._wait_for_turn(known if isinstance(known, int) else 0)
                if self._epoch != epoch_before:  # not for what another one was first to take
                    steady = trio.current_time() - began >= STEADY_SECONDS
                    self._patience_seconds = SILENCE_SECONDS if steady else 2 * self._patience_seconds
                    self._patience_seconds = min(self._patience_seconds, SILENCE_SECONDS_MAX)
            self._absent = _shown(error, self.name)
            if error.code in _LASTING:
                self._log.error("volume cannot be served", volume=self.name, reason=str(error))
                self.failure = error
                self.settled.set()
                self._tell()
                return
            pause_seconds = _RETRY.pause_seconds(failures, random.random())
            self._log.warning("volume not available", volume=self.name, reason=str(error), retry=pause_seconds)
            await trio.sleep(pause_seconds)

    async def _keep(self, turn: int | None) -> JournalError:
        """Own the volume until it is lost, or fail to own it; says why.

        `turn`: the epoch whose owner is gone. Of several that have seen that, one is first; the others leave it to it.
        """
        began = trio.current_time()
        try:
            async with self._open_volume(self.name, turn) as volume:
                self._volume, self._epoch = volume, volume.epoch
                seconds = round(trio.current_time() - began, 3)
                self._log.audit("volume taken over", volume=self.name, epoch=volume.epoch, seconds=seconds)
                self.settled.set()
                self._tell()
                return await self._lost(volume)
        except JournalError as error:
            return error
        finally:
            self._volume = None

    async def _lost(self, volume: OwnedVolume) -> JournalError:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._publish, volume)
            reason = await volume.wait_lost()
            self._volume = None
            nursery.cancel_scope.cancel()
        return reason

    async def _publish(self, volume: OwnedVolume) -> None:
        await self._board.publish(self.name, epoch=volume.epoch, holder=volume.holder)

    def _tell(self) -> None:
        self._known.set()
        self._known = trio.Event()

    async def _wait_for_turn(self, epoch: int) -> int:
        """Answer NOT_OWNER, with the owner's address if it is known, until this service may take the volume over.

        Returns the epoch whose owner is gone. That is: when its owner gives it back; when nobody has written down that
        the newest claim came to anything; and, for a standby, when the owner has been silent for long enough. Owners
        must not take turns: nothing else will do.
        """
        self._absent = _moved(self.name, epoch, None)
        self.settled.set()
        owner: str | None = None
        heard, given_back = trio.current_time(), False
        while True:
            found, where = await self._board.look_up(self.name)
            if where == self._board.address and not self._standby:
                where = None  # what this service wrote when it had the volume; a claim as high has taken it since
            if found >= epoch:
                if where == GIVEN_BACK and given_back:
                    return epoch
                given_back = where == GIVEN_BACK
                if found > epoch:
                    heard, owner = trio.current_time(), None
                epoch, owner = found, where or owner
                self._absent = _moved(self.name, epoch, owner)
            if self._standby and owner == self._board.address and not given_back:
                return epoch  # ours, from before a restart
            if given_back:  # of several standbys one should be first: look again after a moment
                await trio.sleep(random.random() * GIVEN_BACK_SECONDS)
                continue
            if not found or await self._is_served(owner):
                heard = trio.current_time()  # or no server answers: who is cut off is this service
                self._tell()
            elif trio.current_time() - heard >= (self._patience_seconds if owner else UNCLAIMED_SECONDS):
                self._log.warning("the owner is silent", volume=self.name, owner=owner, epoch=epoch)
                return epoch
            await trio.sleep(LOOK_UP_SECONDS_MIN)
            with trio.move_on_after(LOOK_UP_SECONDS):
                await self._asked.wait()
            self._asked = trio.Event()

    async def _is_served(self, owner: str | None) -> bool:
        """Whether there is an owner, as far as this service may doubt it: others' silence is the standbys' business."""
        return bool(owner) and (not self._standby or await self._is_alive(str(owner)))


class VolumeKeepers:
    """All volumes of a service, as the sessions see them."""

    def __init__(self, keepers: Iterable[VolumeKeeper], *, board: OwnerBoard) -> None:
        self._keepers = {keeper.name: keeper for keeper in keepers}
        self.siblings = Siblings(self._keepers, board)

    async def settle(self, name: str) -> None:
        if name in self._keepers:
            await self._keepers[name].settle()
        elif self.siblings.is_sibling(name):
            await self.siblings.look_up(name)

    def owned(self, name: str) -> ServedVolume:
        keeper = self._keepers.get(name)
        if keeper is not None:
            return keeper.owned()
        raise self.siblings.elsewhere(name) if self.siblings.is_sibling(name) else self._not_here(name[:128])

    def _not_here(self, name: str) -> JournalError:
        """With the number of its shards, if it is spread and one of them is here: the client asks for these then."""
        count = next((one.count for one in map(parse_shard, self._keepers) if one and one.volume == name), None)
        known = ", ".join(sorted(self._keepers))
        message = f"this service has no volume {name!r}; it has {known}"
        if count is None:
            return journal_error(JournalCode.VOLUME_NOT_FOUND, message, {"volume": name})
        message = f"volume {name} is spread over {count} shards, which this client does not ask for; {message}"
        return journal_error(JournalCode.VOLUME_NOT_FOUND, message, {"volume": name, "shards": count})


def _moved(name: str, epoch: int, address: str | None) -> JournalError:
    where = f"the service at {address} has it" if address else "ask the other services"
    return journal_error(
        JournalCode.NOT_OWNER,
        f"volume {name} has another owner now (epoch {epoch}): {where}",
        {"volume": name, "address": address, "epoch": epoch},
    )


def _shown(error: JournalError, name: str) -> JournalError:
    """What clients are told while the volume is not there."""
    if error.code in _LASTING:
        return error
    return journal_error(JournalCode.UNAVAILABLE, f"volume {name} is not available: {error}")
