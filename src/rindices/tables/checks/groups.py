"""Turn the labels of a diagnosis column into controls and patients."""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    did_you_mean,
    format_count,
    join_names,
)
from rindices.tables.sources.frames import to_text
from rindices.wording import CONTROL_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONTROL, PATIENT = "control", "patient"
_LABELS_HINT = "Say which is which: --controls LABEL --patients LABEL[,LABEL]"
_SURREALGAN_LABELS = {
    "-1",
    "1",
}  # controls and patients in tables for the authors' package
_DASHES = dict.fromkeys(
    map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\ufe58"), "-"
)
_CYRILLIC_LOOK_ALIKES = "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
_CYRILLIC_LOOK_ALIKES += "\u0430\u0435\u0455\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u0501\u051b\u051d\u04bb"
_GREEK_LOOK_ALIKES = "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03f2"
_LOOK_ALIKES = {*_CYRILLIC_LOOK_ALIKES, *_GREEK_LOOK_ALIKES}
"""Letters of other scripts that look like Latin ones."""


def _note_guessed_labels(
    chosen: tuple[Sequence[str], Sequence[str]],
    people: Mapping[str, int],
    is_defined: bool,
    findings: Findings,
) -> None:
    """Note which labels are taken for controls and patients; ``is_defined``: by the
    layout of the authors' package.
    """
    healthy, ill = (
        _format_counts({label: people.get(label, 0) for label in group})
        for group in chosen
    )
    layout = ", as the SurrealGAN layout defines" if is_defined else ""
    what = f"controls are {healthy} and patients are {ill}{layout}"
    cure = "If not: --controls LABEL --patients LABEL[,LABEL]"
    findings.note(ProblemCode.LABELS_GUESSED, what, cure)


def assign_groups(
    labels: pd.Series,
    controls: Sequence[str],
    patients: Sequence[str],
    findings: Findings,
    is_surrealgan: bool = False,
    ids: Sequence[str] = (),
) -> "NDArray[np.object_] | None":
    """Assign people to controls and patients by their labels.

    Without labels of both, the groups are guessed where they are unmistakable.

    Parameters
    ----------
    labels : Series
        Label of each of N people.
    controls : sequence of str
        Labels of the controls.
    patients : sequence of str
        Labels of the patients. ``*`` means all who are not controls.
    findings : Findings
        Collects notes about guessed labels and people with other labels, and errors
        about labels that nobody has.
    is_surrealgan : bool
        Whether the table is one for the authors' package, where -1 is a control and 1 a
        patient.
    ids : sequence of str
        IDs of the N participants, who are counted once each if they have several scans.

    Returns
    -------
    ndarray or None
        ``control``, ``patient`` or None for each person. None after an error.
    """
    texts = normalise_labels(fold_labels(labels, "group", findings))
    counts = texts.value_counts().to_dict()
    chosen = _choose_labels(
        counts, list(controls), list(patients), findings, is_surrealgan
    )
    if chosen is None:
        return None
    if not controls or tuple(patients) in ((), ("*",)):
        people = counts
        if ids:  # everyone is counted once
            people = pd.Series(ids, texts.index).groupby(texts).nunique().to_dict()
        is_defined = is_surrealgan and not controls
        _note_guessed_labels(chosen, people, is_defined, findings)
    result = np.full(len(texts), None, dtype=object)
    result[texts.isin(chosen[0]).to_numpy()] = CONTROL
    result[texts.isin(chosen[1]).to_numpy()] = PATIENT
    others = {
        label: number
        for label, number in counts.items()
        if label not in [*chosen[0], *chosen[1]]
    }
    if others:
        number = format_count(sum(others.values()), "person", "people")
        findings.note(
            ProblemCode.OTHER_LABELS,
            f"{number} with another label are left out",
            offenders=others,
            offender_kind=OffenderKind.LABEL,
            listing=_format_counts(others),
        )
    for name, group_labels in zip((CONTROL, PATIENT), chosen, strict=True):
        if not sum(counts.get(label, 0) for label in group_labels):
            what = f"there are no {name}s"
            findings.error(ProblemCode.EMPTY_GROUP, what, _LABELS_HINT, subject=name)
    return result


def fold_labels(labels: pd.Series, subject: str, findings: Findings) -> pd.Series:
    """Return labels as text in plain characters, see `fold_characters`, with a note
    about those that were changed.

    Labels with letters of another script that look like Latin ones, beside Latin
    labels, are an error.
    """
    texts = to_text(labels)
    unusual = [text for text in texts.dropna().unique() if not text.isascii()]
    if not unusual:
        return texts
    folded = {text: fold_characters(text) for text in unusual}
    changed = [text for text in unusual if folded[text] != text]
    kind = OffenderKind.LABEL
    if changed:
        count = format_count(int(texts.isin(changed).sum()), "label is", "labels are")
        what = f"{count} written with unusual characters (full width, dashes, blanks) and read as"
        listing = join_names(dict.fromkeys(folded[text] for text in changed))
        findings.note(
            ProblemCode.LABELS_FOLDED,
            what,
            offenders=changed,
            offender_kind=kind,
            listing=listing,
        )
    texts = texts.map(lambda text: folded.get(text, text), na_action="ignore")
    present = [str(text) for text in texts.dropna().unique()]
    is_latin = any(
        char.isascii() and char.isalpha() for text in present for char in text
    )
    foreign = [text for text in present if is_latin and _passes_for_latin(text)]
    if foreign:
        what = f"{subject}: labels hold Cyrillic or Greek letters that look like Latin ones"
        cure = "Write them again in one script"
        findings.error(
            ProblemCode.MIXED_SCRIPTS, what, cure, offenders=foreign, offender_kind=kind
        )
    return texts


def fold_characters(text: str) -> str:
    """Return a text in plain characters: no full-width letters, unusual dashes or
    blanks, or invisible characters.
    """
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf").strip()


def _passes_for_latin(text: str) -> bool:
    """Return whether a text has letters of another script, all of which look like Latin
    ones.
    """
    letters = [char for char in text if char.isalpha() and not char.isascii()]
    foreign = [
        char for char in letters if not unicodedata.name(char, "").startswith("LATIN")
    ]
    return bool(foreign) and _LOOK_ALIKES.issuperset(foreign)


def normalise_labels(labels: pd.Series) -> pd.Series:
    """Return labels as text in plain characters; 1, 1.0 and "1.0" become the same."""
    return to_text(labels).map(
        lambda text: re.sub(r"^(-?\d+)\.0*$", r"\1", fold_characters(text)),
        na_action="ignore",
    )


def can_guess_groups(labels: pd.Series, is_surrealgan: bool = False) -> bool:
    """Return whether the labels of controls and patients are unmistakable."""
    return (
        _guess_labels(normalise_labels(labels).value_counts().to_dict(), is_surrealgan)
        is not None
    )


def _choose_labels(
    counts: dict[Any, int],
    controls: list[str],
    patients: list[str],
    findings: Findings,
    is_surrealgan: bool,
) -> tuple[list[str], list[str]] | None:
    """Return the labels of controls and of patients as the table spells them; None
    after an error.
    """
    present = [str(label) for label in counts]
    if not present:
        cure = "Fill it or name another column with --group"
        findings.error(
            ProblemCode.GROUP_COLUMN_EMPTY, "the group column is empty", cure
        )
        return None
    if not controls and not patients:
        guess = _guess_labels(counts, is_surrealgan)
        if guess is None:
            what = f"which label means controls? There is: {_format_counts(counts)}"
            if len(counts) == 1:
                what = f"there is one group alone, {_format_counts(counts)}: a study compares controls with patients"
            findings.error(
                ProblemCode.LABELS_UNCLEAR, what, describe_label_choice(present)
            )
        return guess
    if _refuse_similar_labels(counts, [*controls, *patients], findings):
        return None
    healthy = [_resolve_label(label, present, findings) for label in controls]
    if patients == ["*"]:
        patients = [label for label in present if label not in healthy]
    ill = [_resolve_label(label, present, findings) for label in patients]
    if None in healthy + ill:
        return None
    others = [label for label in present if label not in healthy + ill]
    if (not healthy or not ill) and len(others) != 1:
        missing = "controls" if not healthy else "patients"
        what = f"which label means {missing}? There is: {_format_counts(counts)}"
        findings.error(ProblemCode.LABELS_UNCLEAR, what, _LABELS_HINT)
        return None
    chosen = (
        [label for label in healthy if label] or others,
        [label for label in ill if label] or others,
    )
    both = set(chosen[0]) & set(chosen[1])
    if both:
        what = f"{join_names(sorted(both))} cannot be both control and patient"
        findings.error(ProblemCode.LABEL_IN_BOTH_GROUPS, what, _LABELS_HINT)
        return None
    return chosen


def _refuse_similar_labels(
    counts: dict[Any, int], named: list[str], findings: Findings
) -> bool:
    """Report labels that differ from a named one only by case or blanks, and return
    whether there are any.

    Their people would be left out or, where all others are patients, be on the wrong
    side.
    """
    texts = [_normalise_label(label) for label in named]
    is_refused = False
    for folded in dict.fromkeys(map(fold_case, texts)):
        alike = {
            str(label): number
            for label, number in counts.items()
            if fold_case(str(label)) == folded
        }
        if len(alike) < 2 or set(alike) <= set(texts):
            continue
        what = f"{len(alike)} labels differ only by case or blanks"
        cure = f"Spell them alike, or name each of them: {','.join(alike)}"
        kind, listing = OffenderKind.LABEL, _format_counts(alike)
        findings.error(
            ProblemCode.SIMILAR_LABELS,
            what,
            cure,
            offenders=alike,
            offender_kind=kind,
            listing=listing,
        )
        is_refused = True
    return is_refused


def fold_case(label: str) -> str:
    """Return a label in plain characters and lower case without blanks."""
    return "".join(fold_characters(label).split()).casefold()


def _normalise_label(label: str) -> str:
    return str(normalise_labels(pd.Series([label], dtype="object")).iloc[0])


def _resolve_label(label: str, present: list[str], findings: Findings) -> str | None:
    """Return a label as the table spells it; None after an error."""
    text = _normalise_label(label)
    equal = (
        [text]
        if text in present
        else [name for name in present if fold_case(name) == fold_case(text)]
    )
    if len(equal) == 1:
        return equal[0]
    parts = [part.strip() for part in label.split(",")]
    what, cure = (
        f"no one has the label '{label}'",
        f"In this column {did_you_mean(label, present)}",
    )
    if len(parts) > 1 and set(parts) <= set(present):
        cure = f"Give a list of labels: {json.dumps(parts)}"
    findings.error(ProblemCode.UNKNOWN_LABEL, what, cure, subject=label)
    return None


def describe_label_choice(labels: Sequence[object]) -> str:
    """Return how to say which label is which: both ways where there are two."""
    if len(labels) == 1:
        return "Add the people of the other group; a finished model needs no groups: rindices apply MODEL TABLE --out FILE"
    if len(labels) != 2:
        return _LABELS_HINT
    one, other = sorted(map(str, labels))
    return f"Say --controls {one} --patients {other}, or --controls {other} --patients {one}"


def _guess_labels(
    counts: dict[Any, int], is_surrealgan: bool = False
) -> tuple[list[str], list[str]] | None:
    """Return the labels of controls and of patients where they are unmistakable;
    numbers never are by themselves.
    """
    labels = [str(label) for label in counts]
    if len(labels) != 2:
        return None
    if is_surrealgan and set(labels) == _SURREALGAN_LABELS:
        return ["-1"], ["1"]
    words = [
        label
        for label in labels
        if label.strip().lower().replace("-", " ") in CONTROL_WORDS
    ]
    if len(words) == 1:
        return words, [label for label in labels if label not in words]
    return None


def _format_counts(counts: dict[Any, int]) -> str:
    return join_names([f"{label} ({number:,})" for label, number in counts.items()], 12)
