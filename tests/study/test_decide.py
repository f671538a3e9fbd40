"""How a study ends, by what the tests find and by its method."""

from types import SimpleNamespace
from typing import Any

import pytest

from rindices.study.config import ModelConfig
from rindices.study.decide import StudyEnd
from rindices.study.group_tests import Finding


def conclude(method: str, finding: Finding, **settings: Any) -> object:
    """Return which model a study would have."""
    tests: Any = SimpleNamespace(finding=finding)
    unknown: Any = None
    end = StudyEnd(ModelConfig(method=method, **settings), tests, "", unknown, unknown)
    answers: Any = (lambda: ("patterns", ()), lambda failed: "mean difference")
    return end.conclude(*answers)


@pytest.mark.parametrize("method", ["trajectories", "contrastive"])
def test_a_mean_difference_is_the_index_of_patients_who_do_not_differ_from_each_other(method: str) -> None:
    assert conclude(method, Finding.MEAN_DIFFERENCE) == "mean difference"
    assert conclude(method, Finding.MEAN_DIFFERENCE, patterns=(2,)) == "patterns"


@pytest.mark.parametrize("method", ["surreal-gan", "surreal-gan-published"])
def test_surreal_gan_has_its_own_index_where_patients_do_not_differ_from_each_other(method: str) -> None:
    assert conclude(method, Finding.MEAN_DIFFERENCE) == "patterns"


def test_the_published_method_is_trained_whatever_the_tests_find() -> None:
    assert conclude("surreal-gan-published", Finding.NO_DIFFERENCE) == "patterns"
