"""Small cohorts get a warning."""

import pytest

from rindices.study import sample_size
from rindices.study.sample_size import PowerRow


def test_small_cohorts_get_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        PowerRow(controls, patients, rate, 0.7, None, right, None, 1.0, None, 1.0, None)
        for controls, patients, right in ((80, 100, 0.3), (492, 900, 1.0))
        for rate in (0.1, 0.2)
    ]
    monkeypatch.setattr(sample_size, "load_power_rows", lambda: rows)
    assert sample_size.check_sample_size(500, 1000) == []
    (warning,) = sample_size.check_sample_size(100, 5000)
    assert "80 controls and 100 patients" in warning.what
    assert "30%" in warning.what
    assert "fewer than in all simulations" in sample_size.check_sample_size(20, 30)[0].what


def test_the_power_study_of_the_package_is_read() -> None:
    assert sample_size.check_sample_size(492, 900) == []
    assert "a small cohort" in sample_size.check_sample_size(80, 100)[0].what
