"""Whom an exception that nobody foresaw may end: one connection, or the whole process.

A connection's own state goes with it. What all connections share does not: when something unforeseen happened while it
was being changed, nobody knows whether it is right, and only a start from what is durable makes sure.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class SharedStateError(Exception):
    """What all connections share may be wrong; the text says what was being done. It has to end the process."""


@contextmanager
def changing_shared(what: str, *, foreseen: tuple[type[Exception], ...]) -> Iterator[None]:
    """In the block something is changed that all connections share: whatever is not foreseen is a SharedStateError."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (SharedStateError, *foreseen)):
            raise
        raise in_doubt(what, error) from error


def in_doubt(what: str, error: Exception) -> SharedStateError:
    return SharedStateError(f"{what}: {type(error).__name__}: {error}; what all share may be wrong, so this ends here")


def concerns_all(error: Exception) -> bool:
    """Whether this, or one of a group, has to end the process."""
    if isinstance(error, ExceptionGroup):
        return any(concerns_all(inner) for inner in error.exceptions)
    return isinstance(error, SharedStateError)
