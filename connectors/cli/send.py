"""`sos-connector send`: files or standard input, line by line, each file a stream of its own."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from connectors.source.line_file import LINE_BYTES_MAX, LOOK_SECONDS, LineFile, named_stream_id
from connectors.source.source import VERSION, open_source
from sos_client.command.connecting import INSECURE_OPTION, TLS_CA_OPTION, TLS_OPTION, TOKEN_FILE_OPTION
from sos_client.command.output import note, print_json, progress
from sos_client.command.parameters import AddressList, Seconds
from sos_client.command.running import run_async
from sos_client.credentials import tls_context, token_of
from sos_client.nurseries import background
from sos_client.printable import printable
from sos_client.wire.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.source.source import OpenStream, Source

TROUBLE_SECONDS: Final = 2.0
"""Restarts of a listener take less."""
STDIN: Final = Path("-")
EXAMPLES: Final = """\b
Examples:
  sos-connector send access.log errors.log --to 127.0.0.1:7431
  sos-connector send /var/log/app.log --to a:7431,b:7431 --follow
  generate | sos-connector send - --to 127.0.0.1:7431 --name generated"""


@click.command("send", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--to", "listeners", required=True, type=AddressList(), help="The listener, or any of several.")
@click.option("--follow", is_flag=True, help="Go on as files grow, and with what replaces them, until interrupted.")
@click.option("--program", default="sos-connector", show_default=True, help="What the listener knows this program by.")
@click.option("--name", help="Name of the stream, of one file or of standard input.")
@click.option("--cookie", default="", help="What the listener wants in HELLO.")
@TOKEN_FILE_OPTION
@INSECURE_OPTION
@click.option("--protocol-version", default=VERSION, show_default=True, help="What the listener wants in HELLO.")
@TLS_OPTION
@TLS_CA_OPTION
@click.option(
    "--timeout",
    type=Seconds(min=0),
    default=300.0,
    show_default=True,
    help="Seconds to wait for a listener that says nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was sent as JSON, an object for each file.")
def send_command(files: tuple[Path, ...], **options: Any) -> None:
    """Send files line by line. Ends when everything is acknowledged: durable at the listener.

    A line's id is the offset after it, so that running again goes on where the listener is. Empty lines are not rows.

    A file is known by this host, its directory, its inode and its first line: renamed in its directory it is the same
    stream, and what takes its name is another one. With --name it is known by that name alone.

    With --follow, lines that were written before a file was renamed are sent even if they come late; a file that was
    renamed while nothing ran here has to be named: `send app.log.1 app.log --follow`.

    Standard input cannot be read again: with --name, what the listener has of it is skipped, so give it the same from
    its beginning; without, it is a stream that nobody can go on with.
    """
    if STDIN in files and len(files) > 1:
        raise click.UsageError("send standard input (-) alone")
    if options["name"] is not None and len(files) > 1:
        raise click.UsageError("--name is for one file, or standard input")
    for file in files:
        if file != STDIN and not file.is_file():
            raise click.UsageError(f"{file} is not a file")
    run_async(_send, files, options)


async def _send(files: tuple[Path, ...], options: dict[str, Any]) -> None:
    follow = options["follow"]
    total = None if follow or STDIN in files else sum(file.stat().st_size for file in files)
    async with open_source(
        options["listeners"],
        program=options["program"],
        cookie=options["cookie"].encode(),
        token=token_of(options["token_file"]),
        insecure=options["insecure"],
        version=options["protocol_version"],
        tls=tls_context(options["tls_ca"], wanted=options["tls"]),
        patience_seconds=options["timeout"],
    ) as source:
        with progress("sending", total) as bar:
            sending = Sending(source, options, bar.advance)
            async with background() as watch, trio.open_nursery() as nursery:
                watch.start_soon(_say_trouble, source, options["timeout"])
                for file in files:
                    nursery.start_soon(sending.standard_input if file == STDIN else sending.file_of_name, file)
    if sending.failures:
        raise sending.failures[0]


async def _say_trouble(source: Source, seconds: float) -> None:
    """For whom it waits, if that takes longer than a moment."""
    said = ""
    while True:
        await trio.sleep(TROUBLE_SECONDS)
        if source.trouble not in ("", said):
            note(f"{source.trouble}; trying for up to {seconds:g} s")
        said = source.trouble


class Sending:
    """What the files of one command share."""

    def __init__(self, source: Source, options: dict[str, Any], advance: Callable[[int], None]) -> None:
        self.failures: list[MisuseError] = []
        self._source = source
        self._options = options
        self._advance = advance

    async def file_of_name(self, path: Path) -> None:
        """A file, and with --follow those that take its place. What is wrong with one does not end the others."""
        try:
            while True:
                file = await self._opened(path)
                try:
                    await self._file(file)
                finally:
                    file.close()
                if not self._options["follow"]:
                    return
        except MisuseError as error:
            if self._options["follow"]:
                note(str(error))
            self.failures.append(error)

    async def standard_input(self, _: Path) -> None:
        """Line by line, from its beginning."""
        name = self._options["name"]
        known_by = self._known_by(name) if name else secrets.token_bytes(16)
        stream = await self._source.open_stream(named_stream_id(known_by), name or "stdin")
        known = stream.point_of_reference or 0
        at = skipped = 0

        def next_line() -> bytes:
            return sys.stdin.buffer.readline(LINE_BYTES_MAX + 1)

        while content := await trio.to_thread.run_sync(next_line, abandon_on_cancel=True):
            if len(content) > LINE_BYTES_MAX:
                raise MisuseError(f"standard input has a line of more than {LINE_BYTES_MAX:,} bytes at offset {at}")
            at += len(content)
            self._advance(len(content))
            if at > known:
                await stream.send(at, content.removesuffix(b"\n"))
            else:
                skipped += 1
        if skipped:
            note(f"{name}: {skipped:,} lines were there already, of {known:,} bytes")
        await stream.aclose()
        self._tell(stream, at)

    async def _opened(self, path: Path) -> LineFile:
        """The file. With --follow, when there is one, and its first line: that belongs to what it is known by."""
        while True:
            try:
                file = LineFile(path)
            except FileNotFoundError:
                if not self._options["follow"]:
                    raise
            else:
                if not self._options["follow"] or self._options["name"] or file.first_line() is not None:
                    return file
                file.close()
            await trio.sleep(LOOK_SECONDS)

    async def _file(self, file: LineFile) -> None:
        name, program = self._options["name"], self._options["program"]
        stream_id = named_stream_id(self._known_by(name)) if name else file.stream_id(program)
        stream = await self._source.open_stream(stream_id, name or str(file.path))
        at = stream.point_of_reference or 0
        if at:
            note(f"{file.path}: {at:,} bytes are there already")
        self._advance(at)
        async for ends, contents in file.blocks(at, follow=self._options["follow"]):
            await stream.send_many(ends, contents)
            self._advance(ends[-1] - at)
            at = ends[-1]
        await stream.aclose()
        self._tell(stream, at)

    def _known_by(self, name: str) -> bytes:
        return f"{self._options['program']}\0{name}".encode()

    def _tell(self, stream: OpenStream, sent_bytes: int) -> None:
        if self._options["as_json"]:
            print_json({"stream": stream.name, "stream_id": stream.stream_id, "bytes": sent_bytes})
        else:
            click.echo(f"{printable(stream.name)}: {sent_bytes:,} bytes are durable")
