"""Turn the labels of a diagnosis column into controls and patients."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rindices.errors import Findings, OffenderKind, ProblemCode, did_you_mean, format_count, join_names
from rindices.tables.io.text import to_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONTROL, PATIENT = "control", "patient"
_CONTROL_WORDS_TEXT = "control controls cn nc hc hv ctl ctrl con healthy normal cognitively_normal cu td"
_CONTROL_WORDS = {*_CONTROL_WORDS_TEXT.split(), "healthy control", "healthy controls", "cognitively normal"}
_CONTROL_NUMBERS = ("-1", "0")
_LABELS_HINT = "Say which is which: --controls LABEL --patients LABEL[,LABEL]"


def assign_groups(
    labels: pd.Series,
    controls: Sequence[str],
    patients: Sequence[str],
    where: str,
    findings: Findings,
) -> "NDArray[np.object_] | None":
    """Assign people to controls and patients by their labels.

    Parameters
    ----------
    labels : (N,) Series
    controls, patients : sequence of str
        Labels of the two groups; ``*`` for the patients means all who are not controls. Without both, the groups are
        guessed where they are unmistakable.
    where : str
        File and column, for messages.
    findings : Findings
        Takes a note about people with other labels, and errors about labels that nobody has.

    Returns
    -------
    (N,) array of object or None
        ``control``, ``patient`` or None for each person; None alone after an error.
    """
    texts = normalise_labels(labels)
    counts = texts.value_counts().to_dict()
    chosen = _choose_labels(counts, list(controls), list(patients), where, findings)
    if chosen is None:
        return None
    result = np.full(len(texts), None, dtype=object)
    result[texts.isin(chosen[0]).to_numpy()] = CONTROL
    result[texts.isin(chosen[1]).to_numpy()] = PATIENT
    others = {label: number for label, number in counts.items() if label not in [*chosen[0], *chosen[1]]}
    if others:
        number = format_count(sum(others.values()), "person", "people")
        what, kind = f"{number} with another label are left out", OffenderKind.LABEL
        listing = _format_counts(others)
        findings.note(ProblemCode.OTHER_LABELS, what, where, offenders=others, offender_kind=kind, listing=listing)
    for name, group_labels in zip((CONTROL, PATIENT), chosen, strict=True):
        if not sum(counts.get(label, 0) for label in group_labels):
            findings.error(ProblemCode.EMPTY_GROUP, f"there are no {name}s", where, _LABELS_HINT, subject=name)
    return result


def normalise_labels(labels: pd.Series) -> pd.Series:
    """Return labels as text; 1, 1.0 and "1.0" become the same."""
    return to_text(labels).map(lambda text: re.sub(r"^(-?\d+)\.0*$", r"\1", text), na_action="ignore")


def can_guess_groups(labels: pd.Series) -> bool:
    """Return whether the labels of controls and patients are unmistakable."""
    return _guess_labels(normalise_labels(labels).value_counts().to_dict()) is not None


def _choose_labels(
    counts: dict[Any, int], controls: list[str], patients: list[str], where: str, findings: Findings
) -> tuple[list[str], list[str]] | None:
    """Return the labels of controls and of patients as the table spells them; None after an error."""
    present = [str(label) for label in counts]
    if not present:
        cure = "Fill it or name another column with --group"
        findings.error(ProblemCode.GROUP_COLUMN_EMPTY, "the group column is empty", where, cure)
        return None
    if not controls and not patients:
        return _guess_labels_or_report(counts, where, findings)
    if _refuse_similar_labels(counts, [*controls, *patients], where, findings):
        return None
    healthy = [_resolve_label(label, present, where, findings) for label in controls]
    if patients == ["*"]:
        patients = [label for label in present if label not in healthy]
    ill = [_resolve_label(label, present, where, findings) for label in patients]
    if None in healthy + ill:
        return None
    others = [label for label in present if label not in healthy + ill]
    if (not healthy or not ill) and len(others) != 1:
        missing = "controls" if not healthy else "patients"
        what = f"which label means {missing}? There is: {_format_counts(counts)}"
        findings.error(ProblemCode.LABELS_UNCLEAR, what, where, _LABELS_HINT)
        return None
    chosen = ([label for label in healthy if label] or others, [label for label in ill if label] or others)
    both = set(chosen[0]) & set(chosen[1])
    if both:
        what = f"{join_names(sorted(both))} cannot be both control and patient"
        findings.error(ProblemCode.LABEL_IN_BOTH_GROUPS, what, where, _LABELS_HINT)
        return None
    return chosen


def _refuse_similar_labels(counts: dict[Any, int], named: list[str], where: str, findings: Findings) -> bool:
    """Report labels that differ from a named one only by case or blanks, and return whether there are any.

    Their people would be left out or, where all others are patients, be on the wrong side.
    """
    texts = [_normalise_label(label) for label in named]
    is_refused = False
    for folded in dict.fromkeys(map(fold_case, texts)):
        alike = {str(label): number for label, number in counts.items() if fold_case(str(label)) == folded}
        if len(alike) < 2 or set(alike) <= set(texts):
            continue
        what = f"{len(alike)} labels differ only by case or blanks"
        cure = f"Spell them alike, or name each of them: {','.join(alike)}"
        kind, listing = OffenderKind.LABEL, _format_counts(alike)
        findings.error(
            ProblemCode.SIMILAR_LABELS, what, where, cure, offenders=alike, offender_kind=kind, listing=listing
        )
        is_refused = True
    return is_refused


def fold_case(label: str) -> str:
    """Return a label in lower case without blanks."""
    return "".join(label.split()).casefold()


def _normalise_label(label: str) -> str:
    return str(normalise_labels(pd.Series([label], dtype="object")).iloc[0])


def _resolve_label(label: str, present: list[str], where: str, findings: Findings) -> str | None:
    """Return a label as the table spells it; None after an error."""
    text = _normalise_label(label)
    equal = [name for name in present if name == text] or [
        name for name in present if fold_case(name) == fold_case(text)
    ]
    if len(equal) == 1:
        return equal[0]
    what, cure = f"no one has the label '{label}'", f"In this column {did_you_mean(label, present)}"
    findings.error(ProblemCode.UNKNOWN_LABEL, what, where, cure, subject=label)
    return None


def _guess_labels_or_report(
    counts: dict[Any, int], where: str, findings: Findings
) -> tuple[list[str], list[str]] | None:
    guess = _guess_labels(counts)
    if guess is None:
        hint = " (a study needs two groups)" if len(counts) == 1 else ""
        what = f"which label means controls?{hint} There is: {_format_counts(counts)}"
        findings.error(ProblemCode.LABELS_UNCLEAR, what, where, _LABELS_HINT)
        return None
    if guess[0] == ["0"]:
        what = "label 0 is taken as control and 1 as patient"
        findings.note(ProblemCode.LABELS_GUESSED, what, where, "If not: --controls 1 --patients 0")
    return guess


def _guess_labels(counts: dict[Any, int]) -> tuple[list[str], list[str]] | None:
    """Return the labels of controls and of patients where they are unmistakable."""
    labels = [str(label) for label in counts]
    if len(labels) != 2:
        return None
    words = [label for label in labels if label.strip().lower().replace("-", " ") in _CONTROL_WORDS]
    if len(words) == 1:
        return words, [label for label in labels if label not in words]
    for number in _CONTROL_NUMBERS:
        if set(labels) == {number, "1"}:
            return [number], ["1"]
    return None


def _format_counts(counts: dict[Any, int]) -> str:
    return join_names([f"{label} ({number:,})" for label, number in counts.items()], 12)
