"""The demonstration: a streaming query loses its machine, goes on elsewhere, and is then taken back in time.

    python -m spark_integration.demo [--folder DIR]

It prints what it does in plain sentences, checks every answer against the truth, and exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_integration.pipelines.driver_process import DriverProcess, wait_until
from spark_integration.pipelines.queries import TOTALS
from spark_integration.pipelines.records import KEYS, write_file
from spark_integration.pipelines.service_process import ProcessError, ServiceProcess, journal_command, start_server
from spark_integration.pipelines.truth import OutputJudge

if TYPE_CHECKING:
    from collections.abc import Sequence

VOLUME: Final = "demo"
PER_FILE: Final = 50
FILES_FIRST: Final = 6
FILES: Final = 12
REWIND_TO: Final = 3
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MASTER: Final = "local-cluster[1,2,1024]"
"""Executors are processes of their own, as in a cluster."""
_EXIT_STOPPED: Final = 128 + signal.SIGINT


class Demonstration:
    """What is running, what was checked, and what it said."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.input = folder / "input"
        self.input.mkdir(parents=True)
        self.stack = stack
        self._began = time.monotonic()
        self.checks: list[tuple[str, bool]] = []
        self.servers: list[ServiceProcess] = []

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", flush=True)

    def check(self, what: str, *, holds: bool) -> None:
        self.checks.append((what, holds))
        self.say(("right: " if holds else "WRONG: ") + what)

    def start_servers(self) -> None:
        for name in ("a", "b", "c"):
            server = start_server(self.folder, f"server-{name}")
            self.stack.callback(server.stop)
            self.servers.append(server)
        self.say(f"Three SOS servers run at {self.addresses}.")

    @property
    def addresses(self) -> str:
        return ",".join(server.address for server in self.servers)

    def sos_journal(self, *arguments: str, shows: bool = True) -> str:
        """One command of the tool, as a user would type it. ProcessError when it fails."""
        if shows:
            self.say(f"$ sos-journal {' '.join(arguments)}")
        finished = subprocess.run(
            [sys.executable, "-m", "journal", *arguments], capture_output=True, text=True, check=False
        )
        if finished.returncode != 0:
            said = finished.stderr.strip()
            raise ProcessError(f"sos-journal {arguments[0]} ended with {finished.returncode}: {said}")
        return finished.stdout

    def start_driver(self, machine: str, *, checkpoint: str, output: str, **where: Any) -> tuple[DriverProcess, str]:
        driver = DriverProcess(
            self.folder / machine,
            volume=VOLUME,
            checkpoint=checkpoint,
            queries=[TOTALS.name],
            input=str(self.input),
            output=str(self.folder / output),
            master=MASTER,
            settings={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
            **where,
        )
        self.stack.callback(_kill_if_running, driver)
        return driver, driver.wait_running()

    def feed(self, begin: int, end: int) -> None:
        for number in range(begin, end):
            write_file(self.input, number, per_file=PER_FILE)

    def watch(self, judge: OutputJudge, files: int) -> None:
        """Show progress until this many files are out; ProcessError if it takes too long."""
        while judge.files < files and not judge.findings():
            begin, before = judge.batches, judge.files
            wait_until(functools.partial(_is_beyond, judge, before), seconds=120, what=f"batch {begin}")
            for number in range(begin, judge.batches):
                self.say(f"  batch {number} is out: {judge.ends[number]} of {FILES} files are in the totals")


def _is_beyond(judge: OutputJudge, files: int) -> bool:
    return judge.look() > files


def lose_the_machine(demo: Demonstration, judge: OutputJudge) -> None:
    """First life: everything of machine 1 is killed in the middle of a batch, and its disk deleted."""
    demo.say("Machine 1 starts: a driver, an executor, and the journal service beside the driver.")
    driver, _ = demo.start_driver(
        "machine1",
        checkpoint="q",
        output="output",
        servers=[server.address for server in demo.servers],
        directory=str(demo.folder / "machine1" / "journal"),
    )
    demo.say(f"A stateful query runs: a total for each of {KEYS} keys, its state in RocksDB, a batch for each file.")
    demo.feed(0, FILES_FIRST)
    demo.watch(judge, FILES_FIRST - 1)
    time.sleep(random.uniform(0.0, 0.5))
    demo.check("the executor is a process of its own", holds=len(driver.executors()) == 1)
    driver.lose_machine()
    demo.say("Machine 1 is lost: kill -9 of driver, executor and journal service, and its disk is deleted.")
    demo.check("nothing of machine 1 is left", holds=not driver.machine.exists())


def go_on_elsewhere(demo: Demonstration, judge: OutputJudge) -> None:
    """Second life: another machine, the same checkpoint, the rest of the input."""
    lost = time.monotonic()
    demo.say("Machine 2 starts with nothing but the addresses of the servers.")
    before = judge.look()
    demo.feed(FILES_FIRST, FILES)
    driver, _ = demo.start_driver(
        "machine2",
        checkpoint="q",
        output="output",
        servers=[server.address for server in demo.servers],
        directory=str(demo.folder / "machine2" / "journal"),
    )
    demo.watch(judge, before + 1)
    demo.say(f"The query goes on {time.monotonic() - lost:.1f} s after the loss, most of it the start of Spark.")
    demo.watch(judge, FILES)
    check_output(demo, judge)
    wait_for_commit(demo, judge.batches - 1)
    print(demo.sos_journal("batches", f"sos://{VOLUME}/q/{TOTALS.name}", "--servers", demo.addresses))
    driver.lose_machine()
    demo.say("Machine 2 is lost, too.")


def wait_for_commit(demo: Demonstration, batch: int) -> None:
    """The sink has the last batch before Spark commits it, and readers of the servers hear of that a moment later."""
    ask = ("batches", f"sos://{VOLUME}/q/{TOTALS.name}", "--servers", demo.addresses, "--last", "1", "--json")

    def committed() -> bool:
        last = json.loads(demo.sos_journal(*ask, shows=False))
        return last["batch"] == batch and last["committed_ms"] is not None

    wait_until(committed, seconds=30, what=f"the commit of batch {batch}")


def go_back_in_time(demo: Demonstration, original: OutputJudge) -> None:
    """Third life: the checkpoint as it was at an earlier batch, as plain files and as a fork that runs."""
    location = f"sos://{VOLUME}/q/{TOTALS.name}"
    plain = demo.folder / "rewound"
    moment = ("--at", f"batch:{REWIND_TO}")
    demo.sos_journal("restore", location, str(plain), *moment, "--servers", demo.addresses)
    commits = sorted(int(path.name) for path in (plain / "commits").iterdir() if path.name.isdigit())
    demo.check(f"rewound to batch {REWIND_TO}: its last commit is {commits[-1]}", holds=commits[-1] == REWIND_TO)

    command = journal_command([server.address for server in demo.servers], demo.folder / "machine3-journal", VOLUME)
    service = ServiceProcess.start(command, demo.folder / "service.log")
    demo.stack.callback(service.stop)
    where = ("--servers", demo.addresses, "--service", service.address)
    demo.sos_journal("fork", location, f"sos://{VOLUME}/again/{TOTALS.name}", *moment, *where)
    demo.say(f"Machine 3 runs the fork from batch {REWIND_TO} on; the original is untouched.")
    driver, _ = demo.start_driver("machine3", checkpoint="again", output="output-again", service=[service.address])
    judge = OutputJudge(
        demo.folder / "output-again",
        TOTALS.name,
        per_file=PER_FILE,
        first_batch=REWIND_TO + 1,
        first_file=original.ends[REWIND_TO],
    )
    demo.watch(judge, FILES)
    check_output(demo, judge)
    driver.kill()
    verdict = demo.sos_journal("verify", f"sos://{VOLUME}", "--servers", demo.addresses, "--json")
    copies = [json.loads(line) for line in verdict.splitlines()]
    sound = len(copies) == len(demo.servers) and all(copy["verdict"] == "OK" for copy in copies)
    demo.check("every byte of the log is right on all three servers", holds=sound)


def check_output(demo: Demonstration, judge: OutputJudge) -> None:
    """Every byte of every batch against what the input must give."""
    findings = judge.findings()
    demo.check(
        f"each batch to {judge.batches - 1} is out once, its totals those computed without Spark", holds=not findings
    )
    for finding in findings:
        demo.say(finding)
    demo.check(f"all {FILES} files are in the totals", holds=judge.files == FILES)


def _kill_if_running(driver: DriverProcess) -> None:
    if driver.process.returncode is None:
        driver.kill()


def run(folder: Path) -> bool:
    """The whole of it; whether everything was right."""
    with ExitStack() as stack:
        demo = Demonstration(folder, stack)
        try:
            demo.start_servers()
            demo.sos_journal("create", VOLUME, "--servers", demo.addresses)
            judge = OutputJudge(folder / "output", TOTALS.name, per_file=PER_FILE)
            lose_the_machine(demo, judge)
            go_on_elsewhere(demo, judge)
            go_back_in_time(demo, judge)
        except ProcessError as error:
            demo.check(f"every step could be taken ({error})", holds=False)
        wrong = [what for what, holds in demo.checks if not holds]
        demo.say(f"{len(demo.checks) - len(wrong)} of {len(demo.checks)} checks are right.")
        for what in wrong:
            demo.say(f"WRONG: {what}")
        if not wrong:
            demo.say("The query lost its machine twice and no record was lost, duplicated or changed.")
        return not wrong


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit code 0: everything was right."""
    parser = argparse.ArgumentParser(description="A streaming query loses its machine and goes on elsewhere.")
    parser.add_argument("--folder", type=Path, help="keep everything there; must not exist (default: temporary)")
    folder = parser.parse_args(arguments).folder
    if folder is not None and folder.exists():
        parser.error(f"{folder} is there already")
    if folder is not None:
        sys.exit(0 if run(folder.absolute()) else 1)
    temporary = Path(tempfile.mkdtemp(prefix="sos-demo-"))
    right = run(temporary / "demo")
    if right:
        shutil.rmtree(temporary)
    else:
        print(f"What is left of it: {temporary}")
    sys.exit(0 if right else 1)


def _main() -> None:
    """Ctrl-C and SIGTERM end everything that was started before they end this."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        print("Stopped; nothing is left running.", flush=True)
        sys.exit(_EXIT_STOPPED)


if __name__ == "__main__":
    _main()
