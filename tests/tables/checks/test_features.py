"""Tables of any features: no check that is right only for volumes."""

from pathlib import Path

import numpy as np
import pytest

from rindices.errors import ProblemCode
from tests.tables.helpers import (
    N,
    list_messages,
    make_table,
    validate_files,
    write_table,
)

STRAIN = np.linspace(-25, -10, N)


def test_a_negative_value_is_refused_as_a_volume_and_accepted_as_a_feature(
    tmp_path: Path,
) -> None:
    path = write_table(make_table(strain=STRAIN), tmp_path / "t.csv")
    assert "A volume cannot be negative" in list_messages(validate_files(path), "error")
    result = validate_files(path, measure="any")
    assert result.ok, list_messages(result)
    assert (result.unit, result.measures, result.units) == (
        "any",
        {"any": 21},
        {"any": "any"},
    )
    assert [problem.code for problem in result.problems] == [
        ProblemCode.NO_GROUPS,
        ProblemCode.COVARIATES_USED,
    ]


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_features_may_have_any_scale(tmp_path: Path, scale: float) -> None:
    mixed = make_table(strain=STRAIN, tiny=scale * np.linspace(1, 2, N))
    mixed.loc[:10, "roi3"] *= 1000
    result = validate_files(write_table(mixed, tmp_path / "t.csv"), measure="any")
    assert [problem.code for problem in result.problems] == [
        ProblemCode.NO_GROUPS,
        ProblemCode.SKEWED_FEATURES,
        ProblemCode.COVARIATES_USED,
    ]
    assert (
        "roi3. Transform them in the table first, for example to logarithms"
        in list_messages(result, "note")
    )


def test_logarithms_are_judged_where_they_are_the_default(tmp_path: Path) -> None:
    right = np.exp(np.random.default_rng(0).normal(0, 1.5, N))
    result = validate_files(
        write_table(make_table(right=right), tmp_path / "t.csv"), measure="any"
    )
    assert "skewed" not in list_messages(result)
    result = validate_files(
        write_table(make_table(right=right, strain=STRAIN), tmp_path / "s.csv"),
        measure="any",
    )
    assert "1 feature is skewed: right. Transform" in list_messages(result, "note")


def test_constant_features_are_refused_as_features(tmp_path: Path) -> None:
    frame = make_table(same=1.0, group=["control", "patient"] * (N // 2))
    result = validate_files(
        write_table(frame, tmp_path / "t.csv"), measure="any", group="group"
    )
    assert "1 feature is constant in the controls: same" in list_messages(
        result, "error"
    )


def test_names_of_brain_structures_mean_nothing_there(tmp_path: Path) -> None:
    frame = make_table(CSF=STRAIN, csf_ratio=STRAIN)
    assert (
        validate_files(write_table(frame, tmp_path / "t.csv"), measure="any").regions
        == 22
    )


def test_features_with_a_word_about_people_are_used_on_request(tmp_path: Path) -> None:
    path = write_table(
        make_table(p_tau=np.linspace(1, 9.5, N), total_protein=STRAIN),
        tmp_path / "t.csv",
    )
    result = validate_files(path, measure="any")
    assert (result.regions, result.aside) == (20, {"about people": 2})
    assert "to use one: --include COLUMN" in list_messages(result, "note")
    assert validate_files(path, measure="any", include=["p_tau"]).regions == 21
    assert validate_files(path).aside == {}


@pytest.mark.parametrize("on_missing", ["model", "error"])
def test_missing_values_are_those_of_features(tmp_path: Path, on_missing: str) -> None:
    frame = make_table(region_strain=STRAIN, group=["control", "patient"] * (N // 2))
    frame.loc[:4, "region_strain"] = np.nan
    frame.iloc[7, 3:18] = np.nan
    frame["empty"] = np.nan
    path = write_table(frame, tmp_path / "t.csv")
    messages = list_messages(
        validate_files(path, measure="any", group="group", on_missing=on_missing)
    )
    assert "a missing feature" in messages
    assert "region_strain" in messages  # names are not reworded
    assert " region" not in messages.replace("region_strain", "")  # but texts are
    if on_missing == "model":
        assert "their other features are used" in messages
        assert "1 person has fewer than half of the features" in messages
