"""The manual pages: of every verb, with every option, and groff and man's own index understand them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

import connectors.cli
import journal.cli
import sos_client.cli
import sos_server.cli
from sos_client.command.man_pages import pages
from sos_client.command.running import VerdictError

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "sos": sos_client.cli.command,
    "sos-server": sos_server.cli.command,
    "sos-journal": journal.cli.command,
    "sos-connector": connectors.cli.command,
}
MACROS = {".TH", ".nh", ".ad", ".SH", ".PP", ".TP", ".nf", ".fi", ".RS", ".RE"}
PLAIN = {
    "\\-": "-",
    "\\(dq": '"',
    "\\(ga": "`",
    "\\(ha": "^",
    "\\(ti": "~",
    "\\(aq": "'",
    "\\&": "",
    "\\:": "",
    "\\e": "\\",
}


def shown(page: str) -> str:
    """What a person reads of it, without the macros."""
    text = re.sub(r"\\f[BR]", "", page)
    return re.sub("|".join(map(re.escape, PLAIN)), lambda found: PLAIN[found[0]], text)


@pytest.mark.parametrize("program", COMMANDS)
def test_each_verb_has_a_page_with_all_its_options(program: str) -> None:
    command, found = COMMANDS[program], dict(pages(COMMANDS[program], program))
    context = click.Context(command)
    assert {f"{program}-{name}" for name in command.list_commands(context)} < found.keys()
    for name in command.list_commands(context):
        verb = command.get_command(context, name)
        assert verb is not None
        page = shown(found[f"{program}-{name}"])
        options = [one for option in verb.params if isinstance(option, click.Option) for one in option.opts]
        assert all(option in page for option in options), name
        assert " ".join((verb.help or "").split("\n\n", maxsplit=1)[0].split()).rstrip(".") in page
        assert "130  interrupted" in page


@pytest.mark.parametrize("program", COMMANDS)
def test_no_text_is_taken_for_a_macro(program: str) -> None:
    for name, page in pages(COMMANDS[program], program):
        used = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
        assert used <= MACROS, name


@pytest.mark.parametrize("program", COMMANDS)
def test_groff_has_nothing_to_say_about_them(program: str, tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    done = CliRunner().invoke(COMMANDS[program], ["man-pages", str(tmp_path)])
    assert done.exit_code == 0, done.output
    files = sorted((tmp_path / "man1").iterdir())
    assert f"{len(files)} pages" in done.output
    for file in files:
        command = ["groff", "-man", "-Tutf8", "-K", "utf8", "-ww", "-z", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert (run.returncode, run.stderr) == (0, ""), file.name
    if shutil.which("lexgrog") is not None:
        run = subprocess.run(["lexgrog", *files], capture_output=True, text=True, timeout=600, check=False)
        assert run.returncode == 0, run.stdout


def test_examples_stay_as_they_are_typed() -> None:
    page = shown(dict(pages(journal.cli.command, "sos-journal"))["sos-journal-fork"])
    assert "\nsos-journal fork payments sos://staging/payments --at 1h --to-service s:7420\n" in page


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(sos_client.cli.command, ["man-pages", str(tmp_path / "file" / "below")])
    assert isinstance(done.exception, VerdictError)
    assert "cannot be written: Not a directory" in done.exception.sentences[0]
