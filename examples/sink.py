"""A sink: each batch of a Spark query becomes one file in a directory, once, whatever is killed."""

import sys
from pathlib import Path

import trio

from connectors import serve_sink

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
rows: list[bytes] = []  # received, not prepared


def prepare(transaction) -> bool:
    (folder / f"{transaction.first}.prepared").write_bytes(b"".join(row + b"\n" for row in rows))  # (a real one syncs)
    rows.clear()
    return True


def commit(transaction) -> None:  # may come twice
    if (prepared := folder / f"{transaction.first}.prepared").exists():
        prepared.rename(folder / f"{transaction.first}.csv")


def abort(transaction) -> None:  # so may this; without an id: forget what was received
    rows.clear()
    if transaction.id:
        (folder / f"{transaction.first}.prepared").unlink(missing_ok=True)


def receive(more) -> None:
    rows.extend(row.payload for row in more)


listen = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:7500"
trio.run(lambda: serve_sink(receive, prepare, commit, abort, listen=listen, log=folder / "transactions.log"))
