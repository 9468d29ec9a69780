"""What may answer a request, and one such exchange under way: how far its bytes have come, what has been acknowledged.

`connection` decides which exchange a message belongs to; this decides whether the message can be true for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from sos_client.wire import messages as m
from sos_client.wire.errors import ProtocolError
from sos_client.wire.limits import OFFSET_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sos_client.wire.messages import Answer, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What answers a request: `first` once where there is one, any number of `during`, then `final`.

    An Error is final for every request. PING is not here: its PONG may come between the answers of a mode.
    """

    first: type[Answer] | None = None
    during: type[Answer] | None = None
    final: type[Answer] | None


ANSWERS: Final[Mapping[type[Request], Answers]] = {
    **{request: Answers(final=answer) for request, answer in m.ASKED.items()},
    m.Hello: Answers(final=m.Welcome),
    m.Append: Answers(first=m.Appending, during=m.Ack, final=m.Ended),
    m.Get: Answers(during=m.Data, final=m.GetEnd),
    m.Quit: Answers(final=m.Bye),
    m.Unknown: Answers(final=None),
}


class Exchange:
    """A request whose answer is not complete, and how far the bytes of it (append) or for it (get) have come."""

    __slots__ = ("acknowledged", "answers", "begun", "end_offset", "next_offset", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.answers = ANSWERS[type(request)]
        self.begun = self.answers.first is None
        self.next_offset = 0
        self.end_offset = OFFSET_MAX
        self.acknowledged = (0, 0)  # written, synced
        if isinstance(request, m.Append):
            self.next_offset = request.size
            self.acknowledged = (request.size, request.size)
        elif isinstance(request, m.Get):
            self.next_offset = request.offset
            if request.length is not None:
                self.end_offset = request.offset + request.length

    def advance(self, offset: int, length: int) -> None:
        """Account for DATA. It has to continue what came before and stay within what was asked for."""
        if offset != self.next_offset or offset + length > self.end_offset:
            raise ProtocolError(f"DATA [{offset}, +{length}) where {self.next_offset} comes next")
        self.next_offset = offset + length

    def check(self, answer: Answer, *, left: bool) -> bool:
        """True when the answer is the final one, ProtocolError when it cannot be true. `left`: END or STOP has come."""
        kind = type(answer)
        if kind is m.Error:
            return True
        if not self.begun and kind is self.answers.first:
            self._begin(cast("m.Appending", answer))
            return False
        if self.begun and kind is self.answers.during:
            self._progress(cast("m.Ack | m.Data", answer))
            return False
        if self.begun and kind is self.answers.final and (left or kind is not m.Ended):
            self._end(answer)
            return True
        raise ProtocolError(f"{kind.__name__} does not answer {type(self.request).__name__} now")

    def acknowledge(self, written: int, synced: int) -> bool:
        """Take an ACK that can be true now; False when it cannot, and then nothing has changed."""
        before_written, before_synced = self.acknowledged
        if (
            self.answers.during is m.Ack
            and self.begun
            and before_written <= written <= self.next_offset
            and before_synced <= synced <= written
        ):
            self.acknowledged = (written, synced)
            return True
        return False

    def _begin(self, answer: m.Appending) -> None:
        if answer.size != self.acknowledged[1]:
            raise ProtocolError(f"APPENDING at {answer.size}, but {self.acknowledged[1]} was asked for")
        self.begun = True

    def _progress(self, answer: m.Ack | m.Data) -> None:
        if isinstance(answer, m.Data):
            self.advance(answer.offset, len(answer.payload))
            return
        if not self.acknowledge(*answer):
            before = self.acknowledged
            raise ProtocolError(f"ACK {tuple(answer)} after {before} with {self.next_offset} sent")

    def _end(self, answer: Answer) -> None:
        if isinstance(answer, m.Ended) and answer.size != self.next_offset:
            raise ProtocolError(f"ENDED at {answer.size}, but the append has come to {self.next_offset}")
        if isinstance(answer, m.GetEnd) and answer.next_offset != self.next_offset:
            raise ProtocolError(f"GET ends at {answer.next_offset}, but its bytes at {self.next_offset}")
