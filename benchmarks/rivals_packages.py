"""Accuracy, processor time and memory of packages of others, on the people of
``rivals.py``.

    python -m benchmarks.rivals_packages --python ENVIRONMENT/bin/python --methods hydra
    --tasks tiny,small,basic,mild python -m benchmarks.rivals_packages --python
    ENVIRONMENT/bin/python --methods sustain --tasks small --regions 12

The packages are no dependencies of the project. They are installed into an environment
of their own, whose interpreter is given: ``mlni`` 0.1.5.1 (HYDRA; it imports
torchvision, but HYDRA does not use it), ``SmileGAN`` 0.1.4 without its pinned torch,
and ``pySuStaIn`` from its repository, since it is not on PyPI (it needs numpy below
2.4). Each fit runs in a process of its own; its time and memory include the import of
the package. Indices are, by method:

- hydra: distances from the hyperplanes of the M subtypes (linear support vector
  machines), which are finer than the memberships; 5 repetitions for the consensus, else
  the defaults;
- smile-gan: probabilities of the M subtypes by one model, trained with the settings and
  the length that its README recommends (at most ``--epochs`` epochs; its stopping rule
  counts from 9/14 of them);
- sustain: expected stage times probability of each of the M subtypes, z-scores 1, 2 and
  3, maximum 5, 5 starting points, 1,000 samples. It cannot fit all regions in
  reasonable time: with ``--regions`` only the first regions of each pattern are given,
  and ``trajectory`` is measured on the same regions.

Finished fits are not computed again. Adds to ``results/rivals/packages.json``, which
``rivals.py`` adds to its tables.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
OUT = Path(__file__).parent / "results" / "rivals" / "packages.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--methods", default="hydra")
    parser.add_argument("--tasks", default="tiny,small,basic,mild")
    parser.add_argument("--cohorts", type=int, default=1)
    parser.add_argument("--regions", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=14_000)
    parser.add_argument("--case", type=Path, help="used by the process of one fit")
    options = parser.parse_args()
    if options.case is not None:
        run_fit(options.methods, options.case, options.epochs)
        return
    for task in options.tasks.split(","):
        for seed in range(options.cohorts):
            for method in options.methods.split(","):
                measure_method(options, method, task, seed)


def measure_method(
    options: argparse.Namespace, method: str, task: str, seed: int
) -> None:
    """Measure one method on one cohort, unless it is done, and add it to
    the results.
    """
    from benchmarks.suites.paper import PAPER_TASKS
    from rindices.selection.agreement import pattern_c_index

    rows = json.loads(OUT.read_text("utf-8"))["results"] if OUT.is_file() else []
    suite = (
        f"{options.regions} regions"
        if options.regions
        else "paper"
        if task in PAPER_TASKS
        else "stress"
    )
    done = {
        (
            row["suite"],
            row["result"]["task"],
            row["result"]["learner"],
            row["result"]["cohort_seed"],
        )
        for row in rows
    }
    if (suite, task, method, seed) in done:
        return
    z, labels, truth = prepare_people(task, seed, options.regions)
    indices, cost = fit_apart(options, method, z, labels, truth.shape[1], seed)
    score = pattern_c_index(truth, indices)
    result = {
        "task": task,
        "learner": method,
        "cohort_seed": seed,
        "pattern_c_index": float(score.mean),
        "per_pattern": [float(value) for value in score.per_pattern],
        "unseen": None,
        "agreement": None,
        **cost,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "source": "benchmarks/rivals_packages.py",
        "results": [*rows, {"suite": suite, "result": result}],
    }
    OUT.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    print(suite, task, method, seed, round(score.mean, 4), cost, flush=True)


def prepare_people(
    task: str, seed: int, n_regions: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return z-scores (N, R), labels (N,) and true severities (patients, M); with
    `n_regions`, of these regions.
    """
    from rindices.experiments.simulate import simulate_cohort
    from rindices.experiments.tasks import TASKS
    from rindices.preprocess.pipeline import Preprocessing
    from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

    simulated = simulate_cohort(task, seed)
    cohort = simulated.cohort
    z = (Preprocessing.fit(cohort).transform(cohort) - CONTROL_MEAN) / CONTROL_SD
    if n_regions:
        patterns, regions = TASKS[task].patterns, list(cohort.regions)
        chosen = dict.fromkeys(
            name for pattern in zip(*patterns, strict=False) for name in pattern
        )
        z = z[:, [regions.index(name) for name in list(chosen)[:n_regions]]]
    return z, cohort.is_patient.astype(float), simulated.truth


def fit_apart(
    options: argparse.Namespace,
    method: str,
    z: FloatArray,
    labels: FloatArray,
    n_patterns: int,
    seed: int,
) -> tuple[FloatArray, dict[str, float]]:
    """Fit in a process of its own and return the patients' indices (patients, M) and
    the cost.
    """
    own = method in ("trajectory", "contrastive")
    with tempfile.TemporaryDirectory() as folder:
        case = Path(folder) / "case.npz"
        np.savez(case, z=z, labels=labels, n_patterns=n_patterns, seed=seed)
        program = (
            [sys.executable, "-m", "benchmarks.rivals_packages"]
            if own
            else [options.python, __file__]
        )
        command = [
            *program,
            "--methods",
            method,
            "--case",
            str(case),
            "--epochs",
            str(options.epochs),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        fitted = np.load(case.with_name("fitted.npz"))
        cost = {
            name: float(fitted[name])
            for name in ("seconds", "processor_seconds", "peak_megabytes")
        }
        return fitted["indices"], cost


def run_fit(method: str, path: Path, epochs: int) -> None:
    """Fit in this process, and write indices and cost beside the case."""
    case = np.load(path)
    np.random.seed(int(case["seed"]))  # noqa: NPY002 - the packages draw from the global generator
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, processor_start = time.perf_counter(), time.process_time()
    n_patterns, seed = int(case["n_patterns"]), int(case["seed"])
    with tempfile.TemporaryDirectory() as folder:
        indices = FITS[method](
            case["z"], case["labels"] == 1, n_patterns, seed, folder, epochs
        )
    np.savez(
        path.with_name("fitted.npz"),
        indices=indices,
        seconds=time.perf_counter() - start,
        processor_seconds=time.process_time() - processor_start,
        peak_megabytes=(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory)
        / 1e3,
    )


def fit_hydra(
    z: FloatArray,
    patient: FloatArray,
    n_patterns: int,
    seed: int,
    folder: str,
    epochs: int,
) -> FloatArray:
    """Return distances of the patients from the hyperplanes of the subtypes."""
    import joblib
    from mlni.utils import hydra_solver_svm  # type: ignore[import-not-found]

    y = np.where(patient, 1, -1)
    hydra_solver_svm(
        0, z, y, n_patterns, folder, 5, 50, 1e-8, True, 0.25, "DPP", 1, True, False
    )
    models = Path(folder) / f"{n_patterns}_clusters" / "models"
    planes = [joblib.load(models / f"svm-{k}_cv_0.joblib") for k in range(n_patterns)]
    return np.column_stack(
        [plane.decision_function(z[patient == 1]) for plane in planes]
    )


def fit_smile_gan(
    z: FloatArray,
    patient: FloatArray,
    n_patterns: int,
    seed: int,
    folder: str,
    epochs: int,
) -> FloatArray:
    """Return the patients' probabilities of the subtypes, by the model that converged
    or else by the last one.
    """
    import pandas as pd
    import torch
    from SmileGAN.clustering import Smile_GAN_train  # type: ignore[import-not-found]
    from SmileGAN.Smile_GAN_clustering import clustering_result  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    torch.load = partial(
        torch.load, weights_only=False
    )  # the package expects the default of older versions
    table = pd.DataFrame(
        z * 0.1 + 1.0, columns=[f"region{k}" for k in range(z.shape[1])]
    )
    table.insert(0, "participant_id", [f"p{k}" for k in range(len(z))])
    table.insert(1, "diagnosis", np.where(patient, 1, -1))
    n_patients = int(patient.sum())
    settings = (n_patterns, epochs * 9 // 14, epochs, 0.12, n_patients // 20, 0.002)
    torch.manual_seed(seed)
    trainer = Smile_GAN_train(*settings, batchSize=max(n_patients // 10, 1))
    converged = trainer.train(
        "model", table, None, folder, random_seed=seed, verbose=True
    )
    print(
        "smile-gan:",
        "converged" if converged else "not converged",
        file=sys.stderr,
        flush=True,
    )
    model = str(Path(folder) / ("model" if converged else "latest"))
    return np.asarray(
        clustering_result([model], "highest_matching_clustering", table)[1]
    )


def fit_sustain(
    z: FloatArray,
    patient: FloatArray,
    n_patterns: int,
    seed: int,
    folder: str,
    epochs: int,
) -> FloatArray:
    """Return the expected stage times the probability of each subtype."""
    from importlib.util import find_spec

    package = types.ModuleType(
        "pySuStaIn"
    )  # its own initialisation imports models that need further packages
    package.__path__ = list(find_spec("pySuStaIn").submodule_search_locations or [])  # type: ignore[union-attr]
    sys.modules["pySuStaIn"] = package
    from pySuStaIn.ZscoreSustain import ZscoreSustain  # type: ignore[import-not-found]

    n_regions = z.shape[1]
    names = [f"region{k}" for k in range(n_regions)]
    thresholds, largest = (
        np.tile([1.0, 2.0, 3.0], (n_regions, 1)),
        np.full(n_regions, 5.0),
    )
    settings = (names, 5, n_patterns, 1000, folder, "case", False, seed)
    fitted = ZscoreSustain(-z, thresholds, largest, *settings).run_sustain_algorithm()
    joint = np.asarray(fitted[-1])[patient == 1]  # (patients, stages, subtypes)
    return np.einsum("nsm,s->nm", joint, np.arange(joint.shape[1], dtype=float))


def fit_rindices(
    z: FloatArray,
    patient: FloatArray,
    n_patterns: int,
    seed: int,
    folder: str,
    epochs: int,
) -> FloatArray:
    """Return the R-indices of the default learner."""
    from benchmarks.suites.entrants import get_entrant

    make = get_entrant("trajectory").make
    assert make is not None
    X = z * 0.1 + 1.0
    return np.asarray(
        make(n_patterns, seed)
        .fit(X, patient.astype(np.intp))
        .transform(X[patient == 1])
    )


FITS: dict[str, Callable[..., FloatArray]] = {
    "hydra": fit_hydra,
    "smile-gan": fit_smile_gan,
    "sustain": fit_sustain,
    "trajectory": fit_rindices,
}

if __name__ == "__main__":
    main()
