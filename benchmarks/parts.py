"""A study over parquet partitions: processor seconds and memory, and how they grow with
the number of people.

Usage: ``python -m benchmarks.parts [--people 1000000] [--sums-of 100000]``

People are simulated (task basic: 139 regions, three patterns), half of them controls,
50,000 a file. Two Dask workers on this machine read the files and answer with sums; the
centre is a third process. Three patterns, ten members, both shapes. Beyond 25,000
people a group, iterations cost the same whatever the number of people. The stages
before them are also measured alone, with the method mean-difference, for the numbers of
``--sums-of``. Memory is the largest resident size of a process. Writes
``results/parts.json`` and ``.md``; what is in the JSON is not run again.
"""

import argparse
import json
import resource
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

import rindices as ri
from rindices.atomic import write_atomically
from rindices.experiments.tasks import TASKS
from rindices.model.fitted import FittedModel
from rindices.selection.agreement import pattern_c_index
from rindices.study.config import ModelConfig, make_study
from rindices.study.outlying_measurements import check_cells
from rindices.sums.parts import connect_parts
from rindices.sums.study import SumsSettings, run_study_from_sums

RESULTS = Path(__file__).parent / "results" / "parts.json"
FILE_PEOPLE = 50_000
WORKERS = 2
CHECK = partial(check_cells, seed=0, adjust=None, on_outlier=None)
MODELS = {
    "trajectories": ModelConfig(patterns=(3,), members=10),
    "mean-difference": ModelConfig(method="mean-difference", members=10),
}
STAGES = ("reading", "adjustment", "tests")
GROUPS = {"group": "group", "controls": "control", "patients": "patient"}
DATA = {**GROUPS, "covariates": ["age", "sex", "icv"]}


def simulate_file(seed: int, n_people: int = FILE_PEOPLE) -> tuple[Any, pd.DataFrame]:
    """Return simulated people, and the table with ids that no other file has."""
    task = replace(TASKS["basic"], n_controls=n_people // 2, n_patients=n_people // 2)
    simulated = ri.simulate_cohort(task, seed=seed)
    cohort = simulated.cohort
    frame = pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1)
    frame["participant_id"] = f"f{seed}-" + frame["participant_id"].astype(str)
    return simulated, frame


def write_table(folder: Path, n_people: int) -> int:
    """Write the parquet files and return their bytes."""
    for k in range(n_people // FILE_PEOPLE):
        frame = simulate_file(1000 + k)[1].sample(frac=1.0, random_state=k)
        frame.to_parquet(
            folder / f"people-{k:03d}.parquet", index=False, row_group_size=10_000
        )
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def get_usage() -> tuple[float, float]:
    """Return processor seconds and the largest resident size in MB of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(n_people: int, method: str) -> dict[str, Any]:
    """Fit a table of simulated people."""
    with tempfile.TemporaryDirectory() as name:
        n_bytes = write_table(Path(name), n_people)
        request = make_study({"data": {**DATA, "volumes": [name]}}).data.request(Path())
        return {
            "method": method,
            **_fit(Path(name), request, n_people, n_bytes, method),
        }


def _fit(
    table: Path, request: Any, n_people: int, n_bytes: int, method: str
) -> dict[str, Any]:
    stages: list[tuple[str, float, float]] = []
    start, own_start = time.monotonic(), get_usage()[0]
    with connect_parts(table, request, CHECK, WORKERS) as transport:

        def note_stage(text: str) -> None:
            workers = sum(
                seconds for seconds, _ in transport.client.run(get_usage).values()
            )
            stages.append((text, workers, get_usage()[0] - own_start))
            print(
                n_people,
                text,
                f"{workers:.0f} s of workers, {stages[-1][2]:.0f} s of the centre",
                flush=True,
            )

        note_stage("reading")
        result = run_study_from_sums(
            transport, SumsSettings(model=MODELS[method]), on_stage=note_stage
        )
        note_stage("end")
        workers = transport.client.run(get_usage)
    assert result.model is not None
    score = score_new_people(result.model) if method == "trajectories" else None
    seconds = {}
    for (stage, *before), (_, *after) in pairwise(stages):
        seconds["reading" if stage == "reading" else stage] = round(
            sum(after) - sum(before), 1
        )
    return {
        "people": n_people,
        "MB of parquet": round(n_bytes / 1e6),
        "rounds": len(result.rounds),
        "processor seconds of the workers": round(stages[-1][1]),
        "processor seconds of the centre": round(stages[-1][2]),
        "processor seconds by stage": {
            "reading": round(stages[0][1] + stages[0][2], 1),
            **_drop_first(seconds),
        },
        "seconds": round(time.monotonic() - start),
        "MB of the largest worker": round(max(size for _, size in workers.values())),
        "MB of the centre": round(get_usage()[1]),
        "pattern-c-index of new people": score,
    }


def score_new_people(model: FittedModel) -> float:
    """Return the accuracy in people who are not in the table."""
    simulated, _ = simulate_file(7, 5_000)
    indices = model.apply(simulated.cohort)[model.index_names].to_numpy()
    return round(
        float(
            pattern_c_index(simulated.truth, indices[simulated.cohort.is_patient]).mean
        ),
        4,
    )


def _drop_first(seconds: dict[str, float]) -> dict[str, float]:
    """Return the stages without the time between reading and the first stage."""
    return {name: value for name, value in seconds.items() if name != "reading"}


def _format_value(value: Any) -> str:
    return (
        ""
        if value is None
        else f"{value:,}"
        if isinstance(value, int | float)
        else str(value)
    )


def format_page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Studies over parquet partitions",
        "",
        "Written by `python -m benchmarks.parts`.",
        "",
    ]
    names = [name for name in rows[0] if name != "processor seconds by stage"]
    lines += ["| figure |" + " |" * len(rows), "|---|" + "---|" * len(rows)]
    lines += [
        f"| {name} | " + " | ".join(_format_value(row[name]) for row in rows) + " |"
        for name in names
    ]
    for stage in dict.fromkeys(
        stage for row in rows for stage in row["processor seconds by stage"]
    ):
        values = [str(row["processor seconds by stage"].get(stage, "")) for row in rows]
        lines.append(f"| processor seconds, {stage} | " + " | ".join(values) + " |")
    sums = [row for row in rows if row["method"] == "mean-difference"]
    fits = [row for row in rows if row["method"] == "trajectories"]
    if sums and fits:
        low, high = (
            sum(row["processor seconds by stage"][each] for each in STAGES)
            for row in (sums[0], fits[-1])
        )
        growth = (high - low) / (fits[-1]["people"] - sums[0]["people"]) * 1e6
        sizes = f"{sums[0]['people']:,} and {fits[-1]['people']:,} people"
        lines += [
            "",
            f"An extra million of people costs {growth:,.0f} processor seconds: the difference of reading, adjustment",
            f"and tests between {sizes}. Later stages use at most about 25,000 people of a group for each member.",
        ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", default="1000000")
    parser.add_argument("--sums-of", default="100000")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = arguments.results
    rows = json.loads(results.read_text("utf-8")) if results.exists() else []
    rows = [{"method": "trajectories", **row} for row in rows]
    wanted = [
        (int(text), "mean-difference") for text in arguments.sums_of.split(",") if text
    ]
    wanted += [
        (int(text), "trajectories") for text in arguments.people.split(",") if text
    ]
    for number, method in wanted:
        if (number, method) not in [(row["people"], row["method"]) for row in rows]:
            rows = sorted(
                [*rows, measure(number, method)], key=lambda row: int(row["people"])
            )
            write_atomically(results, (json.dumps(rows, indent=1) + "\n").encode())
        write_atomically(results.with_suffix(".md"), format_page(rows).encode())
        print(rows[-1])


if __name__ == "__main__":
    main()
