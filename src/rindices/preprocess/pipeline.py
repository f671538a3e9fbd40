"""One path from volumes to what learners see, the same for people who were fitted on and for new people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from rindices._typing import AnyArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks
from rindices.errors import Findings, PreprocessingError, Problem, Severity, did_you_mean, format_count, join_names
from rindices.preprocess.harmonise import HARMONISATION_MODES, MIN_SITE_CONTROLS, Harmoniser
from rindices.preprocess.residualise import Residualiser, build_design_matrix, derive_codings
from rindices.preprocess.standardise import Standardiser
from rindices.tables.cohort import ID, SITE, Cohort


@dataclass(frozen=True)
class Preprocessing:
    """Harmonisation, adjustment and standardisation, a frozen value of plain arrays.

    Attributes
    ----------
    regions : tuple of str
        The R regions, in order.
    residualiser : Residualiser
        Learnt on controls.
    standardiser : Standardiser
        Learnt on controls.
    harmoniser : Harmoniser or None
        What sites do to volumes, where sites are harmonised; it comes first.

    Examples
    --------
    >>> preprocessing = Preprocessing.fit(cohort)                       # doctest: +SKIP
    >>> values = preprocessing.transform(new_cohort)                    # doctest: +SKIP
    """

    regions: tuple[str, ...]
    residualiser: Residualiser
    standardiser: Standardiser
    harmoniser: Harmoniser | None = None

    @classmethod
    def fit(cls, cohort: Cohort, harmonise: str | None = None) -> Self:
        """Learn from the controls of a cohort.

        Parameters
        ----------
        cohort : Cohort
        harmonise : {'controls', 'all', 'none'}, optional
            On whom to learn what sites do: controls, or everyone with the diagnosis held apart. Left out, controls,
            where the cohort has sites that are not among its covariates.
        """
        if not cohort.n_controls:
            raise PreprocessingError("the cohort has no controls: name the group column and the controls' label.")
        mode = resolve_harmonise_mode(cohort, harmonise)
        harmoniser = None if mode == "none" else _fit_harmoniser(cohort, mode)
        controls = cohort.take(cohort.is_control)
        volumes = controls.volumes.to_numpy(dtype=float)
        if harmoniser is not None:
            design = build_design_matrix(derive_codings(controls.covariates), controls.covariates)
            volumes = harmoniser.transform(volumes, design, _get_sites(controls))
        residualiser = Residualiser.fit(volumes, controls.covariates)
        adjusted = residualiser.transform(volumes, controls.covariates)
        return cls(cohort.regions, residualiser, Standardiser.fit(adjusted, cohort.regions), harmoniser)

    def transform(self, cohort: Cohort) -> FloatArray:
        """Return what learners see, (N, R): controls have mean 1 and standard deviation 0.1.

        Regions and covariates are found by name; people whose category no control has are refused, and so are people
        of a site that was not in training (`with_sites`).
        """
        volumes, covariates = self.aligned(cohort)
        errors = [p for p in self.review(cohort) if p.severity is Severity.ERROR]
        if errors:
            raise PreprocessingError(errors)
        return self.prepare(volumes, covariates, self.sites_of(cohort))

    def prepare(self, volumes: FloatArray, covariates: pd.DataFrame, sites: Sequence[str] = ()) -> FloatArray:
        """Return what learners see, (N, R), of people who were aligned and reviewed.

        Parameters
        ----------
        volumes : (N, R)
        covariates : (N, C)
        sites : sequence of str
            (N,) where sites are harmonised.
        """
        return np.ascontiguousarray(apply_in_blocks(self.prepare_block, *self.inputs(volumes, covariates, sites)))

    def inputs(self, volumes: FloatArray, covariates: pd.DataFrame, sites: Sequence[str] = ()) -> list[AnyArray]:
        """Return what `prepare_block` takes, of the same people as `prepare`: volumes, design, places of sites."""
        places = [] if self.harmoniser is None else [self.harmoniser.places(sites)]
        return [volumes, self.residualiser.design(covariates), *places]

    def prepare_block(self, volumes: FloatArray, design: FloatArray, place: IntArray | None = None) -> FloatArray:
        """Return what learners see of a block of people: (B, R), (B, P), (B,) -> (B, R)."""
        if self.harmoniser is not None and place is not None:
            volumes = self.harmoniser.adjust(volumes, design, place)
        adjusted = self.residualiser.adjust(volumes, design)
        return self.standardiser.transform(adjusted, out=adjusted)

    def sites_of(self, cohort: Cohort) -> list[str]:
        """Return where each person was measured, (N,); empty where sites are not harmonised."""
        return [] if self.harmoniser is None else _get_sites(cohort)

    def with_sites(self, cohort: Cohort, least: int = MIN_SITE_CONTROLS) -> Self:
        """Return the same with the effects of new sites, learnt from the cohort's controls.

        Parameters
        ----------
        cohort : Cohort
            With groups and sites. Sites that are known already stay as they are.
        least : int
            Controls that a new site must have; a site with fewer is refused by name.
        """
        if self.harmoniser is None:
            raise PreprocessingError("sites were not harmonised in training, so there is nothing to add new ones to.")
        self.aligned(cohort)
        strange = set(_get_sites(cohort)) - set(self.harmoniser.sites)
        new = cohort.take(np.array([site in strange for site in _get_sites(cohort)], dtype=bool))
        controls = new.take(new.is_control)
        bare = sorted(strange - set(_get_sites(controls)))
        if bare:
            raise PreprocessingError(
                f"sites that were not in training have no controls here: {join_names(bare)}. Name the column of groups and "
                f"give at least {least} controls of each, or leave these sites out."
            )
        volumes, covariates = self.aligned(controls)
        known = self.harmoniser.with_sites(volumes, self.residualiser.design(covariates), _get_sites(controls), least)
        return replace(self, harmoniser=known)

    def review(self, cohort: Cohort, whole: bool = True) -> list[Problem]:
        """Return what the adjustment cannot do for these people: unseen categories and sites, values out of range.

        Parameters
        ----------
        whole : bool
            Whether these people are a table, and not a piece whose typical person says nothing about the table.
        """
        findings = Findings(list(self.residualiser.notes))
        ids = cohort.people[ID].array
        self.residualiser.review(self._covariates(cohort), ids, findings, whole)
        if self.harmoniser is not None:
            self.harmoniser.review(_get_sites(cohort), ids, findings)
        return list(findings)

    def aligned(self, cohort: Cohort) -> tuple[FloatArray, pd.DataFrame]:
        """Return the volumes (N, R) and covariates (N, C) in the order of training."""
        missing = [region for region in self.regions if region not in cohort.volumes]
        if missing:
            raise PreprocessingError(
                f"{len(missing)} regions are missing: {join_names(missing)}. Give them in the table."
            )
        volumes = cohort.volumes if cohort.regions == self.regions else cohort.volumes[list(self.regions)]
        values = volumes.to_numpy()
        return values if values.dtype.kind == "f" else volumes.to_numpy(dtype=float), self._covariates(cohort)

    def _covariates(self, cohort: Cohort) -> pd.DataFrame:
        names = [coding.name for coding in self.residualiser.codings]
        absent = [name for name in names if name not in cohort.covariates]
        if absent:
            raise PreprocessingError(f"covariates are missing: {join_names(absent)}. Name them when reading the table.")
        if self.harmoniser is not None and SITE not in cohort.people:
            raise PreprocessingError("sites were harmonised in training: name the column of the site (--site).")
        return cohort.covariates if list(cohort.covariates) == names else cohort.covariates[names]

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return all learnt numbers as plain arrays."""
        sites = {} if self.harmoniser is None else self.harmoniser.to_arrays()
        return self.residualiser.to_arrays() | self.standardiser.to_arrays() | sites

    def to_dict(self) -> dict[str, Any]:
        """Return everything else as plain values for JSON."""
        sites = {} if self.harmoniser is None else {"harmonise": self.harmoniser.to_dict()}
        return {"regions": list(self.regions), "covariates": self.residualiser.to_dict(), **sites}

    @classmethod
    def from_parts(cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Self:
        """Build from `to_dict` and `to_arrays`."""
        residualiser = Residualiser.from_parts(values["covariates"], arrays)
        sites = values.get("harmonise")
        harmoniser = None if sites is None else Harmoniser.from_parts(sites, arrays)
        return cls(tuple(values["regions"]), residualiser, Standardiser.from_arrays(arrays), harmoniser)


def resolve_harmonise_mode(cohort: Cohort, asked: str | None = None) -> str:
    """Return on whom the sites' effects are to be learnt: ``controls``, ``all``, or ``none`` for not at all."""
    if asked not in (None, "none", *HARMONISATION_MODES):
        raise PreprocessingError(
            f"harmonise = '{asked}' is not known: {did_you_mean(str(asked), [*HARMONISATION_MODES, 'none'])}"
        )
    twice = [] if SITE not in cohort.people else _find_site_covariates(cohort)
    if asked is None:
        return "controls" if SITE in cohort.people and not twice else "none"
    if asked != "none" and SITE not in cohort.people:
        raise PreprocessingError(f'harmonise = "{asked}" needs to know the sites: name their column (site, --site).')
    if asked != "none" and twice:
        raise PreprocessingError(
            f"{join_names(twice)} is the site and a covariate as well: take it out of the covariates, or set "
            'harmonise = "none".'
        )
    return asked


def _find_site_covariates(cohort: Cohort) -> list[str]:
    """Return the covariates that are the site."""
    sites = cohort.people[SITE].astype(str).to_numpy()
    return [name for name in cohort.covariates if (cohort.covariates[name].astype(str).to_numpy() == sites).all()]


def _fit_harmoniser(cohort: Cohort, mode: str) -> Harmoniser:
    controls = cohort.take(cohort.is_control)
    learnt = controls if mode == "controls" else cohort.take(cohort.is_control | cohort.is_patient)
    bare = sorted(set(_get_sites(cohort)) - set(_get_sites(learnt)))
    if bare:
        people = sum(site in bare for site in _get_sites(cohort))
        raise PreprocessingError(
            f"no control was measured at {join_names(bare)} ({format_count(people, 'person', 'people')}): leave these sites out, "
            'or learn what sites do from everyone (harmonise = "all").'
        )
    design = build_design_matrix(derive_codings(controls.covariates), learnt.covariates)
    patient = None if mode == "controls" else learnt.is_patient
    return Harmoniser.fit(learnt.volumes.to_numpy(dtype=float), design, _get_sites(learnt), cohort.regions, patient)


def _get_sites(cohort: Cohort) -> list[str]:
    return [str(site) for site in cohort.people[SITE]]
