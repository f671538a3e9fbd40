"""The fitted model: apply, save, load. Its file holds all that a new table needs, and no code."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.blocks import apply_in_blocks, take_rows
from rindices.errors import (
    PreprocessingError,
    Problem,
    ProblemCode,
    Severity,
)
from rindices.learners.inference import MemberHead
from rindices.model.apply_checks import check_regions, check_results, check_scale
from rindices.model.consensus import ConsensusInference, average_members
from rindices.model.intervals import CalibratedIntervals
from rindices.model.measured import (
    MIN_INFORMATION,
    add_missing_regions,
    check_information,
    note_missing,
)
from rindices.model.novelty import NoveltyCount, NoveltyDetector, TrainingDistribution, make_table_warning
from rindices.model.records import ModelCard, SelectionRecord
from rindices.model.schemas import read_model_parts
from rindices.model.summed_regions import RegionSums, add_summed_regions
from rindices.model.writing import write_model
from rindices.preprocess.harmonise import MIN_SITE_CONTROLS
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import ID, SESSION, Cohort

CITATION = (
    "Yang Z, Wen J, Davatzikos C. Surreal-GAN: Semi-Supervised Representation Learning via GAN for uncovering "
    "heterogeneous disease-related imaging patterns. ICLR 2022."
)


class ApplyResult(NamedTuple):
    """R-indices of people, problems to report, and the number of novel people."""

    table: pd.DataFrame
    problems: list[Problem]
    counted: NoveltyCount


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model that computes R-indices: preprocessing and the agreeing members of the chosen setting.

    Attributes
    ----------
    preprocessing : Preprocessing
    heads : tuple of heads
        Inference of each member.
    orders : tuple of tuple of int
        For each member, the order that aligns its columns with those of the first member.
    patterns : (Q, M, R)
        Consensus change of each region at the severities `SEVERITY_LEVELS`, in control standard deviations.
    training : TrainingDistribution or None
        None in an imported model, whose training people are unknown.
    card : ModelCard
        Unit, source, recipe, seed, agreement, fingerprint, versions, citation. It can also be read like a dictionary:
        ``model.card["agreement"]``.
    selection : SelectionRecord or None
        How the setting was chosen; not stored in the file. It can also be read like a dictionary.
    sums : mapping
        Regions that are sums of columns of a table, and their columns.
    intervals : CalibratedIntervals or None
        Calibration of the intervals of R-indices; None if the error was not measured.
    patterns_se : (Q, M, R) or None
        Standard error of ``patterns``, over people or over trainings (``card.interval_over``).
    """

    preprocessing: Preprocessing
    heads: tuple[MemberHead, ...]
    orders: tuple[tuple[int, ...], ...]
    patterns: FloatArray
    training: TrainingDistribution | None
    card: ModelCard
    selection: SelectionRecord | None = field(default=None, compare=False)
    sums: RegionSums = field(default_factory=dict)
    intervals: CalibratedIntervals | None = None
    patterns_se: FloatArray | None = None

    def __repr__(self) -> str:
        return f"<FittedModel: {self.n_patterns} patterns, {len(self.regions)} regions, {len(self.heads)} members>"

    @property
    def n_patterns(self) -> int:
        """M."""
        return int(self.patterns.shape[1])

    @property
    def index_names(self) -> list[str]:
        """``r1`` to ``rM``, the columns of R-indices."""
        return [f"r{k + 1}" for k in range(self.n_patterns)]

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that a table must have."""
        return self.preprocessing.regions

    @property
    def covariates(self) -> tuple[str, ...]:
        """The covariates that a table must have."""
        return tuple(coding.name for coding in self.preprocessing.residualiser.codings)

    def apply(
        self, cohort: Cohort, on_missing: str = "model", min_information: float = MIN_INFORMATION
    ) -> pd.DataFrame:
        """Return the R-indices of people.

        Parameters
        ----------
        cohort : Cohort
            Regions are matched by name, in any order.
        on_missing : {'model', 'error'}
            What to do with a table that lacks regions: infer from the others, with wider intervals, or refuse it.
        min_information : float
            Least share of the variance of each R-index that a person's regions must determine; people who lack more
            are an error.

        Returns
        -------
        DataFrame
            ``participant_id``, ``session_id`` where there are sessions, ``r1`` to ``rM``; the ends of their intervals,
            ``r1_low``, ``r1_high`` and so on, and ``novelty``, the tail probability of the distance from the training
            people, where the model has them; ``novel`` and ``novel_because``.

        Raises
        ------
        ModelError
            If regions are missing, are not in the model, or have another unit.
        PreprocessingError
            If the adjustment cannot be done for these people.
        """
        return self.assess(cohort, on_missing, min_information).table

    def assess(
        self, cohort: Cohort, on_missing: str = "model", min_information: float = MIN_INFORMATION
    ) -> ApplyResult:
        """Return the R-indices of people with the problems to report.

        Parameters
        ----------
        cohort, on_missing, min_information
            As for `apply`.

        Returns
        -------
        ApplyResult
        """
        combined, notes = add_summed_regions(cohort, self.sums)
        combined, absent = add_missing_regions(combined, self.regions, on_missing)
        check_regions(combined, self.regions, self.card.unit)
        problems = self._review_or_raise(combined)
        result = self._infer(combined, True, absent, min_information)
        outputs = [*self._note_missing_outputs(), *notes, *result.problems, *problems]
        return result._replace(problems=[*make_table_warning(result.counted, self.card.unit), *outputs])

    def assess_chunk(self, cohort: Cohort) -> ApplyResult:
        """Return the R-indices of a later chunk of a table.

        Checks of the table (its unit, its median, the share of novel people) are made on its first chunk or on all
        chunks together, not on this one.

        Parameters
        ----------
        cohort : Cohort
            As for `apply`.

        Returns
        -------
        ApplyResult
        """
        combined, _ = add_summed_regions(cohort, self.sums)
        combined, _ = add_missing_regions(combined, self.regions, "model")  # refused with the first chunk, if at all
        self._review_or_raise(combined, is_whole_table=False)
        return self._infer(combined, False)

    def _review_or_raise(self, cohort: Cohort, is_whole_table: bool = True) -> list[Problem]:
        """Return the problems that the adjustment finds; raise its errors."""
        problems = self.preprocessing.review(cohort, is_whole_table)
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        if errors:
            raise PreprocessingError(errors)
        return problems

    def _infer(
        self,
        cohort: Cohort,
        is_whole_table: bool,
        absent: Sequence[str] = (),
        min_information: float = MIN_INFORMATION,
    ) -> ApplyResult:
        """Return the R-indices and the novelty of people who have the regions of the model."""
        volumes, covariates = self.preprocessing.aligned(cohort)
        inputs = self.preprocessing.inputs(volumes, covariates, self.preprocessing.sites_of(cohort))

        def prepare_rows(rows: IntArray) -> FloatArray:
            return apply_in_blocks(self.preprocessing.prepare_block, *(take_rows(array, rows) for array in inputs))

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # such results are refused below
            if is_whole_table:
                check_scale(prepare_rows(np.arange(len(volumes))), self.regions, self.card.unit)
            indices, variance, distances, added = self._consensus.compute_indices(inputs)
            novelty = self._novelty_detector.assess(volumes, covariates, distances, prepare_rows)
            columns = self._make_index_columns(indices, variance, added)
        notes = []
        if added is not None and self.intervals is not None:
            check_information(cohort, added, self.intervals.knots.var(axis=1), min_information)
            widening = self.intervals.compute_widening(variance, added).mean(axis=1)
            notes = note_missing(absent, volumes, widening, cohort.unit)
        check_results(cohort, [*columns.values(), *([] if distances is None else [distances])])
        ids = {name: cohort.people[name].array for name in (ID, SESSION) if name in cohort.people}
        tail = {} if novelty.tail is None else {"novelty": novelty.tail}
        flags = {"novel": novelty.novel, "novel_because": novelty.texts}
        return ApplyResult(pd.DataFrame({**ids, **columns, **tail, **flags}), notes, NoveltyCount.of(novelty))

    def with_sites(self, cohort: Cohort, least: int = MIN_SITE_CONTROLS) -> Self:
        """Return the model with the effects of new sites, estimated from their controls.

        Parameters
        ----------
        cohort : Cohort
            With groups and sites.
        least : int
            Minimum number of controls at a new site.

        Returns
        -------
        FittedModel

        Raises
        ------
        PreprocessingError
            If a site has too few controls.
        """
        combined, _ = add_summed_regions(cohort, self.sums)
        check_regions(combined, self.regions, self.card.unit)
        return replace(self, preprocessing=self.preprocessing.with_sites(combined, least))

    def infer(self, values: FloatArray) -> FloatArray:
        """Return the consensus R-indices of preprocessed people.

        Parameters
        ----------
        values : (N, R)

        Returns
        -------
        (N, M)
        """
        return average_members(self.infer_members(values))

    def infer_members(self, values: FloatArray) -> FloatArray:
        """Return each member's R-indices of preprocessed people, with patterns in the order of the consensus.

        Parameters
        ----------
        values : (N, R)

        Returns
        -------
        (S, N, M)
        """
        return self._consensus.infer_members(values)

    def trajectories(self) -> pd.DataFrame:
        """Return how each region changes along the severity of each pattern.

        Returns
        -------
        DataFrame
            One row per pattern, region and severity (0, 0.1, ... 1): ``pattern``, ``region``, ``label``, ``severity``,
            ``change`` in standard deviations of controls, and its 95 % interval over members, ``low`` and ``high``. A
            model without curves (recipes other than ``default``, imported models) has its ``patterns`` interpolated
            between 0, 0.25, 0.5, 0.75 and 1.
        """
        from rindices.model.trajectories import make_trajectory_table  # needs scipy, which applying does not

        return make_trajectory_table(self)

    def region_order(self) -> pd.DataFrame:
        """Return the order in which the regions of each pattern change, earliest first.

        Returns
        -------
        DataFrame
            One row per pattern and region that clearly belongs to it: ``pattern``, ``region``, ``label``, ``change`` at
            full severity, ``onset``, the severity at which a quarter of that change is reached, its 95 % interval over
            members, ``onset_low`` and ``onset_high``, and ``rank``. In straight patterns all regions change together:
            they have the same onset and rank 1.

        Raises
        ------
        ModelError
            If the patterns of the model are not curves.
        """
        from rindices.model.trajectories import make_region_order

        return make_region_order(self)

    def interactions(self) -> pd.DataFrame:
        """Return how the patterns strengthen or weaken each other.

        Returns
        -------
        DataFrame
            One row per ordered pair of patterns: ``pattern``, ``other``, ``factor``, by which full severity of the
            other multiplies the change of the pattern, and its 95 % interval over members, ``low`` and ``high``. Empty
            where the changes of the patterns add up.
        """
        from rindices.model.interactions import make_interaction_table

        return make_interaction_table(self)

    def _make_index_columns(
        self, indices: FloatArray, variance: FloatArray, added: FloatArray | None
    ) -> dict[str, FloatArray]:
        """Return R-indices (N, M) and the ends of their intervals, by name of the column."""
        columns = dict(zip(self.index_names, indices.T, strict=True))
        if self.intervals is not None:
            bounds = self.intervals.compute_bounds(indices, variance, added)
            for name, low, high in zip(self.index_names, *(bound.T for bound in bounds), strict=True):
                columns |= {f"{name}_low": low, f"{name}_high": high}
        return columns

    def _note_missing_outputs(self) -> list[Problem]:
        """Return a note about columns that the table of R-indices lacks."""
        missing = [] if self.intervals is not None else ["intervals (its error was never measured)"]
        if self.training is None or not len(self.training.distances):
            missing.append("novelty of regions (its training people are not known); ranges of covariates are checked")
        what = f"this model has no {' and no '.join(missing)}"
        return [Problem(Severity.NOTE, what, code=ProblemCode.MISSING_OUTPUTS)] if missing else []

    @cached_property
    def _consensus(self) -> ConsensusInference:
        return ConsensusInference(self.preprocessing, self.heads, self.orders, self.training)

    @cached_property
    def _novelty_detector(self) -> NoveltyDetector:
        mean, codings = self.preprocessing.control_mean, self.preprocessing.residualiser.codings
        ranges = self.card.covariate_ranges
        return NoveltyDetector(self.regions, mean, codings, ranges, self.training, self.card.unit)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one ``.safetensors`` file.

        Parameters
        ----------
        path : path

        Raises
        ------
        ModelError
            If the file cannot be written.
        """
        write_model(self, Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model; see `load`."""
        return cls(**read_model_parts(Path(path)))


def load(path: str | PathLike[str]) -> FittedModel:
    """Read a model from its file.

    Parameters
    ----------
    path : path
        Written by `FittedModel.save`, by this or an earlier version.

    Returns
    -------
    FittedModel

    Raises
    ------
    ModelError
        If the file is damaged, or is not a model.
    """
    return FittedModel.load(path)
