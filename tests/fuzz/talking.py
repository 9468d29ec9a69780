"""What stateful fuzzing does on one connection, whatever the protocol: legal and nearly legal frames, cut anywhere.

A `Talk` makes the frames and judges the answers; it knows its protocol's states. Here is how its bytes travel: together
or one by one, with or without waiting for answers, over connections that end politely, by vanishing or by a reset.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import trio

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

STEPS_MAX: Final = 40
ANSWER_SECONDS_MAX: Final = 30.0
"""What is legal and not answered by then was lost by the server. Long: a machine that runs tests is busy."""
_RESETS: Final = struct.pack("ii", 1, 0)


class FoundError(Exception):
    """The peer did something that its protocol does not allow, or did not do what it has to."""


class Talk(Protocol):
    """One conversation. `legal` until something went out that the peer may end the connection for."""

    legal: bool
    over: bool
    """The peer has said that it ends the connection, or was asked to."""

    def next_bytes(self) -> bytes:
        """The next frame, legal or not quite."""

    def last_bytes(self) -> bytes:
        """Leave every mode, and ask for one more answer."""

    def received(self, data: bytes) -> None:
        """Judge answers. FoundError for what cannot be."""

    @property
    def answered(self) -> bool:
        """Whether everything that was asked has its answer."""


@dataclass(slots=True)
class Tally:
    """What a run did, so that one that did nothing does not pass for a good one."""

    conversations: int = 0
    frames: int = 0
    answered: int = 0
    """Conversations that were legal, and answered, to their end."""
    answers: Counter[str] = field(default_factory=Counter)


async def talk_over(
    dial: Callable[[], Awaitable[trio.SocketStream]], talk: Talk, chance: random.Random, tally: Tally
) -> None:
    """One conversation from connect to close. FoundError when the peer breaks the protocol, or hangs."""
    try:
        stream = await dial()
    except OSError as error:
        raise FoundError(f"cannot connect: {error}") from error
    tally.conversations += 1
    ended = trio.Event()

    async def listen() -> None:
        try:
            while data := await stream.receive_some(65536):
                talk.received(bytes(data))
        except trio.BrokenResourceError:
            pass
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        try:
            vanished = await _say(stream, talk, chance, tally)
            if not vanished:
                await _see_the_end(stream, talk, ended, tally)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            with trio.move_on_after(ANSWER_SECONDS_MAX):
                await ended.wait()
            if talk.legal and not talk.over:
                raise FoundError("the peer closed the connection, and gave no reason") from None
        nursery.cancel_scope.cancel()
    await trio.aclose_forcefully(stream)


async def _say(stream: trio.SocketStream, talk: Talk, chance: random.Random, tally: Tally) -> bool:
    """Send some steps. True when the connection was ended in the middle of it."""
    patient = chance.random() < 0.3
    waiting = bytearray()
    for _ in range(chance.randint(1, STEPS_MAX)):
        if talk.over:
            break
        waiting += talk.next_bytes()
        tally.frames += 1
        if patient or chance.random() < 0.4:
            await _send_cut(stream, waiting, chance)
            waiting.clear()
        if patient:
            await _until_answered(talk)
    if chance.random() < 0.15:
        await _send_cut(stream, waiting[: chance.randint(0, len(waiting))], chance)
        if chance.random() < 0.5:
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
        return True
    await _send_cut(stream, waiting, chance)
    return False


async def _send_cut(stream: trio.SocketStream, data: bytes | bytearray, chance: random.Random) -> None:
    content = bytes(data)
    while content:
        step = len(content) if chance.random() < 0.6 else chance.randint(1, len(content))
        await stream.send_all(content[:step])
        content = content[step:]
        if chance.random() < 0.3:
            await trio.sleep(chance.random() * 0.003)


async def _until_answered(talk: Talk) -> None:
    with trio.move_on_after(0.05):  # an answer in a mode may need more of what is sent
        while not (talk.answered or talk.over):  # noqa: ASYNC110
            await trio.sleep(0.001)


async def _see_the_end(stream: trio.SocketStream, talk: Talk, ended: trio.Event, tally: Tally) -> None:
    """What was legal is answered; whoever was not legal is left as soon as nothing more comes."""
    if talk.legal and not talk.over:
        await stream.send_all(talk.last_bytes())
        with trio.move_on_after(ANSWER_SECONDS_MAX) as patience:
            while not (talk.answered or talk.over or ended.is_set()):  # noqa: ASYNC110
                await trio.sleep(0.001)
        if patience.cancelled_caught:
            raise FoundError("what was asked was not answered")
        if not talk.answered and not talk.over:
            raise FoundError("the peer closed the connection before it had answered, and gave no reason")
        tally.answered += 1
        return
    await stream.send_eof()
    with trio.move_on_after(ANSWER_SECONDS_MAX) as patience:
        await ended.wait()
    if patience.cancelled_caught:
        raise FoundError("the peer did not let go of a connection that is over")


def nearly(frame: bytes, chance: random.Random) -> bytes:
    """The frame with something wrong: a byte, its length, its type, its end."""
    changed = bytearray(frame)
    match chance.randrange(5):
        case 0:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        case 1:
            changed[:4] = struct.pack(">I", chance.choice((0, 1, len(frame), 4097, 1 << 20, (1 << 32) - 1)))
        case 2:
            changed[4] = chance.randrange(256)
        case 3:
            del changed[chance.randrange(len(changed)) :]
        case _:
            return b"\0\0\0\0" if chance.random() < 0.5 else chance.randbytes(chance.randint(1, 40))
    return bytes(changed)
