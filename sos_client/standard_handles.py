"""Standard input, output and error of a command that was started without some of them (`sos get … >&-`).

A closed one is the next that the system gives to a file or a socket, which would then be sent what was meant for it.
"""

from __future__ import annotations

import os

_USELESS_FLAGS = (os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)
"""For 0, 1 and 2: what opens the empty device so that using it fails, as using a closed handle does."""


def occupy_standard_handles() -> None:
    """To be called before anything else is opened."""
    for handle, flags in enumerate(_USELESS_FLAGS):
        try:
            os.fstat(handle)
        except OSError:
            taken = os.open(os.devnull, flags)
            assert taken == handle, "the system gives the lowest handle that is free"
