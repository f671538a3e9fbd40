"""The layers as a picture: ``python scripts/draw_layers.py`` writes ``docs/layers.svg``.

Layers come from the contract that ``lint-imports`` keeps, their words from the first line of each package, so the
picture says what holds. The documentation's build draws it again.
"""

import ast
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT, GAP, NAMES = 900, 46, 8, 170
SMALL = "One error family; files written whole or not at all; people in blocks; one thread"  # of the modules below all


def layers() -> list[str]:
    """Return the layers, the outermost first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    return list(next(contract["layers"] for contract in contracts if contract["type"] == "layers"))


def words(name: str) -> str:
    """Return what a package says it is."""
    path = ROOT / "src" / "rindices" / name / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.exists() else None
    return text.splitlines()[0] if text else SMALL


def box(place: int, name: str) -> str:
    """Return one layer as a bar: its name, and what it is."""
    top = GAP + place * (HEIGHT + GAP)
    lines = wrap(words(name), 100)[:2]
    first = top + HEIGHT / 2 + (5 if len(lines) == 1 else -4)
    text = "".join(
        f'<text x="{NAMES}" y="{first + 17 * row:g}" class="what">{escape(line)}</text>'
        for row, line in enumerate(lines)
    )
    labels = wrap(name.replace(" | ", ", "), 16)[:2]
    size, begin = (' style="font-size:13px"', -4) if len(labels) > 1 else ("", 5)
    label = "".join(
        f'<text x="{2 * GAP + 4}" y="{top + HEIGHT / 2 + begin + 17 * row:g}" class="name"{size}>{escape(line)}</text>'
        for row, line in enumerate(labels)
    )
    return f'<rect x="{GAP}" y="{top}" width="{WIDTH - 2 * GAP}" height="{HEIGHT}" rx="6"/>{label}{text}'


def draw() -> str:
    """Return the picture as SVG."""
    names = layers()
    height = GAP + len(names) * (HEIGHT + GAP)
    style = (
        "rect{fill:#eef4f7;stroke:#0b5a7a;stroke-width:1}text{font-family:Helvetica,Arial,sans-serif;fill:#1b2a33}"
        ".name{font-size:15px;font-weight:bold}.what{font-size:14px}"
    )
    boxes = "\n".join(box(place, name) for place, name in enumerate(names))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="The layers of rindices, outermost first">\n<style>{style}</style>\n'
        f'<rect width="{WIDTH}" height="{height}" style="fill:#fff;stroke:none"/>\n{boxes}\n</svg>\n'
    )


if __name__ == "__main__":
    (ROOT / "docs" / "layers.svg").write_text(draw(), "utf-8")
