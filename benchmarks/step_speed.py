"""Time of a training step: its bare matrix products, rindices, and the authors'
package.

    python -m benchmarks.step_speed [--threads 1 2] [--members 1 5 10] [--json]

Times are milliseconds per member and step, the minimum of many short, interleaved
bursts: processor time with one thread (other work on the machine does not count),
elapsed time with two. The products of a real step are recorded with their shapes and
strides, and repeated on other buffers. The authors' package is installed into a
temporary folder with ``pip install --no-deps --target FOLDER SurrealGAN==0.1.1``; only
its training step is used.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rindices.learners.gan import train
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import TrainingState, make_training_state

REGIONS, PATTERNS, CONTROLS, PATIENTS = 139, 3, 492, 900
Burst = Callable[[], None]


class ProductRecorder(TorchDispatchMode):
    """Records the operands of every matrix product of the networks."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.members, self.seen = members, []  # type: ignore[var-annotated]

    def __torch_dispatch__(
        self, func: Any, types: Any, options: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.__name__
        if "bmm" in name:
            left, right = options[1:3] if "badd" in name else options[:2]
            if len(left) == self.members:  # without the small products of single people
                self.seen.append((left, right))
        return func(*options, **(kwargs or {}))


def make_states(members: int, stack: int) -> list[TrainingState]:
    """Return members at their start on random people."""
    x, y = torch.randn(CONTROLS, REGIONS), torch.randn(PATIENTS, REGIONS)
    rec = Recipe().replace(learning_rate=8e-4)
    plan = TrainingPlan(
        patterns=PATTERNS, recipe=rec, members=tuple(range(members)), stack=stack
    )
    starts = range(0, members, stack)
    return [
        make_training_state(
            plan.members[start : start + stack], plan, 1 + 0.1 * x, 0.9 + 0.1 * y
        )
        for start in starts
    ]


def make_buffer(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride()).normal_()


def record_products(state: TrainingState) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return operands and result of each product of a step, in new buffers."""
    log = ProductRecorder(len(state.stack.members))
    with log:
        train.run_steps(state, 1)
    buffers = [(make_buffer(left), make_buffer(right)) for left, right in log.seen]
    return [(left, right, torch.bmm(left, right)) for left, right in buffers]


def run_products(state: TrainingState, steps: int) -> None:
    for _ in range(steps):
        for left, right, out in state.products:  # type: ignore[attr-defined]
            torch.bmm(left, right, out=out)


def make_burst(
    run: Callable[..., object],
    states: list[TrainingState],
    steps: int,
    pool: ThreadPoolExecutor | None,
) -> Burst:
    """Return a function that runs all states in turn, or in the threads of a pool."""

    def burst() -> None:
        run_state = functools.partial(run, steps=steps)
        list(pool.map(run_state, states) if pool else map(run_state, states))

    return burst


def upstream_burst(folder: Path, batch: int, steps: int) -> Burst:
    """Return a function that runs the authors' training step with their settings for
    this sample size.
    """
    sys.path.insert(0, str(folder))
    from SurrealGAN.model import SurrealGAN, dotdict  # type: ignore[import-not-found]

    options = {"lam": 0.2, "zeta": 80, "kappa": 80, "gamma": 6, "mu": 500, "eta": 6}
    options |= {"nROI": REGIONS, "npattern": PATTERNS, "lr": 8e-4, "beta1": 0.5}
    model = SurrealGAN()
    model.create(dotdict(options | {"max_gnorm": 100, "lipschitz_k": 0.5}))
    x, y = (
        1 + 0.1 * torch.randn(batch, REGIONS),
        0.9 + 0.1 * torch.randn(batch, REGIONS),
    )

    def burst() -> None:
        for _ in range(steps):
            model.train_instance(x, y, 0.02)

    return burst


def measure_minimum(
    bursts: dict[str, Burst], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Return the minimum seconds of each burst, all run in turn."""
    best = dict.fromkeys(bursts, float("inf"))
    for _ in range(rounds):
        for name, burst in bursts.items():
            start = clock()
            burst()
            best[name] = min(best[name], clock() - start)
    return best


def measure_row(
    threads: int, members: int, stack: int, rounds: int, folder: Path
) -> dict[str, float]:
    """Measure one row of the table."""
    states, steps = make_states(members, stack), 5 if threads == 1 else 1
    for state in states:
        state.products = record_products(state)  # type: ignore[attr-defined]
    # One stack uses the threads of torch; several stacks run in one thread each, as in
    # ``train``.
    torch.set_num_threads(threads)
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    used_pool = pool if threads > 1 and len(states) > 1 else None
    bursts = {
        "bare": make_burst(run_products, states, steps, used_pool),
        "ours": make_burst(train.run_steps, states, steps, used_pool),
        "upstream": upstream_burst(folder, states[0].batches.batch, 1),
    }
    best = measure_minimum(
        bursts, rounds, time.process_time if threads == 1 else time.perf_counter
    )
    pool.shutdown()
    per_step = {"bare": members * steps, "ours": members * steps, "upstream": 1}
    ms = {name: 1e3 * seconds / per_step[name] for name, seconds in best.items()}
    return {
        "bare_ms": ms["bare"],
        "ours_ms": ms["ours"],
        "upstream_ms": ms["upstream"],
        "ours_over_bare": ms["ours"] / ms["bare"],
        "upstream_over_ours": ms["upstream"] / ms["ours"],
        "threads": threads,
        "members": members,
        "stack": stack,
    }


def install_upstream(folder: Path, version: str = "0.1.1") -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(folder),
    ]
    subprocess.run([*command, f"SurrealGAN=={version}"], check=True, stdout=sys.stderr)


def iterate_rows(
    options: argparse.Namespace, folder: Path
) -> Iterator[dict[str, float]]:
    for threads in options.threads:
        for members in options.members:
            stack = min(options.stack, members)
            yield measure_row(threads, members, stack, options.rounds, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--members", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument(
        "--stack",
        type=int,
        default=TrainingPlan(patterns=1).stack,
        help="members per stack",
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--upstream", type=Path, help="folder that already holds the package"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "results" / "step_speed.json",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.upstream or Path(scratch)
        if options.upstream is None:
            install_upstream(folder)
        table = []
        for row in iterate_rows(options, folder):
            table.append(row)
            text = "  ".join(f"{k} {v:.3g}" for k, v in row.items())
            print(text, file=sys.stderr if options.json else sys.stdout, flush=True)
    # main row: the largest number of members on the smallest number of threads
    main_row = min(table, key=lambda row: (row["threads"], -row["members"]))
    result = json.dumps(main_row | {"rows": table}, indent=1)
    options.out.write_text(result + "\n", "utf-8")
    if options.json:
        print(result)


if __name__ == "__main__":
    main()
