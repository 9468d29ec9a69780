"""`python -m tests.spark_integration.run_notebook FILE`: its code cells from top to bottom, as a kernel runs them.

Of what IPython adds to Python only `!command` is known: a line for a shell, with `{name}` for the notebook's variables.
An exception ends it, and so does what a kernel would only show: a command that is not there.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMAND = re.compile(r"^(\s*)!(.*)$", re.MULTILINE)
_NOT_FOUND = 127


def code_cells(notebook: Path) -> Iterator[str]:
    """The text of each."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def as_python(cell: str) -> str:
    """The cell, with its commands as calls."""
    return _COMMAND.sub(lambda match: f"{match[1]}_shell({match[2]!r}, globals())", cell)


def _shell(command: str, variables: dict[str, Any]) -> None:
    filled = re.sub(r"\{(\w+)\}", lambda match: str(variables[match[1]]), command)
    sys.stdout.flush()
    done = subprocess.run(filled, shell=True, check=False)
    if done.returncode == _NOT_FOUND:
        raise FileNotFoundError(filled)


def run_notebook(notebook: Path) -> None:
    """Each cell's output, and the value of its last line, on standard output."""
    variables: dict[str, Any] = {"__name__": "__main__", "_shell": _shell}
    for number, cell in enumerate(code_cells(notebook), start=1):
        sys.stdout.write(f"In [{number}]:\n{textwrap.indent(cell, '    ')}\n")
        tree = ast.parse(as_python(cell), filename=f"cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), variables)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), variables)
            if value is not None:
                sys.stdout.write(f"Out[{number}]: {value!r}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run_notebook(Path(sys.argv[1]))
