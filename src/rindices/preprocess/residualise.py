"""Linear adjustment for covariates, estimated in controls (section 4.3 of the paper)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.blocks import apply_in_blocks
from rindices.errors import Findings, PreprocessingError, Problem, Severity, format_count, join_names


@dataclass(frozen=True)
class NumericCovariate:
    """A covariate that enters as a number; ``low`` and ``high`` are the controls' range."""

    name: str
    low: float
    high: float

    def columns(self, values: pd.Series) -> FloatArray:
        """(N,) -> (N, 1)."""
        if not pd.api.types.is_numeric_dtype(values):
            raise PreprocessingError(
                f"{self.name} was a number in training ({self.low:g} to {self.high:g}), here it is text: "
                f"{join_names(sorted({str(value) for value in values}))}. Code it as then."
            )
        return np.asarray(values, dtype=float)[:, None]

    def review(self, values: pd.Series, ids: Sequence[str], findings: Findings, whole: bool = True) -> None:
        """Report people outside the controls' range: the adjustment is a straight line, so it extrapolates."""
        numbers = self.columns(values)[:, 0]
        if not whole:
            return  # they are counted among the novel
        span = max(self.high - self.low, 1e-9 * max(abs(self.high), abs(self.low), 1.0))
        typical = float(np.median(numbers)) if len(numbers) else self.low
        if not self.low - span <= typical <= self.high + span:
            findings.error(
                f"{self.name} is {typical:g} in the typical person here, {self.low:g} to {self.high:g} in training",
                "covariates",
                "It looks like another unit or coding: convert it",
            )
            return
        outside = np.flatnonzero((numbers < self.low) | (numbers > self.high))
        if outside.size:
            who = f"{format_count(outside.size, 'person is', 'people are')} outside the controls' range of {self.name}"
            findings.warn(
                f"{who} ({self.low:g} to {self.high:g}): {join_names(ids[int(row)] for row in outside)}",
                "covariates",
                "Their adjustment extrapolates; controls of their kind would help",
            )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"name": self.name, "kind": "numeric", "low": self.low, "high": self.high}


@dataclass(frozen=True)
class CategoricalCovariate:
    """A covariate that enters as one column a category, the first being the reference."""

    name: str
    levels: tuple[str, ...]

    def columns(self, values: pd.Series) -> FloatArray:
        """(N,) -> (N, levels - 1)."""
        places, texts = _factorise_as_text(values)
        found = np.array([[text == level for level in self.levels[1:]] for text in texts], dtype=float)
        return found.reshape(len(texts), len(self.levels) - 1 if self.levels else 0)[places]

    def review(self, values: pd.Series, ids: Sequence[str], findings: Findings, whole: bool = True) -> None:
        """Report people of a category that no control has: there is nothing to adjust them by."""
        places, texts = _factorise_as_text(values)
        strange = sorted(set(texts) - set(self.levels))
        if strange:
            unseen = np.flatnonzero(np.isin(places, [place for place, text in enumerate(texts) if text in strange]))
            findings.error(
                f"{self.name} has {join_names(strange)}, which no control has: {join_names(ids[int(row)] for row in unseen)}",
                "covariates",
                f"Known are {join_names(self.levels)}: code it so, leave these people out, or do not adjust for {self.name}",
            )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"name": self.name, "kind": "categorical", "levels": list(self.levels)}


CovariateCoding = NumericCovariate | CategoricalCovariate


@dataclass(frozen=True)
class Residualiser:
    """What covariates do to volumes in controls.

    Attributes
    ----------
    codings : tuple of Coding
        How each covariate becomes columns of the design, P in all.
    centre : (P,)
        The controls' mean of the design, so that an average control is left as is.
    coefficients : (P, R)
        Change of volume per unit of each design column.
    notes : tuple of Problem
        What was found while fitting (a constant covariate, collinear ones).
    """

    codings: tuple[CovariateCoding, ...]
    centre: FloatArray
    coefficients: FloatArray
    notes: tuple[Problem, ...] = field(default=(), compare=False)

    @classmethod
    def fit(cls, volumes: FloatArray, covariates: pd.DataFrame) -> Self:
        """Learn from controls: volumes (N, R), covariates (N, C)."""
        codings = derive_codings(covariates)
        design = build_design_matrix(codings, covariates)
        if len(volumes) <= design.shape[1] + 1:
            raise PreprocessingError(
                f"{format_count(len(volumes), 'control')} cannot carry {format_count(design.shape[1], 'covariate column')}: "
                "adjust for fewer covariates or add controls."
            )
        centre = design.mean(axis=0)
        # lstsq gives a constant column the coefficient 0 and shares the effect among collinear ones
        scale = np.where(np.ptp(design, axis=0) > 0, design.std(axis=0), 1.0)
        solution = np.linalg.lstsq((design - centre) / scale, volumes - volumes.mean(axis=0), rcond=None)
        return cls(
            codings,
            centre,
            solution[0] / scale[:, None],
            tuple(_collect_fit_warnings(codings, design, int(solution[2]))),
        )

    def transform(self, volumes: FloatArray, covariates: pd.DataFrame) -> FloatArray:
        """Take the covariates' effect out: (N, R), (N, C) -> (N, R)."""
        return apply_in_blocks(self.adjust, volumes, self.design(covariates))

    def design(self, covariates: pd.DataFrame) -> FloatArray:
        """Return covariates (N, C) as columns of the design, (N, P)."""
        return build_design_matrix(self.codings, covariates)

    def adjust(self, volumes: FloatArray, design: FloatArray) -> FloatArray:
        """Take the design's effect out: (N, R), (N, P) -> (N, R)."""
        effect = (self.coefficients.T @ (design - self.centre).T).T  # columns side by side, as volumes lie
        return np.subtract(volumes, effect, out=effect)

    def review(self, covariates: pd.DataFrame, ids: Sequence[str], findings: Findings, whole: bool = True) -> None:
        """Report what the adjustment cannot do for these people."""
        for coding in self.codings:
            coding.review(covariates[coding.name], ids, findings, whole)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the learnt numbers."""
        return {"residualise.centre": self.centre, "residualise.coefficients": self.coefficients}

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the coding of the covariates as plain values."""
        return [coding.as_dict() for coding in self.codings]

    @classmethod
    def from_parts(cls, codings: Sequence[Mapping[str, Any]], arrays: Mapping[str, FloatArray]) -> Self:
        """Build from `to_dict` and `to_arrays`."""
        rebuilt = tuple(_build_coding(values) for values in codings)
        return cls(rebuilt, arrays["residualise.centre"], arrays["residualise.coefficients"])


def derive_codings(covariates: pd.DataFrame) -> tuple[CovariateCoding, ...]:
    """Return how each covariate (N, C) becomes columns of a design."""
    return tuple(_derive_coding(name, covariates[name]) for name in covariates.columns)


def _derive_coding(name: str, values: pd.Series) -> CovariateCoding:
    """Return how a covariate is coded; two numbers (sex as 0 and 1) are two categories, so that 1 and 2 is refused."""
    if pd.api.types.is_numeric_dtype(values) and values.nunique() != 2:
        return NumericCovariate(name, float(values.min()), float(values.max()))
    return CategoricalCovariate(name, tuple(sorted(set(_factorise_as_text(values)[1]))))


def _factorise_as_text(values: pd.Series) -> tuple[IntArray, list[str]]:
    """Return each one's place (N,) among the categories, and these as text; 1 and 1.0 are written the same."""
    places, distinct = pd.factorize(values, use_na_sentinel=False)
    numbers = pd.api.types.is_numeric_dtype(values)
    return places, [f"{float(value):g}" if numbers else str(value) for value in distinct]


def _build_coding(values: Mapping[str, Any]) -> CovariateCoding:
    if values["kind"] == "numeric":
        return NumericCovariate(values["name"], float(values["low"]), float(values["high"]))
    return CategoricalCovariate(values["name"], tuple(values["levels"]))


def build_design_matrix(codings: Sequence[CovariateCoding], covariates: pd.DataFrame) -> FloatArray:
    """Return the design (N, P) without an intercept; the centre takes its place."""
    columns = [coding.columns(covariates[coding.name]) for coding in codings]
    return np.concatenate(columns, axis=1) if columns else np.zeros((len(covariates), 0))


def _collect_fit_warnings(codings: Sequence[CovariateCoding], design: FloatArray, rank: int) -> list[Problem]:
    constant = [c.name for c in codings if isinstance(c, NumericCovariate) and c.low == c.high]
    constant += [c.name for c in codings if isinstance(c, CategoricalCovariate) and len(c.levels) == 1]
    notes = []
    if constant:
        what = f"{join_names(constant)} is the same in all controls: it is not adjusted for"
        notes.append(Problem(Severity.WARNING, what, "covariates", "Remove it from the covariates"))
    varying = int((np.ptp(design, axis=0) > 0).sum()) if design.size else 0
    if rank < varying:
        what = "some covariates follow from the others in controls: their effect is shared between them"
        notes.append(Problem(Severity.WARNING, what, "covariates", "Remove the redundant one"))
    return notes
