"""Text from outside as it may be shown: in a log, a table, JSON. Nothing of it can move a cursor or turn a line around.

Names, addresses and sentences come from peers and files. Control characters, those that change the direction of what
follows, line separators and the like are written as JSON writes them, so that JSON stays JSON.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with everything that is not a visible character or a space escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
