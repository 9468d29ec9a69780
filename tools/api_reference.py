"""Writes docs/api.md: the public Python API, from what the packages declare and the docstrings say.

`python tools/api_reference.py --write`. Reads the sources, imports nothing of them, so PySpark need not be there.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "api.md"

PUBLIC: dict[str, tuple[str, ...]] = {
    "spark_integration": (),
    "connectors": (),
    "sos_client.client": ("open_client", "SosClient"),
    "journal.gateway.client.client": ("open_volume", "RemoteVolume", "ClientSettings"),
    "journal.errors": ("JournalError", "JournalCode", "UnavailableError"),
    "sos_client.wire.errors": ("SosError", "ErrorCode", "RefusedError"),
}
"""Each module and the names in it; where there are none, those of its `__all__`."""
INTERFACES = {"RemoteVolume": "journal.volume"}
"""Where a Protocol called Volume says what the methods of a class promise that have no docstring of their own."""
INTERNAL = {"DueStreams", "Source.ending", "Source.run", "Source.room", "Source.until", "Source.forget"} | {
    "RemoteVolume.persist_change",
    "RemoteVolume.one_link",
    "OpenStream.waits_for_answer",
}
"""What only the project's own modules use."""
HEAD = """\
# Python API

What programs may import, from the code (`python tools/api_reference.py --write`; a test compares). What is not named
here may change at any time; what is, only with a new version, and the [changelog](../CHANGELOG.md) says so. Everything
that is `async` runs under Trio. Examples: [a query](../README.md#use-it), [a source](../examples/source.py),
[a sink](../examples/sink.py), [ordered rows](../examples/ordered_pipeline.py).
"""
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def source_of(module: str) -> ast.Module:
    path = ROOT / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))


def public_names(module: str) -> tuple[str, ...]:
    """What a module declares."""
    if PUBLIC[module]:
        return PUBLIC[module]
    for node in source_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tuple(ast.literal_eval(node.value))
    raise LookupError(f"{module} declares nothing")


def definition(module: str, name: str) -> Definition:
    """Where a name is defined, in this module or in the one that it is imported from."""
    tree = source_of(module)
    for node in ast.walk(tree):
        if isinstance(node, Definition) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return definition(node.module, name)
    raise LookupError(f"{module} has no {name}")


def document() -> str:
    """The whole page."""
    lines = [HEAD]
    for module in PUBLIC:
        about = ast.get_docstring(source_of(module)) or ""
        lines += [f"## {module}", about, ""]
        for name in public_names(module):
            lines += _described(definition(module, name), name)
    return "\n".join(lines).rstrip() + "\n"


def _described(node: Definition, name: str) -> list[str]:
    lines = [f"### {name}"]
    if not isinstance(node, ast.ClassDef):
        return [*lines, _signature(node), ast.get_docstring(node) or "", ""]
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines += [f"```python\nclass {name}{f'({bases})' if bases else ''}\n```", ast.get_docstring(node) or "", ""]
    fields = list(_fields(node))
    if fields:
        lines += [*fields, ""]
    for method in methods(node):
        lines += [f"#### {name}.{method.name}", _signature(method), docstring_of(node, method), ""]
    return lines


def methods(node: Definition) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public ones."""
    return [
        one for one in methods_of(node) if not one.name.startswith("_") and f"{node.name}.{one.name}" not in INTERNAL
    ]


def docstring_of(node: ast.ClassDef, method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A method's own words, or those of the interface that it implements."""
    told = ast.get_docstring(method)
    if told is None and node.name in INTERFACES:
        protocol = definition(INTERFACES[node.name], "Volume")
        told = next((ast.get_docstring(one) for one in methods_of(protocol) if one.name == method.name), None)
    return told or ""


def methods_of(node: Definition) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]


def _fields(node: ast.ClassDef) -> list[str]:
    found, body = [], node.body
    for inner, after in zip(body, [*body[1:], None], strict=True):
        said = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            said = " " + re.sub(r"\s+", " ", after.value.value)
        if (isinstance(inner, ast.AnnAssign) and not ast.unparse(inner.target).startswith("_")) or (
            isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]).isupper()
        ):
            found.append(f"- `{ast.unparse(inner)}`{said}")
    return found


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """As it stands in the source, one parameter a line if it is long."""
    marks = [f"@{ast.unparse(one)}\n" for one in node.decorator_list]
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    whole = f"{word} {node.name}({ast.unparse(node.args)}){result}"
    if len(whole) > 110:
        arguments = _each_argument(node.args)
        whole = f"{word} {node.name}(\n" + "".join(f"    {one},\n" for one in arguments) + f"){result}"
    return f"```python\n{''.join(marks)}{whole}\n```"


def _each_argument(arguments: ast.arguments) -> list[str]:
    """What stands between the commas that are not inside brackets."""
    parts, depth = [""], 0
    for sign in ast.unparse(arguments):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(document(), encoding="utf-8")
    else:
        sys.stdout.write(document())
