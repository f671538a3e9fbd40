"""A study of four unequal sites by real processes and mutual TLS, against the same
people in memory.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from rindices_nvflare.core import tabulate_people
from tests.lab import SERVER, Lab
from tests.people import SIZES, remove_cells, simulate_site, write_site
from tests.study import JOB_STUDY, run_in_memory

pytestmark = pytest.mark.slow
SHAPES = {
    shape: f'{JOB_STUDY}\n[model.method_settings]\nshape = "{shape}"\n'
    for shape in ("proportional", "staged", "interacting")
}


@pytest.mark.parametrize(
    ("run", "study", "options", "is_missing"),
    [
        ("proportional", SHAPES["proportional"], (), False),
        ("unmasked", JOB_STUDY, ("--no-masks", "--fewest", "4"), False),
        ("staged", SHAPES["staged"], (), True),
        ("interacting", SHAPES["interacting"], (), False),
    ],
)
def test_a_study_is_that_of_memory(
    lab: Lab,
    tables: dict[str, Path],
    run: str,
    study: str,
    options: tuple[str, ...],
    is_missing: bool,
) -> None:
    if is_missing:
        people = {
            name: remove_cells(simulate_site(name, *SIZES[name])) for name in tables
        }
        tables = {
            name: write_site(lab.folder / "missing" / name, people[name])
            for name in tables
        }
    lab.close_kits(run, tables, *options)
    job = lab.write_job(run, study, list(tables), *options)
    assert lab.run_job(run, job) == {"finished": True, "says": "finished: patterns"}
    memory = lab.folder / f"memory-{run}"
    result, sites = run_in_memory(
        tables, lab.folder / f"{run}.toml", memory, not options
    )
    out = lab.kits / SERVER / run
    assert json.loads((out / "rounds.json").read_text()) | {
        "bytes_sent_by_a_part": 0
    } == result.to_dict() | {"bytes_sent_by_a_part": 0}
    own, expected = (
        load_file(out / "model.safetensors"),
        load_file(memory / "model.safetensors"),
    )
    assert set(own) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(own[name], array, rtol=0, atol=1e-12, err_msg=name)
    for site in sites:
        table, _ = tabulate_people(site, memory / "model.safetensors")
        written = pd.read_csv(
            lab.folder / "private" / run / site.name / "r_indices.tsv", sep="\t"
        )
        kept = lab.folder / "private" / run / site.name / "model.safetensors"
        assert kept.read_bytes() == (out / "model.safetensors").read_bytes()
        np.testing.assert_allclose(
            written[["r1", "r2"]], table[["r1", "r2"]], rtol=0, atol=1e-12
        )
    assert not list(out.rglob("*.npz"))
    assert all(
        0.5 < each <= 1
        for each in json.loads((out / "sites.json").read_text())[
            "patients above controls"
        ].values()
    )
