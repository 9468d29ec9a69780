"""Breaks each rule of the takeover once and writes what noticed it into docs/takeover.md:

python -m tests.journal.takeover.exploration.rules_table --write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.journal.takeover.exploration.explore import explore
from tests.journal.takeover.exploration.scenarios import SCENARIOS
from tests.journal.takeover.exploration.wrong_rules import WRONG_RULES, applied

if TYPE_CHECKING:
    from tests.journal.takeover.exploration.explore import Found
    from tests.journal.takeover.exploration.wrong_rules import WrongRule

DOCUMENT: Final = Path(__file__).parents[4] / "docs" / "takeover.md"
BEGIN: Final = "<!-- broken rules: written by `python -m tests.journal.takeover.exploration.rules_table --write` -->"
END: Final = "<!-- end of broken rules -->"
HEADER: Final = "| rule | broken so | noticed in | after | because |\n|---|---|---|---|---|"


def noticed(wrong: WrongRule) -> Found:
    """Explore its scenario with the mistake made."""
    scenario = next(one for one in SCENARIOS if one.name == wrong.scenario)
    with applied(wrong):
        return explore(scenario)


def row(wrong: WrongRule, found: Found) -> str:
    """A line of the table."""
    because = (found.violation or "NOT NOTICED").replace("|", "/")
    return f"| {wrong.rule} | {wrong.mistake} | {wrong.scenario} | {found.depth} steps | {because} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.journal.takeover.exploration.rules_table", description=__doc__
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/takeover.md")
    options = parser.parse_args()
    rows, missed = [], 0
    for wrong in WRONG_RULES:
        found = noticed(wrong)
        missed += found.violation is None
        rows.append(row(wrong, found))
        sys.stdout.write(rows[-1] + "\n")
        sys.stdout.flush()
    if options.write:
        head, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        tail = rest.partition(END)[2]
        DOCUMENT.write_text("\n".join([f"{head}{BEGIN}", HEADER, *rows, f"{END}{tail}"]), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
