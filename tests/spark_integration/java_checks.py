"""Compiles the Java checks beside this file against the shim and the installed Spark, and runs them in a JVM."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spark_integration.jar import compile_java, jar_path, sources_key

_SOURCES: Final = Path(__file__).parent / "java"
_RUN_SECONDS_MAX: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of a class of checks said."""

    passed: frozenset[str]
    failed: dict[str, str]
    output: str

    def summary(self) -> str:
        lines = [f"{name}: {why}" for name, why in self.failed.items()]
        return "\n".join([*lines, "", self.output[-6000:]])


def spark_jars() -> Path:
    """Where the installed PySpark keeps its jars."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "jars"


def compiled_checks() -> Path:
    """The folder of the compiled checks, kept as long as neither they nor the shim change."""
    sources = sorted(_SOURCES.rglob("*.java"))
    digest = hashlib.sha256(sources_key().encode())
    for source in sources:
        digest.update(source.read_bytes())
    classes = Path(tempfile.gettempdir()) / f"sos-java-checks-{os.getuid()}-{digest.hexdigest()[:16]}"
    if not classes.exists():
        with tempfile.TemporaryDirectory(dir=classes.parent) as scratch:
            unfinished = Path(scratch) / "classes"
            compile_java(sources, unfinished, [jar_path(), spark_jars() / "*"])
            if not classes.exists():
                unfinished.rename(classes)
    return classes


def run_checks(main_class: str, *arguments: str) -> Outcome:
    """Run one class of checks; its lines say what passed."""
    class_path = os.pathsep.join(map(str, (compiled_checks(), jar_path(), spark_jars() / "*")))
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_OPENED]
    finished = subprocess.run(
        [*command, "-cp", class_path, main_class, *arguments],
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS_MAX,
        check=False,
    )
    passed: set[str] = set()
    failed: dict[str, str] = {}
    for line in finished.stdout.splitlines():
        verdict, _, rest = line.partition("\t")
        if verdict == "ok":
            passed.add(rest)
        elif verdict == "FAIL":
            name, _, why = rest.partition("\t")
            failed[name] = why
    if not failed and finished.returncode != 0:
        failed["(the run itself)"] = f"ended with {finished.returncode}"
    return Outcome(passed=frozenset(passed), failed=failed, output=finished.stdout + finished.stderr)


_OPENED: Final = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED")
