"""The section on the difference of each region."""

import numpy as np
import pandas as pd
import pytest

from rindices.plot import brain
from rindices.report.sections import build_effect_section

EFFECTS = pd.DataFrame(
    {
        "region": [f"region {k}" for k in range(20)],
        "d": np.linspace(-0.95, 0.4, 20),
        "low": np.linspace(-0.95, 0.4, 20) - 0.3,
        "high": np.linspace(-0.95, 0.4, 20) + 0.3,
        "q": [0.01] * 3 + [0.5] * 17,
    }
)


def test_the_largest_differences_stand_first() -> None:
    section = build_effect_section(
        EFFECTS, 0.72, brain.match_atlas(tuple(EFFECTS["region"]))
    )
    assert (section.n_significant, section.n_regions, section.smallest_effect) == (
        3,
        20,
        0.72,
    )
    assert [abs(row.d) for row in section.top] == sorted(
        (abs(row.d) for row in section.top), reverse=True
    )
    assert section.top[0].region.lower() == "region 0"
    assert section.limit == pytest.approx(0.95)
    bar = section.top[0].bar
    assert bar.low < bar.value < bar.zero
    assert section.data is EFFECTS
