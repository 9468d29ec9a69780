"""A volume's files in a plain directory: every name that a volume takes, and none but those."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import DamagedJournalError, JournalCode, RefusedByVolumeError
from journal.files.plain_directory import Plan, PlannedFile, differing, plan_files, write_directory, write_files
from journal.files.plain_tree import PlainTree, open_plain_tree
from journal.records.paths import COMPONENT_BYTES_MAX, PATH_BYTES_MAX, check_path
from journal.volume import FileStatus
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

LONG = "n" * 251
ACCENTS = "é" * 127
PARTIALS = {"x": b"x" * 3000, ".x.partial": b"p" * 2000, ".x.restoring": b"r", f"{LONG}0": b"0", f"{LONG}1": b"11"}


class Files:
    """Files in memory as a source: some one by one, some in groups, the earlier ones while others are being written."""

    def __init__(self, files: dict[str, bytes], *, group: int = 1, modified_ms: int = 1_700_000_000_000) -> None:
        self.files = files
        self.group = group
        self.statuses: list[FileStatus] = []
        for path in sorted({parent for file in files for parent in _parents(file)}):
            self.statuses.append(FileStatus(path=path, is_directory=True, size=0, modified_ms=modified_ms))
        for path, data in files.items():
            status = FileStatus(
                path=path, is_directory=False, size=len(data), modified_ms=modified_ms, crc=crc32c(data)
            )
            self.statuses.append(status)

    @property
    def plan(self) -> Plan:
        return plan_files(self.statuses, "")

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        data = self.files[path]
        for at in range(0, len(data), 1000):
            await trio.lowlevel.checkpoint()
            yield data[at : at + 1000]

    def groups(self, files: Sequence[PlannedFile]) -> list[list[PlannedFile]]:
        return [list(files[at : at + self.group]) for at in range(0, len(files), self.group)]

    async def read_group(self, files: Sequence[PlannedFile]) -> list[bytes]:
        return [self.files[file.status.path] for file in files]


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def restored(source: Files, directory: Path) -> dict[str, bytes]:
    trio.run(functools.partial(write_directory, source, source.plan, directory, lambda _done: None))
    return content_of(directory)


def exported(source: Files, directory: Path) -> None:
    with open_plain_tree(directory) as tree:
        trio.run(functools.partial(write_files, source, differing(source.plan, tree), tree, lambda _done: None))


def content_of(directory: Path) -> dict[str, bytes]:
    found = {}
    for folder, _, names, handle in os.fwalk(os.fsencode(directory)):
        for name in names:
            descriptor = os.open(name, os.O_RDONLY, dir_fd=handle)
            with open(descriptor, "rb") as stream:
                path = os.path.relpath(folder + b"/" + name, os.fsencode(directory))
                found[path.decode()] = stream.read()
    return found


@st.composite
def names(draw: st.DrawFn) -> str:
    """A component, often one that some temporary name could be mistaken for."""
    characters = st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
    name = draw(st.one_of(st.text(characters, min_size=1, max_size=255), st.sampled_from([LONG, ACCENTS, "x"])))
    name = draw(st.sampled_from(["{}", ".{}", ".{}.partial", ".{}.restoring", "{}.tmp", ".sos-writing-{}"])).format(
        name
    )
    while len(name.encode()) > COMPONENT_BYTES_MAX:
        name = name[1:]
    return name if name not in (".", "..") else "dot"


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Files by path; no file is a directory of another one."""
    files: dict[str, bytes] = {}
    for _ in range(draw(st.integers(1, 8))):
        path = "/".join(draw(st.lists(names(), min_size=1, max_size=20)))
        directories = {parent for other in files for parent in _parents(other)}
        if len(path.encode()) <= PATH_BYTES_MAX and path not in directories and not files.keys() & set(_parents(path)):
            files[check_path(path)] = draw(st.binary(max_size=3000))
    return files


@given(files=trees(), group=st.integers(1, 3))
def test_every_name_that_a_volume_takes_comes_back_out(files: dict[str, bytes], group: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        assert restored(Files(files, group=group), Path(scratch, "restored")) == files
        assert os.listdir(scratch) == ["restored"]
        Path(scratch, "exported").mkdir()
        exported(Files(files, group=group), Path(scratch, "exported"))
        assert content_of(Path(scratch, "exported")) == files


@pytest.mark.parametrize("group", [1, 2])
def test_names_that_look_temporary_keep_their_content(group: int, tmp_path: Path) -> None:
    assert restored(Files(PARTIALS, group=group), tmp_path / "a") == PARTIALS
    (tmp_path / "b").mkdir()
    exported(Files(PARTIALS, group=group), tmp_path / "b")
    assert content_of(tmp_path / "b") == PARTIALS


def test_a_path_as_long_as_a_volume_takes(tmp_path: Path) -> None:
    path = "/".join(["p" * 200] * 20) + "/" + "q" * 76
    assert len(path) == PATH_BYTES_MAX
    assert restored(Files({path: b"deep"}), tmp_path / "restored") == {path: b"deep"}


def test_times_that_no_file_system_keeps_are_kept_as_nearly_as_it_can(tmp_path: Path) -> None:
    assert restored(Files({"a/b": b"1"}, modified_ms=2**63 - 1), tmp_path / "restored") == {"a/b": b"1"}


def test_what_is_there_beside_the_target_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".target.restoring").mkdir()
    (tmp_path / ".target.restoring/mine").write_bytes(b"mine")
    restored(Files({"a": b"1"}), tmp_path / "target")
    assert content_of(tmp_path) == {".target.restoring/mine": b"mine", "target/a": b"1"}


def test_a_target_may_be_the_working_directory_or_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    restored(Files({"a": b"1"}), Path())
    assert (tmp_path / "here/a").read_bytes() == b"1"
    (tmp_path / "link").symlink_to("there")
    restored(Files({"a": b"2"}), tmp_path / "link")
    assert (tmp_path / "there/a").read_bytes() == b"2"


def test_export_follows_no_link(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "target"
    victim.mkdir()
    target.mkdir()
    (victim / "passwd").write_bytes(b"good")
    (target / "sub").symlink_to(victim)
    with pytest.raises(RefusedByVolumeError, match="in the way") as ended:
        exported(Files({"sub/passwd": b"evil"}), target)
    assert ended.value.code is JournalCode.NOT_DIRECTORY
    (target / "sub").unlink()
    (target / "passwd").symlink_to(victim / "passwd")
    exported(Files({"passwd": b"evil"}), target)
    assert (victim / "passwd").read_bytes() == b"good"
    assert (target / "passwd").read_bytes() == b"evil"
    assert not (target / "passwd").is_symlink()


def test_a_link_that_appears_later_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sub").symlink_to("elsewhere")
    with open_plain_tree(tmp_path) as tree, pytest.raises(RefusedByVolumeError, match=r"sub in .* is a link"):
        tree.create("sub/file")
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_directory_where_a_file_belongs_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(RefusedByVolumeError, match=r"x is in the way") as ended:
        exported(Files({"x": b"1"}), tmp_path)
    assert ended.value.code is JournalCode.IS_DIRECTORY


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    source = Files({"x": b"1234"})
    source.files["x"] = b"12345"
    with pytest.raises(ExceptionGroup) as ended:
        restored(source, tmp_path / "target")
    (error,) = ended.value.exceptions
    assert isinstance(error, RefusedByVolumeError)
    assert error.code is JournalCode.CHANGED
    assert os.listdir(tmp_path) == []


class FoldingTree(PlainTree):
    """As a file system that does not tell capitals from small letters."""

    def move(self, old: str, new: str) -> None:
        super().move(old, new.lower())

    def open(self, relative: str) -> int:
        return super().open(relative.lower())

    def remove(self, relative: str) -> None:
        super().remove(relative.lower())


def test_two_names_that_are_one_for_the_file_system_are_seen(tmp_path: Path) -> None:
    source = Files({"Name": b"1", "name": b"22"})
    handle = os.open(tmp_path, os.O_RDONLY)
    tree = FoldingTree(handle, tmp_path)
    with pytest.raises(DamagedJournalError, match="reads differently"):
        trio.run(functools.partial(write_files, source, source.plan, tree, lambda _done: None))
    os.close(handle)
