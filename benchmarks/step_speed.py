"""Speed of a training step: the bare products, ours, the authors'.

    python benchmarks/step_speed.py [--threads 1 2] [--members 1 5 10] [--json]

Times are milliseconds per member and step, the least of many short, interleaved bursts:
processor time with one thread (other work on the machine does not count), elapsed time
with two. Products are those that a real step asks torch for, recorded from it, with
their shapes and strides, and repeated on other buffers. The authors' package is put into
a throw-away folder with ``pip install --no-deps --target FOLDER SurrealGAN==0.1.1``;
only its training step is used.
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

from rindices.learners.surreal import step
from rindices.learners.surreal.recipe import get_recipe
from rindices.learners.surreal.training_state import TrainingPlan, TrainingState, make_training_state

REGIONS, PATTERNS, CONTROLS, PATIENTS = 139, 3, 492, 900
Burst = Callable[[], None]


class Products(TorchDispatchMode):
    """Notes the operands of every product of the networks."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.members, self.seen = members, []  # type: ignore[var-annotated]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        if "bmm" in name:
            left, right = args[1:3] if "badd" in name else args[:2]
            if len(left) == self.members:  # not the tiny ones of single people
                self.seen.append((left, right))
        return func(*args, **(kwargs or {}))


def groups(members: int, stack: int) -> list[TrainingState]:
    """Members at their start on made-up people."""
    x, y = torch.randn(CONTROLS, REGIONS), torch.randn(PATIENTS, REGIONS)
    rec = get_recipe("paper", learning_rate=8e-4)
    plan = TrainingPlan(PATTERNS, rec, members=tuple(range(members)), stack=stack)
    starts = range(0, members, stack)
    return [
        make_training_state(plan.members[start : start + stack], plan, 1 + 0.1 * x, 0.9 + 0.1 * y) for start in starts
    ]


def like(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride()).normal_()


def products_of(group: TrainingState) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Operands and result of each product of a step, on buffers of their own."""
    log = Products(len(group.stack.members))
    with log, torch.no_grad():
        step.take_step(group.stack, group.work)
    made = [(like(left), like(right)) for left, right in log.seen]
    return [(left, right, torch.bmm(left, right)) for left, right in made]


def bare_burst(group: TrainingState, steps: int) -> None:
    for _ in range(steps):
        for left, right, out in group.products:  # type: ignore[attr-defined]
            torch.bmm(left, right, out=out)


@torch.inference_mode()
def our_burst(group: TrainingState, steps: int) -> None:
    for _ in range(steps):
        group.batches.fill(group.work.people, group.stack.streams)
        step.take_step(group.stack, group.work)


def over_groups(
    run: Callable[[TrainingState, int], None],
    all_groups: list[TrainingState],
    steps: int,
    pool: ThreadPoolExecutor | None,
) -> Burst:
    """All groups one after the other, or in the pool's threads."""

    def burst() -> None:
        each = functools.partial(run, steps=steps)
        list(pool.map(each, all_groups) if pool else map(each, all_groups))

    return burst


def upstream_burst(folder: Path, batch: int, steps: int) -> Burst:
    """The authors' step with the authors' own settings of the sample size."""
    sys.path.insert(0, str(folder))
    from SurrealGAN.model import SurrealGAN, dotdict  # type: ignore[import-not-found]

    options = {"lam": 0.2, "zeta": 80, "kappa": 80, "gamma": 6, "mu": 500, "eta": 6}
    options |= {"nROI": REGIONS, "npattern": PATTERNS, "lr": 8e-4, "beta1": 0.5}
    model = SurrealGAN()
    model.create(dotdict(options | {"max_gnorm": 100, "lipschitz_k": 0.5}))
    x, y = 1 + 0.1 * torch.randn(batch, REGIONS), 0.9 + 0.1 * torch.randn(batch, REGIONS)

    def burst() -> None:
        for _ in range(steps):
            model.train_instance(x, y, 0.02)

    return burst


def least(bursts: dict[str, Burst], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Least seconds of each burst, all taken in turn."""
    best = dict.fromkeys(bursts, float("inf"))
    for _ in range(rounds):
        for name, burst in bursts.items():
            start = clock()
            burst()
            best[name] = min(best[name], clock() - start)
    return best


def measure(threads: int, members: int, stack: int, rounds: int, folder: Path) -> dict[str, float]:
    """One row of the table."""
    ours, steps = groups(members, stack), 5 if threads == 1 else 1
    for group in ours:
        group.products = products_of(group)  # type: ignore[attr-defined]
    # One stack is shared out by torch; several go to threads of their own, as in ``train``.
    torch.set_num_threads(threads)
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    used = pool if threads > 1 and len(ours) > 1 else None
    bursts = {
        "bare": over_groups(bare_burst, ours, steps, used),
        "ours": over_groups(our_burst, ours, steps, used),
        "upstream": upstream_burst(folder, ours[0].work.batch, 1),
    }
    best = least(bursts, rounds, time.process_time if threads == 1 else time.perf_counter)
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


def install_upstream(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, "SurrealGAN==0.1.1"], check=True, stdout=sys.stderr)


def rows(args: argparse.Namespace, folder: Path) -> Iterator[dict[str, float]]:
    for threads in args.threads:
        for members in args.members:
            stack = min(args.stack, members)
            yield measure(threads, members, stack, args.rounds, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--members", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument("--stack", type=int, default=TrainingPlan(1).stack, help="members per stack")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--upstream", type=Path, help="folder that already holds the package")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "step_speed.json")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.upstream or Path(scratch)
        if args.upstream is None:
            install_upstream(folder)
        table = []
        for row in rows(args, folder):
            table.append(row)
            text = "  ".join(f"{k} {v:.3g}" for k, v in row.items())
            print(text, file=sys.stderr if args.json else sys.stdout, flush=True)
    # the row that counts: ten members (or the most asked for) on one thread (or the fewest)
    main_row = min(table, key=lambda row: (row["threads"], -row["members"]))
    result = json.dumps(main_row | {"rows": table}, indent=1)
    args.out.write_text(result + "\n", "utf-8")
    if args.json:
        print(result)


if __name__ == "__main__":
    main()
