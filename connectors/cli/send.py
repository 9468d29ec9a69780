"""`sos-connector send`: files or standard input, line by line, each file a stream of its own."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from connectors.source.line_file import LINE_BYTES_MAX, LOOK_SECONDS, LineFile
from connectors.source.source import VERSION, open_source
from journal.cli.options import split_addresses, tls_context
from journal.cli.output import note, print_json, progress
from journal.cli.running import run_async
from sos_client.printable import printable
from sos_client.wire.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.source.source import OpenStream, Source

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
STDIN: Final = Path("-")
EXAMPLES: Final = """\b
Examples:
  sos-connector send access.log errors.log --to 127.0.0.1:7431
  sos-connector send /var/log/app.log --to a:7431,b:7431 --follow
  generate | sos-connector send - --to 127.0.0.1:7431 --name generated"""


@click.command("send", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--to", "listeners", required=True, metavar="HOST:PORT,…", help="The listener; with several, any of them."
)
@click.option("--follow", is_flag=True, help="Go on as files grow, and with what replaces them, until interrupted.")
@click.option("--program", default="sos-connector", show_default=True, help="What the listener knows this program by.")
@click.option("--name", help="Name of the stream of standard input (default: stdin).")
@click.option("--cookie", default="", help="What the listener wants in HELLO.")
@click.option("--protocol-version", default=VERSION, show_default=True, help="What the listener wants in HELLO.")
@click.option("--tls", is_flag=True, help="Speak TLS.")
@click.option(
    "--tls-ca", type=_FILE, envvar="SOS_TLS_CA", help="Certificates to trust (PEM); implies --tls [SOS_TLS_CA]."
)
@click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait for a listener that says nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was sent as JSON, an object for each file.")
def send_command(files: tuple[Path, ...], *, follow: bool, name: str | None, **options: Any) -> None:
    """Send files line by line. Ends when everything is acknowledged: durable at the listener.

    Each line's id is the offset behind it: run again, it goes on where the listener has it. Standard input cannot be
    read again: what the listener has of it already is skipped, so give it the same from its beginning.
    """
    if STDIN in files and len(files) > 1:
        raise click.UsageError("send standard input (-) alone")
    if name is not None and STDIN not in files:
        raise click.UsageError("--name is for standard input (-); a file's stream has the file's name")
    for file in files:
        if file != STDIN and not file.is_file():
            raise click.UsageError(f"{file} is not a file")
    run_async(_send, files, follow, name or "stdin", options)


async def _send(files: tuple[Path, ...], follow: bool, name: str, options: dict[str, Any]) -> None:  # noqa: FBT001
    total = None if follow or STDIN in files else sum(file.stat().st_size for file in files)
    async with open_source(
        split_addresses(options["listeners"]),
        program=options["program"],
        cookie=options["cookie"].encode(),
        version=options["protocol_version"],
        tls=tls_context(options["tls_ca"], wanted=options["tls"]),
        patience_seconds=options["timeout"],
    ) as source:
        with progress("sending", total) as advance:
            async with trio.open_nursery() as nursery:
                for file in files:
                    if file == STDIN:
                        nursery.start_soon(_send_input, source, name, advance, options)
                    else:
                        nursery.start_soon(_send_files, source, file, follow, advance, options)


async def _send_files(
    source: Source,
    path: Path,
    follow: bool,  # noqa: FBT001
    advance: Callable[[int], None],
    options: dict[str, Any],
) -> None:
    """A file, and with `follow` those that take its place."""
    while True:
        file = await _opened(path)
        try:
            if file.size == 0 and follow:  # its first line belongs to its identity
                await trio.sleep(LOOK_SECONDS)
                continue
            stream = await source.open_stream(file.stream_id(options["program"]), str(path))
            start = stream.point_of_reference or 0
            if start:
                note(f"{path}: {start:,} bytes are there already")
            advance(start)
            at = start
            async for line in file.lines(start, follow=follow):
                await stream.send(line.end, line.content)
                advance(line.end - at)
                at = line.end
            await stream.aclose()
            _told(stream, at, options)
        finally:
            file.close()
        if not follow:
            return


async def _opened(path: Path) -> LineFile:
    """The file, when there is one: between the old one and the next there may be none."""
    while True:
        try:
            return LineFile(path)
        except FileNotFoundError:
            await trio.sleep(LOOK_SECONDS)


async def _send_input(source: Source, name: str, advance: Callable[[int], None], options: dict[str, Any]) -> None:
    stream = await source.open_stream(_input_id(name, options["program"]), name)
    known = stream.point_of_reference or 0
    at = 0
    while content := await trio.to_thread.run_sync(
        sys.stdin.buffer.readline, LINE_BYTES_MAX + 1, abandon_on_cancel=True
    ):
        if len(content) > LINE_BYTES_MAX:
            raise MisuseError(f"standard input has a line of more than {LINE_BYTES_MAX:,} bytes at offset {at}")
        at += len(content)
        advance(len(content))
        if at > known:
            await stream.send(at, content.removesuffix(b"\n"))
    if at < known:
        note(f"{name}: the listener has {known:,} bytes of it, and only {at:,} were given")
    await stream.aclose()
    _told(stream, at, options)


def _input_id(name: str, program: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{program}\0{name}".encode(), digest_size=8).digest(), "big") >> 1


def _told(stream: OpenStream, sent_bytes: int, options: dict[str, Any]) -> None:
    if options["as_json"]:
        print_json({"stream": stream.name, "stream_id": stream.stream_id, "bytes": sent_bytes})
    else:
        click.echo(f"{printable(stream.name)}: {sent_bytes:,} bytes are durable")
