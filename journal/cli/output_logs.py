"""What a file sink remembers of its batches (`_spark_metadata`), in a directory or in the same volume.

Spark skips, without a word, a batch whose number is there. Every tenth file (`9.compact`) holds all before it, and
those are deleted after a while.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, refused
from journal.records.location import parse_location
from journal.records.paths import join

if TYPE_CHECKING:
    from journal.cli.views import LogView
    from journal.gateway.client.opening import WholeVolume

_ENTRY: Final = re.compile(r"(\d{1,18})(\.compact)?", re.ASCII)
FOLDER: Final = "_spark_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLog:
    """The log of one output. `place`: in the volume if `inside`, else a directory."""

    place: str
    inside: bool
    names: tuple[str, ...]

    def later(self, batch: int) -> list[str]:
        """Entries of batches after this one."""
        found = {name: _ENTRY.fullmatch(name) for name in self.names}
        return sorted((name for name, match in found.items() if match and int(match[1]) > batch), key=_number)

    def warnings(self, batch: int) -> list[str]:
        """What going back means here, in words."""
        later = self.later(batch)
        if not later:
            return [f"{self.place}: nothing after batch {batch} is there"]
        text = f"{self.place}: has {len(later)} later batches, which Spark would skip without a word"
        if any(name.endswith(".compact") for name in later):
            return [f"{text}; they are compacted and cannot be taken out: let the query write to a new directory"]
        return [f"{text}: their entries are moved aside; their files stay, and only readers of {FOLDER} leave them out"]

    def check(self, batch: int | None) -> None:
        """BAD_REQUEST if the log cannot follow."""
        if any(name.endswith(".compact") for name in self.later(batch or 0)):
            raise refused(
                JournalCode.BAD_REQUEST,
                f"{self.place}: {FOLDER} was compacted after batch {batch}: let the query write to a new directory, "
                "and leave out --file-sink",
            )

    async def move_aside(self, batch: int | None, volume: WholeVolume) -> None:
        """The later entries to a folder beside the log."""
        later = self.later(batch or 0)
        stamp = f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}"
        source, target = join(self.place, FOLDER), join(self.place, f"{FOLDER}.before-rewind-{stamp}")
        if not self.inside:
            await trio.to_thread.run_sync(_move_files, Path(source), Path(target), later)
            return
        for name in reversed(later):  # the newest first: what is left is a log that ends earlier, at any moment
            operation = volume.new_operation()
            await volume.rename(join(source, name), join(target, name), overwrite=False, operation=operation)


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _move_files(source: Path, target: Path, names: list[str]) -> None:
    if names:
        target.mkdir()
    for name in reversed(names):
        (source / name).rename(target / name)
        if (source / f".{name}.crc").exists():
            (source / f".{name}.crc").rename(target / f".{name}.crc")


async def open_output_log(text: str, present: LogView, volume: str) -> OutputLog:
    """The log of an output, named as a directory or as sos://VOLUME/PATH. NOT_FOUND if it has none."""
    if text.startswith("sos://"):
        location = parse_location(text)
        if location.volume != volume:
            raise refused(JournalCode.BAD_REQUEST, f"{text} is in another volume than the checkpoint")
        folder = join(location.path, FOLDER)
        if present.image.tree.find(folder) is None:
            raise refused(JournalCode.NOT_FOUND, f"{text} has no {FOLDER}: no file sink wrote there")
        names = [status.path.rpartition("/")[2] async for status in present.children(folder)]
        return OutputLog(place=location.path, inside=True, names=tuple(names))
    directory = Path(text) / FOLDER
    if not directory.is_dir():
        raise refused(JournalCode.NOT_FOUND, f"{text} has no {FOLDER}: no file sink wrote there")
    found = await trio.to_thread.run_sync(lambda: tuple(path.name for path in directory.iterdir()))
    return OutputLog(place=text, inside=False, names=found)
