"""`sos-journal serve`: the journal service, for Spark and for everybody else who speaks the file protocol."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Final

import click
import trio

from journal.cli.service_options import (
    journal_settings,
    service_options,
    service_settings,
    volume_opener,
    web_server,
)
from journal.records.shards import SHARDS_MAX, parse_shard, shards_of
from journal.service.serve import serve
from sos_client.command.running import run_async
from sos_client.command.serving import SHARE_PORT_OPTION
from sos_client.net.addresses import Address, parse_address
from sos_client.serving.event_log import EventLog, Level

_SUPERVISOR_ONLY: Final = frozenset({"--supervise"})
EXAMPLES: Final = """\b
Examples:
  sos-journal serve --volume payments --servers a:7400,b:7400,c:7400 --dir /var/lib/sos
  sos-journal serve --volume q1 --volume q2 --servers a:7400,b:7400,c:7400 --dir /var/lib/sos --supervise
  sos-journal serve --volume payments --servers a:7400,b:7400,c:7400 --dir /var/lib/sos \\
      --listen 0.0.0.0:7420 --tls-cert cert.pem --tls-key key.pem --tokens tokens.toml --metrics 127.0.0.1:9420"""


@click.command("serve", epilog=EXAMPLES)
@click.option("--volume", "volumes", multiple=True, required=True, help="A volume to serve; once for each.")
@click.option("--shards", type=click.IntRange(2, SHARDS_MAX), help="The volume is spread over this many shards.")
@click.option("--shard", "chosen", multiple=True, type=click.IntRange(0, SHARDS_MAX - 1), help="Only this one of them.")
@click.option("--listen", default="127.0.0.1:7420", show_default=True, metavar="HOST:PORT", help="Port 0 picks one.")
@service_options
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen beyond loopback without TLS and tokens; the token for other hosts' SOS servers goes without TLS, too.",
)
@click.option("--supervise", is_flag=True, help="Start the service again when it crashes.")
@SHARE_PORT_OPTION
def serve_command(**options: Any) -> None:
    """Take volumes over and serve them until SIGTERM.

    Prints `ready HOST:PORT` when it has all of them (or stands by for them). SIGHUP reloads tokens and certificates.
    Logs go to stderr, one JSON object a line.

    --shards N serves the shards of a volume that was made with as many: with --supervise each in a process of its own,
    at ports that follow one another (--listen, --metrics and --web name the first); without, all in this process, or
    those that --shard names, the others being served elsewhere.
    """
    volumes = _volumes(options["volumes"], options["shards"], options["chosen"])
    if options["supervise"]:
        sys.exit(_supervised(options, volumes if options["shards"] else ()))
    settings = service_settings(options, volumes=volumes, listen=options["listen"])
    opener = volume_opener(settings, journal_settings(options), create=options["create"])
    run_async(serve, settings, opener, web_server(settings))


def _volumes(names: tuple[str, ...], shards: int | None, chosen: tuple[int, ...]) -> tuple[str, ...]:
    if shards is None:
        if chosen:
            raise click.UsageError("--shard is for a volume with --shards")
        return names
    if len(names) != 1:
        raise click.UsageError("with --shards one volume is served: run another command for the others")
    if any(index >= shards for index in chosen):
        raise click.UsageError(f"of {shards} shards the last one is --shard {shards - 1}")
    every = shards_of(names[0], shards)
    return tuple(shard.name for shard in every if not chosen or shard.index in chosen)


def _supervised(options: dict[str, Any], shards: tuple[str, ...]) -> int:
    """Supervise the same command line, but for what the supervisor does itself. Imports what only this needs."""
    from journal.service.supervisor import Supervision, supervise

    arguments = _without_shard([argument for argument in sys.argv[1:] if argument not in _SUPERVISOR_ONLY])
    services = [
        Supervision(
            command=[sys.executable, "-m", "journal", *arguments, *more],
            listen=str(_following(options["listen"], number, what="--listen")),
            log=EventLog(least=Level[options["log_level"].upper()]),
            exit_with_handle=options["exit_with_fd"],
        )
        for number, more in enumerate([_only(shard, number, options) for number, shard in enumerate(shards)] or [[]])
    ]
    return trio.run(supervise, *services)


def _only(shard: str, number: int, options: dict[str, Any]) -> list[str]:
    """What makes the same command line serve one of the shards, at addresses of its own."""
    parsed = parse_shard(shard)
    assert parsed is not None
    more = ["--shard", str(parsed.index)]
    for name in ("metrics", "web", "advertise"):
        if options[name] and number:
            more += [f"--{name}", str(_following(options[name], number, what=f"--{name}"))]
    return more


def _without_shard(arguments: list[str]) -> list[str]:
    named = [at for at, argument in enumerate(arguments) if argument == "--shard"]
    return [
        argument
        for at, argument in enumerate(arguments)
        if at not in named and at - 1 not in named and not argument.startswith("--shard=")
    ]


def _following(text: str, number: int, *, what: str) -> Address:
    """The address with the port that is as much higher; any port stays any."""
    address = parse_address(text, what=what)
    return replace(address, port=address.port + number) if address.port else address
