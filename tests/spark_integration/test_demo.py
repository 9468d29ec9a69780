"""The demonstration: right from beginning to end, wrong when anything is, and gone when it is told to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_integration import demo
from spark_integration.pipelines.driver_process import wait_until
from spark_integration.pipelines.service_process import ProcessError

if TYPE_CHECKING:
    from collections.abc import Callable


def _start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "spark_integration.demo", "--folder", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _processes_of(folder: Path) -> list[str]:
    """Whoever has the folder in its command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if str(folder).encode() in command + (process / "environ").read_bytes():
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.spark
def test_everything_is_right_and_nothing_is_left_running(tmp_path: Path) -> None:
    process = _start(tmp_path / "demo")
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert "8 of 8 checks are right." in said
    assert "not committed" not in said
    assert "no record was lost, duplicated or changed" in said.splitlines()[-1]
    assert _processes_of(tmp_path) == []


@pytest.mark.spark
@pytest.mark.parametrize("moment", ["$ sos-journal create", "A stateful query runs"])
def test_ctrl_c_leaves_nothing_running(tmp_path: Path, moment: str) -> None:
    process = _start(tmp_path / "demo")
    assert process.stdout is not None
    for line in process.stdout:
        if moment in line:
            break
    assert len(_processes_of(tmp_path)) > 1
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait() == 128 + signal.SIGINT, rest
    process.stdout.close()
    assert rest.splitlines()[-1] == "Stopped; nothing is left running."
    assert "Traceback" not in rest
    wait_until(lambda: _processes_of(tmp_path) == [], seconds=600, what="the end of all it started")


def _fails(_: demo.Demonstration, *__: Any) -> None:
    raise ProcessError("the driver said nothing")


def _finds_a_wrong_answer(demonstration: demo.Demonstration, *_: Any) -> None:
    demonstration.check("the totals are right", holds=False)


def _is_fine(demonstration: demo.Demonstration, *_: Any) -> None:
    demonstration.check("the totals are right", holds=True)


@pytest.mark.parametrize(("step", "right"), [(_is_fine, True), (_finds_a_wrong_answer, False), (_fails, False)])
def test_anything_wrong_makes_all_of_it_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: Callable[..., None],
    *,
    right: bool,
) -> None:
    monkeypatch.setattr(demo.Demonstration, "start_servers", _is_fine)
    monkeypatch.setattr(demo.Demonstration, "sos_journal", _is_fine)
    monkeypatch.setattr(demo, "lose_the_machine", _is_fine)
    monkeypatch.setattr(demo, "go_on_elsewhere", step)
    monkeypatch.setattr(demo, "go_back_in_time", _is_fine)
    with pytest.raises(SystemExit) as ended:
        demo.main(["--folder", str(tmp_path / "demo")])
    assert (ended.value.code == 0) is right
    assert ("WRONG" in capsys.readouterr().out) is not right
