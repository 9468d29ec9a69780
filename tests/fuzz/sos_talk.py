"""Conversations in the SOS protocol for stateful fuzzing: every mode and right, a few names that all of them share.

The project's own state machine says which message is legal next, and judges the answers to those that were.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.codec import encode
from sos_client.wire.connection import Connection, Role, State
from sos_client.wire.errors import REFUSALS, MisuseError, ProtocolError
from sos_client.wire.limits import OFFSET_MAX, PIPELINED_REQUESTS_MAX
from tests.fuzz.talking import FoundError, nearly

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tests.fuzz.talking import Tally

NAMES: Final = ("a", "b", "c", "d")
HOLDERS: Final = (b"holder number 1.", b"holder number 2.")
SMALL_BYTES: Final = 200
LARGE_BYTES: Final = 300_000
NAMES_LAST: Final = 300
"""Conversations after which other names are used: those before are mostly sealed, or claimed for ever, by then."""
NEARLY: Final = 0.03
"""How often a step is not quite legal: most conversations stay legal to their end."""


@dataclass(slots=True)
class SosWorld:
    """What all conversations of a run know of the server, more or less: enough for requests that are granted."""

    tokens: Sequence[bytes | None]
    sizes: dict[str, int] = field(default_factory=dict)
    claims: dict[str, tuple[int, bytes]] = field(default_factory=dict)


class SosTalk:
    """One client. The claim is told by USING where the token may know it, else guessed."""

    def __init__(self, world: SosWorld, chance: random.Random, tally: Tally) -> None:
        self.legal = True
        self.over = False
        self._world = world
        self._chance = chance
        self._tally = tally
        self._connection = Connection(Role.CLIENT)
        self._namespace = ""
        self._claiming = (0, b"")
        self._instance = chance.choice(HOLDERS)

    @property
    def answered(self) -> bool:
        return self._connection.unanswered == 0

    def next_bytes(self) -> bytes:
        chance = self._chance
        message = self._message()
        if chance.random() < NEARLY or not self.legal:
            self.legal = False
            return nearly(encode(message), chance)
        if self._connection.unanswered >= PIPELINED_REQUESTS_MAX - 1:
            return b""
        try:
            if isinstance(message, m.Quit):
                self.over = True
            return self._connection.send(message)
        except MisuseError:  # legal a moment ago, before the answer that has come since
            return b""

    def last_bytes(self) -> bytes:
        """What leaves the mode, and a request whose answer comes last."""
        frames = b""
        state = self._connection.state
        if state is State.OPENING:
            frames += self._connection.send(self._hello())
        if state in (State.APPENDING, State.DISCARDING):
            frames += self._connection.send(m.End())
        if state is State.FOLLOWING:
            frames += self._connection.send(m.Stop())
        return frames + self._connection.send(m.Stat(object="last"))

    def received(self, data: bytes) -> None:
        if not self.legal:
            return
        self._connection.receive(data)
        try:
            while (message := self._connection.next_event()) is not None:
                self._learn(message)
        except ProtocolError as error:
            raise FoundError(f"an answer that cannot be: {error}") from error

    def _learn(self, message: m.Message) -> None:
        kind = message.code.name if isinstance(message, m.Error) else type(message).__name__
        self._tally.answers[kind] += 1
        match message:
            case m.Error() if REFUSALS[message.code].closes:
                self.over = True
            case m.Using():
                self._world.claims.setdefault(self._namespace, (message.epoch, message.holder))
            case m.Fenced():
                self._world.claims[self._namespace] = self._claiming
            case m.ObjectInfo():
                self._world.sizes[message.name] = message.size
            case m.Listing():
                self._world.sizes.update({entry.name: entry.size for entry in message.entries})

    def _hello(self) -> m.Hello:
        token = self._chance.choice(self._world.tokens)
        return m.Hello(version=1, token=token, client="fuzz", instance=self._instance)

    def _message(self) -> m.Message:
        """One that may come next."""
        chance = self._chance
        match self._connection.state:
            case State.OPENING:
                return self._hello()
            case State.APPENDING | State.DISCARDING:
                kind = chance.choices(("data", "ping", "end"), (6, 1, 2))[0]
                if kind == "data":
                    return self._data()
                return m.Ping(n=chance.randrange(9)) if kind == "ping" else m.End()
            case State.FOLLOWING:
                return m.Stop() if chance.random() < 0.6 else m.Ping(n=chance.randrange(9))
        return self._request()

    def _data(self) -> m.Data:
        mode = self._connection._mode
        offset = mode.next_offset if mode is not None else 0
        large = self._chance.random() < 0.03
        payload = self._chance.randbytes(self._chance.randint(1, LARGE_BYTES if large else SMALL_BYTES))
        return m.Data(offset, crc32c(payload), payload)

    def _request(self) -> m.Message:
        chance = self._chance
        if not self._namespace or chance.random() < 0.05:
            self._namespace = f"{chance.choice(NAMES)}{self._tally.conversations // NAMES_LAST}"
            return m.Use(namespace=self._namespace, create=chance.random() < 0.9)
        name = f"{chance.choice(NAMES)}{self._tally.conversations // NAMES_LAST}"
        size = self._world.sizes.get(name, 0) if chance.random() < 0.8 else chance.randrange(2 * SMALL_BYTES)
        epoch, holder = self._claim()
        match chance.choices(range(1, 12), (0.3, 8, 1, 3, 4, 3, 1, 1, 2, 0.3, 0.3))[0]:
            case 1:
                wild = self._namespace.startswith(NAMES[-1]) and chance.random() < 0.1
                raised = (
                    chance.choice((0, 1 << 40, OFFSET_MAX))
                    if wild
                    else min(OFFSET_MAX, epoch + chance.choice((0, 1, 1, 2)))
                )
                self._claiming = (raised, chance.choice(HOLDERS))
                return m.Fence(epoch=raised, holder=self._claiming[1])
            case 2:
                crc = chance.choice((None, None, 0, 7))
                return m.Append(object=name, size=size, prefix_crc=crc, epoch=epoch, holder=holder)
            case 3:
                return m.Seal(object=name, size=size, epoch=epoch, holder=holder)
            case 4 | 5 as kind:
                length = chance.choice((None, 0, 1, 10, size, OFFSET_MAX - size))
                return m.Get(
                    object=name, offset=chance.choice((0, 0, size, size // 2)), length=length, follow=kind == 5
                )
            case 6:
                return m.Stat(object=name)
            case 7:
                return m.List(after=chance.choice(("", name)), limit=chance.choice((1, 1000)))
            case 8:
                return m.Delete(object=name, epoch=epoch, holder=holder)
            case 9:
                return m.Ping(n=chance.randrange(9))
            case 10:
                return m.Unknown(type_code=0x3F)
            case _:
                return m.Quit()

    def _claim(self) -> tuple[int, bytes]:
        if self._chance.random() < 0.1:
            return self._chance.randrange(4), self._chance.choice((b"", *HOLDERS))
        return self._world.claims.get(self._namespace, (0, b""))
