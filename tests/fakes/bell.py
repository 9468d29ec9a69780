"""What fakes wait with: until something is rung, or until a time; and a sleep that cannot be cancelled.

`tests/simulation/event_loop.py` puts its own clock's functions in place of the two that take time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import NoReturn


class Waiter:
    """A task that waits, or (None) does no longer."""

    __slots__ = ("task",)

    def __init__(self, task: trio.lowlevel.Task | None) -> None:
        self.task = task

    def wake(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def give_up(self, _: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Bell:
    """Wakes everybody who waits, again and again."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[Waiter] = []

    def ring(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter.wake()

    def wait(self, until: float) -> Awaitable[None]:
        """Return when it rings, or at this time of trio's clock (inf: it has to ring)."""
        waiter = Waiter(trio.lowlevel.current_task())
        self._waiters = [one for one in self._waiters if one.task is not None]
        self._waiters.append(waiter)
        return wait_until(waiter, until)


async def wait_until(waiter: Waiter, until: float) -> None:
    """Return when somebody wakes the waiter, which is this task, or at this time."""
    with trio.move_on_at(until):
        await trio.lowlevel.wait_task_rescheduled(waiter.give_up)


async def sleep_for_certain(seconds: float) -> None:
    """Sleep, whatever is cancelled meanwhile."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
