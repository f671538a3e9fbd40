"""Each kind of model says what 0 and 1 mean, and what controls usually have; the
sentence is true of its people.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.exchange.importers import import_published
from rindices.model.scale import describe_scale
from tests.cohorts import fit_tiny_model, simulate_few_regions

pytestmark = pytest.mark.filterwarnings("ignore::rindices.StudyWarning")


def test_the_default_is_from_0_to_1_and_its_controls_are_above_0() -> None:
    model = ri.fit(simulate_few_regions("tiny").cohort, 1, members=2, workers=1)
    sentence = describe_scale(model)
    assert sentence.startswith(
        "The R-index is the expected severity of a pattern, from 0 (no change) to 1"
    )
    assert model.indices is not None
    controls = model.indices.loc[model.indices["group"] == "control", "r1"].dropna()
    assert controls.min() > 0
    low, high = controls.quantile([0.25, 0.75])
    assert f"(half of the study's controls have {low:.2f} to {high:.2f})" in sentence


def test_a_mean_difference_is_0_for_the_average_control_and_goes_below() -> None:
    model = ri.fit(
        simulate_few_regions("tiny").cohort,
        members=2,
        method="mean-difference",
        workers=1,
    )
    sentence = describe_scale(model)
    assert (
        "along the mean difference between patients and controls: 0 is the average of the controls that it was fitted"
        in sentence
    )
    assert "values below 0 and above 1 occur" in sentence
    assert model.indices is not None
    assert model.indices["r1"].min() < 0


def test_contrastive_patterns_give_the_usual_values_of_controls_by_index() -> None:
    model = fit_tiny_model(2)
    sentence = describe_scale(model)
    assert sentence.startswith(
        "An R-index is a position along a pattern: 0 is the average control"
    )
    assert " in r1, " in sentence
    assert sentence.endswith(" in r2).")
    unknown = replace(model, card=model.card.model_copy(update={"index_quantiles": {}}))
    assert describe_scale(unknown).endswith("occur.")


@pytest.mark.parametrize("name", ["ad_2rindices", "brain_aging_5rindices"])
def test_healthy_people_have_the_values_that_are_said_of_published_models(
    name: str, shared: Path
) -> None:
    model = import_published(shared / "upstream" / f"{name}.saved_model", name)
    assert (
        "often 0.2 to 0.6: see how many of them are lower (centiles), or compare"
        in describe_scale(model)
    )
    people = ri.read_cohort(
        shared / "ixi" / "volumes.csv",
        shared / "ixi" / "demographics.csv",
        covariates=list(model.covariates),
    )
    values = model.apply(people).filter(regex=r"^r\d$").to_numpy()
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    assert low.min() > 0.15
    assert high.max() < 0.65
    assert pd.Series(values.max(axis=0)).gt(0.85).all()
