"""`python -m spark_integration.order PLAN`: a verdict on the text of a plan, as Spark's UI, explain() and logs show
it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from spark_integration.order.plan_verdict import verdict_of
from spark_integration.order.verdict_text import as_text


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spark_integration.order",
        description=__doc__.partition(": ")[2] if __doc__ else None,
        epilog="Ends with 0 if order is kept, with 1 if it is not or not known, with 2 if this is not a plan.",
    )
    parser.add_argument("plan", help="a file with the text of a physical plan; - is standard input")
    parser.add_argument("--sequence", default="sequence", help="the column that names the order (sequence)")
    parser.add_argument("--key", action="append", default=[], help="order is per key; may be given again")
    parser.add_argument("--source", choices=["ranges", "keys"], default="ranges", help="how the source lays out rows")
    parser.add_argument("--in-sequence", action="append", default=[], help="a function that sorts the rows of a key")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    try:
        text = sys.stdin.read() if options.plan == "-" else Path(options.plan).read_text(encoding="utf-8")
        found = verdict_of(
            text,
            sequence=options.sequence,
            keys=tuple(options.key),
            source=options.source,
            in_sequence=tuple(options.in_sequence),
        )
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write((json.dumps(found.as_dict(), indent=2) if options.json else as_text(found)) + "\n")
    return 0 if found.is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
