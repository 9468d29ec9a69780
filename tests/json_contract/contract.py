"""The schemas in schemas/, one file a program, and how output is held against them.

To users they say which fields are there; more may be added. To the tests they say it all: a field that a schema does
not name, and so docs/json.md does not, either, is a mistake.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parent / "schemas"
PROGRAMS = ("sos-journal", "sos", "sos-server", "sos-connector")


@cache
def schemas(program: str) -> dict[str, Any]:
    """The schema of each verb of a program, with what they share."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{program}.json").read_text(encoding="utf-8"))["$defs"]
    return found


def hold(program: str, verb: str, *values: object) -> None:
    """AssertionError, if a value is not what the schema says, or has more than it says."""
    definitions = {name: closed(schema) for name, schema in schemas(program).items()}
    validator = Draft202012Validator({"$ref": f"#/$defs/{verb.replace(' ', '%20')}", "$defs": definitions})
    for value in values:
        problems = [f"{problem.json_path}: {problem.message[:400]}" for problem in validator.iter_errors(value)]
        assert not problems, f"{program} {verb}: {problems}"


def closed(schema: Any) -> Any:
    """The same, without room for fields that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **inner} if "properties" in schema and "type" in schema else inner
