"""HOST:PORT, read and written in one place, and whether an address can be reached from other machines."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from sos_client.settings import SettingsError


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


def is_host(text: str) -> bool:
    """Whether this may be looked up: what has an empty or a too long part makes a look-up fail in no other way."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def parse_address(text: str, *, what: str) -> Address:
    """HOST:PORT as an Address; SettingsError names ``what`` it was for."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise SettingsError(f"{what}: {text!r}: write an IPv6 host in brackets, as in [::1]:7400")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"{what}: {text!r}: must be HOST:PORT with a port from 0 to 65535, as in 127.0.0.1:7400")
    if not is_host(host):
        raise SettingsError(f"{what}: {text!r}: {host!r} cannot be the name of a host")
    return Address(host=host, port=int(port))
