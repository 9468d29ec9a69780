"""What the servers say of each shard, as one volume's: members by machine, sums, and what is of one journal by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from journal.web.servers_watch import now_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.web.servers_watch import ServersWatch
    from sos_client.web.sampling import Since

_SUMS: Final = ("log_bytes", "files", "live_bytes")
_OF_ONE_JOURNAL: Final = ("epoch", "holder", "acknowledged_lsn")
_BEST_FIRST: Final = ("has all", "lacks the newest", "does not answer")


def members_of(watches: Sequence[ServersWatch], since: Since) -> list[dict[str, object]]:
    """A machine stands as it does for the shard that it serves worst."""
    machines: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for watch in watches:
        for row in watch.members():
            machines.setdefault(str(row["address"]), []).append((watch.volume, row))
    return [_machine(address, rows, since) for address, rows in sorted(machines.items())]


def _machine(address: str, rows: list[tuple[str, dict[str, Any]]], since: Since) -> dict[str, object]:
    standing = max((row["standing"] for _, row in rows), key=_BEST_FIRST.index)
    problems = dict.fromkeys(row["problem"] for _, row in rows if row["problem"])
    return {
        "address": address,
        "in_sync": all(row["in_sync"] for _, row in rows),
        "standing": standing,
        "lag_bytes": sum(row["lag_bytes"] for _, row in rows),
        "lag_seconds": max(row["lag_seconds"] for _, row in rows),
        "since_ms": since.of(address, standing, now_ms()),
        "problem": "; ".join(_named(one, rows) for one in problems),
    }


def _named(problem: str, rows: list[tuple[str, dict[str, Any]]]) -> str:
    """With the shards that have it, if not all have."""
    having = [volume for volume, row in rows if row["problem"] == problem]
    return problem if len(having) == len(rows) else f"{', '.join(having)}: {problem}"


def live_of(watches: Sequence[ServersWatch]) -> dict[str, object]:
    """Sums, and by shard what only one journal has; nothing while one of them cannot be read."""
    parts: list[dict[str, Any]] = [watch.live() for watch in watches]
    if not all(parts):
        return {}
    common = {name: value for name, value in parts[0].items() if name not in (*_SUMS, *_OF_ONE_JOURNAL)}
    growths = [part["bytes_per_day"] for part in parts]
    return {
        **common,
        **{name: sum(part[name] for part in parts) for name in _SUMS},
        "bytes_per_day": None if None in growths else sum(growths),
        "shards": [
            {"volume": watch.volume, **{name: part[name] for name in _OF_ONE_JOURNAL}}
            for watch, part in zip(watches, parts, strict=True)
        ],
    }
