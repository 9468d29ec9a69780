"""Trying again what failed for a passing reason, with pauses, until a deadline. The policy itself is in `retry`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import trio

from sos_client.retry import RetryPolicy, is_passing
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long a client waits. Nothing waits for ever but a follow, and that asks for signs of life meanwhile."""

    connect_seconds: float = 10.0
    """For one connection: TCP, TLS and HELLO together."""
    answer_seconds: float = 30.0
    """For one answer, or a part of one that is a sign of life; in an append, for the next acknowledgement; in a follow,
    for anything."""
    retry_seconds: float = 60.0
    """For all attempts of one request, or to get over one loss of connection. 0: never try again."""

    def within(self, seconds: float | None) -> Deadlines:
        """These, but none longer than somebody is willing to wait (None: they have not said). 0: never try again."""
        if seconds is None:
            return self
        if seconds <= 0:
            return replace(self, retry_seconds=0.0)
        return replace(
            self,
            connect_seconds=min(self.connect_seconds, seconds),
            answer_seconds=min(self.answer_seconds, seconds),
            retry_seconds=min(self.retry_seconds, seconds),
        )


class Attempts:
    """Runs attempts one after the other. `chance` gives random numbers from 0 to 1.

    `after_failure` is called before each further attempt: when one connection is lost, others most likely are, too.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        *,
        policy: RetryPolicy,
        chance: Callable[[], float],
        after_failure: Callable[[], Awaitable[None]],
    ) -> None:
        self.deadlines = deadlines
        self._policy = policy
        self._chance = chance
        self._after_failure = after_failure

    async def run(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """The result of the first attempt that succeeds. `attempt` is told how many have failed before it.

        Raises the last attempt's error when it is not a passing one, or when there is no time for another.
        """
        give_up_at = None
        failures = 0
        while True:
            try:
                return await attempt(failures)
            except SosError as error:
                failures += 1
                give_up_at = give_up_at or trio.current_time() + self.deadlines.retry_seconds
                pause_seconds = self._policy.pause_seconds(failures, self._chance())
                if not is_passing(error) or trio.current_time() + pause_seconds > give_up_at:
                    raise
            await self._after_failure()
            await trio.sleep(pause_seconds)
