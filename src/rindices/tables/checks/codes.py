"""Codes and units of covariates that differ between blocks: sex, age in months, head
size, one value filled down.
"""

from collections import defaultdict

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import ProblemCode
from rindices.tables.checks.block_table import (
    AGE,
    HEAD_SIZE,
    SEX,
    Block,
    BlockKind,
    BlockTable,
)
from rindices.tables.checks.numbers import MAD_SCALE, find_longest_run

MONTHS_LIMIT, DAYS_LIMIT = 110.0, 2000.0
"""Median ages above which ages are in months or in days."""
HEAD_SD, HEAD_LIMIT = 0.06, 5.5
"""Standard deviation of the median log head size between sites; standard deviations
that are too far.
"""
_PERSON_HEAD_SD, _MAX_HEAD_SD = 0.13, 0.12
_FILLED_LEAST, _FILLED_CHANCE = 5, 1e-8
_UNITS = (
    (10.0, "cm instead of mm"),
    (100.0, "another unit"),
    (1000.0, "ml instead of mm3"),
    (1e6, "litres"),
)
_VOXELS = (
    (1.5**3, "voxels of 1.5 mm"),
    (1.2**3, "voxels of 1.2 mm"),
    (2.0**3, "voxels of 2 mm"),
)


def name_factor(factor: float, measure: str) -> str:
    """Return what usually multiplies the values of a block by a factor."""
    size = max(factor, 1 / factor)
    for value, why in _UNITS:
        if abs(np.log(size / value)) < 0.12:
            return why
    if measure == "volume":
        for value, why in _VOXELS:
            if abs(np.log(size / value)) < 0.06:
                return f"{why} instead of mm3"
        return "another unit, values divided by head size, or another program"
    return "another unit, another program, or values that were rescaled"


def name_measure(measure: str) -> str:
    """Return the plural of what regions measure."""
    return {"thickness": "thicknesses"}.get(measure, f"{measure}s")


def check_codes(table: BlockTable) -> None:
    """Find blocks whose sex is coded otherwise, values that were filled down, and other
    units of age and head size.
    """
    for name in (AGE, HEAD_SIZE):
        if (
            name in table.covariates
            and len(np.unique(_known(table.covariates[name]))) >= _FILLED_LEAST
        ):
            _check_filled_blocks(table, name)
            _check_filled_run(table, name)
    _check_sex_codes(table)
    _check_age_unit(table)
    _check_head_unit(table)


def _known(values: FloatArray) -> FloatArray:
    return np.asarray(values[np.isfinite(values)])


def _check_filled_blocks(table: BlockTable, name: str) -> None:
    for division in table.given:
        for block in division:
            values = _known(table.covariates[name][block.rows])
            if len(values) >= 10 and np.ptp(values) < 1e-9:
                what = f"all people of {block.phrase} have the same {name}"
                ending = "; one value was filled down"
                table.suspect(
                    ProblemCode.SUSPECT_COVARIATE, block, what, ending, 1.0, True, name
                )


def _check_filled_run(table: BlockTable, name: str) -> None:
    """Find one value in more rows in succession than by chance."""
    values = table.covariates[name]
    steps = np.diff(_known(values))
    if not len(steps) or (steps >= 0).mean() > 0.9 or (steps <= 0).mean() > 0.9:
        return  # a sorted column has equal neighbours
    is_same = np.concatenate([[False], np.diff(values) == 0])
    start, stop = find_longest_run(is_same)
    length = stop - start
    others = np.concatenate([is_same[:start], is_same[stop:]])
    value = values[start]
    if not np.isfinite(value):
        return
    usual = 0.4 if name == AGE and value == round(value) else 0.05
    chance = max((others.sum() + 1) / (len(others) + 1), usual)
    if length >= _FILLED_LEAST and length * np.log(chance) + np.log(
        len(values)
    ) < np.log(_FILLED_CHANCE):
        rows = np.zeros(len(values), dtype=bool)
        rows[start - 1 : stop] = True
        block = table.make_rows_block(rows)
        what = f"{block.phrase} have the same {name}"
        ending = f"; {length + 1} rows in succession: one value was filled down"
        table.suspect(
            ProblemCode.SUSPECT_COVARIATE,
            block,
            what,
            ending,
            float(length),
            True,
            name,
        )


def _check_sex_codes(table: BlockTable) -> None:
    """Find blocks in which sex has other codes than elsewhere."""
    if table.sex_texts is None:
        return
    cells = np.array(table.sex_texts, dtype=object)
    is_known = np.array([text is not None for text in table.sex_texts])
    if len(set(cells[is_known])) <= 2:
        return
    for division in table.given:
        blocks_by_codes: dict[tuple[str, ...], list[Block]] = defaultdict(list)
        for block in division:
            codes = tuple(sorted(set(cells[block.rows & is_known])))
            if len(codes) == 2:
                blocks_by_codes[codes].append(block)
        if len(blocks_by_codes) < 2:
            continue
        usual = max(
            blocks_by_codes,
            key=lambda codes: sum(block.size for block in blocks_by_codes[codes]),
        )
        for codes, blocks in blocks_by_codes.items():
            for block in blocks if codes != usual else ():
                what = f"sex is coded {' and '.join(codes)} in {block.phrase} and {' and '.join(usual)} elsewhere"
                ending = (
                    "; the same code means different things"
                    if set(codes) & set(usual)
                    else ""
                )
                table.suspect(
                    ProblemCode.SUSPECT_CODES,
                    block,
                    what,
                    ending,
                    float(len(codes)),
                    True,
                    SEX,
                )
        return


def _check_age_unit(table: BlockTable) -> None:
    """Find ages in months or days, and go on with years."""
    if AGE not in table.covariates:
        return
    ages = table.covariates[AGE].copy()
    whole = Block(
        kind=BlockKind.TABLE,
        label="the table",
        rows=np.ones(table.n_people, dtype=bool),
    )
    for block in table.main or (whole,):
        middle = (
            float(np.median(_known(ages[block.rows])))
            if len(_known(ages[block.rows]))
            else 0.0
        )
        if middle > MONTHS_LIMIT:
            unit, per_year = (
                ("days", 365.25) if middle > DAYS_LIMIT else ("months", 12.0)
            )
            what = f"ages of {block.phrase} are in {unit}"
            ending = f"; the median is {middle:.0f}"
            table.suspect(
                ProblemCode.SUSPECT_UNITS, block, what, ending, middle, True, AGE
            )
            ages[block.rows] /= per_year
    table.covariates = {**table.covariates, AGE: ages}


def _check_head_unit(table: BlockTable) -> None:
    """Find blocks whose heads are of another size, and go on with the size of the
    others.
    """
    if HEAD_SIZE not in table.covariates or table.main is None or len(table.main) < 2:
        return
    sizes, blocks = table.covariates[HEAD_SIZE].copy(), list(table.main)
    known = [_known(sizes[block.rows]) for block in blocks]
    blocks = [block for block, values in zip(blocks, known, strict=True) if len(values)]
    known = [values for values in known if len(values)]
    medians, counts = (
        np.array([np.median(values) for values in known]),
        np.array([len(values) for values in known]),
    )
    for number, block in enumerate(blocks):
        others, weights = np.delete(medians, number), np.sqrt(np.delete(counts, number))
        if not len(others):
            return
        centre = (
            np.average(others, weights=weights)
            if len(others) < 3
            else np.median(others)
        )
        spread = (
            MAD_SCALE * float(np.median(np.abs(others - centre)))
            if len(others) > 4
            else HEAD_SD
        )
        sd = np.hypot(
            max(HEAD_SD, min(spread, _MAX_HEAD_SD)),
            _PERSON_HEAD_SD / np.sqrt(counts[number]),
        )
        z = (medians[number] - centre) / sd
        if abs(z) > HEAD_LIMIT and (
            len(others) > 1 or counts[number] <= table.n_people / 2
        ):
            factor = float(np.exp(medians[number] - centre))
            what = (
                f"head size of {block.phrase} is {factor:.3g} times that of the others"
            )
            ending = f"; usually {name_factor(factor, 'volume')}, or a failed estimate of head size"
            table.suspect(
                ProblemCode.SUSPECT_UNITS, block, what, ending, z, True, HEAD_SIZE
            )
            sizes[block.rows] -= medians[number] - centre
    table.covariates = {**table.covariates, HEAD_SIZE: sizes}
