"""Puts the jar of the Java shim into the wheel, where there is a Java compiler; otherwise it is compiled at first use.

Needs neither PySpark nor the network: the sources bring stubs of what they compile against.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from types import ModuleType


class JarBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels only; an editable install finds the sources, and compiles them when they are needed."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        jar = _jar_module(Path(self.root))
        self._folder = tempfile.TemporaryDirectory(prefix="sos-wheel-")
        target = Path(self._folder.name) / jar.JAR_NAME
        try:
            jar.build_jar(target, hadoop_jar=None)
        except jar.NoJavaError as missing:
            self.app.display_warning(f"This wheel carries the sources of the sos:// shim only. {missing}")
            return
        build_data["force_include"][str(target)] = f"spark_integration/{jar.JAR_NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _jar_module(root: Path) -> ModuleType:
    """spark_integration/jar.py by its path: the project is not installed while it is built."""
    spec = importlib.util.spec_from_file_location("sos_jar", root / "spark_integration" / "jar.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
