"""The documents: links to headings lead there, the API is whole, the site has them all, and its links are alive."""

from __future__ import annotations

import html.parser
import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def tool(name: str) -> ModuleType:
    """A script of tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


API, SITE = tool("api_reference"), tool("docs_site")


def _prose(document: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def _headings(document: str) -> set[str]:
    titles = re.findall(r"^#+ (.+?)\s*$", _prose(document), re.MULTILINE)
    return {SITE.slug(re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", title)) for title in titles}


@pytest.mark.parametrize("document", SITE.documents())
def test_links_to_headings_lead_there(document: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", _prose(document)):
        path = ROOT / document if not target else (ROOT / document).parent / target
        if path.suffix == ".md":
            assert anchor in _headings(str(path.resolve().relative_to(ROOT))), f"{target}#{anchor}"


def test_the_api_is_the_codes() -> None:
    assert API.document() == API.DOCUMENT.read_text(encoding="utf-8"), "python tools/api_reference.py --write"


@pytest.mark.parametrize("module", API.PUBLIC)
def test_everything_public_says_what_it_promises(module: str) -> None:
    for name in API.public_names(module):
        node = API.definition(module, name)
        assert API.ast.get_docstring(node), f"{module}.{name}"
        if isinstance(node, API.ast.ClassDef):
            told = [one for one in API.methods(node) if "property" not in map(API.ast.unparse, one.decorator_list)]
            silent = [one.name for one in told if not API.docstring_of(node, one)]
            assert not silent, f"{module}.{name}"


class _Page(html.parser.HTMLParser):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.names.add(value)


def test_every_link_of_the_site_is_alive(tmp_path: Path) -> None:
    assert SITE.build(tmp_path) > len(SITE.documents())
    pages = {file: _Page(file) for file in tmp_path.rglob("*.html")}
    reached = {link.partition("#")[0] for link in pages[tmp_path / "index.html"].links}
    assert {f"docs/{file.stem}.html" for file in (ROOT / "docs").glob("*.md")} <= reached
    for file, page in pages.items():
        for link in page.links:
            if re.match(r"https?:|mailto:", link):
                continue
            target, _, anchor = link.partition("#")
            path = (file.parent / target).resolve() if target else file
            assert path.is_file(), f"{file.relative_to(tmp_path)}: {link}"
            if anchor and path in pages:
                assert anchor in pages[path].names, f"{file.relative_to(tmp_path)}: {link}"
