"""Work beside other work: tasks that end with a block, whose exception comes out as it is, and long computations."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

Result = TypeVar("Result")

_SMALL: Final = 5000  # an image's files and answers that are dealt with in a few milliseconds


@asynccontextmanager
async def background() -> AsyncIterator[trio.Nursery]:
    """Tasks started here are cancelled when the block ends. A single exception, also of a task, is not wrapped."""
    with ungrouped():
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            finally:
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def together() -> AsyncIterator[trio.Nursery]:
    """Tasks that all must end; the first exception is not wrapped."""
    with ungrouped():
        async with trio.open_nursery() as nursery:
            yield nursery


async def beside(item_count: int, work: Callable[[], Result]) -> Result:
    """Work on this many items that nobody else has: in a thread if they are many, so that writers are not held up."""
    if item_count <= _SMALL:
        await trio.lowlevel.checkpoint()
        return work()
    return await trio.to_thread.run_sync(work)


@contextmanager
def ungrouped() -> Iterator[None]:
    """Of a group of exceptions that leaves the block, only the one that matters comes out."""
    try:
        yield
    except BaseExceptionGroup as group:
        first = first_of(group)
        raise first from first.__cause__


def first_of(error: BaseException) -> BaseException:
    """The one exception that matters of a group: nobody can act on several, and the others mostly follow from it.

    A cancellation from outside and Ctrl-C come first: whatever else was raised on the way out is a consequence.
    """
    leaves = list(_leaves(error))
    for kind in (trio.Cancelled, KeyboardInterrupt):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
