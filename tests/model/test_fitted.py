"""A model is one file, applies as it was fitted, and names what does not match."""

import json
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.apply.tables import write_indices
from rindices.errors import ModelError
from rindices.experiments.simulate import SimulatedCohort, write_cohort
from rindices.learners.inference import SurrealHead
from rindices.model.safetensors_io import read_metadata
from tests.cohorts import fit_tiny_model, simulate_few_regions
from tests.study.helpers import run


@pytest.fixture(scope="module")
def simulated() -> SimulatedCohort:
    return simulate_few_regions("tiny", seed=0)


@pytest.fixture(scope="module")
def model() -> ri.FittedModel:
    return fit_tiny_model(3)


def indices(frame: pd.DataFrame) -> np.ndarray:
    return frame[[name for name in frame if re.fullmatch(r"r\d+", name)]].to_numpy()


def test_r_indices_are_close_to_the_true_severities(
    simulated: SimulatedCohort, model: ri.FittedModel
) -> None:
    from rindices.selection.agreement import pattern_c_index

    inferred = indices(model.apply(simulated.cohort))[simulated.cohort.is_patient]
    assert pattern_c_index(simulated.truth, inferred).mean > 0.82


def test_a_saved_model_is_equal_after_loading(
    simulated: SimulatedCohort, model: ri.FittedModel, tmp_path: Path
) -> None:
    model.save(tmp_path / "m.safetensors")
    again = ri.load(tmp_path / "m.safetensors")
    pd.testing.assert_frame_equal(
        again.apply(simulated.cohort), model.apply(simulated.cohort)
    )
    np.testing.assert_array_equal(again.patterns, model.patterns)
    assert model.training is not None
    assert again.training is not None
    assert model.intervals is not None
    for old, new in (
        (model.training, again.training),
        (model.intervals, again.intervals),
    ):
        for field in fields(old):
            np.testing.assert_array_equal(
                getattr(new, field.name), getattr(old, field.name)
            )
    assert again.card.to_dict() == json.loads(json.dumps(model.card.to_dict()))
    again.save(tmp_path / "n.safetensors")
    assert (tmp_path / "n.safetensors").read_bytes() == (
        tmp_path / "m.safetensors"
    ).read_bytes()


def test_metadata_of_the_file(model: ri.FittedModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m.safetensors")
    metadata = read_metadata(tmp_path / "m.safetensors")
    expected = {
        "schema",
        "regions",
        "unit",
        "covariates",
        "method",
        "seed",
        "agreement",
        "fingerprint",
        "versions",
    }
    assert expected | {"citation", "rindices_version", "trained_on"} <= set(metadata)
    assert metadata["method"] == {"name": "contrastive", "settings": {}}


def test_order_of_columns_and_people_does_not_matter(
    simulated: SimulatedCohort, model: ri.FittedModel
) -> None:
    whole = indices(model.apply(simulated.cohort))
    turned = replace(simulated.cohort, volumes=simulated.cohort.volumes.iloc[:, ::-1])
    np.testing.assert_array_equal(indices(model.apply(turned)), whole)
    rows = np.arange(3, 90, 7)
    np.testing.assert_allclose(
        indices(model.apply(simulated.cohort.take(rows))), whole[rows], atol=1e-12
    )


def test_with_numpy_alone_from_csv_and_parquet(
    simulated: SimulatedCohort, model: ri.FittedModel, tmp_path: Path
) -> None:
    write_cohort(simulated, tmp_path)
    model.save(tmp_path / "m.safetensors")
    shuffled = (
        pd.read_csv(tmp_path / "volumes.csv")
        .sample(frac=1, axis=1, random_state=0)
        .sample(frac=1, random_state=1)
    )
    shuffled.to_parquet(tmp_path / "volumes.parquet")
    program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "scipy", "sklearn", *("pyarrow",) * ("volumes.csv" in sys.argv[3])}:
            raise ModuleNotFoundError(name + " is not here")
sys.meta_path.insert(0, Absent())
from rindices.cli.main import run
run()
"""
    for table in ("volumes.csv", "volumes.parquet"):
        out = tmp_path / f"{table}.tsv"
        arguments = ["apply", str(tmp_path / "m.safetensors"), str(tmp_path / table)]
        arguments += [
            "--participants",
            str(tmp_path / "participants.tsv"),
            "--out",
            str(out),
        ]
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        applied = pd.read_csv(out, sep="\t").set_index("participant_id").sort_index()
        np.testing.assert_allclose(
            indices(applied), indices(model.apply(simulated.cohort)), atol=1e-6
        )


def test_regions_that_do_not_match_are_named(
    simulated: SimulatedCohort, model: ri.FittedModel
) -> None:
    volumes = simulated.cohort.volumes
    with pytest.raises(ModelError, match="1 regions are missing: MUSE_47"):
        model.apply(
            replace(simulated.cohort, volumes=volumes.drop(columns="MUSE_47")),
            on_missing="error",
        )
    with pytest.raises(
        ModelError, match=r"1 regions are missing: MUSE_47 .did you mean"
    ):
        model.apply(
            replace(
                simulated.cohort,
                volumes=volumes.rename(columns={"MUSE_47": "MUSE_47b"}),
            )
        )
    with pytest.raises(
        ModelError, match=r"not regions of this model: extra.*exclude=.*extra"
    ):
        model.apply(replace(simulated.cohort, volumes=volumes.assign(extra=1.0)))
    with pytest.raises(
        ModelError, match="table is in ml, the model was trained on mm3"
    ):
        model.apply(replace(simulated.cohort, unit="ml"))
    with pytest.raises(
        ModelError, match="scaled differently than in training: MUSE_47"
    ):
        model.apply(
            replace(
                simulated.cohort,
                volumes=volumes.assign(MUSE_47=volumes["MUSE_47"] * 1000),
            )
        )


def test_people_without_covariates(simulated: SimulatedCohort, tmp_path: Path) -> None:
    write_cohort(simulated, tmp_path)
    fit_tiny_model().save(tmp_path / "m.safetensors")
    people = pd.read_csv(tmp_path / "participants.tsv", sep="\t").drop(columns="group")
    people.loc[4, "age"] = np.nan
    people.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    words = [
        "apply",
        tmp_path / "m.safetensors",
        tmp_path / "volumes.csv",
        "--participants",
        tmp_path / "p.tsv",
    ]
    words += ["--out", tmp_path / "r.csv", "--workers", 1]
    refused = run(*words)
    assert refused.returncode == 1
    assert "1 person has no age: sub-005" in refused.stderr
    dropped = run(*words, "--on-missing", "drop")
    assert dropped.returncode == 0, dropped.stderr
    assert len(pd.read_csv(tmp_path / "r.csv")) == 179


def test_missing_outputs_are_noted(
    simulated: SimulatedCohort, model: ri.FittedModel
) -> None:
    def list_notes(model: ri.FittedModel) -> list[str]:
        return [
            p.what
            for p in model.assess(simulated.cohort).problems
            if "this model has no" in p.what
        ]

    assert list_notes(model) == []
    assert model.training is not None
    unmeasured = replace(model, training=replace(model.training, distances=np.zeros(0)))
    for less in (unmeasured, replace(model, training=None)):
        assert list_notes(less)[0].startswith(
            "this model has no `outlier_score` of regions"
        )
        assert "outlier_score" not in less.apply(simulated.cohort)
    (both,) = list_notes(replace(model, training=None, intervals=None))
    assert both.startswith(
        "this model has no intervals (its error was never measured) and no `outlier_score` of regions"
    )


def test_data_dictionary(
    simulated: SimulatedCohort, model: ri.FittedModel, tmp_path: Path
) -> None:
    write_indices(model.apply(simulated.cohort), tmp_path / "r.tsv")
    described = json.loads((tmp_path / "r.json").read_text())
    ends = [f"r{k}_{end}" for k in (1, 2, 3) for end in ("low", "high")]
    assert list(described) == [
        "participant_id",
        "r1",
        "r2",
        "r3",
        *ends,
        "information",
        "outlier_score",
        "outside_training_range",
        "outside_because",
    ]
    assert described["r2"]["Description"].startswith("Severity of disease pattern 2")
    assert described["r2_low"]["Description"].startswith(
        "Lower end of the 90 % interval of r2"
    )
    with pytest.raises(ModelError, match=r"\.csv, \.tsv or \.parquet"):
        write_indices(model.apply(simulated.cohort), tmp_path / "r.xlsx")


def test_inference_with_numpy_equals_torch() -> None:
    """Inference with numpy equals torch's own, g2 after g1."""
    torch = pytest.importorskip("torch")
    from rindices.learners.gan.recipe import Recipe, TrainingPlan
    from rindices.learners.gan.train import extract_head, train_stacks
    from tests.learners.gan.reference import infer_r_indices

    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 0.1, (40, 13)), rng.normal(0.9, 0.1, (40, 13))
    brief = Recipe().replace(min_steps=30, max_steps=30)
    (trained,) = train_stacks(
        x, y, TrainingPlan(patterns=3, recipe=brief, dtype="float64")
    )
    expected = infer_r_indices(trained.weights, torch.as_tensor(y)).numpy()
    head = extract_head(trained.weights)
    assert isinstance(head, SurrealHead)
    np.testing.assert_allclose(head.infer(y), expected, atol=1e-12)
    again = SurrealHead.from_arrays(head.to_arrays())
    np.testing.assert_array_equal(again.infer(y), head.infer(y))


FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*.safetensors")), ids=lambda path: path.stem
)
def test_files_of_fixtures_load(path: Path) -> None:
    from scripts.make_model_fixture import small_cohort

    expected = pd.read_csv(path.with_suffix(".csv"), keep_default_na=False)
    applied = ri.load(path).apply(small_cohort())[expected.columns]
    pd.testing.assert_frame_equal(applied, expected, rtol=1e-9, check_dtype=False)


def test_one_person_has_the_same_numbers_as_among_others(
    simulated: SimulatedCohort,
) -> None:
    """With one pattern, one person's members lie side by side, and numpy's mean would
    add them in another order.
    """
    single = ri.fit(simulated.cohort, 1, members=9, method="contrastive", workers=1)
    everyone = single.apply(simulated.cohort)
    for row in range(0, 60, 3):
        alone = single.apply(simulated.cohort.take(np.array([row])))
        pd.testing.assert_frame_equal(
            alone, everyone.iloc[[row]].reset_index(drop=True), check_exact=True
        )


def test_volumes_of_any_kind_of_number(
    simulated: SimulatedCohort, model: ri.FittedModel
) -> None:
    regions = simulated.cohort.regions
    kinds = dict.fromkeys(regions[:2], "Float64") | dict.fromkeys(
        regions[2:4], "object"
    )
    other = replace(simulated.cohort, volumes=simulated.cohort.volumes.astype(kinds))
    pd.testing.assert_frame_equal(model.apply(other), model.apply(simulated.cohort))


def test_a_table_of_another_atlas_is_named_without_a_suggestion(
    simulated: SimulatedCohort, model: ri.FittedModel
) -> None:
    names = {name: f"lh_parcel{k}_volume" for k, name in enumerate(model.regions[:30])}
    cohort = replace(
        simulated.cohort, volumes=simulated.cohort.volumes.rename(columns=names)
    )
    with pytest.raises(
        ModelError, match=r"30 regions are missing: .* the table is of another atlas"
    ) as caught:
        model.apply(cohort)
    assert "did you mean" not in str(caught.value)
