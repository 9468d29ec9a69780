"""The image, built by a real engine (buildah, which needs no daemon) on a base that is made here, and what runs in it.

For who has minutes: `make soak`, or `pytest -m soak tests/deploy/test_image.py`, as root, with Debian's buildah and
debootstrap. The base is Debian's own Python instead of python:3.12-slim, which would come from a registry.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.deployed import DEPLOY

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = ("buildah", "debootstrap")
BASE = "localhost/base"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP = f"[global]\ncert = {AUTHORITIES}\n"
TRIED = """
set -eu
test "$(id -u)" = 10001
sos-server --root /var/lib/sos/data --listen 127.0.0.1:0 --web 127.0.0.1:7481 > /tmp/ready 2> /tmp/log & server=$!
for _ in $(seq 600); do [ -s /tmp/ready ] && break; sleep 0.1; done
[ -s /tmp/ready ] || { cat /tmp/log >&2; exit 1; }
export SOS_SERVER=$(cut -d' ' -f2 /tmp/ready)
echo hello | sos put scratch/greeting > /dev/null
test "$(sos get scratch/greeting 2> /dev/null)" = hello
healthy 127.0.0.1:7481
sos-journal create payments --servers "$SOS_SERVER" > /dev/null
for written in /opt/sos/bin/sos /usr/local/bin/healthy /etc/passwd; do
    ! [ -w "$written" ] || { echo "$written can be written"; exit 1; }
done
kill -TERM $server && wait $server
! healthy 127.0.0.1:7481 2> /dev/null
echo all of it
"""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)), reason="as root, with buildah"),
]


@dataclass
class Engine:
    """buildah, with images of its own."""

    storage: Path

    def __call__(self, *words: str) -> str:
        places = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        command = ["buildah", "--storage-driver=vfs", *places, *words]
        done = subprocess.run(command, cwd=DEPLOY.parent, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    def inspect(self, image: str) -> Any:
        return json.loads(self("inspect", "--type", "image", image))["Docker"]["config"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("engine")
    engine, base = Engine(folder), folder / "base"
    made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(base)]
    done = subprocess.run(made, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        pytest.skip(f"no base: {done.stdout[-300:]}")
    (base / "etc" / "pip.conf").write_text(PIP)
    shutil.copyfile(AUTHORITIES, base / AUTHORITIES.relative_to("/"))
    container = engine("from", "scratch")
    engine("add", "--quiet", container, str(base), "/")
    engine("commit", "--quiet", container, BASE)
    engine("rm", container)
    shutil.rmtree(base)
    yield engine
    engine("rm", "--all")
    engine("rmi", "--all", "--force")


def test_it_is_built_and_what_is_in_it_works(engine: Engine) -> None:
    where = ["--isolation=chroot", "--network=host", "--format=docker"]
    definition = str(DEPLOY / "container" / "Containerfile")
    arguments = ["--build-arg", f"PYTHON={BASE}", "--target", "sos", "--file", definition, "--tag", "localhost/sos"]
    engine("bud", *where, *arguments, str(DEPLOY.parent))
    config = engine.inspect("localhost/sos")
    assert config["User"] == "10001:10001"
    assert config["Cmd"][0] == "sos-server"
    assert config["Healthcheck"]["Test"] == ["CMD", "healthy", "127.0.0.1:7480"]
    assert list(config["Volumes"]) == ["/var/lib/sos"]
    container = engine("from", "--pull-never", "--ulimit=nofile=8192:8192", "localhost/sos")
    said = engine("run", "--isolation=chroot", "--network=host", container, "--", "sh", "-c", TRIED)
    assert said.splitlines()[-1] == "all of it"
    assert engine("run", "--isolation=chroot", container, "--", "sh", "-c", "command -v java || echo none") == "none"
