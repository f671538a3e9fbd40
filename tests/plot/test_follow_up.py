"""Change, outcomes and replication: figures show what their tables say, and no single
people unless asked.
"""

import numpy as np
import pandas as pd
import pytest

from rindices import plot
from rindices.analysis.change import YearlyChange, change_per_year
from rindices.analysis.predict import predict_outcome
from rindices.errors import InputError
from rindices.plot.follow_up import merge_steps
from tests.analysis.helpers import make_visits
from tests.analysis.test_change import make_group_visits
from tests.analysis.test_predict import make_outcomes


@pytest.fixture(scope="module")
def result() -> YearlyChange:
    return change_per_year(make_group_visits(3, 12), "age")


def test_means_of_groups_are_those_of_the_table(result: YearlyChange) -> None:
    assert result.groups is not None
    axes = plot.change(result)
    controls, patients = axes.containers
    for container, group in ((controls, "controls"), (patients, "patients")):
        means = container.lines[0].get_xdata()
        assert list(means) == pytest.approx(list(result.groups[f"{group}_per_year"]))
    assert [each.get_text() for each in axes.get_yticklabels()] == result.names


def test_visits_of_people_are_drawn_where_asked_for(result: YearlyChange) -> None:
    for people in (False, True):
        panels = np.ravel(plot.visits(result, people=people))
        assert len(panels) == len(result.names)
        for panel in panels:
            assert len(panel.lines) == 4 + people * len(result.table)


def test_without_groups_the_mean_of_everyone_is_drawn() -> None:
    frame, _ = make_visits(20, 3)
    result = change_per_year(frame.drop(columns="group", errors="ignore"), "age")
    panel = np.ravel(plot.visits(result))[0]
    (line,) = panel.lines
    slope = line.get_ydata()[-1] / line.get_xdata()[-1]
    assert slope == pytest.approx(result.table["r1_per_year"].mean())
    with pytest.raises(InputError, match="no groups were compared"):
        plot.change(result)


def test_points_of_a_curve_are_at_least_five_events_apart() -> None:
    curve = pd.DataFrame(
        {"time": np.arange(1.0, 13), "events": [1] * 12, "survival": 0.0}
    )
    merged = merge_steps(curve, 20.0)
    assert list(merged["time"]) == [5, 10, 20]


def test_curves_show_no_time_of_a_single_event() -> None:
    indices, outcomes = make_outcomes(80)
    prediction = predict_outcome(indices, outcomes, event="converted", time="years")
    assert prediction.survival is not None
    rows = prediction.survival
    for people in (False, True):
        panel = np.ravel(plot.outcome(prediction, people=people))[0]
        for line, third in zip(panel.lines, ("low", "middle", "high"), strict=True):
            curve = rows[(rows["index"] == "r1") & (rows["third"] == third)]
            times = curve.loc[curve["events"] > 0, "time"]
            shown = np.isin(times, line.get_xdata()).sum()
            assert shown == len(times) if people else shown <= len(times) / 5 + 1
