"""Tables of normative models are fitted as they are: no covariates, no second
adjustment.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from tests.tables.helpers import PARCELS, write_table

N = 80
IDS = [f"sub-{k:03d}" for k in range(N)]
Z = np.random.default_rng(0).normal(size=(N, 2 * len(PARCELS)))
Z[N // 2 :, :4] -= 2.0


def make_z_table(
    measure: str = "volume", id_column: str = "observations"
) -> pd.DataFrame:
    """Return z-scores as PCNtoolkit writes them: a column of ids, and one column per
    response variable.
    """
    names = [f"{side}_{name}_{measure}" for side in ("lh", "rh") for name in PARCELS]
    return pd.DataFrame({id_column: IDS, **dict(zip(names, Z.T, strict=True))})


@pytest.fixture
def people(tmp_path: Path) -> list[str]:
    frame = pd.DataFrame({"participant_id": IDS, "age": np.linspace(50, 80, N)})
    frame = frame.assign(group=["control"] * (N // 2) + ["patient"] * (N // 2))
    path = write_table(frame, tmp_path / "participants.csv")
    return ["--participants", str(path), "--group", "group"]


def run_check(
    frame: pd.DataFrame, folder: Path, *options: str
) -> tuple[int, dict[str, object], str]:
    path = write_table(frame, folder / "Z_test.csv")
    outcome = CliRunner().invoke(app, ["check", str(path), *options, "--json"])
    values = json.loads(outcome.stdout)
    return (
        outcome.exit_code,
        values,
        "\n".join(f"{p['what']}. {p['cure']}" for p in values["problems"]),
    )


@pytest.mark.parametrize("id_column", ["observations", "subject_ids", "subjects"])
def test_z_scores_of_pcntoolkit_are_ready_without_covariates(
    tmp_path: Path, people: list[str], id_column: str
) -> None:
    code, values, problems = run_check(
        make_z_table(id_column=id_column), tmp_path, *people, "--covariates", "none"
    )
    assert code == 0, problems
    assert (values["unit"], values["regions"]) == ("standardised", 2 * len(PARCELS))
    assert "look standardised already" in problems
    assert "adjusted for" not in problems


def test_z_scores_of_volumes_and_thickness_side_by_side(
    tmp_path: Path, people: list[str]
) -> None:
    both = make_z_table().merge(make_z_table("thickness"), on="observations")
    code, values, problems = run_check(both, tmp_path, *people)
    assert (code, values["unit"]) == (0, "standardised"), problems


def test_a_second_adjustment_is_named(tmp_path: Path, people: list[str]) -> None:
    code, _, problems = run_check(
        make_z_table(), tmp_path, *people, "--covariates", "age"
    )
    assert code == 0
    assert (
        "standardised values are adjusted for age. If a normative model has removed this already"
        in problems
    )


@pytest.mark.parametrize("top", [1.0, 100.0])
def test_centiles_are_recognised(tmp_path: Path, people: list[str], top: float) -> None:
    table = make_z_table()
    table.iloc[:, 1:] = top * stats.norm.cdf(table.iloc[:, 1:])
    code, values, problems = run_check(table, tmp_path, *people)
    assert (code, values["unit"]) == (0, "standardised")
    assert "look like centiles" in problems
    assert "Give z-scores: scipy.stats.norm.ppf" in problems


def test_harmonised_volumes_are_volumes(tmp_path: Path, people: list[str]) -> None:
    table = make_z_table()
    table.iloc[:, 1:] = 3000 + 300 * table.iloc[:, 1:]
    _, values, problems = run_check(table, tmp_path, *people, "--covariates", "age")
    assert values["unit"] == "mm3"
    assert "standardised" not in problems


def test_values_are_only_scaled(tmp_path: Path, people: list[str]) -> None:
    path = write_table(make_z_table(), tmp_path / "Z_test.csv")
    cohort = ri.read_cohort(path, people[1], group="group", covariates="none")
    preprocessing = ri.Preprocessing.fit(cohort)
    assert (preprocessing.adjust, preprocessing.residualiser.codings) == ("linear", ())
    controls = cohort.volumes[cohort.is_control]
    expected = 1 + 0.1 * (cohort.volumes - controls.mean()) / controls.std()
    np.testing.assert_allclose(preprocessing.transform(cohort), expected)
