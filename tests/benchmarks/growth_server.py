"""How an SOS server's cost grows with clients, with objects and with bytes stored."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.benchmarks import ours, peers
from tests.benchmarks.curves import Chart, measured_curves
from tests.benchmarks.load_generator import Load, run, run_and_rest
from tests.benchmarks.memory_suite import resident_mebibytes
from tests.benchmarks.processes import MissingPeerError
from tests.benchmarks.stand_in import NAMESPACE, make_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.benchmarks.processes import Running

CLIENTS: Final = (1, 4, 16, 64, 256, 1024)
OBJECTS: Final = (10, 100, 1_000, 10_000, 100_000)
STORED_BYTES: Final = (1 << 20, 64 << 20, 1 << 30, 10 << 30, 100 << 30)
OBJECT_BYTES_MAX: Final = 64 << 20
READ_BYTES: Final = 1 << 20


def appends_per_second(server: Running, *, clients: int, seconds: float, protocol: str = "sos-append") -> float:
    load = Load(protocol=protocol, port=server.port, clients=clients, seconds=seconds)
    return run_and_rest(load).per_second


def by_clients(directory: Path, seconds: float, rounds: int) -> list[Chart]:
    """Appends of 4 KiB, one in flight for each client; Redis beside it."""
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ours.sos_server(directory))
        measures: dict[str, dict[float, Callable[[], float]]] = {
            "SOS": {n: partial(appends_per_second, server, clients=n, seconds=seconds) for n in CLIENTS}
        }
        with contextlib.suppress(MissingPeerError):
            redis = stack.enter_context(peers.redis(directory))
            peer = partial(appends_per_second, redis, seconds=seconds, protocol="redis-xadd")
            measures["Redis, appendfsync always"] = {n: partial(peer, clients=n) for n in CLIENTS}
        curves = measured_curves(measures, rounds=rounds)
    return [
        Chart(
            key="clients",
            title="Durable appends of 4 KiB by number of clients",
            x="clients, one append in flight each",
            y="appends per second",
            curves=curves,
        )
    ]


def by_objects(directory: Path, seconds: float, rounds: int, counts: tuple[int, ...]) -> list[Chart]:
    """64 clients append to new objects of a server that holds many already."""
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        servers = {}
        for count in counts:
            make_root(directory / f"sos{count}", objects=count, object_bytes=4096)
            servers[count] = stack.enter_context(ours.sos_server(directory, name=f"sos{count}"))
        measures = {
            float(count): partial(appends_per_second, server, clients=64, seconds=seconds)
            for count, server in servers.items()
        }
        rates = measured_curves({"64 clients": measures}, rounds=rounds)
        memory = measured_curves(
            {"server": {float(count): partial(resident_mebibytes, server) for count, server in servers.items()}},
            rounds=1,
        )
    note = "The objects of 4 KiB that were there before are stand-ins: sparse files with true CRCs."
    return [
        Chart(
            key="objects",
            title="Durable appends of 4 KiB by objects in the server",
            x="objects stored",
            y="appends per second",
            curves=rates,
            note=note,
        ),
        Chart(
            key="objects-memory",
            title="Memory of a server by objects in it",
            x="objects stored",
            y="MiB resident",
            curves=memory,
            note=note,
        ),
    ]


def by_stored_bytes(directory: Path, seconds: float, rounds: int, sizes: tuple[int, ...]) -> list[Chart]:
    """Appends and reads of a server that stores much, and what it keeps in memory."""
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        appending: dict[float, Callable[[], float]] = {}
        reading: dict[float, Callable[[], float]] = {}
        resident: dict[float, Callable[[], float]] = {}
        for size in sizes:
            length = min(size, OBJECT_BYTES_MAX)
            make_root(directory / f"sos{size}", objects=size // length, object_bytes=length)
            server = stack.enter_context(ours.sos_server(directory, name=f"sos{size}"))
            appending[size] = partial(appends_per_second, server, clients=64, seconds=seconds)
            target = f"{NAMESPACE}/o{size // length - 1}"
            reading[size] = partial(_reads_per_second, server, target, length // READ_BYTES, seconds)
            resident[size] = partial(resident_mebibytes, server)
        rates = measured_curves({"appends of 4 KiB, 64 clients": appending}, rounds=rounds)
        reads = measured_curves({"reads of 1 MiB, 1 client": reading}, rounds=rounds)
        memory = measured_curves({"server": resident}, rounds=1)
    note = "What is stored are stand-ins: sparse files of zeros with true CRCs, read and verified like others."
    return [
        Chart(
            key="stored",
            title="Appends and reads by bytes stored",
            x="stored",
            unit_of_x="bytes",
            y="operations per second",
            curves=rates + reads,
            note=note,
        ),
        Chart(
            key="stored-memory",
            title="Memory of a server by bytes stored",
            x="stored",
            unit_of_x="bytes",
            y="MiB resident",
            curves=memory,
            note=note,
        ),
    ]


def _reads_per_second(server: Running, target: str, pieces: int, seconds: float) -> float:
    load = Load(
        protocol="sos-get", port=server.port, target=target, payload_bytes=READ_BYTES, objects=pieces, seconds=seconds
    )
    return run(load).per_second
