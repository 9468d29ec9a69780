"""How much of the past a volume keeps: the limits, what command lines call them, and how they are shown. Pure.

Belongs here: what can be said about it, once. What follows from it is owner/retention.py's to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sos_client.declarations import Form, Setting, values_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the past stays readable: whichever limit is reached first; 0 is no limit.

    Each is a number that a segment's header and the file protocol carry, in this order, and that is shown and printed
    as `retention_` and its name; the end of the name is the unit.
    """

    seconds: Annotated[int, Setting("keep the past for this long, e.g. 7d", flag="--keep-for", form=Form.AGE)] = 0
    bytes: Annotated[
        int, Setting("keep no more of the past than this, e.g. 20G", flag="--keep-bytes", form=Form.SIZE)
    ] = 0

    @property
    def is_limited(self) -> bool:
        return any(values_of(self).values())

    @property
    def third(self) -> Retention:
        """When copying forward begins: the copy frees space only when the horizon has passed it."""
        return Retention(**{name: -(-limit // 3) for name, limit in values_of(self).items()})

    def as_json(self) -> dict[str, int]:
        """As `--json` and the page have it."""
        return {f"retention_{name}": limit for name, limit in values_of(self).items()}
