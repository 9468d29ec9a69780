"""Mistakes around what clients may do: files that grow, rights that are taken away, a log without a part of it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

import trio

from journal.gateway.client.shared_link import SharedLink
from journal.gateway.gateway import Gateway
from journal.image import preconditions
from journal.owner import in_place
from journal.records.change import CommitChange
from sos_client.wire.errors import ConnectionLostError
from sos_server.storage.recovery import Replay
from tests.simulation.planting import PlantedBug, replaced, together, wrapped

if TYPE_CHECKING:
    from journal.gateway.client.shared_link import Question
    from journal.gateway.wire import messages as m
    from tests.simulation.planting import Right


def _size_alone(right: Right, image: Any, path: str, **options: Any) -> Any:
    return right(image, path, **{**options, "modified_ms": None})


def _commit_of_now(**fields: Any) -> CommitChange:
    return CommitChange(**{**fields, "modified_ms": None})


async def _free_the_tag(right: Right, link: SharedLink, request: m.Request, question: Question) -> Any:
    """Who gives up thinks that its answer will not come."""
    try:
        return await right(link, request, question)
    except trio.Cancelled:
        question.failure = ConnectionLostError("given up")
        raise


def _lowest_tag(link: SharedLink) -> int:
    asked = link._questions
    link._last_tag = next(tag for tag in count(1) if tag not in asked or asked[tag].failure is not None)
    return link._last_tag


def _nothing(*_: object) -> None:
    """Does nothing where something should be done."""


CLIENT_BUGS: Final = (
    PlantedBug(
        name="an append looks at the size alone",
        breaks="a writer goes on in a file that was replaced by one of the same size",
        plant=wrapped(preconditions, "check_append", _size_alone),
    ),
    PlantedBug(
        name="a joined file is a new one",
        breaks="a file of many pieces that is written again gets another time, and its writer is told CHANGED",
        plant=replaced(in_place, "CommitChange", _commit_of_now),
    ),
    PlantedBug(
        name="rights stay until the connection ends",
        breaks="a session keeps the rights that its token had when it came",
        plant=replaced(Gateway, "reload_access", _nothing),
    ),
    PlantedBug(
        name="a tag that was given up is given out again",
        breaks="the tag of a request that was given up is another one's before its answer has come",
        plant=together(wrapped(SharedLink, "ask", _free_the_tag), replaced(SharedLink, "_next_tag", _lowest_tag)),
    ),
    PlantedBug(
        name="claims that may be lost count as kept",
        breaks="a server that starts without a part of its log is the member that it was",
        plant=replaced(Replay, "accept", _nothing),
        seeds_max=400,
    ),
)
