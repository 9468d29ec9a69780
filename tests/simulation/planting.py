"""Ways to plant a mistake: put a wrong function in place of a right one for as long as a run takes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.fakes.simulated_disk import SimulatedDisk, SimulatedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Right = Callable[..., Any]
    Plant = Callable[[], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A mistake that somebody might make, and in how many seeds the simulator has to see it."""

    name: str
    breaks: str
    """What is wrong, in words for the table."""
    plant: Plant
    seeds_max: int = 200


def replaced(owner: Any, name: str, wrong: object) -> Plant:
    """Plants `wrong` in place of `owner.name`."""
    return lambda: mock.patch.object(owner, name, wrong)


def wrapped(owner: Any, name: str, wrap: Callable[..., Any]) -> Plant:
    """Plants a function that is given the right one before its own arguments."""

    def planted() -> contextlib.AbstractContextManager[object]:
        right = getattr(owner, name)

        def wrong(*args: Any, **named: Any) -> Any:
            return wrap(right, *args, **named)

        return mock.patch.object(owner, name, wrong)

    return planted


def together(*plants: Plant) -> Plant:
    """Several replacements that are one mistake."""

    @contextlib.contextmanager
    def planted() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant())
            yield

    return planted


def forgets_to_sync(path_part: str) -> Plant:
    """Files with this in their path are written and never synced."""

    async def sync(right: Right, file: SimulatedFile) -> None:
        if path_part not in file.path:
            await right(file)

    return wrapped(SimulatedFile, "sync", sync)


def forgets_to_sync_directory(path_part: str) -> Plant:
    """Directories with this in their path are never synced ("/": the root)."""

    async def sync_directory(right: Right, disk: SimulatedDisk, path: str) -> None:
        if path_part not in (path or "/"):
            await right(disk, path)

    return wrapped(SimulatedDisk, "sync_directory", sync_directory)


async def sync_again_and_believe_it(right: Right, file: SimulatedFile) -> None:
    """What most programs did before 2018: a sync failed, so try once more."""
    try:
        await right(file)
    except OSError:
        await right(file)


async def sync_and_hope(right: Right, file: SimulatedFile) -> None:
    """Takes no notice of errors."""
    with contextlib.suppress(OSError):
        await right(file)
