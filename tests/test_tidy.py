"""Rules of the code base that no linter knows: who may import whom, what stays pure, what nothing may be called."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sos_client", "sos_server", "journal", "connectors", "spark_integration")

# Dependencies point one way. The disk is the one thing that the server takes from the journal.
MAY_IMPORT = {
    "sos_client": {"sos_client"},
    "sos_server": {"sos_server", "sos_client", "journal.disk"},
    "journal": {"journal", "sos_client"},
    "connectors": {"connectors", "journal", "sos_client"},
    "spark_integration": {"spark_integration", "connectors", "journal", "sos_client"},
}

# Folders show the layers: what each may import beside itself, as a folder (without those in it) or one module.
# docs/design.md has the picture. A folder that is not named here is held by MAY_IMPORT only.
_BASE = ("journal", "sos_client.wire")
_RECORDS = (*_BASE, "journal.records", "sos_client", "sos_client.net", "sos_client.serving.event_log")
_IMAGE = (*_RECORDS, "journal.image")
_COPIES = (*_IMAGE, "journal.disk", "journal.checkpoint", "journal.copies", "sos_client.serving")
_TAKEOVER = (*_COPIES, "journal.takeover")
_OBJECTS = ("sos_server.storage", "sos_client.wire", "journal.disk")
_STORE = (*_OBJECTS, "sos_server.objects", "sos_client.declarations")
MAY_SEE = {
    "journal": ("sos_client.wire", "sos_client.declarations"),
    "journal.disk": (),
    "journal.records": _RECORDS,
    "journal.checkpoint": (*_BASE, "journal.records", "sos_client.clear_text"),
    "journal.image": (*_BASE, "journal.records"),
    "journal.copies": _COPIES,
    "journal.shards": _COPIES,
    "journal.takeover": _TAKEOVER,
    "journal.owner": _TAKEOVER,
    "journal.files": (*_BASE, "journal.records", "journal.checkpoint"),
    "journal.gateway.wire": (*_BASE, "journal.records"),
    "journal.gateway.client": (*_BASE, "journal.records", "journal.gateway.wire", "sos_client", "sos_client.net"),
    "journal.gateway": (*_BASE, "journal.records", "journal.gateway.wire", "sos_client.net", "sos_client.serving"),
    "journal.service": (
        "journal",
        "journal.records",
        "journal.gateway",
        "journal.gateway.wire",
        "journal.gateway.client.sign_of_life",
        "journal.takeover.owner_board",
        "sos_client",
        "sos_client.net",
        "sos_client.serving",
        "sos_client.web",
    ),
    "journal.web": (
        *_TAKEOVER,
        "journal.owner",
        "journal.files",
        "journal.gateway",
        "journal.gateway.wire",
        "journal.service",
        "journal.shards",
        "sos_client.web",
    ),
    "sos_client.wire": (),
    "sos_client.net": ("sos_client.wire", "sos_client.settings"),
    "sos_client.serving": ("sos_client.net", "sos_client.declarations", "sos_client.settings", "sos_client.printable"),
    "sos_client.web": ("sos_client.net", "sos_client.serving", "sos_client.printable", "sos_client.wire"),
    "sos_client.command": ("sos_client", "sos_client.net", "sos_client.serving", "sos_client.wire"),
    "sos_client.cli": ("sos_client", "sos_client.command", "sos_client.net", "sos_client.wire"),
    "sos_server.storage": ("sos_client.wire",),
    "sos_server.objects": _OBJECTS,
    "sos_server.store": _STORE,
    "sos_server.service": (
        *_STORE,
        "sos_server.store",
        "sos_server.config",
        "sos_client.net",
        "sos_client.serving",
        "sos_client.web",
    ),
}
MODULES_MAX = 16  # in one folder; more are more than one concern
MANY_VERBS = {"journal/cli"}  # one verb a file

IMPURE_MODULES = {
    "trio",
    "socket",
    "os",
    "time",
    "random",
    "secrets",
    "ssl",
    "threading",
    "subprocess",
    "pathlib",
    "io",
    "gc",
}
PURE_NAMES = {"io.BytesIO"}  # bytes in memory

# Stored data is opened, synced, renamed and removed in one place. (os.open of a lock or a terminal is not stored data.)
DISK_CALLS = {"fsync", "fdatasync", "rename", "replace", "unlink", "pwrite", "pwritev", "ftruncate", "posix_fallocate"}
DISK_MODULES = {"journal/disk/disk.py", "journal/disk/file_writing.py", "journal/disk/sync_thread.py"}
# Writes into directories of the user's, outside any store.
USER_FILE_MODULES = {
    "journal/files/plain_directory.py",
    "journal/files/plain_tree.py",
    "connectors/sink/durable_file.py",
}
# The outermost edge of a command: whatever is wrong becomes a sentence and an exit code there.
OUTERMOST = {"sos_client/command/running.py"}

BANNED_MODULE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "core", "types", "misc", "stuff"}
BANNED_CLASS_ENDINGS = ("Manager", "Handler", "Helper", "Factory", "Util", "Utils")
ABSTRACT_NAME = re.compile(r"^(Abstract|Base[A-Z])|[a-z]Base$")
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 450
TEST_LINES_MAX = 650
DOCUMENT_COLUMNS_MAX = 120


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(ROOT / line for line in set(listing.stdout.splitlines()) if (ROOT / line).is_file())


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


SOURCES = tracked(*(f"{package}/*.py" for package in PACKAGES))
EVERY_PYTHON_FILE = tracked("*.py")


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


PURE_WORD = re.compile(r"\b[Pp]ure\b(?! but)")


def is_pure(path: Path) -> bool:
    """Whether the module says so, or its folder does: the word is what switches the check on."""
    told = (ast.get_docstring(parse(one)) or "" for one in (path, path.parent / "__init__.py") if one.is_file())
    return any(PURE_WORD.search(docstring) for docstring in told)


PURE_SOURCES = [path for path in SOURCES if is_pure(path)]


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Every module that a file imports, as `package.module`, function-level imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_dependencies_point_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    for module in imported_modules(parse(path)):
        if module.split(".")[0] not in PACKAGES:
            continue
        allowed = any(module == target or module.startswith(target + ".") for target in MAY_IMPORT[package])
        parent_of_allowed = any(target.startswith(module + ".") for target in MAY_IMPORT[package])
        assert allowed or parent_of_allowed, f"{name_of(path)} imports {module}"


def test_only_commands_use_the_code_of_commands() -> None:
    """So that nobody who uses the library gets options and exit codes with it."""
    users = [path for path in SOURCES if not {"cli", "cli.py", "__main__.py"} & set(path.relative_to(ROOT).parts)]
    for path in users:
        of_commands = [one for one in imported_modules(parse(path)) if "cli" in one.split(".")[1:2]]
        assert not of_commands, f"{name_of(path)} imports {', '.join(of_commands)}"


def imported_when_run(tree: ast.Module) -> Iterator[str]:
    """Every name that is imported for more than annotations."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    annotations = {inner for block in blocks for inner in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in annotations:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node not in annotations:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def folder_of(module: str) -> str:
    """The folder of a module, or of the module that has this name in it, as `package.folder`."""
    while module and not (ROOT / f"{module.replace('.', '/')}.py").is_file():
        if (ROOT / module.replace(".", "/")).is_dir():
            return module
        module = module.rpartition(".")[0]
    return module.rpartition(".")[0]


@pytest.mark.parametrize("folder", MAY_SEE)
def test_a_layer_sees_only_what_lies_below(folder: str) -> None:
    sources = [path for path in SOURCES if path.parent == ROOT / folder.replace(".", "/") and path.stem != "__main__"]
    assert sources, f"no such folder: {folder}"
    for path in sources:
        for module in imported_modules(parse(path)):
            if module.split(".")[0] not in PACKAGES or module in PACKAGES:
                continue
            one_module = any(
                module == seen or module.startswith(f"{seen}.") for seen in MAY_SEE[folder] if is_module(seen)
            )
            assert one_module or folder_of(module) in (folder, *MAY_SEE[folder]), f"{name_of(path)} imports {module}"


def is_module(name: str) -> bool:
    return (ROOT / f"{name.replace('.', '/')}.py").is_file()


def test_no_folder_holds_more_than_one_concern() -> None:
    counts: dict[str, int] = {}
    for path in SOURCES:
        if path.stem not in {"__init__", "__main__"}:
            counts[name_of(path.parent)] = counts.get(name_of(path.parent), 0) + 1
    full = {folder: count for folder, count in counts.items() if count > MODULES_MAX and folder not in MANY_VERBS}
    assert not full


# The connectors' frames are cut as those of SOS are, and break for the same errors.
WIRE_MAY_IMPORT = {
    "sos_client": ("sos_client.wire",),
    "connectors": ("connectors.wire", "sos_client.wire.errors", "sos_client.wire.frames", "sos_client.wire.limits"),
}


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.parts[-2] == "wire" and "gateway" not in path.parts], ids=name_of
)
def test_a_wire_protocol_imports_nothing_else_of_the_project(path: Path) -> None:
    for module in imported_modules(parse(path)):
        if module.split(".")[0] in PACKAGES:
            package = path.relative_to(ROOT).parts[0]
            assert module.startswith(WIRE_MAY_IMPORT[package]), f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("path", PURE_SOURCES, ids=name_of)
def test_pure_modules_are_pure(path: Path) -> None:
    tree = parse(path)
    impure = {name for name in imported_when_run(tree) if name.split(".")[0] in IMPURE_MODULES} - PURE_NAMES
    assert not impure, f"{name_of(path)} imports {sorted(impure)}"
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)], name_of(path)
    opened = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in {"open", "print", "input"}]
    assert not opened, name_of(path)


def test_the_word_is_found() -> None:
    """Or nothing would be checked: these decide about bytes that others send, or that a disk gives back."""
    pure = {name_of(path) for path in PURE_SOURCES}
    assert pure > {"journal/takeover/takeover.py", "sos_client/wire/codec.py", "sos_server/storage/rows.py"}


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if name_of(path) not in DISK_MODULES | USER_FILE_MODULES], ids=name_of
)
def test_stored_data_is_touched_in_one_place(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr not in DISK_CALLS, f"{name_of(path)}:{node.lineno} calls os.{node.attr}"


@pytest.mark.parametrize("path", EVERY_PYTHON_FILE, ids=name_of)
def test_names_say_something(path: Path) -> None:
    assert path.stem not in BANNED_MODULE_NAMES, name_of(path)
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(BANNED_CLASS_ENDINGS), f"{name_of(path)}: class {node.name}"
            assert not ABSTRACT_NAME.search(node.name), f"{name_of(path)}: class {node.name}"


def test_each_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name_of(path))
    assert not {name: places for name, places in homes.items() if len(places) > 1}


@pytest.mark.parametrize("path", EVERY_PYTHON_FILE, ids=name_of)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines_max = TEST_LINES_MAX if path.stem.startswith("test_") else MODULE_LINES_MAX
    assert len(text.splitlines()) <= lines_max, f"{name_of(path)}: could one concern move out?"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            lines = node.end_lineno - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{name_of(path)}: {node.name} has {lines} lines"


@pytest.mark.parametrize("path", [p for p in EVERY_PYTHON_FILE if p.read_text(encoding="utf-8").strip()], ids=name_of)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(parse(path)), f"{name_of(path)} has no docstring"


@pytest.mark.parametrize("path", [path for path in SOURCES if name_of(path) not in OUTERMOST], ids=name_of)
def test_no_except_that_goes_on(path: Path) -> None:
    """A broad `except` may clean up and raise again; it may not swallow what it does not know."""
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {"Exception"}
        if names & {"Exception", "BaseException"}:
            raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            assert raises, f"{name_of(path)}:{node.lineno} swallows {sorted(names)}"


def test_no_module_is_unused() -> None:
    """Each module is imported by another, or is an entry point."""
    entry_points = {"__main__", "__init__", "conftest", "cli"}
    imported = {module for path in EVERY_PYTHON_FILE for module in imported_modules(parse(path))}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + (ROOT / "Makefile").read_text(encoding="utf-8")
    started = "".join(path.read_text(encoding="utf-8") for path in SOURCES)  # `python -m MODULE`, as a process
    unused = []
    for path in SOURCES:
        module = name_of(path)[:-3].replace("/", ".")
        named = project + (path.parent / "__init__.py").read_text(encoding="utf-8")  # verbs are loaded by their name
        if path.stem not in entry_points and module not in imported and not re.search(rf"\b{path.stem}\b", named):
            if f'"{module}"' in started:
                continue
            unused.append(module)
    assert not unused


STRAY = re.compile(r"\.(jar|class|pyc|whl|crc|log|pem|key|crt)$|(^|/)(NOTES|PROGRESS|TODO|PLAN|SUMMARY)[^/]*$")


HELMS_NAME = "deploy/helm/sos/templates/NOTES.txt"  # what helm prints after an installation


def test_nothing_is_kept_that_does_not_belong() -> None:
    stray = {name_of(path) for path in tracked("*") if STRAY.search(name_of(path))} - {HELMS_NAME}
    assert not stray


def test_private_names_of_pyspark_are_in_one_module() -> None:
    private = re.compile(r"SLF001|\b_j(?:vm|sc|df|sq)\b")
    found = {name_of(path) for path in SOURCES if private.search(path.read_text(encoding="utf-8"))}
    assert found == {"spark_integration/pyspark_private.py"}


def test_links_in_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
    for document in tracked("*.md"):
        for target in link.findall(document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{name_of(document)} links to {target}"


def test_documents_have_lines_that_fit() -> None:
    """Not counted: rows of tables, blocks of code (tests read many of them as they are), lines with one long word."""
    for document in tracked("*.md"):
        prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", document.read_text(encoding="utf-8"))
        long = [line for line in prose.splitlines() if len(line) > DOCUMENT_COLUMNS_MAX]
        too_long = [line for line in long if not line.startswith("|") and len(line.split()) > 2]
        assert not too_long, name_of(document)


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = []
    for document in tracked("docs/decisions/*.md"):
        number = document.name[:4]
        heading = document.read_text(encoding="utf-8").partition("\n")[0]
        assert re.match(rf"# {number}:? \S", heading), f"{name_of(document)} begins with: {heading}"
        numbers.append(number)
    assert len(numbers) == len(set(numbers)), sorted(numbers)
