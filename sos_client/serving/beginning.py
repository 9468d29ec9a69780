"""What a server process sets and checks before it serves anybody, in one order for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sos_client.serving.interpreter import tune_for_serving
from sos_client.serving.listener import ListenerLimits, allow_connections, check_exposure
from sos_client.serving.parent_pipe import check_pipe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sos_client.net.addresses import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What protects the addresses of a process; `insecure`: whoever runs it has said that nothing need."""

    tls: bool
    tokens: bool
    insecure: bool


def prepare_to_serve(
    addresses: Iterable[Address],
    exposure: Exposure,
    limits: ListenerLimits,
    *,
    besides: int = 0,
    exit_with_handle: int | None,
) -> None:
    """For the whole process, from now on. SettingsError when it must not serve so.

    `besides`: how many connections its other listeners take.
    """
    tune_for_serving()
    for address in addresses:
        check_exposure(address, tls=exposure.tls, tokens=exposure.tokens, insecure=exposure.insecure)
    if exit_with_handle is not None:
        check_pipe(exit_with_handle)
    allow_connections(limits, besides=besides)
