"""What every simulated process shares: one seed, one network, one wall clock, one trace, and the list of violations."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.plain_stream import PlainStream
from tests.fakes.simulated_network import NetworkFaults, SimulatedNetwork
from tests.fakes.simulated_sockets import plain_stream
from tests.simulation.determinism import WALL_CLOCK_START

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.fakes.simulated_connection import SimulatedStream

PLAIN_RATE: Final = 0.7
"""How many ends of connections are plain sockets, which poller and callbacks serve."""


class ViolationError(AssertionError):
    """A promise was broken. The message says which."""


class World:
    """One run. Sources of randomness are split by purpose, so that a new draw in one part leaves the others alone."""

    def __init__(
        self,
        seed: int,
        *,
        network_faults: NetworkFaults | None = None,
        plain_rate: float = 0.0,
        keep_trace: bool = False,
    ) -> None:
        """`plain_rate`: how many ends of connections are plain sockets; the others are what TLS would be to them."""
        self.seed = seed
        self._plain_rate = plain_rate
        self._carriers = self.chance("carriers")
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

    async def dial(self, address: str, *, source: str) -> trio.abc.Stream:
        """As `SimulatedNetwork.dial`."""
        return self.carried(await self.network.dial(address, source=source))

    async def serve(self, stream: SimulatedStream, converse: Callable[[trio.abc.Stream], Awaitable[None]]) -> None:
        """Talk on an accepted connection and close it, as a listener does."""
        carried = self.carried(stream)
        try:
            await converse(carried)
            if isinstance(carried, PlainStream):
                await carried.finish()
        finally:
            await trio.aclose_forcefully(carried)

    def carried(self, stream: SimulatedStream) -> trio.abc.Stream:
        """One end of a new connection as its process has it: a plain stream over a socket, or any other."""
        if self._carriers.random() >= self._plain_rate:
            return stream
        self.counts["plain socket"] += 1
        return plain_stream(stream)

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
