"""Importing is cheap: nothing heavy until it is needed, and torch not even for applying a model."""

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
    """Run a program in a fresh Python and return which heavy packages it left loaded."""
    asked = f"import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {program}"
    done = subprocess.run([sys.executable, "-c", asked, *arguments], capture_output=True, text=True, check=True)
    return set(HEAVY) & set(done.stderr.split())


def processor_seconds(*arguments: str) -> float:
    """Return the least processor time of five runs; waiting for a busy machine does not count."""
    best = float("inf")
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import rindices") == set()


def test_help_loads_nothing_heavy() -> None:
    """One process shows the help of all commands; each is reported with what was loaded up to then."""
    done = subprocess.run([sys.executable, "-c", SHOW_HELP, *COMMANDS], capture_output=True, text=True, check=True)
    loaded = {line.partition(":")[0]: line.partition(":")[2].split() for line in done.stderr.splitlines()}
    assert loaded == {command: [] for command in ("", *COMMANDS)}
    assert done.stdout.count("Usage: ") == 1 + len(COMMANDS)


def test_import_and_help_are_quick() -> None:
    """Limits are ratios: the same machine runs twice as slow when other work shares its cores."""
    assert processor_seconds("-c", "import rindices") < processor_seconds("-c", "import numpy")
    assert processor_seconds("-c", RUN, "--help") < 2.0 * processor_seconds("-c", SMALL_APP, "--help")


def test_apply_needs_no_torch(tmp_path: Path) -> None:
    made = simulate_few_regions("tiny")
    write_cohort(made, tmp_path)
    model = rindices.fit(made.cohort, 2, members=2, recipe="contrastive", workers=1)
    model.save(tmp_path / "m.safetensors")
    program = f"import sys; sys.modules['torch'] = None; {RUN}"  # whoever imports it now fails
    tables = [str(tmp_path / "volumes.csv"), "--participants", str(tmp_path / "participants.tsv")]
    command = [sys.executable, "-c", program, "apply", str(tmp_path / "m.safetensors"), *tables]
    done = subprocess.run([*command, "--out", str(tmp_path / "r.csv")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(tmp_path / "r.csv")
    np.testing.assert_allclose(found["r1"], model.apply(made.cohort)["r1"], atol=1e-6)


def test_every_public_name_is_there() -> None:
    for name in rindices.__all__:
        assert getattr(rindices, name) is not None
