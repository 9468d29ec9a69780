"""The load generator in C (`load/`): built once into build/, run as a process of its own, answers in JSON."""

from __future__ import annotations

import fcntl
import json
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCES = Path(__file__).parent / "load"
BUILD = Path(__file__).resolve().parents[2] / "build"
REST_SECONDS: Final = 3.0
"""With nothing to commit an SOS server copies all that its log holds after a second."""
HURRIED_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one run asks for."""

    protocol: str
    port: int
    target: str = "bench"
    payload_bytes: int = 4096
    clients: int = 1
    depth: int = 1
    objects: int = 1
    one_directory: bool = False
    seconds: float = 2.0
    operations: int = 0
    warm_up_seconds: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run found."""

    operations: int
    per_second: float
    p50_seconds: float
    p99_seconds: float
    generator_share: float
    """Processor time that the generator itself took, as a share of one processor. At 1 it would be the bottleneck."""


def executable() -> Path:
    """Compiles the generator if its sources are newer than what was built."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    built = BUILD / "load"
    BUILD.mkdir(exist_ok=True)
    sources = sorted(SOURCES.glob("*.c"))
    with (BUILD / "load.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in [*sources, *SOURCES.glob("*.h")])
        if not built.exists() or built.stat().st_mtime < newest:
            if not compiler:
                raise RuntimeError(
                    "a C compiler is needed for the load generator (on Debian: apt-get install gcc libc6-dev)"
                )
            subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(built), *map(str, sources)], check=True)
    return built


def run(load: Load) -> Measured:
    """One run, which lasts longer if nothing was answered: a disk that others use may stand still for a second.

    Raises RuntimeError with the generator's own words if the server refused or went silent.
    """
    before, start = _children_seconds(), time.perf_counter()
    done = subprocess.run(_command(load), capture_output=True, text=True, check=False, timeout=load.seconds + 600)
    share = (_children_seconds() - before) / (time.perf_counter() - start)
    if done.returncode:
        raise RuntimeError(f"{' '.join(_command(load))}: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    return Measured(
        operations=answer["operations"],
        per_second=answer["per_second"],
        p50_seconds=answer["p50_seconds"],
        p99_seconds=answer["p99_seconds"],
        generator_share=share,
    )


def run_and_rest(load: Load) -> Measured:
    measured = run(load)
    rest_after(load.seconds)
    return measured


def rest_after(seconds: float) -> None:
    """Gives a server, after a run of so many seconds, time for what it put off, lest another is measured beside that.

    Without it a server beside one that still copied made a third fewer appends. Short runs, which judge nothing, go
    without.
    """
    if seconds > HURRIED_SECONDS:
        time.sleep(REST_SECONDS)


def _command(load: Load) -> list[str]:
    command = [str(executable()), load.protocol, "--port", str(load.port), "--target", load.target]
    command += ["--bytes", str(load.payload_bytes), "--clients", str(load.clients), "--depth", str(load.depth)]
    command += ["--objects", str(load.objects), "--one-directory", str(int(load.one_directory))]
    command += ["--seconds", str(load.seconds), "--operations", str(load.operations)]
    return [*command, "--warm-up", str(load.warm_up_seconds)]


def _children_seconds() -> float:
    """Processor time of the children that have ended; servers under measurement are running still."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
