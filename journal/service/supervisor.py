"""A parent that starts the service again when it crashes: with growing pauses, at the same address, until told to stop.

The service is a child process that ends with this one (it holds a pipe), however this one ends. Its port is kept
meanwhile, so that nobody else gets its clients.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.addresses import Address, parse_address
from sos_client.retry import RetryPolicy
from sos_client.serving.kept_port import KeptPort
from sos_client.serving.parent_pipe import check_pipe, parent_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sos_client.serving.event_log import EventLog

_PAUSES: Final = RetryPolicy(first_seconds=0.1, pause_seconds_max=10.0)
STEADY_SECONDS: Final = 60.0
"""A child that lived this long has not failed because of how it was started: the pauses begin again."""
STOP_SECONDS: Final = 20.0
"""Longer than the service itself takes to stop."""
READY_LINE_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """`command` starts the service; it is given `--listen`, `--share-port` and `--exit-with-fd` besides."""

    command: Sequence[str]
    listen: str
    log: EventLog
    exit_with_handle: int | None = None


async def supervise(*supervisions: Supervision) -> int:
    """Keep the services running until SIGTERM or SIGINT. Gives the exit code to leave with.

    Says `ready HOST:PORT,…` when all are. A service that ends before it was ever ready is not started again, and the
    others are stopped: what it complains about must be mended first.
    """
    handle = supervisions[0].exit_with_handle
    if handle is not None:
        check_pipe(handle)
    together = _Together(supervisions)
    async with trio.open_nursery() as nursery:
        await nursery.start(together.obey_signals)
        if handle is not None:
            nursery.start_soon(together.end_with_parent, handle)
        code = await together.run()
        nursery.cancel_scope.cancel()
    return code


class _Together:
    """The services of one command: they get its signals, and end with it."""

    def __init__(self, supervisions: Sequence[Supervision]) -> None:
        self._addresses: dict[int, str] = {}
        self._supervisors = [
            _Supervisor(one, functools.partial(self._ready, number)) for number, one in enumerate(supervisions)
        ]

    async def run(self) -> int:
        codes: list[int] = []

        async def keep(supervisor: _Supervisor) -> None:
            codes.append(await supervisor.run())
            self.stop()  # it was told to, or can never run: what is left of the others would be half a volume

        async with trio.open_nursery() as nursery:
            for supervisor in self._supervisors:
                nursery.start_soon(keep, supervisor)
        return codes[0]

    def stop(self) -> None:
        for supervisor in self._supervisors:
            supervisor.stop()

    def _ready(self, number: int, address: str) -> None:
        self._addresses[number] = address
        if len(self._addresses) == len(self._supervisors):
            sys.stdout.write(f"ready {','.join(self._addresses[one] for one in sorted(self._addresses))}\n")
            sys.stdout.flush()

    async def obey_signals(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """SIGHUP goes to the services; SIGTERM and SIGINT end all."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGHUP:
                    for supervisor in self._supervisors:
                        supervisor.pass_on(signal.SIGHUP)
                else:
                    self.stop()

    async def end_with_parent(self, handle: int) -> None:
        await parent_gone(handle)
        self.stop()


class _Supervisor:
    def __init__(self, supervision: Supervision, on_ready: Callable[[str], None]) -> None:
        self._on_ready = on_ready
        self._command = list(supervision.command)
        self._log = supervision.log
        self._port = self._kept_port(supervision.listen)
        self._child: trio.Process | None = None
        self._ready = False
        self._stopping = trio.Event()

    def _kept_port(self, text: str) -> KeptPort | None:
        where = parse_address(text, what="--listen")
        self._listening = ["--listen", text]
        try:
            kept = KeptPort(where.host, where.port)
        except OSError as error:  # such as connections that linger of a service that did not share it
            self._log.warning("the port is not kept while the service is started again", reason=error.strerror)
            return None
        self._listening = ["--listen", str(Address(host=where.host, port=kept.port)), "--share-port"]
        return kept

    async def run(self) -> int:
        failures = 0
        while True:
            began = trio.current_time()
            code = await self._run_child()
            if self._stopping.is_set() and code in (0, -signal.SIGTERM):
                return 0
            if self._stopping.is_set() or code == 0 or not self._ready:
                return code if code >= 0 else 128 - code
            failures = 1 if trio.current_time() - began > STEADY_SECONDS else failures + 1
            pause_seconds = _PAUSES.pause_seconds(failures, random.random())
            self._log.error("the service ended, it is started again", code=code, pause=round(pause_seconds, 2))
            with trio.move_on_after(pause_seconds):
                await self._stopping.wait()
                return 0

    def stop(self) -> None:
        self._stopping.set()
        self.pass_on(signal.SIGTERM)

    def pass_on(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.returncode is None:
            self._child.send_signal(number)

    async def _run_child(self) -> int:
        """Start the service, pass its ready line on the first time, and wait for its end."""
        reading, writing = os.pipe()
        try:
            command = [*self._command, *self._listening, "--exit-with-fd", str(reading)]
            self._child = child = await trio.lowlevel.open_process(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[reading]
            )
            os.close(reading)
            reading = -1
            if self._stopping.is_set():
                self.pass_on(signal.SIGTERM)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_output, child)
                nursery.start_soon(self._kill_when_stuck, child)
                code = await child.wait()
                nursery.cancel_scope.cancel()
            return code
        finally:
            os.close(writing)
            if reading != -1:
                os.close(reading)

    async def _read_output(self, child: trio.Process) -> None:
        assert child.stdout is not None
        line = b""
        async with child.stdout:
            async for data in child.stdout:
                line = (line + data)[:READY_LINE_BYTES_MAX]
                if line.startswith(b"ready ") and line.endswith(b"\n"):
                    self._now_ready(line.split()[1].decode("ascii", "replace"))
                    line = b""

    def _now_ready(self, address: str) -> None:
        if self._port is None:
            self._listening = ["--listen", address]
        if not self._ready:
            self._on_ready(address)
        self._ready = True

    async def _kill_when_stuck(self, child: trio.Process) -> None:
        await self._stopping.wait()
        await trio.sleep(STOP_SECONDS)
        self._log.error("the service does not stop, it is killed", pid=child.pid)
        child.kill()
