"""A cohort, its description, the order of its people and several scans of a person."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import ProblemCode
from rindices.experiments.visits import VisitPlan, simulate_visits
from rindices.tables.cohort import (
    ID,
    Cohort,
    attach_visits,
    describe_cohort,
    find_visit_times,
    keep_first_scans,
    order_people,
    sort_people,
)
from tests.tables.helpers import write_table


def read(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> ri.Cohort:
    return ri.read_cohort(
        write_table(volumes, tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
        group="diagnosis",
        controls="CN",
        patients=["AD"],
        covariates=["age", "sex"],
    )


def test_regions_and_groups(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    cohort = read(tmp_path, volumes, participants)
    assert (len(cohort), cohort.n_regions, cohort.n_controls, cohort.n_patients) == (
        40,
        139,
        20,
        20,
    )
    assert (
        repr(cohort)
        == "<Cohort: 40 people, 20 controls, 20 patients, 139 regions (dlmuse, mm3)>"
    )
    visits = replace(
        cohort,
        people=cohort.people.assign(
            participant_id=cohort.people["participant_id"].iloc[0]
        ),
    )
    assert repr(visits).startswith(
        "<Cohort: 40 scans of 1 people, 1 controls, 1 patients, 139 regions"
    )
    assert cohort.people["group"].tolist() == ["control", "patient"] * 20
    codes = [int(name.removeprefix("MUSE_")) for name in cohort.regions]
    assert codes == sorted(codes)


def test_people_are_selected_by_mask_or_position(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    cohort = read(tmp_path, volumes, participants)
    patients = cohort.take(cohort.is_patient)
    assert (len(patients), patients.n_controls) == (20, 0)
    by_position = cohort.take(np.flatnonzero(cohort.is_patient)[::-1])
    assert by_position.fingerprint() == patients.fingerprint()


def test_the_fingerprint_changes_with_the_data(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    first = read(tmp_path, volumes, participants).fingerprint()
    assert (
        read(tmp_path, volumes, participants.assign(weight=70)).fingerprint() == first
    )
    changed = volumes.copy()
    changed.loc[0, "47"] = np.nextafter(changed.loc[0, "47"], np.inf)
    assert read(tmp_path, changed, participants).fingerprint() != first
    older = participants.assign(age=participants["age"] + 1)
    assert read(tmp_path, volumes, older).fingerprint() != first
    swapped = participants.assign(diagnosis=["AD", "CN"] * 20)
    assert read(tmp_path, volumes, swapped).fingerprint() != first


def test_summary_of_groups_covariates_and_sites() -> None:
    people = pd.DataFrame(
        {
            "participant_id": list("abcd"),
            "group": ["control", "control", "patient", "patient"],
        }
    )
    people = people.assign(site=["x", "y", "x", "x"])
    covariates = pd.DataFrame(
        {
            "age": [50.0, 60.0, 70.0, 71.0],
            "sex": ["F", "M", "F", "F"],
            "carrier": [0, 1, 0, 0],
        }
    )
    summary = describe_cohort(
        Cohort(
            volumes=pd.DataFrame({"roi": [1.0, 2.0, 3.0, 4.0]}),
            people=people,
            covariates=covariates,
            source="table",
            unit="ml",
        )
    )
    assert (
        summary["people"],
        summary["controls"],
        summary["patients"],
        summary["regions"],
    ) == (4, 2, 2, 1)
    age, sex, carrier = (covariate["groups"] for covariate in summary["covariates"])
    assert age["all"]["mean"] == 62.75
    assert sex["patient"] == {"counts": {"F": 2}}
    assert carrier["control"] == {"counts": {"0": 1, "1": 1}}
    assert summary["sites"] == {
        "x": {"control": 1, "patient": 2},
        "y": {"control": 1, "patient": 0},
    }
    assert json.loads(json.dumps(summary)) == summary


@pytest.mark.parametrize(
    ("n_people", "n_outside"), [(10, None), (20, 5), (90, 5), (400, 20)]
)
def test_bounds_of_a_covariate_are_nobodys_values(
    n_people: int, n_outside: int | None
) -> None:
    ages = np.sort(np.random.default_rng(0).uniform(20, 90, n_people))
    people = pd.DataFrame({"participant_id": [f"s{k}" for k in range(n_people)]})
    people["group"] = "control"
    cohort = Cohort(
        volumes=pd.DataFrame({"roi": ages}),
        people=people,
        covariates=pd.DataFrame({"age": ages}),
        source="table",
        unit="ml",
    )
    summary = describe_cohort(cohort)["covariates"][0]["groups"]["all"]
    if n_outside is None:
        assert set(summary) == {"mean", "sd"}
        return
    assert (ages < summary["low"] - 0.1).sum() <= n_outside
    assert (ages < summary["low"] + 0.1).sum() >= n_outside
    assert (ages > summary["high"] + 0.1).sum() <= n_outside
    assert (ages > summary["high"] - 0.1).sum() >= n_outside


def test_without_sites_there_are_no_counts() -> None:
    people = pd.DataFrame({"participant_id": ["a"]})
    cohort = Cohort(
        volumes=pd.DataFrame({"roi": [1.0]}),
        people=people,
        covariates=pd.DataFrame(index=[0]),
    )
    assert describe_cohort(cohort)["sites"] == {}


def test_ids_digits_beyond_six_and_columns_do_not_matter() -> None:
    cohort = ri.simulate_cohort("tiny", 0).cohort
    cohort = replace(cohort, volumes=cohort.volumes.round(0))
    order = order_people(cohort, 0)
    renamed = cohort.people.assign(
        **{ID: [f"x{k:04d}" for k in range(len(cohort), 0, -1)]}
    )
    volumes = cohort.volumes.iloc[:, ::-1] * (1 + 1e-12)
    np.testing.assert_array_equal(
        order_people(replace(cohort, people=renamed, volumes=volumes), 0), order
    )
    assert sorted(order) == list(range(len(cohort)))
    assert (order_people(cohort, 1) != order).any()


def test_people_with_equal_values_have_a_fixed_order() -> None:
    cohort = ri.simulate_cohort("tiny", 0).cohort
    same = replace(cohort, volumes=cohort.volumes * 0 + 1.0)
    order, shuffled = (
        order_people(same, 0),
        np.random.default_rng(0).permutation(len(same)),
    )
    frames = {
        name: getattr(same, name).iloc[shuffled].reset_index(drop=True)
        for name in ("volumes", "people", "covariates")
    }
    again = order_people(ri.Cohort(**frames), 0)
    np.testing.assert_array_equal(shuffled[again], order)


def test_visits_follow_their_people() -> None:
    cohort = attach_visits(
        simulate_visits("tiny", 0, VisitPlan(visits=3)).simulated.cohort
    )[0]
    ordered = sort_people(cohort, 0)
    assert ordered.visits is not None
    assert (
        ordered.visits.people[ID].drop_duplicates().tolist()
        == ordered.people[ID].tolist()
    )
    assert ordered.fingerprint() == cohort.fingerprint()


def make_cohort(ids: str, sessions: list[str] | None) -> Cohort:
    people = pd.DataFrame({"participant_id": list(ids), "group": "control"})
    if sessions is not None:
        people["session_id"] = sessions
    return Cohort(
        volumes=pd.DataFrame({"a": range(len(people))}, dtype=float),
        people=people,
        covariates=pd.DataFrame(index=people.index),
    )


def test_the_first_session_of_each_person_stays() -> None:
    cohort, problems = keep_first_scans(
        make_cohort("aabbc", ["1", "2", "10", "2", "2"]), "t.csv"
    )
    assert cohort.people["session_id"].tolist() == ["1", "2", "2"]
    assert cohort.volumes["a"].tolist() == [0, 3, 4]
    (note,) = problems
    assert (note.code, str(note.severity)) == (ProblemCode.REPEATED_SCANS, "note")
    assert "3 people have 5 scans" in note.what
    assert "2 (2 people), 1 (1 person); 2 rows are left out" in note.what


def test_one_scan_per_person_is_left_as_it_is() -> None:
    for sessions in (None, ["1", "2"]):
        cohort = make_cohort("ab", sessions)
        assert keep_first_scans(cohort) == (cohort, [])


def test_months_are_sorted_as_numbers() -> None:
    cohort, _ = keep_first_scans(make_cohort("aaa", ["m12", "m06", "m6b"]))
    assert cohort.people["session_id"].tolist() == ["m06"]


def test_all_scans_are_attached_to_the_first_ones() -> None:
    cohort, problems = attach_visits(
        make_cohort("aabbc", ["1", "2", "10", "2", "2"]), "t.csv"
    )
    assert cohort.people["session_id"].tolist() == ["1", "2", "2"]
    assert cohort.visits is not None
    assert len(cohort.visits) == 5
    (problem,) = problems
    assert problem.what == "patterns are learnt from 5 scans of 3 people"
    single = make_cohort("abc", ["1", "1", "1"])
    assert attach_visits(single) == (single, [])


def test_scans_after_a_change_of_group_are_left_out() -> None:
    cohort = make_cohort("aab", ["1", "2", "1"])
    people = cohort.people.assign(group=["control", "patient", "patient"])
    cohort, problems = attach_visits(replace(cohort, people=people))
    assert cohort.visits is not None
    assert cohort.visits.people["session_id"].tolist() == ["1", "1"]
    assert problems[0].what.endswith(
        "2 people, without 1 scan at which the group has changed"
    )


def test_times_are_a_covariate_that_grows_or_the_order_of_the_sessions() -> None:
    cohort = make_cohort("aabb", ["1", "2", "10", "2"])
    assert find_visit_times(cohort).tolist() == [0, 1, 1, 0]
    for ages, expected in (
        ([60, 61.5, 80, 72], [60, 61.5, 80, 72]),
        ([60, 60, 80, 72], [0, 1, 1, 0]),
    ):
        aged = replace(
            cohort, covariates=cohort.covariates.assign(sex="F", icv=1.0, age=ages)
        )
        assert find_visit_times(aged).tolist() == expected


def test_notebooks_show_a_cohort_a_model_and_results() -> None:
    simulated = ri.simulate_cohort("tiny", seed=0).cohort
    people = simulated.people.assign(
        participant_id=[f"<b>{k}" for k in range(len(simulated))]
    )
    cohort = replace(simulated, people=people)
    assert f"{simulated.n_controls} controls" in cohort._repr_html_()
    assert "&lt;b&gt;0" in cohort._repr_html_()
    assert "<b>0" not in cohort._repr_html_()
    model = ri.fit(simulated, 1, method="contrastive", members=2, workers=1)
    shown = model._repr_html_()
    assert "<th>r1</th>" in shown
    assert "atients differ from controls" in shown
    assert 'src="data:image/png;base64,' in shown
    assert len(shown) < 200_000
    bare = replace(
        model,
        findings=None,
        card=model.card.model_copy(update={"pattern_evidence": ()}),
    )
    assert "<th>r1</th>" not in bare._repr_html_()
    assert "<th>r1</th>" in model.assess(simulated)._repr_html_()
