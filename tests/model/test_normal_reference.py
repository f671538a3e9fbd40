"""References: correlations of regions in healthy people, kept without people."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import ModelError
from rindices.experiments.reference import load_reference
from rindices.model.normal_reference import (
    NormalReference,
    load_muse_reference,
    load_reference_file,
)
from rindices.model.safetensors_io import read_metadata, write_safetensors
from rindices.tables.cohort import SITE, Cohort


@pytest.fixture(scope="module")
def healthy() -> Cohort:
    cohort = ri.simulate_cohort("tiny", seed=3, sites=3).cohort
    return cohort.take(np.flatnonzero(cohort.is_control))


def test_correlations_against_a_plain_computation(healthy: Cohort) -> None:
    reference = NormalReference.fit(healthy, "healthy.csv")
    frame = healthy.covariates
    design = pd.DataFrame(
        {
            "age": frame["age"],
            "man": (frame["sex"] == "M") * 1.0,
            "icv": np.log(frame["icv"]),
        }
    )
    logs = np.log(healthy.volumes.reset_index(drop=True))
    for columns in (design, logs):
        columns -= columns.groupby(healthy.people[SITE].to_numpy()).transform("mean")
    slopes = np.linalg.lstsq(design.to_numpy(), logs.to_numpy(), rcond=None)[0]
    expected = (logs - design.to_numpy() @ slopes).corr().to_numpy()
    np.testing.assert_allclose(reference.correlation, expected, atol=1e-9)
    assert (reference.people, reference.sites, reference.adjust) == (
        len(healthy),
        3,
        "log",
    )
    assert reference.covariates == ("age", "sex", "icv")


def test_shifts_of_sites_change_nothing(healthy: Cohort) -> None:
    moved = healthy.volumes.copy()
    moved[(healthy.people[SITE] == "site1").to_numpy()] *= 1.5
    first, second = (
        NormalReference.fit(cohort)
        for cohort in (healthy, replace(healthy, volumes=moved))
    )
    np.testing.assert_allclose(first.correlation, second.correlation, atol=1e-9)


def test_patients_are_not_part_of_it(healthy: Cohort) -> None:
    everyone = ri.simulate_cohort("tiny", seed=3, sites=3).cohort
    np.testing.assert_allclose(
        NormalReference.fit(everyone).correlation,
        NormalReference.fit(healthy).correlation,
    )


def test_a_file_gives_the_same_numbers_and_holds_no_people(
    healthy: Cohort, tmp_path: Path
) -> None:
    reference = NormalReference.fit(healthy, "healthy.csv")
    reference.save(tmp_path / "healthy.safetensors")
    again = load_reference_file(tmp_path / "healthy.safetensors")
    assert np.array_equal(again.correlation, reference.correlation)
    facts = ("regions", "people", "sites", "name", "adjust", "covariates", "digest")
    assert [getattr(again, fact) for fact in facts] == [
        getattr(reference, fact) for fact in facts
    ]
    content = (tmp_path / "healthy.safetensors").read_bytes()
    assert not any(
        str(name).encode() in content for name in healthy.people["participant_id"]
    )


def test_regions_are_selected_by_name(healthy: Cohort) -> None:
    reference = NormalReference.fit(healthy, "healthy.csv")
    names = list(reference.regions[5:2:-1])
    frame = pd.DataFrame(reference.correlation, reference.regions, reference.regions)
    np.testing.assert_array_equal(reference.select(names), frame.loc[names, names])
    with pytest.raises(
        ModelError,
        match=r"healthy.csv lacks 1 region of the study: Nowhere. Leave them out",
    ):
        reference.select([*names, "Nowhere"])


def test_too_few_people_and_constant_regions_are_refused(healthy: Cohort) -> None:
    with pytest.raises(
        ModelError,
        match="12 people of 3 sites are too few for a reference: at least 20 more",
    ):
        NormalReference.fit(healthy.take(np.arange(12)))
    flat = healthy.volumes.assign(**{healthy.regions[0]: 7.0})
    with pytest.raises(
        ModelError, match=f"constant in the reference: {healthy.regions[0]}"
    ):
        NormalReference.fit(replace(healthy, volumes=flat))


def test_the_reference_of_the_package_is_that_of_the_simulations() -> None:
    reference = load_reference_file("muse")
    volumes, covariates = load_reference().draw(4000, np.random.default_rng(0))
    people = pd.DataFrame({"participant_id": [f"sub-{k}" for k in range(4000)]})
    drawn = NormalReference.fit(
        Cohort(volumes=volumes, people=people, covariates=covariates)
    )
    assert len(reference.regions) == 139
    assert np.abs(drawn.select(reference.regions) - reference.correlation).max() < 0.1
    assert load_muse_reference().people == 250


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"regions": ["a", "a"]}, "should not hold a name twice"),
        ({"people": 0}, "people"),
        ({"people": "many"}, "people"),
        ({"adjust": "cubic"}, "should be one of log, linear, none"),
        ({"regions": ["a", "b", "c"]}, "should be floats of shape"),
        ({"name": "a\x00b"}, "control characters"),
    ],
)
def test_altered_metadata_are_refused(
    change: dict[str, object], fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "altered.safetensors"
    NormalReference(regions=("a", "b"), correlation=np.eye(2), people=30).save(path)
    metadata = json.loads(json.dumps(read_metadata(path))) | change
    write_safetensors(path, {"correlation.covariance": np.eye(2)}, metadata)
    with pytest.raises(ModelError, match=fault):
        NormalReference.load(path)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, 0.5], [0.2, 1.0]],
        [[2.0, 0.0], [0.0, 2.0]],
        [[np.nan, 0], [0, 1]],
    ],
)
def test_altered_correlations_are_refused(
    matrix: list[list[float]], tmp_path: Path
) -> None:
    path = tmp_path / "altered.safetensors"
    NormalReference(regions=("a", "b"), correlation=np.array(matrix), people=30).save(
        path
    )
    with pytest.raises(ModelError, match="damaged"):
        NormalReference.load(path)


def test_a_model_is_no_reference(tmp_path: Path) -> None:
    write_safetensors(
        tmp_path / "model.safetensors", {"a": np.zeros(1)}, {"kind": "contrastive"}
    )
    with pytest.raises(
        ModelError,
        match="is a model, not a reference: make one with rindices reference",
    ):
        NormalReference.load(tmp_path / "model.safetensors")
