"""Commands as the files in deploy/ have them, run here as confined processes."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
COMMANDS: Final = Path(sys.executable).parent
START_SECONDS_MAX: Final = 600.0
_NO_WRITABLE_CODE: Final = 65  # prctl(2): PR_SET_MDWE


@functools.cache
def program_help(*command: str) -> str:
    """What a command of this tree says of itself."""
    done = subprocess.run([COMMANDS / command[0], *command[1:], "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def _no_writable_code() -> None:
    """Before exec: no memory may be written and then run, as the units say. Linux 6.3 and newer know how."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_NO_WRITABLE_CODE, 1, 0, 0, 0) == 0 or ctypes.get_errno() == errno.EINVAL


@functools.cache
def confinement() -> tuple[str, ...]:
    """A command before others, which leaves them a read-only file system but for one folder, and no capability."""
    confined = 'setpriv --bounding-set -all --inh-caps -all --no-new-privs -- "$@"'
    script = f'mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec {confined}'
    command = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*command, folder, "true"], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        pytest.skip(f"no mount namespace may be made here: {done.stderr.strip()}")
    return command


@contextmanager
def without_rights(
    command: Sequence[str], home: Path, *, ready: int, variables: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command as units and images do, with nothing writable but `home`; from when it is ready at a port."""
    log_path = home / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*confinement(), str(home), str(COMMANDS / command[0]), *command[1:]],
            cwd="/",
            env={"PATH": os.environ["PATH"], **(variables or {})},
            stdout=log,
            stderr=log,
            preexec_fn=_no_writable_code,
        )
    try:
        _wait_for(ready, process, log_path)
        yield process
    finally:
        process.terminate()
        assert process.wait(30) == 0, log_path.read_text()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not any(b"ready %s:%d" % (host, port) in log.read_bytes() for host in (b"127.0.0.1", b"0.0.0.0")):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
