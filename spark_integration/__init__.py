"""Spark on SOS: session helper, pipelines, data source, and the Java shim.

`with_sos_checkpoints` needs PySpark; it is imported when it is asked for, so that the jar can be had without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_integration.driver_jvm import SessionError
    from spark_integration.session import stop_beside_driver, with_sos_checkpoints

__all__ = ["SessionError", "stop_beside_driver", "with_sos_checkpoints"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'spark_integration' has no attribute {name!r}")
    try:
        from spark_integration import session
    except ModuleNotFoundError as missing:
        if missing.name != "pyspark":
            raise
        raise ModuleNotFoundError(
            f"{name} needs PySpark: pip install 'sos-checkpoints[spark]'", name="pyspark"
        ) from missing
    return getattr(session, name)
