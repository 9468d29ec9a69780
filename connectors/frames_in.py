"""The next frame of a peer, from its connection: what a source and a relay do alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sos_client.net.dialing import FOREIGN_ERRORS, translate
from sos_client.wire.errors import ConnectionLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    import trio

    from connectors.wire.frames import Frame
    from connectors.wire.session import ConnectorSession


async def next_frame(
    stream: trio.abc.Stream,
    session: ConnectorSession,
    address: str,
    *,
    look: Callable[[bytes | bytearray], None] | None = None,
) -> Frame:
    """Receive until there is one. ConnectionLostError at the end; ProtocolError for what the session does not take.

    `look` sees what has come before the session does.
    """
    while (frame := session.next_frame()) is None:
        try:
            data = await stream.receive_some()
        except FOREIGN_ERRORS as error:
            raise translate(address, error) from error
        if not data:
            raise ConnectionLostError(f"{address} has closed the connection")
        if look is not None:
            look(data)
        session.receive(data)
    return frame
