"""`sos-connector receive`: rows into a file, in two phases; `sos-connector committed`: what is committed of it."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from connectors.sink.file_sink import FileSink, committed_pieces
from connectors.sink.locking import locked
from connectors.sink.serve import SINK_VERSION, check_sink_exposure, sink_server
from connectors.sink.sink_log import SinkLog
from connectors.sink.sink_rules import SinkRules, parse_rules
from connectors.sink.transactions import SinkTransactions
from sos_client.command.connecting import decorated
from sos_client.command.parameters import FILE
from sos_client.command.running import run_async
from sos_client.command.serving import LOG_LEVEL_OPTION
from sos_client.net.addresses import Address, parse_address
from sos_client.serving.event_log import EventLog, Level
from sos_client.serving.parent_pipe import check_pipe
from sos_client.serving.running import announce_ready, end_when_told, kept_hangups
from sos_client.serving.tls import ServerTls, tls_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sos_client.command.connecting import Verb

WALLAROO_COOKIE: Final = "Dragons-Love-Tacos"

SINK_OPTIONS: Final = (
    click.option("--listen", default="127.0.0.1:7500", show_default=True, metavar="HOST:PORT", help="For the relay."),
    click.option(
        "--log", "log_file", type=FILE, required=True, help="The log of transactions: one JSON object a line."
    ),
    click.option("--cookie", help="What HELLO must carry (default: nothing; with --wallaroo what Wallaroo carries)."),
    click.option("--protocol-version", default=SINK_VERSION, show_default=True, help="What HELLO must say."),
    click.option("--wallaroo", is_flag=True, help="Defaults as in Wallaroo."),
    click.option("--tls-cert", type=FILE, help="Certificate chain (PEM)."),
    click.option("--tls-key", type=FILE, help="Its private key (PEM)."),
    click.option("--insecure", is_flag=True, help="Listen beyond loopback: relays show no token."),
    click.option(
        "--rules", type=FILE, envvar="SOS_SINK_RULES", help="Faults to commit, for tests; see docs [SOS_SINK_RULES]."
    ),
    click.option("--exit-with-fd", type=int, metavar="N", help="End when this inherited pipe ends (with the parent)."),
    LOG_LEVEL_OPTION,
)


def sink_options(function: Verb) -> Verb:
    """What all sinks are told."""
    return decorated(function, SINK_OPTIONS)


@click.command("receive")
@click.option("--out", type=FILE, required=True, help="The file. A newline ends each row.")
@sink_options
def receive_command(out: Path, **options: Any) -> None:
    """Take rows from a relay into a file, in two phases, until SIGTERM.

    Prints `ready HOST:PORT`. The end of the file may hold rows that are not committed: `sos-connector committed` gives
    those that are. Both files outlive a kill, and belong together.

    \b
    sos-connector receive --out rows --log rows.log
    sos-connector committed --out rows --log rows.log | head
    """
    settings = sink_settings(options)
    run_async(_receive, out, settings)


@click.command("committed")
@click.option("--out", type=FILE, required=True, help="The file of `sos-connector receive`.")
@click.option("--log", "log_file", type=FILE, required=True, help="Its log of transactions.")
def committed_command(out: Path, log_file: Path) -> None:
    """Write the committed bytes of a sink's file to standard output. The sink may be running.

    \b
    sos-connector committed --out rows.txt --log rows.log
    """
    for path in (out, log_file):
        if not path.is_file():
            raise click.UsageError(f"{path} is not a file")
    for piece in committed_pieces(out, log_file):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """What a sink is told."""

    listen: Address
    log_file: Path
    cookie: bytes
    version: str
    tls: ServerTls | None
    rules: SinkRules
    exit_with_handle: int | None
    log_level: str


def sink_settings(options: dict[str, Any]) -> SinkSettings:
    """The options of all sinks, checked. click.UsageError."""
    cookie = options["cookie"]
    if cookie is None:
        cookie = WALLAROO_COOKIE if options["wallaroo"] else ""
    listen = parse_address(options["listen"], what="--listen")
    check_sink_exposure(listen, insecure=options["insecure"])
    tls = tls_files(options["tls_cert"], options["tls_key"])
    return SinkSettings(
        listen=listen,
        log_file=options["log_file"],
        cookie=cookie.encode(),
        version=options["protocol_version"],
        tls=ServerTls(tls) if tls else None,
        rules=parse_rules(options["rules"].read_text().splitlines()) if options["rules"] else SinkRules(),
        exit_with_handle=options["exit_with_fd"],
        log_level=options["log_level"],
    )


async def _receive(out: Path, settings: SinkSettings) -> None:
    def opened(log: SinkLog) -> SinkTransactions:
        sink = FileSink(out, log.history)
        return SinkTransactions(log, sink.receive, sink.prepare, sink.commit, sink.abort, rules=settings.rules)

    await run_sink(settings, opened)


async def run_sink(settings: SinkSettings, opened: Callable[[SinkLog], SinkTransactions]) -> None:
    """A sink as a process: until SIGTERM, or until its parent ends, and then the files are closed with the process."""
    if settings.exit_with_handle is not None:
        check_pipe(settings.exit_with_handle)
    log = EventLog(least=Level[settings.log_level.upper()])
    with kept_hangups() as hangups:
        async with locked(settings.log_file, f"the log {settings.log_file}"), trio.open_nursery() as nursery:
            sink_log = await trio.to_thread.run_sync(SinkLog, settings.log_file)
            transactions = await trio.to_thread.run_sync(opened, sink_log)
            await end_when_told(
                nursery,
                stop=trio.lowlevel.checkpoint,
                hangups=hangups,
                reload=lambda: None,
                log=log,
                exit_with_handle=settings.exit_with_handle,
            )
            async with sink_server(
                transactions,
                settings.listen,
                version=settings.version,
                cookie=settings.cookie,
                tls=settings.tls,
                log=log,
            ) as address:
                log.info("serving", address=str(address), rows=sink_log.history.rows)
                announce_ready(address)
                await trio.sleep_forever()
