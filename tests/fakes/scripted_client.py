"""A client that says exactly what a test tells it to, and shows what comes back; nothing is retried or hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from sos_client.wire.checksum import crc32c
from sos_client.wire.connection import Connection, Role
from sos_client.wire.messages import Ack, Append, Data, Error, Hello, Message, Use, Using, Welcome

if TYPE_CHECKING:
    from sos_client.wire.errors import ErrorCode

Kind = TypeVar("Kind")
INSTANCE = b"scripted client!"


class ScriptedClient:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.connection = Connection(Role.CLIENT)

    async def send(self, *messages: Message) -> None:
        await self.stream.send_all(b"".join(self.connection.send(message) for message in messages))

    async def receive(self) -> Message | None:
        """The next answer; None at the end of the stream."""
        with trio.fail_after(60):
            while (message := self.connection.next_event()) is None:
                data = await self.stream.receive_some(65536)
                if not data:
                    return None
                self.connection.receive(bytes(data))
        return message

    async def expect(self, kind: type[Kind]) -> Kind:
        message = await self.receive()
        assert isinstance(message, kind), message
        return message

    async def ask(self, request: Message, kind: type[Kind]) -> Kind:
        await self.send(request)
        return await self.expect(kind)

    async def refused(self, request: Message) -> Error:
        return await self.ask(request, Error)

    async def hello(self, token: bytes | None = None, *, instance: bytes = INSTANCE) -> Welcome:
        return await self.ask(Hello(version=1, token=token, client="test", instance=instance), Welcome)

    async def use(self, namespace: str, *, create: bool = True) -> Using:
        return await self.ask(Use(namespace=namespace, create=create), Using)

    async def ends_with(self, code: ErrorCode) -> Error:
        """The server says why, and nothing comes after it."""
        error = await self.expect(Error)
        assert error.code is code, error
        with trio.fail_after(60):
            assert await self.stream.receive_some(1) == b""
        return error

    async def acknowledged(self, offset: int) -> Ack:
        """Read ACKs until one says that so much is synced."""
        while True:
            ack = await self.expect(Ack)
            if ack.synced >= offset:
                return ack


def data(offset: int, payload: bytes) -> Data:
    return Data(offset, crc32c(payload), payload)


def append(name: str, size: int = 0, *, epoch: int = 0, holder: bytes = b"", prefix_crc: int | None = None) -> Append:
    return Append(object=name, size=size, prefix_crc=prefix_crc, epoch=epoch, holder=holder)
