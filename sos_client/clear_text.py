"""Where a token may go without TLS: to this host, as the address is written, and nowhere else. Pure.

Name servers can lie, so no name but `localhost` is believed. The shim in the JVM has the same rule.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sos_client.wire.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterable

_THIS_HOST: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.ASCII | re.IGNORECASE)


def leaves_this_host(address: str) -> bool:
    """Whether what is sent to HOST:PORT goes over a network."""
    return _THIS_HOST.fullmatch(address) is None


def check_token_stays(addresses: Iterable[str], *, token: bytes | None, encrypted: bool) -> None:
    """MisuseError if the token would go to one of the addresses for all to read."""
    if token is None or encrypted:
        return
    exposed = [address for address in addresses if leaves_this_host(address)]
    if exposed:
        raise MisuseError(
            f"the token would go to {', '.join(exposed)} in clear: use TLS (--tls, --tls-ca), or say --insecure"
        )
