"""Who answered, when it was not who was meant: one port is easily taken for another. Pure.

Only a peer's first bytes tell, and only those with which each refuses a greeting that it does not understand: an ERROR
is several bits away from a WELCOME, so that a damaged frame of the right peer is not taken for a stranger's.
"""

from __future__ import annotations

from typing import Final

from sos_client.wire.errors import ExitCode, ProtocolError
from sos_client.wire.limits import FRAME_BYTES_MAX_BEFORE_HELLO, LENGTH_BYTES

HEAD_BYTES: Final = LENGTH_BYTES + 1
SOS_SERVER: Final = "an SOS server"
JOURNAL_SERVICE: Final = "a journal service"
CONNECTOR: Final = "a listener or sink of connectors"
_REFUSALS: Final = {
    0xFF: f"{SOS_SERVER} (--servers, sos --server)",
    0xAA: f"{JOURNAL_SERVICE} (--service)",
    0x02: f"{CONNECTOR} (sos-connector send --to)",
}
"""By the type of the frame that is an ERROR in each protocol."""
_TEXT: Final = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}


class WrongPortError(ProtocolError):
    """Something else listens there: to ask the same address again would not help."""

    exit_code = ExitCode.USAGE


def stranger(head: bytes) -> str | None:
    """Who begins like this, as far as it is known here. `head`: the first HEAD_BYTES that came, or fewer."""
    if head.startswith(b"HTTP"):
        return "an HTTP server (a page or metrics)"
    if head.startswith(b"\x15\x03"):
        return "a port with TLS (--tls, --tls-ca)"
    if len(head) >= HEAD_BYTES and all(byte in _TEXT for byte in head):  # ssh, mail, Redis: no length that we take
        return f"something else, which begins with {head[:HEAD_BYTES].decode('ascii')!a}"
    if len(head) < HEAD_BYTES or not 0 < int.from_bytes(head[:LENGTH_BYTES], "big") <= FRAME_BYTES_MAX_BEFORE_HELLO:
        return None
    return _REFUSALS.get(head[LENGTH_BYTES])


def check_greeted(head: bytes, address: str, wanted: str) -> None:
    """WrongPortError if it is known that somebody else than `wanted` answered the greeting with this."""
    found = stranger(head)
    if found is not None and not found.startswith(wanted):
        raise WrongPortError(f"{address} is the port of {found}; {wanted} was expected")
