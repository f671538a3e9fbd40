"""Plan of a study in memory: its tests, and which settings they have trained."""

from dataclasses import dataclass

from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Engine
from rindices.learners.gan.recipe import check_device
from rindices.study.config import ModelConfig
from rindices.study.decide import StudyEnd
from rindices.study.group_tests import Finding
from rindices.study.methods import MEAN_DIFFERENCE
from rindices.study.provenance import collect_provenance
from rindices.study.study import (
    Study,
    StudyPeople,
    check_groups,
    check_settings,
    find_largest_number,
)


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What is trained, and what decides how the study ends.

    Attributes
    ----------
    study : Study
    end : StudyEnd
        What decides, with the results of the tests.
    patterns : StudyPeople or None
        The people and the numbers of patterns to try; None where none are tried.
    difference : StudyPeople
        The people and the model of the mean difference, which is trained where there
        are no stable patterns.
    """

    study: Study
    end: StudyEnd
    patterns: StudyPeople | None
    difference: StudyPeople

    def get_people(self, finding: Finding) -> StudyPeople:
        """Return the people as the members of the model of a finding take them."""
        if finding is Finding.PATTERNS:
            assert self.patterns is not None
            return self.patterns
        return self.difference


def check_before_tests(study: Study, engine: Engine) -> None:
    """Refuse people and settings that cannot be trained, before the tests."""
    cohort, model = study.cohort, study.config.model
    check_groups(cohort)
    check_settings(cohort, model)
    _ = study.preprocessing  # people who cannot be adjusted are an error
    if isinstance(engine, LocalEngine):  # elsewhere, workers look for the device
        check_device(str(model.method_settings.get("device", "cpu")))


def plan_study(study: Study) -> StudyPlan:
    """Test the groups, and decide what to train."""
    model = study.config.model
    end = StudyEnd(
        model=model,
        tests=study.tests,
        unit=study.cohort.unit,
        made_with=collect_provenance(study),
        preprocessing=study.preprocessing,
    )
    difference = ModelConfig(
        patterns=(1,), members=model.members, method=MEAN_DIFFERENCE
    )
    return StudyPlan(
        study=study,
        end=end,
        patterns=_plan_patterns(study) if end.tries_patterns else None,
        difference=StudyPeople(study, difference),
    )


def _plan_patterns(study: Study) -> StudyPeople:
    """Return the people with the numbers of patterns to try: those that were asked for,
    those of the method, or those next to the number of the tests.
    """
    cohort, model = study.cohort, study.config.model
    method = model.get_method()
    largest = find_largest_number(cohort.n_patients, cohort.n_regions, model.method)
    numbers = (
        model.patterns
        or tuple(number for number in method.patterns if number <= largest)
        or study.tests.list_numbers_to_try(largest, from_one=method.compares_halves)
    )
    return StudyPeople(study, model.model_copy(update={"patterns": numbers}))
