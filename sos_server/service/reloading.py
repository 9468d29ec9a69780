"""What SIGHUP changes in a running server, and what takes a restart. How each part takes it over is its own affair."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from sos_client.declarations import declared
from sos_server.config import SECTIONS

if TYPE_CHECKING:
    from sos_server.config import Settings

FIXED: Final = {
    section: {name for name, setting in declared(kind).items() if setting.fixed} for section, kind in SECTIONS.items()
}
"""Settings that hold from start to end."""


def fixed_changes(old: Settings, new: Settings) -> list[str]:
    """The settings that a reload cannot change and that are others now, as docs/operations.md calls them.

    Whether there are tokens or TLS at all is such a one; which files they are in is not.
    """
    changed = [
        f"{section}.{key}"
        for section, keys in FIXED.items()
        for key in sorted(keys)
        if getattr(getattr(old, section), key) != getattr(getattr(new, section), key)
    ]
    return changed + [
        f"access.{key}"
        for key in ("tokens", "certificate")
        if (getattr(old.access, key) is None) != (getattr(new.access, key) is None)
    ]


def reloaded(old: Settings, new: Settings) -> Settings:
    """The new settings, but the old ones for what takes a restart."""
    kept: dict[str, Any] = {
        section: dataclasses.replace(
            getattr(new, section), **{key: getattr(getattr(old, section), key) for key in FIXED.get(section, ())}
        )
        for section in SECTIONS
    }
    access = new
    if any(name.startswith("access.") for name in fixed_changes(old, new)):
        access = old
    kept["access"] = access.access
    fixed: dict[str, Any] = {name: getattr(old, name) for name in ("root", "listen", "metrics", "web")}
    return dataclasses.replace(new, tls=access.tls, **fixed, **kept)
