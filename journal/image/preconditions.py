"""Whether a change may be made, asked of the pending image before its record is written. Pure.

Each function raises the refusal, or says what is to be written. The rules are those of Hadoop's file systems where
Spark relies on them; the order of checks is fixed, so that the same situation gives the same answer in every process:
fenced first, since a driver that lost its checkpoint must learn that, whatever else is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, refused
from journal.image import nodes
from journal.image.image import PINS_MAX
from journal.image.nodes import Directory
from journal.image.path_claims import CLAIM_AHEAD_MS_MAX, bytes_of_claim, fenced_by
from journal.records.change import PinChange
from journal.records.paths import (
    COMPONENT_BYTES_MAX,
    DEPTH_MAX,
    PATH_BYTES_MAX,
    ROOT,
    check_path,
    is_within,
    name_of,
    parent_of,
)
from journal.records.record import Lsn
from journal.volume import PIN_SECONDS_MAX

if TYPE_CHECKING:
    from journal.image.image import Image
    from journal.image.nodes import PackedFile
    from journal.volume import PathClaim

FILES_MAX: Final = 10_000_000  # an index snapshot of them fits
_NEW_FILE_BYTES: Final = nodes.bytes_of_node("é" * COMPONENT_BYTES_MAX, bytes(nodes.ONE_EXTENT_FILE_BYTES))
_GROWTH_BYTES_MAX: Final = 256 << 10  # what one change may add: as many directories as a path has components
assert DEPTH_MAX * (nodes.DIRECTORY_BYTES + 2 * nodes.bytes_of_name("é")) + 8 * PATH_BYTES_MAX < _GROWTH_BYTES_MAX


def check_write(image: Image, path: str, *, overwrite: bool, claim: PathClaim | None) -> None:
    """A put or a commit.

    BAD_PATH, FENCED, IS_DIRECTORY, ALREADY_EXISTS, NOT_DIRECTORY (a file where a parent must be).
    """
    check_path(path)
    image.claims.check(path, claim)
    node = image.tree.node(path)
    if isinstance(node, Directory):
        raise refused(JournalCode.IS_DIRECTORY, f"{path or '/'} is a directory", path=path)
    if node is not None and not overwrite:
        raise refused(JournalCode.ALREADY_EXISTS, f"{path} exists already", path=path)
    if node is None:
        parent = parent_of(path)
        if not image.tree.has_lately(parent):
            _check_parents(image, path)
        _check_room(image, parent, own_bytes=_NEW_FILE_BYTES, files=1)


def check_in_place(image: Image, path: str, *, claim: PathClaim | None) -> PackedFile:
    """The file that an append or a truncate changes. BAD_PATH, FENCED, NOT_FOUND, IS_DIRECTORY."""
    check_path(path)
    image.claims.check(path, claim)
    node = nodes.find(image.tree.root, path)
    if node is None:
        raise refused(JournalCode.NOT_FOUND, f"there is nothing at {path or '/'}", path=path)
    if isinstance(node, Directory):
        raise refused(JournalCode.IS_DIRECTORY, f"{path or '/'} is a directory", path=path)
    return node


def check_append(
    image: Image, path: str, *, size: int | None, modified_ms: int | None, claim: PathClaim | None
) -> tuple[PackedFile, int]:
    """The file that is appended to, and its size.

    As `check_in_place`, and CHANGED if it is not of the size and time that are given (None: any).
    """
    file = check_in_place(image, path, claim=claim)
    now_ms, now_size = nodes.modified_ms_of(file), image.tree.size_of(file)
    if (size is not None and size != now_size) or (modified_ms is not None and modified_ms != now_ms):
        message = f"{path} is not the file of {size} bytes any more: it was appended to, or replaced, by somebody else"
        raise refused(JournalCode.CHANGED, message, path=path, modified_ms=now_ms)
    _check_room(image, parent_of(path), own_bytes=2 * nodes.EXTENT_BYTES)
    return file, now_size


def check_make_directories(image: Image, path: str, *, claim: PathClaim | None) -> bool:
    """Whether there is a directory to make. FENCED, NOT_DIRECTORY."""
    check_path(path)
    image.claims.check(path, claim)
    node = nodes.find(image.tree.root, path)
    if node is None:
        _check_parents(image, path)
        _check_room(image, path, own_bytes=0)
        return True
    if not isinstance(node, Directory):
        raise refused(JournalCode.NOT_DIRECTORY, f"{path} is a file", path=path)
    return False


def check_delete(image: Image, path: str, *, recursive: bool, claim: PathClaim | None) -> bool:
    """Whether there is something to delete. FENCED, NOT_EMPTY. Of the root, its content: it stays itself."""
    check_path(path)
    image.claims.check(path, claim, subtree=True)
    node = nodes.find(image.tree.root, path)
    if node is None:
        return False
    if isinstance(node, Directory) and node.children and not recursive:
        raise refused(JournalCode.NOT_EMPTY, f"{path or '/'} is not empty", path=path)
    return path != ROOT or bool(image.tree.root.children)


def check_rename(image: Image, source: str, target: str, *, overwrite: bool, claim: PathClaim | None) -> bool:
    """Whether there is something to move (not onto itself). FENCED, NOT_FOUND, BAD_REQUEST, ALREADY_EXISTS and more.

    BAD_PATH also when a path below `source` would be none below `target`: nobody could name that file any more, nor
    could housekeeping.
    """
    check_path(source)
    check_path(target)
    image.claims.check(source, claim, subtree=True)
    image.claims.check(target, claim, subtree=True)
    moved = nodes.find(image.tree.root, source)
    if moved is None:
        raise refused(JournalCode.NOT_FOUND, f"there is nothing at {source or '/'}", path=source)
    if source == target:
        return False
    if ROOT in (source, target) or is_within(target, source):
        raise refused(JournalCode.BAD_REQUEST, f"{source or '/'} cannot be moved to {target or '/'}", path=target)
    there = nodes.find(image.tree.root, target)
    if isinstance(there, Directory):
        raise refused(JournalCode.IS_DIRECTORY, f"{target} is a directory", path=target)
    if there is not None and not overwrite:
        raise refused(JournalCode.ALREADY_EXISTS, f"{target} exists already", path=target)
    if there is not None and isinstance(moved, Directory):
        raise refused(JournalCode.NOT_DIRECTORY, f"{target} is a file, {source} a directory", path=target)
    if there is None:
        _check_parents(image, target)
        longer_bytes = nodes.bytes_of_name(name_of(target)) - nodes.bytes_of_name(name_of(source))
        _check_room(image, parent_of(target), own_bytes=2 * longer_bytes)
    if isinstance(moved, Directory) and _reaches_further(target, source):
        _check_reach(target, moved)
    return True


def _reaches_further(target: str, source: str) -> bool:
    """Whether paths below `target` are longer than the same ones below `source`."""
    return len(target.encode()) > len(source.encode()) or target.count("/") > source.count("/")


def _check_reach(target: str, moved: Directory) -> None:
    longest, deepest = nodes.longest_below(moved)
    if len(target.encode()) + longest > PATH_BYTES_MAX or target.count("/") + 1 + deepest > DEPTH_MAX:
        raise refused(
            JournalCode.BAD_PATH,
            f"below {target} a path would have more than {PATH_BYTES_MAX} bytes or {DEPTH_MAX} components",
            path=target,
        )


def check_claim(image: Image, path: str, claim: PathClaim, *, now_ms: int, whose: str = "") -> bool:
    """Whether the claim is new; then it counts for `whose`. FENCED if a later one is known; BAD_REQUEST, TOO_LARGE.

    A claim from the future would lock every driver out until then. One on the root takes the whole volume, imports and
    forks included; whoever has it from before keeps it.
    """
    check_path(path)
    image.claims.check(path, claim)
    present = image.claims.of(path)
    if path == ROOT and present is None:
        raise refused(
            JournalCode.BAD_REQUEST,
            "a checkpoint at the root would take the whole volume: put it on a path below, as in sos://VOLUME/query",
        )
    if claim.start_time > now_ms + CLAIM_AHEAD_MS_MAX:
        ahead_seconds = (claim.start_time - now_ms) // 1000
        raise refused(
            JournalCode.BAD_REQUEST,
            f"the claim's start time is {ahead_seconds} s ahead of the service's clock: set the driver's clock, or the "
            "service's",
        )
    if present is None:
        image.claims.check_room(whose)
        _check_room(image, ROOT, own_bytes=bytes_of_claim(path, claim))
    if present != claim:
        image.claims.count_for(path, whose)
    return present != claim


def check_release(image: Image, path: str, claim: PathClaim) -> bool:
    """Whether there is this claim to end. FENCED if somebody else has claimed the path, however long ago."""
    check_path(path)
    present = image.claims.of(path)
    if present is not None and present != claim:
        raise fenced_by(path, present, f"its claim is not the one of application {claim.application}")
    return present is not None


def check_pin(
    image: Image, name: str, lsn: int, seconds: float, *, kept: range, now_ms: int, written_ms: int, whose: str = ""
) -> PinChange:
    """The pin to write; `kept`: the LSNs that can be read now. BAD_REQUEST, OUT_OF_RETENTION, TOO_LARGE.

    It ends this long after `now_ms`. `written_ms`: no record is given an earlier time, so the image will have no more
    pins than those that end after it. One client (`whose`) may have half of the room that the others leave.
    """
    if not 0 <= seconds <= PIN_SECONDS_MAX:
        raise refused(JournalCode.BAD_REQUEST, f"a pin holds for up to {PIN_SECONDS_MAX} seconds")
    if not seconds:
        return PinChange(name=name, lsn=Lsn(lsn), expires_ms=0)
    if lsn < kept.start:
        raise refused(JournalCode.OUT_OF_RETENTION, f"LSN {lsn} is older than what is kept")
    if lsn >= kept.stop:
        raise refused(JournalCode.BAD_REQUEST, f"LSN {lsn} is not reached yet")
    others = {pin.name for pin in image.pins.values() if pin.name != name and pin.expires_ms > written_ms}
    whose_others = {other: one for other, one in image.pins_whose.items() if other in others}
    own = sum(one == whose for one in whose_others.values())
    if len(others) >= PINS_MAX:
        raise refused(JournalCode.TOO_LARGE, f"there are {PINS_MAX} pins already; release some")
    if whose and own >= (PINS_MAX - (len(others) - own)) // 2:
        raise refused(
            JournalCode.TOO_LARGE,
            f"{own} pins were set with the token {whose!r}, which is half of the room for it; release some",
        )
    image.pins_whose = {**whose_others, name: whose} if whose else whose_others
    return PinChange(name=name, lsn=Lsn(lsn), expires_ms=now_ms + int(seconds * 1000))


def _check_room(image: Image, directory: str, *, own_bytes: int, files: int = 0) -> None:
    """TOO_LARGE if there is no room in memory for this much more in `directory`, and for what is missing of that."""
    if image.tree_bytes + _GROWTH_BYTES_MAX > image.tree_bytes_max:  # else there is room for whatever is missing
        missing = nodes.missing_directories(image.tree.root, directory)
        growth_bytes = own_bytes + len(missing) * nodes.DIRECTORY_BYTES + 2 * nodes.bytes_of_names(missing)
        if growth_bytes > 0 and image.tree_bytes + growth_bytes > image.tree_bytes_max:
            raise refused(
                JournalCode.TOO_LARGE,
                f"files, directories and claims of the volume take {image.tree_bytes} of the {image.tree_bytes_max} "
                "bytes that they may take of the service's memory, and there is no room for more: delete some, use "
                "another volume, or serve it with a larger --tree-bytes-max",
                path=directory,
            )
    if image.tree.file_count + files > FILES_MAX:
        raise refused(
            JournalCode.TOO_LARGE, f"the volume has {image.tree.file_count} files: delete some, or use another volume"
        )


def _check_parents(image: Image, path: str) -> None:
    file = nodes.file_in_the_way(image.tree.root, path)
    if file is not None:
        raise refused(
            JournalCode.NOT_DIRECTORY, f"{file} is a file, so {path} cannot be below it", path=parent_of(path)
        )
