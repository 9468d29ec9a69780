"""Whatever is typed: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from journal.cli import VERBS, main
from tests.journal.cli.conftest import VolumeOnDisk, write_query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TEXTS = st.text(st.characters(exclude_characters="\0"), max_size=12)
_WORDS = st.one_of(
    _TEXTS,
    st.sampled_from(
        [
            "payments", "sos://payments/q1", "sos://payments/q1/offsets/0", "batch:1", "now", "0", "-1", "1h", "--at",
            "--json", "--utc", "-n", "-R", "--since", "--path", "*", "--kind", "put", "--spark", "--dry-run", "-k",
            "--help", "--if-empty", "--exit-code", "--keep-for", "--format", "show", "add",
        ]
    ),
)  # fmt: skip
# Verbs that would serve, follow or write are not let loose.
_SAFE = sorted(set(VERBS) - {"serve", "restore", "export", "backup", "import", "repair", "fork"})


def _run(arguments: Sequence[str]) -> tuple[object, str]:
    errors = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["sos-journal", *arguments]),
        contextlib.redirect_stderr(errors),
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return ended.value.code, errors.getvalue()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    volume = VolumeOnDisk(tmp_path_factory.mktemp("volume"))
    write_query(volume, "q1", "hdfs", batches=2)
    volume.save()
    return volume.root


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(verb=st.sampled_from(_SAFE), words=st.lists(_WORDS, max_size=5))
def test_any_words(saved: Path, verb: str, words: list[str]) -> None:
    code, errors = _run([verb, *words, "--dir", str(saved)])
    assert "Traceback" not in errors
    assert code not in (None, 1), errors


def test_every_verb_has_help_with_an_example() -> None:
    for verb in VERBS:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code, errors = 0, ""
            with mock.patch.object(sys, "argv", ["sos-journal", verb, "--help"]), pytest.raises(SystemExit):
                main()
        assert (code, errors) == (0, "")
        assert f"sos-journal {verb}" in printed.getvalue(), verb
