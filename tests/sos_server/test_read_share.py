"""Readers hold no more memory together than they may, and none of them waits for another."""

from __future__ import annotations

from contextlib import ExitStack

from sos_server.object_layout import CHUNK_BYTES
from sos_server.reading import PIECE_BYTES_MAX, PIECE_BYTES_MIN, ReadShare


def test_pieces_get_smaller_until_there_is_nothing_left_to_share() -> None:
    share = ReadShare(64 << 20)
    with ExitStack() as stack:
        held = [stack.enter_context(share.piece(1 << 30)) for _ in range(1000)]
        assert all(length <= len(memory) < length + CHUNK_BYTES for length, memory in held)
        assert len({id(memory.obj) for _, memory in held}) == 1000
        pieces = [length for length, _ in held]
        assert pieces[0] == PIECE_BYTES_MAX
        assert pieces == sorted(pieces, reverse=True)
        assert pieces[-1] == PIECE_BYTES_MIN
        assert sum(pieces[:512]) <= 64 << 20
        assert sum(pieces) <= (32 << 20) + 1000 * PIECE_BYTES_MIN
    with share.piece(1 << 30) as (length, memory):
        assert length == len(memory) == PIECE_BYTES_MAX
    with share.piece(7) as (length, _):
        assert length == 7
    with share.piece(1 << 30) as (_, again):
        assert again is memory
