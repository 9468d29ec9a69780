"""`sos-connector status --relay`: batches that are being committed, transactions in doubt, who is waited for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from connectors.relay.relay_volume import STATUS, VOLUME
from journal.gateway.client.client import ClientSettings, open_volume
from sos_client.command.output import BAD, DOUBTFUL, print_json, print_pairs, print_table, size_text
from sos_client.printable import printable

if TYPE_CHECKING:
    from journal.cli.options import Access

ANSWER_SECONDS = 10.0


async def show_relay(address: str, access: Access, *, as_json: bool) -> None:
    """Ask a relay how it stands, and print that."""
    async with open_volume(
        [address],
        VOLUME,
        token=access.to_services.token,
        tls=access.to_services.tls,
        insecure=access.to_services.insecure,
        client_name="status",
        settings=ClientSettings(seconds=ANSWER_SECONDS),
    ) as volume:
        _, content = await volume.read_file(STATUS)
    status = json.loads(content)
    if as_json:
        print_json(status)
    else:
        _show(status)


def _show(status: dict[str, Any]) -> None:
    spool = f"{size_text(status['spool_bytes'])} of {size_text(status['spool_bytes_max'])}"
    batches = f"{status['committed']:,} committed, {status['failed']:,} failed"
    print_pairs([("relay", printable(status["relay"])), ("staged", spool), ("batches", batches)])
    for query in status["queries"]:
        click.echo()
        last = "none" if query["last_batch"] is None else str(query["last_batch"])
        pairs = [("query", printable(query["query"])), ("checkpoint", printable(query["checkpoint"]))]
        pairs += [("last batch", last), ("rows", f"{query['rows']:,}")]
        if query["transaction"]:
            pairs.append(("in doubt", f"{query['transaction']}: {query['phase']}"))
        print_pairs(pairs)
        if query["waits_for"]:
            click.secho(printable(query["waits_for"]), fg=DOUBTFUL)
        rows = [
            [each["address"], each["standing"], f"{each['offset']:,}", printable(each["trouble"] or "")]
            for each in query["sinks"]
        ]
        print_table(["SINK", "STANDING", "COMMITTED BYTES", "TROUBLE"], rows, right=[2])
    if not status["queries"]:
        click.secho("no query has asked for anything since it was started", fg=BAD if status["failed"] else None)
