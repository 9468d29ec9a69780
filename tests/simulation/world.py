"""What every simulated process shares: one seed, one network, one wall clock, one trace, and the list of violations."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from typing import TYPE_CHECKING

import trio

from tests.fakes.simulated_network import NetworkFaults, SimulatedNetwork
from tests.simulation.determinism import WALL_CLOCK_START

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class ViolationError(AssertionError):
    """A promise was broken. The message says which."""


class World:
    """One run. Sources of randomness are split by purpose, so that a new draw in one part leaves the others alone."""

    def __init__(self, seed: int, *, network_faults: NetworkFaults | None = None, keep_trace: bool = False) -> None:
        self.seed = seed
        self.network = SimulatedNetwork(self.chance("network"), faults=network_faults, observe=self.note)
        self.counts: Counter[str] = Counter()
        self.trace: list[str] | None = [] if keep_trace else None
        self.clock_skew_seconds = 0.0
        self._digest = hashlib.blake2b(digest_size=16)

    def chance(self, purpose: str) -> random.Random:
        """A random source of its own for each purpose."""
        return random.Random(f"{self.seed} {purpose}")

    def wall_clock(self) -> float:
        return WALL_CLOCK_START + trio.current_time() + self.clock_skew_seconds

    def note(self, event: str, about: str) -> None:
        """Add to the trace. Everything that happens outside of a process's memory should come by here."""
        self.counts[event] += 1
        line = f"{trio.current_time():.6f} {event} {about}"
        self._digest.update(line.encode() + b"\n")
        if self.trace is not None:
            self.trace.append(line)

    @property
    def digest(self) -> str:
        """The same for two runs exactly when their traces are."""
        return self._digest.hexdigest()

    def require(self, promise: object, sentence: str) -> None:
        """Raise ViolationError unless the promise is kept."""
        if not promise:
            self.note("violation", sentence)
            raise ViolationError(f"seed {self.seed}, {trio.current_time():.3f} s: {sentence}")


async def until(condition: Callable[[], Awaitable[bool]], *, seconds: float, every: float = 0.25) -> bool:
    """Ask again and again, for so long at most; whether it became true."""
    give_up_at = trio.current_time() + seconds
    while trio.current_time() < give_up_at:
        if await condition():
            return True
        await trio.sleep(every)
    return False
