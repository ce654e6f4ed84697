"""Pages that are made from the code: the table of operators and the table of formats."""

from __future__ import annotations

import inspect
from pathlib import Path

import meshop.models
import meshop.nn
from meshop.io import FORMATS
from meshop.nn.functional import argument_names


def write(folder: Path) -> None:
    """Write the generated pages into ``folder``; a page that has not changed keeps its date."""
    for name, text in (("operators.md", operators()), ("formats.md", formats())):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def operators() -> str:
    """A row for everything in ``meshop.nn`` and ``meshop.models``."""
    lines = [
        "# Operators",
        "",
        "Made from `meshop.nn.__all__` and `meshop.models.__all__`. All take ragged batches; the laws of",
        "{mod}`meshop.testing` are checked for every row.",
        "",
        "```{eval-rst}",
        ".. list-table::",
        "   :header-rows: 1",
        "",
    ]
    rows = [["name", "what it is", "needs", "takes"]]
    for module in (meshop.nn, meshop.models):
        for name in module.__all__:
            cls = getattr(module, name)
            if inspect.isclass(cls):
                summary = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")
                arguments = {a: required for a, required in argument_names(cls).items() if a != "self"}
                needs = ", ".join(f"``{a}``" for a, required in arguments.items() if required)
                takes = ", ".join(f"``{a}``" for a, required in arguments.items() if not required)
                rows.append([f":class:`~{module.__name__}.{name}`", summary, needs, takes])
    for first, *others in rows:
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return "\n".join([*lines, "```"]) + "\n"


def formats() -> str:
    """A row for every extension that can be read or written."""
    lines = [
        "# Formats",
        "",
        "Made from `meshop.io.FORMATS`. Cells come in the order of the file, point and cell data under their names.",
        "",
        "| extension | format | read | write |",
        "|---|---|---|---|",
    ]
    for extension, row in FORMATS.items():
        lines.append(f"| `{extension}` | {row.name} | {'yes' if row.read else ''} | {'yes' if row.write else ''} |")
    return "\n".join(lines) + "\n"
