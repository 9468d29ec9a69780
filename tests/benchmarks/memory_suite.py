"""What server and service keep in memory, with little and with much stored.

100 GiB are stand-ins: sparse files of zeros for the server (`stand_in.py`), an image of as many files for the service,
whose memory depends on nothing else.
"""

from __future__ import annotations

import gc
import multiprocessing
import shutil
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks import ours
from tests.benchmarks.image_stand_in import filled_image
from tests.benchmarks.load_generator import Load, run
from tests.benchmarks.stand_in import NAMESPACE, make_root

if TYPE_CHECKING:
    from tests.benchmarks.comparison import Report
    from tests.benchmarks.processes import Running

MIB: Final = 1 << 20
OBJECT_BYTES: Final = 64 * MIB
SERVER_OBJECTS: Final = {"1 GiB": 16, "100 GiB": 1600}
FILES_OF_100_GIB: Final = 102_400
IMAGES: Final = 2  # a writer keeps the pending and the acknowledged one
FLAT: Final = 0.8
BOUNDED: Final = 0.4  # a hundred times as many files are another 30 MiB or so
BYTES_PER_FILE_MAX: Final = 300


def memory(report: Report, directory: Path, seconds: float) -> None:
    server = server_memories(directory, rounds=report.rounds)
    report.state(
        "memory of a server with 100 GiB stored (sparse stand-ins)",
        server["100 GiB"],
        server["1 GiB"],
        peer_name="itself with 1 GiB",
        unit="MiB",
        goal=FLAT,
    )
    less, more = service_memory(directory / "service", seconds)
    per_file = bytes_per_file(FILES_OF_100_GIB)
    report.state(
        "memory of a service with 100 GiB in files of 1 MiB (measured at 1 GiB, plus the image of the others)",
        more + IMAGES * per_file * FILES_OF_100_GIB / MIB,
        less,
        peer_name="itself with 64 MiB",
        unit="MiB",
        goal=BOUNDED,
    )
    report.state(
        f"image memory per file, {FILES_OF_100_GIB:,} files",
        per_file,
        BYTES_PER_FILE_MAX,
        peer_name="what was allowed",
        unit="bytes",
        goal=1.0,
    )


def server_memories(directory: Path, *, rounds: int) -> dict[str, float]:
    """The median of some servers with each: which moment of its copying one is met in makes a third of its memory."""
    found: dict[str, list[float]] = {name: [] for name in SERVER_OBJECTS}
    for number in range(rounds):
        for name, objects in SERVER_OBJECTS.items():
            place = directory / f"{name.replace(' ', '')}-{number}"
            found[name].append(server_memory(place, objects))
            shutil.rmtree(place)
    return {name: statistics.median(values) for name, values in found.items()}


def server_memory(directory: Path, objects: int) -> float:
    """MiB of a server after appends by 64 clients and reads all over what it stores."""
    directory.mkdir()
    make_root(directory / "sos", objects=objects, object_bytes=OBJECT_BYTES)
    with ours.sos_server(directory) as server:
        run(Load(protocol="sos-append", port=server.port, clients=64, seconds=1.0))
        for number in range(0, objects, max(1, objects // 8)):
            target = f"{NAMESPACE}/o{number}"
            run(Load(protocol="sos-get", port=server.port, target=target, payload_bytes=MIB, objects=64, operations=64))
        return resident_mebibytes(server)


def service_memory(directory: Path, seconds: float) -> tuple[float, float]:
    """MiB of a service with 64 MiB in 64 files, and then with 1 GiB in 1,024 (a quarter of that when quick)."""
    directory.mkdir()
    files = 1024 if seconds >= 1 else 256
    with ours.new_volume(directory, members=1) as service:
        load = Load(protocol="file-put", port=service.port, payload_bytes=MIB, clients=4, seconds=60.0, operations=64)
        run(load)
        less = resident_mebibytes(service)
        run(
            Load(
                protocol="file-put",
                port=service.port,
                payload_bytes=MIB,
                clients=4,
                objects=files // 4,
                seconds=120.0,
                operations=files,
            )
        )
        return less, resident_mebibytes(service)


def resident_mebibytes(server: Running) -> float:
    for line in Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no memory is told of {server.name}")


def bytes_per_file(files: int) -> float:
    """What one image takes of the machine's memory, in a process of its own, divided by its files."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_bytes_per_file, (files,))


def _bytes_per_file(files: int) -> float:
    warm = filled_image(1000)
    gc.collect()
    before = _own_resident_bytes()
    image = filled_image(files)
    gc.collect()
    used = _own_resident_bytes() - before
    assert image.tree.file_count == files
    assert warm.tree.file_count == 1000
    return used / files


def _own_resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096
