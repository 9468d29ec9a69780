"""Cancel scopes of trio in a simulated run: entered and left without a generator for each change of a deadline.

Whatever is rare, such as an error that goes through a scope, is left to trio. `test_determinism` holds both against
each other.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final

import trio
from trio._core import _run as trio_run
from trio._core._run import GLOBAL_RUN_CONTEXT, CancelScope, CancelStatus

_enter_as_trio: Final = CancelScope.__enter__
_close_as_trio: Final = CancelScope._close


@trio.lowlevel.enable_ki_protection
def enter_scope(scope: CancelScope) -> CancelScope:
    """As `CancelScope.__enter__`."""
    runner, task = GLOBAL_RUN_CONTEXT.runner, GLOBAL_RUN_CONTEXT.task
    parent = task._cancel_status
    if scope._has_been_entered or parent is None:
        return _enter_as_trio(scope)
    scope._has_been_entered = True
    now = runner.clock.current_time()
    if scope._relative_deadline != inf:
        scope._deadline = now + scope._relative_deadline
        scope._relative_deadline = inf
    deadline = scope._deadline
    if now >= deadline:
        scope._cancel(trio_run.CancelReason(source="deadline"))
    status = scope._cancel_status = CancelStatus(scope=scope)
    status._parent = parent
    parent._children.add(status)
    inherited = parent.effectively_cancelled and not scope._shield
    if scope._cancel_called or inherited:
        status.effectively_cancelled = True
        if inherited and scope._cancel_reason is None:
            scope._cancel_reason = parent._scope._cancel_reason
    parent._tasks.remove(task)
    task._cancel_status = status
    status._tasks.add(task)
    if deadline != inf and not scope._cancel_called:
        scope._registered_deadline = deadline
        runner.deadlines.add(deadline, scope)
    return scope


@trio.lowlevel.enable_ki_protection
def close_scope(scope: CancelScope, error: BaseException | None) -> BaseException | None:
    """As `CancelScope._close`, which does everything that is rare."""
    status, task = scope._cancel_status, GLOBAL_RUN_CONTEXT.task
    if error is not None or status is None or task._cancel_status is not status or status._parent is None:
        return _close_as_trio(scope, error)
    parent = status._parent
    status._tasks.remove(task)
    task._cancel_status = parent
    parent._tasks.add(task)
    if status._tasks or status._children:
        status.close()
    else:
        parent._children.remove(status)
        status._parent = None
    scope._cancel_status = None
    _forget_deadline(scope)
    return None


def _forget_deadline(scope: CancelScope) -> None:
    registered = scope._registered_deadline
    if registered != inf:
        scope._registered_deadline = inf
        GLOBAL_RUN_CONTEXT.runner.deadlines.remove(registered, scope)


@trio.lowlevel.enable_ki_protection
def cancel_scope(scope: CancelScope, reason: Any) -> None:
    """As `CancelScope._cancel`."""
    if scope._cancel_called:
        return
    if scope._cancel_reason is None:
        scope._cancel_reason = reason
    scope._cancel_called = True
    _forget_deadline(scope)
    if scope._cancel_status is not None:
        scope._cancel_status.recalculate()


def recalculate(status: CancelStatus) -> None:
    """As `CancelStatus.recalculate`."""
    now = GLOBAL_RUN_CONTEXT.runner.clock.current_time()
    todo = [status]
    while todo:
        current = todo.pop()
        scope, parent = current._scope, current._parent
        inherited = parent is not None and parent.effectively_cancelled and not scope._shield
        cancelled = scope._cancel_called or (now >= scope._deadline and scope.cancel_called) or inherited
        if cancelled != current.effectively_cancelled:
            if inherited and scope._cancel_reason is None:
                assert parent is not None
                scope._cancel_reason = parent._scope._cancel_reason
            current.effectively_cancelled = cancelled
            if cancelled:
                for task in current._tasks:
                    task._attempt_delivery_of_any_pending_cancel()
            todo.extend(current._children)


class FailAfter:
    """As `trio.fail_after`."""

    def __init__(self, seconds: float, *, shield: bool = False) -> None:
        self._scope = trio.move_on_after(seconds, shield=shield)

    def __enter__(self) -> CancelScope:
        return self._scope.__enter__()

    def __exit__(self, *error: Any) -> bool:
        handled = self._scope.__exit__(*error)
        if self._scope.cancelled_caught:
            raise trio.TooSlowError
        return handled


REPLACED: Final[tuple[tuple[Any, str, object], ...]] = (
    (trio, "fail_after", FailAfter),
    (CancelScope, "__enter__", enter_scope),
    (CancelScope, "_close", close_scope),
    (CancelScope, "_cancel", cancel_scope),
    (CancelStatus, "recalculate", recalculate),
)
"""What of trio is another in a simulated run."""
