"""Tables are joined by id, and wrong ones are refused by name."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from rindices.analysis.associate import associate_indices
from rindices.analysis.tidy import false_discovery_rate, select_people, standardise_columns
from rindices.errors import AnalysisError
from tests.analysis.helpers import N_PEOPLE, make_clinical_tables


def test_tables_that_cannot_be_joined_are_refused_by_name() -> None:
    indices, clinical = make_clinical_tables()
    with pytest.raises(AnalysisError, match="appear more than once in the other table: sub-"):
        associate_indices(indices, pd.concat([clinical, clinical.iloc[:1]]))
    with pytest.raises(AnalysisError, match="none of the people with R-indices"):
        associate_indices(indices, clinical.assign(participant_id=[f"x{k}" for k in range(N_PEOPLE)]))
    with pytest.raises(AnalysisError, match="no column 'memry' for the variables: did you mean 'memory'"):
        associate_indices(indices, clinical, variables=["memry"])
    with pytest.raises(AnalysisError, match="needs the columns participant_id and r1"):
        associate_indices(indices.drop(columns=["r1", "r2"]), clinical)


def test_false_discovery_rate_equals_statsmodels() -> None:
    p = np.random.default_rng(0).uniform(size=400) ** 3
    np.testing.assert_allclose(false_discovery_rate(p), multipletests(p, method="fdr_bh")[1], rtol=1e-12)


def test_people_are_selected_by_group() -> None:
    indices = make_clinical_tables()[0].assign(group=["control", "patient"] * (N_PEOPLE // 2))
    assert set(select_people(indices, "controls")["group"]) == {"control"}
    assert len(select_people(indices.drop(columns="group"), "patients")) == N_PEOPLE
    with pytest.raises(AnalysisError, match="has no patients: choose all people"):
        select_people(indices[indices["group"] == "control"], "patients")


def test_a_constant_column_becomes_zero() -> None:
    standardised = standardise_columns(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_allclose(standardised, [[-1, 0], [1, 0]])
    assert standardise_columns(np.zeros((0, 2))).shape == (0, 2)
