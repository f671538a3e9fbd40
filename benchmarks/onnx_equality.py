"""Largest difference between exported graphs and apply, in onnxruntime and in
onnxruntime-web under Node.

    python -m benchmarks.onnx_equality [--modules NODE_MODULES]

Exports a model of the default method, a contrastive one and, if the shared data are
available, the two published ones (tests compare the networks of method surreal-gan with
apply), runs each graph on simulated people in both runtimes, and writes
``results/onnx.md``. onnxruntime-web is installed with npm into a temporary folder, or
taken from the folder of ``--modules``.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd

import rindices as ri
from rindices.exchange.importers import PUBLISHED_MODELS, import_published
from rindices.exchange.onnx import export_onnx
from rindices.experiments.tasks import TASKS
from rindices.tables.cohort import Cohort

HERE = Path(__file__).parent
DATA = Path(os.environ.get("RINDICES_DATA", HERE.parents[1] / "shared" / "data"))


def fit_models(cohort: Cohort) -> dict[str, ri.FittedModel]:
    """Return a model of each kind."""
    fitted = {
        "method trajectories": ri.fit(cohort, 3, members=5, seed=0),
        "method contrastive": ri.fit(
            cohort, 3, members=5, seed=0, method="contrastive"
        ),
    }
    for name in PUBLISHED_MODELS:
        checkpoint = DATA / "upstream" / f"{name}.saved_model"
        if checkpoint.exists():
            fitted[name] = import_published(checkpoint, name)
    return fitted


def run_in_python(path: Path, table: dict[str, list[Any]]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    feeds = {
        node.name: np.array(
            table[node.name],
            dtype=object if node.type == "tensor(string)" else np.float64,
        )[:, None]
        for node in session.get_inputs()
    }
    return dict(
        zip(
            [node.name for node in session.get_outputs()],
            session.run(None, feeds),
            strict=True,
        )
    )


def run_in_javascript(
    path: Path, table: dict[str, list[Any]], folder: Path
) -> dict[str, np.ndarray]:
    (folder / "people.json").write_text(json.dumps(table), "utf-8")
    command = ["node", "r_indices.mjs", str(path), "people.json"]
    printed = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    return {
        name: np.reshape(tensor["data"], tensor["dims"])
        for name, tensor in json.loads(printed).items()
    }


def compute_difference(
    outputs: dict[str, np.ndarray], applied: pd.DataFrame, n_patterns: int
) -> float:
    """Return the largest difference of all outputs from apply."""
    ends = {"r_indices": "", "low": "_low", "high": "_high"}
    differences = [
        np.abs(
            outputs[output]
            - applied[[f"r{k + 1}{end}" for k in range(n_patterns)]].to_numpy()
        ).max()
        for output, end in ends.items()
        if output in outputs
    ]
    if "unusual" in outputs:
        differences.append(
            np.abs(
                outputs["outlier_score"][:, 0] - applied["outlier_score"].to_numpy()
            ).max()
        )
    return float(max(differences))


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "onnx.md")
    options = parser.parse_args()
    cohort = ri.simulate_cohort(TASKS["tiny"], seed=0).cohort
    new = ri.simulate_cohort(TASKS["tiny"], seed=1).cohort
    table = {
        name: frame[name].tolist()
        for frame in (new.volumes, new.covariates)
        for name in frame
    }
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.modules:
            (folder / "node_modules").symlink_to(options.modules.resolve())
        else:
            subprocess.run(
                ["npm", "install", "--silent", "onnxruntime-web"],
                cwd=folder,
                check=True,
            )
        version = json.loads(
            (folder / "node_modules/onnxruntime-web/package.json").read_text("utf-8")
        )["version"]
        shutil.copy(HERE.parent / "docs" / "examples" / "r_indices.mjs", folder)
        for kind, model in fit_models(cohort).items():
            outputs = export_onnx(model, folder / "m.onnx")["outputs"]
            applied = model.assess_chunk(new).table
            results = [
                run_in_python(folder / "m.onnx", table),
                run_in_javascript(folder / "m.onnx", table, folder),
            ]
            differences = [
                f"{compute_difference(result, applied, model.n_patterns):.1e}"
                for result in results
            ]
            rows.append(
                f"| {kind} | {', '.join(outputs)} | {differences[0]} | {differences[1]} |"
            )
            print(rows[-1], flush=True)
    head = f"| model | outputs | onnxruntime {onnxruntime.__version__} | onnxruntime-web {version} under Node |"
    note = f"Largest difference of any output from what `apply` gives, over {len(new)} people. Asked for: 1e-5."
    lines = [
        "# Exported graphs against apply",
        f"`python -m benchmarks.onnx_equality`. {note}",
        "",
        head,
        "|---|---|---|---|",
    ]
    options.out.write_text("\n".join([*lines, *rows, ""]), "utf-8")


if __name__ == "__main__":
    main()
