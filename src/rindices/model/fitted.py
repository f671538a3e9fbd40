"""The finished model: save, load, apply. One file with everything a new table needs, and nothing that runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from rindices._typing import AnyArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks
from rindices.errors import (
    ModelError,
    PreprocessingError,
    Problem,
    ProblemCode,
    Severity,
    describe_os_error,
    did_you_mean,
    join_names,
)
from rindices.learners.inference import ContrastiveHead, SurrealHead, make_inference_function
from rindices.model.intervals import CalibratedIntervals
from rindices.model.novelty import NoveltyCount, NoveltyDetector, TrainingDistribution, make_table_warning
from rindices.model.records import ModelCard, SelectionRecord
from rindices.model.safetensors_io import write_safetensors
from rindices.model.schemas import SCHEMA_VERSION, read_model_parts
from rindices.model.summed_regions import RegionSums, add_summed_regions
from rindices.preprocess.harmonise import MIN_SITE_CONTROLS
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import ID, SESSION, Cohort

CITATION = (
    "Yang Z, Wen J, Davatzikos C. Surreal-GAN: Semi-Supervised Representation Learning via GAN for uncovering "
    "heterogeneous disease-related imaging patterns. ICLR 2022."
)
_MAX_MEDIAN_SHIFT = 30.0  # control standard deviations: a table whose typical person is this far off has another scale


class ApplyResult(NamedTuple):
    """R-indices of people, what their reader should know, and how many are novel."""

    table: pd.DataFrame
    problems: list[Problem]
    counted: NoveltyCount


@dataclass(frozen=True, eq=False)
class FittedModel:
    """R-indices for anyone: preprocessing and the agreeing members of the chosen grid point.

    Attributes
    ----------
    preprocessing : Preprocessing
    heads : tuple of heads
        The agreeing members' inference.
    orders : tuple of tuple of int
        For each member the order of its columns that runs parallel to the first ones'.
    patterns : (Q, M, R)
        Consensus change of each region at the severities `SEVERITIES`, in control standard deviations.
    training : Training or None
        None where nothing is known of the training people, as in an imported model.
    card : ModelCard
        Everything else that is known: unit, source, groups, recipe, seed, agreement, fingerprint, versions, citation.
        It can be read like a dictionary, too: ``model.card["agreement"]``.
    selection : SelectionRecord or None
        How the grid point was chosen; not stored in the file. It can be read like a dictionary, too.
    sums : mapping
        Regions that are sums of a table's columns, and of which.
    intervals : Intervals or None
        How far off R-indices are; None where it was not measured.
    patterns_se : (Q, M, R) or None
        Standard error of ``patterns``, over people or over trainings as ``card.interval_over`` says; None for a
        model that does not know it.
    """

    preprocessing: Preprocessing
    heads: tuple[ContrastiveHead | SurrealHead, ...]
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

    def apply(self, cohort: Cohort) -> pd.DataFrame:
        """Return the R-indices of people, new or not.

        Parameters
        ----------
        cohort : Cohort
            Regions are matched by name, in any order. Missing, extra or wrongly scaled regions are refused by name.

        Returns
        -------
        DataFrame
            ``participant_id``, ``session_id`` where there are sessions, ``r1`` to ``rM``; where the model knows them,
            the ends of the intervals, ``r1_low``, ``r1_high`` and so on, and ``novelty``, the tail probability of so
            unusual a person; ``novel`` and ``novel_because``.
        """
        return self.assess(cohort).table

    def assess(self, cohort: Cohort) -> ApplyResult:
        """Do as `apply`, and say what a reader should know of these people."""
        combined, notes = add_summed_regions(cohort, self.sums)
        self._check_regions(combined)
        problems = self._review_or_raise(combined)
        found = self._infer(combined, whole=True)
        problems = [*make_table_warning(found.counted), *self._note_missing_outputs(), *notes, *problems]
        return found._replace(problems=problems)

    def assess_chunk(self, cohort: Cohort) -> ApplyResult:
        """Do as `assess` for more people of a table whose first ones were assessed.

        What is said of a table as a whole (its unit, its typical person, how many are novel) was said of the first
        ones, or is said of the sum of all pieces; a piece is not judged on its own.
        """
        combined, _ = add_summed_regions(cohort, self.sums)
        self._review_or_raise(combined, whole=False)
        return self._infer(combined, whole=False)

    def _review_or_raise(self, cohort: Cohort, whole: bool = True) -> list[Problem]:
        """Return what the adjustment finds in these people; refuse those it cannot do."""
        problems = self.preprocessing.review(cohort, whole)
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        if errors:
            raise PreprocessingError(errors)
        return problems

    def _infer(self, cohort: Cohort, whole: bool) -> ApplyResult:
        """Return the table of people with the regions of the model, and their novelty."""
        volumes, covariates = self.preprocessing.aligned(cohort)
        inputs = self.preprocessing.inputs(volumes, covariates, self.preprocessing.sites_of(cohort))

        def prepared(rows: IntArray) -> FloatArray:
            return apply_in_blocks(self.preprocessing.prepare_block, *(array[rows] for array in inputs))

        if whole:
            self._check_scale(prepared(np.arange(len(volumes))))
        members, distances = self._measured(inputs)
        found = self._reference.assess(volumes, covariates, distances, prepared)
        names = [name for name in (ID, SESSION) if name in cohort.people]
        columns = {name: cohort.people[name].array for name in names} | self._columns(members)
        columns |= {} if found.tail is None else {"novelty": found.tail}
        columns |= {"novel": found.novel, "novel_because": found.texts}
        return ApplyResult(pd.DataFrame(columns), [], NoveltyCount.of(found))

    def with_sites(self, cohort: Cohort, least: int = MIN_SITE_CONTROLS) -> Self:
        """Return the model with the effects of sites it has not seen, learnt from their own controls.

        Parameters
        ----------
        cohort : Cohort
            With groups and sites.
        least : int
            Controls that a new site must have; a site with fewer is refused by name.
        """
        combined, _ = add_summed_regions(cohort, self.sums)
        self._check_regions(combined)
        return replace(self, preprocessing=self.preprocessing.with_sites(combined, least))

    def infer(self, values: FloatArray) -> FloatArray:
        """Return the consensus R-indices of prepared people: (N, R) -> (N, M)."""
        return _average_members(self.infer_members(values))

    def infer_members(self, values: FloatArray) -> FloatArray:
        """Return each member's R-indices of prepared people, in the consensus's order: (N, R) -> (S, N, M)."""
        return self._ordered(apply_in_blocks(self._inference, values))

    def _measured(self, inputs: Sequence[AnyArray]) -> tuple[FloatArray, FloatArray | None]:
        """Return each member's R-indices (S, N, M) and distances from training (N,), all in one go over the people.

        Parameters
        ----------
        inputs : sequence of (N, ...)
            As the preprocessing takes them.
        """
        training = self.training if self._reference.has_distances else None

        def one_block(*block: AnyArray) -> FloatArray:
            values = self.preprocessing.prepare_block(*block)
            members = self._inference(values)
            if training is None:
                return members
            return np.concatenate([members.T, training.compute_block_distances(values)[None]]).T

        found = apply_in_blocks(one_block, *inputs)
        if training is None:
            return self._ordered(found), None
        return self._ordered(found[:, :-1]), found[:, -1]

    def _ordered(self, found: FloatArray) -> FloatArray:
        """Return members' R-indices that stand side by side (N, S * M) as (S, N, M), in the consensus's order."""
        columns = found.T.reshape(len(self.heads), self.n_patterns, len(found))
        ordered = np.stack([own[list(order)] for own, order in zip(columns, self.orders, strict=True)])
        return ordered.transpose(0, 2, 1)

    def _columns(self, members: FloatArray) -> dict[str, Any]:
        """Return the R-indices of members (S, N, M) as one, with intervals, by the name of their column."""
        indices = _average_members(members)
        columns: dict[str, Any] = dict(zip(self.index_names, indices.T, strict=True))
        if self.intervals is not None:
            ends = self.intervals.compute_bounds(indices, _average_members(np.square(members - indices)))
            for name, low, high in zip(self.index_names, *(end.T for end in ends), strict=True):
                columns |= {f"{name}_low": low, f"{name}_high": high}
        return columns

    def _note_missing_outputs(self) -> list[Problem]:
        """Return what the table of R-indices lacks because the model does not know it."""
        lacking = [] if self.intervals is not None else ["intervals (its error was never measured)"]
        if self.training is None or not len(self.training.distances):
            lacking.append("novelty of regions (its training people are not known); ranges of covariates are checked")
        what = f"this model has no {' and no '.join(lacking)}"
        return [Problem(Severity.NOTE, what, code=ProblemCode.MISSING_OUTPUTS)] if lacking else []

    @cached_property
    def _inference(self) -> Callable[[FloatArray], FloatArray]:
        return make_inference_function(self.heads)

    @cached_property
    def _reference(self) -> NoveltyDetector:
        mean, codings = self.preprocessing.standardiser.mean, self.preprocessing.residualiser.codings
        return NoveltyDetector(self.regions, mean, codings, self.card.covariate_ranges, self.training)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one ``.safetensors`` file."""
        arrays = dict(self.preprocessing.to_arrays())
        for place, head in enumerate(self.heads):
            arrays |= {f"member{place}.{name}": array for name, array in head.to_arrays().items()}
        arrays |= {"patterns": self.patterns}
        if self.patterns_se is not None:
            arrays |= {"patterns_se": self.patterns_se}
        for name, part in (("training", self.training), ("intervals", self.intervals)):
            arrays |= {} if part is None else {f"{name}.{key}": array for key, array in _collect_arrays(part).items()}
        metadata = self.card.to_dict() | self.preprocessing.to_dict()
        metadata |= {"schema": SCHEMA_VERSION, "kind": self.heads[0].kind, "n_patterns": self.n_patterns}
        metadata |= {"members": len(self.heads), "orders": [list(order) for order in self.orders]}
        metadata |= {"sums": {region: list(parts) for region, parts in self.sums.items()}}
        metadata |= {"training_distances": None if self.training is None else len(self.training.distances)}
        metadata |= {"interval_knots": None if self.intervals is None else self.intervals.knots.shape[1]}
        try:
            write_safetensors(Path(path), arrays, metadata)
        except OSError as error:
            raise ModelError(f"cannot write {path} ({describe_os_error(error)}): check the folder.") from error

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model; a damaged, hostile or foreign file is refused with one line."""
        return cls(**read_model_parts(Path(path)))

    def _check_regions(self, cohort: Cohort) -> None:
        missing = [name for name in self.regions if name not in cohort.volumes]
        extra = [name for name in cohort.regions if name not in set(self.regions)]
        if missing:
            hint = did_you_mean(missing[0], extra) if extra else f"the model needs {len(self.regions)} regions"
            raise ModelError(f"{len(missing)} regions are missing: {join_names(missing)} ({hint}).")
        if extra:
            raise ModelError(
                f"{len(extra)} columns are not regions of this model: {join_names(extra)}. Leave them out: --exclude "
                f"{','.join(extra)}."
            )
        unit = self.card.unit
        if cohort.unit != unit and "unknown" not in (unit, cohort.unit):
            raise ModelError(f"the table is in {cohort.unit}, the model was trained on {unit}: convert the table.")

    def _check_scale(self, values: FloatArray) -> None:
        off = np.abs(np.median(values, axis=0) - CONTROL_MEAN) / CONTROL_SD
        wrong = np.flatnonzero(off > _MAX_MEDIAN_SHIFT)
        if wrong.size:
            names = [f"{self.regions[int(place)]} ({off[place]:.0f} sd)" for place in wrong]
            raise ModelError(
                f"{wrong.size} regions are scaled differently than in training: {join_names(names)}. Check their unit."
            )


def _average_members(members: FloatArray) -> FloatArray:
    """Return the mean (N, M) of members (S, N, M), added one by one: numpy may add otherwise where N is 1."""
    return np.asarray(reduce(np.add, members) / len(members))


def load(path: str | PathLike[str]) -> FittedModel:
    """Read a model from its file."""
    return FittedModel.load(path)


def _collect_arrays(part: TrainingDistribution | CalibratedIntervals) -> dict[str, FloatArray]:
    return {field.name: getattr(part, field.name) for field in fields(part)}
