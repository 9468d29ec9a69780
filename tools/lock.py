"""Writes requirements/*.txt: the exact versions and hashes that `make setup` installs, one file a group.

Each file stands alone (it repeats what the smaller ones pin), so that one `pip install --require-hashes` is enough.
Index addresses are left out: they belong to the machine, not to the project.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = [
    "--quiet",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-emit-trusted-host",
    "--strip-extras",
    "--generate-hashes",
    "--allow-unsafe",
]
OTHER_SPARK_LINES = ("3.5", "4.0", "4.2", "4.3")
"""What the README names beside the line that the development group pins; `make check-sparks` installs each apart."""


def locked_groups(project: dict[str, dict[str, object]]) -> dict[str, list[str]]:
    """Names of the files, and what each must hold."""
    metadata = project["project"]
    groups = project["dependency-groups"]
    extras = metadata["optional-dependencies"]
    assert isinstance(extras, dict)
    runtime = list(_strings(metadata["dependencies"]))
    development = [
        *runtime,
        *_strings(extras["spark"]),
        *_strings(extras["connect"]),
        *_strings(groups["test"]),
        *_strings(groups["check"]),
        *_strings(groups["docs"]),
        "hatchling",
        "editables",
    ]
    lines = {f"spark-{line}": [f"pyspark=={line}.*"] for line in OTHER_SPARK_LINES}
    return {"runtime": runtime, "development": development, **lines}


def _strings(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(entry) for entry in value]


def write_lock(name: str, requirements: list[str]) -> None:
    """Resolves one group; keeps the versions that the present file pins unless told to upgrade."""
    output = ROOT / "requirements" / f"{name}.txt"
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / f"{name}.in"
        source.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, *sys.argv[1:], "-o", str(output), str(source)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for group, wanted in locked_groups(PROJECT).items():
        write_lock(group, wanted)
