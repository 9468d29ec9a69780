"""What queries cost: processor, disk, network, syncs, memory, for partitions × stores × batches. Pure.

Its coefficients are fitted to measurements (scale.py reads them); here is how they are put together. It says what a
steady query needs. It knows nothing of a machine that is busy with something else, and its network has no delay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORD_BYTES: Final = 256
"""Of a record beside its file's bytes: header, chain value, path, stamp. A test compares it with records."""
PUTS_PER_FILE: Final = 2
"""Spark 4.1 puts a file of checksums beside each checkpoint file, unless told not to."""
APPEND_BYTES: Final = 4096
"""As it was measured; longer appends cost as much as several."""
CHECKSUM_BYTES: Final = 128
"""Of such a file, at most."""
BUSY_MAX: Final = 0.7
"""Of a service's core. Beyond it a burst waits for the burst before."""
BATCHES_KEPT: Final = 100
"""spark.sql.streaming.minBatchesToRetain, Spark's default: so many files of each store are there at any time."""
DRIVER_CALLS: Final = 6
"""Of a batch that purges an old one: a plan, a commit, and what was two files before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A cost that has a fixed part and one for each unit."""

    fixed: float
    per_unit: float

    def at(self, units: float) -> float:
        return self.fixed + self.per_unit * units


def fitted(points: Sequence[tuple[float, float]]) -> Line:
    """The line with the least sum of squared relative errors: a small cost counts as much as a large one.

    ValueError: fewer than two places, or a cost that is not above zero.
    """
    if len({x for x, _ in points}) < 2 or any(y <= 0 for _, y in points):
        raise ValueError(f"no line through {points}")
    weights = [1 / (y * y) for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    covariance = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    variance = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = covariance / variance
    return Line(fixed=mean_y - slope * mean_x, per_unit=slope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What was measured, in seconds and bytes."""

    put_by_bytes: Line
    """Seconds of a service's core for a put on one member, by bytes of the file."""
    put_by_members: Line
    """The same for 4 KiB, by members: only what each member adds is taken from it."""
    alone_by_members: Line
    """Seconds until a put that is alone is acknowledged, by members."""
    memory_by_files: Line
    """Bytes of a service's memory, by files in its volume."""
    append_seconds: float
    """Processor time of a server for an append of a service, 4 KiB, many in flight."""
    read_bytes_per_second: float
    """By one core of a service and its server, of what the service has no copy of."""
    calls_per_file: float
    """Requests to the service for each state file of a batch: those that write it, and questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A query in its steady state, and where it is kept."""

    name: str
    partitions: int
    stores: int
    """Of each partition: one for an aggregation, four for a join on Spark's default provider."""
    batches_per_minute: float
    file_bytes: int
    """That a store writes in a batch."""
    cores: int
    """Of all executors: so many tasks run at once."""
    members: int = 3
    shards: int = 1

    @property
    def files(self) -> int:
        """Of state, in each batch."""
        return self.partitions * self.stores


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one workload. Bytes and cores are a second's, of the mean over a minute."""

    service_cores: float
    """Of all shards together."""
    shards_needed: int
    server_cores: float
    """Of each server."""
    stored_bytes_per_second: float
    """Of each server, before retention lets go of them."""
    network_bytes_per_second: float
    """Into all services, and out of them to all members."""
    syncs_per_second_max: float
    """Of each server, if no two files ever came together; a burst shares one."""
    write_seconds: float
    """Of a batch, in which its state files are written: what a batch cannot be shorter than."""
    files: int
    """In the volume at any time."""
    memory_bytes: float
    """Of each service."""


def put_seconds(file_bytes: float, members: int, found: Coefficients) -> float:
    """Of a service's core."""
    return found.put_by_bytes.at(file_bytes) + found.put_by_members.per_unit * (members - 1)


def file_seconds(load: Workload, found: Coefficients) -> float:
    """Of a service's core, for a state file: its put, that of its checksums, and questions, at most as an empty put."""
    questions = max(0.0, found.calls_per_file - PUTS_PER_FILE) * found.put_by_bytes.fixed
    puts = put_seconds(load.file_bytes, load.members, found) + put_seconds(CHECKSUM_BYTES, load.members, found)
    return puts + questions


def cost(load: Workload, found: Coefficients) -> Cost:
    each = file_seconds(load, found)
    batches_per_second = load.batches_per_minute / 60
    driver = DRIVER_CALLS * put_seconds(0, load.members, found)
    service_cores = (load.files * each + driver) * batches_per_second
    writes = (load.files * PUTS_PER_FILE + DRIVER_CALLS) * batches_per_second
    beside = writes - load.files * batches_per_second  # small ones: one append each
    appends = load.files * batches_per_second * max(1.0, load.file_bytes / APPEND_BYTES) + beside
    stored = (load.file_bytes + CHECKSUM_BYTES + PUTS_PER_FILE * RECORD_BYTES) * load.files * batches_per_second
    in_turn = math.ceil(load.partitions / load.cores) * load.stores * found.alone_by_members.at(load.members)
    files = (load.files + 2) * PUTS_PER_FILE * BATCHES_KEPT
    return Cost(
        service_cores=service_cores,
        shards_needed=max(1, math.ceil(service_cores / BUSY_MAX)),
        server_cores=appends * found.append_seconds,
        stored_bytes_per_second=stored,
        network_bytes_per_second=stored * (1 + load.members),
        syncs_per_second_max=writes,
        write_seconds=max(load.files * each / load.shards, in_turn),
        files=files,
        memory_bytes=found.memory_by_files.at(files / load.shards),
    )


def restart_seconds(state_bytes: float, shards: int, found: Coefficients) -> float:
    """Until all of a query's state has come to new machines, if services are what bounds it."""
    return state_bytes / (found.read_bytes_per_second * shards)
