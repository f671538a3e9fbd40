"""Prepare volumes for the learners, in the same way for training people and for new
people.

Shape letters: N people, B people of a block, R regions, C covariates, P columns of the
design.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

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
    format_count,
    join_names,
)
from rindices.one_line import ShownInOneLine
from rindices.preprocess import residualise
from rindices.preprocess.ageing import choose_age_knots, find_age
from rindices.preprocess.harmonise import (
    MIN_SITE_CONTROLS,
    Harmoniser,
    check_reference_site,
    resolve_harmonise_mode,
)
from rindices.preprocess.measures import (
    DEFAULT_ICV_FOR,
    find_thickness,
    resolve_adjustment,
)
from rindices.preprocess.missing import fill_by_regression, fill_within_sites
from rindices.preprocess.residualise import CovariateCoding, Residualiser
from rindices.preprocess.standardise import CONTROL_SD, Standardiser
from rindices.tables.cohort import ID, SITE, Cohort


def _fit_harmoniser(
    cohort: Cohort,
    mode: str,
    codings: tuple[CovariateCoding, ...],
    reference: str | None,
) -> Harmoniser:
    """Estimate the effects of sites on scaled volumes from controls or, with the mode
    ``all``, from everyone; the reference site keeps its scale.

    Raises
    ------
    PreprocessingError
        If a site has nobody to estimate its effect from.
    """
    controls = cohort.take(cohort.is_control)
    sample = (
        controls
        if mode == "controls"
        else cohort.take(cohort.is_control | cohort.is_patient)
    )
    all_sites, sites = Counter(get_sites(cohort)), get_sites(sample)
    without_controls = set(all_sites) - set(sites)
    if without_controls:
        n_people = sum(all_sites[site] for site in without_controls)
        small = sorted(site for site in all_sites if sites.count(site) < 2)
        raise PreprocessingError(
            f"no control was measured at {join_names(sorted(without_controls))} "
            f"({format_count(n_people, 'person', 'people')}): leave sites with fewer than two out "
            f"(--leave-out-site {','.join(small)}), or estimate site effects from everyone (--harmonise all)."
        )
    design = residualise.build_complete_design(
        codings, controls.covariates, sample.covariates
    )
    patient = None if mode == "controls" else sample.is_patient
    preserved = design if patient is None else np.column_stack([design, patient])
    volumes = fill_within_sites(sample.volumes.to_numpy(dtype=float), preserved, sites)
    return Harmoniser.fit(volumes, design, sites, cohort.regions, patient, reference)


def _fit_residualiser(
    volumes: FloatArray,
    controls: Cohort,
    codings: tuple[CovariateCoding, ...],
    thickness: BoolArray | None,
) -> Residualiser:
    """Estimate the effects of covariates from the controls in whom each region was
    measured.

    Parameters
    ----------
    volumes : ndarray of shape (N, R)
        Of controls, on the scale on which they are adjusted, without site effects.
    thickness : ndarray of shape (R,) or None
        Regions that are not adjusted for head size.
    """
    covariates = controls.covariates
    design = residualise.build_complete_design(codings, covariates, covariates)
    filled = fill_by_regression(volumes, design, controls.regions)
    if thickness is not None and filled is not volumes:
        filled = filled.copy()
        others = ~residualise.find_head_size_columns(codings)
        filled[:, thickness] = fill_by_regression(
            volumes[:, thickness], design[:, others]
        )
    return Residualiser.fit(filled, covariates, thickness=thickness, codings=codings)


def get_sites(cohort: Cohort) -> list[str]:
    """Return the site of each person as text (N,)."""
    return [str(site) for site in cohort.people[SITE]]


@dataclass(frozen=True, kw_only=True, repr=False)
class Preprocessing(ShownInOneLine):
    """Harmonise sites, adjust for covariates and standardise to controls.

    The steps run in this order: the logarithm (with ``adjust='log'``), ComBat
    (optional), a linear model of the covariates, and scaling to the mean and standard
    deviation of controls. All are estimated on controls, unless sites are harmonised
    with ``'all'``. Disease takes a share of a region, so on the log scale its effect
    adds to those of age, sex and head size (allometric adjustment).

    Attributes
    ----------
    regions : tuple of str
        Names of the R regions, in the order of the columns.
    residualiser : Residualiser
        Effects of covariates.
    standardiser : Standardiser
        Mean and standard deviation of controls.
    harmoniser : Harmoniser or None
        Effects of sites. None if sites are not harmonised.
    adjust : {'log', 'linear', 'none'}
        Scale on which volumes are harmonised and adjusted. With ``'none'``, volumes are
        not adjusted for covariates.

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

    @classmethod
    def fit(
        cls,
        cohort: Cohort,
        harmonise: str | None = None,
        adjust: str | None = None,
        icv_for: str = DEFAULT_ICV_FOR,
        seen: BoolArray | None = None,
        harmonise_to: str | None = None,
        age_knots: tuple[float, ...] | None = None,
    ) -> Self:
        """Estimate all steps from a cohort.

        Parameters
        ----------
        cohort : Cohort
            Must have controls. Patients are used only with ``harmonise='all'``.
        harmonise : {'controls', 'all', 'none'}, optional
            People from whom site effects are estimated: controls, or everyone with the
            diagnosis as a covariate. The default is controls if the cohort has sites
            that are not among its covariates, otherwise none.
        adjust : {'log', 'linear', 'none'}, optional
            Scale on which volumes are adjusted for covariates. The default is ``'log'``
            if all values are positive, otherwise ``'linear'``.
        icv_for : {'volume', 'all'}
            Regions that are adjusted for head size where a cohort has thickness and
            other measures: all but thickness, or all.
        seen : (N,), optional
            Mask of the people to estimate from. What is not estimated, such as the
            categories of covariates, is that of the whole cohort.
        harmonise_to : str, optional
            Site whose scale is kept. By default, values get the scale of an average
            site.
        age_knots : tuple of float, optional
            Knots of age as a restricted cubic spline; empty for a straight line. By
            default, a spline where held-out controls are more likely under it.

        Returns
        -------
        Preprocessing

        Raises
        ------
        PreprocessingError
            If there are no or too few controls, if a region is constant, or if site
            effects cannot be estimated.
        """
        if not cohort.n_controls:
            raise PreprocessingError(
                "the cohort has no controls: name the group column and the controls' label."
            )
        mode, adjust = (
            resolve_harmonise_mode(cohort, harmonise),
            resolve_adjustment(cohort, adjust),
        )
        check_reference_site(cohort, harmonise, harmonise_to)
        if adjust == "none":
            cohort = replace(cohort, covariates=cohort.covariates.iloc[:, :0])
        thickness = find_thickness(cohort, icv_for)
        codings = residualise.derive_codings(
            cohort.covariates[cohort.is_control], log=adjust == "log"
        )
        if seen is not None:
            cohort = replace(cohort, visits=None).take(seen)
        volumes = cohort.volumes.to_numpy(dtype=float)
        volumes = np.log(volumes) if adjust == "log" else volumes
        cohort = replace(
            cohort, volumes=pd.DataFrame(volumes, columns=cohort.volumes.columns)
        )
        if age_knots is None:
            age_knots = choose_age_knots(
                cohort, volumes, adjust == "log", mode != "none"
            )
        codings = residualise.bend_codings(codings, find_age(codings), age_knots)
        harmoniser = (
            None
            if mode == "none"
            else _fit_harmoniser(cohort, mode, codings, harmonise_to)
        )
        controls = cohort.take(cohort.is_control)
        volumes = controls.volumes.to_numpy(dtype=float)
        if harmoniser is not None:
            design = residualise.build_complete_design(
                codings, controls.covariates, controls.covariates
            )
            volumes = harmoniser.transform(volumes, design, get_sites(controls))
        residualiser = _fit_residualiser(volumes, controls, codings, thickness)
        standardiser = Standardiser.fit(
            residualiser.transform(volumes, controls.covariates), cohort.regions
        )
        return cls(
            regions=cohort.regions,
            residualiser=residualiser,
            standardiser=standardiser,
            harmoniser=harmoniser,
            adjust=adjust,
        )

    @property
    def control_mean(self) -> FloatArray:
        """Usual value (R,) of each region in controls, in the unit of the table."""
        mean = self.standardiser.mean
        return np.asarray(np.exp(mean)) if self.adjust == "log" else mean

    def transform(self, cohort: Cohort) -> FloatArray:
        """Return the values that learners take.

        In controls of the training cohort, each column has mean 1 and standard
        deviation 0.1. Regions and covariates are matched by name. Raises
        PreprocessingError: if one is missing, or a person has a category or site that
        was not in training (see `with_sites`).

        Parameters
        ----------
        cohort : Cohort
            People with the regions and covariates of the training people.

        Returns
        -------
        ndarray of shape (N, R)
            The values.
        """
        errors = [
            problem
            for problem in self.review(cohort)
            if problem.severity is Severity.ERROR
        ]
        if errors:
            raise PreprocessingError(errors)
        return np.ascontiguousarray(
            apply_in_blocks(self.prepare_block, *self.inputs(cohort))
        )

    def inputs(self, cohort: Cohort) -> list[AnyArray]:
        """Return the arguments of `prepare_block` for the people of a cohort.

        Parameters
        ----------
        cohort : Cohort
            People with the regions and covariates of the training people.

        Returns
        -------
        list of ndarray
            Volumes (N, R), design (N, P) and, if sites are harmonised, the position of
            each site (N,).

        Raises
        ------
        PreprocessingError
            If a region, a covariate or the site is missing.
        """
        volumes, covariates = self._align(cohort)
        sites = (
            []
            if self.harmoniser is None
            else [self.harmoniser.encode_sites(get_sites(cohort))]
        )
        return [volumes, self.residualiser.build_design(covariates), *sites]

    def prepare_block(
        self,
        volumes: FloatArray,
        design: FloatArray,
        site_index: IntArray | None = None,
    ) -> FloatArray:
        """Return the values that learners take, for one block of people.

        Parameters
        ----------
        volumes : ndarray of shape (B, R)
            Volumes of the regions.
        design : ndarray of shape (B, P)
            Covariates as columns of numbers.
        site_index : ndarray of shape (B,), optional
            Position of each person's site; needed if sites are harmonised.

        Returns
        -------
        ndarray of shape (B, R)
            The values.
        """
        return self.prepare_scaled(self.change_scale(volumes), design, site_index)

    def prepare_scaled(
        self,
        volumes: FloatArray,
        design: FloatArray,
        site_index: IntArray | None = None,
    ) -> FloatArray:
        """Return `prepare_block` of volumes whose scale is changed already.

        Parameters
        ----------
        volumes : ndarray of shape (B, R)
            As `change_scale` returns them.
        design : ndarray of shape (B, P)
            Covariates as columns of numbers.
        site_index : ndarray of shape (B,), optional
            Position of each person's site; needed if sites are harmonised.

        Returns
        -------
        ndarray of shape (B, R)
            The values.
        """
        if self.harmoniser is not None and site_index is not None:
            volumes = self.harmoniser.adjust(volumes, design, site_index)
        adjusted = self.residualiser.adjust(volumes, design)
        return self.standardiser.transform(adjusted, out=adjusted)

    def change_scale(self, volumes: FloatArray) -> FloatArray:
        """Return volumes on the scale on which they are adjusted.

        Parameters
        ----------
        volumes : ndarray of shape (N, R)
            Volumes of the regions.

        Returns
        -------
        ndarray of shape (N, R)
            Their logarithms, or the volumes themselves.
        """
        return np.asarray(np.log(volumes)) if self.adjust == "log" else volumes

    def restore(
        self, volumes: FloatArray, values: FloatArray, changed: FloatArray
    ) -> FloatArray:
        """Return the volumes of people whose prepared values are changed.

        The spread is that of an average site.

        Parameters
        ----------
        volumes : ndarray of shape (N, R)
            The people's volumes.
        values : ndarray of shape (N, R)
            Their prepared values.
        changed : ndarray of shape (N, R)
            The prepared values after the change.

        Returns
        -------
        ndarray of shape (N, R)
            The volumes after the change.
        """
        change = (changed - values) * self.standardiser.sd / CONTROL_SD
        return np.asarray(
            volumes * np.exp(change) if self.adjust == "log" else volumes + change
        )

    def with_sites(self, cohort: Cohort, least: int = MIN_SITE_CONTROLS) -> Self:
        """Add the effects of new sites, estimated from their controls.

        Parameters
        ----------
        cohort : Cohort
            With groups and sites. Effects of sites that were in training are left
            as they are.
        least : int
            Number of controls that a new site must have. Raises PreprocessingError:
            if sites were not harmonised in training, or a new site has too few
            controls.

        Returns
        -------
        Preprocessing
            The steps, which then know the sites.
        """
        if self.harmoniser is None:
            raise PreprocessingError(
                "sites were not harmonised in training, so no site can be added."
            )
        self._align(cohort)
        is_new = np.array(
            [site not in self.harmoniser.sites for site in get_sites(cohort)],
            dtype=bool,
        )
        controls = cohort.take(is_new & cohort.is_control)
        without_controls = sorted(
            set(get_sites(cohort))
            - set(self.harmoniser.sites)
            - set(get_sites(controls))
        )
        if without_controls:
            raise PreprocessingError(
                f"sites that were not in training have no controls here: {join_names(without_controls)}. Name the "
                f"column of groups and give at least {least} controls of each, or leave these sites out."
            )
        volumes, covariates = self._align(controls)
        design = self.residualiser.build_design(covariates)
        filled = fill_within_sites(
            self.change_scale(volumes), design, get_sites(controls)
        )
        return replace(
            self,
            harmoniser=self.harmoniser.with_sites(
                filled, design, get_sites(controls), least
            ),
        )

    def review(self, cohort: Cohort, whole: bool = True) -> list[Problem]:
        """Check whether people can be adjusted.

        Parameters
        ----------
        cohort : Cohort
            The people.
        whole : bool
            False if the cohort is a chunk of a table. Checks of the median and of
            the range of covariates, which need all people, are then skipped.

        Returns
        -------
        list of Problem
            Errors for categories and sites that were not in training, warnings for
            values out of range, and warnings from the fit.
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
                cure, people = (
                    "Correct these values, or leave these people out",
                    ids[not_positive.any(axis=1)],
                )
                findings.at("regions").error(
                    ProblemCode.NEGATIVE_VALUES, what, cure, offenders=people
                )
        return list(findings)

    def _align(self, cohort: Cohort) -> tuple[FloatArray, pd.DataFrame]:
        """Return volumes (N, R) and covariates (N, C) with columns in the order of
        training; a missing one is named.
        """
        volumes = cohort.volumes
        if cohort.regions != self.regions:
            missing = [region for region in self.regions if region not in volumes]
            if missing:
                names = join_names(missing)
                raise PreprocessingError(
                    f"{len(missing)} regions are missing: {names}. Give them in the table."
                )
            volumes = volumes[list(self.regions)]
        values = volumes.to_numpy()
        is_float = values.dtype.kind == "f"
        return values if is_float else volumes.to_numpy(
            dtype=float
        ), self._select_covariates(cohort)

    def _select_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Return the covariates (N, C) in the order of training."""
        names = [coding.name for coding in self.residualiser.codings]
        missing = [name for name in names if name not in cohort.covariates]
        if missing:
            names_text = join_names(missing)
            raise PreprocessingError(
                f"covariates are missing: {names_text}. Name them when reading the table."
            )
        if self.harmoniser is not None and SITE not in cohort.people:
            raise PreprocessingError(
                "sites were harmonised in training: name the column of the site (--site)."
            )
        return (
            cohort.covariates
            if list(cohort.covariates) == names
            else cohort.covariates[names]
        )

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return all estimates as arrays.

        Returns
        -------
        dict of str to ndarray
            By the names that model files use.
        """
        steps = {
            "residualise": self.residualiser,
            "standardise": self.standardiser,
            "harmonise": self.harmoniser,
        }
        return {
            f"{prefix}.{name}": value
            for prefix, step in steps.items()
            if step is not None
            for name, value in vars(step).items()
            if isinstance(value, np.ndarray)
        }

    def to_dict(self) -> dict[str, Any]:
        """Return names and codings as plain values for JSON.

        Returns
        -------
        dict
            With ``regions``, ``covariates`` and, if sites are harmonised,
            ``harmonise``.
        """
        record: dict[str, Any] = {
            "regions": list(self.regions),
            "covariates": self.residualiser.to_dict(),
            "adjust": self.adjust,
            "design_covariance": self.residualiser.covariance is not None,
        }
        if self.harmoniser is not None:
            record["harmonise"] = self.harmoniser.to_dict()
        return record

    @classmethod
    def from_parts(
        cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]
    ) -> Self:
        """Build from the results of `to_dict` and `to_arrays`.

        Parameters
        ----------
        values : mapping
            As returned by `to_dict`; further keys are ignored.
        arrays : mapping of str to ndarray
            As returned by `to_arrays`.
        """
        steps: dict[str, dict[str, FloatArray]] = defaultdict(dict)
        for key, array in arrays.items():
            prefix, _, name = key.partition(".")
            steps[prefix][name] = array
        sites = values.get("harmonise")
        return cls(
            regions=tuple(values["regions"]),
            residualiser=Residualiser(
                codings=tuple(map(residualise.build_coding, values["covariates"])),
                notes=(),
                **steps["residualise"],
            ),
            standardiser=Standardiser(**steps["standardise"]),
            harmoniser=None if sites is None else Harmoniser.from_parts(sites, arrays),
            adjust=values["adjust"],
        )
