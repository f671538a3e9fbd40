"""ComBat: what a site does to volumes, learnt with empirical Bayes and taken out.

A site shifts and scales each region. Both are estimated from the people of the site and drawn towards what the site
does to regions on average (Johnson, Li and Rabinovic 2007; Fortin et al. 2018). The effects of covariates stay in; the
next step of the preprocessing takes them out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import Findings, PreprocessingError, format_count, join_names

HARMONISATION_MODES = ("controls", "all")
SMALL_SITE_SIZE = 20
"""A site with fewer people to learn from is said to have few."""
MIN_SITE_CONTROLS = 10
"""Controls that a site unseen in training must have for its effect to be estimated, unless told otherwise."""
_ARRAY_NAMES = ("mean", "centre", "coefficients", "sd", "shift", "scale")
_TOLERANCE = 1e-4  # relative change at which the iteration of the published algorithm stops
_MAX_ITERATIONS = 1_000


@dataclass(frozen=True)
class Harmoniser:
    """What sites do to volumes.

    Attributes
    ----------
    mode : {'controls', 'all'}
        Whom it was learnt on: controls, or everyone with the diagnosis held apart.
    sites : tuple of str
        The K sites, in order.
    counts : tuple of int
        People that each site's effect was learnt from.
    mean : (R,)
        Volume of an average control, over sites.
    centre : (P,)
        Mean of the design of covariates.
    coefficients : (P, R)
        Change of volume per unit of each design column, which is kept.
    sd : (R,)
        Standard deviation within sites.
    shift, scale : (K, R)
        What each site adds, in units of ``sd``, and what it multiplies the spread by.
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

    @classmethod
    def fit(
        cls,
        volumes: FloatArray,
        design: FloatArray,
        sites: Sequence[str],
        regions: Sequence[str],
        patient: BoolArray | None = None,
    ) -> Self:
        """Learn from people, controls alone or all.

        Parameters
        ----------
        volumes : (N, R)
        design : (N, P)
            Covariates whose effect is kept.
        sites : sequence of str
            (N,) where each person was measured.
        regions : sequence of str
            (R,) their names.
        patient : (N,), optional
            Who is a patient, where all people are given: the difference between patients and controls is kept.
        """
        names, place = np.unique(np.asarray(sites, dtype=str), return_inverse=True)
        counts = np.bincount(place)
        lonely = [str(names[k]) for k in np.flatnonzero(counts < 2)]
        if lonely:
            raise PreprocessingError(
                f"{join_names(lonely)} has one person to learn the site's effect from, and a spread needs two: leave the "
                'site out, join it to another, or set harmonise = "none".'
            )
        kept = design if patient is None else np.column_stack([design, patient])
        member = np.eye(len(names))[place]
        levels, centre, coefficients = _regress_volumes(volumes, member, kept)
        mean = counts @ levels / len(volumes)
        residual = volumes - member @ levels - (kept - centre) @ coefficients
        sd = np.sqrt(np.mean(residual**2, axis=0))
        flat = np.flatnonzero(~(sd > 1e-12 * np.maximum(np.abs(mean), 1e-300)))
        if flat.size:
            which = join_names(regions[int(region)] for region in flat)
            raise PreprocessingError(f"constant within sites: {which}. Leave these regions out (--exclude).")
        standardised = (residual + member @ (levels - mean)) / sd
        found = [estimate_site_effect(standardised[place == k]) for k in range(len(names))]
        shift, scale = (np.stack(part) for part in zip(*found, strict=True))
        if patient is not None:  # from the average person to the average control, and the diagnosis is not asked again
            mean = mean - centre[-1] * coefficients[-1]
            centre, coefficients = centre[:-1], coefficients[:-1]
        mode = "controls" if patient is None else "all"
        labels, sizes = tuple(str(name) for name in names), tuple(int(number) for number in counts)
        return cls(mode, labels, sizes, mean, centre, coefficients, sd, shift, scale)

    def transform(self, volumes: FloatArray, design: FloatArray, sites: Sequence[str]) -> FloatArray:
        """Take the sites' effects out: (N, R), (N, P), (N,) -> (N, R).

        The diagnosis is not asked for, so that a person's numbers never depend on it: what a site does to volumes it
        does to those of patients, too.
        """
        return self.adjust(volumes, design, self.places(sites))

    def places(self, sites: Sequence[str]) -> IntArray:
        """Return the place of each site among the known ones, (N,)."""
        known = {name: k for k, name in enumerate(self.sites)}
        return np.array([known[str(site)] for site in sites], dtype=np.intp)

    def adjust(self, volumes: FloatArray, design: FloatArray, place: IntArray) -> FloatArray:
        """Take the effects of sites by their places (N,) out: (N, R), (N, P) -> (N, R)."""
        expected = self._expected(design)
        standardised = (volumes - expected) / self.sd
        return np.asarray(expected + self.sd * (standardised - self.shift[place]) / self.scale[place])

    def with_sites(
        self, volumes: FloatArray, design: FloatArray, sites: Sequence[str], least: int = MIN_SITE_CONTROLS
    ) -> Self:
        """Learn the effects of further sites from their own controls: (N, R), (N, P), (N,).

        Parameters
        ----------
        least : int
            Controls that a new site must have.
        """
        where = np.asarray(sites, dtype=str)
        new = [name for name in sorted(set(where.tolist())) if name not in self.sites]
        sizes = [int((where == name).sum()) for name in new]
        few = [
            f"{name} ({format_count(n, 'control')})" for name, n in zip(new, sizes, strict=True) if n < max(least, 2)
        ]
        if few:
            raise PreprocessingError(
                f"sites that were not in training have too few controls to learn their effect from: {join_names(few)}. "
                f"At least {max(least, 2)} are needed: add controls, or leave these sites out."
            )
        standardised = (volumes - self._expected(design)) / self.sd
        found = [estimate_site_effect(standardised[where == name]) for name in new]
        return replace(
            self,
            sites=(*self.sites, *new),
            counts=(*self.counts, *sizes),
            shift=np.concatenate([self.shift, *(one[None] for one, _ in found)]),
            scale=np.concatenate([self.scale, *(one[None] for _, one in found)]),
        )

    def review(self, sites: Sequence[str], ids: Sequence[str], findings: Findings) -> None:
        """Report people of unseen sites, and sites that were learnt from few."""
        known = set(self.sites)
        strange = [(name, who) for name, who in zip(sites, ids, strict=True) if name not in known]
        if strange:
            findings.error(
                f"{join_names(sorted({str(name) for name, _ in strange}))} was not among the sites in training: "
                f"{join_names(who for _, who in strange)}",
                "sites",
                f"Known are {join_names(self.sites)}. Give controls of the new site and learn its effect from them "
                "(--new-sites controls), or leave these people out",
            )
        here = {str(name) for name in sites}
        few = [f"{s} ({n})" for s, n in zip(self.sites, self.counts, strict=True) if n < SMALL_SITE_SIZE and s in here]
        if few:
            who = "controls" if self.mode == "controls" else "people"
            what = f"sites whose effect was learnt from fewer than {SMALL_SITE_SIZE} {who}: {join_names(few)}"
            findings.warn(what, "sites", "What is left of their effect can look like disease")

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the learnt numbers."""
        return {f"harmonise.{name}": getattr(self, name) for name in _ARRAY_NAMES}

    def to_dict(self) -> dict[str, Any]:
        """Return everything else as plain values."""
        return {"mode": self.mode, "sites": list(self.sites), "counts": list(self.counts)}

    @staticmethod
    def shapes(values: Mapping[str, Any], columns: int, regions: int) -> dict[str, tuple[int, ...]]:
        """Return the name and shape of each array that goes with the plain values of a file."""
        sites, counts = values["sites"], values["counts"]
        if values["mode"] not in HARMONISATION_MODES or not all(isinstance(name, str) for name in sites):
            raise ValueError("harmonise")
        if not sites or len(set(sites)) != len(sites) or len(counts) != len(sites):
            raise ValueError("sites")
        return {
            "harmonise.mean": (regions,),
            "harmonise.centre": (columns,),
            "harmonise.coefficients": (columns, regions),
            "harmonise.sd": (regions,),
            "harmonise.shift": (len(sites), regions),
            "harmonise.scale": (len(sites), regions),
        }

    @classmethod
    def from_parts(cls, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Self:
        """Build from `to_dict` and `to_arrays`."""
        numbers = {name: arrays[f"harmonise.{name}"] for name in _ARRAY_NAMES}
        counts = tuple(int(number) for number in values["counts"])
        return cls(mode=values["mode"], sites=tuple(values["sites"]), counts=counts, **numbers)

    def _expected(self, design: FloatArray) -> FloatArray:
        """Return the volume (N, R) of a control with these covariates, at no site in particular."""
        return np.asarray(self.mean + (design - self.centre) @ self.coefficients)


def estimate_site_effect(standardised: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a site's shift (R,) and scale (R,) from its people (N, R), drawn towards its average over regions.

    Shifts are normal over regions, variances inverse gamma; the moments of the regions' own estimates tell how wide
    both are. The posterior mean of each depends on the other's, so they are solved in turn.
    """
    number = len(standardised)
    shift_hat, variance_hat = standardised.mean(axis=0), standardised.var(axis=0, ddof=1)
    if standardised.shape[1] < 2:
        return shift_hat, np.sqrt(variance_hat)
    centre, width = shift_hat.mean(), shift_hat.var(ddof=1)
    typical, spread = variance_hat.mean(), variance_hat.var(ddof=1)
    shape, rate = 2 + typical**2 / spread, typical + typical**3 / spread
    shift, variance = shift_hat, variance_hat
    for _ in range(_MAX_ITERATIONS):
        new_shift = (number * width * shift_hat + variance * centre) / (number * width + variance)
        squares = ((standardised - new_shift) ** 2).sum(axis=0)
        new_variance = (rate + squares / 2) / (number / 2 + shape - 1)
        moved = max(_compute_relative_change(new_shift, shift), _compute_relative_change(new_variance, variance))
        shift, variance = new_shift, new_variance
        if moved < _TOLERANCE:
            break
    return shift, np.sqrt(variance)


def _compute_relative_change(new: FloatArray, old: FloatArray) -> float:
    """Return the largest relative change.

    The sign of the old value stays in, as in the published program, so that shifts below 0 do not hold the iteration
    up; the numbers then equal those of other ComBat programs, which stop at the same round.
    """
    safe = np.where(np.abs(old) > 1e-300, old, 1e-300)
    return float(np.max(np.abs(new - old) / safe))


def _regress_volumes(
    volumes: FloatArray, member: FloatArray, kept: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the level of each site (K, R), the centre (P,) and the coefficients (P, R) of what is kept.

    Columns that are constant get the coefficient 0. Sites that cannot be told apart from a covariate or from the
    diagnosis are refused.
    """
    centre = kept.mean(axis=0)
    spread = np.where(np.ptp(kept, axis=0) > 0, kept.std(axis=0), 1.0)
    scaled = (kept - centre) / spread
    rank = np.linalg.matrix_rank(np.column_stack([member, scaled]))
    if rank < member.shape[1] + np.linalg.matrix_rank(scaled):
        raise PreprocessingError(
            "sites cannot be told apart from the diagnosis or a covariate: each site has only one kind of people. "
            'Leave that covariate out, harmonise by controls, or set harmonise = "none".'
        )
    solution = np.linalg.lstsq(np.column_stack([member, scaled]), volumes, rcond=None)[0]
    return solution[: member.shape[1]], centre, solution[member.shape[1] :] / spread[:, None]
