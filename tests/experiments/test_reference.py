"""Simulated healthy people are like real ones."""

from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.experiments.reference import FittedHealthyReference, load_reference
from rindices.tables.cohort import Cohort
from rindices.tables.layouts.muse import paper_codes


def test_simulated_controls_are_like_ixi(shared: Path) -> None:
    ixi = ri.read_cohort(
        shared / "ixi/volumes.csv", shared / "ixi/demographics.csv", covariates=["Age"]
    )
    real = ixi.take((ixi.covariates["Age"] < 70).to_numpy()).volumes
    assert tuple(real.columns) == tuple(f"MUSE_{code}" for code in paper_codes())
    off = ~np.eye(139, dtype=bool)
    for seed in range(5):
        volumes, _ = load_reference().draw(1392, np.random.default_rng(seed))
        means = (volumes.mean() / real.mean() - 1).abs()
        spreads = (
            (volumes.std() / volumes.mean()) / (real.std() / real.mean()) - 1
        ).abs()
        difference = np.corrcoef(volumes.to_numpy().T) - np.corrcoef(real.to_numpy().T)
        assert means.max() <= 0.02
        assert spreads.max() <= 0.10
        assert spreads.median() <= 0.03
        assert np.sqrt(np.mean(difference[off] ** 2)) <= 0.06


def test_the_parameters_are_small_summary_statistics() -> None:
    path = Path(ri.__file__).parent / "model/data/reference_muse.npz"
    assert path.stat().st_size < 150_000
    with np.load(path) as stored:
        assert max(stored[name].size for name in stored.files) == 139 * 138 // 2


def test_a_fitted_reference_is_like_its_table() -> None:
    volumes, covariates = load_reference().draw(3000, np.random.default_rng(0))
    people = volumes.iloc[:, :0].assign(participant_id=[str(k) for k in range(3000)])
    fitted = FittedHealthyReference.fit(
        Cohort(volumes=volumes, people=people, covariates=covariates)
    )
    again, drawn = fitted.draw(3000, np.random.default_rng(1))
    assert list(again.columns) == list(volumes.columns)
    np.testing.assert_allclose(np.log(again).mean(), np.log(volumes).mean(), atol=0.02)
    np.testing.assert_allclose(np.log(again).std(), np.log(volumes).std(), rtol=0.1)
    both = [
        np.corrcoef(c["age"].astype(float), np.log(v).mean(axis=1))[0, 1]
        for v, c in ((volumes, covariates), (again, drawn))
    ]
    assert both[0] == pytest.approx(both[1], abs=0.06)
