"""An image of many files, made by the records that would have made them, without writing any."""

from __future__ import annotations

from typing import Final

from journal.image.image import Image
from journal.records.change import PutChange, encode_change
from journal.records.record import encode_record
from tests.journal.histories import History

FILES_PER_DIRECTORY: Final = 1000


def filled_image(files: int) -> Image:
    """The image after so many PUTs of new files, a thousand to a directory."""
    history, image = History(), Image()
    segment = history.open_segment(epoch=1)
    image.apply(history.headers[0], segment)
    add_files(image, 0, files)
    return image


def add_files(image: Image, first: int, end: int) -> None:
    """One PUT each; all of them say that their bytes lie at the same place, which takes no less memory."""
    _, put = encode_record(
        kind=PutChange.kind,
        lsn=image.lsn,
        acknowledged_lsn=image.lsn,
        time_ms=image.time_ms,
        meta=encode_change(PutChange(path="state")),
        chain=image.chain,
        payload=b"x" * 100,
    )
    for number in range(first, end):
        image.lsn = put.lsn
        image.apply(put, PutChange(path=f"query/state/{number // FILES_PER_DIRECTORY}/{number}.delta"))
