"""Numbers behind the sentences that terminal, model card and report share; the sentences are in ``statements.txt``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rindices.model.adjustment import describe_adjustment
from rindices.model.fitted import FittedModel
from rindices.model.records import (
    AdjustmentRecord,
    CohortRecord,
    PatternRecord,
    SelectionRecord,
)
from rindices.report.formatting import make_environment
from rindices.study.recipes import RECIPES


@dataclass(frozen=True, eq=False)
class StudyFacts:
    """What was done and found.

    controls, patients: none for an imported model; scans: scans that the model was learnt from, or that a study without
    a model has, if people have several; adjustment: what was removed before learning; patterns: figures of each pattern
    in held-out people; empty where they are not known; is_refitted: whether these figures are of indices that were
    learnt again. Otherwise the patterns were projected onto the disease space that was learnt again.
    """

    controls: int | None
    patients: int | None
    scans: int | None
    adjustment: AdjustmentRecord
    patterns: Sequence[PatternRecord] = ()
    is_refitted: bool = False

    @classmethod
    def of_model(cls, model: FittedModel) -> "StudyFacts":
        """Return the facts in a model file."""
        card = model.card
        recipe = None if card.recipe is None else RECIPES.get(card.recipe.name)
        return cls(
            controls=card.trained_on.get("controls"),
            patients=card.trained_on.get("patients"),
            scans=card.trained_on.get("scans"),
            adjustment=describe_adjustment(model.preprocessing, card.unit),
            patterns=card.pattern_evidence,
            is_refitted=recipe is not None and recipe.learn_weights is not None,
        )

    @classmethod
    def of_null_study(cls, cohort: CohortRecord, selection: SelectionRecord) -> "StudyFacts":
        """Return the facts of a study without a model."""
        assert selection.adjustment is not None
        return cls(cohort.controls, cohort.patients, cohort.scans, selection.adjustment)


def load_statements(unit: str = "") -> Any:
    """Return the macros of ``statements.txt`` as functions that return plain text.

    unit: unit of the table, for its wording.
    """
    return make_environment(unit, is_html=False).get_template("statements.txt").module
