"""Sentences on terminal, model card and report state numbers and actions of the study, recomputed from its files."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.model.records import PatternRecord, Reproduction
from rindices.report.sections import load_statements
from rindices.tables.layout.freesurfer import infer_measure
from tests.report.helpers import get_section_text, get_text, omit_pictures

VOLUMES = ["Left-Hippocampus", "Right-Hippocampus", "Left-Amygdala", "Right-Amygdala"]
THICKNESS = ["lh_precuneus_thickness", "rh_precuneus_thickness", "lh_cuneus_thickness", "rh_cuneus_thickness"]


def write_table(path: Path, loss: float, visits: int = 1, sites: int = 0, people: int = 70) -> list[str]:
    """Write volumes and thickness with head size; return the arguments of fit."""
    rng = np.random.default_rng(0)
    rows = []
    for person in range(people):
        is_patient, icv, level = person % 2, rng.normal(1.5e6, 1e5), rng.normal(0, 0.05)
        losses = loss * is_patient * rng.uniform(0, 2, 2)  # of volumes and of thickness
        for visit in range(visits):
            row: dict[str, Any] = {"participant_id": f"p{person:03d}", "age": 40 + person % 30, "icv": icv}
            row |= {"group": "patient" if is_patient else "control", "session_id": f"ses-{visit + 1}"}
            row |= {"scanner": f"s{person // 2 % sites}"} if sites else {}
            volume, thickness = 1 + level - losses
            row |= {name: icv / 400 * volume * rng.normal(1, 0.05) for name in VOLUMES}
            row |= {name: 2.5 * thickness * rng.normal(1, 0.05) for name in THICKNESS}
            rows.append(row)
    table = pd.DataFrame(rows)
    (table if visits > 1 else table.drop(columns="session_id")).to_csv(path, index=False)
    arguments = ["--group", "group", "--controls", "control", "--patients", "patient", "--covariates", "age,icv"]
    return [str(path), *arguments, *(["--session", "session_id"] if visits > 1 else [])]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


STUDIES: dict[str, dict[str, Any]] = {
    "one visit": {"loss": 0.1},
    "two visits": {"loss": 0.1, "visits": 2},
    "sites": {"loss": 0.1, "sites": 2},
    "missing cells": {"loss": 0.1, "missing": True},
    "nothing adjusted": {"loss": 0.1, "options": ["--adjust", "none"]},
    "no difference": {"loss": 0.0},
    "patterns": {"loss": 0.1, "options": ["--recipe", "contrastive", "--patterns", "2"]},
}


@pytest.fixture(scope="module", params=STUDIES, ids=lambda name: name.replace(" ", "_"))
def outputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of a study, what the terminal printed, and the page without pictures, which take time."""
    settings = dict(STUDIES[request.param])
    folder = tmp_path_factory.mktemp("statements")
    has_missing, options = settings.pop("missing", False), settings.pop("options", [])
    arguments = write_table(folder / "table.csv", **settings)
    if has_missing:
        table = pd.read_csv(folder / "table.csv")
        table.loc[::9, VOLUMES[0]] = np.nan
        table.to_csv(folder / "table.csv", index=False)
    options = ["--recipe", "mean-difference", *options, *(["--site", "scanner"] if "sites" in settings else [])]
    with omit_pictures():
        printed = run("fit", *arguments, *options, "--members", "4", "--workers", "1", "--out", str(folder))
    return folder, printed, (folder / "report.html").read_text("utf-8")


def list_adjusted(folder: Path) -> dict[str, set[str]]:
    """Return the regions from which each covariate was removed, by the coefficients in the model file."""
    import rindices as ri

    preprocessing = ri.load(folder / "model.safetensors").preprocessing
    coefficients = preprocessing.residualiser.coefficients
    names = [coding.name for coding in preprocessing.residualiser.codings]
    assert len(names) == len(coefficients)  # one column for each covariate of these tables
    return {
        name: {region for region, value in zip(preprocessing.regions, row, strict=True) if value}
        for name, row in zip(names, coefficients, strict=True)
    }


def test_people_and_scans_are_those_of_the_table(outputs: tuple[Path, str, str]) -> None:
    folder, printed, page = outputs
    table = pd.read_csv(folder / "table.csv")
    counts = table.drop_duplicates("participant_id")["group"].value_counts()
    words = f"{counts['control']} controls and {counts['patient']} patients"
    texts = [get_section_text(page, section) for section in ("found", "people", "methods")]
    if (folder / "model.safetensors").exists():
        texts += [printed, run("model", "show", str(folder / "model.safetensors"), "--card")]
    for text in texts:
        assert words in text
        assert (f"{len(table)} scans" in text) == (len(table) > counts.sum())


def test_the_adjustment_is_that_of_the_coefficients(outputs: tuple[Path, str, str]) -> None:
    folder, printed, page = outputs
    texts = [printed, *(get_section_text(page, section) for section in ("found", "people", "methods"))]
    if not (folder / "model.safetensors").exists():
        adjusted = {"age": {*VOLUMES, *THICKNESS}, "icv": set(VOLUMES)}  # thickness keeps the effect of head size
    else:
        adjusted = list_adjusted(folder)
        texts.append(run("model", "show", str(folder / "model.safetensors"), "--card"))
    n_regions = len([*VOLUMES, *THICKNESS])
    for text in texts:
        if not adjusted:
            assert not re.search(r"icv \(\d+ of|effects of age|adjusted for age", text)
            continue
        assert len(adjusted["age"]) == n_regions
        measures = ", ".join(sorted({infer_measure(region) for region in adjusted["icv"]}))
        assert (
            f"age (all {n_regions} regions) and icv ({len(adjusted['icv'])} of {n_regions} regions: {measures})" in text
        )
    assert ("among people similar in age and icv" in get_text(page)) == bool(adjusted)


def test_figures_of_patterns_are_those_of_the_selection(outputs: tuple[Path, str, str]) -> None:
    folder, printed, page = outputs
    selection = json.loads((folder / "selection.json").read_text())
    texts = [get_section_text(page, "found").replace("\N{MINUS SIGN}", "-"), printed]
    if (folder / "model.safetensors").exists():
        texts.append(run("model", "show", str(folder / "model.safetensors"), "--card"))
    for pattern in selection["patterns"]:
        low, high = pattern["split_half_interval"]
        words = "reproduced in other people" if low >= 0.5 else "not known whether other people reproduce it"
        words = "not reproduced in other people" if high < 0.5 else words
        for text in texts:
            assert f"{words}: {pattern['split_half']:.2f} ({low:.2f} to {high:.2f})".lower() in text.lower()
            assert f"AUC in held-out people {pattern['auc']:.2f}" in text
            assert f"carried by {100 * pattern['carriers']:.0f} % of patients, chance subtracted" in text
    difference = selection["difference"]
    reached = round(difference["p"] * (difference["permutations"] + 1)) - 1
    assert f"in {reached:,} of {difference['permutations']:,} trials" in texts[0]
    assert f"the same {difference['permutations']:,} random permutations" in get_section_text(page, "methods")


def test_only_a_pattern_is_called_a_projection(outputs: tuple[Path, str, str]) -> None:
    folder, _, page = outputs
    finding = json.loads((folder / "selection.json").read_text())["finding"]
    assert ("the pattern was projected onto it" in get_text(page)) == (finding == "patterns")


@pytest.mark.parametrize(
    ("interval", "reproduction"),
    [
        ((0.6, 0.9), "reproduced"),
        ((0.1, 0.7), "not_known"),
        ((-0.7, 1.0), "not_known"),
        ((-0.1, 0.3), "not_reproduced"),
    ],
)
def test_reproduction_is_worded_by_its_interval(interval: tuple[float, float], reproduction: str) -> None:
    record = PatternRecord("r1", 0.9, (0.8, 1.0), sum(interval) / 2, interval, 0.3)
    assert record.reproduction == Reproduction(reproduction)
    text = load_statements().reproduction(record)
    assert text.endswith(f"({interval[0]:.2f} to {interval[1]:.2f})")
    assert text.startswith({"reproduced": "reproduced", "not_known": "not known"}.get(reproduction, "not reproduced"))
