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
from journal.gateway.owner_board import GIVEN_BACK
from journal.volume import ServedVolume
from sos_client.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from journal.statistics import VolumeStatistics
    from sos_client.serving.event_log import EventLog

LOOK_UP_SECONDS: Final = 2.0
"""How often a service that does not have a volume looks where it is."""
SILENCE_SECONDS: Final = 10.0
"""How long an owner must be silent before a standby takes its volume: longer than a restart takes."""
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

    async def wait_lost(self) -> JournalError:
        """Return, with the reason, when this process can no longer write the volume."""

    def statistics(self) -> VolumeStatistics:
        """For metrics; costs next to nothing."""


class OwnerBoard(Protocol):
    """Where owners write down at which address they serve a volume."""

    @property
    def address(self) -> str:
        """What this service writes down."""

    async def publish(self, volume: str, *, epoch: int, holder: bytes) -> None:
        """Write down that this service has the volume now. Best effort: whoever cannot read it asks every address."""

    async def look_up(self, volume: str) -> tuple[int, str | None]:
        """The highest epoch known, and the address of that owner if it is written down."""

    async def is_alive(self, address: str) -> bool:
        """Whether a service answers there. Takes a bounded time."""


class VolumeKeeper:
    """One volume: `run` in a nursery, `owned` for each request."""

    def __init__(
        self,
        name: str,
        *,
        open_volume: Callable[[str], AbstractAsyncContextManager[OwnedVolume]],
        board: OwnerBoard,
        log: EventLog,
        standby: bool = False,
    ) -> None:
        self.name = name
        self.settled = trio.Event()  # owned once, or known to be hopeless
        self.failure: JournalError | None = None  # hopeless: why
        self._open_volume = open_volume
        self._board = board
        self._log = log
        self._standby = standby
        self._patience_seconds = SILENCE_SECONDS
        self._volume: OwnedVolume | None = None
        self._epoch = 0  # of our last ownership
        self._absent: JournalError = journal_error(
            JournalCode.UNAVAILABLE, f"volume {name} is being taken over; ask again in a moment"
        )

    def owned(self) -> ServedVolume:
        """The volume, or why it cannot be used here now."""
        if self._volume is None:
            raise self._absent
        return self._volume

    def statistics(self) -> VolumeStatistics | None:
        """For metrics; None while the volume is not ours."""
        return None if self._volume is None else self._volume.statistics()

    async def run(self) -> None:
        """Take the volume over and keep it; once a newer owner has it, tell where it is. Ends only when hopeless."""
        failures = 0
        if self._standby:
            await self._wait_for_turn(0)
        while True:
            epoch_before = self._epoch
            error = await self._keep()
            if self._epoch != epoch_before:  # the image that was, which refers to itself: do not wait for the collector
                gc.unfreeze()
                gc.collect()
            failures = failures + 1 if self._epoch == epoch_before else 1
            if error.code is JournalCode.NOT_OWNER and self._epoch:
                self._log.error("volume lost to another owner", volume=self.name, reason=str(error))
                known = error.fields.get("epoch")
                await self._wait_for_turn(known if isinstance(known, int) else 0)
                self._patience_seconds = min(2 * self._patience_seconds, SILENCE_SECONDS_MAX)
            self._absent = _shown(error, self.name)
            if error.code in _LASTING:
                self._log.error("volume cannot be served", volume=self.name, reason=str(error))
                self.failure = error
                self.settled.set()
                return
            pause_seconds = _RETRY.pause_seconds(failures, random.random())
            self._log.warning("volume not available", volume=self.name, reason=str(error), retry=pause_seconds)
            await trio.sleep(pause_seconds)

    async def _keep(self) -> JournalError:
        """Own the volume until it is lost, or fail to own it; says why."""
        began = trio.current_time()
        try:
            async with self._open_volume(self.name) as volume:
                self._volume, self._epoch = volume, volume.epoch
                seconds = round(trio.current_time() - began, 3)
                self._log.audit("volume taken over", volume=self.name, epoch=volume.epoch, seconds=seconds)
                self.settled.set()
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

    async def _wait_for_turn(self, epoch: int) -> None:
        """Answer NOT_OWNER, with the owner's address if it is known, until this service may take the volume over.

        That is: when whoever changed the members gives the volume back, and, for a standby, when the owner has been
        silent for long enough. Owners must not take turns, so nothing else will do.
        """
        self._absent = _moved(self.name, epoch, None)
        self.settled.set()
        owner: str | None = None
        heard = trio.current_time()
        while True:
            found, where = await self._board.look_up(self.name)
            if found >= epoch:
                if where == GIVEN_BACK:
                    return
                owner = where if found > epoch else where or owner
                epoch = found
                self._absent = _moved(self.name, epoch, owner)
            if self._standby:
                if owner == self._board.address:
                    return  # ours, from before a restart
                if not found or (owner and await self._board.is_alive(owner)):
                    heard = trio.current_time()  # or no server answers: who is cut off is this service
                elif trio.current_time() - heard >= self._patience_seconds:
                    self._log.warning("the owner is silent", volume=self.name, owner=owner, epoch=epoch)
                    return
            await trio.sleep(LOOK_UP_SECONDS)


class VolumeKeepers:
    """All volumes of a service, as the sessions see them."""

    def __init__(self, keepers: Iterable[VolumeKeeper]) -> None:
        self._keepers = {keeper.name: keeper for keeper in keepers}

    def owned(self, name: str) -> ServedVolume:
        keeper = self._keepers.get(name)
        if keeper is None:
            known = ", ".join(sorted(self._keepers))
            raise journal_error(
                JournalCode.VOLUME_NOT_FOUND,
                f"this service has no volume {name[:128]!r}; it has {known}",
                {"volume": name[:128]},
            )
        return keeper.owned()


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
