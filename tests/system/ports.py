"""Ports for the processes that tests start: each is given once, and to one test process of this machine at a time.

A server must come back at its own port after each kill, so the kernel cannot choose it. Ports lie below those that the
kernel gives to outgoing connections. A block of them belongs to the process that holds an abstract socket of its name,
which lives in the same network namespace as the ports and is gone with its process.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PORTS: Final = range(20000, 32000)
BLOCK_PORTS: Final = 50

_held: list[socket.socket] = []
"""The names of this process's blocks, for as long as it lives."""


def free_port() -> int:
    """A port that nobody has, and that no other call gives, here or in another process of the tests."""
    return next(_ports)


def _free_ports() -> Iterator[int]:
    while True:
        yield from (port for port in _own_block() if _is_free(port))


def _own_block() -> range:
    """The next block that nobody holds; RuntimeError if there is none."""
    for first in PORTS[::BLOCK_PORTS]:
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0ports of tests from {first}")
        except OSError:
            holder.close()
            continue
        _held.append(holder)
        return range(first, first + BLOCK_PORTS)
    raise RuntimeError(f"all ports from {PORTS[0]} to {PORTS[-1]} are held by tests that run")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


_ports = _free_ports()
