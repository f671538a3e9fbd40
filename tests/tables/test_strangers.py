"""Tables as strangers bring them: each test is a way in which a first user was misled, and no more is."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import look, texts, write
from tests.tables.test_formats import aseg

N = 60


def people(**more: object) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"participant_id": [f"sub-{k:03d}" for k in range(1, N + 1)], "age": rng.uniform(50, 80, N)})
    return frame.assign(sex=["F", "M"] * (N // 2), diagnosis=["CN"] * 30 + ["AD"] * 30).assign(**more)


def plain(ids: object = None, **more: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = [f"sub-{k:03d}" for k in range(1, N + 1)] if ids is None else ids
    regions = {f"roi{k}": rng.normal(2000 + 400 * k, 150, N) for k in range(20)}
    return pd.DataFrame({"participant_id": names, **regions, **more})


def test_row_numbers_of_pandas_are_nobodys_ids(tmp_path: Path) -> None:
    frame = aseg(N).assign(**{"Measure:volume": [f"sub-{k:03d}" for k in range(1, N + 1)]})
    frame.to_csv(tmp_path / "v.csv")  # with the index
    result = look(tmp_path / "v.csv", write(people(), tmp_path / "p.tsv", "\t"), covariates=["age"])
    assert result.format == "aseg"
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.covariates["age"], people()["age"])


def test_row_numbers_alone_are_refused(tmp_path: Path) -> None:
    plain().drop(columns="participant_id").to_csv(tmp_path / "v.csv")
    assert "no column of ids" in texts(look(tmp_path / "v.csv"), "error")


def test_two_id_columns_that_mean_different_people_are_asked_about(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(N)
    theirs = people(participant_id=range(1, N + 1)).rename(columns={"participant_id": "id"})
    theirs.insert(1, "subject_id", [f"{k + 1:03d}" for k in order])
    paths = write(plain(range(1, N + 1)), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv")
    assert "mean different people" in texts(look(*paths), "error")
    assert look(*paths, id="subject_id").cohort is not None


def test_ids_that_only_count_come_with_a_warning(tmp_path: Path) -> None:
    paths = write(plain(range(1, N + 1)), tmp_path / "v.csv"), write(people(), tmp_path / "p.csv")
    assert "not row numbers" in texts(look(*paths), "warning")


@pytest.mark.parametrize(
    "column",
    [
        "Age_at_MRI",
        "PTEDUCAT",
        "CDRSB",
        "ADAS11",
        "IMAGEUID",
        "Years_bl",
        "31-0.0",
        "21003-2.0",
        "ST30SA",
        "WholeBrain",
    ],
)
def test_what_is_no_region_is_not_taken_as_one(tmp_path: Path, column: str) -> None:
    result = look(write(plain(**{column: np.linspace(60, 3000, N)}), tmp_path / "v.csv"))
    assert result.regions == 20
    assert column not in result.region_names


def test_codes_are_not_regions(tmp_path: Path) -> None:
    result = look(write(plain(Maternal=[0, 1] * 30, arm=[1, 2, 3] * 20), tmp_path / "v.csv"))
    assert (result.regions, result.aside) == (20, {"few whole numbers": 2})


@pytest.mark.parametrize(("sep", "mark"), [(";", "{:,.1f}"), ("\t", "{:,.0f}"), (",", "{:,.1f}")])
def test_thousands_marks_are_refused_by_name(tmp_path: Path, sep: str, mark: str) -> None:
    frame = plain()
    for name in frame.columns[1:]:
        frame[name] = [mark.format(value) for value in frame[name]]
        if sep == ";":  # European: 1.234,5
            frame[name] = frame[name].str.translate(str.maketrans(",.", ".,"))
    result = look(write(frame, tmp_path / "v.csv", sep))
    assert "text where a number should be" in texts(result, "error")
    assert "thousands separators" in texts(result, "error")


def test_decimal_commas_that_begin_late(tmp_path: Path) -> None:
    theirs = people()
    theirs["age"] = [str(60 + k) if k < 5 else f"{60 + k / 4:.2f}".replace(".", ",") for k in range(N)]
    paths = write(plain(), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv", ";")
    result = look(*paths, covariates=["age"])
    assert result.kinds == {"age": "number"}
    assert result.cohort is not None
    assert result.cohort.covariates["age"].max() == pytest.approx(60 + 59 / 4)


def test_ages_in_ranges_are_refused(tmp_path: Path) -> None:
    paths = write(plain(), tmp_path / "v.csv"), write(people(age="22-25"), tmp_path / "p.csv")
    assert "age is text" in texts(look(*paths, covariates=["age"]), "error")


@pytest.mark.parametrize("code", [-9, 999, 150])
def test_ages_of_nobody(tmp_path: Path, code: int) -> None:
    theirs = people()
    theirs.loc[3, "age"] = code
    result = look(write(plain(), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv"), covariates=["age"])
    assert f"{code} for sub-004" in texts(result, "error")


def test_codes_for_missing_are_suspected(tmp_path: Path) -> None:
    theirs = people(bmi=np.linspace(20, 30, N))
    theirs.loc[3, "bmi"] = 999
    result = look(write(plain(), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv"), covariates=["bmi"])
    assert "codes for missing: 999 for sub-004" in texts(result, "warning")


def test_a_head_of_no_size(tmp_path: Path) -> None:
    frame = aseg(N)
    frame.loc[2, "EstimatedTotalIntraCranialVol"] = 0
    path = write(frame, tmp_path / "aseg.txt", "\t")
    assert "1 person has no icv: sub-02" in texts(look(path, covariates=["icv"], on_missing="error"), "error")
    theirs = people(TIV=[1.5e6] * 59 + [1500.0])
    result = look(write(plain(), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv"), covariates=["icv"])
    assert "icv cannot be: 1500 for sub-060" in texts(result, "error")


def test_site_numbers_are_categories(tmp_path: Path) -> None:
    paths = write(plain(), tmp_path / "v.csv"), write(people(site=[10, 20, 30] * 20), tmp_path / "p.csv")
    assert look(*paths, covariates=["site"]).kinds == {"site": "3 categories"}


def test_the_same_sex_spelt_twice(tmp_path: Path) -> None:
    paths = write(plain(), tmp_path / "v.csv"), write(people(sex=["M", "m", "Male", "F"] * 15), tmp_path / "p.csv")
    assert "spelt twice: M, Male, m" in texts(look(*paths, covariates=["sex"]), "warning")


def test_raw_and_harmonised_side_by_side(tmp_path: Path, volumes: pd.DataFrame) -> None:
    twice = pd.concat(
        [volumes.add_prefix("DL_MUSE_Volume_"), volumes.iloc[:, 2:].add_prefix("H_DL_MUSE_Volume_")], axis=1
    )
    result = look(write(twice.rename(columns={"DL_MUSE_Volume_ID": "MRID"}), tmp_path / "v.csv"))
    assert "in two columns: DL_MUSE_Volume_23, H_DL_MUSE_Volume_23" in texts(result, "error")


@pytest.mark.parametrize("style", ["ROI_{}", "X{}", "{}.0"])
def test_other_spellings_of_muse_codes(tmp_path: Path, volumes: pd.DataFrame, style: str) -> None:
    renamed = volumes.rename(columns={c: style.format(c) for c in volumes.columns[1:]})
    result = look(write(renamed, tmp_path / "v.csv"))
    assert (result.format, result.regions) == ("dlmuse", 139)


def test_numbered_regions_of_another_atlas_are_not_muse(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"ID": [f"p{k}" for k in range(N)], **{f"ROI_{k}": rng.normal(3000, 99, N) for k in range(1, 200)}}
    )
    assert look(write(frame, tmp_path / "v.csv")).format == "table"


def test_intensities_are_not_volumes(tmp_path: Path) -> None:
    path = write(aseg(N).rename(columns={"Measure:volume": "Measure:mean"}), tmp_path / "aseg.txt", "\t")
    assert "regions are mean, not volume" in texts(look(path), "error")


def test_a_group_that_ends_up_empty(tmp_path: Path) -> None:
    theirs = people()
    theirs.loc[30:, "age"] = np.nan
    paths = write(plain(), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv")
    assert "no patient is left" in texts(
        look(*paths, group="diagnosis", covariates=["age"], on_missing="drop"), "error"
    )


def test_repeated_scans_are_said(tmp_path: Path) -> None:
    twice = pd.concat([plain().assign(session_id=f"ses-0{k}") for k in (1, 2)])
    assert "60 people have 120 scans" in texts(look(write(twice, tmp_path / "v.csv")), "warning")


def test_percent_of_icv_is_not_ml(tmp_path: Path, volumes: pd.DataFrame) -> None:
    percent = volumes.copy()
    percent.iloc[:, 2:] = 100 * volumes.iloc[:, 2:].div(volumes["702"], axis=0)
    assert "times the usual adult volume" in texts(look(write(percent, tmp_path / "v.csv")), "error")


def test_sessions_spelt_differently(tmp_path: Path) -> None:
    scans = plain([f"sub-{k:03d}_ses-01_T1w" for k in range(1, N + 1)])
    paths = write(scans, tmp_path / "v.csv"), write(people(session_id="1"), tmp_path / "p.tsv", "\t")
    cohort = look(*paths, covariates=["age"]).cohort
    assert cohort is not None
    np.testing.assert_allclose(cohort.covariates["age"], people()["age"])


def test_socio_economic_status_is_no_session(tmp_path: Path) -> None:
    paths = write(plain(), tmp_path / "v.csv"), write(people(SES=[1, 2, 3, 4] * 15), tmp_path / "p.csv")
    cohort = look(*paths, covariates=["age"]).cohort
    assert cohort is not None
    assert "session_id" not in cohort.people


def test_people_who_are_left_out_stop_nothing(tmp_path: Path) -> None:
    theirs = people()
    theirs.loc[5, ["age", "diagnosis"]] = [np.nan, "MCI"]
    scans = plain()
    scans.loc[5, "roi3"] = -1.0
    paths = write(scans, tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv")
    asked = {"group": "diagnosis", "controls": "CN", "patients": "AD", "covariates": ["age"], "on_missing": "error"}
    cohort = look(*paths, **asked).cohort
    assert cohort is not None
    assert len(cohort) == N - 1


def test_thalamus_of_all_versions(tmp_path: Path) -> None:
    names = {"Left-Thalamus": "Left-Thalamus-Proper", "Right-Thalamus": "Right-Thalamus-Proper"}
    found = [
        look(write(frame, tmp_path / "a.txt", "\t")).region_names for frame in (aseg(), aseg().rename(columns=names))
    ]
    assert found[0] == found[1]


def test_empty_rows_comments_and_the_separator_line_of_excel(tmp_path: Path) -> None:
    text = plain().to_csv(index=False, sep=";")
    (tmp_path / "v.csv").write_text("sep=;\n# exported today\n" + text + ";" * 20 + "\n" + ";" * 20 + "\n")
    result = look(tmp_path / "v.csv")
    assert (result.people, result.regions) == (N, 20)


def test_ids_as_floats_and_long_ids(tmp_path: Path) -> None:
    floats = people(participant_id=[f"{k}.0" for k in range(100, 160)])
    paths = write(plain(range(100, 160)), tmp_path / "v.csv"), write(floats, tmp_path / "p.csv")
    assert look(*paths, covariates=["age"]).people == N
    long = [10**17 + k for k in range(N)]
    plain(long).to_parquet(tmp_path / "v.parquet")
    cohort = look(tmp_path / "v.parquet").cohort
    assert cohort is not None
    assert cohort.people["participant_id"].tolist() == [str(name) for name in long]


def test_none_is_a_label(tmp_path: Path) -> None:
    paths = write(plain(), tmp_path / "v.csv"), write(people(diagnosis=["None", "AD"] * 30), tmp_path / "p.csv")
    result = look(*paths, group="diagnosis", controls="None")
    assert (result.controls, result.patients) == (30, 30)


def test_covariates_are_found_in_any_case_and_are_no_regions(tmp_path: Path) -> None:
    frame = plain(Bodymass=np.linspace(20, 30, N))
    result = look(write(frame, tmp_path / "v.csv"), covariates=["bodymass"])
    assert (result.regions, result.kinds) == (20, {"bodymass": "number"})


def test_icv_among_the_participants(tmp_path: Path) -> None:
    theirs = people(EstimatedTotalIntraCranialVol=1.5e6)
    paths = write(plain(), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv")
    assert look(*paths, covariates=["icv"]).ok


@pytest.mark.parametrize("option", ["id", "session"])
def test_misspelt_columns_are_said(tmp_path: Path, option: str) -> None:
    result = look(write(plain(), tmp_path / "v.csv"), **{option: "Participant"})
    assert f"there is no column 'Participant' for --{option}" in texts(result, "error")


def test_suggestions_keep_their_spelling(tmp_path: Path) -> None:
    paths = write(plain(), tmp_path / "v.csv"), write(people(DXgrp="A"), tmp_path / "p.csv")
    assert "Did you mean 'DXgrp'?" in texts(look(*paths, group="DXgr"), "error")


def test_missing_regions_are_named(tmp_path: Path) -> None:
    frame = plain()
    frame.loc[:4, "roi7"] = np.nan
    assert "a missing region (roi7 5 times)" in texts(
        look(write(frame, tmp_path / "v.csv"), on_missing="error"), "error"
    )


def test_words_beat_numbers_as_groups(tmp_path: Path) -> None:
    paths = write(plain(), tmp_path / "v.csv"), write(people(group=[0, 1] * 30), tmp_path / "p.csv")
    result = look(*paths)
    assert "groups are read from column 'diagnosis'" in texts(result)
    assert (result.controls, result.patients) == (30, 30)


def test_disease_is_not_put_on_patients(tmp_path: Path) -> None:
    theirs = participants_of(muse_volumes()).assign(diagnosis=["CN", "MCI", "AD", "CN"] * 10)
    table, participants = write(muse_volumes(), tmp_path / "v.csv"), write(theirs, tmp_path / "p.csv")
    arguments = [
        "simulate",
        "--controls",
        str(table),
        "--participants",
        str(participants),
        "--out",
        str(tmp_path / "s"),
    ]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, ri.RindicesError)
    assert "--label" in str(refused.exception)
    done = CliRunner().invoke(app, [*arguments, "--group", "diagnosis", "--label", "CN", "--json"])
    assert '"people": 20' in done.stdout


def test_disease_is_not_put_on_z_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ID": [f"p{k}" for k in range(N)], **{f"a{k}": rng.normal(size=N) for k in range(9)}})
    with pytest.raises(ri.RindicesError, match="standardised"):
        ri.simulate_cohort("basic", healthy=ri.read_cohort(write(frame, tmp_path / "v.csv")))


def test_a_number_that_was_text_in_training(tmp_path: Path) -> None:
    volumes = write(plain(), tmp_path / "v.csv")
    coded = write(people(sex=[0, 1] * 30, bmi=np.linspace(20, 30, N)), tmp_path / "p.csv")
    told = write(people(bmi=["low", "high"] * 30), tmp_path / "q.csv")
    for name, message in (("sex", "sex has F, M, which no control has.*Known are 0, 1"), ("bmi", "bmi was a number")):
        fitted = ri.Preprocessing.fit(ri.read_cohort(volumes, coded, group="diagnosis", covariates=[name]))
        with pytest.raises(ri.RindicesError, match=message):
            fitted.transform(ri.read_cohort(volumes, told, group="diagnosis", covariates=[name]))


def test_another_unit_or_coding_of_a_covariate_is_refused(tmp_path: Path) -> None:
    volumes = write(plain(), tmp_path / "v.csv")
    first = write(people(sex=[0, 1] * 30, TIV=np.linspace(1.2e6, 1.8e6, N)), tmp_path / "p.csv")
    other = write(people(sex=[1, 2] * 30, TIV=np.linspace(1200, 1800, N)), tmp_path / "q.csv")
    for name, message in (("icv", "another unit"), ("sex", "sex has 2, which no control has")):
        fitted = ri.Preprocessing.fit(ri.read_cohort(volumes, first, group="diagnosis", covariates=[name]))
        with pytest.raises(ri.RindicesError, match=message):
            fitted.transform(ri.read_cohort(volumes, other, group="diagnosis", covariates=[name]))
