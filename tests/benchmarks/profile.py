"""Where the microseconds go: `python -m tests.benchmarks.profile [append|pipelined|read|put|restart …]`.

py-spy samples the process under load from outside (a few hundred times a second, so it slows nothing down much); the
processor time for each operation is the kernel's own count. Prints a table, and keeps it in build/profiles.json.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks import growth_journal, ours
from tests.benchmarks.load_generator import BUILD, Load, run
from tests.benchmarks.processes import MissingPeerError, Running, program_from_pypi, stop
from tests.benchmarks.profiles import Profile, lines_of, write_profiles
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.comparison import Report

PATH: Final = BUILD / "profiles.json"
SAMPLES_PER_SECOND: Final = 400
SECONDS: Final = 4.0
RESTART_FILES: Final = 40_000
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
MIB: Final = 1 << 20


def suite(report: Report, directory: Path, seconds: float) -> None:
    """As one of the benchmarks: all paths; nothing is compared."""
    del report
    write_profiles(PATH, [profile(name, directory, max(seconds, 0.5)) for name in PATHS])


def profile(name: str, directory: Path, seconds: float) -> Profile:
    place = directory / name
    place.mkdir()
    try:
        return PATHS[name](place, seconds)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def append(directory: Path, seconds: float) -> Profile:
    with ours.sos_server(directory) as server:
        load = Load(protocol="sos-append", port=server.port, clients=64, seconds=seconds)
        return sampled(server, load, path="append", what="durable appends of 4 KiB, 64 clients", operation="append")


def pipelined(directory: Path, seconds: float) -> Profile:
    with ours.sos_server(directory) as server:
        load = Load(protocol="sos-append", port=server.port, depth=64, seconds=seconds)
        what = "durable appends of 4 KiB, 1 connection, 64 in flight"
        return sampled(server, load, path="pipelined", what=what, operation="append")


def read(directory: Path, seconds: float) -> Profile:
    content = directory / "content"
    content.write_bytes(bytes(range(256)) * (64 * MIB // 256))
    with ours.sos_server(directory) as server:
        ours.put_object(server, "bench/object", content)
        load = Load(
            protocol="sos-get",
            port=server.port,
            target="bench/object",
            payload_bytes=MIB,
            objects=64,
            seconds=seconds,
        )
        return sampled(server, load, path="read", what="ranged reads of 1 MiB, 1 client", operation="read")


def put(directory: Path, seconds: float) -> Profile:
    with ours.new_volume(directory, members=1) as service:
        load = Load(protocol="file-put", port=service.port, clients=64, seconds=seconds)
        what = "journal puts of 4 KiB, k = 1, 64 clients"
        return sampled(service, load, path="put", what=what, operation="put")


def restart(directory: Path, seconds: float) -> Profile:
    """The service's start on a volume that it kept before, until it is ready; an operation is one file."""
    files = RESTART_FILES if seconds >= 1 else RESTART_FILES // 20
    port = free_port()
    stacks = directory / "stacks.txt"
    with ours.sos_servers(directory, [port]) as servers:
        ours.make_volume(servers)
        with ours.service(directory, servers, local=directory / "journal") as service:
            growth_journal.fill(service, files, payload_bytes=4096)
        command = [*ours.JOURNAL, "serve", "--volume", ours.VOLUME, "--servers", servers]
        command += ["--dir", str(directory / "journal"), "--listen", "127.0.0.1:0"]
        sampling = [py_spy(), "record", *_sampling(stacks), "--", *command]
        start = time.perf_counter()
        sampler = subprocess.Popen(sampling, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert sampler.stdout is not None
            while not (line := sampler.stdout.readline()).startswith("ready "):
                if not line:
                    raise RuntimeError("the service did not start under py-spy")
            elapsed = time.perf_counter() - start
            child = _only_child(sampler.pid)
            user, system = _processor_seconds(child)
            threads = _thread_seconds(child)
            os.kill(child, signal.SIGTERM)
            sampler.wait(60)
        finally:
            for orphan in _children(sampler.pid):  # py-spy leaves what it started
                os.kill(orphan, signal.SIGTERM)
            stop(sampler)
    return Profile(
        path="restart",
        what=f"start of the service on a volume of {files:,} files of 4 KiB, local copy there",
        process="journal service",
        operation="file",
        per_second=files / elapsed,
        user_microseconds=user / files * 1e6,
        system_microseconds=system / files * 1e6,
        lines=lines_of(stacks.read_text(encoding="utf-8"), threads),
    )


PATHS: Final[dict[str, Callable[[Path, float], Profile]]] = {
    "append": append,
    "pipelined": pipelined,
    "read": read,
    "put": put,
    "restart": restart,
}


def sampled(server: Running, load: Load, *, path: str, what: str, operation: str) -> Profile:
    """Runs the load twice: once to count processor time, undisturbed, and once with somebody looking."""
    pid = server.process.pid
    before = _processor_seconds(pid)
    measured = run(load)
    user, system = (b - a for a, b in zip(before, _processor_seconds(pid), strict=True))
    done = measured.operations * (load.seconds + load.warm_up_seconds) / load.seconds  # it works while it warms up, too
    stacks = server.directory / "stacks.txt"
    command = [py_spy(), "record", *_sampling(stacks), "--duration", str(max(1, round(load.seconds)))]
    sampler = subprocess.Popen(
        [*command, "--pid", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    threads = _thread_seconds(pid)
    run(load)
    _, said = sampler.communicate(timeout=load.seconds + 60)
    if sampler.returncode:
        raise MissingPeerError(f"py-spy cannot look at {server.name}: {said.strip()}")
    return Profile(
        path=path,
        what=what,
        process=server.name,
        operation=operation,
        per_second=measured.per_second,
        user_microseconds=user / done * 1e6,
        system_microseconds=system / done * 1e6,
        lines=lines_of(
            stacks.read_text(encoding="utf-8"),
            {thread: after - threads.get(thread, 0.0) for thread, after in _thread_seconds(pid).items()},
        ),
    )


def py_spy() -> str:
    return program_from_pypi("py-spy", "py-spy")


def _sampling(stacks: Path) -> list[str]:
    """Functions, not lines; only threads that run."""
    return ["--rate", str(SAMPLES_PER_SECOND), "--format", "raw", "--function", "--threads", "--output", str(stacks)]


def _processor_seconds(pid: int) -> tuple[float, float]:
    """User and system time of a process so far."""
    return _times_in(Path(f"/proc/{pid}/stat"))


def _thread_seconds(pid: int) -> dict[int, float]:
    """Processor time of each thread so far, by its id."""
    return {int(task.name): sum(_times_in(task / "stat")) for task in Path(f"/proc/{pid}/task").iterdir()}


def _times_in(status: Path) -> tuple[float, float]:
    fields = status.read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) / TICKS_PER_SECOND, int(fields[12]) / TICKS_PER_SECOND


def _only_child(pid: int) -> int:
    children = _children(pid)
    if len(children) != 1:
        raise RuntimeError(f"process {pid} has {len(children)} children, not one")
    return children[0]


def _children(pid: int) -> list[int]:
    """Process ids; none of a process that has ended."""
    listing = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in listing.read_text(encoding="ascii").split()] if listing.exists() else []


def print_profile(found: Profile) -> None:
    print(f"\n{found.path}: {found.what}: {found.per_second:,.0f} per second")
    print(
        f"  {found.microseconds:.1f} µs of processor time for each {found.operation} in the {found.process}"
        f" ({found.user_microseconds:.1f} in Python and C, {found.system_microseconds:.1f} in the kernel)"
    )
    for line in found.lines:
        print(f"  {line.share:6.1%} {line.share * found.microseconds:7.2f} µs  {line.where}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", choices=[*PATHS, []], help="which (all)")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--directory", type=Path, default=BUILD)
    options = parser.parse_args()
    options.directory.mkdir(exist_ok=True, parents=True)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="profile-", dir=options.directory)))
        try:
            found = [profile(name, directory, options.seconds) for name in options.paths or PATHS]
        except MissingPeerError as missing:
            sys.exit(str(missing))
    for one in found:
        print_profile(one)
    write_profiles(PATH, found)


if __name__ == "__main__":
    main()
