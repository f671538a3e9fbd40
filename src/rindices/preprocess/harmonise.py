"""Remove site effects from volumes with ComBat.

A site shifts and scales each region. Both effects are estimated from the people of the
site and shrunk, by empirical Bayes, towards the site's average over regions (Johnson,
Li and Rabinovic 2007; Fortin et al. 2018). The effects of covariates are preserved; the
next step of the preprocessing removes them.

Shape letters: N people, R regions, P columns of the design, K sites.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import (
    Findings,
    OffenderKind,
    PreprocessingError,
    ProblemCode,
    did_you_mean,
    format_count,
    join_names,
)
from rindices.preprocess.standardise import refuse_constant_regions
from rindices.tables.cohort import SITE, Cohort

HARMONISATION_MODES = ("controls", "all")
SMALL_SITE_SIZE = 20
"""A site whose effect was estimated from fewer people gets a warning."""
MIN_SITE_CONTROLS = 10
"""Default number of controls that a site unseen in training needs for its effect to be
estimated.
"""
_ARRAY_NAMES = ("mean", "centre", "coefficients", "sd", "shift", "scale")
_TOLERANCE = 1e-4  # relative change at which the published algorithm stops
_MAX_ITERATIONS = 1_000


@dataclass(frozen=True, kw_only=True)
class Harmoniser:
    """Site effects on volumes.

    Attributes
    ----------
    mode : str
        Whether the effects were estimated from controls, or from everyone with the
        diagnosis as a covariate.
    sites : tuple of str
        Names of the K sites.
    counts : tuple of int
        Number of people that each site's effect was estimated from.
    mean : ndarray of shape (R,)
        Volumes of an average control, over sites.
    centre : ndarray of shape (P,)
        Mean of the design.
    coefficients : ndarray of shape (P, R)
        Change of volume per unit of each design column. This effect is preserved.
    sd : ndarray of shape (R,)
        Standard deviation within sites.
    shift, scale : ndarray of shape (K, R)
        Additive effect of each site, in units of ``sd``, and its multiplicative
        effect on the spread.
    reference : str or None
        Site whose scale is kept. By default, the scale is that of an average site.
    """

    mode: str
    sites: tuple[str, ...]
    counts: tuple[int, ...]
    mean: FloatArray
    centre: FloatArray
    coefficients: FloatArray
    sd: FloatArray
    shift: FloatArray
    scale: FloatArray
    reference: str | None = None

    @classmethod
    def fit(
        cls,
        volumes: FloatArray,
        design: FloatArray,
        sites: Sequence[str],
        regions: Sequence[str],
        patient: BoolArray | None = None,
        reference: str | None = None,
    ) -> Self:
        """Estimate the effects of sites.

        Parameters
        ----------
        volumes : (N, R)
        design : (N, P)
            Covariates whose effect is preserved.
        sites : sequence of str
            (N,) site of each person.
        regions : sequence of str
            (R,) names of the regions, for error messages.
        patient : (N,), optional
            Mask of the patients, if people of both groups are passed. The group
            difference is then preserved too.
        reference : str, optional
            Site whose people keep their values.
        """
        unique, site_index, counts = np.unique(
            np.asarray(sites, dtype=str), return_inverse=True, return_counts=True
        )
        names = tuple(unique.tolist())
        single = [name for name, count in zip(names, counts, strict=True) if count < 2]
        if single:
            noun = "control" if patient is None else "person"
            what = f"{join_names(single)} has one {noun}, and the effect of a site needs two"
            cure = "join it to another site, or use no sites (--site none)"
            raise PreprocessingError(
                f"{what}: leave it out (--leave-out-site {','.join(single)}), {cure}."
            )
        preserved = design if patient is None else np.column_stack([design, patient])
        indicators = np.eye(len(names))[site_index]
        levels, centre, coefficients = _regress_volumes(volumes, indicators, preserved)
        squares = (
            indicators.T
            @ (volumes - indicators @ levels - (preserved - centre) @ coefficients) ** 2
        )
        mode = "controls" if patient is None else "all"
        sizes = dict(zip(names, counts.tolist(), strict=True))
        effects = centre, coefficients
        fitted = cls.from_moments(
            sizes, levels, squares, effects, regions, mode=mode, reference=reference
        )
        if patient is None:
            return fitted
        # the reference becomes the average control, and transform needs no diagnosis
        mean = fitted.mean - centre[-1] * coefficients[-1]
        return replace(
            fitted, mean=mean, centre=centre[:-1], coefficients=coefficients[:-1]
        )

    @classmethod
    def from_moments(
        cls,
        sites: Mapping[str, int],
        levels: FloatArray,
        squares: FloatArray,
        effects: tuple[FloatArray, FloatArray],
        regions: Sequence[str],
        *,
        mode: str = "controls",
        reference: str | None = None,
    ) -> Self:
        """Estimate the effects of sites from sums over their people.

        Parameters
        ----------
        sites : mapping
            Number of people by site.
        levels : ndarray of shape (K, R)
            Volumes of each site at the mean of the design.
        squares : ndarray of shape (K, R)
            Sums of squared residuals.
        effects : tuple of ndarray
            Mean (P,) of the design and coefficients (P, R).
        mode : {'controls', 'all'}
        reference : str, optional
            Site whose level and spread all sites get.
        """
        counts = np.array(list(sites.values()))
        used = np.array([reference in (None, name) for name in sites])
        mean = counts[used] @ levels[used] / counts[used].sum()
        total = np.maximum(squares[used].sum(axis=0), 0.0)
        sd = np.sqrt(total / counts[used].sum())
        refuse_constant_regions(mean, sd, regions, "constant within sites")
        shrunk = [
            shrink_site_effect(number, (level - mean) / sd, each / sd**2 / (number - 1))
            for number, level, each in zip(sites.values(), levels, squares, strict=True)
        ]
        shift, scale = (np.stack(arrays) for arrays in zip(*shrunk, strict=True))
        if reference is not None:
            shift[used], scale[used] = 0.0, 1.0
        centre, coefficients = effects
        return cls(
            mode=mode,
            sites=tuple(sites),
            counts=tuple(sites.values()),
            mean=mean,
            centre=centre,
            coefficients=coefficients,
            sd=sd,
            shift=shift,
            scale=scale,
            reference=reference,
        )

    def transform(
        self, volumes: FloatArray, design: FloatArray, sites: Sequence[str]
    ) -> FloatArray:
        """Remove the effects of sites.

        The diagnosis is not an argument, so that a person's values never depend on it.
        The site effect of patients is assumed to be that of controls.

        Parameters
        ----------
        volumes : ndarray of shape (N, R)
        design : ndarray of shape (N, P)
        sites : sequence of str
            (N,) site of each person, all among `sites` of the harmoniser.

        Returns
        -------
        ndarray of shape (N, R)
        """
        return self.adjust(volumes, design, self.encode_sites(sites))

    def encode_sites(self, sites: Sequence[str]) -> IntArray:
        """Return the position (N,) of each person's site in `sites`."""
        positions = {name: k for k, name in enumerate(self.sites)}
        return np.array([positions[str(site)] for site in sites], dtype=np.intp)

    def adjust(
        self, volumes: FloatArray, design: FloatArray, site_index: IntArray
    ) -> FloatArray:
        """Remove the effects of sites, given as positions: (N, R), (N, P), (N,) -> (N,
        R).
        """
        expected = self._predict(design)
        standardised = (volumes - expected) / self.sd
        return np.asarray(
            expected
            + self.sd * (standardised - self.shift[site_index]) / self.scale[site_index]
        )

    def with_sites(
        self,
        volumes: FloatArray,
        design: FloatArray,
        sites: Sequence[str],
        min_controls: int = MIN_SITE_CONTROLS,
    ) -> Self:
        """Add sites, each with an effect estimated from its controls.

        Parameters
        ----------
        volumes : ndarray of shape (N, R)
            Volumes of controls.
        design : ndarray of shape (N, P)
        sites : sequence of str
            (N,) site of each control. Sites of the harmoniser are left as they are.
        min_controls : int
            Controls that a new site must have. A site with fewer is refused by
            name.
        """
        site_names = np.asarray(sites, dtype=str)
        new = sorted(set(site_names.tolist()) - set(self.sites))
        counts = [int((site_names == name).sum()) for name in new]
        required = max(min_controls, 2)
        small = [
            f"{name} ({format_count(n, 'control')})"
            for name, n in zip(new, counts, strict=True)
            if n < required
        ]
        if small:
            what = f"sites that were not in training have too few controls to estimate their effect: {join_names(small)}"
            cure = f"At least {required} are needed: add controls, or leave these sites out"
            raise PreprocessingError(f"{what}. {cure}.")
        standardised = (volumes - self._predict(design)) / self.sd
        by_site = [standardised[site_names == name] for name in new]
        effects = [
            shrink_site_effect(len(each), each.mean(axis=0), each.var(axis=0, ddof=1))
            for each in by_site
        ]
        return replace(
            self,
            sites=(*self.sites, *new),
            counts=(*self.counts, *counts),
            shift=np.vstack([self.shift, *(shift for shift, _ in effects)]),
            scale=np.vstack([self.scale, *(scale for _, scale in effects)]),
        )

    def review(
        self, sites: Sequence[str], ids: Sequence[str], findings: Findings
    ) -> None:
        """Report people of sites that were not in training, and sites whose effect
        comes from few people.
        """
        findings = findings.at("sites")
        trained = set(self.sites)
        unseen = [
            (site, person)
            for site, person in zip(sites, ids, strict=True)
            if site not in trained
        ]
        if unseen:
            names = join_names(sorted({str(site) for site, _ in unseen}))
            known = f"Known are {join_names(self.sites)}. " if self.sites else ""
            cure = (
                f"{known}Give controls of the new site and estimate its effect from them (--new-sites controls), or "
                "leave these people out"
            )
            what, offenders = (
                f"{names} was not among the sites in training",
                [person for _, person in unseen],
            )
            findings.error(ProblemCode.UNKNOWN_SITE, what, cure, offenders=offenders)
        present = {str(site) for site in sites}
        counts = zip(self.sites, self.counts, strict=True)
        small = {
            name: f"{name} ({count})"
            for name, count in counts
            if count < SMALL_SITE_SIZE and name in present
        }
        if small:
            people = "controls" if self.mode == "controls" else "people"
            what = f"sites whose effect was estimated from fewer than {SMALL_SITE_SIZE} {people}"
            cure, kind = (
                "What is left of their effect can look like disease",
                OffenderKind.SITE,
            )
            listing = join_names(small.values())
            findings.warn(
                ProblemCode.SMALL_SITES,
                what,
                cure,
                offenders=small,
                offender_kind=kind,
                listing=listing,
            )

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the estimated arrays by name."""
        return {f"harmonise.{name}": getattr(self, name) for name in _ARRAY_NAMES}

    def to_dict(self) -> dict[str, Any]:
        """Return everything else as plain values for JSON."""
        record = {
            "mode": self.mode,
            "sites": list(self.sites),
            "counts": list(self.counts),
        }
        return record | (
            {} if self.reference is None else {"reference": self.reference}
        )

    @staticmethod
    def shapes(
        n_sites: int, n_columns: int, n_regions: int
    ) -> dict[str, tuple[int, ...]]:
        """Return the name and shape of each array."""
        of_regions, of_design, of_sites = (
            (n_regions,),
            (n_columns, n_regions),
            (n_sites, n_regions),
        )
        shapes = (of_regions, (n_columns,), of_design, of_regions, of_sites, of_sites)
        return {
            f"harmonise.{name}": shape
            for name, shape in zip(_ARRAY_NAMES, shapes, strict=True)
        }

    @classmethod
    def from_parts(
        cls, record: Mapping[str, Any], arrays: Mapping[str, FloatArray]
    ) -> Self:
        """Build from the results of `to_dict` and `to_arrays`."""
        estimates = {name: arrays[f"harmonise.{name}"] for name in _ARRAY_NAMES}
        counts = tuple(int(count) for count in record["counts"])
        return cls(
            mode=record["mode"],
            sites=tuple(record["sites"]),
            counts=counts,
            reference=record.get("reference"),
            **estimates,
        )

    def _predict(self, design: FloatArray) -> FloatArray:
        """Return the volumes (N, R) of controls with these covariates at an average
        site.
        """
        return np.asarray(self.mean + (design - self.centre) @ self.coefficients)


def shrink_site_effect(
    n_people: int, shift_hat: FloatArray, variance_hat: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Shrink the mean and the variance of the people of a site towards the site's
    average over regions.

    The prior over regions is normal for the shift and inverse gamma for the variance;
    its parameters are the moments of the estimates per region. The posterior means
    depend on each other and are solved in turn.

    Parameters
    ----------
    shift_hat, variance_hat : ndarray of shape (R,)
        Mean and variance (N - 1) of standardised people.

    Returns
    -------
    tuple of ndarray
        Shift, scale (R,).
    """
    if len(shift_hat) < 2:
        return shift_hat, np.sqrt(variance_hat)
    shift_mean, shift_variance = shift_hat.mean(), shift_hat.var(ddof=1)
    mean, spread = variance_hat.mean(), variance_hat.var(ddof=1)
    shape, rate = 2 + mean**2 / spread, mean + mean**3 / spread
    shift, variance = shift_hat, variance_hat
    for _ in range(_MAX_ITERATIONS):
        weight = n_people * shift_variance
        new_shift = (weight * shift_hat + variance * shift_mean) / (weight + variance)
        squares = (n_people - 1) * variance_hat + n_people * (
            shift_hat - new_shift
        ) ** 2
        new_variance = (rate + squares / 2) / (n_people / 2 + shape - 1)
        change = max(
            _compute_relative_change(new_shift, shift),
            _compute_relative_change(new_variance, variance),
        )
        shift, variance = new_shift, new_variance
        if change < _TOLERANCE:
            break
    return shift, np.sqrt(variance)


def _compute_relative_change(new: FloatArray, old: FloatArray) -> float:
    """Return the largest change relative to the signed old value.

    The sign is part of the published program: negative shifts do not delay its end.
    Keeping it gives the same number of iterations, and so the same values, as other
    ComBat programs.
    """
    divisor = np.where(np.abs(old) > 1e-300, old, 1e-300)
    return float(np.max(np.abs(new - old) / divisor))


def _regress_volumes(
    volumes: FloatArray, indicators: FloatArray, preserved: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Regress volumes on site indicators (N, K) and preserved columns (N, P).

    Returns the level of each site (K, R), the centre (P,) and the coefficients (P, R)
    of the preserved columns. A constant column gets the coefficient 0. Sites that are
    collinear with the preserved columns are refused.
    """
    centre = preserved.mean(axis=0)
    spread = np.where(np.ptp(preserved, axis=0) > 0, preserved.std(axis=0), 1.0)
    scaled = (preserved - centre) / spread
    design, n_sites = np.column_stack([indicators, scaled]), indicators.shape[1]
    if np.linalg.matrix_rank(design) < n_sites + np.linalg.matrix_rank(scaled):
        what = "sites cannot be told apart from the diagnosis or a covariate: each site has only one kind of people"
        cure = (
            'Leave that covariate out, harmonise by controls, or set harmonise = "none"'
        )
        raise PreprocessingError(f"{what}. {cure}.")
    solution = np.linalg.lstsq(design, volumes, rcond=None)[0]
    return solution[:n_sites], centre, solution[n_sites:] / spread[:, None]


def resolve_harmonise_mode(cohort: Cohort, requested: str | None = None) -> str:
    """Return whose volumes site effects are estimated from: ``controls``, ``all``, or
    ``none`` for no harmonisation.
    """
    if requested not in (None, "none", *HARMONISATION_MODES):
        suggestion = did_you_mean(str(requested), [*HARMONISATION_MODES, "none"])
        raise PreprocessingError(
            f"harmonise = '{requested}' is not known: {suggestion}"
        )
    if requested == "none":
        return "none"
    has_sites = SITE in cohort.people
    duplicates = []
    if has_sites:
        sites, covariates = (
            cohort.people[SITE].astype(str).to_numpy(),
            cohort.covariates.astype(str),
        )
        duplicates = [
            name for name in covariates if (covariates[name].to_numpy() == sites).all()
        ]
    if requested is None:
        return "controls" if has_sites and not duplicates else "none"
    if not has_sites:
        raise PreprocessingError(
            f'harmonise = "{requested}" needs the site of each person: name its column (--site).'
        )
    if duplicates:
        cure = 'take it out of the covariates, or set harmonise = "none"'
        raise PreprocessingError(
            f"{join_names(duplicates)} is the site and a covariate as well: {cure}."
        )
    return requested


def check_reference_site(
    cohort: Cohort, harmonise: str | None, reference: str | None
) -> None:
    """Refuse to keep the scale of a site where sites are not harmonised, or of a site
    that there is not.
    """
    if reference is None:
        return
    if resolve_harmonise_mode(cohort, harmonise) == "none":
        raise PreprocessingError(
            f"harmonise_to = '{reference}' keeps the scale of a site, but sites are not harmonised here: name the "
            "column of sites (--site), and leave out --harmonise none."
        )
    sites = sorted({str(site) for site in cohort.people[SITE]})
    if reference not in sites:
        raise PreprocessingError(
            f"harmonise_to = '{reference}' is no site of this table: {did_you_mean(reference, sites)}"
        )
