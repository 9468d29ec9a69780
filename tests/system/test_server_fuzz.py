"""100,000 bad frames against a real server, before and after HELLO: no traceback, no growth, nobody else disturbed."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest
import trio

from sos_client.wire import messages as m
from sos_client.wire.codec import encode
from tests.fakes.scripted_client import append, data
from tests.system.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from pathlib import Path

HELLO: Final = encode(m.Hello(version=1, token=None, client="fuzz", instance=bytes(16)))
USE: Final = encode(m.Use(namespace="fuzz", create=True))
RESETS: Final = struct.pack("ii", 1, 0)
GOOD: Final = [
    encode(message)
    for message in (
        m.Use(namespace="fuzz", create=True),
        m.Fence(epoch=1, holder=bytes(16)),
        append("log"),
        append("log", 7, prefix_crc=7, epoch=1, holder=bytes(16)),
        data(0, b"payload"),
        m.End(),
        m.Seal(object="log", size=0, epoch=0, holder=b""),
        m.Get(object="log", offset=0, length=None, follow=False),
        m.Get(object="log", offset=0, length=None, follow=True),
        m.Stop(),
        m.Stat(object="log"),
        m.List(after="", limit=1000),
        m.Delete(object="log", epoch=0, holder=b""),
        m.Ping(n=1),
        m.Unknown(type_code=0x3E),
    )
]


def bad_frame(chance: random.Random) -> bytes:
    """A frame that is wrong in one of many ways; some of them leave the connection open, most do not."""
    frame = bytearray(chance.choice(GOOD))
    match chance.randrange(6):
        case 0:
            frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
        case 1:
            frame[4:] = chance.randbytes(len(frame) - 4)
        case 2:
            frame[:4] = b"\xff\xff\xff\xff"
        case 3:
            body = chance.randbytes(chance.randrange(1, 200))
            frame[:] = struct.pack(">IB", len(body) + 1, frame[4]) + body
        case 4:
            nested = b"\xdd\x00\x00\xff\xff" * chance.randrange(1, 400)
            frame[:] = struct.pack(">IB", len(nested) + 1, frame[4]) + nested
        case _:
            names = chance.choice(["../../etc/passwd", "/", "a/../b", "\0", "x" * 1000, "."])
            frame[:] = encode(m.Stat(object=names))
    return bytes(frame)


def attack(server: ServerProcess, chance: random.Random, frames: int) -> None:
    """Half of the frames without HELLO, one a connection; the others after it, in bundles."""
    for _ in range(frames // 2):
        throw(server, bad_frame(chance))
    for _ in range(frames // 2 // 20):
        throw(server, HELLO + USE + b"".join(bad_frame(chance) for _ in range(20)))


def throw(server: ServerProcess, content: bytes) -> None:
    with server.connect() as connected:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)  # a port is free again at once
        try:
            connected.sendall(content)
            connected.shutdown(socket.SHUT_WR)  # or the server waits for the rest of a frame, as it should
            connected.recv(1)
        except OSError:
            return


async def attacked(server: ServerProcess, frames: int) -> None:
    """Be attacked by a thread, while a good client appends beside it and must not notice."""
    client = await server.entered("beside")
    await client.ask(append(f"log-{time.monotonic_ns()}"), m.Appending)
    attacker = threading.Thread(target=attack, args=(server, random.Random(frames), frames))
    attacker.start()
    size = 0
    while attacker.is_alive():
        await client.send(data(size, b"x" * 100))
        size += 100
        await client.acknowledged(size)
        await trio.sleep(0.01)
    await client.send(m.End())
    assert await client.expect(m.Ended) == m.Ended(size=size)


async def survive(tmp_path: Path, frames: int) -> None:
    with serving(tmp_path) as server:
        await attacked(server, 2000)
        before = server.rss_bytes()
        await attacked(server, frames)
        assert server.rss_bytes() - before < 8 << 20
        assert server.terminate() == 0
        assert {line["level"] for line in server.log()} <= {"info", "warning", "audit"}


async def test_bad_frames(tmp_path: Path) -> None:
    await survive(tmp_path, 2000)


@pytest.mark.slow
async def test_a_hundred_thousand_bad_frames(tmp_path: Path) -> None:
    await survive(tmp_path, 100_000)
