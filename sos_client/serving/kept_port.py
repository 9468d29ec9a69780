"""A port that stays with its user while the program that serves there is started again.

Between two programs a port is free: another user of the host could listen there, and clients that speak without TLS on
loopback would send it their tokens. A socket that is bound and never listens closes that gap. The kernel lets only
processes of the same user bind the port besides, with SO_REUSEPORT; while none of them listens, nobody is connected.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class KeptPort:
    """Port 0 lets the kernel choose. OSError if somebody else has it. Programs that serve there must share the port."""

    def __init__(self, host: str, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> KeptPort:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
