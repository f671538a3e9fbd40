"""Wrong tables through ``fit``: which classes change the answer, and does any study of
a wrong table end without a word about it?

    python -m benchmarks.wrong_tables_fit [--minutes 20] [--rows FILE] [--out FILE]

Four tables of each class of ``benchmarks/wrong_tables.py``: 35 % of the people of a
real table. The answer is changed if the study has another finding than that of the
sound table, or R-indices of which one correlates below 0.9 by rank. Errors of ``check``
are turned into warnings for that (``on_suspect = "keep"``). A study is qualified if
``check`` stops it, or its finding comes with a sign of an artefact. Each row is written
to a file as it ends, so that the run can be resumed.
"""

import argparse
import json
import logging
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

import rindices as ri
from benchmarks.wrong_blocks.faults import FAULTS, choose_rows
from benchmarks.wrong_blocks.tables import GROUP, HEAD, ID, SITE, RealTable, read_table
from benchmarks.wrong_tables import RESULTS, SEED, draw
from rindices.errors import RindicesError

ANYWHERE = ("psychosis", "dementia", "OpenNeuro", "IXI ants_volume")
WITH_SITES = ("OpenNeuro", "IXI ants_volume", "autism volumes", "depression")
"""Tables of the sample, for faults that need no sites and for those that do."""
SHARE, PATTERNS, MEMBERS, MIN_CORRELATION = 0.35, (1, 2), 2, 0.9
MIN_CONTROLS = 6  # of a site

Row = dict[str, Any]


@cache
def draw_sound(name: str) -> RealTable:
    """Return a part of a table, without sites of few controls, which fit refuses."""
    table = draw(read_table(name), SHARE, np.random.default_rng(SEED))
    if not table.has_sites:
        return table
    is_control = table.frame[GROUP] == "control"
    n_controls = is_control.groupby(table.frame[SITE]).transform("sum")
    return table.take(np.flatnonzero(n_controls >= MIN_CONTROLS))


def fit(table: RealTable) -> tuple[str, pd.DataFrame | None, list[str]]:
    """Return the finding of a study, the R-indices, and the signs of artefacts."""
    model = ri.fit(
        table.frame,
        PATTERNS,
        members=MEMBERS,
        workers=1,
        id=ID,
        group=GROUP,
        controls=("control",),
        patients=("patient",),
        site=SITE if table.has_sites else None,
        measure=table.measure,
        on_suspect="keep",
    )
    assert model.findings is not None
    signs = [sign.what for sign in model.findings.artefacts]
    return str(model.finding), model.indices, signs


@cache
def fit_sound(name: str) -> tuple[str, pd.DataFrame | None, list[str]]:
    return fit(draw_sound(name))


def compare(sound: pd.DataFrame | None, wrong: pd.DataFrame | None) -> float | None:
    """Return the lowest rank correlation of the R-indices of the common people, each
    with its best partner; None without indices in both, or with another number.
    """
    if sound is None or wrong is None:
        return None
    one, other = (
        each.drop_duplicates(ID).set_index(ID).filter(regex=r"^r\d+$")
        for each in (sound, wrong)
    )
    if one.shape[1] != other.shape[1]:
        return None
    both = one.index.intersection(other.index)
    rho = np.array(
        [
            [spearmanr(one.loc[both, a], other.loc[both, b])[0] for b in other]
            for a in one
        ]
    )
    rows, columns = linear_sum_assignment(-np.nan_to_num(rho))
    return float(rho[rows, columns].min())


def run(name: str, table_name: str) -> Row | None:
    """Return a row about one wrong table; None if it has no such block."""
    fault, rng = FAULTS[name], np.random.default_rng([SEED, len(name)])
    table = draw_sound(table_name)
    rows = choose_rows(table, fault.where, rng)
    if rows is None or (HEAD not in table.frame and "heads" in name):
        return None
    frame = fault.make(table, rows, rng).frame
    wrong = RealTable(table.name, frame, table.regions, table.measure)
    is_stopped = not wrong.check().ok
    sound_finding, sound_indices, sound_signs = fit_sound(table_name)
    row = {"sound": sound_finding, "stopped": is_stopped, "sound_signs": sound_signs}
    try:
        finding, indices, signs = fit(wrong)
    except RindicesError as error:
        return row | {"finding": "refused", "signs": [str(error)[:200]], "rho": None}
    return row | {
        "finding": finding,
        "rho": compare(sound_indices, indices),
        "n_indices": [
            0 if each is None else each.filter(regex=r"^r\d+$").shape[1]
            for each in (sound_indices, indices)
        ],
        "signs": signs,
    }


def is_changed(row: Row) -> bool:
    if row["finding"] != row["sound"]:
        return True
    if row["rho"] is None:
        return bool(row["n_indices"][0] != row["n_indices"][1])
    return bool(not row["rho"] >= MIN_CORRELATION)


def is_qualified(row: Row) -> bool:
    return bool(row["stopped"] or row["signs"] or row["finding"] == "refused")


def describe(row: Row) -> str:
    if row["finding"] != row["sound"]:
        return f"{row['finding']} instead of {row['sound']}"
    return row["finding"] if row["rho"] is None else f"{row['rho']:.2f}"


def write_report(rows: list[Row], out: Path) -> None:
    lines = [
        "# Wrong tables through fit",
        f"`python -m benchmarks.wrong_tables_fit`: {len(rows)} of {len(ANYWHERE) * len(FAULTS)} wrong tables (the run stops after a time), "
        f"of {SHARE:.0%} of the people of {', '.join(dict.fromkeys(row['table'] for row in rows))}; patterns "
        f"{' and '.join(map(str, PATTERNS))}, {MEMBERS} ensemble members. Parts this small hold too little information for most "
        "links of covariates.",
        "",
        "Changed: another finding than that of the sound table, another number of indices, or an index that correlates "
        "below 0.9 by rank (with `--on-suspect keep`). Stopped: by `check`, as without that option. Unqualified: neither "
        "stopped nor with a sign of an artefact. The last column is the finding where it is another one, else the lowest "
        "correlation.",
        "",
        "| class | changed | stopped | signs of an artefact | unqualified | of the changed | findings |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in FAULTS:
        own = [row for row in rows if row["class"] == name]
        if not own:
            continue
        changed = [row for row in own if is_changed(row)]
        counts = [
            f"{sum(map(is_changed, own))} of {len(own)}",
            sum(row["stopped"] for row in own),
            sum(bool(row["signs"]) for row in own),
            sum(not is_qualified(row) for row in own),
            sum(not is_qualified(row) for row in changed),
            ", ".join(describe(row) for row in own),
        ]
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    silent = [row for row in rows if not is_qualified(row)]
    lines += [
        "",
        f"Unqualified: {len(silent)} of {len(rows)}, of which {sum(map(is_changed, silent))} changed the answer.",
    ]
    lines += [
        f"- {row['class']}, {row['table']}: {describe(row)}"
        for row in silent
        if is_changed(row)
    ]
    sound = {row["table"]: row for row in rows}
    lines += ["", "Sound tables: "]
    lines[-1] += ", ".join(
        f"{name} {row['sound']} ({len(row['sound_signs'])} signs)"
        for name, row in sound.items()
    )
    out.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rows", type=Path, default=Path("wrong_fits_rows.jsonl"))
    parser.add_argument("--out", type=Path, default=RESULTS / "wrong_tables_fit.md")
    options = parser.parse_args()
    logging.disable()
    warnings.simplefilter("ignore")
    lines = options.rows.read_text().splitlines() if options.rows.exists() else []
    rows, start = [json.loads(line) for line in lines], time.process_time()
    done = {(row["class"], row["table"]) for row in rows}
    with options.rows.open("a") as file:
        for number in range(len(ANYWHERE)):
            for name, fault in FAULTS.items():
                tables = WITH_SITES if fault.where == "site" else ANYWHERE
                key = (name, tables[number])
                if (
                    key in done
                    or time.process_time() - start > 60 * options.minutes
                    or (found := run(*key)) is None
                ):
                    continue
                row = {"class": name, "table": tables[number]} | found
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
    write_report(rows, options.out)
    print(options.out.read_text())


if __name__ == "__main__":
    main()
