"""One connection of a source to a listener: HELLO has been answered on it, frames go out and come in. No retries.

After any error it is good only for closing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from connectors.frames_in import next_frame
from connectors.wire.frames import ErrorFrame, Frame, HelloFrame
from connectors.wire.session import ConnectorRole, ConnectorSession
from sos_client.net.dialing import FOREIGN_ERRORS, translate, translated
from sos_client.wire.errors import ProtocolError
from sos_client.wire.strangers import CONNECTOR, HEAD_BYTES, check_greeted

if TYPE_CHECKING:
    from sos_client.net.dialing import Dial


class ListenerRefusedError(ProtocolError):
    """The listener ended the connection with a reason. In answer to HELLO, connecting again does not change it."""


class SourceLink:
    """A connection; `open_source_link` makes it."""

    def __init__(self, address: str, stream: trio.abc.Stream) -> None:
        self.address = address
        self.session = ConnectorSession(ConnectorRole.SOURCE)
        self._stream = stream
        self._head = b""  # of what came first

    async def send(self, data: bytes) -> None:
        """Bytes that the session has made, or knows of. ConnectionLostError."""
        try:
            await self._stream.send_all(data)
        except FOREIGN_ERRORS as error:
            raise translate(self.address, error) from error

    async def next_frame(self) -> Frame:
        """What the listener says next. ListenerRefusedError for an ERROR, ConnectionLostError at the end.

        WrongPortError when the first thing that comes shows that another program is there.
        """
        frame = await next_frame(self._stream, self.session, self.address, look=self._look)
        if isinstance(frame, ErrorFrame):
            raise ListenerRefusedError(f"{self.address} refused: {frame.reason}")
        return frame

    def _look(self, data: bytes | bytearray) -> None:
        if len(self._head) < HEAD_BYTES:
            self._head = (self._head + bytes(data))[:HEAD_BYTES]
            check_greeted(self._head, self.address, CONNECTOR)

    async def aclose(self) -> None:
        """Close at once."""
        await trio.aclose_forcefully(self._stream)


async def open_source_link(dial: Dial, address: str, hello: HelloFrame, *, seconds: float) -> SourceLink:
    """Connect and say HELLO, all within `seconds`. ListenerRefusedError, ConnectionLostError, DeadlineError."""
    with translated(address), trio.fail_after(seconds):
        link = SourceLink(address, await dial(address))
        try:
            await link.send(link.session.send(hello))
            await link.next_frame()  # OK: nothing else is legal, and ERROR is raised
        except BaseException:
            await link.aclose()
            raise
    return link
