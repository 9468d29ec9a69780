"""What is raised where order cannot be had."""

from __future__ import annotations


class OrderError(RuntimeError):
    """Rows cannot be brought into order, or a plan would not keep them in it; the text says why, and what to do."""
