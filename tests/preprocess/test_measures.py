"""Kinds of measures, and the choice of scales and of the people from whom site effects
are estimated.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import PreprocessingError
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.harmonise import resolve_harmonise_mode
from rindices.preprocess.measures import (
    encode_measures,
    find_thickness,
    resolve_adjustment,
)
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import Cohort
from tests.preprocess.helpers import make_cohort
from tests.preprocess.test_harmonise import SiteData

THICKNESS = [f"lh_{name}_thickness" for name in ("cuneus", "insula", "lingual")]
VOLUMES = ["Left-Amygdala", "Left-Caudate", "lh_cuneus_volume"]


def make_mixed_cohort(n_people: int = 240, missing: float = 0.0) -> Cohort:
    """Return volumes that follow head size, and thickness that does so by
    chance alone.
    """
    rng = np.random.default_rng(5)
    age, icv = rng.uniform(20, 60, n_people), rng.normal(1500, 150, n_people)
    noise = np.exp(rng.normal(0, 0.05, (n_people, 6)))
    values = noise * np.column_stack([*[2.7 - 0.005 * age] * 3, *[2.0 * icv] * 3])
    values[rng.random(values.shape) < missing] = np.nan
    group = np.array(["control", "patient"] * (n_people // 2), dtype=object)
    people = pd.DataFrame(
        {"participant_id": [f"p{k:03d}" for k in range(n_people)], "group": group}
    )
    volumes = pd.DataFrame(values, columns=[*THICKNESS, *VOLUMES])
    return Cohort(
        volumes=volumes,
        people=people,
        covariates=pd.DataFrame({"age": age, "icv": icv}),
        unit="mixed",
    )


def select(cohort: Cohort, regions: list[str], covariates: list[str]) -> Cohort:
    return replace(
        cohort,
        volumes=cohort.volumes[regions],
        covariates=cohort.covariates[covariates],
    )


@pytest.mark.parametrize("adjust", ["log", "linear"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_each_kind_is_adjusted_as_if_it_were_alone(adjust: str, missing: float) -> None:
    cohort = make_mixed_cohort(missing=missing)
    together = Preprocessing.fit(cohort, adjust=adjust).transform(cohort)
    thickness, volumes = (
        select(cohort, THICKNESS, ["age"]),
        select(cohort, VOLUMES, ["age", "icv"]),
    )
    alone = [
        Preprocessing.fit(each, adjust=adjust).transform(each)
        for each in (thickness, volumes)
    ]
    np.testing.assert_allclose(together, np.hstack(alone), rtol=1e-10)


def test_thickness_is_adjusted_for_head_size_on_request_and_where_it_is_alone() -> None:
    cohort = make_mixed_cohort()
    coefficients = Preprocessing.fit(cohort, icv_for="all").residualiser.coefficients
    assert (np.abs(coefficients[1]) > 1e-6).all()
    alone = Preprocessing.fit(
        select(cohort, THICKNESS, ["age", "icv"])
    ).residualiser.coefficients
    np.testing.assert_allclose(coefficients[:, :3], alone, rtol=1e-8)
    np.testing.assert_array_equal(
        Preprocessing.fit(cohort).residualiser.coefficients[1, :3], 0.0
    )


def test_a_reference_is_adjusted_in_the_same_way() -> None:
    cohort = make_mixed_cohort()
    correlation = NormalReference.fit(cohort).correlation
    alone = NormalReference.fit(select(cohort, THICKNESS, ["age"])).correlation
    np.testing.assert_allclose(correlation[:3, :3], alone, rtol=1e-10)
    assert not np.allclose(
        NormalReference.fit(cohort, icv_for="all").correlation[:3, :3],
        alone,
        rtol=1e-10,
    )


def test_kinds_are_those_of_the_names() -> None:
    cohort = make_mixed_cohort()
    kinds = encode_measures(cohort)
    assert kinds is not None
    assert kinds.tolist() == [0, 0, 0, 1, 1, 1]
    assert encode_measures(select(cohort, VOLUMES, ["age"])) is None
    assert encode_measures(replace(cohort, unit="any")) is None
    assert find_thickness(select(cohort, THICKNESS, ["age"])) is None
    with pytest.raises(PreprocessingError, match="icv_for = 'everything' is not known"):
        find_thickness(cohort, "everything")


def test_the_scale_is_logarithmic_where_all_values_are_positive() -> None:
    cohort = make_cohort()
    assert resolve_adjustment(cohort) == "log"
    assert resolve_adjustment(cohort, "linear") == "linear"
    signed = replace(cohort, volumes=cohort.volumes - cohort.volumes.mean())
    assert resolve_adjustment(signed) == "linear"
    with pytest.raises(
        PreprocessingError, match="needs positive values; these regions have others: r0"
    ):
        resolve_adjustment(signed, "log")
    with pytest.raises(
        PreprocessingError, match=r"adjust = 'logg' is not known: did you mean 'log'"
    ):
        resolve_adjustment(cohort, "logg")


def test_default_mode_depends_on_sites_and_covariates() -> None:
    cohort = SiteData(100, 4, 2).cohort()
    assert resolve_harmonise_mode(cohort) == "controls"
    assert resolve_harmonise_mode(cohort, "none") == "none"
    assert (
        resolve_harmonise_mode(
            replace(cohort, people=cohort.people.drop(columns="site"))
        )
        == "none"
    )
    adjusted = replace(
        cohort, covariates=cohort.covariates.assign(scanner=cohort.people["site"])
    )
    assert resolve_harmonise_mode(adjusted) == "none"  # the site is a covariate already
    with pytest.raises(
        PreprocessingError, match="scanner is the site and a covariate as well"
    ):
        resolve_harmonise_mode(adjusted, "all")
    with pytest.raises(PreprocessingError, match="needs the site of each person"):
        ri.Preprocessing.fit(
            replace(cohort, people=cohort.people.drop(columns="site")), "controls"
        )
    with pytest.raises(
        PreprocessingError, match=r"'control' is not known: did you mean 'controls'"
    ):
        ri.Preprocessing.fit(cohort, "control")
