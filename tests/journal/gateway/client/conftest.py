"""The client's tests run twice: with a connection for each request at a time, and with one that requests share."""

from __future__ import annotations

import pytest

from journal.gateway.client.client import ClientSettings


@pytest.fixture(autouse=True, params=[False, True], ids=["alone", "shared"])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether requests of one frame share a connection, where a test does not say it."""
    defaults = ClientSettings.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "shared", request.param)
    return bool(request.param)
