"""The edge to msgpack: what is written in parts is what is written at once, and nothing else can be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sos_client.wire.errors import MisuseError
from sos_client.wire.msgpack_edge import array_header, pack, pack_large, unpack

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()


@given(st.lists(scalars, max_size=20))
def test_parts_make_the_whole(values: list[object]) -> None:
    whole = pack(values)
    assert whole == array_header(len(values)) + b"".join(pack(value) for value in values)
    assert whole == pack_large(values)


def test_what_cannot_be_written_leaves_nothing_behind() -> None:
    for value in ([1, 2**64], [b"x", object()], ["\ud800"]):
        with pytest.raises(MisuseError):
            pack(value)
        assert unpack(pack([1, "a"])) == [1, "a"]
