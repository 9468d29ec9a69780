"""A run's history in the words of the independent checker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.histories.checker import DONE, NOTHING, Call, digest_of
from tests.histories.checker import FAR as NEVER
from tests.simulation.journal_model import FAR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.journal_model import History, Operation


def calls_of(history: History) -> Iterator[Call]:
    """Moments are counted, so that two of them are never one."""
    for operation in history.operations:
        sent = operation.payload if operation.kind in ("put", "create", "append") else None
        content = operation.answer if operation.kind == "read" else sent
        yield Call(
            client=operation.client,
            kind=operation.kind,
            path=operation.path,
            target=operation.target,
            asked=operation.asked,
            answered=NEVER if operation.answered == FAR else operation.answered,
            answer=_answer_of(operation),
            content=digest_of(content) if isinstance(content, bytes) else None,
            based_on=operation.based_on,
            operation=None if operation.key is None else (operation.key[0].hex(), operation.key[1]),
        )


def _answer_of(operation: Operation) -> str:
    if operation.answered == FAR:
        return "no answer"
    if operation.refusal is not None:
        return operation.refusal.name
    return NOTHING if operation.answer is False else DONE
