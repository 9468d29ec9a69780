"""How the journal service's cost grows with file size, with files in the volume, with members, and beside a listing."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from journal.gateway.client.client import open_volume
from journal.volume import PUT_BYTES_MAX
from tests.benchmarks import ours
from tests.benchmarks.curves import Chart, Curve, measured_curve, measured_curves
from tests.benchmarks.image_stand_in import add_files, filled_image
from tests.benchmarks.load_generator import Load, run, run_and_rest
from tests.benchmarks.memory_suite import bytes_per_file, resident_mebibytes

if TYPE_CHECKING:
    from pathlib import Path

    from journal.gateway.client.client import RemoteVolume
    from tests.benchmarks.load_generator import Measured
    from tests.benchmarks.processes import Running

KIB: Final = 1 << 10
FILE_BYTES: Final = tuple(KIB << 2 * step for step in range(8))
"""1 KiB to 16 MiB."""
LARGE_WRITERS: Final = 4
FILES: Final = (1_000, 10_000, 100_000)
IMAGE_FILES: Final = (1_000, 10_000, 100_000, 1_000_000)
IMAGE_STEP: Final = 20_000
MEMBERS: Final = (1, 3, 5)
FILL_SECONDS_MAX: Final = 300.0
FILL_CLIENTS: Final = 64
ONE_DIRECTORY: Final = "all"
"""Where the load generator puts the files of all its clients when told to."""


def put_files(service: Running, *, clients: int, seconds: float, payload_bytes: int = 4096) -> Measured:
    return run_and_rest(
        Load(
            protocol="file-put",
            port=service.port,
            clients=clients,
            payload_bytes=payload_bytes,
            seconds=seconds,
        )
    )


def fill(service: Running, files: int, *, one_directory: bool = False, payload_bytes: int = 64) -> None:
    """About so many new files."""
    load = Load(
        protocol="file-put",
        port=service.port,
        payload_bytes=payload_bytes,
        clients=FILL_CLIENTS,
        objects=max(2, -(-files // FILL_CLIENTS)),
        one_directory=one_directory,
        operations=files,
        warm_up_seconds=0.0,
        seconds=FILL_SECONDS_MAX,
    )
    run(load)


def by_file_size(directory: Path, seconds: float, rounds: int) -> list[Chart]:
    """Puts of whole files; what is larger than one message is streamed and committed."""
    directory.mkdir()
    with ours.new_volume(directory, members=1) as service:
        measures = {float(size): partial(_files_per_second, service, size, seconds) for size in FILE_BYTES}
        rates = measured_curve("16 clients", measures, rounds=rounds)
    throughput = Curve(name=rates.name, points=tuple((size, rate * size / 1e6) for size, rate in rates.points))
    note = f"Files above {PUT_BYTES_MAX // KIB} KiB are streamed, by {LARGE_WRITERS} clients in one Python process."
    return [
        Chart(
            key="file-size",
            title="Files put by their size",
            x="size of a file",
            unit_of_x="bytes",
            y="files per second",
            curves=(rates,),
            note=note,
        ),
        Chart(
            key="file-size-bytes",
            title="Bytes put by size of file",
            x="size of a file",
            unit_of_x="bytes",
            y="MB/s",
            curves=(throughput,),
            note=note,
        ),
    ]


def _files_per_second(service: Running, size: int, seconds: float) -> float:
    if size <= PUT_BYTES_MAX:
        return put_files(service, clients=16, seconds=seconds, payload_bytes=size).per_second
    return trio.run(_stream_files, service.port, size, seconds)


async def _stream_files(port: int, size: int, seconds: float) -> float:
    """Files per second, streamed by some clients side by side."""
    piece, finished, start = bytes(PUT_BYTES_MAX), 0, time.perf_counter()

    async with open_volume([f"127.0.0.1:{port}"], ours.VOLUME) as volume:

        async def write(number: int) -> None:
            nonlocal finished
            while time.perf_counter() - start < seconds:
                operation = volume.new_operation()
                stream = await volume.open_write(f"large/{number}", overwrite=True, operation=operation)
                for _ in range(size // len(piece)):
                    await stream.write(piece)
                await stream.commit()
                finished += 1

        async with trio.open_nursery() as nursery:
            for number in range(LARGE_WRITERS):
                nursery.start_soon(write, number)
    return finished / (time.perf_counter() - start)


def by_files(directory: Path, seconds: float, rounds: int, counts: tuple[int, ...]) -> list[Chart]:
    """Puts into a volume that has many files already, and the service's memory. The volume is filled step by step."""
    directory.mkdir()
    rates: list[tuple[float, float]] = []
    memory: list[tuple[float, float]] = []
    there = 0
    with ours.new_volume(directory, members=1) as service:
        for count in counts:
            fill(service, count - there)
            there = count
            point = measured_curve("", {count: partial(_puts_per_second, service, 64, seconds)}, rounds=rounds)
            rates += point.points
            memory.append((count, resident_mebibytes(service)))
    return [
        Chart(
            key="files",
            title="Puts of 4 KiB by files in the volume",
            x="files in the volume",
            y="puts per second",
            curves=(Curve(name="64 clients", points=tuple(rates)),),
        ),
        Chart(
            key="files-memory",
            title="Memory of the service by files in the volume",
            x="files in the volume",
            y="MiB resident",
            curves=(Curve(name="service", points=tuple(memory)),),
        ),
    ]


def _puts_per_second(service: Running, clients: int, seconds: float) -> float:
    return put_files(service, clients=clients, seconds=seconds).per_second


def of_images(counts: tuple[int, ...]) -> list[Chart]:
    """Memory for each file of an image, and what it costs to apply one more put to it."""
    note = "An image in memory, made by the records that make it; nothing is stored."
    costs = []
    for count in counts:
        image = filled_image(count)
        start = time.process_time()
        add_files(image, count, count + IMAGE_STEP)
        costs.append((float(count), (time.process_time() - start) / IMAGE_STEP * 1e6))
        del image
    sizes = tuple((float(count), bytes_per_file(count)) for count in counts if count > counts[0])
    x = "files in the image"
    return [
        Chart(
            key="image-memory",
            title="Memory of an image for each of its files",
            x=x,
            y="bytes per file (300 allowed)",
            curves=(Curve(name="image", points=sizes),),
            note=note,
        ),
        Chart(
            key="image-cost",
            title="Applying one put to an image",
            x=x,
            y="microseconds",
            curves=(Curve(name="one put", points=tuple(costs)),),
            note=note,
        ),
    ]


def by_members(directory: Path, seconds: float, rounds: int) -> list[Chart]:
    """64 clients and one, with 1, 3 and 5 SOS servers, all of them on this machine."""
    directory.mkdir()
    curves: dict[int, list[tuple[float, float]]] = {64: [], 1: []}
    for members in MEMBERS:
        (directory / f"m{members}").mkdir()
        with ours.new_volume(directory / f"m{members}", members=members) as service:
            found = measured_curves(
                {str(n): {members: partial(_puts_per_second, service, n, seconds)} for n in curves}, rounds=rounds
            )
            for points, curve in zip(curves.values(), found, strict=True):
                points += curve.points
    return [
        Chart(
            key="members",
            title="Puts of 4 KiB by members of the volume",
            x="SOS servers that keep the volume",
            y="puts per second",
            curves=tuple(
                Curve(name=f"{n} clients" if n > 1 else "1 client", points=tuple(p)) for n, p in curves.items()
            ),
            note="All servers share this machine's processors and disk, so each member takes from the others.",
        )
    ]


def beside_a_listing(directory: Path, seconds: float, rounds: int, files: int) -> list[Chart]:
    """Latency of puts by 16 clients, while nobody or one client lists a directory of many files, over and over."""
    directory.mkdir()
    found: dict[str, dict[float, list[float]]] = {name: {0.0: [], 1.0: []} for name in ("median", "99th percentile")}
    with ours.new_volume(directory, members=1) as service:
        fill(service, files, one_directory=True)
        for number in range(2 * rounds):
            listing = float(number % 2)
            measured = _puts_beside_a_listing(service, seconds) if listing else _puts(service, seconds)
            found["median"][listing].append(measured.p50_seconds * 1e3)
            found["99th percentile"][listing].append(measured.p99_seconds * 1e3)
    curves = [
        Curve(name=name, points=tuple((x, statistics.median(values)) for x, values in of.items()))
        for name, of in found.items()
    ]
    return [
        Chart(
            key="listing",
            title=f"Latency of a put while a directory of {files:,} files is listed",
            x="clients that list it, over and over",
            y="milliseconds",
            curves=tuple(curves),
            note="16 clients put files of 4 KiB, one in flight each. The listing takes pages of 1,000 entries.",
        )
    ]


def _puts(service: Running, seconds: float) -> Measured:
    return put_files(service, clients=16, seconds=seconds)


def _puts_beside_a_listing(service: Running, seconds: float) -> Measured:
    return trio.run(_put_beside_a_listing, service, seconds)


async def _put_beside_a_listing(service: Running, seconds: float) -> Measured:
    async with open_volume([f"127.0.0.1:{service.port}"], ours.VOLUME) as volume, trio.open_nursery() as nursery:
        await nursery.start(_list_forever, volume)
        measured = await trio.to_thread.run_sync(_puts, service, seconds)
        nursery.cancel_scope.cancel()
    return measured


async def _list_forever(volume: RemoteVolume, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    task_status.started()
    while True:
        after, more = "", True
        while more:
            page = await volume.list(ONE_DIRECTORY, after=after)
            more = page.more
            after = page.entries[-1].path.rpartition("/")[2]
