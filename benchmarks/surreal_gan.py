"""Surreal-GAN on the tasks of the paper: accuracy, synthetic patients, what the game
adds, and the choice.

    python -m benchmarks.surreal_gan accuracy|game|changes|random|sampling|choice|table
    [--seeds 900:903] [--tasks NAME]

- ``accuracy``: method surreal-gan as it ships on each task and seed, at the true number
  of patterns and the default lambda, not adjusted: mean member, consensus, both on all
  patients (nobody told the method their severities) and, for the mean member, on the
  patients whom it has not seen; agreement; regression of held-out patients; processor
  time; synthetic patients from new controls against new real patients.
- ``game``: f frozen at its linear start, f after the game, and the linear method alone.
- ``changes``: each of the changes from the published training taken back alone, on the
  seeds that they were chosen on.
- ``random``: the random start, and each change of the training that helps there, one by
  one.
- ``sampling``: what classifiers see although nothing is trained: real patients against
  other real patients that are shifted by the sampling error of the group means of the
  training people, the least that any f inherits from them.
- ``choice``: ``rindices fit`` with the choice of M and lambda by agreement, on tasks
  with two and with three patterns.

Members are trained in one process with one thread, so that processor seconds can be
compared. Rows are written to ``results/surreal_gan/rows.json`` as they end; rows that
are there are not measured again. ``table`` writes the tables from the rows. Settings
were chosen on the seeds 100 to 105; reported rows have the seed 900 and more.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import rindices as ri
from benchmarks.suites.baselines.supervised import cross_validate_supervised
from benchmarks.suites.cases import simulate_transformed
from benchmarks.suites.oracle import compute_oracle_severities
from rindices._typing import FloatArray
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS, make_task_with_patterns
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.gan.networks import SurrealNetworks
from rindices.learners.gan.realism import measure_realism
from rindices.learners.gan.recipe import (
    ORTHOGONALITY_WEIGHTS,
    PUBLISHED,
    SURREAL_GAN,
    Recipe,
    TrainingPlan,
)
from rindices.learners.gan.state import TrainedMember
from rindices.learners.gan.train import extract_head, train_stacks
from rindices.learners.prepared_people import draw_subsample
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import (
    align_columns,
    members_agreement,
    pattern_c_index,
)

OUT = Path(__file__).parent / "results" / "surreal_gan" / "rows.json"
PAPER = {
    "basic": 0.838,
    "overlap": 0.837,
    "scarce": 0.783,
    "noise": 0.818,
    "mild": 0.762,
}
"""Table 1 of the paper."""
WRONG_STARTS = ("staged09", "together", "hard", "corr07", "personal")
"""Tasks whose patients the linear method does not describe."""
NEW_PEOPLE = 5_000
"""Added to the seed of a cohort for the seed of its new people, from the same
population.
"""
POPULATION_COHORTS = 10
"""Cohorts that stand for the population."""
FORMER = PUBLISHED.replace(learning_rate=8e-4)
"""The training of rindices 0.1.0, but for its length."""
RANDOM_CHANGES: dict[str, dict[str, Any]] = {
    "0.1.0": {},
    "standardised D": {"standardised_d": True},
    "Gaussian controls": {"draw_controls": "normal"},
    "detached inversion": {"detached_inversion": True},
    "decay": {"last_rate": 0.05},
    "standardised D, detached inversion": {
        "standardised_d": True,
        "detached_inversion": True,
    },
    "all four": {
        "standardised_d": True,
        "draw_controls": "normal",
        "detached_inversion": True,
        "last_rate": 0.05,
    },
    "all four, and noise for D": {
        "standardised_d": True,
        "draw_controls": "normal",
        "detached_inversion": True,
        "last_rate": 0.05,
        "instance_noise": 1.0,
    },
}
"""Changes of the random start: each alone, and together."""
CHANGES_TAKEN_BACK: dict[str, dict[str, Any]] = {
    "as it ships": {},
    "no noise for D": {"instance_noise": 0.0},
    "controls of the study, no noise for D": {
        "draw_controls": "people",
        "instance_noise": 0.0,
    },
    "D reads 1 + 0.1 z": {"standardised_d": False},
    "decomposition and reconstruction train f, too": {"detached_inversion": False},
    "rates do not fall": {"last_rate": 1.0},
    "f at the rate of g": {"f_ratio": 1.0},
    "D at a fifth of the rate of g": {"discriminator_ratio": 1 / 5},
    "f stays at its start": {"f_ratio": 0.0},
    "random start": {"start": "random", "f_ratio": 1.0},
    "1,000 steps": {"min_steps": 1_000, "max_steps": 1_000},
    "10,000 steps": {"min_steps": 10_000, "max_steps": 10_000},
}
"""Changes of the method as it ships, each alone."""
Row = dict[str, Any]


@dataclass(frozen=True)
class People:
    """Controls (N, R) and patients (K, R) as networks read them, and the true
    severities (K, M).
    """

    controls: FloatArray
    patients: FloatArray
    truth: FloatArray


def draw_people(task: str, seed: int) -> tuple[People, People]:
    """Return the people of a cohort, and new ones on the same scale."""
    simulated, new = (
        simulate_transformed(task, seed),
        simulate_transformed(task, seed + NEW_PEOPLE),
    )
    preprocessing = Preprocessing.fit(simulated.cohort, adjust="none")

    def make(each: Any) -> People:
        X, patient = preprocessing.transform(each.cohort), each.cohort.is_patient
        return People(X[~patient], X[patient], each.truth)

    return make(simulated), make(new)


def train(
    people: People, recipe: Recipe, members: int, seed: int
) -> tuple[list[TrainedMember], float]:
    """Return trained members and processor seconds."""
    start = time.process_time()
    plan = TrainingPlan(
        patterns=people.truth.shape[1],
        recipe=recipe,
        seed=seed,
        members=tuple(range(members)),
    )
    trained = train_stacks(people.controls, people.patients, plan)
    return trained, time.process_time() - start


def score(people: People, trained: list[TrainedMember], share: float, seed: int) -> Row:
    """Return the accuracy of members and of their consensus."""
    indices = np.stack(
        [extract_head(each.weights).infer(people.patients) for each in trained]
    )
    members = [pattern_c_index(people.truth, r).mean for r in indices]
    unseen = [
        pattern_c_index(people.truth[rows], r[rows]).mean
        for r, each in zip(indices, trained, strict=True)
        if len(rows := list_unseen(people, share, seed, each.member))
    ]
    row = {
        "members": members,
        "mean_member": float(np.mean(members)),
        "consensus": members[0],
        "agreement": None,
    }
    row["unseen"] = float(np.mean(unseen)) if unseen else None
    if len(trained) > 1:
        agreement = members_agreement(indices)
        best = indices[int(np.argmax(agreement.per_member))]
        consensus = np.mean([r[:, align_columns(r, best)] for r in indices], axis=0)
        row |= {
            "consensus": pattern_c_index(people.truth, consensus).mean,
            "agreement": agreement.concordance,
        }
    return row


def list_unseen(people: People, share: float, seed: int, member: int) -> np.ndarray:
    """Return the positions of the patients whom a member has not seen."""
    y = np.repeat([0, 1], [len(people.controls), len(people.patients)])
    seen = draw_subsample(y, share, np.random.default_rng([seed, member])).seen
    return np.setdiff1d(np.arange(len(people.controls), len(y)), seen) - len(
        people.controls
    )


@torch.no_grad()
def synthesise(member: TrainedMember, controls: FloatArray, seed: int) -> FloatArray:
    """Return a synthetic patient for each control (N, R), in control sd, at severities
    from [0, 1]^M.
    """
    f = SurrealNetworks.from_members([member.weights]).f
    x = torch.as_tensor(controls, dtype=torch.float32)[None]
    z = torch.rand(
        1, len(controls), f.gate.shape[1], generator=torch.Generator().manual_seed(seed)
    )
    return np.asarray((f(x, z)[0].double().numpy() - CONTROL_MEAN) / CONTROL_SD)


def measure_synthetic(
    trained: list[TrainedMember], new: People, seed: int, members: int = 3
) -> Row:
    """Return the realism of synthetic patients from new controls, against new patients:
    mean of some members.
    """
    real = (new.patients - CONTROL_MEAN) / CONTROL_SD
    found = [
        measure_realism(real, synthesise(each, new.controls, seed), seed)
        for each in trained[:members]
    ]
    auc = {
        name: float(np.mean([each.auc[name] for each in found]))
        for name in found[0].auc
    }
    errors = {
        name: float(np.mean([getattr(each, name) for each in found]))
        for name in ("mean_error", "sd_error")
    }
    half = np.random.default_rng(seed).permutation(len(real)) % 2 == 0
    among_real = measure_realism(real[half], real[~half], seed)
    return {
        "auc": auc,
        "best_auc": max(auc.values()),
        **errors,
        "auc_real_real": among_real.auc,
    }


def measure_accuracy(task: str, seed: int, members: int) -> Row:
    """The method as it ships."""
    people, new = draw_people(task, seed)
    trained, seconds = train(people, SURREAL_GAN, members, seed)
    regression = cross_validate_supervised(
        people.patients, people.truth, seed=seed
    ).test
    return {
        **score(people, trained, SURREAL_GAN.share, seed),
        "regression": pattern_c_index(people.truth, regression).mean,
        "seconds": round(seconds, 1),
        **measure_synthetic(trained, new, seed),
    }


def measure_default(task: str, seed: int) -> Row:
    """Method trajectories on the same people, as prepared for the networks."""
    people, _ = draw_people(task, seed)
    X = np.concatenate([people.controls, people.patients])
    y = np.repeat([0, 1], [len(people.controls), len(people.patients)])
    start = time.process_time()
    learner = ri.DiseaseTrajectories(people.truth.shape[1], random_state=seed).fit(X, y)
    accuracy = pattern_c_index(people.truth, learner.transform(people.patients)).mean
    return {"accuracy": accuracy, "seconds": round(time.process_time() - start, 1)}


def measure_limit(task: str, seed: int) -> Row:
    """The theoretical limit on the same people, whose covariates are not told."""
    simulated = simulate_transformed(task, seed)
    severities = compute_oracle_severities(simulated, TASKS[task], adjusted=False)
    return {"accuracy": pattern_c_index(simulated.truth, severities).mean}


def measure_game(task: str, seed: int, members: int) -> Row:
    """f frozen, f after the game, and the linear method alone."""
    people, new = draw_people(task, seed)
    row: Row = {}
    for name, recipe in (
        ("frozen", SURREAL_GAN.replace(f_ratio=0.0)),
        ("game", SURREAL_GAN),
    ):
        trained, seconds = train(people, recipe, members, seed)
        found = score(people, trained, recipe.share, seed) | measure_synthetic(
            trained, new, seed
        )
        row[name] = found | {"seconds": round(seconds, 1)}
    X = np.concatenate([people.controls, people.patients])
    y = np.repeat([0, 1], [len(people.controls), len(people.patients)])
    linear = ContrastiveICA(people.truth.shape[1], random_state=seed).fit(X, y)
    row["linear"] = pattern_c_index(
        people.truth, linear.transform(people.patients)
    ).mean
    return row


def measure_change(task: str, seed: int, members: int, label: str) -> Row:
    """The method as it ships, with one of its changes taken back."""
    people, new = draw_people(task, seed)
    recipe = SURREAL_GAN.replace(**CHANGES_TAKEN_BACK[label])
    trained, seconds = train(people, recipe, members, seed)
    found = score(people, trained, recipe.share, seed) | measure_synthetic(
        trained, new, seed
    )
    return {**found, "seconds": round(seconds, 1)}


def measure_random(task: str, seed: int, members: int, label: str, steps: int) -> Row:
    """The random start with one change."""
    people, new = draw_people(task, seed)
    recipe = FORMER.replace(min_steps=steps, max_steps=steps, **RANDOM_CHANGES[label])
    trained, seconds = train(people, recipe, members, seed)
    return {
        **score(people, trained, 1.0, seed),
        **measure_synthetic(trained, new, seed),
        "seconds": round(seconds, 1),
    }


def measure_sampling(task: str, seed: int, share: float = SURREAL_GAN.share) -> Row:
    """Real patients against real ones that are shifted as the training people differ
    from the population by chance.
    """
    simulated = simulate_transformed(task, seed)
    preprocessing, cohorts = Preprocessing.fit(simulated.cohort, adjust="none"), []
    for number in range(POPULATION_COHORTS + 2):
        cohort = simulate_transformed(task, seed + NEW_PEOPLE + number).cohort
        X, patient = (
            (preprocessing.transform(cohort) - CONTROL_MEAN) / CONTROL_SD,
            cohort.is_patient,
        )
        cohorts.append((X[~patient], X[patient]))
    (_, real), (_, others), *population = cohorts
    X, patient = (
        (preprocessing.transform(simulated.cohort) - CONTROL_MEAN) / CONTROL_SD,
        simulated.cohort.is_patient,
    )
    seen = draw_subsample(
        patient.astype(int), share, np.random.default_rng([seed, 0])
    ).seen
    X, patient = X[seen], patient[seen]
    difference = np.mean(
        [
            patients.mean(axis=0) - controls.mean(axis=0)
            for controls, patients in population
        ],
        axis=0,
    )
    shift = X[patient].mean(axis=0) - X[~patient].mean(axis=0) - difference
    found = measure_realism(
        real, others[: (~simulated.cohort.is_patient).sum()] + shift, seed
    )
    return {
        "auc": found.auc,
        "best_auc": max(found.auc.values()),
        "mean_error": found.mean_error,
    }


def measure_choice(n_patterns: int, seed: int, members: int) -> Row:
    """M and lambda by agreement, as ``fit --method surreal-gan`` chooses them, and each
    lambda at the true M.
    """
    simulated, start = (
        simulate_cohort(make_task_with_patterns(n_patterns), seed),
        time.process_time(),
    )
    with TemporaryDirectory() as folder:
        options = {
            "method": "surreal-gan",
            "adjust": "none",
            "workers": 1,
            "seed": seed,
            "progress": False,
        }
        model = ri.fit(simulated.cohort, out=folder, **options)
    seconds = time.process_time() - start
    assert model.selection is not None
    assert model.selection.chosen is not None
    grid = [
        {**vars(each.setting), "agreement": each.agreement.concordance}
        for each in model.selection.grid
    ]
    preprocessing = Preprocessing.fit(simulated.cohort, adjust="none")
    X, patient = preprocessing.transform(simulated.cohort), simulated.cohort.is_patient
    people, by_lambda = People(X[~patient], X[patient], simulated.truth), {}
    for weight in ORTHOGONALITY_WEIGHTS:
        trained, _ = train(
            people, SURREAL_GAN.replace(orthogonality=weight), members, seed
        )
        by_lambda[str(weight)] = score(people, trained, SURREAL_GAN.share, seed)[
            "consensus"
        ]
    chosen = model.selection.chosen.setting
    return {
        "chosen": {
            "n_patterns": chosen.n_patterns,
            "orthogonality": chosen.orthogonality,
        },
        "by_lambda": by_lambda,
        "grid": grid,
        "seconds": round(seconds, 1),
    }


# ---- rows and tables


def list_work(
    options: argparse.Namespace,
) -> Iterator[tuple[list[Any], Callable[[], Row]]]:
    """Yield the name of each row of a part, and the function that measures it."""
    first, end = map(int, options.seeds.split(":"))
    for seed in range(first, end):
        if options.part == "accuracy":
            for task in options.tasks or PAPER:
                yield (
                    ["accuracy", task, seed],
                    partial(measure_accuracy, task, seed, options.members),
                )
                yield ["default", task, seed], partial(measure_default, task, seed)
                yield ["limit", task, seed], partial(measure_limit, task, seed)
        elif options.part == "game":
            for task in options.tasks or (*PAPER, *WRONG_STARTS):
                yield (
                    ["game", task, seed],
                    partial(measure_game, task, seed, options.members),
                )
        elif options.part == "changes":
            for task in options.tasks or ("basic", "mild"):
                for label in options.labels or CHANGES_TAKEN_BACK:
                    yield (
                        ["changes", task, seed, label],
                        partial(measure_change, task, seed, options.members, label),
                    )
        elif options.part == "random":
            for task in options.tasks or ("basic", "mild"):
                for label in options.labels or RANDOM_CHANGES:
                    arguments = (task, seed, options.members, label, options.steps)
                    yield (
                        ["random", task, seed, label, options.steps],
                        partial(measure_random, *arguments),
                    )
        elif options.part == "sampling":
            for task in options.tasks or PAPER:
                yield ["sampling", task, seed], partial(measure_sampling, task, seed)
        elif options.part == "choice":
            for number in (2, 3):
                yield (
                    ["choice", number, seed],
                    partial(measure_choice, number, seed, options.members),
                )


def format_tables(rows: list[Row]) -> str:
    """Return the tables of all parts in markdown."""
    lines = [
        "# Surreal-GAN",
        "Written by `python -m benchmarks.surreal_gan`; not adjusted, the true M, lambda 0.2.",
        "",
    ]
    parts = {
        "accuracy": _list_accuracy,
        "sampling": _list_sampling,
        "game": _list_game,
        "changes": _list_changes,
    }
    parts["random"] = _list_random
    others: dict[str, dict[tuple[Any, ...], float]] = {
        name: {
            tuple(row["job"][1:]): row["accuracy"]
            for row in rows
            if row["job"][0] == name
        }
        for name in ("default", "limit")
    }
    for part, describe in parts.items():
        found = [row for row in rows if row["job"][0] == part]
        if part == "accuracy":
            found = [
                row
                | {
                    name: known.get(tuple(row["job"][1:]), np.nan)
                    for name, known in others.items()
                }
                for row in found
            ]
        lines += describe(found) if found else []
    return (
        "\n".join(
            [*lines, *_list_choice([row for row in rows if row["job"][0] == "choice"])]
        )
        + "\n"
    )


def _average(rows: list[Row], *names: str) -> float:
    values = []
    for row in rows:
        value: Any = row
        for name in names:
            value = value[name]
        values.append(value)
    return float(np.mean(values))


def _by_task(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        task: [row for row in rows if row["job"][1] == task]
        for task in dict.fromkeys(row["job"][1] for row in rows)
    }


def _list_accuracy(rows: list[Row]) -> list[str]:
    members = {len(row["members"]) for row in rows}
    lines = [
        f"## As it ships, {'/'.join(map(str, sorted(members)))} members",
        "| task | cohorts | paper | mean member | on patients whom it has not seen | consensus | agreement | "
        "method trajectories | regression | limit | processor (s) | AUC synthetic | AUC real | mean | sd |",
        "|---" * 15 + "|",
    ]
    names = (
        "mean_member",
        "unseen",
        "consensus",
        "agreement",
        "default",
        "regression",
        "limit",
    )
    for task, own in _by_task(rows).items():
        numbers = " | ".join(f"{_average(own, name):.3f}" for name in names)
        real = float(np.mean([max(row["auc_real_real"].values()) for row in own]))
        errors = f"{_average(own, 'mean_error'):.3f} | {_average(own, 'sd_error'):.3f}"
        lines.append(
            f"| {task} | {len(own)} | {PAPER.get(task, '')} | {numbers} | {_average(own, 'seconds'):.0f} | "
            f"{_average(own, 'best_auc'):.3f} | {real:.3f} | {errors} |"
        )
    gaps = [
        _average(rows, "regression") - _average(rows, name)
        for name in ("mean_member", "consensus")
    ]
    lines += [
        "",
        f"Mean gap to the regression: member {gaps[0]:.3f}, consensus {gaps[1]:.3f}. AUC: the best of three ",
    ]
    lines[-1] += (
        "classifiers, synthetic patients from new controls against new real patients, and real against real; "
    )
    return [
        *lines[:-1],
        lines[-1]
        + "mean and sd: mean absolute differences over regions, in control sd.",
        "",
    ]


def _list_sampling(rows: list[Row]) -> list[str]:
    lines = [
        "## What sampling alone does",
        "Real patients against other real ones, which are shifted by the sampling error of the group means of the "
        "people of one member.",
        "",
        "| task | AUC of logistic regression with squares | AUC of the best of three | mean |",
        "|---" * 4 + "|",
    ]
    for task, own in _by_task(rows).items():
        linear = _average(own, "auc", "logistic regression with squares")
        lines.append(
            f"| {task} | {linear:.3f} | {_average(own, 'best_auc'):.3f} | {_average(own, 'mean_error'):.3f} |"
        )
    return [*lines, ""]


def _list_game(rows: list[Row]) -> list[str]:
    lines = [
        "## What the game adds",
        "| task | linear method | f frozen: member | consensus | AUC | f after the game: member | consensus | AUC |",
        "|---" * 8 + "|",
    ]
    for task, own in _by_task(rows).items():
        cells = [f"{_average(own, 'linear'):.3f}"]
        for name in ("frozen", "game"):
            cells += [
                f"{_average(own, name, each):.3f}"
                for each in ("mean_member", "consensus", "best_auc")
            ]
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return [*lines, ""]


def _list_changes(rows: list[Row]) -> list[str]:
    lines = [
        "## Each change taken back alone",
        f"Seed {rows[0]['job'][2]}, on which they were chosen; members: {len(rows[0]['members'])}.",
        "",
        "| task | change | mean member | AUC | mean | sd | processor (s) |",
        "|---" * 7 + "|",
    ]
    for row in rows:
        _, task, _, label = row["job"]
        numbers = " | ".join(
            f"{row[name]:.3f}"
            for name in ("mean_member", "best_auc", "mean_error", "sd_error")
        )
        lines.append(f"| {task} | {label} | {numbers} | {row['seconds']:.0f} |")
    return [*lines, ""]


def _list_random(rows: list[Row]) -> list[str]:
    lines = [
        "## Random start, one change at a time",
        "| task | seed | change | steps | mean member | consensus | agreement | AUC | processor (s) |",
        "|---" * 9 + "|",
    ]
    for row in rows:
        _, task, seed, label, steps = row["job"]
        numbers = " | ".join(
            f"{row[name]:.3f}"
            for name in ("mean_member", "consensus", "agreement", "best_auc")
        )
        lines.append(
            f"| {task} | {seed} | {label} | {steps:,} | {numbers} | {row['seconds']:.0f} |"
        )
    return [*lines, ""]


def _list_choice(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = [
        "## The choice by agreement",
        "| true M | seed | chosen M | chosen lambda | consensus at the true M by lambda | processor (s) |",
        "|---" * 6 + "|",
    ]
    for row in rows:
        _, number, seed = row["job"]
        by_lambda = ", ".join(
            f"{weight}: {value:.3f}" for weight, value in row["by_lambda"].items()
        )
        chosen = row["chosen"]
        lines.append(
            f"| {number} | {seed} | {chosen['n_patterns']} | {chosen['orthogonality']} | {by_lambda} | "
            f"{row['seconds']:.0f} |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "part",
        choices=[
            "accuracy",
            "game",
            "changes",
            "random",
            "sampling",
            "choice",
            "table",
        ],
    )
    parser.add_argument(
        "--seeds", default="900:901", help="First seed, and the one after the last."
    )
    parser.add_argument("--tasks", nargs="*", metavar="NAME")
    parser.add_argument("--labels", nargs="*", metavar="LABEL", help="Of changes.")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument(
        "--steps", type=int, default=25_000, help="Of the random start."
    )
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows: list[Row] = (
        json.loads(options.out.read_text("utf-8")) if options.out.is_file() else []
    )
    for job, measure in list_work(options):
        if any(row["job"] == job for row in rows):
            continue
        rows.append({"job": job, **measure()})
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        sys.stderr.write(f"{' '.join(map(str, job))}: done\n")
    (options.out.parent / "table.md").write_text(format_tables(rows), "utf-8")
    print(format_tables(rows))


if __name__ == "__main__":
    main()
