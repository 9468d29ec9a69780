"""What is asked of the interpreter is given back."""

from __future__ import annotations

import gc

import pytest

from sos_client.serving.interpreter import without_collecting


def _fail() -> None:
    assert not gc.isenabled()
    raise ZeroDivisionError


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_collected_as_before(collecting: bool) -> None:  # noqa: FBT001
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        with pytest.raises(ZeroDivisionError):
            without_collecting()(_fail)()
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if before else gc.disable)()
