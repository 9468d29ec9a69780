"""The image against a model that anyone can check: a dict of files and a set of directories."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.errors import DamagedJournalError, JournalCode, JournalError, RefusedByVolumeError
from journal.image.image import Image
from journal.image.index_snapshot import decode_snapshot, encode_snapshot
from journal.image.preconditions import check_delete, check_make_directories, check_rename, check_write
from journal.records.change import (
    AbandonChange,
    AppendChange,
    Change,
    ChunkChange,
    ClaimChange,
    CommitChange,
    DeleteChange,
    MakeDirectoryChange,
    MarkChange,
    PinChange,
    PutChange,
    ReleaseChange,
    RelocateChange,
    RenameChange,
    TrimChange,
    TruncateChange,
)
from journal.records.record import FIRST_LSN, NO_CLIENT, Kind, Lsn, RecordHeader, encode_record
from journal.records.segment import SegmentReader, parse_segment_name
from journal.volume import FileStatus, OperationId
from sos_client.wire.checksum import crc32c
from tests.journal.histories import FIRST_TIME_MS, History


@dataclass
class Written:
    """A log and the image that its records make, each read back from bytes."""

    history: History = field(default_factory=History)
    image: Image = field(default_factory=Image)

    def __post_init__(self) -> None:
        self.open_segment(epoch=1)

    def open_segment(self, *, epoch: int | None = None, paused_ms: int = 0) -> None:
        self.history.open_segment(epoch=epoch, paused_ms=paused_ms)
        self._apply_last()

    def add(
        self, change: Change, payload: bytes = b"", *, client: bytes = NO_CLIENT, sequence: int = 0
    ) -> RecordHeader:
        header = self.history.add(change, payload, client=client, sequence=sequence)
        self._apply_last()
        return header

    def _apply_last(self) -> None:
        header = self.history.headers[-1]
        name, data = next(reversed(self.history.segments.items()))
        parsed = parse_segment_name(name)
        assert parsed is not None
        opens = header.kind == Kind.HEADER
        reader = SegmentReader(lsn=header.lsn, chain=None if opens else self.image.chain)
        reader.feed(data[header.lsn - parsed.start :])
        record = reader.next_record()
        assert record is not None
        self.image.apply_record(record)

    def content(self, path: str) -> bytes:
        pieces = []
        for extent in self.image.tree.extents(path):
            piece = bytes(self.history.segments[extent.object][extent.offset : extent.offset + extent.length])
            assert crc32c(piece) == extent.crc
            pieces.append(piece)
        return b"".join(pieces)


def _tree(image: Image) -> list[FileStatus]:
    return list(image.tree.walk())


# ---- the model


class Model:
    """What a tree of files is, in the plainest words."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = {""}

    def kind(self, path: str) -> str | None:
        return "file" if path in self.files else "directory" if path in self.directories else None

    def parents(self, path: str) -> list[str]:
        names = path.split("/")
        return ["/".join(names[:count]) for count in range(len(names))]

    def blocked(self, path: str) -> bool:
        return any(parent in self.files for parent in self.parents(path))

    def put(self, path: str, data: bytes, *, overwrite: bool) -> bool:
        kind = self.kind(path)
        if kind == "directory" or (kind == "file" and not overwrite) or self.blocked(path):
            return False
        self.directories.update(self.parents(path))
        self.files[path] = data
        return True

    def mkdirs(self, path: str) -> bool:
        if self.kind(path) or self.blocked(path):
            return False
        self.directories.update([*self.parents(path), path])
        return True

    def below(self, path: str) -> list[str]:
        return [one for one in [*self.files, *self.directories] if one.startswith(path + "/")]

    def delete(self, path: str, *, recursive: bool) -> bool:
        if not self.kind(path) or (self.below(path) and not recursive):
            return False
        for one in [path, *self.below(path)]:
            self.files.pop(one, None)
            self.directories.discard(one)
        return True

    def rename(self, source: str, target: str, *, overwrite: bool) -> bool:
        kind, there = self.kind(source), self.kind(target)
        if not kind or source == target or target.startswith(source + "/") or there == "directory":
            return False
        if self.blocked(target) or (there and (not overwrite or kind == "directory")):
            return False
        self.directories.update(self.parents(target))
        for one in [source, *self.below(source)]:
            moved = target + one[len(source) :]
            if one in self.files:
                self.files[moved] = self.files.pop(one)
            else:
                self.directories.remove(one)
                self.directories.add(moved)
        return True


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
STEPS = st.one_of(
    st.tuples(st.just("put"), PATHS, st.binary(max_size=20), st.booleans()),
    st.tuples(st.just("upload"), PATHS, st.lists(st.binary(min_size=1, max_size=9), max_size=3), st.booleans()),
    st.tuples(st.just("mkdirs"), PATHS),
    st.tuples(st.just("delete"), PATHS, st.booleans()),
    st.tuples(st.just("rename"), PATHS, PATHS, st.booleans()),
    st.tuples(st.just("append"), PATHS, st.binary(max_size=9)),
    st.tuples(st.just("truncate"), PATHS, st.integers(0, 30)),
    st.tuples(st.just("relocate"), PATHS),
    st.tuples(st.just("roll")),
)


def _allowed(check: object, *args: object, **options: object) -> bool:
    try:
        return check(*args, **options, claim=None) is not False  # type: ignore[operator]
    except RefusedByVolumeError:
        return False


def _step(written: Written, model: Model, step: tuple[object, ...], number: int) -> None:  # one branch a kind
    image = written.image
    match step:
        case ("put", str(path), bytes(data), bool(overwrite)):
            allowed = _allowed(check_write, image, path, overwrite=overwrite)
            assert allowed == model.put(path, data, overwrite=overwrite)
            if allowed:
                written.add(PutChange(path=path), data)
        case ("upload", str(path), list(pieces), bool(overwrite)):
            whole = b"".join(pieces)
            sizes = [len(b"".join(pieces[:count])) for count in range(len(pieces))]
            for size, piece in zip(sizes, pieces, strict=True):
                written.add(ChunkChange(upload=number, offset=size), piece)
            allowed = _allowed(check_write, image, path, overwrite=overwrite)
            assert allowed == model.put(path, whole, overwrite=overwrite)
            written.add(
                CommitChange(upload=number, path=path, size=len(whole)) if allowed else AbandonChange(upload=number)
            )
        case ("mkdirs", str(path)):
            allowed = _allowed(check_make_directories, image, path)
            assert allowed == model.mkdirs(path)
            if allowed:
                written.add(MakeDirectoryChange(path=path))
        case ("delete", str(path), bool(recursive)):
            allowed = _allowed(check_delete, image, path, recursive=recursive)
            assert allowed == model.delete(path, recursive=recursive)
            if allowed:
                written.add(DeleteChange(path=path))
        case ("rename", str(source), str(target), bool(overwrite)):
            allowed = _allowed(check_rename, image, source, target, overwrite=overwrite)
            assert allowed == model.rename(source, target, overwrite=overwrite)
            if allowed:
                written.add(RenameChange(source=source, target=target))
        case ("append", str(path), bytes(data)) if path in model.files:
            written.add(AppendChange(path=path, size=len(model.files[path])), data)
            model.files[path] += data
        case ("truncate", str(path), int(size)) if size <= len(model.files.get(path, b"")) and path in model.files:
            model.files[path] = model.files[path][:size]
            at = 0
            for extent in image.tree.extents(path):
                if at <= size < at + extent.length:
                    break
                at += extent.length
            written.add(TruncateChange(path=path, size=size, tail_crc=crc32c(model.files[path][at:])))
        case ("relocate", str(path)) if path in model.files:
            for extent in image.tree.extents(path):
                data = bytes(written.history.segments[extent.object][extent.offset : extent.offset + extent.length])
                written.add(RelocateChange(path=path, object=extent.object, offset=extent.offset), data)
        case ("roll",):
            written.open_segment()


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=40))
def test_the_image_is_the_model(steps: list[tuple[object, ...]]) -> None:
    written, model = Written(), Model()
    for number, step in enumerate(steps):
        _step(written, model, step, number)
    image = written.image
    statuses = _tree(image)
    assert {s.path: written.content(s.path) for s in statuses if not s.is_directory} == model.files
    assert {s.path for s in statuses if s.is_directory} == model.directories
    assert [s.size for s in statuses if not s.is_directory] == [
        len(model.files[s.path]) for s in statuses if not s.is_directory
    ]
    assert image.tree.file_count == len(model.files)
    assert sum(image.tree.objects_in_use().values()) == sum(map(len, model.files.values()))
    _same(image, image.copy())
    _same(image, decode_snapshot(encode_snapshot(image)))
    again = Image()
    for name in written.history.segments:
        reader = SegmentReader(lsn=again.lsn, payloads=False)
        reader.feed(written.history.segments[name])
        while (record := reader.next_record()) is not None:
            again.apply_record(record)
    _same(image, again)


def _same(one: Image, other: Image) -> None:
    assert _tree(one) == _tree(other)
    assert one.tree.objects_in_use() == other.tree.objects_in_use()
    assert one.tree.file_count == other.tree.file_count
    for name in ("lsn", "chain", "time_ms", "segment", "trim", "uploads", "pins"):
        assert getattr(one, name) == getattr(other, name), name
    assert list(one.claims) == list(other.claims)
    assert list(one.claims.ended) == list(other.claims.ended)
    assert list(one.operations.answers()) == list(other.operations.answers())


# ---- what the model does not show


def test_pages_are_the_listing_cut_in_pieces() -> None:
    written = Written()
    for number in (5, 1, 10, 3, 2):
        written.add(PutChange(path=f"d/{number:02}"))
    names, after, tree = [], "", written.image.tree
    while True:
        page = tree.list_page("d", after=after, limit=2)
        names += [entry.path for entry in page.entries]
        if not page.more:
            break
        after = page.entries[-1].path.rpartition("/")[2]
        written.add(PutChange(path="d/00"))  # a name before the page changes nothing for what follows
    assert names == ["d/01", "d/02", "d/03", "d/05", "d/10"]
    assert tree.list_page("d/01").entries == (tree.stat("d/01"),)
    with pytest.raises(RefusedByVolumeError, match="nothing at nowhere"):
        tree.list_page("nowhere")


def test_times_are_the_records_or_what_a_put_carries() -> None:
    written = Written()
    first = written.add(PutChange(path="a/x"), b"1")
    written.add(PutChange(path="a/y", modified_ms=77), b"2")
    written.add(MakeDirectoryChange(path="old", modified_ms=5))
    assert written.image.tree.stat("a/x").modified_ms == first.time_ms
    assert written.image.tree.stat("a/y").modified_ms == 77
    assert written.image.tree.stat("old").modified_ms == 5
    (extent,) = written.image.tree.extents("a/y")
    written.add(RelocateChange(path="a/y", object=extent.object, offset=extent.offset), b"2")
    assert written.image.tree.stat("a/y").modified_ms == 77
    assert written.image.tree.extents("a/y") != (extent,)


def test_a_relocation_that_comes_too_late_changes_nothing() -> None:
    written = Written()
    written.add(PutChange(path="a"), b"old!")
    (extent,) = written.image.tree.extents("a")
    written.add(PutChange(path="a"), b"new!")
    written.add(RelocateChange(path="a", object=extent.object, offset=extent.offset), b"old!")
    assert written.content("a") == b"new!"
    written.add(DeleteChange(path="a"))
    written.add(RelocateChange(path="a", object=extent.object, offset=extent.offset), b"old!")
    assert written.image.tree.objects_in_use() == {}


def test_a_new_epoch_forgets_open_uploads_but_a_new_segment_does_not() -> None:
    written = Written()
    written.add(ChunkChange(upload=1, offset=0), b"begun")
    written.open_segment()
    written.add(ChunkChange(upload=1, offset=5), b"more")
    assert sum(written.image.tree.objects_in_use().values()) == 9
    written.open_segment(epoch=2)
    assert written.image.uploads == {}
    assert written.image.tree.objects_in_use() == {}


def test_a_pin_lasts_for_longer_by_what_nobody_has_lived_through() -> None:
    written = Written()
    written.add(PinChange(name="fork", lsn=Lsn(10), expires_ms=FIRST_TIME_MS + 10**6))
    written.history.time_ms += 10**9
    written.open_segment(epoch=2, paused_ms=10**9)
    assert written.image.pins["fork"].expires_ms == FIRST_TIME_MS + 10**6 + 10**9


def test_claims_pins_and_trim_are_part_of_the_image() -> None:
    written = Written()
    written.add(ClaimChange(path="q", application="app-1", start_time=5))
    written.add(PinChange(name="fork", lsn=Lsn(10), expires_ms=FIRST_TIME_MS + 10**6))
    written.add(PinChange(name="gone", lsn=Lsn(10), expires_ms=FIRST_TIME_MS + 5000))
    written.add(TrimChange(lsn=Lsn(40)))
    written.add(MarkChange(values={"batch": 1}))
    written.add(ClaimChange(path="over", application="app-1", start_time=5))
    written.add(ReleaseChange(path="over"))
    image = decode_snapshot(encode_snapshot(written.image))
    assert image.trim == 40
    assert set(image.pins) == {"fork", "gone"}
    assert [path for path, _ in image.claims] == ["q"]
    assert [path for path, _ in image.claims.ended] == ["over"]
    for _ in range(5):
        written.add(MarkChange(values={"batch": 1}))
    written.add(PinChange(name="fork", lsn=Lsn(10), expires_ms=0))
    assert written.image.pins == {}


def test_answers_are_rebuilt_from_records() -> None:
    written, client = Written(), b"c" * 16
    written.add(PutChange(path="a"), b"1", client=client, sequence=1)
    written.add(DeleteChange(path="a"), client=client, sequence=2)
    written.add(ChunkChange(upload=9, offset=0), b"22", client=client, sequence=3)
    for image in (written.image, decode_snapshot(encode_snapshot(written.image)), written.image.copy()):
        first = image.operations.find(OperationId(client=client, sequence=1))
        second = image.operations.find(OperationId(client=client, sequence=2))
        assert first is not None
        assert isinstance(first.answer, FileStatus)
        assert (first.answer.path, first.answer.size, first.answer.crc) == ("a", 1, crc32c(b"1"))
        assert second is not None
        assert second.answer is True
        assert image.operations.find(OperationId(client=client, sequence=3)) is None


@pytest.mark.parametrize(
    "change",
    [
        DeleteChange(path="nowhere"),
        DeleteChange(path="file/below"),
        RenameChange(source="nowhere", target="x"),
        RenameChange(source="dir", target="dir/below"),
        RenameChange(source="file", target="dir"),
        RenameChange(source="", target="x"),
        PutChange(path="file/below"),
        PutChange(path="dir"),
        PutChange(path=""),
        MakeDirectoryChange(path="file"),
        AppendChange(path="dir", size=0),
        AppendChange(path="file", size=99),
        TruncateChange(path="file", size=99, tail_crc=0),
        TruncateChange(path="dir", size=0, tail_crc=0),
        ChunkChange(upload=5, offset=1),
        CommitChange(upload=5, path="x", size=1),
        TrimChange(lsn=Lsn(10**9)),
    ],
)
def test_a_record_that_does_not_fit_is_damage_and_named(change: Change) -> None:
    written = Written()
    written.add(PutChange(path="file"), b"abc")
    written.add(PutChange(path="dir/file"))
    with pytest.raises(DamagedJournalError, match=f"the {change.kind.name} at LSN {written.history.lsn} ") as caught:
        written.add(change)
    assert caught.value.code == JournalCode.DAMAGED


def test_a_writers_own_record_that_does_not_fit_is_its_mistake() -> None:
    written = Written()
    written.add(PutChange(path="file"), b"abc")
    image = written.image
    before = image.tree_bytes
    assert image.item_count == image.tree.file_count + len(image.operations)
    change = AppendChange(path="none", size=0)
    _, header = encode_record(
        kind=Kind.APPEND, lsn=image.lsn, acknowledged_lsn=Lsn(0), time_ms=10**13, meta=b"", chain=image.chain
    )
    with pytest.raises(AssertionError, match="does not fit its own tree"):
        image.apply_own(header, change)
    put = PutChange(path="dir/file")
    _, header = encode_record(
        kind=Kind.PUT, lsn=image.lsn, acknowledged_lsn=Lsn(0), time_ms=10**13, meta=b"", chain=image.chain
    )
    assert image.apply_own(header, put) is not None
    assert image.tree_bytes > before


def test_a_record_that_does_not_follow_is_refused() -> None:
    image = Image()
    _, header = encode_record(
        kind=Kind.TRIM, lsn=Lsn(5), acknowledged_lsn=Lsn(0), time_ms=1, meta=b"", chain=image.chain
    )
    with pytest.raises(DamagedJournalError, match="does not follow"):
        image.apply(header, TrimChange(lsn=Lsn(0)))
    _, header = encode_record(
        kind=Kind.PUT, lsn=Lsn(0), acknowledged_lsn=Lsn(0), time_ms=1, meta=b"", chain=image.chain, payload=b"x"
    )
    with pytest.raises(DamagedJournalError, match="no segment"):
        image.apply(header, PutChange(path="a"))


def test_the_root_can_be_emptied_but_stays() -> None:
    written = Written()
    written.add(PutChange(path="a/b"), b"1")
    written.add(DeleteChange(path=""))
    assert [status.path for status in _tree(written.image)] == [""]
    assert written.image.tree.objects_in_use() == {}


def test_refusals_say_what_is_there() -> None:
    written = Written()
    written.add(PutChange(path="file"), b"abc")
    written.add(MakeDirectoryChange(path="dir/sub"))
    image, codes = written.image, []
    for check in (
        lambda: check_write(image, "file", overwrite=False, claim=None),
        lambda: check_write(image, "dir", overwrite=True, claim=None),
        lambda: check_write(image, "file/x/y", overwrite=False, claim=None),
        lambda: check_write(image, "../x", overwrite=False, claim=None),
        lambda: check_make_directories(image, "file", claim=None),
        lambda: check_delete(image, "dir", recursive=False, claim=None),
        lambda: check_rename(image, "x", "y", overwrite=False, claim=None),
        lambda: check_rename(image, "dir", "file", overwrite=True, claim=None),
        lambda: check_rename(image, "dir", "dir/sub/x", overwrite=True, claim=None),
        lambda: image.tree.extents("dir"),
    ):
        with pytest.raises(JournalError) as caught:
            check()
        codes.append(caught.value.code.name)
    assert codes == [
        "ALREADY_EXISTS", "IS_DIRECTORY", "NOT_DIRECTORY", "BAD_PATH", "NOT_DIRECTORY", "NOT_EMPTY", "NOT_FOUND",
        "NOT_DIRECTORY", "BAD_REQUEST", "IS_DIRECTORY",
    ]  # fmt: skip
    assert not check_delete(image, "nowhere", recursive=False, claim=None)
    assert not check_make_directories(image, "dir", claim=None)
    assert not check_rename(image, "file", "file", overwrite=True, claim=None)


def test_fifty_thousand_files_fit_in_300_bytes_each() -> None:
    count, written = 50_000, Written()
    header = written.history.headers[0]
    _, template = encode_record(
        kind=Kind.PUT, lsn=header.end_lsn, acknowledged_lsn=Lsn(0), time_ms=FIRST_TIME_MS, meta=b"",
        chain=header.chain, payload=b"x" * 100,
    )  # fmt: skip
    image = written.image
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(count):
        image.lsn = Lsn(template.lsn)
        image.apply(template, PutChange(path=f"query/state/{number % 5}/{number % 200}/{number // 200}.delta"))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert image.tree.file_count == count
    assert used / count <= 300
    assert decode_snapshot(encode_snapshot(image)).tree.file_count == count


def test_nothing_can_be_appended() -> None:
    history, image = History(), Image()
    history.add(PutChange(path="f"), b"content")
    history.add(AppendChange(path="f", size=7))
    reader = SegmentReader(lsn=FIRST_LSN)
    reader.feed(next(iter(history.segments.values())))
    while (record := reader.next_record()) is not None:
        image.apply_record(record)
    assert image.tree.stat("f").size == 7
    assert len(image.tree.extents("f")) == 1
