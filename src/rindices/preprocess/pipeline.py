"""Prepare volumes for the learners, in the same way for training people and for new people.

Shape letters: N people, B people of a block, R regions, C covariates, P columns of the design.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired, Self, TypedDict

import numpy as np
import pandas as pd

from rindices._typing import AnyArray, BoolArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks
from rindices.errors import (
    Findings,
    PreprocessingError,
    Problem,
    ProblemCode,
    Severity,
    join_names,
)
from rindices.preprocess.estimate import fit_harmoniser, fit_residualiser, get_sites, get_volumes
from rindices.preprocess.harmonise import MIN_SITE_CONTROLS, Harmoniser, HarmoniserRecord
from rindices.preprocess.measures import DEFAULT_ICV_FOR, find_thickness
from rindices.preprocess.missing import fill_within_sites
from rindices.preprocess.modes import resolve_adjustment, resolve_harmonise_mode
from rindices.preprocess.normal_scores import NormalScores
from rindices.preprocess.residualise import CovariateRecord, Residualiser, build_complete_design, derive_codings
from rindices.preprocess.standardise import Standardiser
from rindices.tables.cohort import ID, SITE, Cohort


class PreprocessingRecord(TypedDict):
    """The part of the preprocessing that is written as JSON."""

    regions: list[str]
    covariates: list[CovariateRecord]
    harmonise: NotRequired[HarmoniserRecord]
    adjust: str
    design_covariance: bool


@dataclass(frozen=True)
class Preprocessing:
    """Harmonise sites, adjust for covariates and standardise to controls.

    The steps run in this order: the logarithm or normal scores (with ``adjust='log'`` or ``'rank'``), ComBat
    (optional), a linear model of the covariates, and scaling to the mean and standard deviation of controls. All are
    estimated on controls, unless sites are harmonised with ``'all'``. Disease takes a share of a region, so on the
    log scale its effect adds to those of age, sex and head size (allometric adjustment).

    Attributes
    ----------
    regions : tuple of str
        Names of the R regions, in the order of the columns.
    residualiser : Residualiser
        Effects of covariates.
    standardiser : Standardiser
        Mean and standard deviation of controls.
    harmoniser : Harmoniser or None
        Effects of sites; None if sites are not harmonised.
    adjust : {'log', 'linear', 'rank', 'none'}
        Scale on which volumes are harmonised and adjusted; ``'none'``: volumes are not adjusted for covariates.
    normal_scores : NormalScores or None
        Map to normal scores, with ``adjust='rank'``.

    Examples
    --------
    >>> preprocessing = Preprocessing.fit(cohort)                       # doctest: +SKIP
    >>> values = preprocessing.transform(new_cohort)                    # doctest: +SKIP
    """

    regions: tuple[str, ...]
    residualiser: Residualiser
    standardiser: Standardiser
    harmoniser: Harmoniser | None = None
    adjust: str = "linear"
    normal_scores: NormalScores | None = None

    @classmethod
    def fit(
        cls,
        cohort: Cohort,
        harmonise: str | None = None,
        adjust: str | None = None,
        icv_for: str = DEFAULT_ICV_FOR,
        seen: BoolArray | None = None,
    ) -> Self:
        """Estimate all steps from a cohort.

        Parameters
        ----------
        cohort : Cohort
            Must have controls. Patients are used only with ``harmonise='all'``.
        harmonise : {'controls', 'all', 'none'}, optional
            People from whom site effects are estimated: controls, or everyone with the diagnosis as a covariate. The
            default is controls if the cohort has sites that are not among its covariates, otherwise none.
        adjust : {'log', 'linear', 'rank', 'none'}, optional
            Scale on which volumes are adjusted for covariates. The default is ``'log'`` if all values are positive,
            otherwise ``'linear'``. With ``'rank'``, each region is mapped to normal scores by its ranks in controls.
        icv_for : {'volume', 'all'}
            Regions that are adjusted for head size where a cohort has thickness and other measures: all but
            thickness, or all.
        seen : (N,), optional
            Mask of the people to estimate from. What is not estimated, such as the categories of covariates, is that of
            the whole cohort.

        Returns
        -------
        Preprocessing

        Raises
        ------
        PreprocessingError
            If there are no or too few controls, if a region is constant, or if site effects cannot be estimated.
        """
        if not cohort.n_controls:
            raise PreprocessingError("the cohort has no controls: name the group column and the controls' label.")
        mode, adjust = resolve_harmonise_mode(cohort, harmonise), resolve_adjustment(cohort, adjust)
        if adjust == "none":
            cohort = replace(cohort, covariates=cohort.covariates.iloc[:, :0])
        is_log, thickness = adjust == "log", find_thickness(cohort, icv_for)
        codings = derive_codings(cohort.covariates[cohort.is_control], is_log)
        if seen is not None:
            cohort = replace(cohort, visits=None).take(seen)
        scores = None
        if adjust == "rank":
            scores = NormalScores.fit(cohort.volumes.to_numpy(dtype=float)[cohort.is_control])
            values = scores.transform(cohort.volumes.to_numpy(dtype=float))
            cohort = replace(cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns))
        harmoniser = None if mode == "none" else fit_harmoniser(cohort, mode, is_log, codings)
        controls = cohort.take(cohort.is_control)
        volumes = get_volumes(controls, is_log)
        if harmoniser is not None:
            design = build_complete_design(codings, controls.covariates, controls.covariates)
            volumes = harmoniser.transform(volumes, design, get_sites(controls))
        residualiser = fit_residualiser(volumes, controls, codings, thickness)
        adjusted = residualiser.transform(volumes, controls.covariates)
        standardiser = Standardiser.fit(adjusted, cohort.regions)
        return cls(cohort.regions, residualiser, standardiser, harmoniser, adjust, scores)

    @property
    def control_mean(self) -> FloatArray:
        """Usual value (R,) of each region in controls, in the unit of the table."""
        if self.normal_scores is not None:
            return self.normal_scores.medians
        mean = self.standardiser.mean
        return np.asarray(np.exp(mean)) if self.adjust == "log" else mean

    def transform(self, cohort: Cohort) -> FloatArray:
        """Return the values that learners take.

        Parameters
        ----------
        cohort : Cohort
            Regions and covariates are matched by name.

        Returns
        -------
        (N, R)
            In controls of the training cohort, each column has mean 1 and standard deviation 0.1.

        Raises
        ------
        PreprocessingError
            If a region or covariate is missing, or a person has a category or site that was not in training (see
            `with_sites`).
        """
        volumes, covariates = self.aligned(cohort)
        errors = [problem for problem in self.review(cohort) if problem.severity is Severity.ERROR]
        if errors:
            raise PreprocessingError(errors)
        inputs = self.inputs(volumes, covariates, self.sites_of(cohort))
        return np.ascontiguousarray(apply_in_blocks(self.prepare_block, *inputs))

    def inputs(self, volumes: FloatArray, covariates: pd.DataFrame, sites: Sequence[str] = ()) -> list[AnyArray]:
        """Return the arguments of `prepare_block`, from the results of `aligned` and `sites_of`.

        Returns
        -------
        list of ndarray
            Volumes (N, R), design (N, P) and, if sites are harmonised, the position of each site (N,).
        """
        site_index = [] if self.harmoniser is None else [self.harmoniser.encode_sites(sites)]
        return [volumes, self.residualiser.build_design(covariates), *site_index]

    def prepare_block(self, volumes: FloatArray, design: FloatArray, site_index: IntArray | None = None) -> FloatArray:
        """Return the values that learners take, for one block of people.

        Parameters
        ----------
        volumes : (B, R)
        design : (B, P)
        site_index : (B,), optional
            Position of each person's site; needed if sites are harmonised.

        Returns
        -------
        (B, R)
        """
        return self.prepare_scaled(self.change_scale(volumes), design, site_index)

    def prepare_scaled(self, volumes: FloatArray, design: FloatArray, site_index: IntArray | None = None) -> FloatArray:
        """Return `prepare_block` of volumes (B, R) that `change_scale` has returned."""
        if self.normal_scores is not None:
            volumes = self.normal_scores.transform(volumes)
        if self.harmoniser is not None and site_index is not None:
            volumes = self.harmoniser.adjust(volumes, design, site_index)
        adjusted = self.residualiser.adjust(volumes, design)
        return self.standardiser.transform(adjusted, out=adjusted)

    def change_scale(self, volumes: FloatArray) -> FloatArray:
        """Return the logarithms of volumes (N, R) if that is the scale on which they are adjusted."""
        return np.asarray(np.log(volumes)) if self.adjust == "log" else volumes

    def sites_of(self, cohort: Cohort) -> list[str]:
        """Return the site of each person.

        Returns
        -------
        list of str
            (N,), or empty if sites are not harmonised.
        """
        return [] if self.harmoniser is None else get_sites(cohort)

    def with_sites(self, cohort: Cohort, least: int = MIN_SITE_CONTROLS) -> Self:
        """Add the effects of new sites, estimated from their controls.

        Parameters
        ----------
        cohort : Cohort
            With groups and sites. Effects of sites that were in training are left as they are.
        least : int
            Number of controls that a new site must have.

        Returns
        -------
        Preprocessing

        Raises
        ------
        PreprocessingError
            If sites were not harmonised in training, or a new site has too few controls.
        """
        if self.harmoniser is None:
            raise PreprocessingError("sites were not harmonised in training, so no site can be added.")
        self.aligned(cohort)
        new_sites = set(get_sites(cohort)) - set(self.harmoniser.sites)
        is_new = np.array([site in new_sites for site in get_sites(cohort)], dtype=bool)
        controls = cohort.take(is_new & cohort.is_control)
        without_controls = sorted(new_sites - set(get_sites(controls)))
        if without_controls:
            raise PreprocessingError(
                f"sites that were not in training have no controls here: {join_names(without_controls)}. Name the "
                f"column of groups and give at least {least} controls of each, or leave these sites out."
            )
        volumes, covariates = self.aligned(controls)
        volumes = self.change_scale(volumes)
        if self.normal_scores is not None:
            volumes = self.normal_scores.transform(volumes)
        design = self.residualiser.build_design(covariates)
        filled = fill_within_sites(volumes, design, get_sites(controls))
        return replace(self, harmoniser=self.harmoniser.with_sites(filled, design, get_sites(controls), least))

    def review(self, cohort: Cohort, whole: bool = True) -> list[Problem]:
        """Check whether people can be adjusted.

        Parameters
        ----------
        cohort : Cohort
        whole : bool
            False if the cohort is a chunk of a table. Checks of the median and of the range of covariates, which need
            all people, are then skipped.

        Returns
        -------
        list of Problem
            Errors for categories and sites that were not in training, warnings for values out of range, and warnings
            from the fit.
        """
        findings = Findings(list(self.residualiser.notes))
        ids = cohort.people[ID].array
        self.residualiser.review(self._select_covariates(cohort), ids, findings, whole)
        if self.harmoniser is not None:
            self.harmoniser.review(get_sites(cohort), ids, findings)
        if self.adjust == "log":
            regions = [region for region in self.regions if region in cohort.volumes]
            not_positive = cohort.volumes[regions].to_numpy() <= 0
            if not_positive.any():  # they have no logarithm
                names = join_names(np.array(regions)[not_positive.any(axis=0)])
                what = f"the model takes logarithms, and values of {names} are not positive"
                cure, people = "Correct these values, or leave these people out", ids[not_positive.any(axis=1)]
                findings.at("regions").error(ProblemCode.NEGATIVE_VALUES, what, cure, offenders=people)
        return list(findings)

    def aligned(self, cohort: Cohort) -> tuple[FloatArray, pd.DataFrame]:
        """Return volumes and covariates with columns in the order of training.

        Returns
        -------
        volumes : (N, R)
        covariates : (N, C)

        Raises
        ------
        PreprocessingError
            If a region, a covariate or the site is missing.
        """
        volumes = cohort.volumes if cohort.regions == self.regions else self._select_regions(cohort)
        values = volumes.to_numpy()
        if values.dtype.kind != "f":
            values = volumes.to_numpy(dtype=float)
        return values, self._select_covariates(cohort)

    def _select_regions(self, cohort: Cohort) -> pd.DataFrame:
        """Return the volumes (N, R) in the order of training."""
        missing = [region for region in self.regions if region not in cohort.volumes]
        if missing:
            raise PreprocessingError(
                f"{len(missing)} regions are missing: {join_names(missing)}. Give them in the table."
            )
        return cohort.volumes[list(self.regions)]

    def _select_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Return the covariates (N, C) in the order of training."""
        names = [coding.name for coding in self.residualiser.codings]
        missing = [name for name in names if name not in cohort.covariates]
        if missing:
            raise PreprocessingError(
                f"covariates are missing: {join_names(missing)}. Name them when reading the table."
            )
        if self.harmoniser is not None and SITE not in cohort.people:
            raise PreprocessingError("sites were harmonised in training: name the column of the site (--site).")
        return cohort.covariates if list(cohort.covariates) == names else cohort.covariates[names]

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return all estimates as arrays.

        Returns
        -------
        dict of str to ndarray
            By the names that model files use.
        """
        site_arrays = {} if self.harmoniser is None else self.harmoniser.to_arrays()
        scale_arrays = {} if self.normal_scores is None else self.normal_scores.to_arrays()
        return self.residualiser.to_arrays() | self.standardiser.to_arrays() | site_arrays | scale_arrays

    def to_dict(self) -> PreprocessingRecord:
        """Return names and codings as plain values for JSON.

        Returns
        -------
        dict
            With ``regions``, ``covariates`` and, if sites are harmonised, ``harmonise``.
        """
        record: PreprocessingRecord = {
            "regions": list(self.regions),
            "covariates": self.residualiser.to_dict(),
            "adjust": self.adjust,
            "design_covariance": self.residualiser.covariance is not None,
        }
        if self.harmoniser is not None:
            record["harmonise"] = self.harmoniser.to_dict()
        return record

    @classmethod
    def from_parts(cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Self:
        """Build from the results of `to_dict` and `to_arrays`.

        Parameters
        ----------
        values : mapping
            As returned by `to_dict`; further keys are ignored.
        arrays : mapping of str to ndarray
        """
        residualiser = Residualiser.from_parts(values["covariates"], arrays)
        sites = values.get("harmonise")
        harmoniser = None if sites is None else Harmoniser.from_parts(sites, arrays)
        standardiser = Standardiser.from_arrays(arrays)
        adjust = values["adjust"]
        scores = NormalScores.from_arrays(arrays) if adjust == "rank" else None
        return cls(tuple(values["regions"]), residualiser, standardiser, harmoniser, adjust, scores)
