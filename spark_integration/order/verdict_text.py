"""A verdict as people read it: the plan, each line with what it does to order. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_integration.order.plan_verdict import PlanVerdict

TEXT_MAX: Final = 60


def as_text(found: PlanVerdict) -> str:
    """One line for each node: verdict, node, whether rows are in order above it, why."""
    lines = [f"order is {'kept' if found.is_kept else 'NOT kept'}"]
    for node in found.nodes:
        shown = "  " * node.depth + (node.text if len(node.text) <= TEXT_MAX else f"{node.text[: TEXT_MAX - 1]}…")
        after = "in order" if node.ordered_after else "OUT OF ORDER"
        lines.append(f"{node.line:>4}  {node.verdict.value:<8} {after:<12}  {shown}  ({node.reason})")
    return "\n".join(lines)
