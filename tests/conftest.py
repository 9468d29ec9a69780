"""What all tests share. Hypothesis measures no time, because a machine with other work to do is not a mistake."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable

settings.register_profile("any machine", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell starts what it runs in the background with SIGINT ignored, and processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a line that is part of the result, also when the test passes."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")  # noqa: T201

    return show
