"""A table of three regions with repeat visits goes through fit, apply and change at the
first try.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app

N_PEOPLE, N_VISITS = 150, 373


def write_visits(path: Path) -> None:
    """Write visits of 75 people whose disease progresses and of 75 others, with the
    columns of a public study.
    """
    rng = np.random.default_rng(0)
    visits = np.full(N_PEOPLE, 2)
    visits[: N_VISITS - 2 * N_PEOPLE] += 1
    person = np.repeat(rng.permutation(N_PEOPLE), visits)
    number = np.concatenate([np.arange(count) for count in visits])
    is_ill = person % 2
    delay = number * rng.integers(400, 900, N_VISITS) // 1
    severity = is_ill * np.clip(
        rng.uniform(size=N_PEOPLE)[person] + 0.08 * delay / 365, 0, 1
    )
    age = rng.uniform(62, 88, N_PEOPLE)[person] + delay / 365.25
    anatomy = rng.normal(0, 0.08, (N_PEOPLE, 3))[person] + rng.normal(
        0, 0.02, (N_VISITS, 3)
    )
    regions = [3500, 24000, 15000] * np.exp(
        anatomy - np.outer(severity, [0.35, 0.3, 0.25]) - 0.005 * (age[:, None] - 75)
    )
    ids = [f"OAS2_{one:04d}" for one in person]
    frame = pd.DataFrame(
        {
            "Subject ID": ids,
            "MRI ID": [f"{a}_MR{b + 1}" for a, b in zip(ids, number, strict=True)],
        }
    )
    frame = frame.assign(
        Group=np.where(is_ill, "Demented", "Nondemented"), Visit=number + 1
    )
    frame["MR Delay"] = delay
    frame["M/F"] = rng.choice(["F", "M"], N_PEOPLE)[person]
    frame["Age"] = age.round(1)
    frame["eTIV"] = rng.normal(1480, 150, N_PEOPLE)[person].round()
    frame[["hippocampus", "temporal_lobe", "parietal_lobe"]] = regions.round(1)
    frame.to_csv(path, index=False)


def call(*arguments: object) -> dict[str, object]:
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def read_change_section(out: Path) -> str:
    page = (out / "report.html").read_text("utf-8")
    return page.partition('id="change"')[2].partition("</section>")[0]


GROUPS = ["--group", "Group", "--controls", "Nondemented", "--patients", "Demented"]


@pytest.mark.parametrize(
    "method",
    [
        pytest.param([], marks=pytest.mark.slow),
        pytest.param(
            ["--patterns", "1"], marks=pytest.mark.slow
        ),  # as docs/guides/visits.md
        ["--method", "contrastive", "--patterns", "1", "--workers", "1"],
    ],
)
def test_three_regions_of_373_visits(tmp_path: Path, method: list[str]) -> None:
    table, out = tmp_path / "visits.csv", tmp_path / "fit"
    model, indices = out / "model.safetensors", tmp_path / "r.tsv"
    write_visits(table)
    fitted = call(
        "fit",
        table,
        *GROUPS,
        "--covariates",
        "Age,M/F,eTIV",
        *method,
        "--members",
        2,
        "--no-report",
        "--out",
        out,
    )
    assert fitted["n_patterns"] == 1
    assert fitted["visits"] in (
        (None,) if "--method" in method else ("mean", "coupled")
    )
    assert (
        call("apply", model, table, "--workers", 1, "--out", indices)["visits"]
        == N_VISITS
    )
    options = [*GROUPS, "--time", "Age", "--covariates", "Age,M/F", "--out", out]
    value = call("change", indices, "--participants", table, *options)
    assert (value["people"], value["visits"]) == (N_PEOPLE, N_VISITS)
    row = value["groups"][0]  # type: ignore[index]
    assert (row["controls"], row["patients"], row["model"]) == (75, 75, "mixed model")
    assert row["difference"] > 0
    assert row["p"] < 0.001
    call("report", out)
    section = read_change_section(out)
    assert f"{row['patients_per_year']:+.3f}" in section
    assert section.count('<tr class="sure"') == 1
    assert "data:image/png;base64," not in section  # visits of single people
    call("report", out, "--show-people")
    assert "data:image/png;base64," in read_change_section(out)


@pytest.mark.slow
def test_visits_to_learn_from_are_chosen(tmp_path: Path) -> None:
    table = tmp_path / "visits.csv"
    write_visits(table)
    fit = [
        "fit",
        str(table),
        *GROUPS,
        "--covariates",
        "Age,M/F,eTIV",
        "--method",
        "contrastive",
        "--patterns",
        "1",
    ]
    written = {}
    for visits in ("first", "mean"):
        out = tmp_path / visits
        done = CliRunner().invoke(
            app, [*fit, "--members", "2", "--visits", visits, "--out", str(out)]
        )
        assert done.exit_code == 0, done.output
        said = (
            "fit uses the first session of each person"
            if visits == "first"
            else "learnt from 373 scans of 150 people"
        )
        assert said in done.stderr
        assert f'visits = "{visits}"' in (out / "study.toml").read_text("utf-8")
        written[visits] = pd.read_csv(out / "r_indices.tsv", sep="\t")
    both = written["first"].merge(written["mean"], on=["participant_id", "session_id"])
    assert len(both) == N_PEOPLE  # R-indices are those of the first visits in both
    assert 0.9 < both["r1_x"].corr(both["r1_y"]) < 1
    done = CliRunner().invoke(
        app, [*fit, "--visits", "all", "--out", str(tmp_path / "no")]
    )
    assert done.exit_code == 2
    message = " ".join(done.output.replace("│", " ").split())
    assert "--visits has no effect: the method contrastive does not use" in message
    done = CliRunner().invoke(
        app, [*fit, "--visits", "last", "--out", str(tmp_path / "no")]
    )
    assert done.exit_code == 2
