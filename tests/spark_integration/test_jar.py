"""The jar: what is in it, which ways lead to it, what is said when there is no Java."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_integration import jar, with_sos_checkpoints
from tests.spark_integration.java_checks import spark_jars

_TRAITS = (
    "io/sos/spark/checkpointing/SosCheckpointFileManager.class",
    "io/sos/spark/streaming/SosCheckpointFileManager.class",
)


def _contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_stubs_give_the_same_classes_as_hadoops_own_jar(tmp_path: Path) -> None:
    (hadoop_jar,) = spark_jars().glob("hadoop-client-api-*.jar")
    jar.build_jar(tmp_path / "real.jar", hadoop_jar=hadoop_jar)
    jar.build_jar(tmp_path / "stubs.jar", hadoop_jar=None)
    real, stubs = _contents(tmp_path / "real.jar"), _contents(tmp_path / "stubs.jar")
    assert {name for name in real if real[name] != stubs.get(name)} == set()
    assert real.keys() == stubs.keys()


def test_jar_has_both_managers_and_nothing_of_spark() -> None:
    names = _contents(jar.jar_path()).keys()
    assert set(_TRAITS) <= names
    assert [name for name in names if name.endswith(".class") and not name.startswith("io/sos/")] == []


def test_jar_names_the_data_source_that_spark_looks_for() -> None:
    contents = _contents(jar.jar_path())
    provider = contents["META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"].decode().strip()
    assert f"{provider.replace('.', '/')}.class" in contents


def test_cached_jar_is_kept_by_two_processes_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", "from spark_integration.jar import jar_path; print(jar_path())"]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate(timeout=600)[0].strip() for process in both}
    assert len(paths) == 1
    assert [entry.name for entry in (tmp_path / "sos-checkpoints").iterdir()] == [Path(paths.pop()).name]


def test_packaged_jar_is_taken_only_if_it_is_of_these_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "spark_integration"
    package.mkdir()
    monkeypatch.setattr(jar, "__file__", str(package / "jar.py"))
    packaged = package / jar.JAR_NAME
    jar.build_jar(packaged, hadoop_jar=None)
    assert jar.jar_path() == packaged
    monkeypatch.setattr(jar, "sources_key", lambda: "other sources")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert jar.jar_path() != packaged


def test_no_java_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(jar.NoJavaError, match="openjdk-17-jdk-headless"):
        jar.java_compiler()


def test_no_java_is_told_before_anything_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(jar.NoJavaError, match="Spark needs Java 17"):
        with_sos_checkpoints(SparkSession.builder, volume="v", directory=tmp_path / "v")
    assert not (tmp_path / "v").exists()


def test_without_pyspark_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError(\"No module named 'pyspark'\", name='pyspark')\n")
    finished = subprocess.run(
        [sys.executable, "-c", "from spark_integration import with_sos_checkpoints"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'sos-checkpoints[spark]'" in finished.stderr.splitlines()[-1]


def test_java_without_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'java.lang.module.FindException: Module jdk.compiler not found' >&2\nexit 1\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin-that-is-not-there")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(jar.NoJavaError, match="no compiler"):
        jar.build_jar(tmp_path / "never.jar", hadoop_jar=None)
    assert not (tmp_path / "never.jar").exists()


def test_headless_runtime_compiles_with_the_compiler_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    javac = jar.java_compiler()
    module = [str(Path(javac[0]).resolve().parent / "java"), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    monkeypatch.setattr(jar, "java_compiler", lambda: module)
    jar.build_jar(tmp_path / "module.jar", hadoop_jar=None)
    assert set(_TRAITS) <= _contents(tmp_path / "module.jar").keys()


def _wheel(folder: Path, environment: dict[str, str]) -> set[str]:
    root = Path(jar.__file__).parents[1]
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(folder),
        str(root),
    ]
    subprocess.run(command, env=environment, check=True, timeout=600, stderr=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_wheel_has_the_jar_and_the_sources(tmp_path: Path) -> None:
    names = _wheel(tmp_path, dict(os.environ))
    assert f"spark_integration/{jar.JAR_NAME}" in names
    assert "spark_integration/java/src/io/sos/spark/SosFileSystem.java" in names


@pytest.mark.slow
def test_wheel_is_built_without_java_too(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    names = _wheel(tmp_path, environment | {"PATH": str(tmp_path)})
    assert f"spark_integration/{jar.JAR_NAME}" not in names
    assert "spark_integration/java/src/io/sos/spark/SosFileSystem.java" in names
