"""What a server process does around its serving: the ready line, SIGTERM, SIGINT and SIGHUP, the end of its parent."""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from sos_client.serving.parent_pipe import parent_gone
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
    from contextlib import AbstractContextManager

    from sos_client.net.addresses import Address
    from sos_client.serving.event_log import EventLog

PREDECESSOR_SECONDS: Final = 15.0
"""Whoever is told to end gives up what it holds first, for 10 s at most: the next one on a machine may be quicker. So
who finds something held waits for this long, and asks every PREDECESSOR_PAUSE_SECONDS."""
PREDECESSOR_PAUSE_SECONDS: Final = 0.1
_STDOUT: Final = 1


def announce_ready(address: Address) -> None:
    """The one line on standard output that says where this server serves, for scripts and for whoever started it."""
    announce(f"ready {address}")


def announce(line: str) -> None:
    """A line on standard output. That nobody reads it does not keep it from serving."""
    with contextlib.suppress(OSError):
        os.write(_STDOUT, f"{line}\n".encode())


@asynccontextmanager
async def until_told(
    *,
    stop: Callable[[], Awaitable[None]],
    hangups: AsyncIterable[int],
    reload: Callable[[], None],
    log: EventLog,
    exit_with_handle: int | None,
) -> AsyncIterator[trio.Nursery]:
    """A nursery for a block that serves, in which `end_when_told` watches. It ends with the block.

    A `stop` that has begun comes to its end even so: that nobody is served any more does not mean that all is told that
    others wait for, a standby for example.
    """
    async with trio.open_nursery() as nursery:
        await end_when_told(
            nursery, stop=stop, hangups=hangups, reload=reload, log=log, exit_with_handle=exit_with_handle
        )
        yield nursery
        nursery.cancel_scope.cancel()
    log.info("stopped")


async def serve_beside(nursery: trio.Nursery, log: EventLog, **parts: Callable[..., Awaitable[Any]] | None) -> None:
    """Start what is served beside the main thing, `metrics` and `web`, if it is wanted; the log says where."""
    for what, start in parts.items():
        if start is not None:
            log.info(what, address=str(await nursery.start(start)))


async def end_when_told(
    nursery: trio.Nursery,
    *,
    stop: Callable[[], Awaitable[None]],
    hangups: AsyncIterable[int],
    reload: Callable[[], None],
    log: EventLog,
    exit_with_handle: int | None,
) -> None:
    """From now on SIGTERM, SIGINT and the end of the process behind the pipe ``exit_with_handle`` end the nursery.

    ``stop`` is called before; it must end within a time of its own. A second SIGTERM or SIGINT kills the process at
    once, as if by SIGKILL: whoever sends it does not want to wait. ``reload`` is called at each of ``hangups``, those
    included that came before (see `kept_hangups`).
    """

    async def end(reason: str) -> None:
        log.info("stopping", reason=reason)
        with trio.CancelScope(shield=True):
            await stop()
        nursery.cancel_scope.cancel()

    async def obey_signals(task_status: trio.TaskStatus[None]) -> None:
        await end(await _signal_to_end(log, task_status))

    async def obey_hangups() -> None:
        async for number in hangups:
            _log_signal(log, number)
            reload()

    async def end_with_parent(handle: int) -> None:
        await parent_gone(handle)
        await end("the process that started this one has gone")

    await nursery.start(obey_signals)
    nursery.start_soon(obey_hangups)
    if exit_with_handle is not None:
        nursery.start_soon(end_with_parent, exit_with_handle)


def reload_and_tell(events: EventLog, what: str, load: Callable[[], None]) -> None:
    """Read settings of a running process again. What is not in order is logged, and stays as it was."""
    try:
        load()
    except SettingsError as error:
        events.error("reload failed", what=what, reason=str(error))
    else:
        events.audit("reloaded", what=what)


def kept_hangups() -> AbstractContextManager[AsyncIterable[int]]:
    """Keeps each SIGHUP for `end_when_told`. To be entered before anything is read that a reload reads again.

    A process without it ends with a SIGHUP: one that is sent while a store takes its time to open must not do that.
    """
    return trio.open_signal_receiver(signal.SIGHUP)


async def _signal_to_end(log: EventLog, task_status: trio.TaskStatus[None]) -> str:
    """The name of the first signal that ends; the next one is left to the system."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        name = _log_signal(log, await anext(aiter(signals)))
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.SIG_DFL)
    return name


def _log_signal(log: EventLog, number: int) -> str:
    name = signal.Signals(number).name
    log.info("signal", signal=name)
    return name
