"""Sentences on terminal, model card and report state numbers and actions of the study,
recomputed from its files.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.model.findings import make_pattern_finding
from rindices.model.records import PatternRecord, Reproduction
from rindices.report.formatting import format_p_value
from rindices.report.sections import load_statements
from rindices.tables.layouts.freesurfer import infer_measure
from tests.report.helpers import get_section_text, get_text, omit_pictures

VOLUMES = ["Left-Hippocampus", "Right-Hippocampus", "Left-Amygdala", "Right-Amygdala"]
THICKNESS = [
    "lh_precuneus_thickness",
    "rh_precuneus_thickness",
    "lh_cuneus_thickness",
    "rh_cuneus_thickness",
]


def write_table(
    path: Path,
    loss: float,
    visits: int = 1,
    sites: int = 0,
    people: int = 70,
    gain: bool = False,
) -> list[str]:
    """Write volumes and thickness with head size; return the arguments of fit.

    With ``gain``, thickness increases.
    """
    rng = np.random.default_rng(0)
    rows = []
    for person in range(people):
        is_patient, icv, level = person % 2, rng.normal(1.5e6, 1e5), rng.normal(0, 0.05)
        losses = loss * is_patient * rng.uniform(0, 2, 2)  # of volumes and of thickness
        for visit in range(visits):
            row: dict[str, Any] = {
                "participant_id": f"p{person:03d}",
                "age": 40 + (person ^ 1) % 30,
                "icv": icv,
            }
            row |= {
                "group": "patient" if is_patient else "control",
                "session_id": f"ses-{visit + 1}",
            }
            row |= {"scanner": f"s{person // 2 % sites}"} if sites else {}
            volume, thickness = 1 + level - losses * ((1.0, -0.7) if gain else 1.0)
            row |= {name: icv / 400 * volume * rng.normal(1, 0.05) for name in VOLUMES}
            row |= {name: 2.5 * thickness * rng.normal(1, 0.05) for name in THICKNESS}
            rows.append(row)
    table = pd.DataFrame(rows)
    (table if visits > 1 else table.drop(columns="session_id")).to_csv(
        path, index=False
    )
    arguments = [
        "--group",
        "group",
        "--controls",
        "control",
        "--patients",
        "patient",
        "--covariates",
        "age,icv",
    ]
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
    "losses and gains": {"loss": 0.15, "gain": True},
    "outlying cells": {"loss": 0.1, "outlying": True, "people": 120},
    "patterns": {
        "loss": 0.1,
        "options": ["--method", "contrastive", "--patterns", "2"],
    },
}


@pytest.fixture(scope="module", params=STUDIES, ids=lambda name: name.replace(" ", "_"))
def outputs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str, str]:
    """The folder of a study, what the terminal printed, and the page without pictures,
    which take time.
    """
    settings = dict(STUDIES[request.param])
    folder = tmp_path_factory.mktemp("statements")
    has_missing, options = settings.pop("missing", False), settings.pop("options", [])
    has_outliers = settings.pop("outlying", False)
    arguments = write_table(folder / "table.csv", **settings)
    if has_outliers:  # two of a control, one of a patient
        table = pd.read_csv(folder / "table.csv")
        for row, region, factor in (
            (0, VOLUMES[1], 2.5),
            (0, THICKNESS[2], 0.4),
            (3, VOLUMES[2], 3.0),
        ):
            table.loc[row, region] = factor * table.loc[row, region]
        table.to_csv(folder / "table.csv", index=False)
    if has_missing:
        table = pd.read_csv(folder / "table.csv")
        table.loc[::9, VOLUMES[0]] = np.nan
        table.to_csv(folder / "table.csv", index=False)
    options = [
        "--method",
        "mean-difference",
        *options,
        *(["--site", "scanner"] if "sites" in settings else []),
    ]
    with omit_pictures():
        printed = run(
            "fit",
            *arguments,
            *options,
            "--members",
            "4",
            "--workers",
            "1",
            "--out",
            str(folder),
        )
    return folder, printed, (folder / "report.html").read_text("utf-8")


def list_adjusted(folder: Path) -> dict[str, set[str]]:
    """Return the regions from which each covariate was removed, by the coefficients in
    the model file.
    """
    import rindices as ri

    preprocessing = ri.load(folder / "model.safetensors").preprocessing
    coefficients = preprocessing.residualiser.coefficients
    names = [coding.name for coding in preprocessing.residualiser.codings]
    assert len(names) == len(
        coefficients
    )  # one column for each covariate of these tables
    return {
        name: {
            region
            for region, value in zip(preprocessing.regions, row, strict=True)
            if value
        }
        for name, row in zip(names, coefficients, strict=True)
    }


def test_people_and_scans_are_those_of_the_table(
    outputs: tuple[Path, str, str],
) -> None:
    folder, printed, page = outputs
    table = pd.read_csv(folder / "table.csv")
    counts = table.drop_duplicates("participant_id")["group"].value_counts()
    words = f"{counts['control']} controls and {counts['patient']} patients"
    texts = [
        get_section_text(page, section) for section in ("found", "people", "methods")
    ]
    if (folder / "model.safetensors").exists():
        texts += [
            printed,
            run("model", "show", str(folder / "model.safetensors"), "--card"),
        ]
    for text in texts:
        assert words in text
        assert ("scans" in text.partition(words)[2][:40]) == (len(table) > counts.sum())
    scans = table["group"].value_counts()
    if len(table) > counts.sum():
        for text in (*texts[:3], printed):
            assert f"{words} ({scans['control']} and {scans['patient']} scans)" in text


def test_the_adjustment_is_that_of_the_coefficients(
    outputs: tuple[Path, str, str],
) -> None:
    folder, printed, page = outputs
    texts = [
        printed,
        *(
            get_section_text(page, section)
            for section in ("found", "people", "methods")
        ),
    ]
    if not (folder / "model.safetensors").exists():
        adjusted = {
            "age": {*VOLUMES, *THICKNESS},
            "icv": set(VOLUMES),
        }  # thickness keeps the effect of head size
    else:
        adjusted = list_adjusted(folder)
        texts.append(run("model", "show", str(folder / "model.safetensors"), "--card"))
    n_regions = len([*VOLUMES, *THICKNESS])
    for text in texts:
        if not adjusted:
            assert not re.search(r"icv \(\d+ of|effects of age|adjusted for age", text)
            continue
        assert len(adjusted["age"]) == n_regions
        measures = ", ".join(
            sorted({infer_measure(region) for region in adjusted["icv"]})
        )
        assert (
            f"age (all {n_regions} regions) and icv ({len(adjusted['icv'])} of {n_regions} regions: {measures})"
            in text
        )
    assert ("among people similar in age and icv" in get_text(page)) == bool(adjusted)


def test_figures_of_patterns_are_those_of_the_selection(
    outputs: tuple[Path, str, str],
) -> None:
    folder, printed, page = outputs
    selection = json.loads((folder / "selection.json").read_text())
    texts = [get_section_text(page, "found").replace("\N{MINUS SIGN}", "-"), printed]
    if (folder / "model.safetensors").exists():
        texts.append(run("model", "show", str(folder / "model.safetensors"), "--card"))
    for pattern in selection["patterns"]:
        low, high = pattern["split_half_interval"]
        words = (
            "reproduced in other people"
            if low >= 0.5
            else "not known whether other people reproduce it"
        )
        words = "not reproduced in other people" if high < 0.5 else words
        for text in texts:
            reproducibility = f"split-half reproducibility {pattern['split_half']:.2f} ({low:.2f} to {high:.2f})"
            assert f"{words}: {reproducibility}".lower() in text.lower()
            assert f"cross-fitted AUC {pattern['auc']:.2f}".lower() in text.lower()
            assert (
                f"prevalence above controls' 5 %: {100 * pattern['carriers']:.0f} %"
                in text
            )
    difference = selection["difference"]
    reached = round(difference["p"] * (difference["permutations"] + 1)) - 1
    assert f"in {reached:,} of {difference['permutations']:,} permutations" in texts[0]
    assert (
        f"the same {difference['permutations']:,} random permutations"
        in get_section_text(page, "methods")
    )


def test_only_a_pattern_is_called_a_projection(outputs: tuple[Path, str, str]) -> None:
    folder, _, page = outputs
    finding = json.loads((folder / "selection.json").read_text())["finding"]
    assert ("the pattern was projected onto it" in get_text(page)) == (
        finding == "patterns"
    )


@pytest.mark.parametrize(
    ("interval", "reproduction"),
    [
        ((0.6, 0.9), "reproduced"),
        ((0.1, 0.7), "not_known"),
        ((-0.7, 1.0), "not_known"),
        ((-0.1, 0.3), "not_reproduced"),
    ],
)
def test_reproduction_is_worded_by_its_interval(
    interval: tuple[float, float], reproduction: str
) -> None:
    record = PatternRecord(
        name="r1",
        stability=0.9,
        stability_interval=(0.8, 1.0),
        split_half=sum(interval) / 2,
        split_half_interval=interval,
        carriers=0.3,
    )
    assert record.reproduction == Reproduction(reproduction)
    text = load_statements().reproduction(make_pattern_finding(record, []))
    assert text.endswith(f"({interval[0]:.2f} to {interval[1]:.2f})")
    assert text.startswith(
        {"reproduced": "reproduced", "not_known": "not known"}.get(
            reproduction, "not reproduced"
        )
    )


def read_terminal(printed: str) -> dict[str, list[str]]:
    """Return the facts of a study's terminal output by name; lines without a name
    belong to the one above.
    """
    facts: dict[str, list[str]] = {}
    name = ""
    for line in printed.splitlines():
        match = re.match(r"(\S.*?)  +(\S.*)|\s+(\S.*)", line)
        assert match, line
        name = match[1] or name
        facts.setdefault(name, []).append(match[2] or match[3])
    return facts


def test_named_regions_have_their_own_sign_and_value(
    outputs: tuple[Path, str, str],
) -> None:
    """The largest loss of an autism study was called a gain, with the sign of most of
    the regions named.
    """
    folder, printed, page = outputs
    findings = json.loads((folder / "findings.json").read_text())
    if not findings["n_patterns"]:
        return
    table = pd.read_csv(folder / "patterns.tsv", sep="\t")
    first_screen = get_section_text(page, "found").replace("\N{MINUS SIGN}", "-")
    for pattern in findings["patterns"]:
        rows = table[
            (table["pattern"] == pattern["name"]) & (table["severity"] == 1)
        ].set_index("region")
        certain = rows[(rows["low"] > 0) | (rows["high"] < 0)]
        assert pattern["n_certain"] == len(certain)
        largest = (
            certain["change"]
            .abs()
            .sort_values(ascending=False)
            .index[: len(pattern["regions"])]
        )
        assert [each["region"] for each in pattern["regions"]] == list(largest)
        sentence = read_terminal(printed)[pattern["name"]][0]
        assert sentence in first_screen
        for each in pattern["regions"]:
            assert [each["change"], each["low"], each["high"]] == pytest.approx(
                rows.loc[each["region"], ["change", "low", "high"]].tolist(), abs=1e-4
            )
        named = {each["structure"] for each in pattern["regions"][:1]}
        for group in sentence.split("; "):
            direction, _, rest = group.partition(" in ")
            values = [float(number) for number in re.findall(r"[-+]\d+\.\d+", rest)]
            assert values, sentence
            assert all((value < 0) == (direction == "loss") for value in values)
            assert {f"{value:.2f}" for value in values} <= {
                f"{value:.2f}" for value in certain["change"]
            }
        assert any(structure in sentence for structure in named)


def test_losses_and_gains_are_both_named(tmp_path: Path) -> None:
    arguments = write_table(tmp_path / "table.csv", loss=0.15, gain=True, people=100)
    options = [
        "--method",
        "mean-difference",
        "--members",
        "5",
        "--workers",
        "1",
        "--no-report",
        "--out",
        str(tmp_path),
    ]
    (sentence, *_) = read_terminal(run("fit", *arguments, *options))["r1"]
    assert re.search(r"loss in [^;]*(Hippocampus|hippocampus|amygdala)", sentence), (
        sentence
    )
    assert re.search(r"gain in [^;]*(cuneus|precuneus)", sentence), sentence


def test_p_is_one_number_with_its_error(outputs: tuple[Path, str, str]) -> None:
    folder, printed, page = outputs
    difference = json.loads((folder / "selection.json").read_text())["difference"]
    (fact,) = read_terminal(printed)["difference"]
    (p_value,) = re.findall(r"p = [\d.]+ \(.*\)", fact)
    assert p_value.startswith(f"p = {difference['p']:.3f} (")
    for section in (
        "found",
        "trust" if (folder / "model.safetensors").exists() else "test",
        "methods",
    ):
        assert p_value in get_section_text(page, section)
    assert get_section_text(page, "found").count("p = ") == 1 + get_section_text(
        page, "found"
    ).count("(p = ")


def test_outlying_measurements_are_counted_by_group(
    outputs: tuple[Path, str, str],
) -> None:
    folder, printed, page = outputs
    path = folder / "outlying_measurements.tsv"
    if not path.exists() or "outlying" not in read_terminal(printed):
        return
    cells = pd.read_csv(path, sep="\t")
    groups = cells["participant_id"].map(
        pd.read_csv(folder / "table.csv").set_index("participant_id")["group"]
    )
    (fact,) = read_terminal(printed)["outlying"]
    numbers = [int(number) for number in re.findall(r"\d+", fact)]
    people = cells.assign(group=groups).groupby("group")["participant_id"].nunique()
    counts = groups.value_counts()
    expected = [len(cells), cells["participant_id"].nunique()]
    for group in ("control", "patient"):
        expected += [int(counts.get(group, 0)), int(people.get(group, 0))]
    assert numbers == expected
    assert fact.split(":")[1].strip() in get_section_text(page, "people")


def test_what_is_left_of_covariates_is_said(outputs: tuple[Path, str, str]) -> None:
    folder, printed, _ = outputs
    if not (folder / "model.safetensors").exists():
        return
    table = (
        pd.read_csv(folder / "table.csv")
        .drop_duplicates("participant_id")
        .set_index("participant_id")
    )
    indices = pd.read_csv(folder / "r_indices.tsv", sep="\t").set_index(
        "participant_id"
    )
    patients = indices[indices["group"] == "patient"].dropna(subset="r1")
    for name, facts in read_terminal(printed).items():
        if re.fullmatch(r"r\d", name):
            rho = spearmanr(patients[name], table.loc[patients.index, "age"])
            p = "< 0.001" if rho.pvalue < 0.001 else f"= {format_p_value(rho.pvalue)}"
            assert f"age {rho.statistic:+.2f} (p {p})" in facts[2]
