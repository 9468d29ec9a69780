"""Who may set how many pins: half of the room that the others leave, for each token."""

from __future__ import annotations

import pytest

from journal.errors import JournalCode, RefusedByVolumeError
from journal.image.image import PINS_MAX, Image
from journal.image.preconditions import check_pin

KEPT = range(1_000)


def pin(image: Image, name: str, whose: str, *, now_ms: int = 0, seconds: float = 60) -> None:
    change = check_pin(image, name, 0, seconds, kept=KEPT, now_ms=now_ms, written_ms=now_ms, whose=whose)
    if change.expires_ms > now_ms:
        image.pins[name] = change
    else:
        image.pins.pop(name, None)


def fill(image: Image, whose: str, *, now_ms: int = 0) -> JournalCode:
    try:
        for number in range(PINS_MAX + 1):
            pin(image, f"{whose}-{number}", whose, now_ms=now_ms)
    except RefusedByVolumeError as refusal:
        return refusal.code
    pytest.fail("there was room without end")


def count(image: Image, whose: str) -> int:
    return sum(name.startswith(f"{whose}-") for name in image.pins)


def test_one_token_may_have_half_of_the_room() -> None:
    image = Image()
    assert fill(image, "weak") is JournalCode.TOO_LARGE
    assert count(image, "weak") == PINS_MAX // 2
    pin(image, "fork", "other")


def test_each_has_half_of_what_the_others_leave() -> None:
    image = Image()
    fill(image, "first")
    assert fill(image, "second") is JournalCode.TOO_LARGE
    assert count(image, "second") == PINS_MAX // 4


def test_without_tokens_all_are_one() -> None:
    image = Image()
    assert fill(image, "") is JournalCode.TOO_LARGE
    assert len(image.pins) == PINS_MAX


def test_setting_a_pin_again_takes_no_more_room() -> None:
    image = Image()
    fill(image, "weak")
    pin(image, "weak-0", "weak")
    assert count(image, "weak") == PINS_MAX // 2


def test_what_has_expired_or_was_released_counts_no_more() -> None:
    image = Image()
    fill(image, "weak")
    pin(image, "weak-0", "weak", seconds=0)
    pin(image, "weak-again", "weak")
    image.pins.clear()  # as the next record does with what has expired
    fill(image, "weak", now_ms=60_001)
    assert count(image, "weak") == PINS_MAX // 2
