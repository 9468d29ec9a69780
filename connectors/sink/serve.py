"""`serve_sink`: a program's four functions as a sink that relays connect to. The library keeps the log."""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from connectors.sink.locking import locked
from connectors.sink.sink_log import SinkLog
from connectors.sink.sink_session import SinkSession
from connectors.sink.transactions import SinkTransactions
from connectors.wire.codec import encode
from connectors.wire.frames import ErrorFrame
from sos_client.net.addresses import parse_address
from sos_client.serving.event_log import EventLog
from sos_client.serving.listener import Listener, ListenerLimits
from sos_client.serving.running import announce_ready
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from connectors.sink.sink_rules import SinkRules
    from connectors.sink.transactions import End, Prepare, Receive
    from sos_client.net.addresses import Address
    from sos_client.serving.listener import Accepted
    from sos_client.serving.tls import ServerTls

SINK_VERSION: Final = "v0.0.1"
_LIMITS: Final = ListenerLimits(connections_max=64, connections_per_peer_max=32, handshake_seconds=10.0)


async def serve_sink(
    receive: Receive,
    prepare: Prepare,
    commit: End,
    abort: End,
    *,
    listen: str,
    log: Path,
    cookie: str = "",
    version: str = SINK_VERSION,
    tls: ServerTls | None = None,
    insecure: bool = False,
    rules: SinkRules | None = None,
    ready: Callable[[Address], None] = announce_ready,
) -> None:
    """Take rows from a relay until cancelled. `listen` is HOST:PORT, `log` the file that makes a restart right.

    `receive(rows)`: keep these, for now; each has `offset`, `key`, `payload`. `prepare(transaction)`: make them durable
    as this transaction, so that they can be committed and aborted after a crash; True votes to commit. `commit` and
    `abort` end it. Both may come again after a crash, so they must not mind. `abort` also comes with a transaction
    without an id, on each new connection: rows from `transaction.first` on (the row of number `first_row`) that were
    received and not prepared are to be forgotten.

    The four are coroutine functions, or functions that are called in a thread, one at a time. What they raise
    ends this, but SinkUnavailableError: that closes the relay's connection, and it comes again.
    Anybody who reaches the address can send rows: beyond loopback only with `insecure`. SettingsError, SinkLogError.
    """
    event_log = EventLog()
    address = parse_address(listen, what="listen")
    check_sink_exposure(address, insecure=insecure)
    async with locked(log, f"the log {log}"):
        sink_log = await trio.to_thread.run_sync(SinkLog, log)
        try:
            transactions = SinkTransactions(sink_log, receive, prepare, commit, abort, rules=rules)
            async with sink_server(
                transactions, address, version=version, cookie=cookie.encode(), tls=tls, log=event_log
            ) as where:
                ready(where)
                await trio.sleep_forever()
        finally:
            sink_log.close()


def check_sink_exposure(address: Address, *, insecure: bool) -> None:
    """SettingsError when other machines could reach this address, and nobody asked for that."""
    if not (insecure or address.loopback):
        raise SettingsError(
            f"{address} can be reached from other machines, and relays show no token: whoever reaches it writes. "
            "Listen on 127.0.0.1, or say insecure (--insecure) where only those who may write can reach it"
        )


@asynccontextmanager
async def sink_server(
    transactions: SinkTransactions,
    address: Address,
    *,
    version: str,
    cookie: bytes,
    tls: ServerTls | None,
    log: EventLog,
) -> AsyncIterator[Address]:
    """The port of a sink; where it is. SettingsError when it cannot be had."""
    listener = Listener(
        address,
        limits=_LIMITS,
        tls=tls,
        log=log,
        too_many=_farewell,
        not_tls=_farewell,
    )
    converse = functools.partial(_converse, transactions, version, cookie, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, converse)
        try:
            yield listener.address
        finally:
            nursery.cancel_scope.cancel()


async def _converse(
    transactions: SinkTransactions, version: str, cookie: bytes, log: EventLog, accepted: Accepted
) -> None:
    session = SinkSession(accepted.stream, transactions, version=version, cookie=cookie, on_greeted=accepted.greeted)
    reason = await session.run()
    log.info("connection ended", peer=accepted.peer, reason=reason)


def _farewell(reason: str) -> bytes:
    return encode(ErrorFrame(reason=reason[:1000]))
