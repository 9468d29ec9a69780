"""Makes the documents a small site: `make docs`, then open build/site/index.html. Nothing in it comes from elsewhere.

Every document that is tracked becomes a page at its own place, so that links between them work as they do in the
repository; what they link to beside pages is copied. CommonMark with tables, as the documents are written for.
"""

from __future__ import annotations

import html
import itertools
import json
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
CONTENTS = {
    "Begin": (
        "README.md",
        "docs/first-batch.md",
        "docs/tutorial.ipynb",
        "docs/spark.md",
        "docs/connectors.md",
        "docs/order.md",
    ),
    "Run it": (
        "docs/operations.md",
        "docs/journal-service.md",
        "docs/going-back.md",
        "docs/metrics.md",
        "deploy/README.md",
    ),
    "Reference": (
        "docs/api.md",
        "docs/json.md",
        "sos_client/wire/PROTOCOL.md",
        "sos_server/storage/STORAGE.md",
        "journal/FORMAT.md",
        "journal/gateway/PROTOCOL.md",
    ),
    "How and why": (
        "docs/design.md",
        "docs/takeover.md",
        "docs/two-phase-commit.md",
        "docs/testing.md",
        "docs/effectively-once.md",
        "docs/chaos.md",
        "docs/performance.md",
        "docs/scale.md",
        "docs/decisions",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docs/style.md",
        "SECURITY.md",
    ),
}
"""What stands at the side of each page. A directory is a list of its documents."""
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; display: flex; flex-wrap: wrap; }
nav { flex: 0 0 13rem; padding: 1.5rem; font-size: .9rem; }
nav ul { list-style: none; padding: 0; margin: .2rem 0 1rem; }
nav [aria-current] { font-weight: 700; }
main { flex: 1 1 24rem; min-width: 0; max-width: 60rem; padding: 1.5rem; }
pre, table { display: block; overflow-x: auto; }
pre { padding: .8rem; background: color-mix(in srgb, CanvasText 7%, Canvas); border-radius: 4px; font-size: .875rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid GrayText; }
img { max-width: 100%; }
"""
WRITTEN = (".md", ".ipynb")
LINK = re.compile(r'(?P<name>href|src)="(?P<target>[^":#]+)(?P<anchor>#[^"]*)?"')


def slug(heading: str) -> str:
    """What a link to a heading is called, as code hosts do it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-")


def documents() -> list[str]:
    """Every one that is tracked, by its path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md", "*.ipynb"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(one for one in set(found) if (ROOT / one).is_file())


def place_of(document: str) -> str:
    """Where the page of a document, or of a directory, lies in the site."""
    if document == "README.md":
        return "index.html"
    return f"{document.rpartition('.')[0]}.html" if document.endswith(WRITTEN) else f"{document}/index.html"


def text_of(document: str) -> str:
    """As Markdown; a notebook's code stands between its texts."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if not document.endswith(".ipynb"):
        return text
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return "\n\n".join(source if kind == "markdown" else f"```python\n{source}\n```" for kind, source in cells)


def title_of(document: str) -> str:
    if not document.endswith(WRITTEN):
        return Path(document).name.capitalize()
    heading = re.search(r"^# (.+)", text_of(document), re.MULTILINE)
    return "Overview" if document == "README.md" else heading[1] if heading else document


def build(site: Path = SITE) -> int:
    """Write all of it; how many pages there are."""
    shutil.rmtree(site, ignore_errors=True)
    written = documents()
    titles = {one: title_of(one) for one in (*written, *(one for part in CONTENTS.values() for one in part))}
    for directory in sorted({one for one in titles if not one.endswith(WRITTEN)}):
        below = [one for one in written if posixpath.dirname(one) == directory]
        items = "\n".join(f"- [{titles[one]}]({posixpath.basename(one)})" for one in below)
        _write(site, directory, f"# {titles[directory]}\n\n{items}\n", titles, folder=directory)
    for document in written:
        _write(site, document, text_of(document), titles, folder=posixpath.dirname(document))
    return len(titles)


def _write(site: Path, document: str, text: str, titles: dict[str, str], *, folder: str) -> None:
    def moved(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link["target"]))
        if path in titles:
            path = place_of(path)
        elif (ROOT / path).is_file():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, site / path)
        elif (ROOT / path).is_dir():
            return f'title="{html.escape(path)}, in the repository"'
        return f'{link["name"]}="{html.escape(posixpath.relpath(path, folder or "."))}{link["anchor"] or ""}"'

    body = LINK.sub(moved, _rendered(text))
    page = (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(titles[document])} · SOS</title><style>{STYLE}</style>\n"
        f"<body><nav>{_contents(document, titles, folder)}</nav>\n<main>{body}</main></body></html>\n"
    )
    target = site / place_of(document)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")


def _rendered(text: str) -> str:
    tokens = (markdown := MarkdownIt("commonmark").enable(["table", "strikethrough"])).parse(text)
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", slug(_words(inline)))
    return str(markdown.renderer.render(tokens, markdown.options, {}))


def _words(inline: Any) -> str:
    """A heading without its marks and the targets of its links."""
    return "".join(one.content for one in inline.children or ())


def _contents(document: str, titles: dict[str, str], folder: str) -> str:
    parts = []
    for title, members in CONTENTS.items():
        items = []
        for one in members:
            here = ' aria-current="page"' if one == document else ""
            target = posixpath.relpath(place_of(one), folder or ".")
            items.append(f'<li><a href="{target}"{here}>{html.escape(titles[one])}</a></li>')
        parts.append(f"<strong>{title}</strong><ul>{''.join(items)}</ul>")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(f"{build()} pages; begin at {SITE.relative_to(ROOT)}/index.html\n")
