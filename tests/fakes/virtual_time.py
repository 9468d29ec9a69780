"""Runs a test's trio loop on a clock that jumps ahead whenever every task waits. Its fixtures must be plain ones."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec

import trio
from trio.testing import MockClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Arguments = ParamSpec("Arguments")


def in_virtual_time(test: Callable[Arguments, Awaitable[None]]) -> Callable[Arguments, None]:
    """Decorates an async test."""

    @functools.wraps(test)
    def run(*args: Arguments.args, **named: Arguments.kwargs) -> None:
        trio.run(functools.partial(test, *args, **named), clock=MockClock(autojump_threshold=0))

    return run
