"""What is started beside a driver reaches the SOS servers that it was told of."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import trustme

from sos_client.serving.access import Access, Right, append_token, new_token
from spark_integration.beside_driver import LOOPBACK, Wanted, start_beside_driver
from spark_integration.pipelines.service_process import ServiceProcess

if TYPE_CHECKING:
    from pathlib import Path


def test_a_service_uses_servers_with_tls_and_tokens(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert(LOOPBACK)
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    token, grant = new_token(name="journal", namespaces=("v",), rights=frozenset(Right), expires=None)
    append_token(tmp_path / "tokens.toml", grant)
    (tmp_path / "token").write_text(token)
    files = ["--tls-cert", "server.pem", "--tls-key", "server.pem", "--tokens", "tokens.toml"]
    command = [sys.executable, "-m", "sos_server", "serve", "--root", str(tmp_path / "root")]
    command += [word if word.startswith("-") else str(tmp_path / word) for word in files]
    server = ServiceProcess.start(command, tmp_path / "server.log")
    try:
        create = [sys.executable, "-m", "journal", "create", "v", "--servers", server.address]
        create += ["--tls-ca", str(tmp_path / "ca.pem"), "--token-file", str(tmp_path / "token")]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        beside = start_beside_driver(
            Wanted(
                volume="v",
                servers=(server.address,),
                server_token=token,
                server_authorities=authority.cert_pem.bytes().decode(),
                directory=tmp_path / "beside",
                host=LOOPBACK,
            )
        )
        try:
            ask = [sys.executable, "-m", "journal", "ls", "sos://v", "--service", beside.address]
            subprocess.run(ask, check=True)
        finally:
            beside.stop()
    finally:
        server.stop()


_SECOND = """
import sys
from pathlib import Path
from spark_integration.beside_driver import BesideDriverError, Wanted, start_beside_driver
try:
    start_beside_driver(
        Wanted(volume="v", servers=(), server_token=None, server_authorities=None, directory=Path(sys.argv[1]),
               host="localhost")
    )
except BesideDriverError as error:
    print(error)
"""


def test_a_second_driver_in_the_same_directory_takes_nothing_from_the_first(tmp_path: Path) -> None:
    wanted = Wanted(
        volume="v", servers=(), server_token=None, server_authorities=None, directory=tmp_path, host="localhost"
    )
    beside = start_beside_driver(wanted)
    try:
        second = [sys.executable, "-c", _SECOND, str(tmp_path)]
        told = subprocess.run(second, capture_output=True, text=True, check=True).stdout
        assert "another process owns this directory" in told
        assert beside.credentials is not None
        # What a service that is started again would read.
        access = Access(beside.credentials.tokens_file)
        assert access.authenticate(bytes.fromhex(beside.credentials.token), now=0).reaches("v")
        assert beside.credentials.certificate_file.read_text() == beside.credentials.certificate
    finally:
        beside.stop()
