"""Real factors: does a method separate what really differs between people?

    python -m benchmarks.real_factors measure [--suite real-factors|real-base] [--tables
    scenario,reporting]
        [--methods default,pca,ridge] [--splits 0:10] [--label NAME]
    python -m benchmarks.real_factors table

Tables are those of ``suites/real_factors.toml``, by name or role: ``scenario``,
``choosing``, ``reporting``, ``apart``, ``mixed``, ``all``. Methods are those of
``suites/factor_methods.py``. ``--label`` names the version of methods of this package,
so that two versions stand side by side. It is the version of the package, if left out.

Everything runs in one process with one thread, so that processor seconds can be
compared. Rows are written to ``results/real_factors/rows.json`` as they end; rows that
are there are not measured again. Both commands write ``table.md`` and ``figure.png``
beside them.
"""

import argparse
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.suites.factor_methods import METHODS, StudyMethod
from benchmarks.suites.factor_tables import list_bases, list_tables, read_rules
from benchmarks.suites.real_factors import SUITES, list_trials
from rindices._version import __version__
from rindices.atomic import write_atomically

OUT = Path(__file__).parent / "results" / "real_factors"
FIRST_VERSION = "0.1.0"
"""The version with which later ones are compared."""
ROLES = {
    "scenario": "The five scenarios, by which the method was chosen",
    "reporting": "People or factors that no choice used",
    "apart": "The people of the scenarios, measured by another program",
    "choosing": "Other tables that were looked at while the method was chosen",
    "mixed": "One real factor, and an imposed pattern of 13 regions",
}
FACTOR_NAMES = {
    "head": "head size",
    "field": "scanner (1.5 or 3 T)",
    "scanner": "scanner",
    "imposed": "imposed pattern",
}
SHOWN = ("pca", "default", "ridge")
"""Methods in the figure."""
SEPARATE, MIXED = "#0072B2", "#D55E00"
EXPLANATION = """\
Gap: association of the matched index with a factor, less that of the other index, mean over the factors. Associations
are absolute rank correlations, after what the factors share is removed. The gap of the factors themselves is 1. That of
indices that measure both alike is 0, and that of noise about 0.05, since the better matching is taken. Measured in
patients whom a fit has not seen: mean over random splits, and its standard error over splits. Splits share most of
their people, so errors over people are larger."""
Row = dict[str, Any]


class Column(NamedTuple):
    """A method, and its version if it is of this package."""

    method: str
    label: str

    @property
    def title(self) -> str:
        """Heading of the column."""
        name = METHODS[self.method].label
        return f"{name} ({self.label})" if self.label else name


def main() -> None:
    """Measure what is not there yet, and write table and figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "table"))
    parser.add_argument("--suite", choices=SUITES, default="real-factors")
    parser.add_argument(
        "--tables", default="all", help="names or roles, separated by commas"
    )
    parser.add_argument(
        "--methods", default="default,pca,ridge", help=", ".join(METHODS)
    )
    parser.add_argument(
        "--splits", default=f"0:{read_rules().splits}", help="a:b, from a to b - 1"
    )
    parser.add_argument(
        "--label", default=__version__, help="version of the methods of this package"
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--out", type=Path, default=OUT, help="folder of rows.json and table.md"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = options.out / "rows.json"
    if options.what == "measure":
        splits = range(*map(int, options.splits.split(":")))
        for trial in list_trials(
            options.suite, options.tables, options.methods, splits, options.label
        ):
            if trial.key not in read_rows(path):
                with keep_silent():
                    row = trial.measure(options.data)
                write_rows(
                    path, read_rows(path) | {trial.key: row}
                )  # read again: other commands may have added rows
                print(
                    trial.key,
                    {
                        name: row[name]
                        for name in ("gap", "c_index", "failed", "seconds")
                        if name in row
                    },
                    flush=True,
                )
    rows = list(read_rows(path).values())
    (options.out / "table.md").write_text(format_report(rows), "utf-8")
    draw_figure(rows, options.out / "figure.png")


@contextmanager
def keep_silent() -> Iterator[None]:
    """Say nothing about the tables."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def read_rows(path: Path) -> dict[str, Row]:
    """Return the rows that were measured, by key."""
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def write_rows(path: Path, rows: dict[str, Row]) -> None:
    """Write rows, one in a line, in the order of their keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(
        f"{json.dumps(key)}: {json.dumps(rows[key])}" for key in sorted(rows)
    )
    write_atomically(path, f"{{\n{lines}\n}}\n".encode())


def collect(rows: list[Row], suite: str, column: Column) -> pd.DataFrame:
    """Return the figures of a method: splits in rows, tables in columns."""
    score = "gap" if suite == "real-factors" else "c_index"
    own = [
        row
        for row in rows
        if row["suite"] == suite
        and (row["method"], row["label"]) == column
        and score in row
    ]
    frame = pd.DataFrame(own, columns=["split", "table", score])
    return frame.pivot_table(index="split", columns="table", values=score)


def list_columns(rows: list[Row], suite: str) -> list[Column]:
    """Return the measured methods in the order of `METHODS`."""
    found = {
        Column(row["method"], row["label"]) for row in rows if row["suite"] == suite
    }
    return sorted(
        found, key=lambda column: (list(METHODS).index(column.method), column.label)
    )


def list_judged(rows: list[Row]) -> list[str]:
    """Return the reporting tables with enough controls and patients in every split."""
    least = {row["table"]: [] for row in rows if row["suite"] == "real-factors"}
    for row in rows:
        if row["suite"] == "real-factors":
            least[row["table"]].append(min(row["controls"], row["patients"]))
    enough = {
        name
        for name, numbers in least.items()
        if min(numbers) >= read_rules().least_people_judged
    }
    return [
        name
        for name, table in list_tables().items()
        if table.role == "reporting" and name in enough
    ]


def format_value(values: pd.Series) -> str:
    """Return mean and standard error over splits."""
    values = values.dropna()
    if not len(values):
        return ""
    return f"{values.mean():.2f}" + (
        f" ± {values.sem():.2f}" if len(values) > 1 else ""
    )


def format_report(rows: list[Row]) -> str:
    """Return all tables in Markdown."""
    lines = [
        "# Real factors",
        "`python -m benchmarks.real_factors measure`, settings in [real_factors.toml](../../suites/real_factors.toml)",
        "",
    ]
    lines += [*EXPLANATION.splitlines(), ""]
    columns = list_columns(rows, "real-factors")
    notes = [
        f"{METHODS[each].label}: {METHODS[each].note}."
        for each in dict.fromkeys(column.method for column in columns)
        if METHODS[each].note
    ]
    lines += [*notes, "", *format_summary(rows, columns)]
    for role, heading in ROLES.items():
        names = [name for name, table in list_tables().items() if table.role == role]
        if any(row["table"] in names for row in rows):
            lines += [f"## {heading}", *format_role(rows, columns, names, role), ""]
    lines += [*format_versions(rows), *format_numbers(rows), *format_bases(rows)]
    return "\n".join(lines).rstrip() + "\n"


def format_summary(rows: list[Row], columns: list[Column]) -> list[str]:
    """Return the mean of each method over the scenarios and over the judged reporting
    tables, on equal splits.
    """
    scenarios = [
        name for name, table in list_tables().items() if table.role == "scenario"
    ]
    judged = list_judged(rows)
    lines = [
        "## Summary",
        "| method | five scenarios | least of five | judged reporting tables | less PCA, same splits |",
        "|---|---|---|---|---|",
    ]
    pca = average_tables(rows, Column("pca", ""), judged)
    for column in columns:
        values = collect(rows, "real-factors", column)
        least = values.reindex(columns=scenarios).mean().min(skipna=False)
        reporting = average_tables(rows, column, judged)
        cells = [
            format_value(average_tables(rows, column, scenarios)),
            "" if np.isnan(least) else f"{least:.2f}",
        ]
        lines.append(
            "| "
            + " | ".join(
                [
                    column.title,
                    *cells,
                    format_value(reporting),
                    format_value(reporting - pca),
                ]
            )
            + " |"
        )
    return [*lines, ""]


def average_tables(rows: list[Row], column: Column, names: list[str]) -> pd.Series:
    """Return the mean over tables in each split; splits that lack a table
    are left out.
    """
    return (
        collect(rows, "real-factors", column)
        .reindex(columns=names)
        .mean(axis=1, skipna=False)
        .dropna()
    )


def format_role(
    rows: list[Row], columns: list[Column], names: list[str], role: str
) -> list[str]:
    """Return the table of one role."""
    judged = list_judged(rows)
    values = {column: collect(rows, "real-factors", column) for column in columns}
    columns = [
        column
        for column in columns
        if values[column].reindex(columns=names).notna().any(axis=None)
    ]
    lines = [
        "| table | controls + patients | "
        + " | ".join(column.title for column in columns)
        + " |"
    ]
    lines += ["|---" * (len(columns) + 2) + "|"]
    for name in names:
        sizes = [
            f"{row['controls']} + {row['patients']}"
            for row in rows
            if row["table"] == name and row["suite"] == "real-factors"
        ]
        if sizes:
            small = ", not judged" if role == "reporting" and name not in judged else ""
            cells = [
                format_value(values[column].get(name, pd.Series(dtype=float)))
                for column in columns
            ]
            lines.append(
                "| "
                + " | ".join([f"{describe_table(name)}{small}", sizes[0], *cells])
                + " |"
            )
    measured = [name for name in names if any(name in each for each in values.values())]
    if all(set(measured) <= set(values[column]) for column in columns):
        means = [
            format_value(average_tables(rows, column, measured)) for column in columns
        ]
        lines.append("| " + " | ".join(["mean of all", "", *means]) + " |")
    return lines


def describe_table(name: str) -> str:
    """Return the name of a table, its factors and people."""
    table = list_tables()[name]
    factors = " and ".join(FACTOR_NAMES.get(each, each) for each in table.factors)
    told = f", {' and '.join(table.told).replace('_', ' ')} told" if table.told else ""
    return f"`{name}`: {factors}{told} ({table.people})"


def format_versions(rows: list[Row]) -> list[str]:
    """Return how later versions of the default compare with the better of PCA and the
    first version.
    """
    columns = list_columns(rows, "real-factors")
    lines = []
    for column in (
        each
        for each in columns
        if each.method == "default" and each.label != FIRST_VERSION
    ):
        own, others = (
            collect(rows, "real-factors", column),
            [Column("default", FIRST_VERSION), Column("pca", "")],
        )
        lines += [
            f"## {column.title} less the better of PCA and {FIRST_VERSION}, in the same splits"
        ]
        lines += [
            "| reporting table | difference | lower by more than 0.05 and its error |",
            "|---|---|---|",
        ]
        for name in list_judged(rows):
            rivals = [
                collect(rows, "real-factors", each).get(name, pd.Series(dtype=float))
                for each in others
            ]
            better = max(rivals, key=lambda each: each.mean() if len(each) else -np.inf)
            difference = (own.get(name, pd.Series(dtype=float)) - better).dropna()
            is_lower = len(difference) > 1 and difference.mean() < -max(
                0.05, difference.sem()
            )
            lines.append(
                f"| `{name}` | {format_value(difference)} | {'yes' if is_lower else 'no'} |"
            )
        lines.append("")
    return lines


def format_numbers(rows: list[Row]) -> list[str]:
    """Return in how many splits studies ended with as many indices as there are
    factors.
    """
    studies = [
        each
        for each in list_columns(rows, "real-factors")
        if isinstance(METHODS[each.method], StudyMethod)
    ]
    lines = [
        "## Studies that ended with an index for each factor",
        "Others ended with one index, or with none.",
        "",
    ]
    lines += [
        "| table | " + " | ".join(column.title for column in studies) + " |",
        "|---" * (len(studies) + 1) + "|",
    ]
    for name, table in list_tables().items():
        cells = []
        for method, label in studies:
            numbers = [
                row["patterns"]
                for row in rows
                if (row["table"], row["method"], row["label"]) == (name, method, label)
                and "patterns" in row
            ]
            right = sum(number == len(table.factors) for number in numbers)
            cells.append(f"{right} of {len(numbers)}" if numbers else "")
        if any(cells):
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def format_bases(rows: list[Row]) -> list[str]:
    """Return the table of the suite real-base."""
    columns = list_columns(rows, "real-base")
    if not columns:
        return []
    lines = [
        "## Patterns imposed on real healthy people",
        "Share of pairs of patients in the right order of severity (pattern-c-index; 0.5 is chance), mean over draws.",
        "",
    ]
    lines += [
        "| method | "
        + " | ".join(f"`{name}`: {base.people}" for name, base in list_bases().items())
        + " |",
        "|---" * (len(list_bases()) + 1) + "|",
    ]
    for column in columns:
        values = collect(rows, "real-base", column)
        means = [
            values.get(name, pd.Series(dtype=float)).dropna() for name in list_bases()
        ]
        cells = [
            f"{each.mean():.3f}" + (f" ± {each.sem():.3f}" if len(each) > 1 else "")
            if len(each)
            else ""
            for each in means
        ]
        lines.append("| " + " | ".join([column.title, *cells]) + " |")
    return lines


def draw_figure(rows: list[Row], path: Path) -> None:
    """Draw how strongly each factor shows in the index that follows it and in the other
    one, a panel a method.
    """
    columns = [
        each for each in list_columns(rows, "real-factors") if each.method in SHOWN
    ]
    if not columns:
        return
    judged = list_judged(rows)
    names = [
        name
        for name, table in list_tables().items()
        if table.role == "scenario" or name in judged
    ]
    figure = Figure(
        figsize=(2.2 + 2.3 * len(columns), 1.6 + 0.46 * len(names)),
        layout="constrained",
    )
    panels = figure.subplots(1, len(columns), sharex=True, sharey=True, squeeze=False)[
        0
    ]
    heights = {(name, k): 2.7 * i + k for i, name in enumerate(names) for k in range(2)}
    for axes, column in zip(panels, columns, strict=True):
        for name in names:
            own = [
                row
                for row in rows
                if row["table"] == name
                and (row["method"], row["label"]) == column
                and "own" in row
            ]
            for k, factor in enumerate(list_tables()[name].factors if own else ()):
                x = [
                    float(np.mean([row[kind][factor] for row in own]))
                    for kind in ("cross", "own")
                ]
                height, colour = heights[name, k], SEPARATE if x[1] > x[0] else MIXED
                axes.plot(
                    x,
                    [height, height],
                    color=colour,
                    lw=3,
                    alpha=0.45,
                    solid_capstyle="butt",
                    zorder=1,
                )
                axes.scatter(
                    x[0], height, s=26, facecolors="white", edgecolors=colour, zorder=2
                )
                axes.scatter(x[1], height, s=30, color=colour, zorder=3)
        gaps = average_tables(rows, column, names)
        mean = f"\ngap {gaps.mean():.2f}" if len(gaps) else ""
        axes.set_title(f"{column.title}{mean}", fontsize="medium")
        axes.grid(axis="x", color="0.9")
        axes.patch.set_visible(False)  # the names of people reach into the next panel
        axes.spines[["top", "right", "left"]].set_visible(False)
    panels[0].set_xlim(-0.03, 1.0)
    panels[0].set_ylim(2.7 * len(names) - 0.9, -1.2)
    panels[0].set_yticks(
        list(heights.values()), [label_row(name, k) for name, k in heights]
    )
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        if n_scenarios := sum(list_tables()[name].role == "scenario" for name in names):
            axes.axhline(2.7 * n_scenarios - 1.3, color="0.5", lw=0.8, ls=":")
    for i, name in enumerate(names):
        people = list_tables()[name].people
        text = panels[0].text(
            -0.02, 2.7 * i - 0.5, people, fontsize="x-small", color="0.45", va="bottom"
        )
        text.set_in_layout(False)
    figure.supxlabel(
        "how strongly the index follows the factor (rank correlation, in people who were not trained on)",
        fontsize="medium",
    )
    figure.suptitle(
        "Two things differ between these people, and nobody told the method. Does one index follow each?\n"
        "Filled: the index that follows the factor. Open: the other index, which should not. A long blue line is good.",
        fontsize="medium",
    )
    figure.savefig(path, dpi=130)


def label_row(name: str, k: int) -> str:
    """Return the label of a factor of a table."""
    factor = list(list_tables()[name].factors)[k]
    return FACTOR_NAMES.get(factor, factor)


if __name__ == "__main__":
    main()
