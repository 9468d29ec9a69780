"""`make release`: the wheel and the source archive, looked into, installed into an empty environment, and tried there.

It uploads nothing and tags nothing. Everything that a person must decide is told at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from contextlib import contextmanager
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("sos", "sos-server", "sos-journal", "sos-connector")
IN_THE_WHEEL = (
    "journal/FORMAT.md",
    "sos_client/py.typed",
    "spark_integration/sos-spark.jar",
    "spark_integration/java/",
)
NOT_IN_THE_WHEEL = ("tests/", "tools/", "docs/")
SECONDS_MAX = 60


class ReleaseError(Exception):
    """What must be put right before there is a release."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the files go")
    parser.add_argument("--dirty", action="store_true", help="although something is not committed")
    arguments = parser.parse_args()
    try:
        release(arguments.dist.absolute(), dirty=arguments.dirty)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


def release(dist: Path, *, dirty: bool) -> None:
    """Every step in order; ReleaseError at the first that is not as it must be."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    notes = notes_of(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    changed = _run("git", "status", "--porcelain")
    if changed and not dirty:
        raise ReleaseError(f"commit first (or --dirty, for a try):\n{changed}")
    say(f"building {version}")
    dist.mkdir(parents=True, exist_ok=True)
    wheel, source = built(dist, version)
    check_wheel(wheel, version)
    check_source(source)
    say("installing it into an empty environment")
    with tempfile.TemporaryDirectory(prefix="sos-release-") as folder:
        home = Path(folder)
        commands = installed(wheel, home / "venv")
        smoke_test(commands, home, version)
    (dist / f"NOTES-{version}.md").write_text(notes, encoding="utf-8")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in (wheel, source))
    (dist / "SHA256SUMS").write_text(sums, encoding="utf-8")
    say(f"all is well: {wheel.name}, {source.name}, SHA256SUMS and NOTES-{version}.md in {dist}")
    say(f"left to a person: the date in CHANGELOG.md, `git tag v{version}`, and where to put the files")


def notes_of(version: str, changelog: str) -> str:
    """What the changelog says of this version. ReleaseError if that is nothing."""
    found = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", changelog, flags=re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md says nothing of {version}")
    if "### Formats" not in found[1]:
        raise ReleaseError(f"CHANGELOG.md has no heading Formats for {version}: operators look there before an upgrade")
    return f"# SOS {version}\n\n{found[1].strip()}\n"


def check_wheel(wheel: Path, version: str) -> None:
    """What must be in it is, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = Parser().parsestr(archive.read(f"sos_checkpoints-{version}.dist-info/METADATA").decode())
    for wanted in (*IN_THE_WHEEL, f"sos_checkpoints-{version}.dist-info/licenses/LICENSE"):
        if not any(name.startswith(wanted) for name in names):
            raise ReleaseError(f"{wanted} is not in {wheel.name}")
    strays = [name for name in names if name.startswith(NOT_IN_THE_WHEEL)]
    if strays:
        raise ReleaseError(f"{strays[:3]} are in {wheel.name}")
    for field in ("Version", "License-Expression", "Author", "Summary", "Requires-Python", "Classifier"):
        if not metadata[field]:
            raise ReleaseError(f"{wheel.name} says nothing of its {field}")


def check_source(source: Path) -> None:
    """It can be built and tested from."""
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in ("LICENSE", "CHANGELOG.md", "Makefile", "hatch_build.py", "tests/test_tidy.py"):
        if wanted not in names:
            raise ReleaseError(f"{wanted} is not in {source.name}")


def installed(wheel: Path, environment: Path) -> Path:
    """A virtual environment with the wheel and what it needs, nothing else; the folder of its commands."""
    venv.create(environment, with_pip=True)
    commands = environment / "bin"
    _run(str(commands / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    return commands


def smoke_test(commands: Path, home: Path, version: str) -> None:
    """Server, service and tools, as they were installed, with a file in between."""
    for command in COMMANDS:
        said = _run(str(commands / command), "--version")
        if version not in said:
            raise ReleaseError(f"{command} --version says {said!r}")
    (home / "in").mkdir()
    (home / "in" / "greeting").write_text("hello\n")
    journal = str(commands / "sos-journal")
    serving = (str(commands / "sos-server"), "--root", str(home / "data"), "--listen", "127.0.0.1:0")
    with running(*serving, log=home / "server.log") as server:
        _run(journal, "create", "trial", "--servers", server)
        options = ("--servers", server, "--dir", str(home / "cache"), "--listen", "127.0.0.1:0")
        with running(journal, "serve", "--volume", "trial", *options, log=home / "service.log") as service:
            _run(journal, "import", str(home / "in"), "sos://trial/first", "--service", service)
            said = _run(journal, "cat", "sos://trial/first/greeting", "--service", service)
            if said != "hello":
                raise ReleaseError(f"sos-journal cat says {said!r}")
            _run(journal, "status", "trial", "--service", service)
    say("server, service and tools run from the installed wheel")


@contextmanager
def running(*command: str, log: Path) -> Iterator[str]:
    """A process that says `ready HOST:PORT`; the address. It must end in order."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=_environment())
    assert process.stdout is not None
    try:
        said = process.stdout.readline().split()
        if said[:1] != ["ready"]:
            raise ReleaseError(f"{command[0]} did not start:\n{log.read_text()}")
        yield said[1]
        process.send_signal(signal.SIGTERM)
        if process.wait(SECONDS_MAX) != 0:
            raise ReleaseError(f"{command[0]} ended with {process.returncode}:\n{log.read_text()}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def built(dist: Path, version: str) -> tuple[Path, Path]:
    """The wheel and the source archive."""
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(dist))
    wheel, source = dist / f"sos_checkpoints-{version}-py3-none-any.whl", dist / f"sos_checkpoints-{version}.tar.gz"
    if not (wheel.exists() and source.exists()):
        raise ReleaseError(f"the build left no {wheel.name} and {source.name} in {dist}")
    return wheel, source


def _run(*command: str) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    """As a stranger's: nothing of this tree on Python's path, no address or token of a running service."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SOS_", "PYTHON"))}


def say(text: str) -> None:
    sys.stdout.write(f"release: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
