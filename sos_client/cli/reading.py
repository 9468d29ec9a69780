"""The verbs that change nothing: ping, ls, stat, get, tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sos_client.cli.connecting import Connecting, Place, connecting_options, place_argument
from sos_client.cli.reporting import object_values, report
from sos_client.cli.streams import write_output
from sos_client.command.output import json_option, print_json, print_pairs, print_table, progress
from sos_client.printable import printable
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from sos_client.client import ObjectInfo, SosClient


@click.command("ping")
@connecting_options
@json_option
def ping(*, connecting: Connecting, as_json: bool) -> None:
    """Ask whether the server is there, and how long an answer takes.

    \b
    sos ping --server a:7400
    """

    async def run(client: SosClient) -> None:
        seconds = await client.ping()
        identity = client.server_identity.hex()
        values = {"server": client.address, "identity": identity, "seconds": seconds, "server_time": client.server_time}
        report(values, as_json=as_json, text=f"{client.address} is server {identity}, {seconds * 1000:.2f} ms away")

    connecting.run(run)


@click.command("ls")
@place_argument("NAMESPACE", required=False)
@connecting_options
@json_option
def ls(*, place: Place | None, connecting: Connecting, as_json: bool) -> None:
    """List the objects of a namespace, or all namespaces that the token may enter, by name.

    \b
    sos ls
    sos ls payments
    """
    if place is None:
        _list_namespaces(connecting, as_json=as_json)
        return

    async def run(client: SosClient) -> None:
        entries = [info async for info in client.list_all(place.namespace)]
        if as_json:
            print_json({"namespace": place.namespace, "objects": [object_values(info) for info in entries]})
            return
        rows = [(str(i.size), str(i.epoch), f"{i.crc:08x}", _state(i), printable(i.name)) for i in entries]
        print_table(("SIZE", "EPOCH", "CRC32C", "STATE", "NAME"), rows, right=(0, 1))

    connecting.run(run)


def _list_namespaces(connecting: Connecting, *, as_json: bool) -> None:
    async def run(client: SosClient) -> None:
        entries = [entry async for entry in client.list_namespaces()]
        if as_json:
            values = [{"name": e.name, "used_bytes": e.used_bytes, "epoch": e.epoch} for e in entries]
            print_json({"namespaces": values})
            return
        print_table(
            ("BYTES", "EPOCH", "NAMESPACE"), [(str(e.used_bytes), str(e.epoch), e.name) for e in entries], right=(0, 1)
        )

    connecting.run(run)


def _state(info: ObjectInfo) -> str:
    marks = ["sealed" if info.sealed else "open"]
    if info.damaged:
        marks.append("DAMAGED")
    if info.cut_bytes:
        marks.append(f"cut {info.cut_bytes}")
    return " ".join(marks)


@click.command("stat")
@place_argument("NAMESPACE[/OBJECT]")
@connecting_options
@json_option
def stat(*, place: Place, connecting: Connecting, as_json: bool) -> None:
    """Say what is known of an object, or who has claimed a namespace.

    \b
    sos stat payments
    sos stat scratch/greeting
    """

    async def run(client: SosClient) -> None:
        if place.object is None:
            using = await client.use(place.namespace)
            claim = {"epoch": using.epoch, "holder": using.holder.hex() or None}
            values = {"namespace": place.namespace, "incarnation": using.incarnation.hex(), **claim}
        else:
            values = {"namespace": place.namespace, **object_values(await client.stat(place.namespace, place.object))}
        if as_json:
            print_json(values)
        else:
            print_pairs([(f"{name}:", printable(str(value))) for name, value in values.items()])

    connecting.run(run)


@click.command("get")
@place_argument("NAMESPACE/OBJECT")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Begin there.")
@click.option("--length", type=click.IntRange(min=0), default=None, help="This many bytes, not up to the end.")
@connecting_options
@json_option
def get(*, place: Place, offset: int, length: int | None, connecting: Connecting, as_json: bool) -> None:
    """Write an object to standard output. With --json, what was read is told on standard error.

    \b
    sos get scratch/greeting > greeting
    """

    async def run(client: SosClient) -> None:
        assert place.object is not None
        size = (await client.stat(place.namespace, place.object)).size
        end = size if length is None else min(offset + length, size)
        crc = 0
        with progress(str(place), end - offset) as bar:
            async with client.read_stream(place.namespace, place.object, offset, length) as pieces:
                async for piece in pieces:
                    crc = crc32c(piece, crc)
                    await write_output(piece)
                    bar.reached(pieces.next_offset - offset)
        values = {"object": str(place), "offset": offset, "length": pieces.next_offset - offset, "crc32c": f"{crc:08x}"}
        report(values, as_json=as_json, err=True)

    connecting.run(run)


@click.command("tail")
@place_argument("NAMESPACE/OBJECT")
@click.option(
    "--bytes",
    "bytes_back",
    type=click.IntRange(min=0),
    default=4096,
    show_default=True,
    help="Begin so far from the end.",
)
@click.option("--offset", type=click.IntRange(min=0), default=None, help="Begin there instead.")
@click.option("-f", "--follow", is_flag=True, help="Go on as the object grows, until it is sealed.")
@connecting_options
@json_option
def tail(
    *, place: Place, bytes_back: int, offset: int | None, follow: bool, connecting: Connecting, as_json: bool
) -> None:
    """Write the end of an object to standard output, and with -f what comes after it.

    \b
    sos tail -f scratch/log
    """

    async def run(client: SosClient) -> None:
        assert place.object is not None
        start = offset
        if start is None:
            start = max(0, (await client.stat(place.namespace, place.object)).size - bytes_back)
        async with client.read_stream(place.namespace, place.object, start, follow=follow) as pieces:
            async for piece in pieces:
                await write_output(piece)
        values = {"object": str(place), "offset": start, "length": pieces.next_offset - start}
        report(values, as_json=as_json, err=True)

    connecting.run(run)
