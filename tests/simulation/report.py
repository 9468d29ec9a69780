"""Runs one seed and says what came of it, in a form that goes from one process to another."""

from __future__ import annotations

import signal
import threading
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.simulation.determinism import run_from_seed
from tests.simulation.world import ViolationError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable, Iterator

    from tests.simulation.world import World


PROCESSOR_SECONDS_MAX: Final = 240
"""A run takes less than a second. Of the processor's time, since a machine may be as busy as it likes."""


class EndlessRunError(Exception):
    """Time stood still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What one seed did."""

    seed: int
    profile: str
    digest: str
    """The same for two runs exactly when everything outside of memory happened in the same order at the same time."""
    counts: Counter[str]
    violation: str | None
    trace: list[str] | None = None


def report_on(world: World, profile: str, main: Callable[[], Awaitable[None]]) -> RunReport:
    """Run to the end, or to the first broken promise. An exception that nobody expected is a violation, too."""
    violation = None
    try:
        with _not_for_ever():
            run_from_seed(world.seed, main)
    except Exception as error:
        violation = _sentence(error)
    return RunReport(
        seed=world.seed,
        profile=profile,
        digest=world.digest,
        counts=world.counts,
        violation=violation,
        trace=world.trace,
    )


@contextmanager
def _not_for_ever() -> Iterator[None]:
    """A loop that never waits would stop virtual time, and the run, for good."""

    def give_up(*_: object) -> None:
        raise EndlessRunError(
            f"a run took more than {PROCESSOR_SECONDS_MAX} s of the processor: something loops without waiting"
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _sentence(error: BaseException) -> str:
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, ViolationError):
            return str(leaf)
    return "".join(traceback.format_exception(leaves[0]))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
