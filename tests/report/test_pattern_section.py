"""The section of a pattern: its regions, bars and pictures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rindices.analysis.study_results import (
    N_LISTED_REGIONS,
    StudyResults,
    read_study_results,
)
from rindices.plot.brain import AtlasMatch
from rindices.report.sections import (
    Context,
    build_pattern_sections,
    compute_colour_limit,
)
from tests.report.helpers import collect_again, render_section


@pytest.fixture(scope="module")
def results(study: Path) -> StudyResults:
    return read_study_results(study)


@pytest.fixture(scope="module")
def sections(results: StudyResults) -> list[Context]:
    match = AtlasMatch(
        atlas=None, drawn={}, undrawn_regions=results.model.regions
    )  # no pictures
    return build_pattern_sections(
        results, match, compute_colour_limit(results.model.patterns[-1])
    )


def test_colours_end_at_a_round_number(results: StudyResults) -> None:
    limit = compute_colour_limit(results.model.patterns[-1])
    largest = np.abs(results.model.patterns[-1]).max()
    assert largest <= limit <= 1.5 * largest
    step = 10 ** np.floor(np.log10(largest)) / 2
    assert limit / step == pytest.approx(round(limit / step))


def test_numbers_are_those_of_the_model(
    results: StudyResults, sections: list[Context]
) -> None:
    for k, section in enumerate(sections):
        changes = results.model.patterns[-1, k]
        assert section.name == f"r{k + 1}"
        assert section.finding.n_regions == len(changes)
        rows = results.select_pattern(section.name)
        assert section.finding.n_certain == sum((rows["low"] > 0) | (rows["high"] < 0))
        assert len(section.top) == N_LISTED_REGIONS
        largest = changes[np.abs(changes).argmax()]
        assert section.top[0].change == pytest.approx(largest)
        assert [cell.value for cell in section.curves[0].cells] == pytest.approx(
            list(results.model.patterns[:, k, np.abs(changes).argmax()])
        )


def test_all_patterns_share_the_scale_of_their_bars(sections: list[Context]) -> None:
    assert (
        len({round(row.bar.zero, 6) for section in sections for row in section.top})
        == 1
    )


def test_without_intervals_none_are_shown(results: StudyResults) -> None:
    bare = replace(
        collect_again(replace(results, model=replace(results.model, patterns_se=None))),
        patterns=results.patterns.assign(low=np.nan, high=np.nan),
    )
    (section, *_) = build_pattern_sections(
        bare,
        AtlasMatch(atlas=None, drawn={}, undrawn_regions=results.model.regions),
        5.0,
    )
    assert section.finding.n_certain is None
    assert section.top[0].interval is None
    text = render_section(
        "pattern",
        pattern=section,
        severities=(0.25, 0.5, 0.75, 1.0),
        findings=bare.findings,
    )
    assert "The largest changes: All numbers (CSV)" in text
    assert (
        " to "
        not in text.partition("change (95 % interval)")[2].partition("Change along")[0]
    )
