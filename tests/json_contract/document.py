"""docs/json.md, from the schemas: `python -m tests.json_contract.document --write`."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

from tests.json_contract.contract import PROGRAMS, SCHEMAS, schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = SCHEMAS.parents[2] / "docs" / "json.md"
DOCUMENT_COLUMNS_MAX = 120
HEAD = """\
# JSON for programs

What `--json`, `/status.json` and the logs say, from [the schemas](../tests/json_contract/schemas) that tests hold
real output against (`python -m tests.json_contract.document --write`).

- **What may change.** Fields may be added, and so may kinds of lines and words in fields that are described as words.
  A field that is named here keeps its name, its type and its meaning until the next major version, and is always
  there unless it says *not always*. So: take what you know, leave the rest.
- **One line is one object.** Verbs that list things print a line for each, and nothing if there is nothing. Standard
  output has only that; remarks, progress and errors go to standard error.
- **The exit code** says how it ended, also with `--json` (`sos-journal --help` lists them). An error is a sentence on
  standard error, not JSON.
- **Values.** Names end in their unit: `_ms` are milliseconds, as a moment since 1970 (UTC); `_seconds`, `_bytes`
  likewise. LSNs are positions in a volume's log, and grow. Integers may be larger than 2^53. Identities, holders and
  checksums are hexadecimal. Characters that would move a terminal's cursor are escaped as `\\uXXXX`.
- `null` is said where something is not known or is not there; it is in the types.
"""
STATUS = """\
## /status.json
At `--web HOST:PORT` of `sos-server` and `sos-journal serve`, at `with_sos_checkpoints(..., web=...)`, and of
`sos-journal web`; with tokens, as `Authorization: Bearer`. `kind` says which of these it is. `/events` sends the same
in pieces, for the page; no program should rely on it.
"""
LOGS = "## Logs\n"


def document() -> str:
    """The whole page."""
    lines = [HEAD]
    for program in PROGRAMS:
        lines.append(f"## {program}")
        for verb, schema in schemas(program).items():
            lines += _part(f"{program} {verb}" if verb != "reader" else verb, schema)
    lines.append(STATUS)
    for kind, schema in schemas("status").items():
        lines += _part(f"kind: {kind}", schema)
    return "\n".join([*lines, LOGS, *_part("a line", schemas("log")["line"])])


def _part(title: str, schema: dict[str, Any]) -> list[str]:
    lines = [f"### {title}", _filled(schema["description"]) + "\n"]
    for kind in schema.get("anyOf", [schema]):
        if "title" in kind:
            lines.append(f"*{kind['title']}*\n")
        if rows := list(_rows(kind, "")):
            lines += ["| field | type | meaning |", "|---|---|---|", *rows, ""]
        elif "$ref" in kind:
            lines.append(f"As [{_target(kind)}](#{_target(kind)}).\n")
    return lines


def _filled(text: str) -> str:
    return textwrap.fill(text, DOCUMENT_COLUMNS_MAX, break_long_words=False, break_on_hyphens=False)


def _rows(schema: dict[str, Any], above: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        path, deepest = f"{above}{name}", inner
        meaning = [] if name in schema["required"] else ["*Not always.*"]
        meaning.append(inner.get("description", ""))
        if "enum" in inner:
            meaning.append("One of " + ", ".join(f"`{word}`" for word in inner["enum"]) + ".")
        yield f"| `{path}` | {_type(inner)} | {' '.join(filter(None, meaning))} |"
        while "items" in deepest:
            path, deepest = f"{path}[]", deepest["items"]
        yield from _rows(deepest, f"{path}.")


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"[{_target(schema)}](#{_target(schema)})"
    told = schema.get("type", "any")
    words = [told] if isinstance(told, str) else told
    if "items" in schema:
        return " or ".join(f"array of {_type(schema['items'])}" if word == "array" else word for word in words)
    return " or ".join(words)


def _target(schema: dict[str, Any]) -> str:
    name: str = schema["$ref"].rpartition("/")[2]
    return {"log": "sos-journal-log"}.get(name, name)


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(document(), encoding="utf-8")
    else:
        sys.stdout.write(document())
