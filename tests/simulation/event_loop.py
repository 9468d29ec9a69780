"""Spares trio's event loop what a simulated run never needs: sockets, real time, a cancel scope for each sleep.

The names of trio used here are private, like those in `determinism`; `test_determinism` holds this loop against trio's
own: the same tasks take the same steps at the same times.
"""

from __future__ import annotations

import heapq
import itertools
from math import inf
from typing import TYPE_CHECKING, Any, Final, NoReturn

import trio
from trio._core._run import GLOBAL_RUN_CONTEXT

from tests.fakes.bell import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

FAR_SECONDS: Final = 999_999_999.0


class _TimeIsUp:
    """What a task is woken with when its time has come."""

    def unwrap(self) -> _TimeIsUp:
        return self


TIME_IS_UP: Final[Any] = _TimeIsUp()


class StuckError(Exception):
    """A run that can never end by itself."""


class JumpingClock(trio.abc.Clock):
    """Stands still while any task can run, then jumps to what is due next and wakes that up in the same turn.

    The loop must take it for its own `MockClock`, which it lets jump, and which nobody may derive a class from.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._numbers = itertools.count()
        self._sleepers: list[tuple[float, int, Waiter]] = []
        """When, which of those at one time, and who."""

    def start_clock(self) -> None:
        GLOBAL_RUN_CONTEXT.runner.clock_autojump_threshold = 0.0

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return FAR_SECONDS if deadline > self._now else 0.0

    async def sleep(self, seconds: float) -> None:
        """As `trio.sleep`; only who is cancelled in the very turn in which it ends hears of that a checkpoint later."""
        if not seconds >= 0:
            raise ValueError("`seconds` must be non-negative")
        if seconds == 0:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_task_rescheduled(self._sleeper(seconds).give_up)

    async def sleep_for_certain(self, seconds: float) -> None:
        """As `bell.sleep_for_certain`."""
        if seconds == 0:
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self._sleeper(seconds)
            await trio.lowlevel.wait_task_rescheduled(_go_on)

    async def wait_until(self, waiter: Waiter, until: float) -> None:
        """As `bell.wait_until`. Whoever is cancelled in the turn in which the time comes hears of it, as in trio."""
        task = waiter.task
        if until == inf:
            await trio.lowlevel.wait_task_rescheduled(waiter.give_up)
            return
        assert task is not None
        if until <= self._now:
            waiter.task = None
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            heapq.heappush(self._sleepers, (until, next(self._numbers), waiter))
            if await trio.lowlevel.wait_task_rescheduled(waiter.give_up) is None:
                return
        if task._cancel_status.effectively_cancelled:
            raise trio.Cancelled._create(source="unknown")

    def _sleeper(self, seconds: float) -> Waiter:
        waiter = Waiter(GLOBAL_RUN_CONTEXT.task)
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._numbers), waiter))
        return waiter

    def _autojump(self) -> None:
        """Called by the loop when nobody can run."""
        deadlines, sleepers = GLOBAL_RUN_CONTEXT.runner.deadlines, self._sleepers
        while sleepers and sleepers[0][2].task is None:
            heapq.heappop(sleepers)
        due = min(deadlines.next_deadline(), sleepers[0][0] if sleepers else inf)
        if due == inf:
            raise StuckError("every task waits, and nothing is due: nobody will ever go on")
        self._now = due
        deadlines.expire(due)
        while sleepers and sleepers[0][0] <= due:
            waiter = heapq.heappop(sleepers)[2]
            if waiter.task is not None:
                trio.lowlevel.reschedule(waiter.task, TIME_IS_UP)
                waiter.task = None


def _go_on(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


class NoInput:
    """In place of what watches sockets: there are none but trio's own, by which finalizers wake the loop."""

    def __init__(self) -> None:
        self._woken = False
        self._waiting: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        """As `WakeupSocketpair.wakeup_thread_and_signal_safe`."""
        self._woken = True

    async def wait_woken(self) -> None:
        """As `WakeupSocketpair.wait_woken`."""
        self._waiting = trio.lowlevel.current_task()

        def abort(_: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
            self._waiting = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def wait_readable(self, _descriptor: object) -> None:
        """Of the servers' pollers, which have no sockets here."""
        await trio.sleep_forever()

    def notify_closing(self, _descriptor: object) -> None:
        pass

    def get_events(self, _timeout: float) -> bool:
        return self._woken and self._waiting is not None

    def process_events(self, woken: bool) -> None:  # noqa: FBT001 - the loop's call
        if woken and self._waiting is not None:
            trio.lowlevel.reschedule(self._waiting)
            self._woken, self._waiting = False, None

    def close(self) -> None:
        pass
