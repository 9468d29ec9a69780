"""What a release brings, made once for all tests of this process: the wheel, an environment with nothing else."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

ROOT: Final = Path(__file__).resolve().parents[2]
PREVIOUS: Final = "SOS_PREVIOUS_WHEEL"
"""The variable that names the wheel of the release before this tree. Without one the tree is mixed with itself."""

_FOLDER: Final = tempfile.TemporaryDirectory(prefix="sos-released-")


@functools.cache
def release_tool() -> ModuleType:
    """tools/release.py, which is not a package's."""
    spec = importlib.util.spec_from_file_location("sos_release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def version() -> str:
    """That of this tree."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


@functools.cache
def built() -> tuple[Path, Path]:
    """The wheel and the source archive of this tree."""
    wheel, source = release_tool().built(Path(_FOLDER.name), version())
    return Path(wheel), Path(source)


@functools.cache
def own_commands() -> Path:
    """The folder of the commands of this tree's wheel, in an environment that has nothing else."""
    return Path(release_tool().installed(built()[0], Path(_FOLDER.name) / "own"))


@functools.cache
def previous_commands() -> Path:
    """The same of the release before; without one, of this tree's wheel."""
    if not os.environ.get(PREVIOUS):
        return own_commands()
    return Path(release_tool().installed(Path(os.environ[PREVIOUS]), Path(_FOLDER.name) / "previous"))
