"""How a study ends, by what the tests find and by its method."""

from types import SimpleNamespace
from typing import Any

import pytest

from rindices.study.config import ModelConfig
from rindices.study.decide import StudyEnd
from rindices.study.group_tests import Finding


def conclude(method: str, finding: Finding, **settings: Any) -> str:
    """Return which model a study would have."""
    tests: Any = SimpleNamespace(finding=finding)
    unknown: Any = None
    end = StudyEnd(
        model=ModelConfig(method=method, **settings),
        tests=tests,
        unit="",
        made_with=unknown,
        preprocessing=unknown,
    )
    return "patterns" if end.tries_patterns else str(end.find_ending(None))


@pytest.mark.parametrize("method", ["trajectories", "contrastive"])
def test_a_mean_difference_is_the_index_of_patients_who_do_not_differ_from_each_other(
    method: str,
) -> None:
    assert conclude(method, Finding.MEAN_DIFFERENCE) == "mean_difference"
    assert conclude(method, Finding.MEAN_DIFFERENCE, patterns=(2,)) == "patterns"


@pytest.mark.parametrize("method", ["surreal-gan", "surreal-gan-published"])
def test_surreal_gan_has_its_own_index_where_patients_do_not_differ_from_each_other(
    method: str,
) -> None:
    assert conclude(method, Finding.MEAN_DIFFERENCE) == "patterns"


def test_the_published_method_is_trained_whatever_the_tests_find() -> None:
    assert conclude("surreal-gan-published", Finding.NO_DIFFERENCE) == "patterns"
