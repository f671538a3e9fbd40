"""A person's place depends on the person's values, the seed and the member alone."""

import numpy as np
import pytest

from rindices.learners.people_source import HALVES, PeopleSet
from rindices.learners.prepared_people import deal_folds, hash_people
from rindices.sums.messages import SumsError
from rindices.sums.subsets import SubsetPlan, Subsets, name_set, read_set

IDS = list(range(400))
VALUES = np.random.default_rng(5).normal(size=(6000, 3))
IS_PATIENT = np.arange(400) % 3 > 0
PLAN = SubsetPlan(seed=1, members=4)


def make_subsets(ids: list[int], is_patient: np.ndarray, plan: SubsetPlan) -> Subsets:
    return Subsets(
        lambda purpose: hash_people(VALUES[ids], plan.seed, purpose), is_patient, plan
    )


def find(
    ids: list[int], is_patient: np.ndarray, name: str, group: str = "patients"
) -> set[int]:
    mask = make_subsets(ids, is_patient, PLAN).find(name, group)
    return {person for person, is_in in zip(ids, mask, strict=True) if is_in}


@pytest.mark.parametrize(
    "name",
    [
        name_set(PeopleSet(2, "seen")),
        name_set(PeopleSet(2, "unseen")),
        name_set(PeopleSet(1, HALVES[0])),
        "all",
    ],
)
def test_sites_and_order_do_not_matter(name: str) -> None:
    order = np.random.default_rng(0).permutation(400)
    shuffled = find([IDS[k] for k in order], IS_PATIENT[order], name)
    parts = [
        find([IDS[k] for k in rows], IS_PATIENT[rows], name)
        for rows in (np.arange(200), np.arange(200, 400))
    ]
    assert find(IDS, IS_PATIENT, name) == shuffled == parts[0] | parts[1]


def test_everyone_is_unseen_by_one_member_of_a_set() -> None:
    subsets = make_subsets(IDS, IS_PATIENT, SubsetPlan(seed=1, members=10))
    for first in (0, 5):
        unseen = np.sum(
            [
                subsets.find(name_set(PeopleSet(first + k, "unseen")), "patients")
                for k in range(5)
            ],
            axis=0,
        )
        assert (unseen == IS_PATIENT).all()


def test_sets_of_a_member_are_complements() -> None:
    everyone = find(IDS, IS_PATIENT, "all")
    seen, held_out = (
        find(IDS, IS_PATIENT, name_set(PeopleSet(0, "seen"))),
        find(IDS, IS_PATIENT, name_set(PeopleSet(0, "unseen"))),
    )
    assert seen | held_out == everyone
    assert not seen & held_out
    assert 0.7 < len(seen) / len(everyone) < 0.9
    halves = [find(IDS, IS_PATIENT, name_set(PeopleSet(0, half))) for half in HALVES]
    assert halves[0] | halves[1] == everyone
    assert not halves[0] & halves[1]
    assert seen != find(IDS, IS_PATIENT, name_set(PeopleSet(1, "seen")))


def test_members_of_a_large_study_are_drawn_from_a_part() -> None:
    """Of 4,000 patients, each member is drawn from about 500, others for each, whatever
    the division into sites.
    """
    ids, is_patient = list(range(6000)), np.arange(6000) % 3 > 0
    plan = SubsetPlan(seed=0, members=6).limit_people(
        {"controls": 2000, "patients": 4000}, 500
    )
    assert min(plan.controls, plan.patients) < 1.0
    assert SubsetPlan.from_dict(plan.to_dict()) == plan

    def find_rows(name: str, rows: np.ndarray) -> set[int]:
        mask = make_subsets([ids[k] for k in rows], is_patient[rows], plan).find(
            name, "patients"
        )
        return {ids[k] for k in rows[mask]}

    everyone = np.arange(6000)
    sets = {
        name: find_rows(name, everyone)
        for name in ("member-0", "held-out-0", "half-0-0", "half-0-1", "sample")
    }
    sizes = {name: len(people) for name, people in sets.items()}
    expected = {
        "member-0": 400,
        "held-out-0": 100,
        "half-0-0": 300,
        "half-0-1": 200,
        "sample": 500,
    }
    assert all(
        abs(sizes[name] - number) < 5 * np.sqrt(number)
        for name, number in expected.items()
    )
    assert not sets["member-0"] & sets["held-out-0"]
    assert not sets["half-0-0"] & sets["half-0-1"]
    assert sets["held-out-0"] <= find_rows("member-1", everyone)
    assert len(sets["member-0"] & find_rows("member-5", everyone)) < 100
    for name, people in sets.items():
        assert people == find_rows(name, everyone[:2500]) | find_rows(
            name, everyone[2500:]
        )


def test_small_plans_are_not_limited() -> None:
    plan = SubsetPlan(seed=0, members=2)
    assert plan.limit_people({"controls": 25_000, "patients": 100}) == plan
    subsets = make_subsets(IDS, IS_PATIENT, plan)
    assert (subsets.find("sample", "patients") == IS_PATIENT).all()


@pytest.mark.parametrize(
    "name",
    [
        "member-5",
        "member--1",
        "half-0-2",
        "everyone",
        "member-x",
        "half-9-0",
        "",
        "member-01",
    ],
)
def test_unknown_sets_are_refused(name: str) -> None:
    with pytest.raises(SumsError, match="names the set"):
        find(IDS, IS_PATIENT, name)


@pytest.mark.parametrize(
    "plan", [{}, {"seed": 0, "members": 0}, {"seed": 0, "members": 2, "patients": 2}]
)
def test_plans_that_no_study_has_are_refused(plan: dict[str, float]) -> None:
    with pytest.raises(SumsError, match="plan"):
        SubsetPlan.from_dict(plan)


def test_folds_are_those_of_people_in_memory() -> None:
    hashes = hash_people(VALUES[IDS], PLAN.seed, 0)
    folds = deal_folds(hashes, IS_PATIENT.tolist())
    for k in range(5):
        expected = {
            person for person in IDS if folds[person] == k and IS_PATIENT[person]
        }
        assert find(IDS, IS_PATIENT, name_set(PeopleSet(k, "unseen"))) == expected


def test_a_small_group_of_a_site_is_dealt_as_in_memory() -> None:
    """Of 37 controls, ranges of the hash would have between 3 and 12; in memory they
    are dealt evenly.
    """
    is_patient = np.arange(100) >= 37
    folds = deal_folds(hash_people(VALUES[:100], 1, 0), is_patient.tolist())
    subsets = make_subsets(
        IDS[:100], is_patient, SubsetPlan(seed=1, members=5, by_site=True)
    )
    for k in range(5):
        mask = subsets.find(name_set(PeopleSet(k, "unseen")), "controls")
        assert 7 <= mask.sum() <= 8
        np.testing.assert_array_equal(mask, (folds == k) & ~is_patient)


def test_sets_are_read_by_their_names() -> None:
    for people in (PeopleSet(12, part) for part in ("seen", "unseen", *HALVES)):
        assert read_set(name_set(people)) == people
