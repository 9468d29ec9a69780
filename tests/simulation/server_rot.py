"""Bits that flip on the drive of a running server, where what was synced lies; and their repair, as from a copy.

Only what the server can know to have been synced is hit: a last batch that is damaged looks like a crash's tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sos_server.storage.log_format import BLOCK_BYTES, NOTE, LogScan, decode_log_header, scan_log

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from tests.fakes.simulated_drive import Inode, SimulatedDrive

HEADER_SHARE: Final = 0.6
"""How often a batch is hit in its header and not anywhere: most of its bytes are payload."""
NOTE_SHARE: Final = 0.3
"""How often it is a note of a run, if the batch has any: they are shorter than anything else."""
NEWEST_SHARE: Final = 0.7
"""How often it is one of the newest log file, which is still to be copied."""


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit, and the block that it is in as it was afterwards."""

    path: str
    inode: Inode
    offset: int
    bit: int
    block: bytes

    def undo(self) -> None:
        """Flip it back, unless something else was written there since."""
        start = self.offset // BLOCK_BYTES * BLOCK_BYTES
        if bytes(self.inode.stored[start : start + BLOCK_BYTES]) == self.block:
            self.inode.flip_bit(self.offset, self.bit)


def flip_in_the_log(drive: SimulatedDrive, chance: random.Random) -> Flip | None:
    """Rot a synced batch that has another one after it."""
    files = sorted((_generation(inode), path, inode) for path, inode in drive.files() if path.startswith("log/"))
    files = [file for file in files if file[0]]
    if not files:
        return None
    _, path, inode = files[-1] if chance.random() < NEWEST_SHARE else chance.choice(files)
    batches = list(_batches(inode))[:-1]
    if not batches:
        return None
    start, payload_start, end, notes = chance.choice(batches)
    if notes and chance.random() < NOTE_SHARE:
        return _flip(path, inode, chance.randrange(*chance.choice(notes)), chance)
    stop = payload_start if chance.random() < HEADER_SHARE else end
    return _flip(path, inode, chance.randrange(start, stop), chance)


def flip_in_the_newest_header(drive: SimulatedDrive, chance: random.Random) -> Flip | None:
    """Rot the header without which nobody knows what the newest log file has."""
    files = [(_generation(inode), path, inode) for path, inode in drive.files() if path.startswith("log/")]
    generation, path, inode = max(files, default=(0, "", None), key=lambda file: file[:2])
    return None if not generation or inode is None else _flip(path, inode, chance.randrange(8, 16), chance)


def flip_in_an_object(drive: SimulatedDrive, chance: random.Random) -> Flip | None:
    """Rot an object's own file, anywhere."""
    files = [(path, inode) for path, inode in drive.files() if path.startswith("objects/") and inode.stored]
    if not files:
        return None
    path, inode = chance.choice(files)
    return _flip(path, inode, chance.randrange(len(inode.stored)), chance)


def _flip(path: str, inode: Inode, offset: int, chance: random.Random) -> Flip:
    bit = chance.randrange(8)
    inode.flip_bit(offset, bit)
    start = offset // BLOCK_BYTES * BLOCK_BYTES
    return Flip(path, inode, offset, bit, bytes(inode.stored[start : start + BLOCK_BYTES]))


def _generation(inode: Inode) -> int:
    header = decode_log_header(bytes(inode.stored[:BLOCK_BYTES]))
    return header.generation if header is not None else 0


def _batches(inode: Inode) -> Iterator[tuple[int, int, int, list[tuple[int, int]]]]:
    """Where each stored batch begins, its payload, where its directory ends, and where its notes of runs lie."""
    header = decode_log_header(bytes(inode.stored[:BLOCK_BYTES]))
    assert header is not None
    log = memoryview(bytes(inode.stored))
    for batch in scan_log(log, generation=header.generation, nonce=header.nonce, end=None, scan=LogScan()):
        end = batch.payload_start + sum(entry[2] + 24 for entry in batch.entries)
        places = [(entry[0], place, place + entry[2]) for entry, place, _ in batch.payloads(log)]
        yield batch.start, batch.payload_start, end, [(start, stop) for number, start, stop in places if number & NOTE]
