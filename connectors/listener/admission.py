"""Which source connectors may send: those that show the cookie, or, where there are tokens, a token as their cookie.

The protocol has one field for both. A token needs the right to append to the ingest volume.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from sos_client.serving.access import EVERYTHING, Right, TokenRefusedError
from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.names import parse_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_client.serving.access import AccessRules, Grant


class SourceAdmission:
    """`admit` a HELLO's cookie; `current` is what has become of a grant since."""

    def __init__(self, *, volume: str, cookie: bytes, access: AccessRules, wall_clock: Callable[[], float]) -> None:
        self._volume = volume
        self._cookie = cookie
        self._access = access
        self._wall_clock = wall_clock

    @property
    def by_token(self) -> bool:
        """Whether there are tokens."""
        return self._access.required

    def admit(self, cookie: bytes) -> Grant:
        """What the peer may do. ProtocolError says why it may not come in."""
        if not self._access.required:
            if not hmac.compare_digest(cookie, self._cookie):
                raise ProtocolError("the cookie is not the one of this listener (--cookie)")
            return EVERYTHING
        try:
            token = parse_token(cookie.decode("ascii", "replace")) if cookie else None
            grant = self._access.authenticate(token, now=self._wall_clock())
        except MisuseError:
            raise ProtocolError("this listener wants a token as the cookie: 64 hexadecimal digits") from None
        except TokenRefusedError as error:
            raise ProtocolError(f"{error}; a source shows its token as the cookie of HELLO") from None
        self._check_right(grant)
        return grant

    def current(self, grant: Grant) -> Grant:
        """The same after time has passed and tokens were read again. ProtocolError when it is not admitted any more."""
        now = self._access.current(grant, now=self._wall_clock()) if self._access.required else grant
        if now is None:
            raise ProtocolError("the token of this connection is no longer valid")
        self._check_right(now)
        return now

    def reload(self) -> None:
        """The tokens again. SettingsError, and nothing changes, when they are not in order."""
        self._access.reload()

    def _check_right(self, grant: Grant) -> None:
        if not grant.allows(Right.APPEND, self._volume):
            raise ProtocolError(f"token {grant.name!r} has no {Right.APPEND} right on volume {self._volume}")
