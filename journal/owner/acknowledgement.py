"""Waiting until a record is acknowledged: who waits for which LSN, and what they are told when it takes too long.

Belongs here: the waiters in order of LSN. When something is acknowledged is replica_progress.py's to say.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import outcome
import trio

from journal.errors import JournalCode, JournalError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.volume import Answer

    Answered = Callable[[Answer], None]

_LOOKS_PER_WAIT: Final = 20  # how finely the longest wait is kept


class _Waiter:
    __slots__ = ("answer", "answered", "look", "lsn")

    def __init__(self, lsn: int, look: int, answered: Answered, answer: Answer) -> None:
        self.lsn = lsn
        self.look = look
        self.answered: Answered | None = answered
        self.answer = answer


class Acknowledgement:
    """The acknowledged LSN, and everybody who waits for a later one."""

    def __init__(self, lsn: int, *, wait_seconds: float) -> None:
        self.lsn = lsn
        self._wait_seconds = wait_seconds
        self._waiters: deque[_Waiter] = deque()  # in order of arrival; LSNs mostly grow, and an early wake is harmless
        self._looks = 0  # how often it was looked for those who have waited too long
        self._stopped: Callable[[], JournalError] | None = None

    @property
    def stopped(self) -> bool:
        """Whether nothing more will be acknowledged here, so nothing more may be written."""
        return self._stopped is not None

    def check_owner(self) -> None:
        """Raise what `stop` was told, if the writer has stopped."""
        if self._stopped is not None:
            raise self._stopped()

    async def wait(self, lsn: int) -> None:
        """Return when everything before `lsn` is acknowledged.

        UnavailableError (OUTCOME_UNKNOWN) after the longest wait, or when the writer is stopped meanwhile; what `stop`
        was told if it has stopped before.
        """
        while self.lsn < lsn:
            self.check_owner()
            task = trio.lowlevel.current_task()

            def wake(error: Answer, task: trio.lowlevel.Task = task) -> None:
                result = outcome.Error(error) if isinstance(error, JournalError) else outcome.Value(None)
                trio.lowlevel.reschedule(task, result)

            waiter = _Waiter(lsn, self._looks, wake, None)
            self._waiters.append(waiter)

            def abort(_: trio.lowlevel.RaiseCancelT, waiter: _Waiter = waiter) -> trio.lowlevel.Abort:
                waiter.answered = None
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)

    def call_back(self, lsn: int, answered: Answered, answer: Answer) -> None:
        """Call `answered(answer)` when everything before `lsn` is acknowledged, or with the error that `wait` raises.

        It must not raise, and is called at once if there is nothing to wait for.
        """
        if self.lsn >= lsn:
            answered(answer)
        else:
            self._waiters.append(_Waiter(lsn, self._looks, answered, answer))

    def advance(self, lsn: int) -> None:
        """Everything before `lsn` is acknowledged; `wake` tells those who wait for it."""
        self.lsn = lsn

    def wake(self) -> None:
        """Tell those whose record is acknowledged. What they ask for next, some of them at once, shows it."""
        waiters = self._waiters
        while waiters and waiters[0].lsn <= self.lsn:
            waiter = waiters.popleft()
            if waiter.answered is not None:
                waiter.answered(waiter.answer)

    def stop(self, reason: Callable[[], JournalError]) -> None:
        """Nothing more will be acknowledged here. What waits may have been taken over by the next owner, or not."""
        self._stopped = reason
        while self._waiters:
            waiter = self._waiters.popleft()
            why = reason()
            message = f"whether the change was made is unknown, ask again with the same operation id: {why.message}"
            _fail(waiter, UnavailableError(JournalCode.OUTCOME_UNKNOWN, message, **why.fields))

    async def keep_time(self, reason: Callable[[], str]) -> None:
        """Fail those who have waited too long, until cancelled; `reason` says why members do not answer."""
        while True:
            await trio.sleep(self._wait_seconds / _LOOKS_PER_WAIT)
            self._looks += 1
            while self._waiters and self._looks - self._waiters[0].look > _LOOKS_PER_WAIT:
                _fail(self._waiters.popleft(), outcome_unknown(self._wait_seconds, reason()))


def outcome_unknown(seconds: float, reason: str) -> UnavailableError:
    """The answer when a record is written but not acknowledged in time."""
    return UnavailableError(
        JournalCode.OUTCOME_UNKNOWN,
        f"fewer members than needed have answered within {seconds:g} seconds{f' ({reason})' if reason else ''}; "
        "whether the change was made is unknown: ask again with the same operation id",
    )


def _fail(waiter: _Waiter, error: JournalError) -> None:
    if waiter.answered is not None:
        waiter.answered(error)
