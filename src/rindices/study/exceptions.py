"""How a study ends without a model."""

from collections.abc import Sequence

from rindices.errors import StudyError
from rindices.model.records import ProvenanceRecord, SelectionRecord
from rindices.selection.dimensions import DimensionEstimate
from rindices.study.evidence import make_number_record


class NoPatternError(StudyError):
    """Patients cannot be told from controls, so nothing was trained; ``selection`` says what was found."""

    def __init__(self, found: DimensionEstimate, tried: Sequence[int], origin: ProvenanceRecord) -> None:
        first = found.dimension_tests[0]
        super().__init__(
            f"no disease pattern found: patients differ from controls no more than labels drawn by chance do "
            f"(p = {first.p:.2f}). To train all the same, name one number of patterns."
        )
        record = make_number_record(found, tried, None)
        self.selection = SelectionRecord(None, number_of_patterns=record, made_with=origin)


class UnstableError(StudyError):
    """No setting gave a result that can be trusted; ``selection`` says what was found."""

    def __init__(self, what: str, selection: SelectionRecord) -> None:
        super().__init__(what)
        self.selection = selection
