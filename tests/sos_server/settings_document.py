"""The table of settings in docs/operations.md, from where they are declared.

python -m tests.sos_server.settings_document --write
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from sos_client.declarations import Setting, declared
from sos_client.wire.limits import OFFSET_MAX
from sos_server.config import SECTIONS
from sos_server.store.settings import RETENTION_SECONDS_MAX

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
HEAD: Final = "| key | default | range | meaning |\n|---|---|---|---|\n"
END: Final = "| `quotas.NAMESPACE` |"
_LARGE: Final = {RETENTION_SECONDS_MAX: "10^10", OFFSET_MAX: "2^63-1"}


def rows() -> str:
    """One for each key of each section."""
    lines = []
    for name, kind in SECTIONS.items():
        defaults = kind()
        for key, one in declared(kind).items():
            lines.append(f"| `{name}.{key}` | {_shown(getattr(defaults, key))} | {_range(one)} | {one.meaning} |\n")
    return "".join(lines)


def renewed(document: str) -> str:
    """The document with the rows as they are now."""
    before, _, rest = document.partition(HEAD)
    return before + HEAD + rows() + END + rest.partition(END)[2]


def _shown(default: object) -> str:
    if default is None or default == "":
        return "none"
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default}`"


def _range(one: Setting) -> str:
    if one.minimum is None:
        return ""
    return f"{one.minimum} to {'any' if one.maximum is None else _LARGE.get(one.maximum, one.maximum)}"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    DOCUMENT.write_text(renewed(DOCUMENT.read_text()))
