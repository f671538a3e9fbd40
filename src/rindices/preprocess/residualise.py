"""Adjust volumes, or their logarithms, for covariates by a linear model of controls
(section 4.3 of the paper).

Shape letters: N people, R regions, C covariates, P columns of the design.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, Self

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks
from rindices.errors import (
    Findings,
    PreprocessingError,
    Problem,
    ProblemCode,
    format_count,
    format_quantity,
    join_names,
)
from rindices.preprocess.missing import (
    DesignMoments,
    estimate_design_moments,
    fill_design,
)

_HEAD_SIZE = re.compile(
    r"(?:^|[^a-z])(?:e|sb|dl)?(?:tiv|icv)(?:[^a-z]|$)|intra.?cranial|supra.?tentorial|head.?size|brain.?(?:seg|vol)",
    re.I,
)
"""Names of covariates that measure the size of the head."""


@dataclass(frozen=True, kw_only=True)
class NumericCovariate:
    """A covariate with one design column, or with the columns of a restricted cubic
    spline.

    Attributes
    ----------
    name : str
    low, high : float
        Range in controls.
    log : bool
        Whether the design column is the logarithm, as for head size where volumes
        are adjusted on the log scale.
    knots : tuple of float
        Knots of the spline, three or more. Empty for a straight line.
    """

    name: str
    low: float
    high: float
    log: bool = False
    knots: tuple[float, ...] = ()

    def encode(self, values: pd.Series) -> FloatArray:
        """Return the design columns: (N,) -> (N, 1), or (N, knots - 1)."""
        if not pd.api.types.is_numeric_dtype(values):
            what = f"{self.name} was a number in training ({self._format_range()}), here it is text"
            texts = join_names(sorted({str(value) for value in values}))
            raise PreprocessingError(f"{what}: {texts}. Code it as in training.")
        numbers = np.asarray(values, dtype=float)[:, None]
        if self.knots:
            return np.concatenate([numbers, bend_numbers(numbers, self.knots)], axis=1)
        if not self.log:
            return numbers
        if (numbers <= 0).any():
            raise PreprocessingError(
                f"{self.name} must be positive, as its logarithm is adjusted for: correct it."
            )
        return np.asarray(np.log(numbers))

    def review(
        self,
        values: pd.Series,
        ids: Sequence[str],
        findings: Findings,
        is_complete: bool = True,
    ) -> None:
        """Report people outside the range of controls, for whom the linear model
        extrapolates.
        """
        self.encode(values)
        numbers = np.asarray(values, dtype=float)
        if not is_complete:
            # in a chunk, people out of range are counted among the novel people instead
            return
        span = max(self.high - self.low, 1e-9 * max(abs(self.high), abs(self.low), 1.0))
        median = (
            float(np.nanmedian(numbers)) if np.isfinite(numbers).any() else self.low
        )
        if not self.low - span <= median <= self.high + span:
            here = f"the median {self.name} is {format_quantity(median)} here"
            what = f"{here}; it was {self._format_range()} in training"
            cure = "It looks like another unit or coding: convert it"
            findings.error(ProblemCode.UNIT_MISMATCH, what, cure, subject=self.name)
            return
        outside = np.flatnonzero((numbers < self.low) | (numbers > self.high))
        if outside.size:
            offenders = list(
                dict.fromkeys(ids[int(row)] for row in outside)
            )  # a person may have several visits
            people = format_count(len(offenders), "person is", "people are")
            what = f"{people} outside the controls' range of {self.name} ({self._format_range()})"
            cure, code = (
                "Their adjustment extrapolates; add controls of that range",
                ProblemCode.OUTSIDE_TRAINING_RANGE,
            )
            findings.warn(code, what, cure, subject=self.name, offenders=offenders)

    def _format_range(self) -> str:
        return f"{format_quantity(self.low)} to {format_quantity(self.high)}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; knots only where there are any."""
        record = {
            "name": self.name,
            "kind": "numeric",
            "low": self.low,
            "high": self.high,
            "log": self.log,
        }
        return record | ({"knots": list(self.knots)} if self.knots else {})


@dataclass(frozen=True)
class CategoricalCovariate:
    """A covariate with one design column per category, except the first, which is the
    reference.

    Attributes
    ----------
    name : str
    levels : tuple of str
    """

    name: str
    levels: tuple[str, ...]

    def encode(self, values: pd.Series) -> FloatArray:
        """Return the indicator columns: (N,) -> (N, levels - 1)."""
        codes, categories = _factorise_as_text(values)
        n_columns = count_columns(self)
        indicators = np.array(
            [[text == level for level in self.levels[1:]] for text in categories],
            dtype=float,
        )
        indicators = indicators.reshape(len(categories), n_columns)
        return np.concatenate([indicators, np.full((1, n_columns), np.nan)])[
            codes
        ]  # the last row has the code -1

    def review(
        self,
        values: pd.Series,
        ids: Sequence[str],
        findings: Findings,
        is_complete: bool = True,
    ) -> None:
        """Report people of a category that no control has: their adjustment cannot be
        estimated.
        """
        codes, categories = _factorise_as_text(values)
        unseen = sorted(set(categories) - set(self.levels))
        if unseen:
            rows = np.flatnonzero(
                np.isin(
                    codes,
                    [code for code, text in enumerate(categories) if text in unseen],
                )
            )
            what = f"{self.name} has {join_names(unseen)}, which no control has"
            known = f"Known are {join_names(self.levels)}"
            cure = f"{known}: recode it, leave these people out, or do not adjust for {self.name}"
            offenders = [ids[int(row)] for row in rows]
            findings.error(
                ProblemCode.UNKNOWN_CATEGORY,
                what,
                cure,
                subject=self.name,
                offenders=offenders,
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"name": self.name, "kind": "categorical", "levels": list(self.levels)}


CovariateCoding = NumericCovariate | CategoricalCovariate


@dataclass(frozen=True, kw_only=True)
class Residualiser:
    """Linear effects of covariates on volumes, estimated in controls.

    Attributes
    ----------
    codings : tuple of CovariateCoding
        How each covariate is encoded, in P design columns in all.
    centre : ndarray of shape (P,)
        Mean of the design in controls, so that an average control is left
        unchanged.
    coefficients : ndarray of shape (P, R)
        Change of volume per unit of each design column.
    notes : tuple of Problem
        Warnings from the fit, about constant or collinear covariates.
    covariance : ndarray of shape (P, P) or None
        Covariance of the design in controls, from which missing covariates are
        predicted. None in imported models, where the mean is taken.
    """

    codings: tuple[CovariateCoding, ...]
    centre: FloatArray
    coefficients: FloatArray
    notes: tuple[Problem, ...] = field(default=(), compare=False)
    covariance: FloatArray | None = None

    @classmethod
    def fit(
        cls,
        volumes: FloatArray,
        covariates: pd.DataFrame,
        log: bool = False,
        thickness: BoolArray | None = None,
        codings: tuple[CovariateCoding, ...] | None = None,
    ) -> Self:
        """Estimate the effects by least squares.

        Parameters
        ----------
        volumes : (N, R)
            Volumes of controls, or their logarithms.
        covariates : (N, C)
        log : bool
            Whether head size enters as its logarithm.
        thickness : (R,), optional
            Regions that are not adjusted for head size.
        codings : tuple of CovariateCoding, optional
            Left out, derived from these covariates. A category that none of these
            people has gets the effect 0.
        """
        codings = derive_codings(covariates, log) if codings is None else codings
        encoded = build_design_matrix(codings, covariates)
        moments = estimate_design_moments(encoded)
        design = fill_design(encoded, moments)
        check_control_number(len(volumes), design.shape[1])
        coefficients, rank = _solve_least_squares(design, volumes)
        if thickness is not None:
            others = ~find_head_size_columns(codings)
            coefficients[:, thickness] = 0.0
            coefficients[np.ix_(others, thickness)] = _solve_least_squares(
                design[:, others], volumes[:, thickness]
            )[0]
        notes = tuple(_collect_fit_warnings(codings, design, rank))
        return cls(
            codings=codings,
            centre=moments.mean,
            coefficients=coefficients,
            notes=notes,
            covariance=moments.covariance,
        )

    def transform(self, volumes: FloatArray, covariates: pd.DataFrame) -> FloatArray:
        """Subtract the covariates' effect: (N, R), (N, C) -> (N, R)."""
        return apply_in_blocks(self.adjust, volumes, self.build_design(covariates))

    def build_design(self, covariates: pd.DataFrame) -> FloatArray:
        """Encode covariates (N, C) as a design (N, P); those that are missing are
        predicted from the others.
        """
        return fill_design(
            build_design_matrix(self.codings, covariates),
            DesignMoments(self.centre, self.covariance),
        )

    def adjust(self, volumes: FloatArray, design: FloatArray) -> FloatArray:
        """Subtract the design's effect: (N, R), (N, P) -> (N, R)."""
        effect = (
            self.coefficients.T @ (design - self.centre).T
        ).T  # column-major, the layout of volumes
        return np.subtract(volumes, effect, out=effect)

    def review(
        self,
        covariates: pd.DataFrame,
        ids: Sequence[str],
        findings: Findings,
        whole: bool = True,
    ) -> None:
        """Report people whom the linear model cannot adjust well; a chunk of a table is
        not ``whole``.
        """
        for coding in self.codings:
            coding.review(
                covariates[coding.name], ids, findings.at("covariates"), whole
            )

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the coding of each covariate as plain values for JSON."""
        return [coding.to_dict() for coding in self.codings]


def check_control_number(n_controls: int, n_columns: int) -> None:
    """Refuse to estimate the effects of P columns from too few controls."""
    if n_controls <= n_columns + 1:
        adjustment = (
            f" to adjust for {format_count(n_columns, 'covariate column')}"
            if n_columns
            else ""
        )
        cure = (
            "adjust for fewer covariates or add controls"
            if adjustment
            else "at least 2 are needed"
        )
        raise PreprocessingError(
            f"too few controls ({n_controls}){adjustment}: {cure}."
        )


def _solve_least_squares(
    design: FloatArray, volumes: FloatArray
) -> tuple[FloatArray, int]:
    """Return the coefficients (P, R) of a design (N, P), and its rank."""
    # lstsq gives a constant column the coefficient 0 and shares the effect among
    # collinear columns.
    scale = np.where(np.ptp(design, axis=0) > 0, design.std(axis=0), 1.0)
    deviations = (design - design.mean(axis=0)) / scale
    solution, _, rank, _ = np.linalg.lstsq(
        deviations, volumes - volumes.mean(axis=0), rcond=None
    )
    return solution / scale[:, None], int(rank)


def is_head_size(name: str) -> bool:
    """Return whether the name of a covariate says that it is the size of the head."""
    return _HEAD_SIZE.search(name) is not None


def find_head_size_columns(codings: Sequence[CovariateCoding]) -> BoolArray:
    """Return the columns (P,) of the design that hold the size of the head."""
    has_head_size = [
        isinstance(coding, NumericCovariate) and is_head_size(coding.name)
        for coding in codings
    ]
    return np.repeat(
        np.array(has_head_size, dtype=bool),
        [count_columns(coding) for coding in codings],
    )


def count_columns(coding: CovariateCoding) -> int:
    """Return the number of columns that a covariate has in the design."""
    if isinstance(coding, NumericCovariate):
        return 1 + max(len(coding.knots) - 2, 0)
    return max(len(coding.levels) - 1, 0)


def bend_numbers(numbers: FloatArray, knots: Sequence[float]) -> FloatArray:
    """Return the columns (N, K - 2) that a restricted cubic spline adds to numbers
    (N, 1), in their unit.

    With truncated cubes, each column is straight below the first knot and above the
    last one (Harrell, Regression Modeling Strategies).
    """
    *inner, before, last = knots
    width = (last - knots[0]) ** 2

    def cube(knot: float) -> FloatArray:
        return np.asarray(np.maximum(numbers - knot, 0.0) ** 3)

    columns = [
        cube(knot)
        - cube(before) * (last - knot) / (last - before)
        + cube(last) * (before - knot) / (last - before)
        for knot in inner
    ]
    return np.concatenate(columns, axis=1) / width


def find_first_column(codings: Sequence[CovariateCoding], name: str) -> int:
    """Return the first column of a covariate in the design."""
    position = [each.name for each in codings].index(name)
    return sum(count_columns(each) for each in codings[:position])


def find_bent_columns(codings: Sequence[CovariateCoding]) -> BoolArray:
    """Return the columns (P,) of the design that splines add."""
    masks = [
        np.arange(count_columns(coding)) > 0
        if isinstance(coding, NumericCovariate)
        else np.zeros(count_columns(coding), dtype=bool)
        for coding in codings
    ]
    return np.concatenate([np.zeros(0, dtype=bool), *masks])


def bend_codings(
    codings: Sequence[CovariateCoding], name: str | None, knots: Sequence[float]
) -> tuple[CovariateCoding, ...]:
    """Return codings of which the one of this name has knots."""
    return tuple(
        replace(each, knots=tuple(knots))
        if isinstance(each, NumericCovariate) and each.name == name
        else each
        for each in codings
    )


def derive_codings(
    covariates: pd.DataFrame, log: bool = False
) -> tuple[CovariateCoding, ...]:
    """Return the coding of each covariate of a table (N, C); with ``log``, head size
    enters as its logarithm.

    A numeric column with two values, such as sex as 0 and 1, is categorical: a table
    that codes it 1 and 2 is then refused instead of extrapolated.
    """

    def derive(name: str, values: pd.Series) -> CovariateCoding:
        if pd.api.types.is_numeric_dtype(values) and values.nunique() != 2:
            uses_log = log and is_head_size(name) and not bool((values <= 0).any())
            low, high = round_outwards(values.min(), values.max())
            return NumericCovariate(name=name, low=low, high=high, log=uses_log)
        return CategoricalCovariate(
            name, tuple(sorted(set(_factorise_as_text(values)[1])))
        )

    return tuple(derive(str(name), values) for name, values in covariates.items())


def build_complete_design(
    codings: Sequence[CovariateCoding], controls: pd.DataFrame, covariates: pd.DataFrame
) -> FloatArray:
    """Encode covariates (N, C) as a design (N, P), and predict what is missing from
    those of controls.
    """
    encoded = build_design_matrix(codings, covariates)
    if not np.isnan(encoded).any():
        return encoded
    return fill_design(
        encoded, estimate_design_moments(build_design_matrix(codings, controls))
    )


def build_design_matrix(
    codings: Sequence[CovariateCoding], covariates: pd.DataFrame
) -> FloatArray:
    """Encode covariates as design columns; missing values are NaN.

    Parameters
    ----------
    covariates : pd.DataFrame

    Returns
    -------
    ndarray of shape (N, P)
        , the design without an intercept.
    """
    columns = [coding.encode(covariates[coding.name]) for coding in codings]
    return (
        np.concatenate(columns, axis=1) if columns else np.zeros((len(covariates), 0))
    )


def round_outwards(low: float, high: float) -> tuple[float, float]:
    """Return a range of two significant digits that holds another: the ends of a range
    are values of single people.
    """
    down, up = (
        Context(prec=2, rounding=rounding) for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    return float(down.create_decimal_from_float(float(low))), float(
        up.create_decimal_from_float(float(high))
    )


def _factorise_as_text(values: pd.Series) -> tuple[IntArray, list[str]]:
    """Return the code (N,) of each value, -1 if missing, and the categories as text, in
    which 1 and 1.0 are equal.
    """
    codes, distinct = pd.factorize(values)
    is_numeric = pd.api.types.is_numeric_dtype(values)
    return codes, [
        f"{float(value):g}" if is_numeric else str(value) for value in distinct
    ]


def build_coding(record: Mapping[str, Any]) -> CovariateCoding:
    """Return the coding of a record of `to_dict`."""
    if record["kind"] == "numeric":
        return NumericCovariate(
            name=record["name"],
            low=float(record["low"]),
            high=float(record["high"]),
            log=bool(record["log"]),
            knots=tuple(map(float, record.get("knots", ()))),
        )
    return CategoricalCovariate(record["name"], tuple(record["levels"]))


def _collect_fit_warnings(
    codings: Sequence[CovariateCoding], design: FloatArray, rank: int
) -> Findings:
    findings = Findings(where="covariates")
    constant = [
        c.name for c in codings if isinstance(c, NumericCovariate) and c.low == c.high
    ]
    constant += [
        c.name
        for c in codings
        if isinstance(c, CategoricalCovariate) and len(c.levels) == 1
    ]
    if constant:
        what = f"{join_names(constant)} is the same in all controls: it is not adjusted for"
        findings.warn(
            ProblemCode.COVARIATE_IS_CONSTANT, what, "Remove it from the covariates"
        )
    if design.size and rank < int((np.ptp(design, axis=0) > 0).sum()):
        what = "some covariates follow from the others in controls: their effect is shared between them"
        findings.warn(
            ProblemCode.COVARIATES_REDUNDANT, what, "Remove the redundant one"
        )
    return findings
