"""What is kept of an append, against the simplest model: one run of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sos_client.unsynced_bytes import UnsyncedBytes
from sos_client.wire.checksum import crc32c

STEPS = st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.integers(0, 30)), max_size=20)


@given(st.binary(max_size=20), STEPS)
def test_it_is_the_bytes_from_the_synced_offset_on(prefix: bytes, steps: list[tuple[bytes, int]]) -> None:
    content = prefix
    synced = len(prefix)
    kept = UnsyncedBytes(start=synced, prefix_crc=crc32c(prefix))
    for piece, released in steps:
        content += piece
        kept.add(piece)
        synced = min(synced + released, len(content))
        kept.release(synced)
        assert (kept.start, kept.end) == (synced, len(content))
        assert b"".join(kept) == content[synced:]
        assert kept.start_crc == crc32c(content[:synced])
        for offset in range(synced, len(content) + 1):
            assert kept.crc_at(offset) == crc32c(content[:offset])


@given(STEPS)
def test_without_a_known_prefix_there_is_no_crc(steps: list[tuple[bytes, int]]) -> None:
    kept = UnsyncedBytes(start=10, prefix_crc=None)
    for piece, released in steps:
        kept.add(piece)
        kept.release(min(kept.start + released, kept.end))
        assert kept.start_crc is None
        assert all(kept.crc_at(offset) is None for offset in range(kept.start, kept.end + 1))
