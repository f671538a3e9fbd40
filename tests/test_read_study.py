"""The reader of the documented study finds every kind of false statement, and none in a
true study.
"""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scripts.read_page import read_page
from scripts.read_study import (
    compare_picture,
    compute_auc,
    load_study,
    read_study,
    score_ranks,
)

ROOT = Path(__file__).parents[1]
STRUCTURES = (
    "Hippocampus",
    "Amygdala",
    "TemporalPole",
    "Precuneus",
    "AngularGyrus",
    "Cuneus",
)
SEVERITIES = (0.25, 0.5, 0.75, 1.0)
WORDS = {"AngularGyrus": "angular gyrus", "TemporalPole": "temporal pole"}


def name_in_words(label: str) -> str:
    structure, side = label.split("_")
    return f"{WORDS.get(structure, structure.lower())}, {'left' if side == 'L' else 'right'}"


def make_tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Write the tables of a study with two straight patterns, and return them."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"participant_id": [f"sub-{k:03d}" for k in range(100)]})
    people["group"] = ["control"] * 40 + ["patient"] * 60
    people["sex"] = np.where(rng.random(100) < 0.5, "F", "M")
    truth = pd.DataFrame(rng.uniform(0, 1, (60, 2)), columns=["s1", "s2"])
    truth.insert(0, "participant_id", people["participant_id"][40:].to_numpy())
    indices = people[["participant_id", "group"]].copy()
    for k in (1, 2):
        patients = np.clip(truth[f"s{k}"] + rng.normal(0, 0.1, 60), 0.05, 0.95)
        indices[f"r{k}"] = np.concatenate([rng.uniform(0.05, 0.2, 40), patients])
    labels = [f"{structure}_{side}" for structure in STRUCTURES for side in "RL"]
    sizes = {
        "r1": [-4.0, -3.9, -3.0, -2.9, 2.0, 1.9],
        "r2": [-0.5, -0.4, 0.9, 1.0, -3.0, -2.0],
    }
    rows = [
        (
            name,
            severity,
            f"MUSE_{k}",
            label,
            size * severity,
            size * severity - 0.3,
            size * severity + 0.3,
        )
        for name in sizes
        for severity in SEVERITIES
        for k, (label, size) in enumerate(
            zip(
                labels,
                np.repeat(sizes[name], 2) + rng.uniform(0, 0.05, 12),
                strict=True,
            )
        )
    ]
    patterns = pd.DataFrame(
        rows,
        columns=["pattern", "severity", "region", "label", "change", "low", "high"],
    )
    effects = pd.DataFrame(
        {"region": [f"MUSE_{k}" for k in range(12)], "d": np.linspace(-2, 1, 12)}
    )
    effects = effects.assign(
        low=effects["d"] - 0.2, high=effects["d"] + 0.2, q=[0.001] * 7 + [0.4] * 5
    )
    new = pd.DataFrame(
        {
            "participant_id": [f"new-{k:02d}" for k in range(20)],
            "r1": np.linspace(0.1, 0.9, 20),
        }
    )
    new["r2"] = new["r1"].to_numpy()[::-1]
    new_truth = new[8:].rename(columns={"r1": "s1", "r2": "s2"})
    tables = {
        "demo/participants.tsv": people,
        "demo/truth.tsv": truth,
        "results/r_indices.tsv": indices,
    }
    tables |= {
        "results/patterns.tsv": patterns,
        "results/effects.tsv": effects,
        "new.tsv": new,
    }
    tables |= {
        "demo/new_truth.tsv": new_truth,
        "demo/new_people.csv": new[["participant_id"]],
    }
    for name, table in tables.items():
        (folder / name).parent.mkdir(exist_ok=True)
        table.to_csv(
            folder / name, sep="," if name.endswith("csv") else "\t", index=False
        )
    return tables


def make_selection(tables: dict[str, pd.DataFrame]) -> dict[str, object]:
    indices, records = tables["results/r_indices.tsv"], []
    is_patient = indices["group"] == "patient"
    for name in ("r1", "r2"):
        auc = compute_auc(indices.loc[is_patient, name], indices.loc[~is_patient, name])
        records.append(
            {
                "name": name,
                "split_half": 0.912,
                "split_half_interval": [0.871, 0.953],
                "auc": auc,
            }
        )
    grid = [
        {"setting": {"n_patterns": number}, "members": {"trained": 10}}
        for number in (1, 2)
    ]
    return {
        "chosen": {
            "held_out": {"shape": "straight", "straight": -45.5583, "curved": -45.5990}
        },
        "grid": grid,
        "patterns": records,
        "difference": {"p": 0.004975, "p_error": 0.00496, "permutations": 200},
        "number_of_patterns": {"test": {"curve": [{"p": 0.0167}]}},
        "n_patterns": 2,
        "shape": "straight",
    }


def make_page(tables: dict[str, pd.DataFrame], figures: dict[str, str]) -> str:
    """Return a report with statements of all kinds."""
    patterns = tables["results/patterns.tsv"]
    articles = []
    for name, kind, regions in (
        ("r1", "loss", "hippocampus, amygdala and temporal pole"),
        ("r2", "loss", "angular gyrus and cuneus"),
    ):
        rows = patterns[patterns["pattern"] == name]
        full = rows[rows["severity"] == 1]
        bars = "".join(
            f"<tr><th>{name_in_words(row.label)}</th><td>{row.change:+.2f} ({row.low:.2f} to {row.high:.2f})</td></tr>"
            for row in full.itertuples()
        )
        course = "".join(
            f"<tr><th>{name_in_words(label)}</th>{''.join(f'<td>{value:.2f}</td>' for value in group['change'])}</tr>"
            for label, group in rows.groupby("label")
        )
        n_sure = int(((full["low"] > 0) | (full["high"] < 0)).sum())
        articles.append(
            f"<article id='{name}'><h3>{name}: {kind} mainly in {regions}</h3><p>{figures[name]}</p>"
            f"<p>in {n_sure} of 12 regions the 95 % interval excludes zero</p><table>"
            f"<tr><th>region</th><th>change</th></tr>{bars}</table><table><tr><th>region at severity</th>"
            f"<th>0.25</th><th>0.5</th><th>0.75</th><th>1</th></tr>{course}</table></article>"
        )
    sexes = "".join(
        f"<tr><th>sex: {sex}</th>{''.join(f'<td>{int(number)} (1 %)</td>' for number in row)}</tr>"
        for sex, row in pd.crosstab(
            tables["demo/participants.tsv"]["sex"],
            tables["demo/participants.tsv"]["group"],
        ).iterrows()
        for row in [row]
    )
    return f"""<html><head><style>p {{}}</style></head><body><h1>R-indices of 40 controls and 60 patients</h1>
<nav><a href='#found'>Answer</a><a href='#r1'>Pattern</a><a href='#people'>People</a></nav><main>
<section id='found'><h2>What was found</h2><p>Two patterns distinguish patients from controls (p = 0.005). More.</p>
<p>40 controls and 60 patients; 12 regions. 7 of 12 regions differ at a false discovery rate of 5 %.</p>
<p>Labels were shuffled 200 times (p = 0.005, Monte Carlo error 0.005).</p>
<p>2 patterns (straight) were chosen. They are more likely (-45.558) than curved ones (-45.599).</p>
<p>1 and 2 patterns were tried with 10 ensemble members each.</p></section>
<section id='people'><table><tr><th>sex</th><th>controls</th><th>patients</th></tr>{sexes}</table>
<p>3 of 100 people are unlike the others.</p></section>
{"".join(articles)}</main><script>var p = 0.3;</script></body></html>"""


def describe_pattern(tables: dict[str, pd.DataFrame], name: str) -> list[str]:
    """Return the lines of a pattern on the terminal, below its first one."""
    patterns, indices = tables["results/patterns.tsv"], tables["results/r_indices.tsv"]
    rows = patterns[
        (patterns["pattern"] == name) & (patterns["severity"] == 1)
    ].set_index("label")["change"]
    structure = "Hippocampus" if name == "r1" else "AngularGyrus"
    words = WORDS.get(structure, structure.lower())
    patients = indices.assign(sex=tables["demo/participants.tsv"]["sex"])[
        indices["group"] == "patient"
    ]
    left = stats.spearmanr(patients["sex"] == "M", patients[name])
    return [
        f"              loss in {words} (right {rows[f'{structure}_R']:.2f}, left {rows[f'{structure}_L']:.2f})",
        f"              rank correlation in patients: sex (M) {left.statistic:+.2f} (p = {left.pvalue:.2f})",
    ]


def describe_controls(controls: pd.DataFrame) -> str:
    ranges = {name: controls[name].quantile([0.25, 0.75]) for name in ("r1", "r2")}
    return ", ".join(
        f"{low:.2f} to {high:.2f} in {name}" for name, (low, high) in ranges.items()
    )


@pytest.fixture(scope="module")
def true_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a true study."""
    tmp_path = tmp_path_factory.mktemp("study")
    tables = make_tables(tmp_path)
    selection = make_selection(tables)
    indices, figures = tables["results/r_indices.tsv"], {}
    controls, patients = (
        indices[indices["group"] == group] for group in ("control", "patient")
    )
    for record in selection["patterns"]:  # type: ignore[attr-defined]
        name = record["name"]
        share = ((patients[name] > controls[name].quantile(0.95)).mean() - 0.05) / 0.95
        figures[name] = (
            f"Reproduced in other people: 0.91 (0.87 to 0.95); AUC in held-out people {record['auc']:.2f}"
        )
        figures[name] += f"; carried by {100 * share:.0f} % of patients"
    score = score_ranks(tables["demo/truth.tsv"], indices)
    terminal = [
        "people        40 controls and 60 patients",
        "difference    patients differ from controls, p = 0.005 (Monte Carlo error 0.005)",
        "patterns      2 (likelihood; test: 2)",
        "shape         straight",
        *(
            line
            for name, text in figures.items()
            for line in [f"{name}            {text}", *describe_pattern(tables, name)]
        ),
        f"scale         half of the study's controls have {describe_controls(controls)}",
        "20 people written to new.tsv",
        f"pattern-c-index {score:.3f} over 60 people",
    ]
    (tmp_path / "terminal.txt").write_text("\n".join(terminal))
    for name in ("results/selection.json", "study.json"):
        (tmp_path / name).write_text(json.dumps(selection))
    (tmp_path / "results" / "report.html").write_text(make_page(tables, figures))
    return tmp_path


@pytest.fixture
def folder(true_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to alter."""
    return Path(shutil.copytree(true_folder, tmp_path / "study"))


def test_a_true_study_has_no_fault(folder: Path) -> None:
    faults, counts = read_study(
        load_study(folder, "`simulate` invents 40 controls and 60 patients.")
    )
    assert faults == []
    assert counts["values of regions"] == 24
    assert counts["changes along severity"] == 96


def replace_text(name: str, old: str, new: str) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return replace


PAGE, TERMINAL = "results/report.html", "terminal.txt"
LATE = "</section>\n<section id='people'>"
ALTERATIONS = {
    "directions of regions": replace_text(PAGE, "r1: loss mainly", "r1: gain mainly"),
    "changes more than a region": replace_text(
        PAGE, "hippocampus, amygdala and temporal pole", "precuneus and cuneus"
    ),
    "values of regions": replace_text(PAGE, "<td>-3.9", "<td>+3.9"),
    "changes along severity": replace_text(
        PAGE,
        "<th>1</th></tr><tr><th>amygdala, left</th><td>-",
        "<th>1</th></tr><tr><th>amygdala, left</th><td>",
    ),
    "shape (terminal)": replace_text(TERMINAL, "straight", "curved"),
    "shape (report": replace_text(
        PAGE, "(straight) were chosen", "(curved) were chosen"
    ),
    "trajectories.tsv is written": lambda folder: (
        folder / "results/trajectories.tsv"
    ).write_text("pattern\tlabel\tonset\tonset_low\tonset_high\n"),
    "at different severities": replace_text(
        PAGE, LATE, f"<p>Its regions change at different severities.</p>{LATE}"
    ),
    "all onsets are equal": replace_text(
        PAGE,
        LATE,
        "<h3>Order of r1</h3><table><tr><th>region</th><th>onset</th></tr>"
        + "<tr><td>here</td><td>0.29 (0.2 to 0.4)</td></tr>" * 3
        + f"</table>{LATE}",
    ),
    "likelihoods": replace_text(
        PAGE,
        "(-45.558) than curved ones (-45.599)",
        "(-45.599) than curved ones (-45.558)",
    ),
    "the likelihood of curved": replace_text(
        PAGE, "than curved ones (-45.599)", "than curved ones (-45.899)"
    ),
    "correlations with covariates": replace_text(TERMINAL, "(M) ", "(F) "),
    "scale (terminal)": replace_text(TERMINAL, "controls have 0.", "controls have 0.4"),
    "Hippocampus_R changes": replace_text(
        TERMINAL, "hippocampus (right -3", "hippocampus (right -5"
    ),
    "Hippocampus_R, Hippocampus_L": replace_text(
        TERMINAL, "hippocampus (right -3", "hippocampus (left -3"
    ),
    "p value (report": replace_text(
        PAGE, "controls (p = 0.005)", "controls (p = 0.017)"
    ),
    "p value (terminal)": replace_text(TERMINAL, "p = 0.005", "p = 0.05"),
    "not explained": replace_text(PAGE, LATE, f"<svg><text>p 0.017</text></svg>{LATE}"),
    "numbers of people (report)": replace_text(
        PAGE, "R-indices of 40", "R-indices of 80"
    ),
    "numbers of people (terminal)": replace_text(
        TERMINAL, "60 patients", "59 patients"
    ),
    "100 people": replace_text(PAGE, "of 100 people", "of 165 people"),
    "counts of regions": replace_text(
        PAGE, "7 of 12 regions differ", "8 of 12 regions differ"
    ),
    "groups of people": replace_text(PAGE, "sex: F</th><td>", "sex: F</th><td>1"),
    "outlying measurements": replace_text(
        PAGE, LATE, f"<p>2 cells of 2 people do not fit.</p>{LATE}"
    ),
    "AUC of r1": replace_text(TERMINAL, "held-out people 0.8", "held-out people 0.5"),
    "patients have r1": replace_text(TERMINAL, "carried by ", "carried by 1"),
    "figures of patterns (report": replace_text(
        PAGE, "Reproduced in other", "Not reproduced in other"
    ),
    "members": replace_text("results/selection.json", '"trained": 10', '"trained": 5'),
    "number of patterns (report)": replace_text(PAGE, "Two patterns", "Three patterns"),
    "number of patterns (JSON)": replace_text(
        "study.json", '"n_patterns": 2, "shape"', '"n_patterns": 3, "shape"'
    ),
    "new people (new.tsv)": replace_text("new.tsv", "new-01", "sub-001"),
    "accuracy (terminal)": replace_text(
        TERMINAL, "pattern-c-index 0.8", "pattern-c-index 0.7"
    ),
    "menu": replace_text(PAGE, "href='#people'", "href='#persons'"),
    "only 0 statements": replace_text(PAGE, "<nav>", "<nav></nav><nav>"),
}


@pytest.mark.parametrize("fault", ALTERATIONS)
def test_a_false_statement_is_found(folder: Path, fault: str) -> None:
    ALTERATIONS[fault](folder)
    faults, _ = read_study(load_study(folder))
    assert any(fault in each for each in faults), faults


@pytest.mark.parametrize(
    ("instructions", "is_true"),
    [
        ("`simulate` invents 40 controls and 60 patients.", True),
        ("`simulate` invents 492 controls and 900 patients.", False),
        ("`score` says that 0.55 of the pairs are in the right order.", False),
        ("In this study most controls are at 0.05 to 0.20.", True),
        ("In this study most controls are at 0.00 to 0.05.", False),
        ("pip install '.[brain]'", False),  # the page has no pictures
    ],
)
def test_numbers_in_the_instructions_are_those_of_the_study(
    folder: Path, instructions: str, is_true: bool
) -> None:
    faults, _ = read_study(load_study(folder, instructions))
    assert (faults == []) == is_true


def test_a_page_differs_from_its_picture_by_menu_and_first_sentence(
    folder: Path,
) -> None:
    page, text = read_page(folder / PAGE), folder / "report.txt"
    text.write_text(page.describe())
    assert text.read_text() == (
        "Menu: Answer, Pattern, People\nFirst sentence: Two patterns distinguish patients from controls (p = 0.005).\n"
    )
    assert compare_picture(page, text) == ""
    replace_text(PAGE, "Answer", "Result")(folder)
    assert "draw it again" in compare_picture(read_page(folder / PAGE), text)
    assert "draw it again" in compare_picture(page, folder / "absent.txt")


def test_readme_and_first_page_are_run_word_for_word() -> None:
    """Installation alone is replaced: no command is shortened or left out."""
    spec = importlib.util.spec_from_file_location("blocks", ROOT / ".ci" / "blocks.py")
    assert spec is not None
    assert spec.loader is not None
    blocks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(blocks)
    assert {page.name for page in blocks.DOCUMENTED} == {"README.md", "index.md"}
    for page in blocks.DOCUMENTED:
        for block in blocks.list_blocks(page):
            kept = [
                line
                for line in block.text.splitlines()
                if not line.startswith("pip install")
            ]
            assert blocks.prepare_code(block).splitlines() == kept
            assert block.run
    assert blocks.list_extras(ROOT / "README.md") == {"brain"}
