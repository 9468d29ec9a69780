"""Sizes and times of the store, with the reason for each default. Numbers only."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Final

from sos_client.declarations import Setting
from sos_client.wire.limits import DATA_BYTES_MAX, OFFSET_MAX
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.store.gathering import buffer_bytes
from sos_server.store.log_files import FILE_RESERVE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping


RETENTION_SECONDS_MAX: Final = 1e10
"""300 years."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageSection:
    """``[storage]`` of the server's settings: how much is kept, and for how long at least."""

    retention_seconds: Annotated[
        float, Setting("sealed objects cannot be deleted before that", minimum=0, maximum=RETENTION_SECONDS_MAX)
    ] = 0.0
    quota_bytes: Annotated[
        int | None, Setting("what each namespace may hold; none: all there is", minimum=0, maximum=OFFSET_MAX)
    ] = None
    objects_max: Annotated[int, Setting("objects of all namespaces together", minimum=1)] = 80_000
    """Up to 0.9 KiB of memory each, with the longest name, so 70 MiB."""
    namespace_objects_max: Annotated[int, Setting("objects of one namespace", minimum=1)] = 50_000
    """So that none can take the places of all others. A volume needs about two for each 32 MiB of its journal that is
    kept, and two for each takeover: this is about 800 GB."""
    namespaces_max: Annotated[int, Setting("namespaces of the server", minimum=1)] = 10_000
    """Up to 0.9 KiB of memory each, and they stay for ever."""
    reserve_bytes: Annotated[int, Setting("appends are refused when the disk has less room", minimum=0)] = 16 << 20
    """Besides what is logged and not copied."""
    log_bytes_max: Annotated[
        int, Setting("size of the commit log, which a start may have to read", minimum=64 << 20, fixed=True)
    ] = 512 << 20
    """All log files; also how much is gathered for each object before it is copied."""
    accept_log_damage: Annotated[
        bool,
        Setting(
            "start although a part of the commit log is unreadable; what is not sealed counts as damaged then, and "
            "volumes count the server as lost if claims may be",
            fixed=True,
        ),
    ] = False
    """What that part held is lost unless copied."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings(StorageSection):
    """And what nobody but a test sets."""

    quotas: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """What these namespaces may hold, instead of `quota_bytes`."""
    batch_bytes_max: int = 8 << 20
    """One commit: more does not make a disk faster, and two of them are all that waits in memory."""
    append_bytes_max: int = DATA_BYTES_MAX
    """The longest payload of one `Appender.append`: what one frame may carry."""
    log_file_bytes_first: int = 16 << 20
    """The first two log files: small, so that a fresh server is up at once and fits on a small disk."""
    log_file_bytes_max: int = 48 << 20
    """Later ones: a change of files costs one sync more, and copying gathers what one file has for each object."""
    log_part_of_free_bytes: float = 0.1
    """On a small disk the log gets no more than this."""
    copy_bytes_max: int = 48 << 20
    """Log files are read into memory up to this much at a time (one file at least) to be copied."""
    run_log_part: float = 0.25
    """When this part of the log waits to be copied, much of one append goes straight to its object's file (`runs.py`).
    Until then the log is quicker."""
    run_bytes_min: int = 1 << 20
    """Much of one append is this much on its way; a run has no less."""
    run_bytes_max: int = 4 << 20
    """One run: with more the disk is no busier, and two of them are in memory for each such append."""
    run_appends_max: int = 2
    """So many appends have runs at a time; all others go through the log."""
    closing_seconds: float = 0.05
    """With nothing to commit for this long, an empty batch says that the one before it was synced (`STORAGE.md`). Not
    sooner, so that this seldom happens beside a client that waits for each of its appends."""
    idle_copy_seconds: float = 1.0
    """With nothing to commit for this long, everything is copied, so that the next start has nothing to replay."""
    object_files_open_max: int = 128
    """Handles kept for readers."""

    def __post_init__(self) -> None:
        least = BLOCK_BYTES + self.buffer_bytes + FILE_RESERVE_BYTES
        if self.log_file_bytes_first < least:
            raise ValueError(f"a log file must have at least {least} bytes, for the largest batch")
        if not BLOCK_BYTES <= self.run_bytes_min <= self.run_bytes_max < 1 << 30:
            raise ValueError("run_bytes_min is less than a block, or more than run_bytes_max, or that is too large")
        if not self.log_file_bytes_first <= self.log_file_bytes_max < 1 << 32:
            raise ValueError("log_file_bytes_max is less than log_file_bytes_first, or too large")

    @property
    def buffer_bytes(self) -> int:
        return buffer_bytes(batch_bytes_max=self.batch_bytes_max, append_bytes_max=self.append_bytes_max)

    def quota_for(self, namespace: str) -> int | None:
        """What this namespace may hold, or None for all there is."""
        return self.quotas.get(namespace, self.quota_bytes)
