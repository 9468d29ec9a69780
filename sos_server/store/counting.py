"""How many objects and namespaces there may be. Each costs memory while it is there, with bytes or without, so that a
quota of bytes alone would let anybody who may append fill the memory with empty ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sos_client.wire.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from sos_server.storage.contents import Contents, StoredNamespace
    from sos_server.store.settings import StoreSettings


def check_one_more_object(namespace: StoredNamespace, contents: Contents, settings: StoreSettings) -> None:
    """RefusedError (QUOTA) when there is no place for a new object in this namespace."""
    used, most = len(namespace.objects) + len(namespace.making), settings.namespace_objects_max
    if used >= most:
        raise _too_many(
            used, most, "the namespace has", "objects", "delete sealed objects or raise storage.namespace_objects_max"
        )
    used, most = contents.object_count, settings.objects_max
    if used >= most:
        raise _too_many(
            used, most, "all namespaces together have", "objects", "delete sealed objects or raise storage.objects_max"
        )


def check_one_more_namespace(contents: Contents, settings: StoreSettings) -> None:
    """RefusedError (QUOTA) when there is no place for a new namespace."""
    used, most = len(contents.namespaces), settings.namespaces_max
    if used >= most:
        raise _too_many(
            used, most, "the server has", "namespaces", "use one that is there or raise storage.namespaces_max"
        )


def _too_many(used: int, most: int, who: str, what: str, remedy: str) -> RefusedError:
    return RefusedError(ErrorCode.QUOTA, f"{who} {used} of {most} possible {what}; {remedy}", used=used, quota=most)
