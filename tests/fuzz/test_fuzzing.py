"""The decoders against a coverage-guided fuzzer, for a bounded number of inputs that begin with the vectors."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.sos_client.wire.vectors import load_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[2]
RUNS: Final = 150_000
SECONDS_MAX: Final = 90
SOAK_RUNS: Final = int(os.environ.get("SOS_SOAK_FRAMES", "1000000"))
SOAK_SECONDS_MAX: Final = 3600
MEMORY_MEGABYTES_MAX: Final = 512
OF_ITS_OWN: Final = ("sh", "-c", '"$@" & wait $!', "sh")
"""What a process has used at most counts from before its exec, too: pytest's own memory, if pytest has started it."""


def wire_inputs() -> Iterator[bytes]:
    """What `wire_target` reads: its first byte chooses what the frame after it is fed to."""
    for vector in [*load_frames("wire_frames.json"), *load_frames("wire_refused.json")]:
        answer = vector.sender == "server"
        yield bytes([4 if answer else 0]) + vector.frame[4:]
        yield bytes([6 if answer else 5]) + vector.frame
        yield b"\x03" + vector.frame


def gateway_inputs() -> Iterator[bytes]:
    """The same for `gateway_target`."""
    for file in ("gateway_messages.json", "gateway_invalid.json"):
        vectors = json.loads((ROOT / "tests/vectors" / file).read_text())
        for side, choice in (("requests", 0), ("answers", 2)):
            for vector in vectors[side]:
                frame = bytes.fromhex(vector["frame"])
                yield bytes([choice]) + frame[4:]
                yield bytes([choice + 1]) + frame
    tagged = json.loads((ROOT / "tests/vectors/gateway_tagged.json").read_text())
    for side, choice in (("requests", 5), ("answers", 7)):
        for vector in tagged[side]:
            yield bytes([choice]) + bytes.fromhex(vector["frame"])


def connector_inputs() -> Iterator[bytes]:
    """The same for `connector_target`."""
    for vector in json.loads((ROOT / "tests/vectors/connector_frames_wallaroo.json").read_text()):
        frame = bytes.fromhex(vector["hex"])
        yield b"\0" + frame[4:]
        for choice in (16, 17, 18, 19, 23):
            yield bytes([choice]) + frame


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed: it has no wheel for this platform or Python",
)
@pytest.mark.parametrize(
    ("target", "inputs"),
    [("wire_target", wire_inputs), ("gateway_target", gateway_inputs), ("connector_target", connector_inputs)],
    ids=["wire", "gateway", "connector"],
)
def test_no_input_does_more_than_break_the_protocol(
    target: str, inputs: Callable[[], Iterator[bytes]], tmp_path: Path
) -> None:
    play(target, inputs, tmp_path, runs=RUNS, seconds_max=SECONDS_MAX)


@pytest.mark.soak
@pytest.mark.timeout(3 * SOAK_SECONDS_MAX)
def test_a_million_frames_of_connectors(tmp_path: Path) -> None:
    """At least: most inputs have several, and all that are asked for are made."""
    said = play("connector_target", connector_inputs, tmp_path, runs=SOAK_RUNS, seconds_max=SOAK_SECONDS_MAX)
    assert f"Done {SOAK_RUNS} runs" in said


def play(target: str, inputs: Callable[[], Iterator[bytes]], tmp_path: Path, *, runs: int, seconds_max: int) -> str:
    """What the fuzzer said, when it has found nothing."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, content in enumerate(inputs()):
        (corpus / str(number)).write_bytes(content)
    limits = [f"-runs={runs}", f"-max_total_time={seconds_max}", f"-rss_limit_mb={MEMORY_MEGABYTES_MAX}", "-timeout=10"]
    command = [sys.executable, "-m", f"tests.fuzz.{target}", str(corpus), "-max_len=4096", "-seed=1", *limits]
    done = subprocess.run(
        [*OF_ITS_OWN, *command, f"-artifact_prefix={tmp_path}/"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds_max * 3,
    )
    findings = {path.name: path.read_bytes()[:200] for path in tmp_path.iterdir() if path.is_file()}
    assert done.returncode == 0, f"{findings}\n{done.stderr[-4000:]}"
    assert not findings
    return done.stderr
