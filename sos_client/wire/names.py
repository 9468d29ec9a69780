"""What a namespace or an object may be called, and how a token looks as text. Names become file names on the server."""

from __future__ import annotations

import re
from typing import Final

from sos_client.wire.errors import ErrorCode, MisuseError, RefusedError
from sos_client.wire.limits import NAME_BYTES_MAX, TEXT_BYTES_MAX, TOKEN_BYTES

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_TOKEN: Final = re.compile(rf"[0-9a-fA-F]{{{2 * TOKEN_BYTES}}}", re.ASCII)
_SHOWN_MAX: Final = TEXT_BYTES_MAX // 8


def check_name(name: str) -> str:
    """The name itself, or RefusedError(BAD_NAME). No name begins with a dot or has a slash, so none makes a path."""
    if len(name) <= NAME_BYTES_MAX and _NAME.fullmatch(name):
        return name
    raise RefusedError(ErrorCode.BAD_NAME, name=name[:_SHOWN_MAX].encode("utf-8", "replace").decode())


def parse_token(text: str) -> bytes:
    """The 32 bytes of a token written as 64 hexadecimal digits; MisuseError (not showing it) for anything else."""
    if not _TOKEN.fullmatch(text.strip()):
        raise MisuseError(f"a token is {2 * TOKEN_BYTES} hexadecimal digits")
    return bytes.fromhex(text.strip())
