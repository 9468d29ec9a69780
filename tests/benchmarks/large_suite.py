"""Large files through the service: a directory is imported, against `dd`; and read again, against nginx."""

from __future__ import annotations

import http.client
import itertools
import os
import re
import subprocess
from typing import TYPE_CHECKING, Final

import trio

from journal.gateway.client.client import open_volume
from tests.benchmarks import ours, peers
from tests.benchmarks.comparison import timed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.benchmarks.comparison import Report
    from tests.benchmarks.processes import Running

FILE_BYTES: Final = 32 << 20
FILES: Final = 32
FILES_WHEN_QUICK: Final = 2
RECEIVE_BYTES: Final = 1 << 20
GOALS: Final = {1: 0.7, 3: 0.7}
"""By the number of servers, which are all on one disk: `dd` writes as much as all of them together."""


def large_files(report: Report, directory: Path, seconds: float) -> None:
    """1 GiB in files of 32 MiB, 64 MiB when quick.

    It is imported with the command, which takes a start of Python each time. It is read by one client, file after file,
    from memory, and verified on its way.
    """
    files = FILES if seconds >= 1.5 else FILES_WHEN_QUICK
    source = directory / "source"
    source.mkdir()
    for number in range(files):
        (source / str(number)).write_bytes(os.urandom(FILE_BYTES))
    for members, goal in GOALS.items():
        place = directory / f"of{members}"
        place.mkdir()
        with ours.new_volume(place, members=members) as service:
            _imports(report, source, place, service, files=files, members=members, goal=goal)
            if members == 1:
                _reads(report, source, place, service, files=files)


def _imports(
    report: Report, source: Path, place: Path, service: Running, *, files: int, members: int, goal: float
) -> None:
    stored_bytes = files * FILE_BYTES
    numbers = itertools.count()

    def ours_once() -> float:
        command = [*ours.JOURNAL, "import", str(source), f"sos://{ours.VOLUME}/import{next(numbers)}"]
        command += ["--service", f"127.0.0.1:{service.port}"]
        return stored_bytes / timed(lambda: _run(command)) / 1e6

    ours_once()  # the servers make their logs' files in the first of their life
    where = "1 server" if members == 1 else f"{members} servers on one disk, k = {members // 2 + 1}"
    peer = f"dd conv=fdatasync of {'as much' if members == 1 else f'{members} times as much'}"
    report.compare(
        f"import of {stored_bytes >> 20:,} MiB, {where}",
        ours_once,
        _dd(place / "dd.out", stored_bytes * members, told_bytes=stored_bytes),
        peer_name=peer,
        unit="MB/s",
        goal=goal,
    )


def _dd(target: Path, length: int, *, told_bytes: int) -> Callable[[], float]:
    """`told_bytes` a second, of a `dd` of `length`: each byte of ours is stored by each member."""
    command = ["dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={length >> 20}", "conv=fdatasync"]

    def copy() -> float:
        target.unlink(missing_ok=True)
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={"LC_ALL": "C"})
        found = re.search(r"copied, ([0-9.e-]+) s", done.stderr)
        assert found, done.stderr
        target.unlink()
        return told_bytes / float(found[1]) / 1e6

    return copy


def _reads(report: Report, source: Path, place: Path, service: Running, *, files: int) -> None:
    paths = [f"import0/{number}" for number in range(files)]
    (place / "nginx").mkdir()
    with peers.nginx(place / "nginx", served=source) as nginx:
        report.compare(
            f"read of {files * FILE_BYTES >> 20:,} MiB through the service",
            lambda: files * FILE_BYTES / timed(lambda: trio.run(_read, service.port, paths)) / 1e6,
            lambda: files * FILE_BYTES / timed(lambda: _get(nginx.port, files)) / 1e6,
            peer_name="nginx",
            unit="MB/s",
            goal=0.5,
        )


async def _read(port: int, paths: list[str]) -> None:
    async with open_volume([f"127.0.0.1:{port}"], ours.VOLUME) as volume:
        for path in paths:
            count = 0
            async for piece in volume.read(path):
                count += len(piece)
            if count != FILE_BYTES:
                raise RuntimeError(f"{path} has {count} bytes")


def _get(port: int, files: int) -> None:
    connection, room = http.client.HTTPConnection("127.0.0.1", port), bytearray(RECEIVE_BYTES)
    for number in range(files):
        connection.request("GET", f"/{number}")
        response, count = connection.getresponse(), 0
        while more := response.readinto(room):
            count += more
        if count != FILE_BYTES:
            raise RuntimeError(f"nginx gave {count} bytes")
    connection.close()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=ours.ENVIRONMENT)
