"""The jar of the Java shim: found in the wheel, or compiled from the sources beside this file and kept in a cache.

Standard library only, nothing of the project is imported: the build of the wheel loads this file by its path.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Final

JAR_NAME: Final = "sos-spark.jar"
"""Beside this file, in a wheel that was built where there was a Java compiler."""
JAVA_RELEASE: Final = "17"
"""What Spark 4 needs."""

_SOURCES: Final = Path(__file__).parent / "java"
_RESOURCES: Final = _SOURCES / "resources"
_SOURCES_MARK: Final = "META-INF/sos-sources"
_PACKAGE: Final = "io/sos/"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_COMPILE_SECONDS_MAX: Final = 300


class NoJavaError(RuntimeError):
    """There is no Java, or none that can compile; the text says what to install."""


class CompileError(RuntimeError):
    """The compiler did not accept the sources; the text is what it said."""


def jar_path() -> Path:
    """The shim's jar for this PySpark, compiled first if need be (a few seconds, once). NoJavaError, CompileError."""
    key = sources_key()
    packaged = Path(__file__).parent / JAR_NAME
    if packaged.exists() and _built_from(packaged) == key:
        return packaged
    hadoop_jar, spark_version = _installed_spark()
    cached = _cache_directory() / f"sos-spark-{key[:16]}-{spark_version}.jar"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        build_jar(cached, hadoop_jar=hadoop_jar)
    return cached


def build_jar(target: Path, *, hadoop_jar: Path | None) -> None:
    """Compile the sources into `target`, which appears whole. Without Hadoop's jar, against the hand-written stubs."""
    with tempfile.TemporaryDirectory(prefix="sos-jar-") as scratch:
        classes = Path(scratch) / "classes"
        compile_java(java_sources(hadoop_stubs=hadoop_jar is None), classes, [hadoop_jar] if hadoop_jar else [])
        descriptor, unfinished = tempfile.mkstemp(dir=target.parent, prefix=".sos-jar-")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                _write_jar(stream, classes)
            Path(unfinished).chmod(0o644)
            Path(unfinished).replace(target)  # two processes may do this at once: either jar is as good
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise


def java_sources(*, hadoop_stubs: bool) -> list[Path]:
    """The shim's sources, the stubs of Spark's trait in both of its packages, of slf4j and, if asked for, of Hadoop."""
    folders = [_SOURCES / "src", _SOURCES / "stubs" / "spark", _SOURCES / "stubs" / "slf4j"]
    if hadoop_stubs:
        folders.append(_SOURCES / "stubs" / "hadoop")
    return sorted(source for folder in folders for source in folder.rglob("*.java"))


def sources_key() -> str:
    """Changes whenever any source does."""
    digest = hashlib.sha256()
    for source in [*java_sources(hadoop_stubs=True), *_resources()]:
        digest.update(f"{source.relative_to(_SOURCES).as_posix()}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()


def _resources() -> list[Path]:
    """What goes into the jar as it is: the names under which Spark finds the shim's classes."""
    return sorted(path for path in _RESOURCES.rglob("*") if path.is_file())


def compile_java(sources: list[Path], classes: Path, class_path: list[Path]) -> None:
    """Run the Java compiler that is there. NoJavaError, CompileError."""
    classes.mkdir(parents=True, exist_ok=True)
    arguments = ["--release", JAVA_RELEASE, "-proc:none", "-nowarn", "-encoding", "UTF-8", "-d", str(classes)]
    if class_path:
        arguments += ["-classpath", os.pathsep.join(map(str, class_path))]
    finished = subprocess.run(
        [*java_compiler(), *arguments, *map(str, sources)],
        capture_output=True,
        text=True,
        timeout=_COMPILE_SECONDS_MAX,
        check=False,
    )
    if finished.returncode == 0:
        return
    said = (finished.stderr + finished.stdout).strip()
    if "jdk.compiler not found" in said:
        raise NoJavaError(
            "This Java has no compiler (no javac and no module jdk.compiler). Install a JDK, for example the package "
            "openjdk-17-jdk-headless, or a wheel of sos-checkpoints that has the jar in it."
        )
    raise CompileError(f"The Java shim could not be compiled:\n{said}")


def java_compiler() -> list[str]:
    """The command that compiles: javac, or the compiler module that Debian's headless runtime has, too."""
    if javac := shutil.which("javac", path=_java_search_path()):
        return [javac]
    return [java_runtime(), "-m", "jdk.compiler/com.sun.tools.javac.Main"]


def java_runtime() -> str:
    """The java that Spark will run on. NoJavaError, which says more than PySpark does."""
    if java := shutil.which("java", path=_java_search_path()):
        return java
    raise NoJavaError(
        "There is no Java: neither JAVA_HOME nor PATH leads to one. Spark needs Java 17 or later, and a JDK (for "
        "example the package openjdk-17-jdk-headless) compiles the sos:// shim when it is first used."
    )


def _java_search_path() -> str:
    homes = [Path(home) / "bin" for home in (os.environ.get("JAVA_HOME"),) if home]
    return os.pathsep.join([*map(str, homes), os.environ.get("PATH", os.defpath)])


def _write_jar(stream: IO[bytes], classes: Path) -> None:
    """The shim's own classes and resources; the stubs stay out. The same classes give the same bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as jar:
        entries = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n", _SOURCES_MARK: sources_key().encode()}
        for path in sorted(classes.rglob("*.class")):
            name = path.relative_to(classes).as_posix()
            if name.startswith(_PACKAGE):
                entries[name] = path.read_bytes()
        for path in _resources():
            entries[path.relative_to(_RESOURCES).as_posix()] = path.read_bytes()
        for name, content in entries.items():
            jar.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)


def _built_from(jar: Path) -> str:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(_SOURCES_MARK).decode()
    except (zipfile.BadZipFile, KeyError):
        return ""


def _installed_spark() -> tuple[Path | None, str]:
    """Hadoop's jar and the version of the PySpark (or of the Spark in SPARK_HOME) that is there."""
    for jars in _spark_jar_folders():
        found = sorted(jars.glob("hadoop-client-api-*.jar"))
        core = sorted(jars.glob("spark-core_*.jar"))
        if found and core:
            return found[-1], core[-1].stem.rpartition("-")[2]
    return None, "any"


def _spark_jar_folders() -> list[Path]:
    folders = [Path(home) / "jars" for home in (os.environ.get("SPARK_HOME"),) if home]
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.submodule_search_locations:
        folders += [Path(location) / "jars" for location in spec.submodule_search_locations]
    return folders


def _cache_directory() -> Path:
    if sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "sos-checkpoints"
