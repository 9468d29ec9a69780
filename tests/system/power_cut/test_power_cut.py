"""The power-cut shim itself: what is synced survives, all else is gone, down to names and torn sectors."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.system.power_cut.power_cut import PowerCut

if TYPE_CHECKING:
    from pathlib import Path

PRELUDE: Final = """
import os, signal, sys
root = os.open(sys.argv[1], os.O_RDONLY)
def make(name, content=b""):
    file = os.open(name, os.O_RDWR | os.O_CREAT, dir_fd=root)
    os.pwritev(file, [content], 0)
    return file
def durable(name, content=b""):
    file = make(name, content)
    os.fsync(file), os.fsync(root)
    return file
"""


@pytest.fixture
def cutter(tmp_path: Path) -> PowerCut:
    (tmp_path / "root").mkdir()
    return PowerCut(tmp_path / "root", tmp_path)


def run(cutter: PowerCut, program: str) -> None:
    """A process that does this, and is killed."""
    program = PRELUDE + program + "\nos.kill(os.getpid(), signal.SIGKILL)"
    command = [sys.executable, "-c", program, str(cutter.root)]
    assert subprocess.run(command, env=cutter.environment, check=False).returncode == -9


def left(cutter: PowerCut) -> dict[str, bytes]:
    return {str(p.relative_to(cutter.root)): p.read_bytes() for p in cutter.root.rglob("*") if p.is_file()}


CASES: Final = {
    "synced": ("durable('a', b'hello')", {"a": b"hello"}),
    "written, not synced": ("durable('a', b'hello'); os.pwritev(make('a', b'J'), [b'!'], 5)", {"a": b"hello"}),
    "bytes synced, name not": ("os.fdatasync(make('a', b'hello'))", {}),
    "name synced, bytes not": ("make('a', b'hello'); os.fsync(root)", {"a": b""}),
    "synced in between": (
        "a = durable('a', b'12'); os.pwrite(a, b'3', 2); os.fdatasync(a); os.pwrite(a, b'xx', 1)",
        {"a": b"123"},
    ),
    "file system synced": (
        "import ctypes; durable('a', b'1'); os.pwrite(make('a', b'2'), b'3', 1); make('b')\n"
        "ctypes.CDLL(None).syncfs(root); os.pwrite(make('a', b'2'), b'4', 2)",
        {"a": b"23"},
    ),
    "cut": ("os.ftruncate(durable('a', b'hello'), 2)", {"a": b"hello"}),
    "cut and synced": ("a = durable('a', b'hello'); os.ftruncate(a, 2); os.fsync(a)", {"a": b"he"}),
    "extended": ("os.ftruncate(durable('a', b'hello'), 9)", {"a": b"hello"}),
    "allocated": ("os.posix_fallocate(durable('a', b'hello'), 0, 100)", {"a": b"hello"}),
    "appended": ("a = durable('a', b'hello'); os.lseek(a, 0, 2); os.write(a, b'more')", {"a": b"hello"}),
    "removed": ("durable('a', b'hello'); os.unlink('a', dir_fd=root)", {"a": b"hello"}),
    "removed and synced": ("durable('a', b'x'); os.unlink('a', dir_fd=root); os.fsync(root)", {}),
    "renamed": ("durable('a', b'x'); os.rename('a', 'b', src_dir_fd=root, dst_dir_fd=root)", {"a": b"x"}),
    "renamed and synced": (
        "durable('a', b'x'); os.rename('a', 'b', src_dir_fd=root, dst_dir_fd=root); os.fsync(root)",
        {"b": b"x"},
    ),
    "renamed over another": (
        "durable('a', b'new'); durable('b', b'old'); os.rename('a', 'b', src_dir_fd=root, dst_dir_fd=root)",
        {"a": b"new", "b": b"old"},
    ),
    "in a new directory": ("os.mkdir('d', dir_fd=root); durable('d/a', b'x')", {}),
    "in a lost directory": ("os.mkdir('d', dir_fd=root); os.fdatasync(make('d/a', b'x'))", {}),
    "through absolute paths": ("open(sys.argv[1] + '/a', 'xb').write(b'x'); os.fsync(root)", {"a": b""}),
}


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES)
def test_only_what_was_synced_survives(cutter: PowerCut, program: str, expected: dict[str, bytes]) -> None:
    run(cutter, program)
    cutter.cut()
    assert left(cutter) == expected


def test_a_second_process_and_cut(cutter: PowerCut) -> None:
    run(cutter, "durable('a', b'hello')")
    assert cutter.cut() == 0
    run(cutter, "os.pwrite(os.open('a', os.O_WRONLY, dir_fd=root), b'J', 0)")
    assert cutter.cut() == 1
    assert left(cutter) == {"a": b"hello"}


def test_some_sectors_may_survive(cutter: PowerCut) -> None:
    seen = set()
    for seed in range(20):
        run(cutter, "a = durable('a', bytes(4096)); os.pwrite(a, b'x' * 4096, 0)")
        cutter.cut(random.Random(seed))
        content = left(cutter)["a"]
        assert set(content) <= {0, ord("x")}
        seen.add(content)
        run(cutter, "os.fsync(make('a', bytes(4096)))")
    assert len(seen) > 5


def test_other_directories_are_left_alone(cutter: PowerCut, tmp_path: Path) -> None:
    run(cutter, f"open({str(tmp_path / 'outside')!r}, 'wb').write(b'x')")
    assert cutter.cut() == 0
    assert (tmp_path / "outside").read_bytes() == b"x"
