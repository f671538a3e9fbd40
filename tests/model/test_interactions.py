"""A model whose patterns strengthen each other, from its table of interactions to its
export and its report.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.exchange.onnx import export_onnx
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from rindices.learners.inference import InteractingHead
from rindices.model.pattern_tables import INTERACTION_COLUMNS, average_interaction
from rindices.selection.agreement import pattern_c_index
from tests.cohorts import fit_tiny_model, simulate_few_regions
from tests.exchange.test_onnx import assert_equal, list_columns, run_graph


@pytest.fixture(scope="module")
def simulated() -> SimulatedCohort:
    return simulate_few_regions(
        replace(TASKS["together"], n_controls=250, n_patients=500), seed=0
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interacting")


@pytest.fixture(scope="module")
def model(simulated: SimulatedCohort, folder: Path) -> ri.FittedModel:
    return ri.fit(simulated.cohort, 3, members=2, workers=1, out=folder, seed=1)


@pytest.mark.slow
def test_the_pattern_that_grows_with_another_one_is_found(
    model: ri.FittedModel, simulated: SimulatedCohort
) -> None:
    """In the task, the change of each pattern grows with the severity of the next one,
    by a factor up to 2.
    """
    table = model.interactions()
    assert list(table) == list(INTERACTION_COLUMNS)
    patients = simulated.cohort.is_patient
    indices = model.apply(simulated.cohort).loc[patients, ["r1", "r2", "r3"]].to_numpy()
    names = [
        f"r{column + 1}"
        for column in pattern_c_index(simulated.truth, indices).matching
    ]
    factors = table.set_index(["pattern", "other"])["factor"]
    for k, name in enumerate(names):
        growing, other = names[(k + 1) % 3], names[(k + 2) % 3]
        assert factors[name, growing] > 1.2
        assert factors[name, growing] > factors[name, other] + 0.3
    assert ((table["low"] < table["factor"]) & (table["factor"] < table["high"])).all()


@pytest.mark.slow
def test_curves_are_those_at_medium_severity_of_the_others(
    model: ri.FittedModel,
) -> None:
    head = model.heads[0]
    assert isinstance(head, InteractingHead)
    growth = 1.0 + 0.5 * head.interaction.sum(axis=1)
    expected = np.stack(
        [
            head.to_control_sd(change)
            for change in (growth[:, None] * head.steps.sum(axis=1))[None]
        ]
    )
    np.testing.assert_allclose(head.compute_curves(np.ones(1)), expected)


@pytest.mark.slow
def test_files_and_graphs_keep_interactions(
    model: ri.FittedModel, simulated: SimulatedCohort, tmp_path: Path
) -> None:
    model.save(tmp_path / "model.safetensors")
    loaded, cohort = ri.load(tmp_path / "model.safetensors"), simulated.cohort
    applied = model.apply(cohort)
    assert applied.equals(loaded.apply(cohort))
    interaction, read = average_interaction(model), average_interaction(loaded)
    assert interaction is not None
    np.testing.assert_array_equal(interaction, read)
    export_onnx(model, tmp_path / "model.onnx")
    assert_equal(run_graph(tmp_path / "model.onnx", list_columns(cohort)), applied, 3)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.slow
def test_the_report_shows_interactions(model: ri.FittedModel, folder: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    page = (folder / "report.html").read_text("utf-8")
    assert "patterns strengthen or weaken each other" in page
    assert f"<td>{model.interactions()['factor'][0]:.2f} <small>" in page


def test_models_whose_changes_add_up_have_no_interactions() -> None:
    additive = fit_tiny_model()
    assert average_interaction(additive) is None
    assert additive.interactions().empty
