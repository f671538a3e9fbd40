"""Normal variation of a reference population: correlations of regions, without people.

A reference is learnt once from a table of healthy people (``rindices reference``), kept
as a small file and passed on. It holds the correlations of the regions after adjustment
for covariates and sites, and how many people and sites they are of.
`rindices.learners.normal_variation` says what a study does with it.

Shape letters: N people, R regions, P columns of the design.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import as_file, files
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.errors import ModelError, format_count, join_names, make_damage_error
from rindices.model.file import Adjustment, Count, Name, Names, parse_metadata
from rindices.model.records import Record
from rindices.model.safetensors_io import read_arrays, read_metadata, write_safetensors
from rindices.one_line import ShownInOneLine
from rindices.preprocess.measures import (
    DEFAULT_ICV_FOR,
    find_thickness,
    resolve_adjustment,
)
from rindices.preprocess.residualise import (
    build_design_matrix,
    derive_codings,
    find_head_size_columns,
)
from rindices.tables.cohort import SITE, Cohort
from rindices.tables.layouts.muse import region_name

MUSE_REFERENCE = "muse"
"""Name of the reference that comes with the package."""
_MUSE_PEOPLE = 250  # of the IXI data set, see data/README.md
_SCHEMA = 1
_MIN_PEOPLE = 20
_FACTS = ("regions", "people", "sites", "name", "adjust", "covariates")


class ReferenceMetadata(Record):
    """Metadata of a file with the correlations of a reference population, see
    `NormalReference`.

    Attributes
    ----------
    regions : Names
    people : Count
    sites : Count
    name : str
    adjust : Adjustment
    covariates : list of Name
    """

    regions: Names
    people: Count
    sites: Count
    name: str
    adjust: Adjustment
    covariates: list[Name]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NormalReference(ShownInOneLine):
    """Correlations of regions in a reference population of healthy people.

    Attributes
    ----------
    regions : tuple of str
        Names of the R regions.
    correlation : (R, R)
        Correlations of adjusted measures within sites.
    people, sites : int
        How many people and sites they are of.
    name : str
        Of the table, without its folder.
    adjust : {'log', 'linear', 'none'}
        Scale on which the measures were adjusted.
    covariates : tuple of str
        What they were adjusted for.

    Examples
    --------
    >>> reference = NormalReference.fit(cohort)     # doctest: +SKIP
    >>> reference.save("healthy.safetensors")       # doctest: +SKIP
    """

    regions: tuple[str, ...]
    correlation: FloatArray
    people: int
    sites: int = 1
    name: str = ""
    adjust: str = "log"
    covariates: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        cohort: Cohort,
        name: str = "",
        adjust: str | None = None,
        icv_for: str = DEFAULT_ICV_FOR,
    ) -> Self:
        """Learn the correlations of healthy people.

        Parameters
        ----------
        cohort : Cohort
            Its controls are used, or everyone if it has no groups. If it has sites,
            their means are removed.
        name : str
            Name of the reference, for model files and reports.
        adjust : {'log', 'linear', 'none'}, optional
            Scale of the adjustment. By default, as in `rindices.Preprocessing.fit`.
        icv_for : {'volume', 'all'}
            Regions that are adjusted for head size, as in `rindices.Preprocessing.fit`.

        Returns
        -------
        NormalReference
            The reference.

        Raises
        ------
        ModelError
            If there are too few people, or a region is constant.
        """
        healthy = cohort.take(cohort.is_control) if cohort.n_controls else cohort
        adjust = resolve_adjustment(healthy, adjust)
        covariates = (
            healthy.covariates.iloc[:, :0] if adjust == "none" else healthy.covariates
        )
        codings = derive_codings(covariates, adjust == "log")
        design = build_design_matrix(codings, covariates)
        sites = np.zeros(len(healthy), dtype=int)
        if SITE in healthy.people:
            sites = pd.factorize(healthy.people[SITE])[0]
        n_sites = int(sites.max(initial=0)) + 1
        n_free = len(healthy) - n_sites - design.shape[1]
        if n_free < _MIN_PEOPLE:
            people = f"{format_count(len(healthy), 'person', 'people')} of {format_count(n_sites, 'site')}"
            needed = f"at least {_MIN_PEOPLE} more than sites and covariates are needed"
            raise ModelError(f"{people} are too few for a reference: {needed}.")
        volumes = healthy.volumes.to_numpy(dtype=float)
        volumes = np.log(volumes) if adjust == "log" else volumes
        residuals = _remove_effects(volumes, design, sites)
        thickness = find_thickness(healthy, icv_for)
        if thickness is not None:
            others = ~find_head_size_columns(codings)
            residuals[:, thickness] = _remove_effects(
                volumes[:, thickness], design[:, others], sites
            )
        spread = residuals.std(axis=0)
        _refuse_constant_regions(healthy.regions, spread)
        residuals /= spread
        correlation = residuals.T @ residuals / len(residuals)
        return cls(
            regions=healthy.regions,
            correlation=correlation,
            people=len(healthy),
            sites=n_sites,
            name=name,
            adjust=adjust,
            covariates=tuple(covariates.columns),
        )

    def select(self, regions: Sequence[str]) -> FloatArray:
        """Return the correlations of some regions, in their order.

        Parameters
        ----------
        regions : sequence of str
            Names of K regions.

        Returns
        -------
        ndarray of shape (K, K)
            Their correlations.

        Raises
        ------
        ModelError
            If the reference lacks a region.
        """
        position = {region: index for index, region in enumerate(self.regions)}
        missing = [region for region in regions if region not in position]
        if missing:
            what = f"the reference {self.name} lacks {format_count(len(missing), 'region')} of the study"
            cure = "Leave them out (--exclude), or give a reference of the same program and atlas"
            raise ModelError(f"{what}: {join_names(missing)}. {cure}.")
        rows = [position[region] for region in regions]
        return self.correlation[np.ix_(rows, rows)]

    @property
    def digest(self) -> str:
        """Short digest of the correlations and their regions."""
        content = (
            "\n".join(self.regions).encode()
            + np.ascontiguousarray(self.correlation).tobytes()
        )
        return sha256(content).hexdigest()[:16]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the reference to one ``.safetensors`` file.

        Parameters
        ----------
        path : path
            The file to write.
        """
        facts = {each: getattr(self, each) for each in _FACTS}
        metadata = {"kind": "reference", "schema": _SCHEMA, **facts}
        write_safetensors(
            Path(path), {"correlation.covariance": self.correlation}, metadata
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a reference that `save` wrote; a damaged file is an error that names the
        fault.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        NormalReference
            The reference.
        """
        path = Path(path)
        content = read_metadata(path)
        if content.get("kind") != "reference":
            raise ModelError(
                f"{path.name} is a model, not a reference: make one with rindices reference."
            )
        metadata = parse_metadata(path, content, ReferenceMetadata)
        number = len(metadata.regions)
        arrays = read_arrays(path, {"correlation.covariance": (number, number)})
        correlation = np.asarray(arrays["correlation.covariance"], dtype=float)
        if not np.allclose(np.diag(correlation), 1.0, atol=1e-6):
            raise make_damage_error(
                path.name, "the diagonal of its correlations is not 1"
            )
        facts = {each: getattr(metadata, each) for each in _FACTS}
        facts |= {
            "regions": tuple(metadata.regions),
            "covariates": tuple(metadata.covariates),
        }
        return cls(correlation=correlation, **facts)


def _refuse_constant_regions(regions: Sequence[str], spread: FloatArray) -> None:
    """Refuse regions that do not vary among people."""
    pairs = zip(regions, spread, strict=True)
    constant = [region for region, sd in pairs if sd <= 1e-12]
    if constant:
        raise ModelError(
            f"constant in the reference: {join_names(constant)}. Leave these regions out (--exclude)."
        )


def _remove_effects(
    values: FloatArray, design: FloatArray, sites: IntArray
) -> FloatArray:
    """Return values (N, R) without the means of sites (N,) and the linear effects of a
    design (N, P).
    """
    columns, sizes = np.column_stack([values, design]), np.bincount(sites)
    sums = np.zeros((len(sizes), columns.shape[1]))
    np.add.at(sums, sites, columns)
    values, design = np.split(
        columns - (sums / sizes[:, None])[sites], [values.shape[1]], axis=1
    )
    return np.asarray(values - design @ np.linalg.lstsq(design, values, rcond=None)[0])


@cache
def load_muse_figures() -> dict[str, FloatArray]:
    """Return the summary figures of healthy people with MUSE regions that come with the
    package.

    Returns ``codes`` (R,), ``coefficients`` (4, R), ``sd`` (R,), ``correlation`` (R,
    R), ``age``, ``male``, ``icv``.
    """
    with (
        as_file(files("rindices.model") / "data" / "reference_muse.npz") as path,
        np.load(path) as stored,
    ):
        values = {name: stored[name] for name in stored.files}
    number = len(values["codes"])
    lower = np.zeros((number, number))
    lower[np.tril_indices(number, -1)] = values["correlation"]
    return values | {"correlation": lower + lower.T + np.eye(number)}


def load_muse_reference() -> NormalReference:
    """Return the reference for MUSE regions that comes with the package."""
    figures = load_muse_figures()
    regions = tuple(region_name(int(code)) for code in figures["codes"])
    covariates = ("age", "sex", "icv")
    return NormalReference(
        regions=regions,
        correlation=figures["correlation"],
        people=_MUSE_PEOPLE,
        sites=1,
        name=MUSE_REFERENCE,
        adjust="log",
        covariates=covariates,
    )


def load_reference_file(source: str | PathLike[str]) -> NormalReference:
    """Return the reference of a file that `NormalReference.save` wrote, or the one of
    the package for ``muse``.
    """
    return (
        load_muse_reference()
        if str(source) == MUSE_REFERENCE
        else NormalReference.load(source)
    )
