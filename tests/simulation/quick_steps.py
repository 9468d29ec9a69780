"""The steps of trio's event loop that a simulated run takes most often, without what it never needs.

There are no instruments, no guest mode, no real time and no signals here, and a task that is woken is given nothing.
Everything else is trio's own, in the same order: `test_determinism` holds both against each other.
"""

from __future__ import annotations

import operator
import types
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio
from outcome import Error, Value
from trio._core import _run as trio_run
from trio._core._run import GLOBAL_RUN_CONTEXT, CancelScope, Runner, Task
from trio._core._traps import CancelShieldedCheckpoint, WaitTaskRescheduled
from trio._sync import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class _Nothing:
    """What most tasks are woken with. One for all: it holds nothing that could be taken twice."""

    def unwrap(self) -> None:
        pass


_NOTHING: Final[Any] = _Nothing()
_COUNTER: Final = operator.attrgetter("_counter")
"""By which trio orders those that can run, before it shuffles them."""


@trio.lowlevel.enable_ki_protection
def unrolled_run(runner: Runner, main: Callable[..., Any], args: tuple[Any, ...]) -> Generator[float, Any, None]:
    """As trio's, which waits by yielding. There is nothing to wait for, so this one never does."""
    try:
        runner.clock.start_clock()
        runner.init_task = runner.spawn_impl(runner.init, (main, args), None, "<init>", system_task=True)
        while runner.tasks:
            _jump_if_idle(runner)
            _take_turns(runner)
    except trio.TrioInternalError:
        raise
    except BaseException as error:
        raise trio.TrioInternalError("the event loop of a simulated run fell over") from error
    finally:
        runner.close()
        GLOBAL_RUN_CONTEXT.__dict__.clear()
        if runner.ki_pending:
            runner.main_task_outcome = Error(KeyboardInterrupt())
    yield from ()


def _jump_if_idle(runner: Runner) -> None:
    """Take what came from outside of the loop, and what is due. If there is nothing and nobody can run, time jumps."""
    was_idle, outside, deadlines = not runner.runq, runner.io_manager, runner.deadlines
    happened = outside.get_events(0)
    if happened:
        outside.process_events(happened)
    now = runner.clock.current_time()
    is_due = bool(deadlines._heap) and deadlines._heap[0][0] <= now
    expired = is_due and deadlines.expire(now)
    if was_idle and not (runner.runq or happened or expired):
        runner.clock._autojump()  # type: ignore[attr-defined]


def _take_turns(runner: Runner) -> None:
    """Each task that can run, up to where it waits or ends, in the order that the seed gives."""
    batch = list(runner.runq)
    runner.runq.clear()
    if len(batch) > 1:
        batch.sort(key=_COUNTER)
        trio_run._r.shuffle(batch)
    while batch:
        task = GLOBAL_RUN_CONTEXT.task = batch.pop()
        next_send_fn, next_send = task._next_send_fn, task._next_send
        task._next_send_fn = task._next_send = None
        ended: Error | Value[Any] | None = None
        message: Any = None
        try:
            message = task.context.run(next_send_fn, next_send)  # type: ignore[arg-type]
        except StopIteration as stopped:
            ended = Value(stopped.value)
        except BaseException as error:
            ended = Error(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        if ended is not None:
            runner.task_exited(task, ended)
        elif message is CancelShieldedCheckpoint:
            reschedule(runner, task)
        else:
            task._abort_func = message.abort_func if type(message) is WaitTaskRescheduled else message
            if runner.ki_pending and task is runner.main_task:
                task._attempt_delivery_of_pending_ki()
            if task._cancel_status.effectively_cancelled:
                task._attempt_delivery_of_any_pending_cancel()
        del GLOBAL_RUN_CONTEXT.task


@trio.lowlevel.enable_ki_protection
def reschedule(runner: Runner, task: Task, next_send: Any = _NOTHING) -> None:
    """As `Runner.reschedule`."""
    if next_send is trio_run._NO_SEND:
        next_send = _NOTHING
    assert task._next_send_fn is None
    task._next_send_fn = task.coro.send
    task._next_send = next_send
    task._abort_func = None
    task.custom_sleep_data = None
    runner.runq.append(task)


def reschedule_here(task: Task, next_send: Any = _NOTHING) -> None:
    """As `trio.lowlevel.reschedule`."""
    GLOBAL_RUN_CONTEXT.runner.reschedule(task, next_send)


@types.coroutine
def wait_task_rescheduled(abort: Callable[[Any], trio.lowlevel.Abort]) -> Generator[Any, Any, Any]:
    """As trio's; the loop above takes what is to be called for the message."""
    return (yield abort).unwrap()


@types.coroutine
def cancel_shielded_checkpoint() -> Generator[Any, Any, None]:
    """As trio's."""
    yield CancelShieldedCheckpoint


@types.coroutine
def checkpoint() -> Generator[Any, Any, None]:
    """As trio's."""
    yield CancelShieldedCheckpoint
    task = GLOBAL_RUN_CONTEXT.task
    if task._cancel_status.effectively_cancelled:
        yield from _be_cancelled(task)


@types.coroutine
def checkpoint_if_cancelled() -> Generator[Any, Any, None]:
    """As trio's."""
    if GLOBAL_RUN_CONTEXT.task._cancel_status.effectively_cancelled:
        yield from checkpoint()


def _be_cancelled(task: Task) -> Generator[Any, Any, None]:
    """As trio does it, in a scope of its own: one more turn, then Cancelled."""
    scope = CancelScope(deadline=-inf)
    scope._cancel_reason = task._cancel_status._scope._cancel_reason
    with scope:
        (yield _abort).unwrap()


def _abort(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.SUCCEEDED


def set_event(event: Event) -> None:
    """As `Event.set`."""
    if not event._flag:
        event._flag = True
        for task in event._tasks:
            GLOBAL_RUN_CONTEXT.runner.reschedule(task)
        event._tasks.clear()


@types.coroutine
def wait_event(event: Event) -> Generator[Any, Any, None]:
    """As `Event.wait`."""
    if event._flag:
        yield from checkpoint()
        return
    task = GLOBAL_RUN_CONTEXT.task
    event._tasks.add(task)

    def abort(_: object) -> trio.lowlevel.Abort:
        event._tasks.remove(task)
        return trio.lowlevel.Abort.SUCCEEDED

    (yield abort).unwrap()


REPLACED: Final[tuple[tuple[Any, str, object], ...]] = (
    (trio_run, "unrolled_run", unrolled_run),
    (Runner, "reschedule", reschedule),
    *(
        (owner, name, quick)
        for name, quick in (
            ("wait_task_rescheduled", wait_task_rescheduled),
            ("cancel_shielded_checkpoint", cancel_shielded_checkpoint),
            ("checkpoint", checkpoint),
            ("checkpoint_if_cancelled", checkpoint_if_cancelled),
            ("reschedule", reschedule_here),
        )
        for owner in (trio.lowlevel, trio._core, trio_run)
        if hasattr(owner, name)
    ),
    (Event, "set", set_event),
    (Event, "wait", wait_event),
)
"""What of trio is another in a simulated run."""
