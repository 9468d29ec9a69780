"""The shim's tables are those of the file protocol's document: types of frames, codes of refusals and what follows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import journal.gateway
from journal.gateway.wire.messages import FileMessageType

ROOT: Final = Path(__file__).resolve().parents[2]
GATEWAY: Final = ROOT / "spark_integration" / "java" / "src" / "io" / "sos" / "spark" / "gateway"
DOCUMENT: Final = (Path(journal.gateway.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
AGAIN: Final = {"no": "NO", "yes": "YES", "elsewhere": "ELSEWHERE"}


def java(name: str) -> str:
    return (GATEWAY / f"{name}.java").read_text(encoding="utf-8")


def test_types_of_frames() -> None:
    known = {name: int(code, 16) for name, code in re.findall(r"^    (\w+)\((0x[0-9a-f]+)\)", java("FrameType"), re.M)}
    assert known
    assert known.items() <= {kind.name: kind.value for kind in FileMessageType}.items()


def test_codes_and_what_a_client_does_about_them() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+)( †)? \|[^|]*\| (no|yes|elsewhere)\b", DOCUMENT, re.MULTILINE)
    code = java("ServiceCode")
    known = re.findall(r"^    ([A-Z_]+)\((\d+), Again\.([A-Z]+)\)", code, re.MULTILINE)
    assert ("UNKNOWN", "0", "NO") in known
    documented = {(name, number, AGAIN[again]) for number, name, _, again in rows}
    assert set(known) - {("UNKNOWN", "0", "NO")} == documented
    (closing,) = re.findall(r"case ([A-Z_, ]+) -> true", code)
    assert set(closing.split(", ")) == {name for _, name, closes, _ in rows if closes}
