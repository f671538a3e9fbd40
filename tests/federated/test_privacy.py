"""Sums over few people, and differences that are sums over few people, are refused."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from rindices.federated import kinds
from rindices.federated.messages import Preparation, RefusedError, Request, pack_preparations
from rindices.federated.privacy import SetGuard, compute_leverages
from rindices.federated.site import Site
from tests.federated.sites import prepare_rounds, simulate_people, split_cohort

IDS = [f"values of {k}".encode() for k in range(100)]


def make_mask(*rows: int) -> np.ndarray:
    mask = np.zeros(len(IDS), dtype=bool)
    mask[list(rows)] = True
    return mask


def test_a_sum_over_three_people_is_refused() -> None:
    with pytest.raises(RefusedError, match="3 people is refused, the fewest are 10"):
        SetGuard(IDS).check(make_mask(1, 2, 3), "patients", "member-0")


def test_a_difference_of_one_person_is_refused() -> None:
    guard = SetGuard(IDS)
    guard.check(make_mask(*range(50)), "patients", "first")
    guard.check(make_mask(*range(50)), "patients", "the same again")
    guard.check(make_mask(*range(40)), "patients", "ten less")
    with pytest.raises(RefusedError, match="a sum over 1 person"):
        guard.check(make_mask(*range(49)), "patients", "second")


def test_the_ledger_remembers_earlier_studies(tmp_path: Path) -> None:
    """A second study with the same people less one is refused; the ledger holds no value."""
    ledger = tmp_path / "ledger.json"
    guard = SetGuard(IDS, ledger=ledger)
    guard.check(np.ones(100, dtype=bool), "patients", "all")
    guard.save()
    assert not any(person in ledger.read_bytes() for person in IDS)
    SetGuard(IDS, ledger=ledger).check(np.ones(100, dtype=bool), "patients", "all")
    with pytest.raises(RefusedError, match="a sum over 1 person"):
        SetGuard(IDS[1:], ledger=ledger).check(np.ones(99, dtype=bool), "patients", "all")
    SetGuard(IDS[20:], ledger=ledger).check(np.ones(80, dtype=bool), "patients", "all")


def test_three_sums_must_not_leave_one_person() -> None:
    """Each two of the sets differ in many people, but all - A - B is one person."""
    guard = SetGuard(IDS)
    guard.check(make_mask(*range(100)), "patients", "all")
    guard.check(make_mask(*range(50)), "patients", "A")
    with pytest.raises(RefusedError, match="single people could be computed"):
        guard.check(make_mask(*range(51, 100)), "patients", "B")


def test_many_sums_must_not_determine_people() -> None:
    """After about half as many random sums as people, a combination is mainly one person."""
    guard, rng = SetGuard(IDS), np.random.default_rng(0)
    for k in range(30):
        guard.check(rng.random(100) < 0.5, "patients", f"set {k}")

    def ask_for_more() -> None:
        for k in range(30, 50):
            guard.check(rng.random(100) < 0.5, "patients", f"set {k}")

    with pytest.raises(RefusedError, match="single people could be computed"):
        ask_for_more()


def test_leverages_are_the_largest_shares_of_combinations() -> None:
    """A search for the combination that has most of a person finds no larger share, and reaches it."""
    rng = np.random.default_rng(1)
    masks = rng.random((4, 12)) < 0.5

    def share(weights: np.ndarray) -> float:
        combined = weights @ masks
        return float(-(combined[3] ** 2) / (combined @ combined))

    found = min(minimize(share, rng.normal(size=4)).fun for _ in range(20))
    assert compute_leverages(list(masks))[3] == pytest.approx(-found, rel=1e-4)


@cache
def get_preparation() -> Preparation:
    return prepare_rounds(split_cohort(simulate_people(), 1))[1].preparations[0]


def make_request(seed: int, limit: float = 1.0) -> Request:
    """Return a request for the moments of a fold, as a centre sends it."""
    plan = {"seed": seed, "members": 2, "patients": limit}
    prepared, arrays = pack_preparations({"0": get_preparation()})
    return Request(kinds.MOMENTS, 5, {"plan": plan, "sets": [[0, "held-out-0", "patients"]], **prepared}, arrays)


def test_a_hostile_centre_cannot_ask_for_three_people() -> None:
    """A plan that draws few people would make a fold of three: the site does not split the group."""
    assert Site("a", simulate_people()).answer(make_request(0, 0.05)).numbers[0] in (0, 200)
    with pytest.raises(RefusedError, match="the fewest are 10"):
        Site("b", simulate_people().take(np.arange(8))).answer(Request(kinds.DESCRIBE, 1))


def test_a_hostile_centre_cannot_ask_twice() -> None:
    """Two plans whose sets differ by a few people: the second is refused."""
    site = Site("a", simulate_people())
    site.answer(make_request(0))
    with pytest.raises(RefusedError, match="another-plan"):
        site.answer(make_request(0, 0.93))
