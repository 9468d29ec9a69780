"""How bytes reach a server: dialling TCP and TLS, and the one edge at which foreign exceptions become ours."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import trio

from sos_client.net.addresses import split_address
from sos_client.net.plain_stream import PlainStream
from sos_client.wire.errors import ConnectionLostError, DeadlineError, SosError

Dial = Callable[[str], Awaitable[trio.abc.Stream]]
"""Connects to an address. May raise OSError; everything above sees ConnectionLostError."""


def tcp_dial(tls: ssl.SSLContext | None = None) -> Dial:
    """Dials over TCP without delays for small sends, and over TLS where a context is given."""

    async def dial(address: str) -> trio.abc.Stream:
        host, port = split_address(address)
        connected = await trio.open_tcp_stream(host, port)
        transport = PlainStream(socket.socket(fileno=connected.socket.detach()))
        if tls is None:
            return transport
        secured = trio.SSLStream(transport, tls, server_hostname=host, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            transport.close()
            raise
        return secured

    return dial


FOREIGN_ERRORS: Final = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, OSError)
"""What streams and sockets raise; ssl.SSLError is an OSError."""


def translate(about: str, error: Exception) -> SosError:
    """One of the errors above as ours: ConnectionLostError about `about`, or DeadlineError for a time-out."""
    if isinstance(error, trio.TooSlowError):
        return DeadlineError(f"{about}: no answer in time")
    cause = error.__cause__ if isinstance(error, trio.BrokenResourceError) else error
    if isinstance(cause, ssl.SSLError):
        return ConnectionLostError(f"{about}: {_tls_sentence(cause)}")
    if isinstance(error, OSError):
        return ConnectionLostError(f"{about}: {_os_sentence(error)}")
    return ConnectionLostError(f"{about}: {error or 'the connection broke'}")


@contextlib.contextmanager
def translated(about: str) -> Iterator[None]:
    """`translate` around a block; not for hot paths, where a plain `except` costs nothing."""
    try:
        yield
    except FOREIGN_ERRORS as error:
        raise translate(about, error) from error


def _os_sentence(error: OSError) -> str:
    cause = error.__cause__  # trio puts the attempts, one for each of a host's addresses, behind a summary
    attempts = cause.exceptions if isinstance(cause, BaseExceptionGroup) else (error,)
    for attempt in attempts:
        if isinstance(attempt, OSError) and attempt.errno and attempt.errno > 0:
            return os.strerror(attempt.errno).lower()
    return (error.strerror or str(error)).lower()


def _tls_sentence(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); pass the authority that signed it (--tls-ca)"
    if error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
        return "it does not speak TLS; connect without it"
    return f"TLS failed ({error.reason or error})"
