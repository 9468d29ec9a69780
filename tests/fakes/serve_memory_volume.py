"""A journal service whose volumes are in memory, as a process: for clients in other languages and for their tests.

    python -m tests.fakes.serve_memory_volume --listen 127.0.0.1:0 [--volume payments] [--volume other]

Prints `ready HOST:PORT`; ends on SIGTERM or when its standard input ends (with --until-stdin-ends). All but the volumes
is the real service.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from journal.errors import JournalCode, JournalError, journal_error
from journal.gateway.conversation import GatewaySurroundings, Volumes
from journal.gateway.gateway import Gateway, farewell
from journal.gateway.metrics import GatewayMetrics
from journal.service.serve import ServeSettings, serve
from journal.service.supervisor import Supervision
from journal.service.supervisor import supervise as run_supervised
from sos_client.net.addresses import Address, parse_address
from sos_client.serving.access import AccessRules
from sos_client.serving.event_log import EventLog
from sos_client.serving.listener import Listener, ListenerLimits
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def gateway_over(volumes: Volumes) -> Gateway:
    """A gateway without tokens."""
    surroundings = GatewaySurroundings(
        volumes=volumes,
        access=AccessRules(None),
        log=EventLog(),
        metrics=GatewayMetrics(),
        identity=os.urandom(16),
        wall_clock=time.time,
    )
    return Gateway(surroundings)


def listener_at(address: Address) -> Listener:
    """A TCP listener that turns nobody away for a while."""
    return Listener(
        address,
        limits=ListenerLimits(connections_max=500, connections_per_peer_max=500, handshake_seconds=10.0),
        tls=None,
        log=EventLog(),
        too_many=lambda what: farewell(JournalCode.LIMIT, what),
        not_tls=lambda reason: farewell(JournalCode.PROTOCOL, reason),
    )


@asynccontextmanager
async def new_volume(name: str, _unless_above: int | None) -> AsyncIterator[MemoryVolume]:
    """An empty volume, as the journal would give one that it owns."""
    await trio.lowlevel.checkpoint()
    if name == "missing":
        raise journal_error(JournalCode.VOLUME_NOT_FOUND, "no server has a volume named missing", {"volume": name})
    yield MemoryVolume(name=name)


@click.command()
@click.option("--listen", default="127.0.0.1:0", show_default=True)
@click.option("--volume", "names", multiple=True, default=("payments",), show_default=True)
@click.option("--until-stdin-ends", is_flag=True)
@click.option("--exit-with-fd", type=int)
@click.option("--share-port", is_flag=True)
@click.option("--supervise", is_flag=True)
def main(
    listen: str,
    names: tuple[str, ...],
    *,
    until_stdin_ends: bool,
    exit_with_fd: int | None,
    share_port: bool,
    supervise: bool,
) -> None:
    """Serve volumes that are forgotten at the end. A volume named `missing` is not found."""
    handle = 0 if until_stdin_ends else exit_with_fd
    if supervise:
        command = [sys.executable, "-m", __spec__.name, *(f"--volume={name}" for name in names)]
        supervision = Supervision(command=command, listen=listen, log=EventLog(), exit_with_handle=handle)
        sys.exit(trio.run(run_supervised, supervision))
    settings = ServeSettings(
        volumes=names,
        servers=(),
        directory=Path(),
        listen=parse_address(listen, what="--listen"),
        share_port=share_port,
        exit_with_handle=handle,
    )
    try:
        trio.run(serve, settings, new_volume)
    except* JournalError as errors:
        click.echo(str(errors.exceptions), err=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
