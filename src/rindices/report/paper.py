"""What a paper needs of a study: figures with captions, Table 1 and methods text."""

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from importlib.resources import files
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from rindices import plot
from rindices.analysis import study_results
from rindices.atomic import write_atomically
from rindices.errors import InputError, StudyError, explain_write_errors, format_count
from rindices.model.fitted import CITATION
from rindices.model.pattern_tables import get_shape, list_trajectory_heads
from rindices.model.records import CohortRecord, CovariateSummary, GroupSummary
from rindices.plot import style
from rindices.plot.brain import match_atlas
from rindices.plot.files import get_figure, save_figure
from rindices.plot.map_files import write_maps
from rindices.plot.people import average_neighbours
from rindices.plot.source import StudySource
from rindices.report import sections
from rindices.report.formatting import format_p_value, make_environment
from rindices.report.page import render_null_report
from rindices.study.write import FIGURE_FOLDER, FIGURE_FORMATS, MAP_FOLDER
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.sources.spreadsheet import protect_texts

CAPTION_FILE, TABLE_FILE, METHODS_FILE = "captions.md", "table1.csv", "methods.md"
_CAPTIONS: dict[str, str] = tomllib.loads(
    (files("rindices.report") / "captions.toml").read_text("utf-8")
)
_OF_PEOPLE = {"pairs", "severities"}
"""Figures that can show single people."""
_MAX_PAIRS = 3


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """A figure of the set, which the function of `rindices.plot` with its name draws.

    Attributes
    ----------
    name : str
        Also of its file.
    caption : str
        One paragraph; ``{people}`` and ``{index}`` stand for those of the study.
    can_draw : callable
        Whether a study has what it shows.
    """

    name: str
    caption: str
    can_draw: Callable[[StudySource], bool]

    def draw(self, source: StudySource, show_people: bool) -> Any:
        """Draw it, and return its axes."""
        draw = _draw_pairs if self.name == "pairs" else getattr(plot, self.name)
        return (
            draw(source, people=show_people)
            if self.name in _OF_PEOPLE
            else draw(source)
        )

    def describe(self, source: StudySource) -> str:
        """Return its caption."""
        index = "" if source.model is None else _describe_index(source)
        return self.caption.format(people=_count_people(source), index=index)


def write_figures(
    folder: str | PathLike[str],
    formats: Sequence[str] = ("pdf",),
    dpi: int = 300,
    width: float = style.PAGE_MM,
    show_people: bool = False,
) -> list[Path]:
    """Write the figures of a study, their captions, Table 1, methods text, and its
    patterns as maps (GIFTI on fsaverage5, NIfTI in MNI152).

    Parameters
    ----------
    folder : path
        The folder of a finished study; files are written into its ``figures``.
    formats : sequence of {'pdf', 'svg', 'png'}
        Of each figure. Text stays text in PDF and SVG.
    dpi : int
        Dots per inch of PNG files and of brains in the others.
    width : float
        In millimetres: 85 for a column of a journal, 180 for a page.
    show_people : bool
        Whether to draw a point for each person.

    Returns
    -------
    list of Path
        Of all files.

    Raises
    ------
    StudyError
        If the folder holds no finished study, or a file cannot be written.
    """
    if wrong := [each for each in formats if each not in FIGURE_FORMATS]:
        raise InputError(f"format {wrong[0]!r} is unknown: give pdf, svg or png.")
    path = Path(folder)
    source, out = StudySource.of(path), path / FIGURE_FOLDER
    with explain_write_errors(str(out), StudyError, "make room or free the folder"):
        out.mkdir(exist_ok=True)
        figures = [each for each in FIGURES if each.can_draw(source)]
        written = []
        for figure in figures:
            with style.make_hidden_figures(width):
                drawn = get_figure(figure.draw(source, show_people))
                for suffix in formats:
                    file = out / f"{figure.name}.{suffix}"
                    save_figure(drawn, file, dpi)
                    written.append(file)
        assert source.cohort is not None
        texts = {
            CAPTION_FILE: describe_figures(source, figures),
            TABLE_FILE: protect_texts(make_table_1(source.cohort)).to_csv(index=False),
            METHODS_FILE: render_methods(path),
        }
        for name, text in texts.items():
            write_atomically(out / name, text.encode())
            written.append(out / name)
        if source.model is not None:
            written += write_maps(source, out / MAP_FOLDER)
    return written


def _has_brain(source: StudySource) -> bool:
    model = source.model
    return model is not None and (
        match_atlas(model.regions, model.card.unit).atlas is not None
    )


def _has_model(source: StudySource) -> bool:
    return source.model is not None


def _count_people(source: StudySource) -> str:
    cohort = source.cohort
    assert cohort is not None
    controls = format_count(cohort.controls, "control")
    return f"{controls} and {format_count(cohort.patients, 'patient')}"


def _describe_index(source: StudySource) -> str:
    findings = source.findings
    return (
        "the index along the mean difference"
        if findings is not None and findings.finding == "mean_difference"
        else f"the {format_count(source.fitted.n_patterns, 'pattern')}"
    )


def _list_pairs(source: StudySource, people: bool) -> list[tuple[str, str]]:
    """Return the first pairs of R-indices that have enough people to be drawn."""
    pairs = list(combinations(source.fitted.index_names, 2))[:_MAX_PAIRS]
    return [
        pair
        for pair in pairs
        if people or not average_neighbours(source.people, *pair).empty
    ]


def _draw_pairs(source: StudySource, people: bool = False) -> Any:
    """Draw pairs of R-indices side by side."""
    pairs = _list_pairs(source, people)
    with style.open_panels(None, len(pairs), 54.0, 55.0) as panels:
        for panel, pair in zip(panels, pairs, strict=True):
            plot.pairs(source, pair, people=people, ax=panel)
            legend = panel.get_legend()
            if panel is not panels[0] and legend is not None:
                legend.remove()
    return style.join_panels(panels)


def _has_pairs(source: StudySource) -> bool:
    return source.model is not None and bool(_list_pairs(source, people=False))


def _has_curves(source: StudySource) -> bool:
    model = source.model
    return model is not None and get_shape(model) == "staged"


def _has_tested_number(source: StudySource) -> bool:
    selection = source.selection
    return selection is not None and bool(selection.number_of_patterns.test.curve)


def _has_reproducibility(source: StudySource) -> bool:
    return source.findings is not None and bool(source.findings.patterns)


def _has_associations(source: StudySource) -> bool:
    table = source.associations
    return table is not None and bool(table["correlation"].notna().any())


def _has_sites(source: StudySource) -> bool:
    return source.site_effects is not None


def _has_subgroups(source: StudySource) -> bool:
    return source.subgroups is not None


def _has_training(source: StudySource) -> bool:
    return source.history is not None


_CAN_DRAW = {
    "patterns": _has_brain,
    "region_heatmap": _has_model,
    "forest": _has_model,
    "course": _has_curves,
    "severities": _has_model,
    "pairs": _has_pairs,
    "number": _has_tested_number,
    "reproducibility": _has_reproducibility,
    "associations": _has_associations,
    "site_effects": _has_sites,
    "subgroups": _has_subgroups,
    "training": _has_training,
}
FIGURES = tuple(
    PaperFigure(name=name, caption=_CAPTIONS[name], can_draw=can_draw)
    for name, can_draw in _CAN_DRAW.items()
)
"""The set, in the order of a paper."""


def describe_figures(source: StudySource, figures: Iterable[PaperFigure]) -> str:
    """Return the captions as Markdown."""
    blocks = ["# Captions", f"{_count_people(source).capitalize()}."]
    for number, figure in enumerate(figures, 1):
        blocks.append(
            f"**Figure {number}** (`{figure.name}`). {figure.describe(source)}"
        )
    blocks.append(
        f"**Table 1** (`{TABLE_FILE}`). Means with standard deviations, or numbers of people with shares, by group. p: Welch's "
        "t test of numbers; of categories, Pearson's chi-squared test, or Fisher's exact test of two by two categories where fewer than 5 are "
        "expected. Standardised difference: patients minus controls, in pooled standard deviations; of several categories "
        "it is not given."
    )
    return "\n\n".join(blocks) + "\n"


def make_table_1(cohort: CohortRecord) -> pd.DataFrame:
    """Return the people by group with tests of each covariate and of the sites."""
    rows = [
        {
            "variable": "n",
            "level": "",
            "controls": f"{cohort.controls:,}",
            "patients": f"{cohort.patients:,}",
        }
    ]
    for covariate in cohort.covariates:
        rows += _compare_covariate(cohort, covariate)
    if cohort.sites:
        counts = {
            group: {site: by.get(group, 0) for site, by in cohort.sites.items()}
            for group in (CONTROL, PATIENT)
        }
        rows += _compare_counts("site", counts[CONTROL], counts[PATIENT])
    columns = [
        *("variable", "level", "controls", "patients"),
        *("standardised_difference", "test", "p"),
    ]
    return pd.DataFrame(rows).reindex(columns=columns).fillna("")


def _compare_covariate(
    cohort: CohortRecord, covariate: CovariateSummary
) -> list[dict[str, str]]:
    control, patient = covariate.groups.control, covariate.groups.patient
    if control.mean is None or patient.mean is None:
        return _compare_counts(
            covariate.name, control.counts or {}, patient.counts or {}
        )
    numbers = [
        (group.mean or 0.0, group.sd or 0.0, number)
        for group, number in ((patient, cohort.patients), (control, cohort.controls))
    ]
    spread = np.sqrt(np.mean([sd**2 for _, sd, _ in numbers]))
    row = {
        "variable": f"{covariate.name}, mean (SD)",
        "controls": _format_mean(control),
        "patients": _format_mean(patient),
    }
    if spread > 0 and min(cohort.patients, cohort.controls) > 1:
        p = stats.ttest_ind_from_stats(*numbers[0], *numbers[1], equal_var=False).pvalue
        difference = (numbers[0][0] - numbers[1][0]) / spread
        row |= {
            "standardised_difference": f"{difference:.2f}",
            "test": "Welch t",
            "p": _format_p(p),
        }
    return [row]


def _format_mean(group: GroupSummary) -> str:
    mean, sd = group.mean or 0.0, group.sd or 0.0
    digits = 0 if abs(mean) >= 1000 else 1 if abs(mean) >= 10 else 2
    return f"{mean:,.{digits}f} ({sd:,.{digits}f})"


def _format_p(p: float) -> str:
    return "<0.001" if p < 0.001 else format_p_value(p)


def _compare_counts(name: str, controls: Any, patients: Any) -> list[dict[str, str]]:
    """Return one row for each category, the test in the first."""
    levels = list(dict.fromkeys([*controls, *patients]))
    counts = np.array(
        [[group.get(level, 0) for level in levels] for group in (controls, patients)]
    )
    totals = counts.sum(axis=1)
    rows = [
        {
            "variable": f"{name}, n (%)",
            "level": str(level),
            **{
                group: f"{counts[k, column]:,} ({100 * counts[k, column] / max(totals[k], 1):.0f})"
                for k, group in enumerate(("controls", "patients"))
            },
        }
        for column, level in enumerate(levels)
    ]
    if len(levels) < 2 or not totals.all():
        return rows
    expected = np.outer(totals, counts.sum(axis=0)) / totals.sum()
    if counts.shape == (2, 2):
        shares = counts[:, -1] / totals
        spread = np.sqrt(np.mean(shares * (1 - shares)))
        rows[-1]["standardised_difference"] = (
            f"{(shares[1] - shares[0]) / spread:.2f}" if spread > 0 else ""
        )
    if counts.shape == (2, 2) and expected.min() < 5:
        test, p = "Fisher", stats.fisher_exact(counts).pvalue
    else:
        test, p = "chi-squared", stats.chi2_contingency(counts, correction=False).pvalue
    rows[0] |= {"test": test, "p": _format_p(float(p))}
    return rows


def render_methods(folder: Path) -> str:
    """Return the methods text of a study with versions and references, as Markdown."""
    null = study_results.read_null_results(folder)
    if null is not None:
        return _to_markdown(render_null_report(null), "")
    results = study_results.read_study_results(folder)
    model = results.model
    values = {
        "cohort": results.cohort,
        "results": results,
        "facts": sections.StudyFacts.of_model(model, results.findings),
        "findings": results.findings,
        "are_posterior_means": bool(list_trajectory_heads(model)),
        "trust": sections.build_trust_section(results),
        "methods": sections.summarise_methods(results),
        "made_with": model.card,
        "citation": model.card.citation or CITATION,
        "atlas": match_atlas(model.regions, results.cohort.unit).atlas,
    }
    html = (
        make_environment(results.cohort.unit)
        .get_template("sections/methods.html")
        .render(**values)
    )
    references = (
        make_environment(results.cohort.unit, is_html=False)
        .get_template("references.bib")
        .render(**values)
    )
    return _to_markdown(html, re.sub(r"\n{3,}", "\n\n", references).strip())


def _to_markdown(html: str, references: str) -> str:
    """Return the paragraphs, the references and the versions of the methods section."""
    section = html[html.index('<div id="paste">') :]
    text, _, rest = section.partition("</div>")
    paragraphs = re.findall(r"<p>(.*?)</p>", text, flags=re.DOTALL)
    items = re.findall(
        r"<li>(.*?)</li>",
        rest.partition('<ul class="references">')[2].partition("</ul>")[0],
        flags=re.DOTALL,
    )
    note = re.search(r'<p class="note">(.*?) The command', rest, flags=re.DOTALL)
    blocks = ["# Methods", *map(_strip_tags, paragraphs)]
    blocks.append("Versions: " + _strip_tags(note[1] if note else ""))
    blocks.append("## References")
    blocks.append("\n".join(f"- {_strip_tags(item)}" for item in items))
    if references:
        blocks.append(f"```bibtex\n{references}\n```")
    return "\n\n".join(blocks) + "\n"


def _strip_tags(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())
