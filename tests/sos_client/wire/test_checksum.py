"""CRC32C against published values, and the joining of two against the plain CRC of both."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sos_client.wire.checksum import crc32c, crc32c_combine, crc32c_joiner
from tests.sos_client.wire.vectors import load

VECTORS = load("wire_crc32c.json")


def test_published_values() -> None:
    for row in VECTORS["crcs"]:
        assert crc32c(bytes.fromhex(row["hex"])) == row["crc"]


def test_joined_vectors() -> None:
    for row in VECTORS["joined"]:
        assert crc32c_combine(row["first"], row["second"], row["second_bytes"]) == row["crc"]


@given(st.binary(), st.binary())
def test_joining_equals_the_crc_of_both(first: bytes, second: bytes) -> None:
    assert crc32c_combine(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)
    assert crc32c(memoryview(second), crc32c(first)) == crc32c(first + second)


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF), st.sampled_from([1, 3, 4096, 65_536, 70_001]))
def test_a_joiner_joins_as_the_general_way_does(first: int, second: int, second_bytes: int) -> None:
    assert crc32c_joiner(second_bytes)(first, second) == crc32c_combine(first, second, second_bytes)


def test_joining_a_great_length_is_quick_and_right() -> None:
    # CRC of 2^40 zeros after "a", by doubling: joining a run of zeros with itself 40 times
    zeros = crc32c(b"\x00")
    for power in range(40):
        zeros = crc32c_combine(zeros, zeros, 1 << power)
    by_halves = crc32c_combine(crc32c_combine(crc32c(b"a"), 0, 0), zeros, 1 << 40)
    half = crc32c(b"\x00")
    for power in range(39):
        half = crc32c_combine(half, half, 1 << power)
    assert by_halves == crc32c_combine(crc32c_combine(crc32c(b"a"), half, 1 << 39), half, 1 << 39)
