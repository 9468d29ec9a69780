"""A journal service over volumes in memory, as a child process of a test."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def memory_service(*volumes: str) -> Iterator[str]:
    """Serves `payments` (or the volumes named) and yields HOST:PORT; ends with the block, and with this process."""
    named = [argument for volume in volumes for argument in ("--volume", volume)]
    command = [sys.executable, "-m", "tests.fakes.serve_memory_volume", "--until-stdin-ends", *named]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        ready, _, address = process.stdout.readline().strip().partition(" ")
        assert ready == "ready", "the service did not start"
        yield address
    finally:
        process.stdin.close()
        process.wait(timeout=600)
        process.stdout.close()
