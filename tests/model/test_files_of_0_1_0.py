"""Files that rindices 0.1.0 wrote (commit a673d7a) can be read, with equal R-indices.

``fixtures/0.1.0`` has a model of each method and shape, fitted to `small_cohort`, with
the R-indices that 0.1.0 computed; and two results folders, without what was only needed
to resume the study.
"""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scripts.make_model_fixture import small_cohort

import rindices as ri
from rindices.analysis.study_results import read_record, read_study_results
from rindices.model.pattern_tables import get_shape
from rindices.model.records import CohortRecord, SelectionRecord

FOLDER = Path(__file__).parent / "fixtures" / "0.1.0"
METHODS = {"paper": "surreal-gan"} | {
    f"trajectories-{shape}": "trajectories"
    for shape in ("straight", "curved", "interacting")
}


SHAPES = {
    "trajectories-straight": "proportional",
    "trajectories-curved": "staged",
    "trajectories-interacting": "interacting",
}


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.safetensors")), ids=lambda path: path.stem
)
def test_models_have_equal_r_indices(path: Path, tmp_path: Path) -> None:
    expected = pd.read_csv(path.with_suffix(".csv")).filter(regex=r"^r\d")
    model = ri.load(path)
    assert get_shape(model) == SHAPES.get(path.stem, "")
    assert len(expected.columns) == 3 * model.n_patterns  # with ends of intervals
    assert model.card.method is not None
    assert model.card.method.name == METHODS.get(path.stem, path.stem)
    model.save(tmp_path / "again.safetensors")
    for each in (model, ri.load(tmp_path / "again.safetensors")):
        found = each.apply(small_cohort())[expected.columns]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_results_folder_is_read(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "results-patterns", tmp_path / "results")
    results = read_study_results(tmp_path / "results")
    assert results.names == ["r1", "r2"]
    assert results.selection.finding == "patterns"
    assert results.selection.chosen is not None
    assert results.selection.chosen.held_out is not None
    assert results.selection.chosen.held_out.shape == "proportional"
    assert results.selection.chosen.held_out.proportional == pytest.approx(
        -12.1976, abs=1e-4
    )
    written = pd.read_csv(FOLDER / "results-patterns" / "r_indices.tsv", sep="\t")
    np.testing.assert_array_equal(
        results.indices[results.names], written[results.names].dropna()
    )
    assert len(results.patterns) == 2 * 4 * 12  # patterns, severities, regions
    assert results.novel == written["novel"].sum()
    assert results.outlying_measurements is not None
    assert results.outlying_measurements["region"].tolist() == ["r4"]


def test_a_folder_without_a_difference_is_read() -> None:
    folder = FOLDER / "results-no-difference"
    selection = read_record(folder / "selection.json", SelectionRecord)
    assert selection.finding == "no_difference"
    assert not selection.is_difference_detected
    assert read_record(folder / "cohort.json", CohortRecord).people == 60
