"""Read a rendered page: its tags, the data behind its figures, the text of
a section.
"""

import base64
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rindices.analysis.study_results import StudyResults
from rindices.model.findings import CountedPeople, collect_findings
from rindices.plot import geometry
from rindices.report.formatting import make_environment


@contextmanager
def omit_pictures() -> Iterator[None]:
    """Draw neither brains nor charts, which take most of the time of a page; for tests
    of its text and data.
    """
    original = Figure.savefig

    def save(figure: Figure, target: Any, **options: Any) -> None:
        if isinstance(target, io.StringIO):
            target.write("<svg></svg>")
        else:
            original(figure, target, **options)

    no_brains = mock.patch.object(
        geometry, "list_missing_packages", return_value=["nilearn"]
    )
    with no_brains, mock.patch.object(Figure, "savefig", save):
        yield


class Page(HTMLParser):
    """Tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read_figure_data(parsed: Page, name: str) -> pd.DataFrame:
    (link,) = [a for a in parsed.all("a") if a.get("download") == f"{name}.csv"]
    return pd.read_csv(
        io.BytesIO(base64.b64decode(link["href"].partition("base64,")[2]))
    )


def remove_random_data(page: str) -> str:
    """Return a page without the table whose rows are in a random order: the rest is the
    same on every page.
    """
    return re.sub(r'(?<=download="r_indices.csv" href=")[^"]*', "", page)


def read_script_data(page: str, name: str) -> Any:
    """Return the JSON of a script element."""
    (text,) = re.findall(
        rf'<script type="application/json" id="{name}">(.*?)</script>', page
    )
    return json.loads(text)


def unpack_arrays(packed: Any) -> dict[str, np.ndarray]:
    """Decode the arrays of a page, as its script does."""
    content = zlib.decompress(base64.b64decode(packed["bytes"]))
    arrays = {}
    for name, entry in packed["arrays"].items():
        kind = np.dtype(entry["type"])
        planes = np.frombuffer(
            content, np.uint8, entry["length"] * kind.itemsize, entry["start"]
        )
        arrays[name] = np.frombuffer(
            planes.reshape(kind.itemsize, -1).T.tobytes(), kind
        )
    return arrays


def get_text(html: str) -> str:
    """Return what a reader sees, on one line."""
    html = re.sub(r"<(svg|style|script).*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def get_section_text(page: str, section: str) -> str:
    return get_text(page.partition(f'id="{section}"')[2].partition("</section>")[0])


def render_macro(name: str, *arguments: Any) -> str:
    """Return what a macro of the templates gives."""
    return str(
        getattr(make_environment().get_template("macros.html").module, name)(*arguments)
    ).strip()


def render_section(name: str, **values: Any) -> str:
    """Return the text of one section."""
    return get_text(
        make_environment().get_template(f"sections/{name}.html").render(**values)
    )


def collect_again(results: StudyResults) -> StudyResults:
    """Return results whose findings are those of their changed model and selection."""
    people = CountedPeople(
        results.findings.participants, results.findings.scans, results.findings.outlying
    )
    findings = collect_findings(
        results.model,
        results.selection,
        people=people,
        artefacts=results.findings.artefacts,
    )
    return replace(results, findings=findings)


def change_selection(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change ``selection.json`` of a study; without ``findings.json``, a report reads
    all from the selection.
    """
    path = folder / "selection.json"
    selection = json.loads(path.read_text("utf-8"))
    change(selection)
    path.write_text(json.dumps(selection), "utf-8")
    (folder / "findings.json").unlink(missing_ok=True)


def compute_contrast(first: str, second: str) -> float:
    """WCAG's contrast ratio of two colours #rrggbb."""
    light = []
    for colour in (first, second):
        parts = [
            int(colour[position : position + 2], 16) / 255 for position in (1, 3, 5)
        ]
        linear = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        ]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)
