"""Importing is cheap: nothing heavy until it is needed, and torch for the GAN of the
paper alone.
"""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import rindices
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions

HEAVY = ("torch", "numpy", "pandas", "scipy", "sklearn", "matplotlib", "distributed")
SMALL_APP = "import typer; app = typer.Typer(); app.command('a')(lambda: 0); app.command('b')(lambda: 0); app()"
RUN = "from rindices.cli.main import run; run()"
HIDE_TORCH = """
from importlib.machinery import PathFinder

find_all = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "torch" else find_all(name, *rest)
"""
RUN_ALL = """
import json, sys
from rindices.cli.main import run

for arguments in json.loads(sys.argv[1]):
    sys.argv, code = ["rindices", *arguments], 0
    try:
        run()
    except SystemExit as end:
        code = end.code or 0
    print(f"exit {code}", file=sys.stderr)
"""
COMMANDS = [str(command.name) for command in app.registered_commands]
SHOW_HELP = f"""
import sys
from rindices.cli.main import run

for command in ("", *sys.argv[1:]):
    sys.argv = ["rindices", *filter(None, [command]), "--help"]
    try:
        run()
    except SystemExit as end:
        assert end.code == 0
    print(command, *set({HEAVY}) & set(sys.modules), sep=":", file=sys.stderr)
"""


def loaded_after(program: str, *arguments: str) -> set[str]:
    """Run a program in a fresh Python and return which heavy packages it
    left loaded.
    """
    asked = f"import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {program}"
    done = subprocess.run(
        [sys.executable, "-c", asked, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(HEAVY) & set(done.stderr.split())


def processor_seconds(*arguments: str) -> float:
    """Return the least processor time of five runs; waiting for a busy machine does not
    count.
    """
    best = float("inf")
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(
            best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        )
    return best


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import rindices") == set()


def test_functions_of_the_analysis_are_found_on_first_use() -> None:
    assert loaded_after("import rindices; rindices.analysis") == set()
    for name in rindices.analysis.__all__:
        assert callable(getattr(rindices.analysis, name))
    assert not hasattr(rindices.analysis, "associate_index")


def test_help_loads_nothing_heavy() -> None:
    """One process shows the help of all commands; each is reported with what was loaded
    up to then.
    """
    done = subprocess.run(
        [sys.executable, "-c", SHOW_HELP, *COMMANDS],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {
        line.partition(":")[0]: line.partition(":")[2].split()
        for line in done.stderr.splitlines()
    }
    assert loaded == {command: [] for command in ("", *COMMANDS)}
    assert done.stdout.count("Usage: ") == 1 + len(COMMANDS)


def test_import_and_help_are_quick() -> None:
    """Limits are ratios: the same machine runs twice as slow when other work shares its
    cores.
    """
    assert processor_seconds("-c", "import rindices") < processor_seconds(
        "-c", "import numpy"
    )
    assert processor_seconds("-c", RUN, "--help") < 2.0 * processor_seconds(
        "-c", SMALL_APP, "--help"
    )


def run_without_torch(*commands: list[str]) -> list[tuple[str, str]]:
    """Run commands in a fresh Python that does not find torch; return the exit code and
    the messages of each.
    """
    program = [sys.executable, "-c", HIDE_TORCH + RUN_ALL, json.dumps(commands)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    parts = re.split(r"^exit (\d)\n", done.stderr, flags=re.M)
    return list(zip(parts[1::2], parts[0::2], strict=False))


def test_fit_and_apply_need_no_torch_and_the_gan_names_its_extra(
    tmp_path: Path,
) -> None:
    write_cohort(simulate_few_regions("tiny"), tmp_path)
    tables = [
        str(tmp_path / "volumes.csv"),
        "--participants",
        str(tmp_path / "participants.tsv"),
    ]
    model = tmp_path / "study" / "model.safetensors"
    fit = ["fit", *tables, "--group", "group", "--workers", "1", "--no-report", "--out"]
    planned, fitted, applied, trained, imported = run_without_torch(
        [
            *fit,
            str(tmp_path / "study"),
            "--dry-run",
            "--method",
            "trajectories",
        ],  # training a member to time it took 80 s
        [
            *fit,
            str(tmp_path / "study"),
            "--method",
            "mean-difference",
            "--patterns",
            "1",
        ],
        ["apply", str(model), *tables, "--out", str(tmp_path / "r.csv")],
        [
            *fit,
            str(tmp_path / "study"),
            "--method",
            "surreal-gan",
        ],  # leaves the earlier model
        [
            "model",
            "import",
            "file",
            "--as",
            "ad_2rindices",
            "--out",
            str(tmp_path / "m.safetensors"),
        ],
    )
    for code, messages in (planned, fitted, applied):
        assert code == "0", messages
    found, cohort = (
        pd.read_csv(tmp_path / "r.csv"),
        rindices.read_cohort(tables[0], tables[2]),
    )
    np.testing.assert_allclose(
        found["r1"], rindices.load(model).apply(cohort)["r1"], atol=1e-6
    )
    for what, (code, messages) in {
        "the method surreal-gan": trained,
        "the import of a checkpoint": imported,
    }.items():
        assert code == "1"
        assert (
            messages.splitlines()[-1] == f"error: {what} needs torch: pip install torch"
        )


def test_the_estimator_of_the_paper_names_its_extra_where_torch_is_missing() -> None:
    program = f"{HIDE_TORCH}import rindices; rindices.SurrealGAN(1).fit([[0, 1], [1, 0], [1, 1], [2, 1]], [0, 0, 1, 1])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    message = "rindices.errors.InputError: SurrealGAN needs torch: pip install torch"
    assert done.stderr.splitlines()[-1] == message


def test_every_public_name_is_there() -> None:
    for name in rindices.__all__:
        assert getattr(rindices, name) is not None
