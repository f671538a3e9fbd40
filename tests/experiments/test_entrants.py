"""Learners of the benchmark."""

from rindices.experiments.entrants import ENTRANTS
from rindices.experiments.paper import PUBLISHED_SCORES


def test_every_published_method_is_available() -> None:
    assert set(PUBLISHED_SCORES) - {"surreal-gan"} <= set(ENTRANTS)
