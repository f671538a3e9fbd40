"""Small cohorts get a warning."""

import pytest

from rindices.study import checks
from rindices.study.checks import PowerRow


def test_small_cohorts_get_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        PowerRow(
            controls=controls,
            patients=patients,
            rate=rate,
            accuracy=0.7,
            accuracy_se=None,
            right=right,
            right_se=None,
            any=1.0,
            any_se=None,
            width=1.0,
            width_se=None,
        )
        for controls, patients, right in ((80, 100, 0.3), (492, 900, 1.0))
        for rate in (0.1, 0.2)
    ]
    monkeypatch.setattr(checks, "load_power_rows", lambda: rows)
    assert checks.check_sample_size(500, 1000) == []
    (warning,) = checks.check_sample_size(100, 5000)
    assert "with 80 and 100" in warning.what
    assert "30%" in warning.what
    for sizes, text in {
        (
            20,
            30,
        ): "20 controls are fewer than 80, and 30 patients are fewer than 100, the fewest in the simulations",
        (446, 44): "44 patients are fewer than 100, the fewest in the simulations",
    }.items():
        (warning,) = checks.check_sample_size(*sizes)
        assert warning.what.endswith(f": {text}")


def test_the_power_study_of_the_package_is_read() -> None:
    assert checks.check_sample_size(492, 900) == []
    assert "a small study" in checks.check_sample_size(80, 100)[0].what
