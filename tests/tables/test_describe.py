"""The summary of a cohort counts people and says nothing about single ones."""

import json

import pandas as pd

from rindices.tables.cohort import Cohort, describe_cohort


def test_summary_of_groups_covariates_and_sites() -> None:
    people = pd.DataFrame({"participant_id": list("abcd"), "group": ["control", "control", "patient", "patient"]})
    people = people.assign(site=["x", "y", "x", "x"])
    covariates = pd.DataFrame({"age": [50.0, 60.0, 70.0, 71.0], "sex": ["F", "M", "F", "F"], "carrier": [0, 1, 0, 0]})
    summary = describe_cohort(Cohort(pd.DataFrame({"roi": [1.0, 2.0, 3.0, 4.0]}), people, covariates, "table", "ml"))
    assert (summary["people"], summary["controls"], summary["patients"], summary["regions"]) == (4, 2, 2, 1)
    age, sex, carrier = (covariate["groups"] for covariate in summary["covariates"])
    assert age["all"]["mean"] == 62.75
    assert sex["patient"] == {"counts": {"F": 2}}
    assert carrier["control"] == {"counts": {"0": 1, "1": 1}}
    assert summary["sites"] == {"x": {"control": 1, "patient": 2}, "y": {"control": 1, "patient": 0}}
    assert json.loads(json.dumps(summary)) == summary


def test_without_sites_there_are_no_counts() -> None:
    people = pd.DataFrame({"participant_id": ["a"]})
    cohort = Cohort(pd.DataFrame({"roi": [1.0]}), people, pd.DataFrame(index=[0]))
    assert describe_cohort(cohort)["sites"] == {}
