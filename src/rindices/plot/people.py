"""Severities of people, by group, against clinical variables, and by site.

Single people are drawn only where ``people=True`` asks for them. Otherwise each mark
stands for five people or more.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rindices._typing import FloatArray
from rindices.analysis import tidy
from rindices.analysis.associate import associate_indices
from rindices.errors import InputError, did_you_mean
from rindices.plot import style
from rindices.plot.docs import fill_docstring
from rindices.plot.source import Study, StudySource
from rindices.plot.style import (
    CONTROL_COLOUR,
    GRID_COLOUR,
    GROUP_COLOURS,
    MUTED_COLOUR,
    PATIENT_COLOUR,
    TEXT_COLOUR,
)
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID

MIN_PEOPLE = 5
"""People that a mark stands for at least, unless single people are asked for."""
_MIN_CLOUD = 20  # people that a box needs, so that each quarter has five
_CLOUD_MM = 8.5
_MAX_BINS = 12
_MAX_POINTS = 100  # of a group, for means of neighbours
_NAMES = {CONTROL: "controls", PATIENT: "patients"}


@fill_docstring
def severities(
    study: Study,
    data: pd.DataFrame | None = None,
    by: str = GROUP,
    people: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the distribution of each R-index by group, as clouds with boxes.

    A box spans the quartiles, with a line at the median. Its whiskers and the cloud
    (a kernel density, all of one height) end at the 5th and the 95th percentile, or
    where five people are left.

    Parameters
    ----------
    %(people_study)s
    data : DataFrame, optional
        ``participant_id`` and the column ``by``; joined by participant.
    by : str
        Column that tells the groups. Default: patients and controls.
    %(people)s
    %(ax)s

    %(drawn)s

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.severities("results")
    >>> [text.get_text() for text in axes.get_legend().get_texts()][0][:8]
    'controls'
    """
    source = StudySource.of(study)
    table = join_column(source.people, data, by)
    names = source.index_names
    levels = _list_levels(table[by])
    large = [level for level in levels if (table[by] == level).sum() >= _MIN_CLOUD]
    if not large and not people:
        raise InputError(
            f"no group of {by!r} has {_MIN_CLOUD} people: draw them with people=True."
        )
    if len(levels) > len(GROUP_COLOURS):
        raise InputError(
            f"{by!r} has {len(levels)} groups, and {len(GROUP_COLOURS)} can be told apart: join some."
        )
    shown = levels if people else large
    step = 1.2 if people else 1.0  # points need room below their box
    gap = step * len(shown) + 0.4
    height = 13.0 + _CLOUD_MM * len(names) * gap
    with style.open_panels(ax, 1, height) as (panel,):
        for place, name in enumerate(names):
            for k, level in enumerate(shown):
                values = table.loc[table[by] == level, name].to_numpy(dtype=float)
                row = place * gap + step * k
                colour = GROUP_COLOURS[levels.index(level)]
                _draw_cloud(panel, values, row, colour, people)
        middle = step * (len(shown) - 1) / 2
        rows = [place * gap + middle for place in range(len(names))]
        panel.set_yticks(rows, names)
        panel.tick_params(axis="y", length=0)
        last = rows[-1] + middle
        panel.set(ylim=(last + 0.55, -0.8), xlabel="R-index")
        panel.set_xlim(min(0.0, panel.get_xlim()[0]))
        panel.grid(axis="x")
        panel.spines["left"].set_visible(False)
        _add_group_legend(panel, table[by], shown, levels)
    return panel


def _list_levels(column: pd.Series) -> list[Any]:
    """Return the groups of a column: controls first, else in their order."""
    levels = list(column.dropna().unique())
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [level for level in column.cat.categories if level in levels]
    return sorted(levels, key=lambda level: (level != CONTROL, str(level)))


def _add_group_legend(
    panel: Axes,
    column: pd.Series,
    shown: Sequence[Any],
    levels: Sequence[Any],
    markers: Sequence[str] = (),
) -> None:
    """Add names, colours and numbers of groups, and their markers where there are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for level in shown:
        place = levels.index(level)
        colour = GROUP_COLOURS[place]
        label = f"{_NAMES.get(level, level)} (n = {(column == level).sum():,})"
        handles.append(
            Line2D(
                [], [], ls="", marker=markers[place], ms=4, color=colour, label=label
            )
            if markers
            else Patch(color=colour, label=label)
        )
    columns = 2 if len(shown) in (2, 4) else min(3, len(shown))
    panel.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        columnspacing=1.2,
    )


def summarise_severities(people: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the quantiles that clouds and boxes show, of groups with 20 people."""
    rows = []
    for name in names:
        for level in _list_levels(people[GROUP]):
            values = people.loc[people[GROUP] == level, name].to_numpy(dtype=float)
            if len(values) >= _MIN_CLOUD:
                rows.append((name, level, len(values), *_compute_quantiles(values)))
    columns = ["index", GROUP, "people", "low", "q1", "median", "q3", "high"]
    return pd.DataFrame(rows, columns=columns)


def _compute_quantiles(values: FloatArray) -> FloatArray:
    """Return ends, quartiles and median; five people at least are beyond each end."""
    edge = max(0.05, MIN_PEOPLE / max(len(values), 1))
    quantiles = np.quantile(values, (edge, 0.25, 0.5, 0.75, 1 - edge))
    return np.asarray(quantiles, dtype=float)


def _draw_cloud(
    panel: Axes, values: FloatArray, row: float, colour: str, people: bool
) -> None:
    """Draw the density above a row, a box on it and, if asked for, points below it."""
    from scipy.stats import gaussian_kde

    if len(values) >= _MIN_CLOUD:
        low, q1, median, q3, high = _compute_quantiles(values)
        if len(values) > _MIN_CLOUD and np.ptp(values) > 0:
            grid = np.linspace(low, high, 200)
            density = gaussian_kde(values)(grid)
            panel.fill_between(
                grid,
                row - 0.12 - 0.62 * density / density.max(),
                row - 0.12,
                color=colour,
                alpha=0.55,
                lw=0,
            )
            panel.plot(
                grid, row - 0.12 - 0.62 * density / density.max(), color=colour, lw=0.9
            )
            panel.hlines(row + 0.06, low, high, colour, lw=1.0)
        panel.fill_between([q1, q3], row - 0.04, row + 0.16, color=colour, lw=0)
        panel.vlines(median, row - 0.04, row + 0.16, "white", lw=1.6)
    if people:
        jitter = np.random.default_rng(0).uniform(0.22, 0.4, len(values))
        panel.scatter(values, row + jitter, s=2.2, color=colour, lw=0, alpha=0.7)


@fill_docstring
def pairs(
    study: Study,
    indices: Sequence[str] = ("r1", "r2"),
    people: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw two R-indices against each other, by group.

    A point is the mean of at least five people of a group who are next to each other,
    about as many in all groups.
    Points along an axis are people with one pattern alone.

    Parameters
    ----------
    %(people_study)s
    indices : sequence of str
        The R-indices on the x axis and on the y axis.
    %(people)s
    %(ax)s

    %(drawn)s

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.pairs("results", ["r1", "r2"])
    >>> axes.get_xlabel()
    'R-index r1'
    """
    source = StudySource.of(study)
    if len(indices) != 2:
        raise InputError(f"indices holds {len(indices)} names: give two.")
    first, second = indices
    for name in indices:
        source.choose_patterns(name)
    table = source.people
    drawn = table if people else average_neighbours(table, first, second)
    if drawn.empty:
        raise InputError(
            f"no group has {MIN_PEOPLE} people: draw them with people=True."
        )
    levels = _list_levels(drawn[GROUP])
    size = 3 if people else 9
    with style.open_panels(ax, 1, 66.0) as (panel,):
        for level, colour, marker in zip(
            levels, GROUP_COLOURS, style.MARKERS, strict=False
        ):
            rows = drawn[drawn[GROUP] == level]
            panel.scatter(
                rows[first], rows[second], s=size, color=colour, marker=marker, lw=0
            )
        panel.set(xlabel=f"R-index {first}", ylabel=f"R-index {second}")
        panel.grid()
        _add_group_legend(panel, table[GROUP], levels, levels, style.MARKERS)
    return panel


def average_neighbours(people: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Return the means of both R-indices of neighbours of a group, at least five, with
    their number, which is about the same in all groups.
    """
    rows = []
    least = max(MIN_PEOPLE, int(people[GROUP].value_counts().max()) // _MAX_POINTS)
    for level in _list_levels(people[GROUP]):
        values = people.loc[people[GROUP] == level, [first, second]]
        if len(values) < MIN_PEOPLE:
            continue
        number = max(1, len(values) // least)
        for part in _split_neighbours(values.to_numpy(dtype=float), number):
            means = part.mean(axis=0)
            rows.append((level, means[0], means[1], len(part)))
    return pd.DataFrame(rows, columns=[GROUP, first, second, "people"])


def _split_neighbours(values: FloatArray, number: int) -> list[FloatArray]:
    """Divide points into parts of about one size, always along their wider side."""
    if number == 1:
        return [values]
    order = np.argsort(values[:, np.argmax(np.ptp(values, axis=0))], kind="stable")
    first = number // 2
    parts = np.split(values[order], [len(values) * first // number])
    return [
        each
        for part, share in zip(parts, (first, number - first), strict=True)
        for each in _split_neighbours(part, share)
    ]


@fill_docstring
def scatter(
    study: Study,
    data: pd.DataFrame,
    variable: str,
    index: str = "r1",
    covariates: Sequence[str] = (),
    group: str | None = None,
    people: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw an R-index against a clinical variable, both adjusted for covariates, with
    their correlation.

    Points are means of the R-index in bins of as many people each, with 95 % intervals.
    The line is that of least squares, with its 95 % band. The numbers are those of
    `rindices.analysis.associate_indices`.

    Parameters
    ----------
    %(people_study)s
    data : DataFrame
        ``participant_id``, the variable and the covariates. Rows are joined by
        participant.
    variable : str
        Numeric column of ``data`` on the x axis.
    index : str
        R-index on the y axis.
    covariates : sequence of str
        Columns of ``data`` whose linear effect is removed from both. Their means are
        added again.
    group : {'patients', 'controls', 'all'}, optional
        Whom to include. Default: patients.
    people : bool
        Whether to draw a point for each person instead of bins.
    %(ax)s

    %(drawn)s

    Examples
    --------
    >>> import pandas as pd
    >>> import rindices as ri
    >>> indices = pd.read_table("results/r_indices.tsv")
    >>> scores = indices[["participant_id"]].assign(score=indices["r1"] ** 2)
    >>> axes = ri.plot.scatter("results", scores, "score", index="r1")
    >>> axes.get_ylabel()
    'R-index r1'
    """
    source = StudySource.of(study)
    source.choose_patterns(index)
    table = join_column(source.people, data, variable)
    if not pd.api.types.is_numeric_dtype(table[variable]):
        raise InputError(
            f"{variable!r} holds text: give a column of numbers, or draw plot.severities(by={variable!r})."
        )
    columns = [variable, *covariates]
    chosen = tidy.select_people(source.people, group or "patients")
    own = data[[ID, *dict.fromkeys(columns)]].assign(**{ID: data[ID].astype(str)})
    numbers = associate_indices(
        chosen[[ID, *source.index_names]],
        own,
        variables=[variable],
        covariates=covariates,
        people="all",
        missing_codes=["none"],
        model=source.model,
    ).set_index("index")
    joined = tidy.join_by_id(chosen, own)
    complete = joined[columns].notna().all(axis=1).to_numpy()
    both = np.column_stack(
        [joined[variable].to_numpy(dtype=float), chosen[index].to_numpy(dtype=float)]
    )[complete]
    if len(both) < 3 * MIN_PEOPLE:
        raise InputError(
            f"{len(both)} people have {variable!r}: {3 * MIN_PEOPLE} are needed."
        )
    both = _remove_covariates(both, joined.loc[complete, list(covariates)])
    row = numbers.loc[index]
    with style.open_panels(ax, 1, 62.0) as (panel,):
        _draw_regression(panel, both, people)
        adjusted = ", adjusted" if covariates else ""
        panel.set(xlabel=f"{variable}{adjusted}", ylabel=f"R-index {index}{adjusted}")
        panel.set_title(
            _describe_correlation(row, bool(covariates)), fontweight="normal"
        )
    return panel


def _remove_covariates(values: FloatArray, covariates: pd.DataFrame) -> FloatArray:
    """Return values (N, 2) without the linear effects of covariates, at their means."""
    design = tidy.standardise_columns(tidy.encode_covariates(covariates))
    if not design.size:
        return values
    means = values.mean(axis=0)
    effects = np.linalg.lstsq(design, values - means, rcond=None)[0]
    return np.asarray(means + ((values - means) - design @ effects))


def _describe_correlation(row: Any, is_partial: bool) -> str:
    kind = "partial r" if is_partial else "r"
    numbers = f"{row['correlation']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
    p = "p < 0.001" if row["p"] < 0.001 else f"p = {row['p']:.3f}"
    return style.format_minus(f"{kind} = {numbers}, {p}, n = {int(row['n']):,}")


def _draw_regression(panel: Axes, both: FloatArray, people: bool) -> None:
    """Draw bins or people, and the line of least squares with its band."""
    from scipy import stats

    x, y = both[np.argsort(both[:, 0], kind="stable")].T
    edge = MIN_PEOPLE / len(x)
    first, last = (x[0], x[-1]) if people else np.quantile(x, (edge, 1 - edge))
    grid = np.linspace(float(first), float(last), 100)
    slope, start = np.polyfit(x, y, 1)
    freedom = len(x) - 2
    spread = np.sqrt(((y - start - slope * x) ** 2).sum() / freedom)
    error = spread * np.sqrt(
        1 / len(x) + (grid - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    )
    width = stats.t.ppf(0.975, freedom) * error
    line = start + slope * grid
    panel.fill_between(grid, line - width, line + width, color=GRID_COLOUR, lw=0)
    panel.plot(grid, line, color=TEXT_COLOUR, lw=1)
    if people:
        panel.scatter(x, y, s=5, color=PATIENT_COLOUR, alpha=0.5, lw=0)
    else:
        number = int(np.clip(len(x) // (2 * MIN_PEOPLE), 3, _MAX_BINS))
        for part in np.array_split(np.arange(len(x)), number):
            mean, scale = y[part].mean(), y[part].std(ddof=1) / np.sqrt(len(part))
            half = stats.t.ppf(0.975, len(part) - 1) * scale
            panel.errorbar(
                x[part].mean(),
                mean,
                half,
                fmt="o",
                ms=4,
                color=PATIENT_COLOUR,
                elinewidth=1,
                capsize=0,
            )
    panel.grid()


@fill_docstring
def site_effects(study: Study | pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw how much of the variance of regions and R-indices sites explain.

    Each dot is a region in controls: as measured, and without the effects of sites, in
    people from whom these were not estimated. Below are the R-indices of patients, and
    of controls if sites were not harmonised, with the p-value of the F test of sites.
    Sites that treat other patients differ in the R-indices of patients, too. The shares
    are beyond the covariates, and about 0, also below, where sites do not matter.

    Parameters
    ----------
    study : FittedModel or path or DataFrame
        The folder of a study, or its ``site_effects.tsv``.
    %(ax)s

    %(drawn)s

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.site_effects("results")                         # doctest: +SKIP
    """
    if isinstance(study, pd.DataFrame):
        table = study
    else:
        table = StudySource.of(study).get(
            "site_effects",
            "table of site effects",
            "give the folder of a study whose people come from several sites",
        )
    is_region = table["what"] == "region"
    indices = table[table["what"] == "R-index"]
    labels = ["regions, as measured", "regions, as used"]
    labels += [
        f"{name}, {group}s"
        for name, group in zip(indices["name"], indices["group"], strict=True)
    ]
    with style.open_panels(ax, 1, 14.0 + 5.0 * len(labels)) as (panel,):
        rng = np.random.default_rng(0)
        for at, column in enumerate(("before", "after")):
            shares = 100 * table.loc[is_region, column].dropna().to_numpy(dtype=float)
            spots = at + rng.uniform(-0.3, 0.3, len(shares))
            panel.plot(shares, spots, ".", ms=3, alpha=0.5, color=CONTROL_COLOUR)
            if len(shares):
                middle = [float(np.median(shares))] * 2
                panel.plot(middle, [at - 0.38, at + 0.38], color=TEXT_COLOUR, lw=1.4)
        colours = [
            PATIENT_COLOUR if group == PATIENT else CONTROL_COLOUR
            for group in indices["group"]
        ]
        rows = np.arange(2, len(labels))
        panel.scatter(100 * indices["after"], rows, s=16, c=colours, zorder=3)
        panel.axvline(0.0, color=MUTED_COLOUR, lw=0.8, ls="--")
        panel.set_yticks(range(len(labels)), labels)
        panel.tick_params(axis="y", length=0)
        beside = panel.secondary_yaxis("right")
        beside.set_yticks(rows, [_format_p(p) for p in indices["p"]])
        beside.tick_params(length=0)
        beside.spines[:].set_visible(False)
        panel.set_ylim(len(labels) - 0.4, -0.6)
        panel.spines["left"].set_visible(False)
        panel.grid(axis="x")
        panel.set_xlabel("variance explained by site (%)")
    return panel


def _format_p(p: float) -> str:
    return "" if np.isnan(p) else "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


@fill_docstring
def subgroups(
    study: Study | pd.DataFrame,
    variable: str | None = None,
    index: str = "r1",
    ax: Axes | None = None,
) -> Axes:
    """Draw how an R-index separates patients and controls at each site.

    The AUC of each site has a 95 % interval, and the band is the AUC of everyone. The
    right panel shows the share of controls above the 95th percentile of all controls,
    which is 5 % where sites do not matter. Sites with fewer than ten controls or
    patients are left out.

    Parameters
    ----------
    study : FittedModel or path or DataFrame
        The folder of a study, or its ``subgroups.tsv``.
    variable : {'site', 'sex', 'age'}, optional
        By what people are divided. Default: sites, where the study has them, else sex
        and age.
    index : str
        Which R-index.
    %(ax)s

    %(drawn)s

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.subgroups("results", variable="sex")
    >>> axes.get_xlabel()
    'AUC of r1, held-out people'
    """
    findings = None
    if isinstance(study, pd.DataFrame):
        table = study
    else:
        source = StudySource.of(study)
        source.choose_patterns(index)
        findings = source.findings
        table = source.get(
            "subgroups",
            "table of sites, sex and age",
            "give the folder of the study; a group needs ten controls and ten patients",
        )
    known = list(dict.fromkeys(table["variable"]))
    if variable is not None and variable not in known:
        raise InputError(
            f"the study has no groups by {variable!r}; {did_you_mean(variable, known)}."
        )
    chosen = [variable] if variable else ["site"] if "site" in known else known
    rows = table[(table["index"] == index) & table["variable"].isin(chosen)]
    with style.open_panels(ax, 1, 13.0 + 4.0 * len(rows)) as (panel,):
        _draw_levels(panel, rows, len(chosen) > 1)
        patterns = [] if findings is None else findings.patterns
        overall = next((each.auc for each in patterns if each.name == index), None)
        if overall is not None and overall.low is not None:
            high = overall.low if overall.high is None else overall.high
            panel.axvspan(overall.low, high, color=GRID_COLOUR, lw=0, zorder=0)
        panel.axvline(0.5, color=MUTED_COLOUR, lw=0.8, ls="--")
        panel.set_xlabel(f"AUC of {index}, held-out people")
    return panel


def _draw_levels(panel: Axes, rows: pd.DataFrame, names_variable: bool) -> None:
    positions = np.arange(len(rows))
    panel.hlines(positions, rows["low"], rows["high"], TEXT_COLOUR, lw=1.1)
    panel.plot(rows["auc"], positions, "o", ms=4, color=PATIENT_COLOUR)
    labels = []
    for row in rows.to_dict("records"):
        level = str(row["level"])
        if names_variable or (row["variable"] == "site" and "site" not in level):
            level = f"{row['variable']} {level}"
        labels.append(f"{level} ({row['controls']} + {row['patients']})")
    panel.set_yticks(positions, labels)
    panel.tick_params(axis="y", length=0)
    beside = panel.secondary_yaxis("right")
    shares = [f"{100 * share:.0f} %" for share in rows["controls_above"]]
    beside.set_yticks(positions, shares)
    beside.tick_params(length=0)
    beside.spines[:].set_visible(False)
    panel.set_title(
        "controls above 95th percentile", loc="right", fontsize=6, fontweight="normal"
    )
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.spines["left"].set_visible(False)
    panel.grid(axis="x")


def join_column(
    people: pd.DataFrame, data: pd.DataFrame | None, by: str
) -> pd.DataFrame:
    """Return people with a column of a table, joined by participant."""
    if data is None:
        if by not in people:
            raise InputError(
                f"the R-indices have no column {by!r}: give it in data=, beside participant_id."
            )
        return people
    if missing := [name for name in (ID, by) if name not in data]:
        raise InputError(
            f"data has no column {missing[0]!r}; {did_you_mean(missing[0], list(map(str, data.columns)))}."
        )
    if ID not in people:
        raise InputError(
            "the R-indices have no participant_id: give the folder of the study."
        )
    own = data[[ID, by]].assign(**{ID: data[ID].astype(str)})
    joined = tidy.join_by_id(people[[ID]].astype(str), own)
    return people.assign(**{by: joined[by].to_numpy()})
