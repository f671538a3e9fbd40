"""The finished model: save, load, apply. One file with everything a new table needs, and nothing that runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices import __version__
from rindices.errors import ModelError, did_you_mean, named, reason
from rindices.learners.heads import HEADS, SEVERITIES, ContrastiveHead, SurrealHead
from rindices.model.files import read_arrays, read_metadata, write_file
from rindices.preprocess.harmonise import LEAST, Harmoniser
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import ID, SESSION, Cohort

Floats = NDArray[np.float64]

SCHEMA = 1
CITATION = (
    "Yang Z, Wen J, Davatzikos C. Surreal-GAN: Semi-Supervised Representation Learning via GAN for uncovering "
    "heterogeneous disease-related imaging patterns. ICLR 2022."
)
_FAR = 30.0  # control standard deviations: a table whose typical person is this far off has another scale
_NEEDED = ("kind", "members", "n_patterns", "regions", "covariates", "unit", "orders")


@dataclass(frozen=True)
class Training:
    """What the model saw in training, for checks of new people.

    Attributes
    ----------
    mean : (R,)
        Of all training people, prepared.
    covariance : (R, R)
    """

    mean: Floats
    covariance: Floats


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
    training : Training
    card : dict
        Everything else that is known: unit, source, groups, recipe, seed, agreement, fingerprint, versions, citation.
    selection : dict or None
        How the grid point was chosen; not stored in the file.
    patterns_se : (Q, M, R) or None
        Standard error of ``patterns``, over people or over trainings as ``card["interval_over"]`` says; None for a
        model that does not know it.
    """

    preprocessing: Preprocessing
    heads: tuple[ContrastiveHead | SurrealHead, ...]
    orders: tuple[tuple[int, ...], ...]
    patterns: Floats
    training: Training
    card: Mapping[str, Any]
    selection: Mapping[str, Any] | None = field(default=None, compare=False)
    patterns_se: Floats | None = None

    def __repr__(self) -> str:
        return f"<FittedModel: {self.n_patterns} patterns, {len(self.regions)} regions, {len(self.heads)} members>"

    @property
    def n_patterns(self) -> int:
        """M."""
        return int(self.patterns.shape[1])

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
            ``participant_id``, ``session_id`` where there are sessions, ``r1`` to ``rM``.
        """
        self._check_regions(cohort)
        values = self.preprocessing.transform(cohort)
        self._check_scale(values)
        names = [name for name in (ID, SESSION) if name in cohort.people]
        indices = pd.DataFrame(self.infer(values), columns=[f"r{k + 1}" for k in range(self.n_patterns)])
        return pd.concat([cohort.people[names].reset_index(drop=True), indices], axis=1)

    def with_sites(self, cohort: Cohort, least: int = LEAST) -> Self:
        """Return the model with the effects of sites it has not seen, learnt from their own controls.

        Parameters
        ----------
        cohort : Cohort
            With groups and sites.
        least : int
            Controls that a new site must have; a site with fewer is refused by name.
        """
        self._check_regions(cohort)
        return replace(self, preprocessing=self.preprocessing.with_sites(cohort, least))

    def infer(self, values: Floats) -> Floats:
        """Return the consensus R-indices of prepared people: (N, R) -> (N, M)."""
        aligned = [head.infer(values)[:, list(order)] for head, order in zip(self.heads, self.orders, strict=True)]
        return np.asarray(np.mean(aligned, axis=0))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one ``.safetensors`` file."""
        arrays = dict(self.preprocessing.to_arrays())
        for place, head in enumerate(self.heads):
            arrays |= {f"member{place}.{name}": array for name, array in head.to_arrays().items()}
        arrays |= {"patterns": self.patterns}
        if self.patterns_se is not None:
            arrays |= {"patterns_se": self.patterns_se}
        arrays |= {"training.mean": self.training.mean, "training.covariance": self.training.covariance}
        metadata = dict(self.card) | self.preprocessing.to_dict()
        metadata |= {"schema": SCHEMA, "kind": self.heads[0].kind, "n_patterns": self.n_patterns}
        metadata |= {"members": len(self.heads), "orders": [list(order) for order in self.orders]}
        try:
            write_file(Path(path), arrays, metadata)
        except OSError as error:
            raise ModelError(f"cannot write {path} ({reason(error)}): check the folder.") from error

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model; a damaged, hostile or foreign file is refused with one line."""
        where = Path(path)
        metadata = read_metadata(where)
        schema = metadata.get("schema")
        if type(schema) is not int or schema not in _READERS:
            newer = type(schema) is int and schema > SCHEMA
            cure = "update rindices" if newer else "the file is damaged"
            raise ModelError(f"{where.name} has schema {schema!r}, this is rindices {__version__}: {cure}.")
        parts = _READERS[schema](where, metadata)
        return cls(*parts)

    def _check_regions(self, cohort: Cohort) -> None:
        missing = [name for name in self.regions if name not in cohort.volumes]
        extra = [name for name in cohort.regions if name not in set(self.regions)]
        if missing:
            hint = did_you_mean(missing[0], extra) if extra else f"the model needs {len(self.regions)} regions"
            raise ModelError(f"{len(missing)} regions are missing: {named(missing)} ({hint}).")
        if extra:
            raise ModelError(
                f"{len(extra)} columns are not regions of this model: {named(extra)}. Leave them out: --exclude "
                f"{','.join(extra)}."
            )
        unit = self.card.get("unit")
        if cohort.unit != unit and "unknown" not in (unit, cohort.unit):
            raise ModelError(f"the table is in {cohort.unit}, the model was trained on {unit}: convert the table.")

    def _check_scale(self, values: Floats) -> None:
        off = np.abs(np.median(values, axis=0) - CONTROL_MEAN) / CONTROL_SD
        wrong = np.flatnonzero(off > _FAR)
        if wrong.size:
            names = [f"{self.regions[int(place)]} ({off[place]:.0f} sd)" for place in wrong]
            raise ModelError(
                f"{wrong.size} regions are scaled differently than in training: {named(names)}. Check their unit."
            )


def load(path: str | PathLike[str]) -> FittedModel:
    """Read a model from its file."""
    return FittedModel.load(path)


def _read_schema_1(path: Path, metadata: Mapping[str, Any]) -> tuple[Any, ...]:
    """Read the first schema: preprocessing, members, patterns and training statistics."""
    absent = [name for name in _NEEDED if name not in metadata]
    if absent:
        raise ModelError(f"{path.name}: its metadata lack {', '.join(absent)}; the file is damaged.")
    try:
        sizes = _sizes(metadata)
        kind = HEADS[metadata["kind"]]
        expected = _expected(kind, metadata, *sizes)
        orders = tuple(tuple(int(place) for place in order) for order in metadata["orders"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path.name}: its metadata make no sense ({error!r}); the file is damaged.") from error
    patterns, members = sizes[1], sizes[2]
    if len(orders) != members or any(sorted(order) != list(range(patterns)) for order in orders):
        raise ModelError(f"{path.name}: the order of its patterns makes no sense; the file is damaged.")
    arrays = read_arrays(path, expected)
    heads = tuple(kind.from_arrays(_below(f"member{place}.", arrays)) for place in range(members))
    preprocessing = Preprocessing.from_parts(metadata, arrays)
    training = Training(arrays["training.mean"], arrays["training.covariance"])
    card, errors = _card(metadata), arrays.get("patterns_se")
    return preprocessing, heads, orders, arrays["patterns"], training, card, None, errors


_READERS = {1: _read_schema_1}


def _sizes(metadata: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return regions, patterns and members, each a sane number."""
    regions = metadata["regions"]
    if not isinstance(regions, list) or not all(isinstance(name, str) for name in regions):
        raise ValueError("regions")
    sizes = (len(regions), metadata["n_patterns"], metadata["members"])
    if len(set(regions)) != len(regions) or not all(type(s) is int and 0 < s <= 100_000 for s in sizes):
        raise ValueError("sizes")
    return sizes


def _expected(
    kind: type[ContrastiveHead] | type[SurrealHead],
    metadata: Mapping[str, Any],
    regions: int,
    patterns: int,
    members: int,
) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every array that the file must hold."""
    columns = sum(1 if coding["kind"] == "numeric" else len(coding["levels"]) - 1 for coding in metadata["covariates"])
    shapes: dict[str, tuple[int, ...]] = {
        "residualise.centre": (columns,),
        "residualise.coefficients": (columns, regions),
        "standardise.mean": (regions,),
        "standardise.sd": (regions,),
        "patterns": (len(SEVERITIES), patterns, regions),
        "training.mean": (regions,),
        "training.covariance": (regions, regions),
    }
    if metadata.get("interval_over") is not None:
        shapes["patterns_se"] = shapes["patterns"]
    if metadata.get("harmonise") is not None:  # models without sites, and files older than harmonisation, have none
        shapes |= Harmoniser.shapes(metadata["harmonise"], columns, regions)
    for place in range(members):
        shapes |= {f"member{place}.{name}": shape for name, shape in kind.shapes(regions, patterns).items()}
    return shapes


def _below(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _card(metadata: Mapping[str, Any]) -> dict[str, Any]:
    own = {"regions", "covariates", "harmonise", "schema", "kind", "n_patterns", "members", "orders"}
    return {name: value for name, value in metadata.items() if name not in own}
