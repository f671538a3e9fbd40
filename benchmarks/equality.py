"""The same people in memory and in parts: how far patterns and R-indices differ,
rounds, and passes over people.

    python -m benchmarks.equality [--parts 8]

README's people (task basic, seed 0: 492 controls and 900 patients, 139 regions), three
patterns, five members. They are fitted from sums with all people in one part, with the
people in eight parquet files that eight Dask workers read, and by ``ri.fit`` in memory.
Writes ``results/equality.md``.
"""

import argparse
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from distributed import LocalCluster

import rindices as ri
from rindices.atomic import write_atomically
from rindices.model.fitted import FittedModel
from rindices.study.config import ModelConfig, make_study
from rindices.study.outlying_measurements import check_cells
from rindices.sums.parts import connect_parts
from rindices.sums.people import LocalPeople
from rindices.sums.rounds import InMemoryTransport
from rindices.sums.study import SumsResult, SumsSettings, run_study_from_sums
from rindices.tables.cohort import ID

OUT = Path(__file__).parent / "results" / "equality.md"
MODEL = ModelConfig(patterns=(3,), members=5)
DATA = {
    "group": "group",
    "controls": "control",
    "patients": "patient",
    "covariates": ["age", "sex", "icv"],
}
KEEP = partial(check_cells, seed=0, adjust=None, on_outlier="keep")


def fit_files(folder: Path, n_parts: int) -> tuple[SumsResult, pd.DataFrame]:
    """Fit parquet files by as many Dask workers, and return the R-indices of their
    people.
    """
    request = make_study({"data": {**DATA, "volumes": [str(folder)]}}).data.request(
        Path()
    )
    with (
        LocalCluster(
            n_workers=n_parts,
            processes=False,
            threads_per_worker=1,
            dashboard_address=None,
        ) as cluster,
        connect_parts(
            folder, request, KEEP, scheduler=cluster.scheduler_address
        ) as transport,
    ):
        assert len(transport.parts) == n_parts
        result = run_study_from_sums(transport, SumsSettings(model=MODEL))
        assert result.model is not None
        return result, transport.tabulate_people(result.model)


def compare(
    model: FittedModel, indices: pd.DataFrame, other: FittedModel, others: pd.DataFrame
) -> tuple[float, float]:
    """Return the largest differences of patterns, and of cross-fitted R-indices."""
    names = model.index_names
    own, expected = indices.set_index(ID)[names], others.set_index(ID)[names]
    assert (own.isna() == expected.loc[own.index].isna()).all(axis=None)
    return (
        float(np.abs(model.patterns - other.patterns).max()),
        float(np.nanmax(np.abs(own.to_numpy() - expected.loc[own.index].to_numpy()))),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=int, default=8)
    options = parser.parse_args()
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    frame = pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1)
    with tempfile.TemporaryDirectory() as name:
        for k in range(options.parts):
            frame.iloc[k :: options.parts].to_parquet(
                Path(name) / f"part-{k}.parquet", index=False
            )
        parts, indices = fit_files(Path(name), options.parts)
    people, start = LocalPeople("all", cohort), time.process_time()
    whole = run_study_from_sums(InMemoryTransport([people]), SumsSettings(model=MODEL))
    seconds = time.process_time() - start
    assert whole.model is not None
    assert parts.model is not None
    own = people.tabulate_people(whole.model)
    start = time.process_time()
    memory = ri.fit(cohort, 3, members=5, on_outlier="keep", workers=1)
    memory_seconds = time.process_time() - start
    assert memory.indices is not None
    kinds = Counter(record.kind for record in parts.rounds)
    rows = {
        f"one part and {options.parts} files": compare(
            parts.model, indices, whole.model, own
        ),
        f"`ri.fit` in memory and {options.parts} files": compare(
            parts.model, indices, memory, memory.indices
        ),
    }
    lines = [
        "# The same people in memory and in parts",
        "",
        "Written by `python -m benchmarks.equality`.",
        "",
    ]
    lines += [
        "| compared | largest difference of patterns | of cross-fitted R-indices |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {first:.1e} | {second:.1e} |"
        for name, (first, second) in rows.items()
    ]
    asked = ", ".join(f"{number} of {kind}" for kind, number in kinds.items())
    lines += [
        "",
        f"Rounds: {len(parts.rounds)} ({asked}). Processor seconds: {seconds:.1f} from sums of one part, "
        f"{memory_seconds:.1f} with `ri.fit`, which also makes the tables of a study.",
    ]
    write_atomically(OUT, "\n".join([*lines, ""]).encode())
    print("\n".join(lines))


if __name__ == "__main__":
    main()
