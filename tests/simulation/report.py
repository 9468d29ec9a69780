"""Runs one seed and says what came of it, in a form that goes from one process to another."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.determinism import run_from_seed
from tests.simulation.world import ViolationError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable, Iterator

    from tests.simulation.world import World


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
    logging.disable()
    try:
        run_from_seed(world.seed, main)
    except Exception as error:
        violation = _sentence(error)
    finally:
        logging.disable(logging.NOTSET)
    return RunReport(
        seed=world.seed,
        profile=profile,
        digest=world.digest,
        counts=world.counts,
        violation=violation,
        trace=world.trace,
    )


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
