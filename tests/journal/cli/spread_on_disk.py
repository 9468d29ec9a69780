"""The logs of two shards that a test writes, in whatever order it wants, and the command over them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from journal.records.change import DeleteChange, MarkChange, RenameChange
from journal.records.shards import SpreadChange
from tests.journal.cli.conftest import Cli, VolumeOnDisk
from tests.journal.histories import History

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["payments.shard-0-of-2", "payments.shard-1-of-2"]


class SpreadOnDisk:
    """The logs of two shards, and the command over the directory with both."""

    def __init__(self, root: Path) -> None:
        self.home = VolumeOnDisk(root, name=NAMES[0])
        self.other = VolumeOnDisk(root, name=NAMES[1], history=History(holder=b"another holder.."))
        self._cli = Cli(root)

    def commit(self, batch: int, query: str = "q") -> None:
        self.home.put(f"{query}/offsets/{batch}", b"v1\n{}")
        self.home.put(f"{query}/state/0/0/{batch + 1}.delta", b"0")
        self.home.put(f"{query}/commits/{batch}", b"v1\n{}")

    def state(self, name: str, query: str = "q", *, content: bytes = b"1") -> None:
        self.other.put(f"{query}/state/0/1/{name}", content)

    def both(self, *changes: DeleteChange | RenameChange, token: str) -> None:
        """What a client does to a whole checkpoint."""
        for volume in (self.other, self.home):
            paths = [path for change in changes for path in _paths(change)]
            volume.history.add(MarkChange(values=SpreadChange(token=token, paths=tuple(paths)).values()))
            for change in changes:
                volume.history.add(change)

    def save(self) -> None:
        self.home.save()
        self.other.save()

    def at(self, moment: str, path: str = "q") -> set[str]:
        """The files of partition 1 then."""
        result = self._cli.here("ls", "-R", f"sos://payments/{path}", "--at", moment, "--json")
        assert result.exit_code == 0, result.output + repr(result.exception)
        found = [json.loads(line)["path"] for line in result.stdout.splitlines()]
        return {one.rpartition("/")[2] for one in found if "/state/0/1/" in one}

    def refusal(self, *arguments: str) -> str:
        return str(self._cli.here(*arguments).exception)

    def text(self, path: str, moment: str) -> str:
        result = self._cli.here("cat", f"sos://payments/{path}", "--at", moment)
        assert result.exit_code == 0, repr(result.exception)
        return result.stdout


def _paths(change: DeleteChange | RenameChange) -> list[str]:
    return [change.source, change.target] if isinstance(change, RenameChange) else [change.path]
