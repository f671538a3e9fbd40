"""The exported page computes in a browser what apply computes, from a file on the disk,
and asks for nothing.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from scripts.chromium import Browser, Tab

import rindices as ri
from rindices.errors import ModelError
from rindices.exchange.importers import import_published
from rindices.experiments.tasks import make_task_with_patterns
from rindices.learners.inference import InteractingHead, TrajectoryHead
from rindices.report.model_page import export_page, pack_triangle
from rindices.tables.cohort import Cohort
from rindices.tables.layouts.region_names import label_regions
from tests.cohorts import simulate_few_regions

READY = "document.getElementById('status').textContent === 'Ready.'"
TOLERANCE = 1e-12  # of R-indices; ends of intervals divide by small variances


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def proportional() -> ri.FittedModel:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    return ri.fit(
        cohort, 2, members=2, workers=1, method_settings={"shape": "proportional"}
    )


def make_new_people(number: int = 40, sites: int = 0) -> Cohort:
    """New people, some of whom lack regions or are unlike the training people."""
    cohort = simulate_few_regions("tiny", seed=8, sites=sites).cohort.take(
        np.arange(0, 2 * number, 2)
    )
    rng = np.random.default_rng(1)
    volumes = cohort.volumes.copy()
    values = volumes.to_numpy(copy=True)
    for row in range(0, number, 3):
        values[row, rng.choice(values.shape[1], rng.integers(1, 6), replace=False)] = (
            np.nan
        )
    values[4, 5] *= 2.5
    values[7] *= 8.0
    covariates = cohort.covariates.copy()
    covariates.loc[10, "age"] = 101.0
    return replace(
        cohort,
        volumes=pd.DataFrame(values, columns=volumes.columns),
        covariates=covariates,
    )


def write_table(cohort: Cohort, path: Path, **options: object) -> Path:
    names = [name for name in ("participant_id", "site") if name in cohort.people]
    table = pd.concat([cohort.people[names], cohort.covariates, cohort.volumes], axis=1)
    table.to_csv(path, index=False, **options)  # type: ignore[call-overload]
    return path


def run_page(
    browser: Browser, model: ri.FittedModel, files: list[Path], folder: Path
) -> tuple[pd.DataFrame, Tab]:
    """Return what the page saves for these files."""
    export_page(model, folder / "model.html")
    tab = browser.open(folder / "model.html", ready=READY)
    tab.give_files("#files", files)
    tab.wait("/Done|cannot/.test(document.getElementById('status').textContent)")
    assert tab.run("document.getElementById('status').textContent") == "Done."
    saved = tab.download("#save", folder / "r_indices.tsv")
    assert tab.list_errors() == []
    assert tab.list_requests() == [(folder / "model.html").as_uri()]
    return pd.read_csv(saved, sep="\t", keep_default_na=False), tab


def assert_same(page: pd.DataFrame, applied: pd.DataFrame) -> None:
    assert list(page.columns) == list(applied.columns)
    for name in page:
        if pd.api.types.is_float_dtype(applied[name]):
            tolerance = TOLERANCE * (1 if name[1:].isdigit() else 10)
            np.testing.assert_allclose(
                page[name], applied[name], rtol=0, atol=tolerance, err_msg=name
            )
        else:
            assert list(page[name].astype(str)) == list(applied[name].astype(str)), name


def change_heads(model: ri.FittedModel, kind: str) -> ri.FittedModel:
    """Return a model of the same people whose patterns are staged, or interact."""
    rng = np.random.default_rng(2)
    heads = []
    for head in model.heads:
        assert isinstance(head, TrajectoryHead)
        steps = head.steps * rng.uniform(0.2, 1.8, size=head.steps.shape)
        weights = head.precision @ steps.reshape(-1, steps.shape[2]).T
        correlation = np.array([[1.0, 0.4], [0.4, 1.0]])
        arrays = head.to_arrays() | {
            "steps": steps,
            "weights": weights,
            "correlation": correlation,
        }
        arrays.pop("interaction", None)
        if kind == "interacting":
            arrays["interaction"] = np.array([[0.0, 0.7], [-0.3, 0.0]])
            heads.append(InteractingHead.from_arrays(arrays))
        else:
            heads.append(TrajectoryHead.from_arrays(arrays))
    return replace(model, heads=tuple(heads))


@pytest.mark.parametrize("kind", ["proportional", "staged", "interacting"])
def test_patterns_of_every_shape(
    kind: str, proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    model = proportional if kind == "proportional" else change_heads(proportional, kind)
    cohort = make_new_people()
    applied = model.apply(cohort, min_information=0.0)
    assert applied["outside_training_range"].any()
    page, tab = run_page(
        browser, model, [write_table(cohort, tmp_path / "new.csv")], tmp_path
    )
    assert_same(page, applied)
    assert "lack regions" in tab.run("document.getElementById('notes').textContent")


def test_the_mean_difference_and_sites(browser: Browser, tmp_path: Path) -> None:
    task = replace(
        make_task_with_patterns(3),
        n_controls=90,
        n_patients=90,
        beta=(900.0, 900.0),
        noise=0.0,
        rate=0.1,
    )
    training = simulate_few_regions(task, seed=3, sites=2).cohort
    model = ri.fit(training, workers=1, members=3)
    assert model.card.finding == "mean_difference"
    assert model.preprocessing.harmoniser is not None
    cohort = make_new_people(sites=2)
    applied = model.assess(
        cohort, min_information=0.0
    ).table  # sites of other effects: cells that do not fit
    assert_same(
        run_page(browser, model, [write_table(cohort, tmp_path / "new.csv")], tmp_path)[
            0
        ],
        applied,
    )


@pytest.mark.parametrize(
    "dialect",
    [{"sep": ";", "decimal": ","}, {"sep": "\t", "quoting": 1}, {"encoding": "utf-16"}],
)
def test_dialects(
    dialect: dict[str, object],
    proportional: ri.FittedModel,
    browser: Browser,
    tmp_path: Path,
) -> None:
    cohort = make_new_people(12)
    table = write_table(cohort, tmp_path / "new.csv", na_rep="n/a", **dialect)
    assert_same(
        run_page(browser, proportional, [table], tmp_path)[0],
        proportional.apply(cohort, min_information=0.0),
    )


def test_covariates_may_be_in_another_file(
    proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    cohort = make_new_people(12)
    ids = cohort.people[["participant_id"]]
    names = {
        name: f"DL_MUSE_Volume_{name.removeprefix('MUSE_')}" for name in cohort.volumes
    }
    pd.concat([ids, cohort.volumes.rename(columns=names)], axis=1).to_csv(
        tmp_path / "v.csv", index=False
    )
    pd.concat([ids, cohort.covariates], axis=1)[::-1].to_csv(
        tmp_path / "p.tsv", sep="\t", index=False
    )
    page, _ = run_page(
        browser, proportional, [tmp_path / "p.tsv", tmp_path / "v.csv"], tmp_path
    )
    assert_same(page, proportional.apply(cohort, min_information=0.0))


def test_the_training_table_is_read_and_visits_are_no_people(
    browser: Browser, tmp_path: Path
) -> None:
    """Regions have one name in all versions of FreeSurfer; the page knows the others as
    well as apply does.
    """
    cohort = simulate_few_regions("tiny", seed=0).cohort
    structures = (
        "Thalamus-Proper",
        "Caudate",
        "Putamen",
        "Pallidum",
        "Hippocampus",
        "Amygdala",
    )
    names = [
        f"{side}-{structure}" for side in ("Left", "Right") for structure in structures
    ]
    volumes = cohort.volumes.iloc[:, : len(names)].set_axis(names, axis=1)
    covariates = cohort.covariates.rename(columns={"icv": "eTIV"})
    table = pd.concat([cohort.people, covariates, volumes], axis=1)
    table.to_csv(tmp_path / "training.csv", index=False)
    training = ri.read_cohort(
        tmp_path / "training.csv", group="group", covariates=["age", "sex", "icv"]
    )
    assert "Left-Thalamus" in training.regions
    model = ri.fit(training, 1, members=2, workers=1, method="contrastive")
    visits = pd.concat([table.assign(session_id=session) for session in ("a", "b")])
    visits.to_csv(tmp_path / "visits.csv", index=False)
    page, tab = run_page(browser, model, [tmp_path / "visits.csv"], tmp_path)
    first = (
        page[page["session_id"] == "a"]
        .drop(columns="session_id")
        .reset_index(drop=True)
    )
    assert_same(
        first.sort_values("participant_id", ignore_index=True), model.apply(training)
    )
    notes = tab.run("document.getElementById('notes').textContent")
    assert f"{2 * len(table)} visits of {len(table)} people have R-indices" in notes
    assert "lack" not in notes


def read_sheet(tab: Tab) -> str:
    return " ".join(
        str(tab.run("document.getElementById('sheet').innerText"))
        .replace("\u2212", "-")
        .split()
    )


def show_person(tab: Tab, person: str) -> str:
    tab.run(
        f"document.getElementById('find').value = '{person}'; document.getElementById('find').oninput()"
    )
    return read_sheet(tab)


def test_the_sheet_of_a_person(
    proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    """Place in both groups, speaking regions, and what is missing, as the study and the
    report have them.
    """
    cohort = make_new_people()
    applied = proportional.apply(cohort, min_information=0.0)
    _, tab = run_page(
        browser, proportional, [write_table(cohort, tmp_path / "new.csv")], tmp_path
    )
    own, labels = proportional.indices, label_regions(proportional.regions)
    assert own is not None
    regions = (proportional.preprocessing.transform(cohort) - 1) / 0.1
    severities = applied[proportional.index_names].to_numpy()
    curves = proportional.trajectories().pivot(
        index=["pattern", "region"], columns="severity", values="change"
    )
    is_complete = ~cohort.volumes.isna().any(axis=1).to_numpy()
    ordinary = np.flatnonzero(
        is_complete & ~applied["outside_training_range"].to_numpy()
    )
    severe = ordinary[np.argmax(severities[ordinary, 0])]
    for row in {ordinary[0], severe}:
        text = show_person(tab, cohort.people["participant_id"][row])
        for name in proportional.index_names:
            value, low, high = applied.loc[row, [name, f"{name}_low", f"{name}_high"]]
            part = text.partition(f"{name} {value:.2f}")[2].partition(
                "have lower values"
            )[0]
            assert f"interval {low:.2f} to {high:.2f}" in part
            for group in ("control", "patient"):
                share = (own.loc[own["group"] == group, name].dropna() < value).mean()
                (number,) = re.findall(rf"(\d+) of 100 {group}s", part)
                assert 100 * share == pytest.approx(float(number), abs=3)
        assert "like the people of the study" in text
        listed = tab.run(
            "[...document.querySelectorAll('.speaking tbody th')].map((cell) => cell.textContent)"
        )
        changes = [
            [
                np.interp(
                    severities[row, k], curves.columns, curves.loc[(name, region)]
                )
                for region in proportional.regions
            ]
            for k, name in enumerate(proportional.index_names)
        ]
        residuals = regions[row] - np.sum(changes, axis=0)
        evidence = (
            (residuals + changes) ** 2 - residuals**2
        ) / 2  # log-likelihood ratios of single regions
        named = [
            labels[proportional.regions[r]]
            for k in range(2)
            for r in np.argsort(-evidence[k])[:8]
        ]
        assert [name for name in named if name in listed][: len(listed)] == listed
    assert listed
    lacking = np.flatnonzero(~is_complete)[1]
    missing = cohort.volumes.columns[cohort.volumes.iloc[lacking].isna()]
    text = show_person(tab, cohort.people["participant_id"][lacking])
    assert (
        f"Not measured, {len(missing)} of {len(proportional.regions)} regions: {labels[missing[0]]}"
        in text
    )
    assert (
        f"determines {np.floor(100 * applied.loc[lacking, 'information']):.0f} %"
        in text
    )
    assert "age 101 is outside" in show_person(tab, cohort.people["participant_id"][10])
    tab.call("Emulation.setEmulatedMedia", media="print")
    seen = "['files', 'results', 'print', 'sheet'].map((id) => document.getElementById(id).checkVisibility())"
    assert tab.run(seen) == [False, False, False, True]
    tab.call("Emulation.setEmulatedMedia", media="")
    tab.set_size(390, 800)
    assert tab.run("document.documentElement.scrollWidth") <= 390


def test_a_model_without_quantiles_has_a_sheet(
    proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    quantiles = {
        "control": proportional.card.index_quantiles["control"]
    }  # of a file that was changed by hand
    model = replace(
        proportional,
        card=proportional.card.model_copy(update={"index_quantiles": quantiles}),
    )
    _, tab = run_page(
        browser,
        model,
        [write_table(make_new_people(12), tmp_path / "new.csv")],
        tmp_path,
    )
    assert "90 % interval" in read_sheet(tab)
    assert "controls of the study" not in read_sheet(tab)


def test_features_are_not_called_regions(
    proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    model = replace(
        proportional, card=proportional.card.model_copy(update={"unit": "any"})
    )
    _, tab = run_page(
        browser,
        model,
        [write_table(make_new_people(12), tmp_path / "new.csv")],
        tmp_path,
    )
    assert "features" in read_sheet(tab)
    assert "region" not in read_sheet(tab)


@pytest.mark.parametrize("shared", [True, False])
def test_excel_files(
    shared: bool, proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    """As openpyxl writes them, with texts in the cells, and as Excel does, with texts
    in a file of their own.
    """
    cohort = make_new_people(12)
    table = pd.concat(
        [cohort.people[["participant_id"]], cohort.covariates, cohort.volumes], axis=1
    )
    book = openpyxl.Workbook(write_only=not shared)
    book.create_sheet("empty", 0)
    sheet = book.create_sheet("people", 1)
    for row in [
        list(table),
        *table.astype(object).where(table.notna(), None).to_numpy().tolist(),
    ]:
        sheet.append(row)
    book.save(tmp_path / "new.xlsx")
    assert_same(
        run_page(browser, proportional, [tmp_path / "new.xlsx"], tmp_path)[0],
        proportional.apply(cohort, min_information=0.0),
    )


def test_people_are_refused_as_by_apply(
    proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    cohort = make_new_people(12)
    values = cohort.volumes.to_numpy(copy=True)
    values[1, : values.shape[1] - 2] = np.nan
    cohort = replace(
        cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns)
    )
    with pytest.warns(UserWarning, match="1 person lacks too many regions"):
        short = set(cohort.people["participant_id"]) - set(
            proportional.apply(cohort)["participant_id"]
        )
    assert len(short) == 1
    covariates = cohort.covariates.astype({"sex": object})
    covariates.loc[2, "sex"] = "unknown"
    table = write_table(replace(cohort, covariates=covariates), tmp_path / "new.csv")
    page, tab = run_page(browser, proportional, [table], tmp_path)
    ids = cohort.people["participant_id"]
    assert set(ids) - set(page["participant_id"]) == short | {ids[2]}
    assert "determine less than 50 %" in tab.run(
        "document.getElementById('notes').textContent"
    )


def test_tables_that_cannot_be_used_are_said(
    proportional: ri.FittedModel, browser: Browser, tmp_path: Path
) -> None:
    export_page(proportional, tmp_path / "model.html")
    tab = browser.open(tmp_path / "model.html", ready=READY)
    cohort = make_new_people(12)
    scaled = replace(cohort, volumes=cohort.volumes / 1000)
    twice = replace(cohort, people=cohort.people.assign(participant_id="same"))
    without = replace(cohort, covariates=cohort.covariates.drop(columns="age"))
    few = replace(cohort, volumes=cohort.volumes.iloc[:, :5])
    tables = {
        "scaled differently": write_table(scaled, tmp_path / "scaled.csv"),
        "duplicate ID": write_table(twice, tmp_path / "twice.csv"),
        "the column age is missing": write_table(without, tmp_path / "without.csv"),
        "lacks 31 of the 36 regions": write_table(few, tmp_path / "few.csv"),
    }
    (tmp_path / "book.csv").write_bytes(b"PK\x03\x04")
    lines = tables["the column age is missing"].read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0]
    (tmp_path / "short.csv").write_text("\n".join(lines))
    short = f"line 4 has {lines[3].count(',') + 1} values, the header {lines[0].count(',') + 1} names"
    for text, path in (
        tables | {"Excel": tmp_path / "book.csv", short: tmp_path / "short.csv"}
    ).items():
        tab.give_files("#files", [path])
        tab.wait(
            f"document.getElementById('status').textContent.includes('{text}')", 20
        )
    tab.set_size(390, 800)
    assert tab.run("document.documentElement.scrollWidth") <= 390


def test_a_page_that_cannot_be_written_is_said(
    proportional: ri.FittedModel, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="--page"):
        export_page(proportional, tmp_path / "nowhere" / "page.html")


def test_a_triangle_holds_a_symmetric_matrix() -> None:
    matrix = np.arange(9.0).reshape(3, 3)
    matrix = matrix + matrix.T
    np.testing.assert_array_equal(pack_triangle(matrix), [0, 4, 8, 8, 12, 16])


@pytest.mark.parametrize("name", ["ad_2rindices", "brain_aging_5rindices"])
def test_the_published_models_have_a_page_with_centiles(
    name: str, browser: Browser, shared: Path, tmp_path: Path
) -> None:
    """The page computes R-indices, intervals and centiles as apply does, also of people
    who lack regions, and says what an R-index means.
    """
    path = shared / "upstream" / f"{name}.saved_model"
    model = import_published(path, name)
    people = pd.read_csv(shared / "ixi" / "demographics.csv")
    people = people.rename(columns={"Age": "age", "Sex": "sex"})
    cohort = ri.read_cohort(
        shared / "ixi" / "volumes.csv", people, covariates=["age", "sex", "icv"]
    ).take(np.arange(12))
    volumes, covariates = cohort.volumes.copy(), cohort.covariates.copy()
    volumes.iloc[3, 10:40] = np.nan
    covariates.loc[5, "age"] = 97.0
    cohort = replace(cohort, volumes=volumes, covariates=covariates)
    page, tab = run_page(
        browser, model, [write_table(cohort, tmp_path / "new.csv")], tmp_path
    )
    applied = model.apply(cohort, centiles=True)
    assert list(page) == list(applied)
    for column in applied.filter(regex=r"^r\d").columns:
        ours = pd.to_numeric(page[column])
        tolerance = 1e-9 if "centile" in column else 1e-11
        np.testing.assert_allclose(
            ours, applied[column], rtol=0, atol=tolerance, err_msg=column
        )
    assert applied.loc[5, "r1_centile":"r1_centile_high"].isna().all()
    text = show_person(tab, cohort.people["participant_id"][0])
    centile = applied.loc[0, "r1_centile"]
    sex = "men" if covariates["sex"][0] == "M" else "women"
    assert (
        f"Higher than in {centile:.0f} of 100 healthy {sex} of {covariates['age'][0]:.0f} years"
        in text
    )
    assert "people of the study" not in text
