"""Whether a journal service answers at an address, which a standby asks of the owner that it stands by for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.limits import INSTANCE_BYTES, VERSION
from sos_client.net.dialing import tcp_dial, translated
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from sos_client.net.dialing import Dial

_ALIVE_SECONDS: Final = 1.0


async def is_alive(address: str, *, dial: Dial | None = None) -> bool:
    """Whether anything answers HELLO there: a refusal is a sign of life, too, also one that says "speak TLS"."""
    hello = m.HelloRequest(version=VERSION, token=None, client="standby", instance=bytes(INSTANCE_BYTES))
    with trio.move_on_after(_ALIVE_SECONDS):
        try:
            with translated(address):
                async with await (dial or tcp_dial())(address) as stream:
                    await stream.send_all(encode(hello))
                    return bool(await stream.receive_some())
        except SosError:
            return False
    return False
