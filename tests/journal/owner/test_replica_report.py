"""How far a member has come is reported even if it was quicker than whoever reports it."""

from __future__ import annotations

from typing import Any, cast

from sos_client.append_stream import AppendStream, AppendTarget


def test_bytes_synced_before_the_report_began_are_reported() -> None:
    """A volume with one member stood still for ever: nobody wrote again, since everybody waited for this report."""
    nobody = cast("Any", None)
    target = AppendTarget(namespace="payments", object="segment")
    stream = AppendStream(nobody, nobody, nobody, target, size=10, prefix_crc=None, resume=False, window_bytes=1 << 20)
    stream._unsynced.add(b"five!")
    stream._acknowledge(15, 15)
    seen: list[int] = []
    stream.report(seen.append)
    assert seen == [15]
    stream._unsynced.add(b"more")
    stream._acknowledge(19, 17)
    assert seen == [15, 17]
