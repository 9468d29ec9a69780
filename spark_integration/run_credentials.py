"""A token for one run, so that nobody else on this host can use what runs beside the driver; and a certificate, if
executors on other hosts must reach it.

They are made when the driver starts, live in files that only its user may read, and are worth nothing after it.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sos_client.serving.access import Right, append_token, new_token

if TYPE_CHECKING:
    from pathlib import Path

RELAY_VOLUME: Final = "relay"
"""What a relay calls what is staged with it (connectors/relay/STAGING.md)."""
VALIDITY: Final = timedelta(days=365)
"""A streaming query may run for months; a run that outlasts this must be restarted."""
_CLOCK_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCredentials:
    """What the service needs (files) and what its clients need (texts)."""

    tokens_file: Path
    token_file: Path
    token: str = field(repr=False)
    certificate: RunCertificate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCertificate:
    """As files for the service, as text for clients to trust."""

    file: Path
    key_file: Path
    text: str


def make_run_credentials(
    folder: Path, *, volume: str, certified_host: str | None, ingest_volume: str | None = None
) -> RunCredentials:
    """A token with every right on the volumes and on what a relay is given, and a self-signed certificate for the host,
    if any, in new files.
    """
    token, grant = new_token(
        name="this run",
        namespaces=(volume, f"{volume}.shard-*", RELAY_VOLUME, *([ingest_volume] if ingest_volume is not None else ())),
        rights=frozenset(Right),
        expires=(datetime.now(UTC) + VALIDITY).timestamp(),
    )
    tokens_file = folder / "tokens.toml"
    tokens_file.unlink(missing_ok=True)
    append_token(tokens_file, grant)
    return RunCredentials(
        tokens_file=tokens_file,
        token_file=private_file(folder / "token", token.encode("ascii")),
        token=token,
        certificate=None if certified_host is None else _run_certificate(folder, certified_host),
    )


def _run_certificate(folder: Path, host: str) -> RunCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(key, host).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return RunCertificate(
        file=private_file(folder / "certificate.pem", certificate),
        key_file=private_file(folder / "key.pem", private),
        text=certificate.decode("ascii"),
    )


def _certificate(key: ec.EllipticCurvePrivateKey, host: str) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sos-journal of one run")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    return builder.sign(key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def private_file(path: Path, content: bytes) -> Path:
    """A new file that only its user may read; one of this name is replaced."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
    return path
