"""Features of heart and blood go through all commands, and no output speaks
of brains.
"""

import base64
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from benchmarks.suites.cases import simulate_transformed
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.test_wording import BRAIN_WORDS

STABLE_KEYS = {
    "regions",
    "region",
    "n_regions",
    "region_names",
    "scans",
    "icv",
}  # names of the contract that stay in JSON
OPTIONS = ["--group", "group", "--covariates", "age,sex", "--measure", "any"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all outputs: of fit, report, apply (to people of whom some are
    novel), associate and the card.
    """
    folder = tmp_path_factory.mktemp("organs")
    write_cohort(simulate_transformed("organs", 0), folder)
    table, people = (
        str(folder / "features.csv"),
        ["--participants", str(folder / "participants.tsv")],
    )
    features = pd.read_csv(table).iloc[::6]
    features.to_csv(table, index=False)
    features.iloc[:40].assign(heart_rate=lambda frame: 3 * frame["heart_rate"]).to_csv(
        folder / "new.csv", index=False
    )
    clinical = pd.DataFrame(
        {"participant_id": features["participant_id"], "steps": range(len(features))}
    )
    clinical.to_csv(folder / "clinical.csv", index=False)
    study, model = str(folder / "study"), str(folder / "study" / "model.safetensors")
    commands = {
        "check": ["check", table, *people, *OPTIONS],
        "check_json": ["check", table, *people, *OPTIONS, "--json"],
        "fit": [
            "fit",
            table,
            *people,
            *OPTIONS,
            "--method",
            "contrastive",
            "--patterns",
            "1",
            "--members",
            "2",
        ],
        "apply": [
            "apply",
            model,
            str(folder / "new.csv"),
            *people,
            "--out",
            str(folder / "new.tsv"),
        ],
        "associate": [
            "associate",
            f"{study}/r_indices.tsv",
            str(folder / "clinical.csv"),
            "--out",
            study,
        ],
        "report": ["report", study, "--checklist"],
        "show": ["model", "show", model],
        "card": ["model", "show", model, "--card"],
        "show_json": ["model", "show", model, "--json"],
    }
    commands["fit"] += ["--workers", "1", "--no-report", "--out", study]
    for name, arguments in commands.items():
        outcome = CliRunner().invoke(app, arguments)
        assert outcome.exit_code == 0, outcome.output
        (folder / f"{name}.out").write_text(outcome.stdout + outcome.stderr, "utf-8")
    return folder


def collect_texts(path: Path) -> str:
    """Return what a reader sees of a file: text of a page and its tables, values of
    JSON.
    """
    text = path.read_text("utf-8")
    if path.suffix == ".html":
        tables = [
            base64.b64decode(data).decode()
            for data in re.findall(r"text/csv;base64,([\w+/=]+)", text)
        ]
        text = re.sub(
            r"<(style|script).*?</\1>|base64,[\w+/=]+|class=\"[^\"]*\"",
            "",
            text,
            flags=re.DOTALL,
        )
        return "\n".join([text, *tables])
    if path.suffix == ".json" or path.stem.endswith("_json"):
        return "\n".join(
            text
            for text in list_json_texts(json.loads(text))
            if text not in STABLE_KEYS
        )
    return text


def list_json_texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [
            text
            for key, item in value.items()
            for text in (key, *list_json_texts(item))
        ]
    if isinstance(value, list):
        return [text for item in value for text in list_json_texts(item)]
    return [str(value)]


def test_no_output_speaks_of_brains(outputs: Path) -> None:
    paths = [*outputs.glob("*.*"), *(outputs / "study").glob("*.*")]
    paths = [path for path in paths if path.suffix not in (".safetensors", ".npz")]
    assert {
        "report.html",
        "study.toml",
        "effects.tsv",
        "patterns.json",
        "new.json",
        "fit.out",
        "checklist.md",
    } <= {p.name for p in paths}
    found = {
        path.name: match[0]
        for path in paths
        if (match := BRAIN_WORDS.search(collect_texts(path)))
    }
    assert not found


def test_tables_have_a_column_of_features(outputs: Path) -> None:
    for name in ("effects.tsv", "patterns.tsv"):
        table = pd.read_csv(outputs / "study" / name, sep="\t")
        assert {"nt_probnp", "npx_il6"} <= set(table["feature"])


def test_the_report_shows_ranked_bars_without_pictures(outputs: Path) -> None:
    page = (outputs / "study" / "report.html").read_text("utf-8")
    assert "Bars show the change of each feature at full severity" in page
    assert 'class="views' not in page
    assert "pictures" not in page


def test_people_with_an_unusual_feature_are_novel(outputs: Path) -> None:
    table = pd.read_csv(outputs / "new.tsv", sep="\t")
    assert table["outside_training_range"].mean() > 0.9
    assert table["outside_because"].str.contains("heart_rate").mean() > 0.9


def test_a_study_of_features_names_its_table(outputs: Path) -> None:
    text = (outputs / "study" / "study.toml").read_text("utf-8")
    assert 'table = ["' in text
    outcome = CliRunner().invoke(
        app, ["check", str(outputs / "study" / "study.toml"), "--json"]
    )
    assert json.loads(outcome.stdout)["measures"] == {"any": 48}
