"""One thread that runs blocking jobs one after the other and wakes the trio task that waits for each.

A hop costs about two thirds of `trio.to_thread.run_sync` (no limiter, no thread cache, no context copy), which shows
where a small append waits for one fdatasync. Only `disk.py` uses it. Nothing here knows what the jobs do.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, TypeVar, cast

import outcome
import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    Job = tuple[Callable[[], object], trio.lowlevel.Task]
    LastJob = Callable[[], None]

Result = TypeVar("Result")


class SyncThread:
    """Started by the first job, ended by `stop`. Jobs run in the order in which they were given."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Job | LastJob] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run `job` in the thread; its result or exception is the caller's.

        A job cannot be taken back, so cancellation waits until it is done and shows at the caller's next checkpoint.
        """
        if self._thread is None:
            token = trio.lowlevel.current_trio_token()
            self._thread = threading.Thread(target=_work, args=(self._jobs, token), name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((job, trio.lowlevel.current_task()))
        return cast("Result", await trio.lowlevel.wait_task_rescheduled(_cannot_abort))

    def stop(self, last_job: Callable[[], None]) -> None:
        """End the thread after the jobs it has and then `last_job`; waits for nothing. Without a thread: `last_job`."""
        if self._thread is None:
            last_job()
            return
        self._jobs.put(last_job)
        self._thread = None


def _cannot_abort(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def _work(jobs: queue.SimpleQueue[Job | LastJob], token: trio.lowlevel.TrioToken) -> None:
    while isinstance(entry := jobs.get(), tuple):
        job, task = entry
        result = outcome.capture(job)
        # An exception in the callback would end the whole run, and a run may end before the job does.
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(trio.lowlevel.reschedule, task, result)
    entry()
