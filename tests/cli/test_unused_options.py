"""Every option of fit is honoured or refused by name, in every way in which a study can
be run.
"""

import re
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.errors import RindicesError
from tests.sums.sites import simulate_people

VALUES: dict[str, list[str]] = {
    "--participants": ["p.tsv"],
    "--group": ["g"],
    "--controls": ["CN"],
    "--patients": ["AD"],
    "--covariates": ["age,icv"],
    "--site": ["scanner"],
    "--id": ["a"],
    "--participants-id": ["a"],
    "--session": ["s"],
    "--exclude": ["x"],
    "--exclude-people": ["sub-1"],
    "--include": ["ventricles"],
    "--measure": ["volume"],
    "--missing-codes": ["-9"],
    "--on-missing": ["drop"],
    "--on-outlier": ["keep"],
    "--on-suspect": ["keep"],
    "--impute-covariates": [],
    "--leave-out-site": ["a"],
    "--harmonise": ["controls"],
    "--harmonise-to": ["a"],
    "--adjust": ["linear"],
    "--age-curve": ["auto"],
    "--icv-for": ["all"],
    "--reference": ["muse"],
    "--visits": ["all"],
    "--patterns": ["2"],
    "--seed": ["3"],
    "--dry-run": [],
    "--method": ["trajectories"],
    "--members": ["10"],
    "--max-steps": ["9"],
    "--device": ["cpu"],
    "--orthogonality": ["0.1"],
    "--engine": ["dask"],
    "--workers": ["2"],
    "--scheduler": ["tcp://a:1"],
    "--in-parts": [],
    "--no-report": [],
    "--show-people": [],
    "--json": [],
}
"""Options of fit with a value."""
ALONE = {
    "--participants-id",
    "--scheduler",
    "--max-steps",
    "--device",
    "--orthogonality",
}
"""Options that need another one to have an effect."""
PAPER = {"--max-steps", "--device", "--orthogonality"}
ONE_PROCESS = {"--visits", "--engine", "--workers", "--patterns"}
IN_PARTS = {
    "--harmonise",
    "--harmonise-to",
    "--site",
    "--reference",
    "--visits",
    "--impute-covariates",
    "--dry-run",
    "--no-report",
    "--show-people",
}
WAYS: dict[str, set[str]] = {
    "": ALONE,
    "--participants p.tsv": ALONE - {"--participants-id"},
    "--method contrastive": ALONE | {"--visits", "--in-parts"},
    "--method mean-difference": ALONE | ONE_PROCESS,
    "--method surreal-gan": (ALONE - PAPER) | {"--reference", "--visits", "--in-parts"},
    "--engine dask": ALONE - {"--scheduler"},
    "--engine dask --scheduler tcp://b:1": (ALONE - {"--scheduler"}) | {"--workers"},
    "--engine slurm": ALONE | {"--in-parts"},
    "--covariates none": ALONE | {"--impute-covariates", "--icv-for", "--age-curve"},
    "--adjust none": ALONE | {"--icv-for", "--age-curve"},
    "--harmonise none": ALONE | {"--harmonise-to"},
    "--dry-run": ALONE | {"--in-parts"},
    "--no-report": ALONE | {"--in-parts", "--show-people"},
    "--show-people": ALONE | {"--in-parts", "--no-report"},
    "--in-parts": ALONE | IN_PARTS,
    "--in-parts --harmonise none": ALONE | (IN_PARTS - {"--site"}),
    "--in-parts --method mean-difference": ALONE | IN_PARTS | {"--patterns"},
    "--in-parts --engine dask --scheduler tcp://b:1": (ALONE - {"--scheduler"})
    | IN_PARTS
    | {"--workers"},
}
"""Ways to run a study, and the options that are refused there."""
ENDS = (
    "missing.csv: there is no such file",
    "no scheduler answers",
    "needs the program sbatch",
)
"""Messages of a study whose options are all honoured, without a table, a scheduler and
Slurm.
"""


def invoke(*words: object) -> tuple[int, str]:
    """Return the exit code and the message of a command, without the frame
    around it.
    """
    done = CliRunner().invoke(app, [str(word) for word in words])
    text = (
        f"{done.output} {done.exception}" if done.exception is not None else done.output
    )
    return done.exit_code, " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


@pytest.fixture(scope="module")
def program() -> typer.core.TyperGroup:
    """The commands, which are built once, since that takes longer than to refuse an
    option.
    """
    built = typer.main.get_command(app)
    assert isinstance(built, typer.core.TyperGroup)
    return built


def explain_refusal(program: typer.core.TyperGroup, *words: str) -> str:
    """Return why a command ends before it does anything."""
    with pytest.raises((RindicesError, typer.BadParameter)) as caught:
        program.main(list(words), standalone_mode=False)
    return (
        caught.value.format_message()
        if isinstance(caught.value, typer.BadParameter)
        else str(caught.value)
    )


def test_every_option_of_fit_is_in_the_table(program: typer.core.TyperGroup) -> None:
    command = program.commands["fit"]
    options = {
        name
        for each in command.get_params(typer.Context(command))
        for name in each.opts
        if name.startswith("--")
    }
    assert options - {"--help", "--out", "--recipe"} == set(
        VALUES
    )  # --recipe is the old name of --method


@pytest.mark.parametrize("way", list(WAYS))
def test_an_option_without_effect_is_refused_by_its_name(
    program: typer.core.TyperGroup,
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table is missing, so that what is not refused ends there."""
    monkeypatch.setattr("rindices.engine.cluster._CONNECT_TIMEOUT", 0.01)
    table, out, refused = str(tmp_path / "missing.csv"), str(tmp_path / "out"), set()
    for option, value in VALUES.items():
        if option in way.split():
            continue
        message = explain_refusal(
            program, "fit", table, *way.split(), option, *value, "--out", out
        )
        if re.search(r"(--[a-z-]+):? has no effect", message):
            assert set(re.findall(r"(--[a-z-]+):? has no effect", message)) & {
                option,
                *way.split(),
            }
            refused.add(option)
        else:
            assert any(end in message for end in ENDS), (option, message)
    assert refused == WAYS[way] - set(way.split())
    assert not Path(out).exists()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A parquet file of 350 people with 12 regions."""
    cohort, path = (
        simulate_people(),
        tmp_path_factory.mktemp("people") / "people.parquet",
    )
    pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1).to_parquet(
        path, index=False
    )
    return path


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--visits mean", "--visits mean has no effect: nobody has several visits"),
        ("--visits all", "--visits all has no effect: nobody has several visits"),
        (
            "--icv-for all",
            "--icv-for all has no effect: all regions are adjusted for head size without it",
        ),
        (
            "--icv-for all --covariates age,sex",
            "--icv-for all has no effect: no head size is a covariate",
        ),
        ("--harmonise controls", "needs the site of each person"),
        ("--leave-out-site a", "there is no site 'a' to leave out"),
        ("--exclude-people nobody", "1 id to leave out that nobody has: nobody"),
        (
            "--workers 0",
            "--workers: 0 workers cannot work: give their number, or -1 for all cores",
        ),
    ],
)
@pytest.mark.parametrize("command", ["fit", "check"])
def test_an_option_that_needs_something_in_the_table_says_so(
    command: str, words: str, reason: str, table: Path, tmp_path: Path
) -> None:
    if command == "check" and "--workers" in words:
        return
    out = ["--out", tmp_path / "out"] if command == "fit" else []
    code, message = invoke(command, table, "--group", "group", *words.split(), *out)
    assert code in (1, 2)
    assert reason in message
    assert not (tmp_path / "out").exists()
