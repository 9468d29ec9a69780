"""The table of refusals, the sentences, the exit codes; what names and tokens may be."""

from __future__ import annotations

import hashlib
import string

import pytest

from sos_client.wire import errors as e
from sos_client.wire.errors import REFUSALS, ErrorCode, ExitCode, RefusedError, sentence_for
from sos_client.wire.names import check_name, parse_token


def test_numbers_never_change() -> None:
    names = "VERSION AUTH DENIED BAD_NAME STALE_EPOCH WRONG_SIZE WRONG_PREFIX BUSY SEALED FENCED QUOTA NO_SPACE"
    names += " IO_ERROR NOT_FOUND RANGE DAMAGED NOT_SEALED RETAINED UNSUPPORTED PROTOCOL LIMIT TOO_SLOW SHUTTING_DOWN"
    assert [(code.value, code.name) for code in ErrorCode] == list(enumerate(names.split(), start=1))


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_sentence_uses_only_the_fields_of_its_row(code: ErrorCode) -> None:
    row = REFUSALS[code]
    used = {field for _, field, _, _ in string.Formatter().parse(row.sentence) if field}
    assert used <= set(row.fields)
    assert row.exit_code is not ExitCode.DONE
    assert sentence_for(code, {}), "a sentence can be made although the fields are missing"


def test_a_refusal_says_what_to_do() -> None:
    error = RefusedError(ErrorCode.STALE_EPOCH, epoch=9, holder=bytes(15) + b"\x0f")
    digest = hashlib.sha256(b"SOS holder " + bytes(15) + b"\x0f").hexdigest()[:32]
    assert str(error) == (
        f"STALE_EPOCH: the namespace is claimed with epoch 9 by holder {digest}; a claim needs a greater epoch"
    )
    assert error.fields == {"epoch": 9, "holder": bytes(15) + b"\x0f"}
    assert RefusedError(ErrorCode.BUSY, "wait a moment").message == "wait a moment"


def test_exit_codes_by_who_must_act() -> None:
    assert RefusedError(ErrorCode.NOT_FOUND).exit_code == 3
    assert RefusedError(ErrorCode.FENCED).exit_code == 5
    assert e.ConnectionLostError("gone").exit_code == 9
    assert e.HistoryError("another past").exit_code == 4
    assert e.SosError("?").exit_code == 1


@pytest.mark.parametrize("name", ["a", "0", "A.b_c-9", "x" * 128, "a..b", "CON"])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/a",
        ".a",
        "-a",
        "_a",
        "a\x00",
        "a\n",
        "é",
        "a b",
        "a\\b",
        "x" * 129,
        "٣",
        "\ud800",
    ],
)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.BAD_NAME
    assert len(caught.value.message.encode()) < 1024


def test_a_token_is_64_hexadecimal_digits() -> None:
    assert parse_token(" " + "0aF0" * 16 + "\n") == bytes.fromhex("0af0" * 16)
    for wrong in ["", "0a" * 31, "0a" * 33, "zz" * 32, "0a " * 21 + "0"]:
        with pytest.raises(e.MisuseError) as caught:
            parse_token(wrong)
        assert not wrong or wrong not in str(caught.value)
