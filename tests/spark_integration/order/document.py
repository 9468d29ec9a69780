"""`python -m tests.spark_integration.order.document`: writes the table of nodes into docs/order.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spark_integration.order.plan_nodes import table_of_nodes

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "order.md"
BEGIN: Final = "<!-- nodes: written by `python -m tests.spark_integration.order.document` -->"
END: Final = "<!-- end of nodes -->"

if __name__ == "__main__":
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{table_of_nodes()}\n\n{END}{after}", encoding="utf-8")
