"""The verbs that change something: put, append, fence, seal, rm."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from sos_client import transfers
from sos_client.append_stream import AppendTarget
from sos_client.cli.connecting import Connecting, Place, connecting_options, place_argument
from sos_client.cli.reporting import object_values, report
from sos_client.cli.streams import input_bytes, input_chunks
from sos_client.command.connecting import Verb, decorated
from sos_client.command.output import json_option, progress
from sos_client.wire.errors import ErrorCode, MisuseError, RefusedError
from sos_client.wire.limits import IDENTITY_BYTES, OFFSET_MAX

if TYPE_CHECKING:
    from sos_client.client import SosClient

Transfer = Callable[..., Awaitable[transfers.Transferred]]

_OBJECT = place_argument("NAMESPACE/OBJECT")
_EPOCH = click.IntRange(min=0, max=OFFSET_MAX)
_CLAIMED_EPOCH = click.IntRange(min=1, max=OFFSET_MAX)


def _parse_holder(ctx: click.Context, param: click.Parameter, value: str | None) -> bytes:
    try:
        holder = bytes.fromhex(value or "")
    except ValueError as error:
        raise click.BadParameter("a holder is hexadecimal", ctx, param) from error
    if len(holder) not in (0, IDENTITY_BYTES):
        raise click.BadParameter(f"a holder is {2 * IDENTITY_BYTES} hexadecimal digits", ctx, param)
    return holder


_CLAIM_OPTIONS = (
    click.option("--epoch", type=_EPOCH, default=0, help="Write under this claim: its epoch."),
    click.option("--holder", callback=_parse_holder, help="Write under this claim: its holder (32 hex digits)."),
)


def claim_options(function: Verb) -> Verb:
    """--epoch and --holder, for namespaces that are claimed."""
    return decorated(function, _CLAIM_OPTIONS)


@click.command("put")
@_OBJECT
@claim_options
@connecting_options
@json_option
def put(*, place: Place, epoch: int, holder: bytes, connecting: Connecting, as_json: bool) -> None:
    """Make an object of standard input.

    When the object has a part of it already, from a put that was cut short, only the rest is sent. When it has other
    bytes than those, it is left as it is, and that is an error.

    \b
    echo hello | sos put scratch/greeting
    """
    _transfer(transfers.put, place, epoch, holder, connecting, as_json=as_json)


@click.command("append")
@_OBJECT
@claim_options
@connecting_options
@json_option
def append(*, place: Place, epoch: int, holder: bytes, connecting: Connecting, as_json: bool) -> None:
    """Add standard input to the end of an object, which is made if there is none.

    \b
    echo more | sos append scratch/log
    """
    _transfer(transfers.append, place, epoch, holder, connecting, as_json=as_json)


def _transfer(
    transfer: Transfer, place: Place, epoch: int, holder: bytes, connecting: Connecting, *, as_json: bool
) -> None:
    async def run(client: SosClient) -> None:
        assert place.object is not None
        target = AppendTarget(namespace=place.namespace, object=place.object, epoch=epoch, holder=holder)
        with progress(str(place), input_bytes()) as bar:
            done = await transfer(client, target, input_chunks(), progress=bar.reached)
        values = {"object": str(place), "size": done.size, "size_before": done.size_before}
        report(values, as_json=as_json)

    connecting.run(run)


@click.command("fence")
@place_argument("NAMESPACE")
@click.option("--epoch", type=_CLAIMED_EPOCH, help="The claim's epoch (default: one more than the current one).")
@click.option("--holder", callback=_parse_holder, help="Its holder, 32 hex digits (default: a new one).")
@connecting_options
@json_option
def fence(*, place: Place, epoch: int | None, holder: bytes, connecting: Connecting, as_json: bool) -> None:
    """Claim a namespace: from then on only writers under this claim are served.

    \b
    sos fence scratch
    """

    async def run(client: SosClient) -> None:
        using = await client.use(place.namespace, create=True)
        claimed_epoch = using.epoch + 1 if epoch is None else epoch
        claimed_holder = holder or secrets.token_bytes(IDENTITY_BYTES)
        await client.fence(place.namespace, claimed_epoch, claimed_holder)
        values = {"namespace": place.namespace, "epoch": claimed_epoch, "holder": claimed_holder.hex()}
        report(values, as_json=as_json, text=f"--epoch {claimed_epoch} --holder {claimed_holder.hex()}")

    connecting.run(run)


@click.command("seal")
@_OBJECT
@click.option("--size", type=click.IntRange(min=0), help="Only if it has this size (default: whatever it has now).")
@claim_options
@connecting_options
@json_option
def seal(*, place: Place, size: int | None, epoch: int, holder: bytes, connecting: Connecting, as_json: bool) -> None:
    """Make an object immutable for ever.

    \b
    sos seal scratch/log
    """

    async def run(client: SosClient) -> None:
        assert place.object is not None
        info = await client.stat(place.namespace, place.object)
        wanted = info.size if size is None else size
        await client.seal(place.namespace, place.object, size=wanted, epoch=epoch, holder=holder)
        info = await client.stat(place.namespace, place.object)
        report({"namespace": place.namespace, **object_values(info)}, as_json=as_json)

    connecting.run(run)


@click.command("rm")
@_OBJECT
@click.option("--seal", "seal_first", is_flag=True, help="Seal it first, if it is not.")
@claim_options
@connecting_options
@json_option
def rm(*, place: Place, seal_first: bool, epoch: int, holder: bytes, connecting: Connecting, as_json: bool) -> None:
    """Delete a sealed object, once the server's retention allows it.

    \b
    sos rm --seal scratch/log
    """

    async def run(client: SosClient) -> None:
        if place.object is None:
            raise MisuseError("only objects can be deleted")
        try:
            await client.delete(place.namespace, place.object, epoch=epoch, holder=holder)
        except RefusedError as error:  # who may not delete is told that first, and has sealed nothing
            if error.code != ErrorCode.NOT_SEALED or not seal_first:
                raise
            info = await client.stat(place.namespace, place.object)
            await client.seal(place.namespace, place.object, size=info.size, epoch=epoch, holder=holder)
            await client.delete(place.namespace, place.object, epoch=epoch, holder=holder)
        report({"object": str(place), "deleted": True}, as_json=as_json)

    connecting.run(run)
