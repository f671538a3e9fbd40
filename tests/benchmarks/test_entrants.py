"""Learners of the benchmark."""

import pytest

from benchmarks.suites.entrants import ENTRANTS, get_entrant
from benchmarks.suites.paper import PUBLISHED_SCORES


def test_every_published_method_is_available() -> None:
    assert set(PUBLISHED_SCORES) - {"surreal-gan"} <= set(ENTRANTS)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, entrant in ENTRANTS.items()
        if entrant.make and "surreal" not in name
    ],
)
def test_learners_get_the_number_of_patterns_and_the_seed(name: str) -> None:
    make = get_entrant(name).make
    assert make is not None
    parameters = make(4, 7).get_params()
    assert (parameters["n_patterns"], parameters["random_state"]) == (4, 7)
