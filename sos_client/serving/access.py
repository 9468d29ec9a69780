"""Who may do what: tokens, kept hashed in a TOML file, and the rights that each of them grants.

A token is 32 random bytes, so one round of SHA-256 hides it as well as a slow password hash would. This module decides;
it neither logs nor talks to the peer.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from sos_client.settings import SettingsError, read_settings

if TYPE_CHECKING:
    from pathlib import Path

TOKEN_BYTES: Final = 32
TOKENS_MAX: Final = 10_000
"""Every attempt is compared with every token, in constant time: 10,000 cost about 5 ms."""

_KEYS: Final = {"name", "sha256", "namespaces", "rights", "expires"}


class Right(StrEnum):
    READ = "read"
    APPEND = "append"
    FENCE = "fence"
    DELETE = "delete"


class TokenRefusedError(Exception):
    """The peer may not come in; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one token allows: rights, on the namespaces that match one of its globs, until it expires."""

    name: str
    sha256: bytes
    namespaces: tuple[str, ...]
    rights: frozenset[Right]
    expires: float | None = None

    def reaches(self, namespace: str) -> bool:
        return any(fnmatchcase(namespace, glob) for glob in self.namespaces)

    def allows(self, right: Right, namespace: str) -> bool:
        return right in self.rights and self.reaches(namespace)

    def expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


EVERYTHING: Final = Grant(name="anyone", sha256=b"", namespaces=("*",), rights=frozenset(Right))
"""What a server without a tokens file grants; it listens on loopback only, unless told to be insecure."""


class AccessRules:
    """The tokens that are valid now; ``reload`` reads the file again (the old tokens stay when it is not in order).

    Whether tokens are needed at all is decided once.
    """

    def __init__(self, tokens_path: Path | None) -> None:
        self._path = tokens_path
        self._grants: tuple[Grant, ...] = ()
        self.reload()

    @property
    def required(self) -> bool:
        return self._path is not None

    def reload(self, tokens_path: Path | None = None) -> None:
        """From the same file, or another. SettingsError, and nothing changes, when it cannot be read or is wrong."""
        if self._path is not None:
            path = tokens_path or self._path
            self._grants = read_tokens(path)
            self._path = path

    def authenticate(self, token: bytes | None, *, now: float) -> Grant:
        """The grant of this token. TokenRefusedError when it is missing, unknown or expired."""
        if self._path is None:
            return EVERYTHING
        if token is None:
            raise TokenRefusedError("this server needs a token, and none was given (set SOS_TOKEN)")
        digest = hashlib.sha256(token).digest()
        found: Grant | None = None
        for grant in self._grants:  # to the end, also after a match: the time taken says nothing
            if hmac.compare_digest(grant.sha256, digest):
                found = grant
        if found is None:
            raise TokenRefusedError("this server does not know the token")
        if found.expired(now):
            raise TokenRefusedError(f"the token {found.name!r} has expired: ask for a new one")
        return found

    def current(self, grant: Grant, *, now: float) -> Grant | None:
        """What that grant has become: None when its token was taken out of the file or has expired."""
        if self._path is None:
            return grant
        for candidate in self._grants:
            if hmac.compare_digest(candidate.sha256, grant.sha256):
                return None if candidate.expired(now) else candidate
        return None


def new_token(
    *, name: str, namespaces: tuple[str, ...], rights: frozenset[Right], expires: float | None
) -> tuple[str, Grant]:
    """A fresh token as text (64 hex digits, to be shown once) and what the tokens file keeps of it."""
    token = secrets.token_bytes(TOKEN_BYTES)
    digest = hashlib.sha256(token).digest()
    return token.hex(), Grant(name=name, sha256=digest, namespaces=namespaces, rights=rights, expires=expires)


def append_token(path: Path, grant: Grant) -> None:
    """Add a grant at the end of the tokens file (made, readable by its owner only, when there is none).

    SettingsError, and nothing is written, when a server would not take the file with it.
    """
    text = toml_of(grant)
    _grants_of(tomllib.loads(text), path)
    if path.exists():
        known = read_tokens(path)
        if any(existing.name == grant.name for existing in known):
            raise SettingsError(f"{path}: there is a token named {grant.name!r} already; choose another name")
        text = "\n" + text
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def toml_of(grant: Grant) -> str:
    lines = [
        "[[token]]",
        f"name = {_quoted(grant.name)}",
        f"sha256 = {_quoted(grant.sha256.hex())}",
        f"namespaces = [{', '.join(_quoted(glob) for glob in grant.namespaces)}]",
        f"rights = [{', '.join(_quoted(right) for right in sorted(grant.rights))}]",
    ]
    if grant.expires is not None:
        lines.append(f"expires = {_date(grant.expires)}")
    return "\n".join(lines) + "\n"


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError) as error:  # by how far it is out of range
        raise SettingsError("a token cannot expire then: there is no year after 9999") from error


def _quoted(text: str) -> str:
    if not text.isprintable() or '"' in text or "\\" in text:
        raise SettingsError(f"{text!r} has characters that a tokens file does not take")
    return f'"{text}"'


def read_tokens(path: Path) -> tuple[Grant, ...]:
    """The grants of a tokens file. SettingsError names the file, the entry and what is allowed."""
    return _grants_of(read_settings(path, what="tokens"), path)


def _grants_of(document: dict[str, Any], path: Path) -> tuple[Grant, ...]:
    entries = document.pop("token", [])
    if document or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SettingsError(f"{path}: a tokens file has [[token]] entries and nothing else")
    if len(entries) > TOKENS_MAX:
        raise SettingsError(f"{path}: {len(entries)} tokens; at most {TOKENS_MAX} are possible")
    grants = tuple(_grant(entry, where=f"{path}: token {number}") for number, entry in enumerate(entries, start=1))
    if len({grant.name for grant in grants}) != len(grants):
        raise SettingsError(f"{path}: two tokens have the same name")
    return grants


def _grant(entry: dict[str, Any], *, where: str) -> Grant:
    unknown = set(entry) - _KEYS
    if unknown:
        raise SettingsError(f"{where}: unknown key {sorted(unknown)[0]!r}; allowed are {', '.join(sorted(_KEYS))}")
    return Grant(
        name=_name(entry.get("name"), where),
        sha256=_digest(entry.get("sha256"), where),
        namespaces=_globs(entry.get("namespaces"), where),
        rights=_rights(entry.get("rights"), where),
        expires=_expires(entry.get("expires"), where),
    )


def _name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise SettingsError(f"{where}: name must be a text, for the log (it is not a secret)")
    return value


def _digest(value: object, where: str) -> bytes:
    try:
        digest = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise SettingsError(f"{where}: sha256 must be the 64 hex digits of the token's SHA-256")
    return digest


def _globs(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(glob, str) and glob for glob in value):
        raise SettingsError(f'{where}: namespaces must be a list of names or globs, such as ["payments", "test-*"]')
    return tuple(value)


def _rights(value: object, where: str) -> frozenset[Right]:
    allowed = {str(right) for right in Right}
    if not isinstance(value, list) or not value or not all(isinstance(right, str) for right in value):
        raise SettingsError(f"{where}: rights must be a list of {', '.join(Right)}")
    for right in value:
        if right not in allowed:
            raise SettingsError(f"{where}: unknown right {right!r}; allowed are {', '.join(Right)}")
    return frozenset(Right(right) for right in value)


def _expires(value: object, where: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise SettingsError(f"{where}: expires must be a date and time with a zone, such as 2030-01-31T12:00:00Z")
    return value.timestamp()
