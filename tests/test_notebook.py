"""The notebook runs from its first cell to its last one, and writes the figures."""

import json
from pathlib import Path

import pandas as pd
import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "paper.ipynb"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert len(cells) == 20
    assert not any(cell.get("outputs") for cell in cells)
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source, f"{NOTEBOOK.name}, {cell['id']}", "exec"), names)
    table = names["table"]
    assert isinstance(table, pd.DataFrame)
    memory = table.set_index(["variable", "index"]).loc[("memory", "r1")]
    assert memory["q"] < 0.05
    written = {path.name for path in (tmp_path / "results" / "figures").iterdir()}
    assert {
        "patterns.pdf",
        "pairs.pdf",
        "captions.md",
        "table1.csv",
        "methods.md",
    } <= written
