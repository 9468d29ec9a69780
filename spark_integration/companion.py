"""The process beside a driver: starts programs one after the other, starts again what dies, and ends them.

    python -m spark_integration.companion PLAN.json [FOLDER [ADDRESSES]]

It ends, and with it all programs, the last one first, when its standard input ends: that is when the driver closes it
or is gone, kill -9 included. FOLDER is removed then. When everything serves it prints one line, `ready {"NAME":
"HOST:PORT", ...}`; when a program cannot be started, `failed SENTENCE`. ADDRESSES, as in that line, say where programs
have to serve: at ports that the driver keeps, so that nobody else can have them while a program or a companion is
started again. A program that is to run only when somebody asks for it is started by the first connection to where it
has to serve; that connection is dropped, and clients try again. Nothing of Spark is imported here.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from sos_client.net.addresses import Address, parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_SECONDS_MAX: Final = 60.0
"""A takeover may have to wait for a quorum of servers."""
STOP_SECONDS_MAX: Final = 10.0
"""A program that was asked to stop is killed after this long; its data does not depend on a clean end."""
_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)
_STEADY_SECONDS: Final = 30.0
"""A program that ran for this long is started again at once."""
_LOG_TAIL_BYTES: Final = 2000
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program. In `command`, {NAME} stands for the address of an earlier program and {listen} for its own.

    `on_demand`: only when somebody asks for it; such a program shares its port. `says`: the word before its own address
    among the lines that it prints, the last of which is `ready HOST:PORT`.
    """

    name: str
    command: Sequence[str]
    host: str
    log: Path
    on_demand: bool = False
    says: str = "ready"


class StartError(Exception):
    """A program did not come up; the text has the end of its log."""


class Companion:
    """The programs of one driver and where they serve."""

    def __init__(self, programs: Sequence[Program], addresses: dict[str, str]) -> None:
        """`addresses`: where programs have to serve; any port otherwise."""
        self._programs = programs
        self._addresses = addresses

    async def run(self) -> None:
        """Start all, say so, and keep them until standard input ends. StartError if one cannot be started at all."""
        async with trio.open_nursery() as ending:
            scopes: list[trio.CancelScope] = []
            stopped: list[trio.Event] = []
            ending.start_soon(self._stop_in_turn_at_end_of_input, scopes, stopped)
            for program in self._programs:
                scopes.append(trio.CancelScope())
                stopped.append(trio.Event())
                await ending.start(self._keep, program, scopes[-1], stopped[-1])
            sys.stdout.write(f"ready {json.dumps(self._addresses)}\n")
            sys.stdout.flush()

    async def _stop_in_turn_at_end_of_input(self, scopes: list[trio.CancelScope], stopped: list[trio.Event]) -> None:
        stdin = trio.lowlevel.FdStream(os.dup(sys.stdin.fileno()))
        while await stdin.receive_some(4096):
            pass
        for scope, event in zip(reversed(scopes), reversed(stopped), strict=True):
            scope.cancel()
            await event.wait()

    async def _keep(
        self,
        program: Program,
        scope: trio.CancelScope,
        stopped: trio.Event,
        task_status: trio.TaskStatus[None],
    ) -> None:
        process: subprocess.Popen[str] | None = None
        try:
            with scope:
                if program.on_demand:
                    with _listening(self._address(program)) as (self._addresses[program.name], asked):
                        task_status.started()
                        await trio.lowlevel.wait_readable(asked)
                    process = await self._start_at_last(program, failures=0)
                else:
                    process = await self._start(program)
                    task_status.started()
                while True:
                    process = await self._start_again(program, process)
        finally:
            if process is not None:
                await _stop(process)
            stopped.set()

    async def _start_again(self, program: Program, process: subprocess.Popen[str]) -> subprocess.Popen[str]:
        """Wait for the end of `process`, and start the program again, where it served before."""
        began = trio.current_time()
        await _ended(process)
        if trio.current_time() - began < _STEADY_SECONDS:
            await trio.sleep(_PAUSES[0])
        return await self._start_at_last(program, failures=1)

    async def _start_at_last(self, program: Program, failures: int) -> subprocess.Popen[str]:
        while True:
            try:
                return await self._start(program)
            except StartError:  # its log says why; the driver waits as long as its own deadline allows
                await trio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1

    def _address(self, program: Program) -> str:
        """Where it has to serve; port 0: anywhere."""
        return self._addresses.get(program.name, f"{program.host}:0")

    async def _start(self, program: Program) -> subprocess.Popen[str]:
        words = {**self._addresses, "listen": self._address(program)}
        command = [_filled(argument, words) for argument in program.command]
        log_begin = program.log.stat().st_size if program.log.exists() else 0
        process = _spawned(command, program.log)
        try:
            self._addresses[program.name] = await _address_said_by(process, program, log_begin)
        except BaseException:
            await _stop(process)
            raise
        return process


@contextmanager
def _listening(address: str) -> Iterator[tuple[str, socket.socket]]:
    """Where it listens, and what becomes readable when somebody connects. They are turned away at the end."""
    place = parse_address(address, what="where a program has to serve")
    with socket.socket(socket.AF_INET6 if ":" in place.host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((place.host, place.port))
        listener.listen()
        yield str(Address(host=place.host, port=listener.getsockname()[1])), listener


def _spawned(command: Sequence[str], log: Path) -> subprocess.Popen[str]:
    """From the main thread: the kernel takes the end of the thread that did it for the end of the parent."""
    with log.open("ab") as stream:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            preexec_fn=_die_with_parent,
        )


def _filled(argument: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        argument = argument.replace(f"{{{word}}}", value)
    return argument


async def _address_said_by(process: subprocess.Popen[str], program: Program, log_begin: int) -> str:
    assert process.stdout is not None
    said: dict[str, str] = {}
    with trio.move_on_after(START_SECONDS_MAX):
        while line := await trio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True):
            word, _, address = line.strip().partition(" ")
            said[word] = address
            if word == "ready":
                return said[program.says]
        await _ended(process)
        raise StartError(f"{program.name} ended with {process.returncode}. {_end_of(program.log, log_begin)}")
    raise StartError(
        f"{program.name} did not serve within {START_SECONDS_MAX:.0f} s. {_end_of(program.log, log_begin)}"
    )


def _end_of(log: Path, begin: int) -> str:
    """Of what this start wrote: the log has all earlier ones, too."""
    tail = log.read_bytes()[begin:][-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
    return f"Its log ({log}) ends with:\n{tail}" if tail else f"Its log ({log}) is empty."


async def _ended(process: subprocess.Popen[str]) -> None:
    await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)


async def _stop(process: subprocess.Popen[str]) -> None:
    """SIGTERM, later SIGKILL; returns when the process is gone, whatever is cancelled meanwhile."""
    with trio.CancelScope(shield=True):
        if process.poll() is None:
            process.terminate()
            with trio.move_on_after(STOP_SECONDS_MAX):
                await _ended(process)
            if process.poll() is None:
                process.kill()
                await _ended(process)
        assert process.stdout is not None
        process.stdout.close()


def _die_with_parent() -> None:
    """Where the kernel can: SIGTERM to the program when this process is killed before it could stop it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _programs_in(plan: list[dict[str, Any]]) -> list[Program]:
    return [Program(**described | {"log": Path(described["log"])}) for described in plan]


def main() -> None:
    """Read the plan and keep to it; exits with 1 when a program could not be started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which then closes our standard input
    plan, folder, addresses = [*sys.argv[1:], "", "{}"][:3]
    programs = _programs_in(json.loads(Path(plan).read_text()))
    try:
        trio.run(Companion(programs, json.loads(addresses)).run)
    except* StartError as errors:
        sys.stdout.write(f"failed {json.dumps(str(errors.exceptions[0]))}\n")
        sys.exit(1)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
