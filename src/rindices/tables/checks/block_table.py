"""A table in blocks: what the questions about blocks look at, and what they have found.

Shape letters: N people, R regions, T covariates.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import ProblemCode, format_count, join_names
from rindices.tables.checks.numbers import NO_BLOCK, centre_blocks
from rindices.tables.layouts.sides import pair_sides

SMALLEST_BLOCK = 8
"""Fewest people of a block."""
MIN_PEOPLE = 30
"""Fewest people of a table whose blocks are compared."""
MIN_REGIONS = 5
"""Fewest regions of a table whose blocks are compared."""
MAX_REGIONS = 1_000
"""Most regions that are compared; of wider tables the first ones, with those of the
other side.
"""
_MIN_MEASURED_FRACTION = 0.6  # of the cells of a region
_ROWS_PER_PART = 12
_MEN, _WOMEN = {"m", "male", "man"}, {"f", "female", "woman"}
AGE, SEX, HEAD_SIZE = "age", "sex", "head size"


class BlockKind(StrEnum):
    """What the people of a block have in common."""

    SITE = "site"
    GROUP = "group"
    FILE = "file"
    COLUMN = "column"
    PREFIX = "prefix"
    ROWS = "rows"
    PEOPLE = "people"
    TABLE = "table"


_PHRASES = {
    BlockKind.SITE: "one site",
    BlockKind.FILE: "one file",
    BlockKind.PREFIX: "people with one kind of ID",
    BlockKind.ROWS: "a range of rows",
    BlockKind.PEOPLE: "some people",
    BlockKind.TABLE: "the whole table",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """People who were measured or written down together.

    Attributes
    ----------
    kind : BlockKind
        What they have in common.
    label : str
        Name of the site, group or file, or the first and the last row.
    rows : ndarray of shape (N,)
        Who belongs to the block.
    column : str
        Column that tells the blocks apart, unless it is that of the site or the group.
    """

    kind: BlockKind
    label: str
    rows: BoolArray
    column: str = ""

    @property
    def size(self) -> int:
        """Number of people."""
        return int(self.rows.sum())

    @property
    def phrase(self) -> str:
        """The block in a sentence that may be passed on, so without names of sites and
        people.
        """
        if self.kind is BlockKind.GROUP:
            return f"the {self.label}s"
        return _PHRASES.get(self.kind, f"one value of column '{self.column}'")


@dataclass(frozen=True, eq=False, kw_only=True)
class Division:
    """One way to divide the people of a table into blocks.

    Blocks of fewer than `SMALLEST_BLOCK` people do not count.

    Attributes
    ----------
    kind : BlockKind
        What the people of a block have in common.
    codes : ndarray of shape (N,)
        Number of the block of each person.
    labels : sequence of str
        Name of each block.
    column : str
        Column that tells the blocks apart, unless it is that of the site or the group.
    """

    kind: BlockKind
    codes: IntArray
    labels: Sequence[str]
    column: str = ""

    @property
    def is_given(self) -> bool:
        """Whether a column, a file or an id tells the blocks apart, and not the order
        of the rows alone.
        """
        return self.kind is not BlockKind.ROWS

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Block]:
        for number, label in enumerate(self.labels):
            yield Block(
                kind=self.kind,
                label=label,
                rows=self.codes == number,
                column=self.column,
            )


def divide(kind: BlockKind, labels: pd.Series, column: str = "") -> Division:
    """Return the division of people by a label (N,); people without a label, and small
    blocks, are in none.
    """
    codes, names = pd.factorize(labels.astype("object"))
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    is_block = counts >= SMALLEST_BLOCK
    numbers = np.concatenate(
        [np.where(is_block, np.cumsum(is_block) - 1, NO_BLOCK), [NO_BLOCK]]
    )
    kept = [str(name) for name, keep in zip(names, is_block, strict=True) if keep]
    return Division(
        kind=kind, codes=numbers[codes].astype(np.intp), labels=kept, column=column
    )


def divide_rows(n_people: int) -> list[Division]:
    """Return halves, thirds and quarters of the rows, as far as they are
    large enough.
    """
    divisions = []
    for n_parts in (2, 3, 4):
        if n_people >= _ROWS_PER_PART * n_parts:
            cuts = np.linspace(0, n_people, n_parts + 1).astype(int)
            codes = np.repeat(np.arange(n_parts), np.diff(cuts))
            labels = [
                f"{start + 1} to {stop}" for start, stop in pairwise(cuts.tolist())
            ]
            divisions.append(Division(kind=BlockKind.ROWS, codes=codes, labels=labels))
    return divisions


@dataclass(frozen=True, eq=False, kw_only=True)
class Suspicion:
    """Something that makes a block look wrong.

    Attributes
    ----------
    code : ProblemCode
        Which problem it is.
    block : Block
        The people.
    what : str
        What is wrong, without names of sites and people.
    ending : str
        How much, and what usually causes it.
    statistic : float
        Number that the decision is based on.
    stops : bool
        Whether a study must not go on unless the user says so.
    covariate : str
        Covariate that it is about, if it is about one.
    """

    code: ProblemCode
    block: Block
    what: str
    ending: str
    statistic: float
    stops: bool
    covariate: str = ""


@dataclass(eq=False, kw_only=True)
class BlockTable:
    """A table in blocks.

    What one check finds is corrected or left out, so that the next one sees the rest.
    Sex is coded by two numbers, and head size by its logarithm.

    Attributes
    ----------
    ids : sequence of str
        IDs of the N people.
    regions : sequence of str
        Names of the R regions.
    measures : sequence of str
        What each region measures.
    raw : ndarray of shape (N, R)
        Values as they stand in the table, with NaN for missing ones.
    X : ndarray of shape (N, R)
        Their logarithms, with missing ones at the median.
    covariates : mapping
        Age, sex and head size (N,), where they are known.
    written : mapping
        The covariates before anything was corrected.
    sex_texts : sequence of str or None or None
        Sex as it is written.
    groups : ndarray of shape (N,) or None
        0 for controls, 1 for patients, `NO_BLOCK` for others.
    divisions : sequence of Division
        Ways to divide the people. The site comes first.
    positions : ndarray of shape (N,)
        Row of each person in the file.
    usable : ndarray of shape (N,)
        People who are compared.
    suspicions : list of Suspicion
        What was found so far.
    untested : list of tuple of str and Block
        Covariates and sides of blocks that are too small to be tested.
    smallest_factors : list of float
        Smallest factor that would be found in each block that was compared.
    """

    ids: Sequence[str]
    regions: Sequence[str]
    measures: Sequence[str]
    raw: FloatArray
    X: FloatArray
    covariates: Mapping[str, FloatArray]
    written: Mapping[str, FloatArray]
    sex_texts: Sequence[str | None] | None
    groups: IntArray | None
    divisions: Sequence[Division]
    positions: IntArray
    usable: BoolArray
    suspicions: list[Suspicion] = field(default_factory=list)
    untested: list[tuple[str, Block]] = field(default_factory=list)
    smallest_factors: list[float] = field(default_factory=list)

    @property
    def n_people(self) -> int:
        """N, the number of people."""
        return len(self.X)

    @property
    def given(self) -> list[Division]:
        """The divisions that a column, a file or an id makes."""
        return [division for division in self.divisions if division.is_given]

    @property
    def main(self) -> Division | None:
        """The division within which people are compared: the sites, else the groups."""
        return next(iter(self.given), None)

    @property
    def main_codes(self) -> IntArray:
        """Block (N,) of each person in the main division."""
        return (
            np.full(self.n_people, NO_BLOCK) if self.main is None else self.main.codes
        )

    @property
    def blocks(self) -> list[Block]:
        """All blocks of all divisions."""
        return [block for division in self.divisions for block in division]

    def list_measures(self) -> list[tuple[str, IntArray]]:
        """Return each kind of measure with its regions, if they are enough to be
        compared.
        """
        kinds = [
            (kind, np.flatnonzero(np.array(self.measures) == kind))
            for kind in sorted(set(self.measures))
        ]
        return [
            (kind, columns) for kind, columns in kinds if len(columns) >= MIN_REGIONS
        ]

    def make_rows_block(self, rows: BoolArray) -> Block:
        """Return the block of some rows (N,): a range if nearly all rows between the
        first and the last are in it.
        """
        numbers = np.flatnonzero(rows)
        is_range = len(numbers) > 3 and numbers[-1] - numbers[0] + 1 <= 1.15 * len(
            numbers
        )
        if not is_range:
            return Block(kind=BlockKind.PEOPLE, label="", rows=rows)
        return Block(
            kind=BlockKind.ROWS,
            label=f"{numbers[0] + 1} to {numbers[-1] + 1}",
            rows=rows,
        )

    def suspect(
        self,
        code: ProblemCode,
        block: Block,
        what: str,
        ending: str,
        statistic: float,
        stops: bool,
        covariate: str = "",
    ) -> None:
        """Add what is wrong with a block."""
        suspicion = Suspicion(
            code=code,
            block=block,
            what=what,
            ending=ending,
            statistic=float(statistic),
            stops=stops,
            covariate=covariate,
        )
        self.suspicions.append(suspicion)

    def describe_block(self, block: Block) -> str:
        """Return the name of a block for the user: its label and its people."""
        if block.kind is BlockKind.PEOPLE:
            return block.label or join_names(np.asarray(self.ids)[block.rows].tolist())
        count = format_count(block.size, "person", "people")
        if block.kind is not BlockKind.ROWS:
            return f"{block.label} ({count})"
        rows = np.flatnonzero(block.rows)
        first, last = self.positions[rows[0]] + 1, self.positions[rows[-1]] + 1
        return f"rows {first:,} to {last:,}, {self.ids[rows[0]]} to {self.ids[rows[-1]]} ({count})"


def _read_covariates(
    age: pd.Series | None,
    sex: list[str | None] | None,
    head_size: pd.Series | None,
    sites: Division | None,
) -> dict[str, FloatArray]:
    """Return age, coded sex and the logarithm of head size, as far as anybody has
    them.
    """
    covariates = {}
    if age is not None:
        covariates[AGE] = pd.to_numeric(age, errors="coerce").to_numpy(dtype=float)
    if sex is not None:
        covariates[SEX] = _code_sex(sex, sites)
    if head_size is not None:
        sizes = pd.to_numeric(head_size, errors="coerce").to_numpy(dtype=float)
        covariates[HEAD_SIZE] = np.log(np.where(sizes > 0, sizes, np.nan))
    return {
        name: column for name, column in covariates.items() if np.isfinite(column).any()
    }


def make_block_table(
    *,
    values: pd.DataFrame,
    measures: Sequence[str],
    ids: Sequence[str],
    age: pd.Series | None = None,
    sex: Sequence[str | None] | None = None,
    head_size: pd.Series | None = None,
    groups: IntArray | None = None,
    divisions: Sequence[Division] = (),
    positions: IntArray | None = None,
) -> BlockTable | None:
    """Return a table in blocks, or None if it has too few people or regions with
    positive values.

    Halves, thirds and quarters of the rows are added to the divisions.

    Parameters
    ----------
    values : DataFrame of shape (N, R)
        Regions.
    measures : sequence of str
        What each region measures.
    ids : sequence of str
        IDs of the N people.
    age : Series or None
        Age of each person.
    sex : sequence of str or None or None
        Sex as it is written.
    head_size : Series or None
        Head size of each person.
    groups : ndarray of shape (N,) or None
        0 for controls, 1 for patients, `NO_BLOCK` for others.
    divisions : sequence of Division
        Divisions that are given, the sites first.
    positions : ndarray of shape (N,) or None
        Row of each person in the file.
    """
    raw = values.to_numpy(dtype=float, copy=True)
    with np.errstate(invalid="ignore"):
        raw[~(raw > 0) | ~np.isfinite(raw)] = np.nan
    keep = np.zeros(raw.shape[1], dtype=bool)
    if len(raw):
        keep = np.isfinite(raw).mean(axis=0) > _MIN_MEASURED_FRACTION
    if len(raw) < MIN_PEOPLE or keep.sum() < MIN_REGIONS:
        return None
    if keep.sum() > MAX_REGIONS:
        keep &= _choose_regions(values.columns.tolist())
    raw = raw[:, keep]
    X = np.log(raw)
    is_missing = np.isnan(X)
    if is_missing.any():
        X[is_missing] = np.broadcast_to(np.nanmedian(X, axis=0), X.shape)[is_missing]
    given = [division for division in divisions if len(division) > 1]
    texts = None if sex is None else _normalise_sex(sex)
    known = _read_covariates(age, texts, head_size, given[0] if given else None)
    kept = np.flatnonzero(keep).tolist()
    return BlockTable(
        ids=ids,
        regions=[values.columns[k] for k in kept],
        measures=[measures[k] for k in kept],
        raw=raw,
        X=X,
        covariates=known,
        written=known,
        sex_texts=texts,
        groups=groups,
        divisions=[*given, *divide_rows(len(raw))],
        positions=np.arange(len(raw)) if positions is None else positions,
        usable=np.ones(len(raw), dtype=bool),
    )


def _choose_regions(names: Sequence[str]) -> BoolArray:
    """Return the mask (R,) of the first regions and their partners on the
    other side.
    """
    chosen = np.arange(len(names)) < MAX_REGIONS // 2
    for left, right in pair_sides(names):
        if chosen[left] or chosen[right]:
            chosen[[left, right]] = True
    return np.asarray(chosen)


def _normalise_sex(values: Sequence[str | None]) -> list[str | None]:
    return [
        None if value is None else value.strip().lower().removesuffix(".0")
        for value in values
    ]


def _code_sex(texts: Sequence[str | None], sites: Division | None) -> FloatArray:
    """Return sex (N,) as 0 and 1; where sites code it differently, within each site.

    Unknown codes are NaN.
    """
    known = np.array([text is not None for text in texts])
    cells, codes = np.array(texts, dtype=object), np.full(len(texts), np.nan)

    def fill(rows: BoolArray) -> None:
        levels = sorted(set(cells[rows]))
        if set(levels) <= _MEN | _WOMEN:
            codes[rows] = [float(text in _MEN) for text in cells[rows]]
        elif len(levels) == 2:
            codes[rows] = (cells[rows] == levels[1]).astype(float)

    if len(set(cells[known])) <= 2 or sites is None:
        fill(known)
    else:
        for block in sites:
            fill(known & block.rows)
    return codes


@dataclass(frozen=True, eq=False, kw_only=True)
class CovariateMatrix:
    """Covariates of a table as numbers.

    Attributes
    ----------
    names : list of str
        Names of the T columns.
    values : ndarray of shape (N, T)
        Values, with missing ones at the median.
    is_complete : ndarray of shape (N,)
        People with all covariates.
    """

    names: list[str]
    values: FloatArray
    is_complete: BoolArray

    @classmethod
    def build(cls, table: BlockTable) -> "CovariateMatrix":
        """Return the covariates of a table as they are now."""
        names = list(table.covariates)
        values = (
            np.column_stack([table.covariates[name] for name in names])
            if names
            else np.empty((table.n_people, 0))
        )
        is_known = np.isfinite(values)
        middle = np.nanmedian(values, axis=0) if names else np.empty(0)
        return cls(
            names=names,
            values=np.where(is_known, values, middle),
            is_complete=np.asarray(is_known.all(axis=1)),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AdjustedRegions:
    """Regions without what age, sex and head size explain.

    The slopes are learnt within the main blocks.

    Attributes
    ----------
    between : ndarray of shape (N, R)
        Values in which the blocks still differ.
    within : ndarray of shape (N, R)
        The same less the mean of the main block of each person.
    """

    between: FloatArray
    within: FloatArray

    @classmethod
    def fit(
        cls, table: BlockTable, columns: IntArray, with_groups: bool
    ) -> "AdjustedRegions":
        """Return some regions of a table, adjusted; with_groups: without the difference
        between the groups, too.
        """
        people, covariates = table.usable, CovariateMatrix.build(table)
        design = covariates.values - np.median(covariates.values[people], axis=0)
        if AGE in covariates.names:
            age = design[:, covariates.names.index(AGE)]
            design = np.column_stack(
                [design, np.square(age) / max(float(age.var()) ** 0.5, 1e-9)]
            )
        if with_groups and table.groups is not None:
            design = np.column_stack([design, (table.groups == 1).astype(float)])
        design = design[:, design[people].std(axis=0) > 1e-9]
        codes = np.where(people, table.main_codes, NO_BLOCK)
        X = table.X[:, columns]
        within = centre_blocks(X, codes)
        if not design.shape[1]:
            return cls(between=X - X.mean(axis=0), within=within)
        centred = centre_blocks(design, codes)
        sizes = np.maximum(centred[people].std(axis=0), 1e-9)
        centred, design = centred / sizes, design / sizes
        own = centred[people]
        penalty = 1e-3 * len(own) * np.eye(design.shape[1])
        slopes = np.linalg.solve(own.T @ own + penalty, own.T @ within[people])
        return cls(between=X - design @ slopes, within=within - centred @ slopes)
