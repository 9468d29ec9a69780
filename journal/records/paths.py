"""The one spelling of a path inside a volume. Pure: no os.path, no URL, no working directory.

A path is relative to the volume's root, its components joined by "/": `q1/offsets/7`; the root itself is "".
There is no leading or trailing slash, no empty component, no "." and no "..", so that a path is a key: two different
strings are two different files.
"""

from __future__ import annotations

from journal.errors import JournalCode, refused

PATH_BYTES_MAX = 4096  # Linux's PATH_MAX: what is stored can be restored to a plain directory
COMPONENT_BYTES_MAX = 255  # NAME_MAX, for the same reason
DEPTH_MAX = 128  # far beyond Spark's state layout (about 8); keeps walks of a tree short
ROOT = ""
SCRATCH_PREFIX = ".sos-new-"  # where a tree is written before it is renamed to its place; nothing there counts


def check_path(path: str) -> str:
    """The path, if it is spelled as a path of a volume must be. RefusedByVolumeError (BAD_PATH) otherwise."""
    if path == ROOT:
        return path
    # Nearly all paths are plain, and no component begins with a dot; the exact reason is worked out for a bad one only.
    plain = len(path) <= COMPONENT_BYTES_MAX and path.isascii() and "\0" not in path and path.count("/") < DEPTH_MAX
    if plain and "//" not in path and "/." not in path and path[0] not in "/." and path[-1] != "/":
        return path
    reason = _fault(path, path.split("/"))
    if reason is not None:
        raise refused(JournalCode.BAD_PATH, f"{_shown(path)} is not a path of a volume: {reason}", path=_shown(path))
    return path


def _fault(path: str, components: list[str]) -> str | None:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "it cannot be written as UTF-8"
    if size > PATH_BYTES_MAX:
        return f"it is longer than {PATH_BYTES_MAX} bytes"
    if len(components) > DEPTH_MAX:
        return f"it has more than {DEPTH_MAX} components"
    if "\0" in path:
        return "it contains a zero byte"
    if "" in components:
        return "it has an empty component (no slash at the start or the end, no two in a row)"
    if "." in components or ".." in components:
        return "it contains '.' or '..'"
    if any(len(component.encode()) > COMPONENT_BYTES_MAX for component in components):
        return f"a component is longer than {COMPONENT_BYTES_MAX} bytes"
    return None


def _shown(path: str) -> str:
    shortened = path if len(path) <= 200 else path[:200] + "…"
    return ascii(shortened)


def parent_of(path: str) -> str:
    """The directory that a path lies in; the root's parent is the root."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """The last component of a path."""
    return path.rpartition("/")[2]


def is_within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies somewhere below it."""
    return directory == ROOT or path == directory or path.startswith(directory + "/")


def join(directory: str, name: str) -> str:
    """The path of `name` in `directory`."""
    return f"{directory}/{name}" if directory else name
