"""Which files of an ingest log nobody needs any more, and how far behind a reader is. Values only.

Pure. A file may go when it is past every reader, before a newer file of the streams, and past what is to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

from sos_client.declarations import Form, Setting

if TYPE_CHECKING:
    from collections.abc import Sequence

KEEP_SECONDS: Final = 7 * 24 * 3600
"""What is kept unless somebody says otherwise: a week in which a checkpoint can be rewound and its input read again."""


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file of messages: its first sequence number, its size, and when something was last added to it."""

    first: int
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRetention:
    """How long messages stay after every reader has passed them: until the first of the two is reached; 0: no limit."""

    seconds: Annotated[
        int,
        Setting(
            "delete messages that all readers have passed when they are older than this; 0s: never for their age",
            flag="--keep-messages-for",
            form=Form.AGE,
        ),
    ] = KEEP_SECONDS
    size: Annotated[
        int,
        Setting(
            "delete messages that all readers have passed beyond this size, however young, e.g. 20G",
            flag="--keep-messages-bytes",
            form=Form.SIZE,
        ),
    ] = 0
    lag_bytes_max: Annotated[
        int,
        Setting(
            "let sources wait while a reader is further behind than this, e.g. 10G; 0: never",
            flag="--reader-lag-max",
            form=Form.SIZE,
        ),
    ] = 0
    """How far behind a reader may be before sources get no more credits."""


def files_to_delete(
    files: Sequence[MessageFile], *, readers: Sequence[int], streams_from: int, retention: MessageRetention, now_ms: int
) -> list[MessageFile]:
    """The oldest files, as many as may go. `readers` need what they name, and what follows it; none: all is needed.

    `streams_from`: the number of the newest file of the streams; what stands before it is not read at a restart.
    """
    if not readers:
        return []
    needed_from = min(*readers, streams_from)
    total = sum(file.size for file in files)
    gone: list[MessageFile] = []
    for file, following in pairwise(files):  # the last file is still written
        too_old = bool(retention.seconds) and file.modified_ms < now_ms - 1000 * retention.seconds
        too_much = bool(retention.size) and total > retention.size
        if following.first > needed_from or not (too_old or too_much):
            break
        gone.append(file)
        total -= file.size
    return gone


def bytes_behind(files: Sequence[MessageFile], next_sequence: int, needs: int) -> int:
    """How much of the log a reader has before it; within a file, as if all messages had the same size."""
    behind = 0
    for file, end in zip(files, [*(file.first for file in files[1:]), next_sequence], strict=True):
        if end > max(needs, file.first):
            behind += file.size * (end - max(needs, file.first)) // (end - file.first)
    return behind
