"""`make release`: what it builds is whole and runs from an empty environment, and it refuses what is not."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.system.released import ROOT, built, own_commands, release_tool, version

if TYPE_CHECKING:
    from pathlib import Path


def test_notes_are_the_changelogs() -> None:
    notes = release_tool().notes_of(version(), (ROOT / "CHANGELOG.md").read_text())
    assert notes.startswith(f"# SOS {version()}\n")
    assert "### Formats" in notes


@pytest.mark.parametrize("changelog", ["## 0.2.0\n### Formats\nnothing\n", "## 0.1.0\n", "## 0.1.0\n### Added\n- a\n"])
def test_a_version_that_the_changelog_does_not_know_is_no_release(changelog: str) -> None:
    with pytest.raises(release_tool().ReleaseError, match=r"CHANGELOG\.md"):
        release_tool().notes_of("0.1.0", changelog)


def _wheel(folder: Path, *names: str) -> Path:
    wheel = folder / "sos_checkpoints-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sos_checkpoints-0.1.0.dist-info/METADATA", "Version: 0.1.0\n")
        for name in names:
            archive.writestr(name, b"")
    return wheel


def test_a_wheel_without_the_jar_is_no_release(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "journal/FORMAT.md", "sos_client/py.typed")
    with pytest.raises(release_tool().ReleaseError, match=r"sos-spark\.jar is not in"):
        release_tool().check_wheel(wheel, "0.1.0")


def test_a_wheel_with_tests_in_it_is_no_release(tmp_path: Path) -> None:
    wanted = [*release_tool().IN_THE_WHEEL, "sos_checkpoints-0.1.0.dist-info/licenses/LICENSE"]
    with pytest.raises(release_tool().ReleaseError, match="tests/x"):
        release_tool().check_wheel(_wheel(tmp_path, *wanted, "tests/x.py"), "0.1.0")


@pytest.mark.slow
def test_what_is_built_runs_from_an_empty_environment(tmp_path: Path) -> None:
    wheel, source = built()
    release_tool().check_wheel(wheel, version())
    release_tool().check_source(source)
    release_tool().smoke_test(own_commands(), tmp_path, version())
