"""Draw the layers and the imports between them: ``python scripts/draw_layers.py``
writes ``docs/layers.svg``.

The order of the layers comes from the contract that ``lint-imports`` checks, the
descriptions from the first line of each package, and the dots from the import
statements of all modules. An import that runs upwards is drawn in red. The
documentation build runs this script, and a test checks that the committed picture is
current.
"""

import ast
import re
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rindices"
PICTURE = ROOT / "docs" / "layers.svg"
WIDTH, HEADER, BAR, GAP = 1090, 84, 46, 6
DESCRIPTION_X, MATRIX_X, CELL = 130, 640, 26
STYLE = (
    "rect{fill:#eef4f7;stroke:#0b5a7a;stroke-width:1}text{font-family:Helvetica,Arial,sans-serif;fill:#1b2a33}"
    ".name{font-size:14px;font-weight:bold}.small{font-size:12px}.down{fill:#0b5a7a}.up{fill:#c0272d}"
)


def read_layers() -> list[list[str]]:
    """Return the layers, outermost first; each is a list of packages or modules."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = next(
        contract["layers"] for contract in contracts if contract["type"] == "layers"
    )
    return [layer.split(" | ") for layer in layers]


def read_imports(source: Path = SOURCE) -> set[tuple[str, str]]:
    """Return pairs of top-level names of the package: the first imports the second."""
    pairs = set()
    for path in source.rglob("*.py"):
        importer = path.relative_to(source).with_suffix("").parts[0]
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            imported = [
                module.split(".")[1]
                for module in modules
                if module.startswith("rindices.")
            ]
            pairs |= {(importer, name) for name in imported if name != importer}
    return {
        (importer, imported) for importer, imported in pairs if importer != "__init__"
    }


def describe_layer(layer: list[str]) -> str:
    """Return the first line of the docstring; of several modules, the beginnings of
    their first lines.
    """
    packages = [SOURCE / name / "__init__.py" for name in layer]
    paths = [
        path if path.is_file() else path.parent.with_suffix(".py") for path in packages
    ]
    if len(layer) == 1:
        return read_first_line(paths[0])
    return "; ".join(re.split("[:.,;]", read_first_line(path))[0] for path in paths)


def read_first_line(path: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition(
        "\n"
    )[0]


def draw_text(x: float, y: float, lines: list[str], style: str) -> str:
    """Return lines of text, centred vertically at y."""
    first = y + 4.5 - 7.5 * (len(lines) - 1)
    return "".join(
        f'<text x="{x:g}" y="{first + 15 * row:g}" class="{style}">{escape(line)}</text>'
        for row, line in enumerate(lines)
    )


def draw_layer(row: int, layers: list[list[str]], imports: set[tuple[str, str]]) -> str:
    """Return one layer: a bar with its name and description, and a dot for each layer
    that it imports from.
    """
    layer, top = layers[row], HEADER + row * (BAR + GAP)
    middle = top + BAR / 2
    parts = [
        f'<rect x="{GAP}" y="{top}" width="{WIDTH - 2 * GAP}" height="{BAR}" rx="6"/>',
        draw_text(
            3 * GAP,
            middle,
            wrap(", ".join(layer), 16, max_lines=3),
            "name" if len(layer) == 1 else "small",
        ),
        draw_text(
            DESCRIPTION_X, middle, wrap(describe_layer(layer), 86, max_lines=2), "small"
        ),
    ]
    for column, other in enumerate(layers):
        if column != row and any((a, b) in imports for a in layer for b in other):
            style = "down" if column > row else "up"
            parts.append(
                f'<circle cx="{MATRIX_X + column * CELL}" cy="{middle:g}" r="6" class="{style}"/>'
            )
    return "".join(parts)


def draw_picture() -> str:
    """Return the picture as SVG."""
    layers, imports = read_layers(), read_imports()
    height = HEADER + len(layers) * (BAR + GAP)
    labels = [layer[0] + (" ..." if len(layer) > 1 else "") for layer in layers]
    header = "".join(
        f'<text transform="translate({MATRIX_X + column * CELL + 4},{HEADER - 8}) rotate(-60)" class="small">'
        f"{escape(label)}</text>"
        for column, label in enumerate(labels)
    )
    rows = "\n".join(draw_layer(row, layers, imports) for row in range(len(layers)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="The layers of rindices, outermost first, and the layers that each imports from">\n'
        f'<style>{STYLE}</style>\n<rect width="{WIDTH}" height="{height}" style="fill:#fff;stroke:none"/>\n'
        f"{draw_text(3 * GAP, HEADER - 14, ['layer'], 'small')}"
        f"{draw_text(MATRIX_X - 94, HEADER - 14, ['imports from'], 'small')}{header}\n{rows}\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw_picture(), "utf-8")
