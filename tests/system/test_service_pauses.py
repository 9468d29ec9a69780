"""Whatever is lost, writes go on soon. How soon on a quiet machine, `python -m tests.system.pauses` measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.system.pauses import GOAL_SECONDS, measure

if TYPE_CHECKING:
    from pathlib import Path

BUSY_MACHINE_SECONDS = 4.0  # a client's silence, or a standby's patience, at its old length would be more


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("loss", [loss for loss in GOAL_SECONDS if not loss.endswith(", standby")])  # two, instead
async def test_writes_go_on(loss: str, tmp_path: Path) -> None:
    assert await measure(loss, tmp_path, clients=8) < GOAL_SECONDS[loss] + BUSY_MACHINE_SECONDS
