"""Reads `tests/vectors/wire_*.json` back into messages, without using the codec that they are to check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sos_client.wire import messages
from sos_client.wire.errors import ErrorCode

if TYPE_CHECKING:
    from sos_client.wire.messages import Message

VECTORS = Path(__file__).parent.parent.parent / "vectors"


class Vector(NamedTuple):
    name: str
    sender: str
    frame: bytes
    message: Message | None


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def load_frames(name: str) -> list[Vector]:
    return [
        Vector(row["name"], row["from"], bytes.fromhex(row["hex"]), _message(row) if "type" in row else None)
        for row in load(name)["frames"]
    ]


def _message(row: dict[str, Any]) -> Message:
    fields = {name: _value(value) for name, value in row["fields"].items()}
    if row["type"] == "Error":
        fields["code"] = ErrorCode[fields["code"]]
    if row["type"] == "Listing":
        fields["entries"] = tuple(messages.ObjectInfo(**entry) for entry in fields["entries"])
    return cast("Message", getattr(messages, row["type"])(**fields))


def _value(value: Any) -> Any:
    match value:
        case {"hex": text}:
            return bytes.fromhex(text)
        case dict():
            return {key: _value(inner) for key, inner in value.items()}
        case list():
            return [_value(inner) for inner in value]
    return value
