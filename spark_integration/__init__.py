"""Spark on SOS: session helper, pipelines, data source, order, and the Java shim.

What needs PySpark is imported when it is asked for, so that the jar can be had without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_integration.driver_jvm import SessionError
    from spark_integration.order.by_key import in_sequence
    from spark_integration.order.errors import OrderError
    from spark_integration.order.ordered import ordered
    from spark_integration.order.preserve import explain_order, preserve_order
    from spark_integration.order.violations import order_violations
    from spark_integration.session import stop_beside_driver, with_sos_checkpoints

__all__ = [
    "OrderError",
    "SessionError",
    "explain_order",
    "in_sequence",
    "order_violations",
    "ordered",
    "preserve_order",
    "stop_beside_driver",
    "with_sos_checkpoints",
]

_HOMES: Final = {
    "OrderError": "order.errors",
    "SessionError": "driver_jvm",
    "explain_order": "order.preserve",
    "in_sequence": "order.by_key",
    "order_violations": "order.violations",
    "ordered": "order.ordered",
    "preserve_order": "order.preserve",
    "stop_beside_driver": "session",
    "with_sos_checkpoints": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spark_integration' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"spark_integration.{_HOMES[name]}")
    except ModuleNotFoundError as missing:
        if missing.name not in {"pyspark", "pyarrow", "numpy"}:
            raise
        raise ModuleNotFoundError(
            f"{name} needs PySpark: pip install 'sos-checkpoints[spark]'", name=missing.name
        ) from missing
    return getattr(module, name)
