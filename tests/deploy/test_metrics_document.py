"""docs/metrics.md is what the processes really have, and says what to do about each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.deploy.metrics_document import DOCUMENT, TO_DO, document, families

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_the_document_is_the_codes(tmp_path: Path) -> None:
    every = families(tmp_path)
    names = {family.name for family in every}
    assert names == set(TO_DO)
    assert document(every) == DOCUMENT.read_text(), "python -m tests.deploy.metrics_document --write"
