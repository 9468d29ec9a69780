"""Which volumes SOS servers have: namespaces in which segments of a log lie.

Belongs here: asking each server, joining what they say. Nothing of a volume's log is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from journal.image.index_snapshot import parse_snapshot_name
from journal.records.segment import parse_segment_name
from journal.records.stored_objects import CopiedObject, standing_objects
from sos_client.wire.errors import ErrorCode, RefusedError, SosError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from journal.records.settings import Surroundings
    from sos_client.client import NamespaceEntry, SosClient

_ASKED_AT_ONCE: Final = 8
"""Namespaces of one server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVolume:
    """A volume, as the servers that have it say."""

    name: str
    servers: tuple[str, ...]
    stored_bytes: int  # on the server that has most
    epoch: int  # the newest claim


@dataclass(slots=True, kw_only=True)
class FoundVolumes:
    """What was found, and what could not be looked at."""

    volumes: list[KeptVolume] = field(default_factory=list)
    silent: dict[str, SosError] = field(default_factory=dict)
    """Servers that did not say, and why."""
    unreadable: set[str] = field(default_factory=set)
    """Namespaces whose objects the token may not list."""


async def find_volumes(servers: Sequence[str], surroundings: Surroundings) -> FoundVolumes:
    """All volumes that the token may read on these servers, in order of name."""
    listing = FoundVolumes()
    found: dict[str, list[tuple[str, NamespaceEntry]]] = {}

    async def ask(address: str) -> None:
        try:
            async with surroundings.open_member(address) as client:
                for entry in await _volumes_of(client, listing.unreadable):
                    found.setdefault(entry.name, []).append((address, entry))
        except SosError as error:
            listing.silent[address] = error

    async with trio.open_nursery() as nursery:
        for address in servers:
            nursery.start_soon(ask, address)
    order = list(servers).index
    for name, entries in sorted(found.items()):
        listing.volumes.append(
            KeptVolume(
                name=name,
                servers=tuple(sorted((address for address, _ in entries), key=order)),
                stored_bytes=max(entry.used_bytes for _, entry in entries),
                epoch=max(entry.epoch for _, entry in entries),
            )
        )
    return listing


async def _volumes_of(client: SosClient, unreadable: set[str]) -> list[NamespaceEntry]:
    entries = [entry async for entry in client.list_namespaces()]
    volumes: list[NamespaceEntry] = []
    turns = trio.Semaphore(_ASKED_AT_ONCE)

    async def look(entry: NamespaceEntry) -> None:
        async with turns:
            try:
                page = await client.list_page(entry.name)
            except RefusedError as error:
                if error.code is not ErrorCode.DENIED:
                    raise
                unreadable.add(entry.name)
                return
        if has_segments(info.name for info in page.entries):
            volumes.append(entry)

    async with trio.open_nursery() as nursery:
        for entry in entries:
            nursery.start_soon(look, entry)
    return volumes


def has_segments(names: Iterable[str]) -> bool:
    """Whether some of these objects are a volume's log: segments, or index snapshots that outlived them."""
    standing = standing_objects(CopiedObject(name=name, size=0, sealed=True) for name in names)
    return any(parse_segment_name(name) is not None or parse_snapshot_name(name) is not None for name in standing)
