"""Recipe paper on the basic task: accuracy of g against steps, members side by side.

python benchmarks/learning_curve.py --steps 40000 --members 5 --out curve.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from simulated import basic, pattern_c_index

from rindices.learners.surreal import latents, networks
from rindices.learners.surreal.group import Plan, new_group
from rindices.learners.surreal.recipe import recipe
from rindices.learners.surreal.train import run


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--correlated", action="store_true")
    parser.add_argument("--correlation", type=float, default=0.0)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    args = parse()
    torch.set_num_threads(1)
    cohort = basic(args.seed, args.correlation)
    x, y = (torch.as_tensor(v, dtype=torch.float32) for v in cohort[:2])
    # No stopping: the curve is what is asked for.
    rec = recipe(
        "paper",
        learning_rate=args.rate,
        min_steps=10**7,
        max_steps=10**7,
        correlated=args.correlated,
    )
    plan = Plan(3, rec, seed=args.seed, members=tuple(range(args.members)))
    group = new_group(plan.members, plan, x, y)
    curve, seconds = [], 0.0
    for until in [1000, 2000, 3000, 5000, *range(10_000, args.steps + 1, 5000)]:
        start = time.process_time()
        run(group, rec, until)
        seconds += time.process_time() - start
        found = networks.infer(group.stack.weights.networks, y.expand(args.members, -1, -1)).numpy()
        scores = [pattern_c_index(cohort.severities, r) for r in found]
        last = np.mean([seen[-1] for seen in group.seen.values()], axis=0)
        correlation = latents.copula_correlation(group.stack.phi).tolist()
        curve.append(
            {
                "steps": until,
                "mean": float(np.mean(scores)),
                "members": scores,
                "cpu_seconds": seconds,
                "terms": last.tolist(),
                "correlation": correlation,
            }
        )
        print(until, f"{np.mean(scores):.4f}", np.round(scores, 3), f"{seconds:.0f}s", flush=True)
        args.out.write_text(json.dumps(vars(args) | {"out": str(args.out), "curve": curve}, indent=1))


if __name__ == "__main__":
    main()
