"""Conversations in the file protocol for stateful fuzzing: every request and right, a few paths that all share.

There is no state machine of this protocol to ask, so answers are counted: each request has one that comes last.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.tagging import OF_THE_CONNECTION, tagged, untagged
from journal.volume import OperationId, PathClaim
from sos_client.wire.errors import ProtocolError
from sos_client.wire.frames import FrameSplitter
from tests.fuzz.talking import FoundError, nearly

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tests.fuzz.talking import Tally

PATHS: Final = ("d", "d/f", "d/g", "e/f", "e", "x/y/z", "ünï", "p" * 500, "bad//path", "")
CLOSING: Final = {
    JournalCode.SHUTTING_DOWN,
    JournalCode.VERSION,
    JournalCode.AUTH,
    JournalCode.PROTOCOL,
    JournalCode.LIMIT,
    JournalCode.TOO_SLOW,
}
SMALL_BYTES: Final = 300
LARGE_BYTES: Final = 400_000
NEARLY: Final = 0.03


@dataclass(slots=True)
class FileWorld:
    tokens: Sequence[bytes | None]
    volume: str


class FileTalk:
    """One client."""

    def __init__(self, world: FileWorld, chance: random.Random, tally: Tally) -> None:
        self.legal = True
        self.over = False
        self._world = world
        self._chance = chance
        self._tally = tally
        self._splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)
        self._unanswered: deque[type[m.Request]] = deque()
        self._shared = chance.random() < 0.5  # many requests at a time, each with a tag
        self._tags: set[int] = set()  # of those that are not answered
        self._last_tag = 0
        self._greeted = self._opened = False
        self._writing: int | None = None  # the bytes that went into a streamed write
        self._instance = chance.randbytes(16)
        self._sequence = 0

    @property
    def answered(self) -> bool:
        return not self._unanswered and not self._tags

    def next_bytes(self) -> bytes:
        request = self._request()
        if self._chance.random() < NEARLY or not self.legal:
            self.legal = False
            return nearly(self._framed(request), self._chance)
        return self._sent(request)

    def last_bytes(self) -> bytes:
        frames = b"" if self._greeted else self._sent(self._request())
        if self._writing is not None:
            frames += self._sent(m.WriteCancelRequest())
        return frames + self._sent(m.PingRequest(number=1))

    def received(self, data: bytes) -> None:
        if not self.legal:
            return
        self._splitter.feed(data)
        try:
            while (frame := self._splitter.next_frame()) is not None:
                if self._shared and not self._unanswered:
                    tag, body = untagged(frame[1])
                    self._judge_tagged(tag, decode_answer(frame[0], body))
                else:
                    self._judge(decode_answer(*frame))
        except ProtocolError as error:
            raise FoundError(f"an answer that cannot be: {error}") from error

    def _judge_tagged(self, tag: int, answer: m.Answer) -> None:
        if tag == OF_THE_CONNECTION:
            self._judge(answer)
        elif tag not in self._tags:
            raise FoundError(f"{type(answer).__name__} to request {tag}, which was not asked")
        else:
            self._tags.remove(tag)
            self._tally.answers[f"{type(answer).__name__} on a shared connection"] += 1

    def _framed(self, request: m.Request) -> bytes:
        if not self._shared or isinstance(request, m.HelloRequest):
            return encode(request)
        self._last_tag += 1
        return tagged(self._last_tag, encode(request))

    def _judge(self, answer: m.Answer | None) -> None:
        kind = JournalCode(answer.code).name if isinstance(answer, m.RefusalAnswer) else type(answer).__name__
        self._tally.answers[kind] += 1
        if isinstance(answer, m.WaitingAnswer):
            return
        if isinstance(answer, m.RefusalAnswer) and answer.code in CLOSING:
            self.over = True
            return
        if not self._unanswered:
            raise FoundError(f"{type(answer).__name__} answers nothing")
        if self._unanswered[0] is m.ReadRequest and isinstance(answer, m.StatusAnswer | m.FileData):
            return
        self._unanswered.popleft()

    def _sent(self, request: m.Request) -> bytes:
        if self._shared and self._greeted:
            if isinstance(request, m.OpenRequest) and self._tags:
                request = m.PingRequest(number=2)  # nothing may be in progress beside OPEN
            frame = self._framed(request)
            self._tags.add(self._last_tag)
            self.over |= isinstance(request, m.QuitRequest)
            return frame
        match request:
            case m.HelloRequest():
                self._greeted = True
            case m.WriteOpenRequest():
                self._writing = 0
            case m.FileData():
                self._writing = request.offset + len(request.payload)
                return encode(request)
            case m.WriteCommitRequest() | m.WriteCancelRequest():
                self._writing = None
                return encode(request)
            case m.QuitRequest():
                self.over = True
        self._unanswered.append(type(request))
        return encode(request)

    def _stamp(self) -> m.Stamp:
        chance = self._chance
        again = chance.random() < 0.1 and self._sequence > 0
        self._sequence += not again
        claim = PathClaim(start_time=chance.randrange(3), application="app") if chance.random() < 0.1 else None
        operation = OperationId(client=self._instance, sequence=self._sequence)
        return m.Stamp(operation=operation, claim=claim, epoch_seen=0)

    def _payload(self, least: int) -> bytes:
        large = self._chance.random() < 0.03
        return self._chance.randbytes(self._chance.randint(least, LARGE_BYTES if large else SMALL_BYTES))

    def _request(self) -> m.Request:
        """One that may come next."""
        chance = self._chance
        if not self._greeted:
            token = chance.choice(self._world.tokens)
            version = limits.SHARED_VERSION if self._shared else limits.VERSION
            return m.HelloRequest(version=version, token=token, client="fuzz", instance=self._instance)
        if not self._opened:
            self._opened = True
            return m.OpenRequest(volume=self._world.volume, epoch_seen=0)
        if self._writing is not None:
            kind = chance.choices(("data", "commit", "cancel"), (4, 2, 1))[0]
            if kind == "data":
                return m.FileData(offset=self._writing, payload=self._payload(1))
            return m.WriteCommitRequest(size=self._writing) if kind == "commit" else m.WriteCancelRequest()
        return self._asking() if chance.random() < 0.4 else self._changing()

    def _asking(self) -> m.Request:
        chance = self._chance
        path = chance.choice(PATHS)
        match chance.choices(range(7), (6, 4, 3, 3, 2, 2, 0.2))[0]:
            case 0:
                return m.OpenRequest(
                    volume=chance.choice((self._world.volume, self._world.volume, "none")), epoch_seen=0
                )
            case 1:
                length = chance.choice((None, 0, 7, limits.NUMBER_MAX))
                return m.ReadRequest(
                    path=path, offset=chance.choice((0, 3)), length=length, modified_ms=None, epoch_seen=0
                )
            case 2:
                return m.StatRequest(path=path, epoch_seen=chance.choice((0, 0, limits.NUMBER_MAX)))
            case 3:
                return m.ListRequest(path=path, after="", limit=chance.choice((1, 1000)), epoch_seen=0)
            case 4:
                return m.DescribeRequest(epoch_seen=0)
            case 5:
                return m.PingRequest(number=chance.randrange(9))
            case _:
                return m.QuitRequest()

    def _changing(self) -> m.Request:
        chance = self._chance
        path, stamp, overwrite = chance.choice(PATHS), self._stamp(), chance.random() < 0.5
        match chance.choices(range(8), (8, 4, 2, 2, 3, 0.5, 1, 0.5))[0]:
            case 0:
                return m.PutRequest(path=path, overwrite=overwrite, stamp=stamp, payload=self._payload(0))
            case 1:
                return m.WriteOpenRequest(path=path, overwrite=overwrite, stamp=stamp)
            case 2:
                return m.MkdirsRequest(path=path, stamp=stamp)
            case 3:
                return m.DeleteRequest(path=path, recursive=overwrite, stamp=stamp)
            case 4:
                return m.RenameRequest(source=path, target=chance.choice(PATHS), overwrite=overwrite, stamp=stamp)
            case 5:
                claim = PathClaim(start_time=chance.randrange(5), application="app")
                claiming = m.Stamp(operation=stamp.operation, claim=claim, epoch_seen=0)
                return m.ClaimRequest(path="x/y", stamp=claiming)
            case 6:
                return m.MarkRequest(values=(("batch", chance.randrange(99)),), stamp=stamp)
            case _:
                return m.PinRequest(name="p", lsn=chance.randrange(99), seconds=chance.choice((0, 60)), stamp=stamp)
