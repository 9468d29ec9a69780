"""Makes a trio run depend on its seed alone: scheduling, virtual time, and every source of randomness.

The names of trio used here are private. `test_determinism` pins what they do; a release of trio that changes them
fails there and nowhere else.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import secrets
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio
from trio._core import _run as trio_run  # the scheduler's switch and its random source are nowhere else
from trio._core._wakeup_socketpair import WakeupSocketpair

from tests.fakes import bell, simulated_sockets
from tests.simulation import quick_scopes, quick_steps
from tests.simulation.event_loop import JumpingClock, NoInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

Result = TypeVar("Result")

WALL_CLOCK_START: Final = 1_800_000_000.0
"""Seconds since 1970 at which every simulated run begins."""


def run_from_seed(seed: int, main: Callable[[], Awaitable[Result]]) -> Result:
    """Run `main` so that the same seed gives the same steps in the same order at the same (virtual) times."""
    clock = JumpingClock()
    with _everything_seeded(seed, clock):
        return trio.run(main, clock=clock)


async def _run_here(call: Callable[..., Result], *args: object, **_: object) -> Result:
    """Stands for a thread: how long a real one takes depends on the machine, and the clock would jump meanwhile."""
    await trio.lowlevel.checkpoint()
    return call(*args)


@contextlib.contextmanager
def _everything_seeded(seed: int, clock: JumpingClock) -> Iterator[None]:
    """Seed the scheduler and all randomness; put everything back afterwards.

    The garbage collector is off, since finalizers would run whenever it likes; reference counting goes on. What a run
    leaves is collected at its end, and what was there before is not looked at: that may be all of pytest's tests.
    """
    entropy = random.Random(f"entropy {seed}")
    no_input = NoInput()
    scheduler_state, random_state = trio_run._r.getstate(), random.getstate()
    replaced: list[tuple[Any, str, object]] = [
        (trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        (os, "urandom", entropy.randbytes),
        (random, "_urandom", entropy.randbytes),
        (secrets, "token_bytes", lambda count=32: entropy.randbytes(count)),
        (time, "time", lambda: WALL_CLOCK_START),
        (trio.to_thread, "run_sync", _run_here),
        *simulated_sockets.REPLACED,
        *quick_steps.REPLACED,
        *quick_scopes.REPLACED,
        (trio, "current_time", clock.current_time),
        (bell, "wait_until", clock.wait_until),
        (bell, "sleep_for_certain", clock.sleep_for_certain),
        (trio_run, "TheIOManager", lambda: no_input),
        (WakeupSocketpair, "wakeup_thread_and_signal_safe", lambda _: no_input.wake()),
        (WakeupSocketpair, "wait_woken", lambda _: no_input.wait_woken()),
        (trio._core, "MockClock", JumpingClock),
        (trio, "sleep", clock.sleep),
        (gc, "unfreeze", lambda: None),  # which a keeper does that lost its volume: each run would look at all modules
        (gc, "collect", lambda: 0),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        for owner, name, value in replaced:
            setattr(owner, name, value)
        trio_run._r.seed(f"schedule {seed}")
        random.seed(f"random {seed}")
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        trio_run._r.setstate(scheduler_state)
        random.setstate(random_state)
        if collecting:
            gc.enable()
            gc.collect()
        gc.unfreeze()
