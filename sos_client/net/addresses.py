"""HOST:PORT, read and written in one place, and whether an address can be reached from other machines."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Final

from sos_client.settings import SettingsError
from sos_client.wire.errors import MisuseError

DEFAULT_PORT: Final = 7400
"""Of SOS servers."""
ADDRESSES_MAX: Final = 64
SHOWN_MAX: Final = 200
_HOW_TO_WRITE: Final = "write HOST:PORT, as in 127.0.0.1:7400"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen. Port 0 lets the kernel choose; an IPv6 host is written in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether no other machine can reach it: all that the host's name stands for is loopback."""
        try:
            found = socket.getaddrinfo(self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            raise SettingsError(f"{self}: cannot find this host: {error.strerror}") from error
        return all(ipaddress.ip_address(entry[4][0]).is_loopback for entry in found)


def parse_address(text: str, *, what: str) -> Address:
    """Where to listen, as HOST:PORT; SettingsError names ``what`` it was for."""
    try:
        host, port = _host_and_port(text)
    except ValueError as error:
        raise SettingsError(f"{what}: {text[:SHOWN_MAX]!r}: {error}") from error
    if port is None:
        raise SettingsError(f"{what}: {text[:SHOWN_MAX]!r}: the port is missing; {_HOW_TO_WRITE}")
    return Address(host=host, port=port)


def split_address(text: str, *, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Where to connect to: host and port of HOST[:PORT]. MisuseError for anything else; port 0 is nowhere."""
    try:
        host, port = _host_and_port(text)
    except ValueError as error:
        raise MisuseError(f"{text[:SHOWN_MAX]!a} is not an address: {error}") from error
    port = default_port if port is None else port
    if not host or not port:
        raise MisuseError(f"{text[:SHOWN_MAX]!a} is not an address to connect to; {_HOW_TO_WRITE}")
    return host, port


def split_addresses(text: str) -> tuple[str, ...]:
    """HOST:PORT,… as addresses to connect to, each with its port. MisuseError names one that is wrong."""
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(addresses) > ADDRESSES_MAX:
        raise MisuseError(f"more than {ADDRESSES_MAX} addresses")
    for address in addresses:
        split_address(address, default_port=0)
    return addresses


def _host_and_port(text: str) -> tuple[str, int | None]:
    """ValueError says what is wrong. None: there is no port."""
    host, colon, digits = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, digits = text, ""
    elif not (digits.isascii() and digits.isdigit() and len(digits) < 6 and int(digits) < 1 << 16):
        raise ValueError(f"the port is a number up to 65535; {_HOW_TO_WRITE}")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if (":" in host) != bracketed or "[" in host:
        raise ValueError("write an IPv6 host in brackets, as in [::1]:7400")
    if not _is_host(host):
        raise ValueError(f"{host!r} cannot be the name of a host")
    return host, int(digits) if digits else None


def _is_host(text: str) -> bool:
    """Whether this may be looked up: what has an empty or a too long part makes a look-up fail in no other way."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True
