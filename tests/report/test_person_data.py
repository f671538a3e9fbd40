"""Regions that speak for an R-index, and what is read of each person."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from rindices.errors import StudyError
from rindices.report.explore_section import find_speaking_regions, read_person_details
from rindices.report.study_results import read_index_file


def test_regions_are_ranked_by_their_own_likelihood_ratio() -> None:
    rng = np.random.default_rng(0)
    regions, changes = rng.normal(size=(7, 12)), rng.normal(size=(7, 3, 12))
    regions[2, 5] = np.nan
    positions, values = find_speaking_regions(regions, changes)
    assert positions.shape == (7, 3, 8)
    for person in range(7):
        for k in range(3):
            expected = changes[person].sum(axis=0)
            without = expected - changes[person, k]
            ratios = [
                -0.5 * (x - e) ** 2 + 0.5 * (x - w) ** 2 if x == x else 0.0
                for x, e, w in zip(regions[person], expected, without, strict=True)
            ]
            best = sorted(range(12), key=lambda region: -ratios[region])[:8]
            np.testing.assert_allclose([ratios[r] for r in positions[person, k]], [ratios[r] for r in best])
            np.testing.assert_array_equal(values[person, k], regions[person, positions[person, k]])


def test_few_regions_are_listed_of_many_people() -> None:
    people = np.zeros((50_000, 4), dtype=np.float32)
    assert find_speaking_regions(people, np.zeros((50_000, 3, 4), dtype=np.float32))[0].shape[2] == 1
    assert find_speaking_regions(people, np.zeros((50_000, 5, 4), dtype=np.float32))[0].shape[2] == 0


def test_a_study_without_ids_says_how_to_get_them(study: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"people\.npz is not there: run the same rindices fit again, with --with-ids"):
        read_person_details(tmp_path, read_index_file(study))


def test_people_of_another_study_are_refused(study: Path, tmp_path: Path) -> None:
    indices = read_index_file(study)
    assert len(read_person_details(study, indices).regions) == 350
    with pytest.raises(StudyError, match="different people"):
        read_person_details(study, indices.iloc[1:])
    shutil.copy(study / "r_indices.tsv", tmp_path / "people.npz")
    with pytest.raises(StudyError, match="cannot be read"):
        read_person_details(tmp_path, indices)
