"""The warning about small cohorts, from the committed power study."""

import json
from pathlib import Path

import pytest

from rindices.study import sample_size


def test_a_small_cohort_gets_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [
        {"controls": n, "patients": m, "rate": rate, "accuracy": 0.7, "right": right}
        for n, m, right in ((80, 100, 0.3), (492, 900, 1.0))
        for rate in (0.1, 0.2)
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "power.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(sample_size, "files", lambda package: tmp_path)
    assert sample_size.check_sample_size(500, 1000) == []
    (problem,) = sample_size.check_sample_size(100, 5000)
    assert "80 controls and 100 patients" in problem.what
    assert "30%" in problem.what
    assert "fewer than were ever simulated" in sample_size.check_sample_size(20, 30)[0].what
