"""A volume on disk for the command to look at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from click.testing import CliRunner, Result

from journal.cli import command, main
from journal.image.image import Image
from journal.image.index_snapshot import encode_snapshot, name_of_snapshot
from journal.records.change import PutChange
from journal.records.record import Epoch
from journal.records.segment import SegmentReader
from tests.journal.checkpoints import Kind, checkpoint
from tests.journal.histories import History

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class VolumeOnDisk:
    """A log that a test writes, and the directory where its copy lies."""

    root: Path
    name: str = "payments"
    history: History = field(default_factory=History)
    snapshots: dict[str, bytes] = field(default_factory=dict)

    def put(self, path: str, data: bytes) -> None:
        self.history.add(PutChange(path=path), data)

    def roll(self) -> None:
        image = Image()
        for data in self.history.segments.values():
            reader = SegmentReader(lsn=image.lsn)
            reader.feed(data)
            while (record := reader.next_record()) is not None:
                image.apply_record(record)
        self.snapshots[str(name_of_snapshot(image, epoch=Epoch(1)))] = encode_snapshot(image)
        self.history.open_segment()

    def save(self, root: Path | None = None) -> Path:
        """Write the copy; the last record is not known to be acknowledged."""
        self.history.open_segment()
        folder = (root or self.root) / self.name
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in ({n: bytes(d) for n, d in self.history.segments.items()} | self.snapshots).items():
            (folder / name).write_bytes(data)
        return folder

    def segment_files(self) -> list[Path]:
        return sorted((self.root / self.name).glob("*.seg"))


@dataclass
class Cli:
    """Runs the command in this process, as a program would see it."""

    directory: Path

    def __call__(self, *args: str, environment: dict[str, str] | None = None) -> Result:
        settings = {"SOS_SERVICE": None, "SOS_SERVERS": None, "SOS_TOKEN": None, "TZ": "UTC"}
        return CliRunner().invoke(command, args, env=settings | (environment or {}))

    def here(self, *args: str) -> Result:
        return self(*args, "--dir", str(self.directory))

    def lines(self, *args: str) -> list[Any]:
        """What --json prints."""
        result = self.here(*args, "--json")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def volume(tmp_path: Path) -> VolumeOnDisk:
    return VolumeOnDisk(tmp_path / "journal")


@pytest.fixture
def cli(volume: VolumeOnDisk) -> Cli:
    return Cli(volume.root)


@dataclass(frozen=True)
class Ended:
    """How the whole command ended."""

    exit_code: int
    stdout: str
    stderr: str


RunMain: TypeAlias = "Callable[..., Ended]"


@pytest.fixture
def run_main(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> RunMain:
    """Runs `main` as the process would, up to its exit code."""
    for name in ("SOS_SERVICE", "SOS_SERVERS", "SOS_TOKEN", "SOS_TLS_CA"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr("sys.argv", ["sos-journal", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capfd.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(exit_code=int(code), stdout=printed.out, stderr=printed.err)

    return run


def write_query(volume: VolumeOnDisk, root: str, kind: Kind, *, batches: int, roll_every: int = 3) -> None:
    """A query's checkpoint in the order in which Spark writes it: plan, state, commit, batch after batch."""
    files = checkpoint(kind, batches=batches)
    volume.put(f"{root}/metadata", files.pop("metadata"))
    for name in [name for name in files if name.startswith("state/0/_metadata")]:
        volume.put(f"{root}/{name}", files.pop(name))
    for batch in range(batches + 1):
        if batch and batch % roll_every == 0:
            volume.roll()
        volume.put(f"{root}/offsets/{batch}", files.pop(f"offsets/{batch}"))
        for name in [n for n in files if n.startswith("state/") and _version(n) == batch + 1]:
            volume.put(f"{root}/{name}", files.pop(name))
        if batch < batches:
            volume.put(f"{root}/commits/{batch}", files.pop(f"commits/{batch}"))
    assert not files


def _version(path: str) -> int:
    name = path.rpartition("/")[2]
    return int(name.split(".")[0].split("_")[0].split("-")[0])
