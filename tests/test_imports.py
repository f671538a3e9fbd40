"""Importing is cheap: nothing heavy until it is needed, and torch not even for applying a model."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort

HEAVY = ("torch", "numpy", "pandas", "scipy", "sklearn", "matplotlib", "distributed")
RUN = "from rindices.cli.main import run; run()"
COMMANDS = [command.name for command in app.registered_commands]


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


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_loads_nothing_heavy(command: str | None) -> None:
    assert loaded_after(RUN, *([command] if command else []), "--help") == set()


def test_import_and_help_are_quick() -> None:
    assert processor_seconds("-c", "import rindices") < 1.0
    assert processor_seconds("-c", RUN, "--help") < 0.5


def test_apply_needs_no_torch(tmp_path: Path) -> None:
    made = rindices.simulate_cohort("tiny", 0)
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
