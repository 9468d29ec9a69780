"""The port on which a process serves volumes by the file protocol: tokens, TLS, connections, and what is counted."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from journal.errors import JournalCode
from journal.gateway.conversation import GatewaySurroundings
from journal.gateway.gateway import Gateway, farewell
from journal.gateway.metrics import GatewayMetrics
from journal.gateway.wire.limits import INSTANCE_BYTES
from sos_client.serving.access import AccessRules
from sos_client.serving.listener import Listener
from sos_client.serving.running import reload_and_tell
from sos_client.serving.tls import ServerTls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from journal.gateway.conversation import Volumes
    from sos_client.net.addresses import Address
    from sos_client.serving.event_log import EventLog
    from sos_client.serving.listener import ListenerLimits
    from sos_client.serving.tls import TlsFiles


class FilePort:
    """Bound when it is made; serves while `run` runs."""

    def __init__(
        self,
        address: Address,
        volumes: Callable[[Address], Volumes],
        *,
        who: str,
        limits: ListenerLimits,
        tls: TlsFiles | None,
        tokens: Path | None,
        share_port: bool,
        log: EventLog,
    ) -> None:
        """Reads tokens and certificates and binds the address; SettingsError when anything of it is wrong.

        `volumes` is told where it serves. `who`: what this process is to a client for whom there is no room.
        """
        self._log = log
        self.access = AccessRules(tokens)
        self.tls = ServerTls(tls) if tls else None
        self.listener = Listener(
            address,
            limits=limits,
            tls=self.tls,
            log=log,
            too_many=lambda what: farewell(JournalCode.LIMIT, f"all {what} of this {who} are in use; try again"),
            not_tls=lambda reason: farewell(JournalCode.PROTOCOL, reason),
            share_port=share_port,
        )
        self.metrics = GatewayMetrics(connections=lambda: self._gateway.connections)
        self._gateway = Gateway(
            GatewaySurroundings(
                volumes=volumes(self.listener.address),
                access=self.access,
                log=log,
                metrics=self.metrics,
                identity=os.urandom(INSTANCE_BYTES),
                wall_clock=time.time,
            )
        )

    async def watch(self) -> None:
        """Serve the sockets' PUTs, and watch over the sessions, until cancelled."""
        await self._gateway.run()

    async def serve(self) -> None:
        """Accept and answer until the listener is stopped."""
        await self.listener.serve(self._gateway.converse)

    async def stop(self) -> None:
        """Answer what was asked, within a bounded time. The listener is stopped before."""
        await self._gateway.stop()

    def reload(self) -> None:
        """Tokens and certificates again. What is not in order is reported, and stays as it was."""
        reload_and_tell(self._log, "tokens", self.access.reload)
        if self.tls is not None:
            reload_and_tell(self._log, "TLS", self.tls.reload)
        self._gateway.reload_access(time.time())
