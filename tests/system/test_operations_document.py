"""What README.md and docs/operations.md tell people to type does what it says, TLS and tokens too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.system.ports import free_port
from tests.system.server_process import ServerProcess, serving

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"


def shell_block(containing: str) -> str:
    blocks: list[str] = re.findall(r"^```\n(.*?)^```$", DOCUMENT.read_text(), flags=re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if containing in block)


def typed(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as a person would, in a shell that finds the installed commands."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell, environment = ["bash", "-eu"], {"PATH": path, "HOME": str(directory)}
    return subprocess.run(
        shell, input=script, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


def test_tls_and_tokens_by_copy_and_paste(tmp_path: Path) -> None:
    block = shell_block("openssl req")
    assert block.endswith("sos-server --config sos.toml\n")
    made = typed(block.removesuffix("sos-server --config sos.toml\n"), tmp_path)
    assert made.returncode == 0, made.stderr
    home = tmp_path / "sos"
    port = free_port()
    config = home / "sos.toml"
    config.write_text(config.read_text().replace("0.0.0.0:7400", f"127.0.0.1:{port}").replace(":9400", ":0"))
    server = ServerProcess(tmp_path, "--config", str(config), port=port)
    server.start()
    try:
        client = shell_block("export SOS_SERVER").replace("localhost:7400", f"localhost:{port}")
        asked = typed(f"{client}\nsos get test/greeting\n", home)
        assert (asked.returncode, asked.stdout.splitlines()[-1]) == (0, "hello"), asked.stderr
        stranger = typed(f"sos ping --server localhost:{port} --tls-ca server.crt", home)
        assert stranger.returncode == 6
        assert "token" in stranger.stderr
    finally:
        server.kill()


def test_three_servers_and_a_service_with_tls_by_copy_and_paste(tmp_path: Path) -> None:
    """All that the section has people type, in one shell, with a home of its own and on ports that are free here."""
    section = DOCUMENT.read_text().partition("## Three servers")[2].partition("\n## ")[0]
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL))
    ports = {number: free_port() for number in ("7401", "7402", "7403", "7420")}
    case = " ".join(f"{number[-1]}) port={port};;" for number, port in ports.items() if number != "7420")
    script = script.replace("    sos-server --root", f"    case $n in {case} esac\n    sos-server --root")
    script = script.replace("0.0.0.0:740$n", "0.0.0.0:$port")
    for number, port in ports.items():
        script = script.replace(f":{number}", f":{port}")
    try:
        done = typed(script, tmp_path)
    finally:
        for path in (tmp_path / "sos-tls").glob("*.pid"):
            subprocess.run(["kill", "-9", path.read_text().strip()], check=False, stderr=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "forked" in done.stdout
    assert re.search(r"verdict +OK", done.stdout), done.stdout
    assert f"localhost:{ports['7420']}" in done.stdout.partition("verdict")[2]  # Spark's settings
    assert "(from profile trial)" in done.stderr


def test_the_readmes_first_steps(tmp_path: Path) -> None:
    readme = (DOCUMENT.parent.parent / "README.md").read_text()
    blocks: list[str] = re.findall(r"^```sh\n(.*?)^```$", readme, flags=re.MULTILINE | re.DOTALL)
    first = next(number for number, block in enumerate(blocks) if block.endswith("sos-server --root sos-data\n"))
    with serving(tmp_path) as server:
        # As if installed already, and on a port that is free here.
        steps = blocks[first + 1].replace(". ~/sos-venv/bin/activate\n", "").replace("127.0.0.1:7400", server.address)
        done = typed(f"export SOS_SERVER={server.address}\n{steps}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "crc32c:" in done.stdout
    assert "made volume payments" in done.stdout
