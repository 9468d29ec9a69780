"""What a program shows and trusts when it connects: the token that it was given, and the context for TLS.

Errors are MisuseError: whoever started the program has to change an option, a variable or a file.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from sos_client.wire.errors import MisuseError
from sos_client.wire.names import parse_token


def token_of(file: Path | None, text: str | None = None) -> bytes | None:
    """The token that was given as text or in the file, else the one in SOS_TOKEN or in the file SOS_TOKEN_FILE."""
    if not text and file is None:
        text = os.environ.get("SOS_TOKEN", "").strip()
        named = os.environ.get("SOS_TOKEN_FILE")
        file = Path(named) if named else None
    if text:
        return parse_token(text)
    if file is None:
        return None
    try:
        return parse_token(file.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError, MisuseError) as error:
        raise MisuseError(f"{file}: cannot be read as a token: {error}") from error


def tls_context(
    authorities: Path | None, *, wanted: bool, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext | None:
    """How to speak TLS, or None. A certificate is shown to the server; its key may be in the same file."""
    if key is not None and certificate is None:
        raise MisuseError("--tls-key is of no use without --tls-cert")
    if not (wanted or authorities or certificate):
        return None
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(str(path) for path in (authorities, certificate, key) if path)
        raise MisuseError(f"{files}: cannot be used for TLS: {error.strerror or error}") from error
    return context
