"""What may be shown of a claim's holder, which is a secret: who knows it, and may append, can write under the claim."""

from __future__ import annotations

import hashlib
from typing import Final

from sos_client.wire.limits import IDENTITY_BYTES

SHOWN_OF: Final = b"SOS holder "


def shown_holder(holder: bytes) -> bytes:
    """What tells this holder from others and gives nobody its claim; of the same length. Nobody's is shown as it is."""
    return hashlib.sha256(SHOWN_OF + holder).digest()[:IDENTITY_BYTES] if holder else holder
