"""Readers hold no more memory together than they may, and none of them waits for another."""

from __future__ import annotations

from contextlib import ExitStack

from sos_server.service.reading import KEPT_MAX, PIECE_BYTES_MAX, PIECE_BYTES_MIN, ReadShare
from sos_server.storage.object_layout import CHUNK_BYTES


def test_pieces_get_smaller_until_there_is_nothing_left_to_share() -> None:
    share = ReadShare(64 << 20)
    with ExitStack() as stack:
        pieces = [stack.enter_context(share.piece(1 << 30)).length for _ in range(1000)]
        assert pieces[0] == PIECE_BYTES_MAX
        assert pieces == sorted(pieces, reverse=True)
        assert pieces[-1] == PIECE_BYTES_MIN
        assert all(length % CHUNK_BYTES == 0 for length in pieces)  # each but the last of a read ends with a chunk
        assert sum(pieces[:512]) <= 64 << 20
        assert sum(pieces) <= (32 << 20) + 1000 * PIECE_BYTES_MIN
    with share.piece(1 << 30) as piece:
        assert piece.length == PIECE_BYTES_MAX
    with share.piece(7) as piece:
        assert piece.length == 7


def test_memory_of_whole_pieces_is_used_again() -> None:
    share = ReadShare(64 << 20)
    with ExitStack() as stack:
        held = [stack.enter_context(share.piece(1 << 30)).memory(PIECE_BYTES_MAX) for _ in range(KEPT_MAX + 1)]
        assert len({id(memory.obj) for memory in held}) == KEPT_MAX + 1
    with ExitStack() as stack:
        again = [stack.enter_context(share.piece(1 << 30)).memory(PIECE_BYTES_MAX) for _ in range(KEPT_MAX + 1)]
        kept = {id(memory.obj) for memory in held} & {id(memory.obj) for memory in again}
        assert len(kept) == KEPT_MAX
    with share.piece(7) as piece:
        assert len(piece.memory(CHUNK_BYTES)) == CHUNK_BYTES
