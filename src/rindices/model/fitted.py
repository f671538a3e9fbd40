"""The fitted model: apply, save, load.

Its file holds all that a new table needs, and no code.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from rindices._typing import AnyArray, BoolArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks, take_rows
from rindices.errors import (
    ModelError,
    PreprocessingError,
    Problem,
    ProblemCode,
    Severity,
    name_arguments,
    name_problem_arguments,
)
from rindices.learners.missing_cells import complete_people
from rindices.learners.outlying_measurements import CellComparison
from rindices.model import apply_checks
from rindices.model.apply_checks import MIN_INFORMATION
from rindices.model.centiles import add_centiles
from rindices.model.consensus import ConsensusInference, ConsensusResult
from rindices.model.file import ModelContent, read_model, write_model
from rindices.model.unusual import (
    TrainingDistribution,
    UnusualCount,
    UnusualDetector,
    UnusualPeople,
    make_table_warning,
)
from rindices.preprocess.harmonise import MIN_SITE_CONTROLS
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort

CITATION = (
    "Yang Z, Wen J, Davatzikos C. Surreal-GAN: Semi-Supervised Representation Learning via GAN for uncovering "
    "heterogeneous disease-related imaging patterns. ICLR 2022."
)


class ApplyResult(NamedTuple):
    """R-indices of people, problems to report, and the number of novel people.

    Attributes
    ----------
    table : pd.DataFrame
    problems : list of Problem
    counted : UnusualCount
    """

    table: pd.DataFrame
    problems: list[Problem]
    counted: UnusualCount

    def _repr_html_(self) -> str:
        """Return the problems and the first rows, for notebooks."""
        lines = "".join(f"<li>{escape(str(problem))}</li>" for problem in self.problems)
        return f"<ul>{lines}</ul>{self.table.head().to_html(index=False, escape=True)}"


class FittedModel(ModelContent):
    """A model that computes R-indices: preprocessing and the agreeing members of the
    chosen setting.

    Attributes
    ----------
    preprocessing : Preprocessing
        Learnt from everyone.
    heads : tuple of heads
        Inference of each member.
    orders : tuple of tuple of int
        For each member, the order that aligns its columns with those of the first
        member.
    patterns : (Q, M, R)
        Consensus change of each region at the severities `SEVERITY_LEVELS`, in control
        standard deviations.
    training : TrainingDistribution or None
        In an imported model, whose training people are unknown, of healthy people
        (``card.healthy``), or None.
    card : ModelCard
        Unit, source, method, seed, agreement, fingerprint, versions, citation.
    selection : SelectionRecord or None
        How the setting was chosen. It is not stored in the file.
    sums : mapping
        Regions that are sums of columns of a table, and their columns.
    intervals : CalibratedIntervals or None
        Calibration of the intervals of R-indices. None if the error was not measured.
    patterns_se : (Q, M, R) or None
        Standard error of ``patterns``, over people or over trainings
        (``card.interval_over``).
    pipelines : tuple of Preprocessing
        The preprocessing of each member, learnt from the people that it was trained on.
        Empty if all members use ``preprocessing``.
    indices : DataFrame or None
        R-indices of the people of the study, as ``r_indices.tsv`` has them: the mean
        over the members that have not seen the person. They are not stored in the file.
    visit_indices : DataFrame or None
        The same of all visits, for a study with repeat visits.
    findings : StudyFindings or None
        What the study found, as ``findings.json`` has it. It is not stored in the file.
    networks : NetworkEnsemble or None
        Networks of a study with Surreal-GAN, their training and what they do. They are
        not stored in the file.
    centiles : CentileReference or None
        R-indices of healthy people by age and sex (``card.healthy``).
    ending : Problem or None
        Why a study has no R-indices, where it detected no difference between patients
        and controls. Then ``indices`` is None, and the model cannot be applied or
        saved.

    Examples
    --------
    >>> import rindices as ri
    >>> model = ri.load("results/model.safetensors")
    >>> people = ri.simulate_cohort("tiny", seed=0, new_people=True).cohort
    >>> list(model.apply(people))[:4]
    ['participant_id', 'r1', 'r1_low', 'r1_high']
    """

    def __repr__(self) -> str:
        if self.ending is not None:
            return f"<FittedModel without R-indices: {self._null_result}>"
        return f"<FittedModel: {self.n_patterns} patterns, {len(self.regions)} regions, {len(self.heads)} members>"

    def _repr_html_(self) -> str:
        """Return the facts of the report's first screen with one figure, for
        notebooks.
        """
        if self.ending is not None:
            return f"<p>{escape(repr(self)[1:-1])}</p>"
        # a layer above draws it, and is found by its name
        return str(import_module("rindices.report.notebook").render_model(self))

    @property
    def finding(self) -> str:
        """``patterns``, ``mean_difference`` or ``no_difference``; empty where it is not
        known.
        """
        return self.card.finding

    @property
    def _null_result(self) -> str:
        """What a study without R-indices did not find, in a few words."""
        return "" if self.ending is None else self.ending.what

    def _refuse_without_indices(self) -> None:
        """Raise an error if the study has no R-indices."""
        if self.ending is not None:
            raise ModelError(f"there are no R-indices: {self._null_result}.")

    @property
    def covariates(self) -> tuple[str, ...]:
        """The covariates that a table must have."""
        return tuple(coding.name for coding in self.preprocessing.residualiser.codings)

    @name_arguments()
    def apply(
        self,
        cohort: Cohort,
        on_missing: str = "model",
        min_information: float = MIN_INFORMATION,
        on_outlier: str | None = None,
        centiles: bool = False,
    ) -> pd.DataFrame:
        """Return the R-indices of people.

        Parameters
        ----------
        cohort : Cohort
            Regions are matched by name, in any order.
        on_missing : {'model', 'error'}
            What to do with a table that lacks regions: infer from the others, with
            wider intervals, or refuse it.
        min_information : float
            Least share of the variance of each R-index that a person's regions must
            determine. People who lack more are left out with a warning, or refused with
            ``on_missing='error'``.
        on_outlier : {'model', 'keep', 'error'}, optional
            What to do with outlying measurements, which do not fit the person's other
            regions: treat them as missing, use them, or refuse them. The default is
            ``model``, but ``keep`` for features of any kind and in imported models,
            whose R-indices then are exactly those of the checkpoint.
        centiles : bool
            Whether to add the centile of each R-index among healthy people of the same
            age and sex, ``r1_centile``, and its 90 % interval, ``r1_centile_low`` and
            ``r1_centile_high``. The cohort must have the covariates ``age`` and
            ``sex``.

        Returns
        -------
        DataFrame
            ``participant_id``, ``session_id`` where there are sessions, and ``r1`` to
            ``rM``. Where the model has them, also the ends of their intervals
            (``r1_low``, ``r1_high`` and so on), ``information``, the share of the least
            known R-index that the measured regions determine (1 if none is missing),
            and ``outlier_score``, the share of training people who are nearer to their
            mean (0 ordinary, 1 never seen). ``outside_training_range`` and
            ``outside_because`` name people outside the training range. People whom the
            model was trained on seem less unusual than they are. ``r_indices.tsv`` of a
            study has cross-fitted values for them.

        Raises
        ------
        ModelError
            If regions are missing, are not in the model, or have another unit.
        PreprocessingError
            If the adjustment cannot be done for these people.
        """
        result = self.assess(cohort, on_missing, min_information, on_outlier, centiles)
        for problem in result.problems:
            codes = (ProblemCode.PEOPLE_WITHOUT_INDEX, ProblemCode.OUTLYING_VALUES)
            if problem.code in codes and problem.severity is Severity.WARNING:
                warnings.warn(str(name_problem_arguments(problem)), stacklevel=3)
        return result.table

    def assess(
        self,
        cohort: Cohort,
        on_missing: str = "model",
        min_information: float = MIN_INFORMATION,
        on_outlier: str | None = None,
        centiles: bool = False,
    ) -> ApplyResult:
        """Return the R-indices of people with the problems to report.

        Parameters
        ----------
        cohort : Cohort
            People, with the covariates and sites of the model.
        on_missing : {'model', 'error', 'drop'}
            What becomes of people without some regions, as for `apply`.
        min_information : float
            Smallest part of the variance of each R-index that a person's regions must
            determine, as for `apply`.
        on_outlier : str, optional
            What becomes of outlying measurements, as for `apply`.
        centiles : bool
            Whether to add centiles, as for `apply`.

        Returns
        -------
        ApplyResult
            R-indices, and the problems to report.
        """
        self._refuse_without_indices()
        combined, notes = apply_checks.add_summed_regions(cohort, self.sums)
        combined, absent = apply_checks.add_missing_regions(
            combined, self.regions, on_missing
        )
        apply_checks.check_model_regions(combined, self.regions, self.card.unit)
        problems = self._review_or_raise(combined)
        values = self._prepare(combined)
        apply_checks.check_scale(values, self.regions, self.card.unit)
        if self.training is not None and not self.has_reference_alone:
            sd = np.sqrt(np.diag(self.training.covariance))
            # models are fitted to first visits
            is_first = ~combined.people[ID].duplicated().to_numpy()
            firsts = values if is_first.all() else values[is_first]
            notes += apply_checks.note_training_people(firsts, self.training.mean, sd)
        policy = self._resolve_on_outlier(on_outlier)
        result = self._infer(combined, absent, min_information, policy=policy)
        if centiles:
            result = self._add_centiles(result, combined)
        _refuse_people_without_index(result, on_missing)
        people = combined.people
        labels = {name: people[name] for name in (GROUP, SITE) if name in people}
        problems += apply_checks.compare_information(result.table.assign(**labels))
        problems = apply_checks.relate_to_novel(problems, result.counted)
        warnings_of_table = make_table_warning(
            result.counted, self.card.unit, self.card.compared_with
        )
        return result._replace(
            problems=[
                *warnings_of_table,
                *self._note_missing_outputs(),
                *notes,
                *result.problems,
                *problems,
            ]
        )

    def _add_centiles(self, result: ApplyResult, cohort: Cohort) -> ApplyResult:
        """Return the R-indices of a cohort with their centiles."""
        covariates = cohort.covariates.iloc[result.table.index.to_numpy()]
        table, notes = add_centiles(
            result.table, covariates, self.centiles, self.card.healthy
        )
        return result._replace(table=table, problems=[*notes, *result.problems])

    @property
    def has_reference_alone(self) -> bool:
        """Whether new people are compared with healthy people of a reference, because
        the training people are not known.
        """
        return self.card.healthy is not None and not self.card.trained_on

    def assess_chunk(
        self, cohort: Cohort, on_outlier: str | None = None, centiles: bool = False
    ) -> ApplyResult:
        """Return the R-indices of a later chunk of a table.

        Checks of the table (its unit, its median, the share of novel people) are made
        on its first chunk or on all chunks together, not on this one.

        Parameters
        ----------
        cohort : Cohort
            People of the chunk.
        on_outlier : str, optional
            What becomes of outlying measurements, as for `apply`.
        centiles : bool
            Whether to add centiles, as for `apply`.

        Returns
        -------
        ApplyResult
            R-indices, and the problems to report.
        """
        combined, _ = apply_checks.add_summed_regions(cohort, self.sums)
        # a table that lacks regions is refused with its first chunk, if at all
        combined, _ = apply_checks.add_missing_regions(combined, self.regions, "model")
        self._review_or_raise(combined, is_whole_table=False)
        result = self._infer(combined, policy=self._resolve_on_outlier(on_outlier))
        return self._add_centiles(result, combined) if centiles else result

    def _review_or_raise(
        self, cohort: Cohort, is_whole_table: bool = True
    ) -> list[Problem]:
        """Return the problems that the adjustment finds; raise its errors."""
        problems = self.preprocessing.review(cohort, is_whole_table)
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        if errors:
            raise PreprocessingError(errors)
        return problems

    def _prepare(self, cohort: Cohort) -> FloatArray:
        """Return the values (N, R) of people as the pipeline of everyone
        prepares them.
        """
        inputs = self.preprocessing.inputs(cohort)
        with np.errstate(
            over="ignore", invalid="ignore", divide="ignore"
        ):  # such results are refused later
            return apply_in_blocks(self.preprocessing.prepare_block, *inputs)

    def _resolve_on_outlier(self, requested: str | None) -> str:
        """Return what to do with cells that do not fit the person's others; ``keep``
        where they cannot be found.
        """
        if not self.has_distances:
            return "keep"
        return apply_checks.resolve_on_outlier(
            requested, self.card.unit, self.has_reference_alone
        )

    def _find_outlying_measurements(
        self, cohort: Cohort, inputs: Sequence[AnyArray], rows: IntArray, policy: str
    ) -> tuple[IntArray, BoolArray, list[Problem]]:
        """Return who of some people (K,) has cells that do not fit the others, which
        cells, (J,) and (J, R), and what to report; failed rows have none.
        """
        none = np.zeros((0, len(self.regions)), dtype=bool)
        if policy == "keep" or self.training is None or not len(rows):
            return rows[:0], none, []
        # results that are not finite are refused later
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = self._prepare_rows(inputs, rows)
            comparison = self.training.compare_cells(values)
            has_wrong = comparison.is_wrong.any(axis=1)
            if not has_wrong.any():
                return rows[:0], none, []
            rows, volumes = rows[has_wrong], take_rows(inputs[0], rows[has_wrong])
            is_wrong = comparison.is_wrong[has_wrong]
            expected = self.preprocessing.restore(
                volumes, values[has_wrong], comparison.expected[has_wrong]
            )
        comparison = CellComparison(is_wrong, expected)
        if policy != "error":  # a failed row is told by its outlier score
            is_failed = comparison.is_failed
            comparison = comparison._replace(is_wrong=is_wrong & ~is_failed[:, None])
        named = pd.DataFrame(volumes, columns=list(self.regions))
        report = apply_checks.report_outlying_measurements(
            replace(cohort.take(rows), volumes=named),
            comparison,
            policy,
            inputs[0].size,
        )
        if policy == "error":
            raise ModelError(report)
        return rows, comparison.is_wrong, report

    def _prepare_rows(self, inputs: Sequence[AnyArray], rows: IntArray) -> FloatArray:
        """Return the values (K, R) of some people as the pipeline of everyone prepares
        them.
        """
        return apply_in_blocks(
            self.preprocessing.prepare_block,
            *(take_rows(array, rows) for array in inputs),
        )

    def _compute_indices(
        self,
        cohort: Cohort,
        inputs: Sequence[AnyArray],
        weights: FloatArray | None,
        policy: str,
    ) -> tuple[ConsensusResult, list[Problem]]:
        """Return the R-indices of people, and what to report of their cells.

        Cells that do not fit the person's others are missing for the R-indices, unless
        the policy keeps or refuses them; how unusual a person is, all cells say.
        """
        inferred = self._consensus.compute_indices(inputs, weights)
        suspects = np.flatnonzero(inferred.is_suspect)
        rows, is_wrong, problems = self._find_outlying_measurements(
            cohort, inputs, suspects, policy
        )
        if not is_wrong.any():
            return inferred, problems
        volumes, *others = (take_rows(array, rows) for array in inputs)
        again = self._consensus.compute_indices(
            [np.where(is_wrong, np.nan, volumes), *others]
        )
        return inferred.replace_rows(rows, again), problems

    def _infer(
        self,
        cohort: Cohort,
        absent: Sequence[str] = (),
        min_information: float = MIN_INFORMATION,
        weights: FloatArray | None = None,
        policy: str = "keep",
    ) -> ApplyResult:
        """Return the R-indices of people who have the regions of the model, and how
        unusual they are.
        """
        inputs = self.preprocessing.inputs(cohort)
        # results that are not finite are refused below
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            inferred, problems = self._compute_indices(cohort, inputs, weights, policy)
            variance, added = inferred.variance, inferred.added
            distances = inferred.distances
            flagged = self._find_unusual(inputs, cohort.covariates, distances)
            columns = self._make_index_columns(inferred.indices, variance, added)
        is_short = np.zeros(len(cohort), dtype=bool)
        if self.intervals is not None:
            columns["information"] = np.ones(len(cohort))
        if added is not None and self.intervals is not None:
            columns["information"] = apply_checks.compute_information(
                added, self.intervals.knots.var(axis=1)
            )
            is_short = columns["information"] < min_information
            problems += apply_checks.report_people_without_index(
                cohort, is_short, min_information
            )
            widening = self.intervals.compute_widening(variance, added).mean(axis=1)
            problems += apply_checks.note_missing(
                absent,
                ~inferred.is_complete[~is_short],
                widening[~is_short],
                cohort.unit,
            )
        people = cohort.people
        ids = {name: people[name].array for name in (ID, SESSION) if name in people}
        unusual = {} if flagged.unusual is None else {"outlier_score": flagged.unusual}
        flags = {
            "outside_training_range": flagged.novel,
            "outside_because": flagged.texts,
        }
        table = pd.DataFrame({**ids, **columns, **unusual, **flags})
        has_index = ~is_short if weights is None else ~is_short & weights.any(axis=1)
        numbers = [*columns.values(), *([] if distances is None else [distances])]
        apply_checks.check_results(
            cohort.take(has_index), [column[has_index] for column in numbers]
        )
        table = table[~is_short] if is_short.any() else table
        return ApplyResult(table, problems, UnusualCount.of(flagged, ~is_short))

    def _find_unusual(
        self,
        inputs: Sequence[AnyArray],
        covariates: pd.DataFrame,
        distances: FloatArray | None,
    ) -> UnusualPeople:
        """Return who is unusual, given the inputs of the pipeline and the distances
        (N,) from the training people.
        """
        return self._unusual_detector.assess(
            inputs[0], covariates, distances, partial(self._prepare_rows, inputs)
        )

    @name_arguments()
    def with_sites(self, cohort: Cohort, least: int = MIN_SITE_CONTROLS) -> Self:
        """Return the model with the effects of new sites, estimated from their
        controls.

        Parameters
        ----------
        cohort : Cohort
            With groups and sites.
        least : int
            Minimum number of controls at a new site.

        Returns
        -------
        FittedModel
            The model, which then knows the sites.

        Raises
        ------
        PreprocessingError
            If a site has too few controls.
        """
        self._refuse_without_indices()
        combined, _ = apply_checks.add_summed_regions(cohort, self.sums)
        apply_checks.check_model_regions(combined, self.regions, self.card.unit)
        pipelines = tuple(
            pipeline.with_sites(combined, least) for pipeline in self.pipelines
        )
        return replace(
            self,
            preprocessing=self.preprocessing.with_sites(combined, least),
            pipelines=pipelines,
        )

    def infer_members(self, cohort: Cohort) -> FloatArray:
        """Return the R-indices of people by each member, with patterns in the order of
        the consensus.

        Parameters
        ----------
        cohort : Cohort
            With the regions of the model.

        Returns
        -------
        ndarray of shape (S, N, M)
            R-indices by member, person and pattern.
        """
        return self._consensus.infer_members(self.preprocessing.inputs(cohort))

    def tabulate_own_people(
        self, cohort: Cohort, unseen: BoolArray | None
    ) -> pd.DataFrame:
        """Return the R-indices of the people whom the model was trained on.

        Parameters
        ----------
        cohort : Cohort
            The people of the study.
        unseen : ndarray of shape (S, N) or None
            The members that have not seen each person. The R-index of a person is
            the mean over these members, and empty without any. None: all members
            have seen everyone, and R-indices are in-sample.

        Returns
        -------
        DataFrame
            As `apply`, with ``group`` and, unless R-indices are in-sample,
            ``members_behind``, the number of members that a person's R-indices are
            the mean of.
        """
        weights = None if unseen is None else unseen.T.astype(float)
        table = self._infer(cohort, min_information=-np.inf, weights=weights).table
        if (
            self.training is not None and self.has_distances
        ):  # people of other folds say who is unusual
            completed = complete_people(
                self.preprocessing.transform(cohort),
                np.zeros(len(cohort), dtype=np.intp),
            )
            inputs = self.preprocessing.inputs(cohort)
            for held_out, distribution in TrainingDistribution.fit_folds(
                completed, cohort.people[ID].tolist()
            ):
                training = replace(
                    distribution,
                    distances=self.training.distances,
                    limit=self.training.limit,
                )
                fold, rows = replace(self, training=training), np.flatnonzero(held_out)
                own = [take_rows(array, rows) for array in inputs]
                flagged = fold._find_unusual(
                    own,
                    cohort.covariates[held_out],
                    fold._consensus.compute_distances(own),
                )
                table.loc[held_out, "outlier_score"] = flagged.unusual
                table.loc[held_out, "outside_training_range"] = flagged.novel
                table.loc[held_out, "outside_because"] = flagged.texts
        table.insert(
            table.columns.get_loc("r1"), GROUP, cohort.people[GROUP].to_numpy()
        )
        if unseen is not None:
            table["members_behind"] = unseen.sum(axis=0)
        return table

    def trajectories(self) -> pd.DataFrame:
        """Return how each region changes along the severity of each pattern.

        Returns
        -------
        DataFrame
            One row per pattern, severity (0, 0.1, ... 1) and region: ``pattern``,
            ``severity``, ``region``, ``label``, ``change`` in standard deviations of
            controls, and its 95 % interval over members, ``low`` and ``high``. A model
            without curves (methods other than ``trajectories``, imported models) has
            its ``patterns`` interpolated between 0, 0.25, 0.5, 0.75 and 1.
        """
        # needs scipy, which applying does not
        from rindices.model.pattern_tables import TRAJECTORY_LEVELS, make_change_table

        self._refuse_without_indices()
        return make_change_table(self, TRAJECTORY_LEVELS)

    def region_order(self) -> pd.DataFrame:
        """Return the order in which the regions of each pattern change, earliest first.

        Returns
        -------
        DataFrame
            One row per pattern and region that clearly belongs to it: ``pattern``,
            ``region``, ``label``, ``change`` at full severity, ``onset``, the severity
            at which a quarter of that change is reached, its 95 % interval over
            members, ``onset_low`` and ``onset_high``, and ``rank``. In proportional
            patterns all regions change together: they have the same onset and rank 1.

        Raises
        ------
        ModelError
            If the patterns of the model are not curves.
        """
        from rindices.model.pattern_tables import make_region_order

        self._refuse_without_indices()
        return make_region_order(self)

    def interactions(self) -> pd.DataFrame:
        """Return how the patterns strengthen or weaken each other.

        Returns
        -------
        DataFrame
            One row per ordered pair of patterns: ``pattern``, ``other``, ``factor``, by
            which full severity of the other multiplies the change of the pattern, and
            its 95 % interval over members, ``low`` and ``high``. Empty where the
            changes of the patterns add up.
        """
        from rindices.model.pattern_tables import make_interaction_table

        self._refuse_without_indices()
        return make_interaction_table(self)

    def _make_index_columns(
        self, indices: FloatArray, variance: FloatArray, added: FloatArray | None
    ) -> dict[str, FloatArray]:
        """Return R-indices (N, M) and the ends of their intervals, by name of the
        column.
        """
        columns = dict(zip(self.index_names, indices.T, strict=True))
        if self.intervals is not None:
            bounds = self.intervals.compute_bounds(indices, variance, added)
            for name, low, high in zip(
                self.index_names, *(bound.T for bound in bounds), strict=True
            ):
                columns |= {f"{name}_low": low, f"{name}_high": high}
        return columns

    def _note_missing_outputs(self) -> list[Problem]:
        """Return a note about columns that the table of R-indices lacks, or that are of
        healthy people of a reference.
        """
        if self.has_reference_alone and self.card.healthy is not None:
            what = f"the training people of this model are not known: intervals and `outlier_score` come from {self.card.healthy.text}"
            return [
                Problem(
                    severity=Severity.NOTE, what=what, code=ProblemCode.MISSING_OUTPUTS
                )
            ]
        missing = (
            []
            if self.intervals is not None
            else ["intervals (its error was never measured)"]
        )
        if not self.has_distances:
            missing.append(
                "`outlier_score` of regions (its training people are not known); ranges of covariates are checked"
            )
        what = f"this model has no {' and no '.join(missing)}"
        return (
            [
                Problem(
                    severity=Severity.NOTE, what=what, code=ProblemCode.MISSING_OUTPUTS
                )
            ]
            if missing
            else []
        )

    @cached_property
    def _consensus(self) -> ConsensusInference:
        return ConsensusInference(self)

    @cached_property
    def _unusual_detector(self) -> UnusualDetector:
        mean, codings = (
            self.preprocessing.control_mean,
            self.preprocessing.residualiser.codings,
        )
        ranges = self.card.covariate_ranges
        return UnusualDetector(
            regions=self.regions,
            control_mean=mean,
            codings=codings,
            ranges=ranges,
            training=self.training,
            unit=self.card.unit,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one ``.safetensors`` file.

        Parameters
        ----------
        path : path
            The file to write.

        Raises
        ------
        ModelError
            If the file cannot be written, or the study has no R-indices.
        """
        self._refuse_without_indices()
        write_model(self, Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model; see `load`.

        Parameters
        ----------
        path : path
            A file that `save` wrote.

        Returns
        -------
        FittedModel
            The model.
        """
        return read_model(Path(path), cls)


def _refuse_people_without_index(result: ApplyResult, on_missing: str) -> None:
    """Refuse people without an R-index if they are to be refused, or if nobody has
    one.
    """
    problems = [
        replace(problem, severity=Severity.ERROR, cure="Leave them out")
        for problem in result.problems
        if problem.code is ProblemCode.PEOPLE_WITHOUT_INDEX
    ]
    if problems and (on_missing == "error" or not len(result.table)):
        raise ModelError(problems)


def load(path: str | PathLike[str]) -> FittedModel:
    """Read a model that `FittedModel.save` wrote.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    FittedModel
        The model.

    Raises
    ------
    ModelError
        If the file is damaged, or is not a model.

    Examples
    --------
    >>> import rindices as ri
    >>> model = ri.load("results/model.safetensors")
    >>> model.n_patterns, len(model.regions)
    (1, 139)
    """
    return FittedModel.load(path)
