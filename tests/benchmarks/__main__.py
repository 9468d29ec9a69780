"""`make bench`: measures SOS beside its peers, prints a table, writes build/bench.json.

Every server runs with the settings that its users get, all on loopback, all on the same disk. `growth` and `profiles`
show how cost grows and where time goes instead of comparing; they write build/growth.json and build/profiles.json.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from tests.benchmarks import (
    big_state_suite,
    connector_suite,
    end_to_end_suite,
    growth,
    journal_suite,
    large_suite,
    latency_suite,
    memory_suite,
    order_suite,
    page_suite,
    profile,
    recovery_suite,
    relay_suite,
    server_suite,
    shard_suite,
    sink_suite,
    source_suite,
    spark_suite,
)
from tests.benchmarks.comparison import Report
from tests.benchmarks.load_generator import BUILD
from tests.benchmarks.machine import write_machine
from tests.benchmarks.processes import MissingPeerError

if TYPE_CHECKING:
    from collections.abc import Callable

SUITES: dict[str, Callable[[Report, Path, float], None]] = {
    "appends": server_suite.appends,
    "others": server_suite.appends_against_the_others,
    "streaming": server_suite.streaming,
    "reads": server_suite.reads,
    "journal": journal_suite.puts,
    "shards": shard_suite.puts,
    "large": large_suite.large_files,
    "pages": page_suite.puts_beside_pages,
    "connectors": connector_suite.messages,
    "connectors-restart": connector_suite.restart,
    "connectors-memory": connector_suite.memory,
    "restart": recovery_suite.restart,
    "new-machine": recovery_suite.new_machine,
    "memory": memory_suite.memory,
    "spark": spark_suite.micro_batches,
    "state-files": spark_suite.many_state_files,
    "big-state": big_state_suite.big_state,
    "sinks": sink_suite.two_phases,
    "end-to-end": end_to_end_suite.end_to_end,
    "relay": relay_suite.bytes_to_a_sink,
    "spark-source": source_suite.source,
    "latency": latency_suite.latency,
    "order": order_suite.order,
    "growth": growth.suite,
    "profiles": profile.suite,
}
QUICK_SECONDS: Final = 0.4
FULL_SECONDS: Final = 1.5
ROUNDS: Final = 5
FAILURES: Final = (OSError, RuntimeError, ValueError, AssertionError, subprocess.SubprocessError)
LEFT_OUT_WHEN_QUICK: Final = {"growth", "profiles", "order"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short, no growth, no profiles (under five minutes)")
    parser.add_argument(
        "--only", choices=sorted(SUITES), action="append", help="one part, may be given again; others' rows are kept"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"alternating rounds ({ROUNDS})")
    parser.add_argument("--seconds", type=float, help=f"one measurement ({FULL_SECONDS}, or {QUICK_SECONDS} if quick)")
    parser.add_argument("--directory", type=Path, default=BUILD, help="where the servers keep their data (build/)")
    options = parser.parse_args()
    seconds = options.seconds or (QUICK_SECONDS if options.quick else FULL_SECONDS)
    names = options.only or [name for name in SUITES if not (options.quick and name in LEFT_OUT_WHEN_QUICK)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that no server is left behind
    report = Report(rounds=options.rounds)
    console = Console(width=None if sys.stdout.isatty() else 150)
    options.directory.mkdir(exist_ok=True, parents=True)
    run = f"{options.rounds} rounds, {seconds:g} s for each measurement{', quick' if options.quick else ''}"
    write_machine(BUILD / "machine.json", options.directory, run=run)
    failed = [name for name in names if not measured(name, report, options.directory, seconds, console)]
    if options.only or failed:
        report.keep_others(BUILD / "bench.json", measured=set(names) - set(failed))
    report.in_order(list(SUITES))
    report.write_json(BUILD / "bench.json")
    report.print_table(console)
    console.print(f"written to {BUILD / 'bench.json'}")
    if failed:
        console.print(f"FAILED: {', '.join(failed)}; what is told above of them is from an earlier run")
    return 1 if failed else 0


def measured(name: str, report: Report, parent: Path, seconds: float, console: Console) -> bool:
    """Whether the suite came to its end. One that breaks is reported and does not keep the others from their turn."""
    start = time.monotonic()
    try:
        measure(name, report, parent, seconds)
    except FAILURES:
        traceback.print_exc()
        return False
    console.print(f"{name}: {time.monotonic() - start:.0f} s", style="dim")
    return True


def measure(name: str, report: Report, parent: Path, seconds: float) -> None:
    """Runs one suite in a directory of its own, which is removed afterwards."""
    parent.mkdir(exist_ok=True, parents=True)
    directory = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=parent))
    report.suite = name
    try:
        SUITES[name](report, directory, seconds)
    except MissingPeerError as missing:
        report.leave_out(name, str(missing))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
