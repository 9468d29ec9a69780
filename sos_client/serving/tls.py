"""TLS for servers: a context from certificate files that can be loaded again while the server runs."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files: the server's certificate chain, its key, and, to ask clients for certificates, who may sign them."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


def tls_files(certificate: Path | None, key: Path | None, client_authority: Path | None = None) -> TlsFiles | None:
    """What settings or options name; None if nothing. SettingsError if only a part of what belongs together."""
    if certificate is None and key is None:
        if client_authority is not None:
            raise SettingsError("[access] client_authority: needs certificate and key")
        return None
    if certificate is None or key is None:
        raise SettingsError("TLS needs both a certificate (--tls-cert) and its key (--tls-key)")
    return TlsFiles(certificate=certificate, key=key, client_authority=client_authority)


class ServerTls:
    """The context for new connections. ``reload`` reads the files again; if unusable, the old context stays."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self.context = _context(files)

    def reload(self, files: TlsFiles | None = None) -> None:
        """The same files, or others. SettingsError, and nothing changes, when they cannot be used."""
        files = files or self._files
        self.context = _context(files)
        self._files = files


def _no_pass_phrase() -> str:
    """Instead of OpenSSL's own question on the terminal, which would hold up the server at a reload, too."""
    raise ValueError("the key has a pass phrase, which nobody can give here; keep it without (openssl pkey)")


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_pass_phrase)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"{files.certificate}, {files.key}: cannot use this certificate and key: {reason}"
        ) from error
    if files.client_authority is not None:
        try:
            context.load_verify_locations(files.client_authority)
        except OSError as error:
            raise SettingsError(f"{files.client_authority}: cannot use this authority: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context
