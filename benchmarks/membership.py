"""Who took part? Attacks on the owner's file and on published files of simulated
studies.

    python -m benchmarks.membership [--models FOLDER] [--parts choice,report]

The attacker has a person's values, covariates and group, 5,000 others of the same
population (seed 1100), the file that ``rindices model publish`` writes of these others,
and knows all steps of rounding. Each part of a file gives scores:

- likelihood ratios: of the person under the others' file with one part replaced (means
  and effects of covariates, standard deviations, patterns, covariance, all of these,
  distribution and distances of training people, covariates, ranges), with 0, 0.3, 1 and
  3 times the identity added to the covariance, as rounding calls for;
- score tests: the change of means, patterns, covariance and weights that the person
  would cause, times the difference between the file and the others' parameters, which
  are not rounded.

A logistic regression of all scores, by group, is trained on studies of seeds 100 and
101, whose people the attacker is given, and attacks studies of seeds 900 to 902. The
strongest attack is the one of all scores and of the regression that does best in the
reported studies. People who did not take part are of seed 1300: half of them are
trained on, the others are reported. Also: c-index of their severities, by the owner's
and the published file; width of intervals; and how well people with five regions
shifted by 3 standard deviations of (adjusted) controls are told from others. Steps of
rounding and the factor of the card's estimate were chosen on studies of seeds 100 and
101, with people of seed 1300 as those who did not take part. The part ``choice`` shows
other steps there. ``--models`` keeps fitted models; rows of the report in the JSON are
not measured again. Writes ``results/membership.json`` and ``.md``.
"""

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from scipy.optimize import linear_sum_assignment
from scipy.stats import gaussian_kde, mannwhitneyu
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rindices as ri
from rindices._typing import BoolArray, FloatArray
from rindices.atomic import write_atomically
from rindices.exchange import publish
from rindices.exchange.publish import (
    coarsen_model,
    make_reference_correlation,
    publish_model,
    round_to,
)
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from rindices.learners.inference import TrajectoryHead, apply_log_transform
from rindices.learners.severity_posterior import SeverityPosterior, compute_step_basis
from rindices.learners.trajectory.expectation import compute_log_likelihood
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.model.normal_reference import NormalReference
from rindices.selection.agreement import pattern_c_index
from rindices.study.config import make_study
from rindices.study.study import Study, StudyPeople
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "membership.json"
SIZES, OTHERS_SIZE, MEMBERS, PATTERNS = ((150, 200), (492, 900)), (2000, 3000), 10, 3
NEW_SIZE = (1000, 1500)
CHOICE_SEEDS, REPORT_SEEDS, OTHERS_SEED, NEW_SEED = (
    (100, 101),
    (900, 901, 902),
    1100,
    1300,
)
RIDGES = (0.0, 0.3, 1.0, 3.0)
SCALES = (0.5, 0.7, 1.0, 1.4, 2.0)
KINDS = ("owner", "published", "owner, with reference", "published, with reference")


class Parameters(NamedTuple):
    """What a file says about logarithms of volumes: everything that a person's
    likelihood depends on.
    """

    model: ri.FittedModel
    centre: FloatArray
    effects: FloatArray
    mean: FloatArray
    sd: FloatArray
    share: float
    shift_mean: FloatArray
    shift_scale: FloatArray
    steps: FloatArray
    noise: FloatArray
    copula: FloatArray

    @classmethod
    def read(
        cls, model: ri.FittedModel, target: FloatArray | None = None
    ) -> "Parameters":
        """Average the members of a model; patterns are in the order of those of
        ``target`` (M, R).
        """
        heads = [head for head in model.heads if isinstance(head, TrajectoryHead)]
        pairs = list(zip(heads, map(list, model.orders), strict=True))
        steps = np.mean([head.steps[order] for head, order in pairs], axis=0)
        copula = np.mean(
            [head.correlation[np.ix_(order, order)] for head, order in pairs], axis=0
        )
        if target is not None:
            similar = np.corrcoef(target, steps.sum(axis=1))[
                : len(target), len(target) :
            ]
            order = linear_sum_assignment(-similar)[1]
            steps, copula = steps[order], copula[np.ix_(order, order)]
        residualiser, standardiser = (
            model.preprocessing.residualiser,
            model.preprocessing.standardiser,
        )
        return cls(
            model,
            residualiser.centre,
            residualiser.coefficients,
            standardiser.mean,
            standardiser.sd,
            float(np.mean([head.log_constant for head in heads])),
            np.mean([head.shift_mean for head in heads], axis=0),
            np.mean([head.shift_scale for head in heads], axis=0),
            steps,
            np.mean([np.linalg.inv(head.precision) for head in heads], axis=0),
            copula,
        )

    @property
    def patterns(self) -> FloatArray:
        return np.asarray(self.steps.sum(axis=1))

    def predict(self, people: "People") -> FloatArray:
        return np.asarray(self.mean + (people.design - self.centre) @ self.effects)

    def shift(self, people: "People") -> FloatArray:
        z = apply_log_transform(
            (people.logs - self.predict(people)) / self.sd, self.share
        )
        return np.asarray((z - self.shift_mean) / self.shift_scale)

    def infer(self, people: "People") -> FloatArray:
        """Return the expected severities (N, M) of patients; 0 for controls."""
        weights: FloatArray = np.linalg.solve(
            self.noise, self.steps.reshape(-1, len(self.noise)).T
        )
        posterior = SeverityPosterior.build(self.steps, weights, self.copula, None)
        severities = np.zeros((len(people.logs), len(self.steps)))
        severities[people.is_patient] = posterior.compute_means(
            (self.shift(people) @ weights)[people.is_patient]
        )
        return severities

    def compute_likelihood(self, people: "People", ridge: float) -> FloatArray:
        shifts, noise = self.shift(people), self.noise + ridge * np.eye(len(self.noise))
        likelihood = compute_normal_likelihood(shifts, noise)
        model = TrajectoryModel(
            steps=self.steps,
            noise=noise,
            correlation=self.copula,
            common=self.steps.mean(axis=2),
        )
        likelihood[people.is_patient] = compute_log_likelihood(
            shifts[people.is_patient], model
        )
        return np.asarray(likelihood - np.log(self.sd * self.shift_scale).sum())


class People(NamedTuple):
    """People of whom the attacker knows everything: logarithms of volumes (N, R),
    design (N, P), covariates, group.
    """

    cohort: Cohort
    logs: FloatArray
    design: FloatArray
    is_patient: BoolArray

    @classmethod
    def read(cls, cohort: Cohort, model: ri.FittedModel) -> "People":
        volumes, design = model.preprocessing.inputs(cohort)
        return cls(cohort, np.log(volumes), design, cohort.is_patient)


def compute_normal_likelihood(
    deviations: FloatArray, covariance: FloatArray
) -> FloatArray:
    root = np.linalg.cholesky(covariance)
    white = solve_triangular(root, deviations.T, lower=True)
    return np.asarray(-0.5 * np.square(white).sum(axis=0) - np.log(np.diag(root)).sum())


def compute_scores(
    file: Parameters, others: Parameters, exact: Parameters, people: People
) -> dict[str, FloatArray]:
    """Return the scores of people; others: the file of the others; exact: their
    parameters, not rounded.
    """
    return dict(
        [
            *iterate_ratios(file, others, people),
            *iterate_score_tests(file, exact, people),
        ]
    )


def iterate_ratios(
    file: Parameters, others: Parameters, people: People
) -> Iterator[tuple[str, FloatArray]]:
    """Yield logarithms of likelihood ratios."""
    changed = {
        "means": others._replace(
            mean=file.mean, centre=file.centre, effects=file.effects
        ),
        "standard deviations": others._replace(sd=file.sd),
        "patterns": others._replace(steps=file.steps, copula=file.copula),
        "covariance": others._replace(noise=file.noise),
        "all": file,
    }
    for ridge in RIDGES:
        usual = others.compute_likelihood(people, ridge)
        for name, parameters in changed.items():
            yield (
                f"{name}, ratio {ridge:g}",
                parameters.compute_likelihood(people, ridge) - usual,
            )
    for name, describe in (
        ("training", describe_training),
        ("covariates", describe_covariates),
    ):
        yield name, describe(file.model, people) - describe(others.model, people)
    yield "distances", compare_distances(file.model, people)
    yield (
        "ranges",
        -np.sum(
            [
                is_outside(file.model, people, name)
                for name in file.model.card.covariate_ranges
            ],
            axis=0,
        ),
    )


def describe_training(model: ri.FittedModel, people: People) -> FloatArray:
    assert model.training is not None
    values = model.preprocessing.transform(people.cohort)
    return compute_normal_likelihood(
        values - model.training.mean, model.training.covariance
    )


def compare_distances(model: ri.FittedModel, people: People) -> FloatArray:
    """Return how much denser the stored distances of training people are than those of
    the others, as a logarithm.
    """
    training = model.training
    assert training is not None
    if not model.has_distances:
        return np.zeros(len(people.logs))
    own, others = (
        training.compute_distances(model.preprocessing.transform(cohort))
        for cohort in (people.cohort, draw(OTHERS_SIZE, OTHERS_SEED).cohort)
    )
    widths = np.maximum(np.diff(training.distances), 0.05)
    places = np.clip(np.searchsorted(training.distances, own) - 1, 0, len(widths) - 1)
    is_within = (own >= training.distances[0]) & (own <= training.distances[-1])
    density = np.where(
        is_within, np.log(np.diff(training.shares) / widths)[places], -10.0
    )
    return np.asarray(density - np.log(gaussian_kde(others)(own)))


def describe_covariates(model: ri.FittedModel, people: People) -> FloatArray:
    residualiser = model.preprocessing.residualiser
    assert residualiser.covariance is not None
    return compute_normal_likelihood(
        people.design - residualiser.centre, residualiser.covariance
    )


def is_outside(model: ri.FittedModel, people: People, name: str) -> FloatArray:
    low, high = model.card.covariate_ranges[name]
    values = people.cohort.covariates[name].to_numpy(dtype=float)
    return np.asarray((values < low) | (values > high), dtype=float)


def iterate_score_tests(
    file: Parameters, exact: Parameters, people: People
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the change that a person causes in each part, times the difference of the
    file from the population.
    """
    severities, identity = exact.infer(people), np.eye(len(exact.noise))
    change = compute_step_basis(severities) @ exact.steps.reshape(-1, len(identity))
    residuals = exact.shift(people) - np.where(people.is_patient[:, None], change, 0.0)
    means = (file.predict(people) - exact.predict(people)) / exact.sd
    patterns = file.patterns.T
    weights, usual = (
        np.linalg.solve(noise, patterns) for noise in (file.noise, exact.noise)
    )
    projected = np.linalg.solve(exact.noise, residuals.T).T
    for ridge in (*RIDGES, 10.0):
        scaled = np.linalg.solve(exact.noise + ridge * identity, residuals.T).T
        yield f"means, score {ridge:g}", np.einsum("ir,ir->i", scaled, means)
        yield (
            f"patterns, score {ridge:g}",
            np.einsum(
                "ir,ir->i", scaled, severities @ (file.patterns - exact.patterns)
            ),
        )
        difference = file.noise - exact.noise
        yield (
            f"covariance, score {ridge:g}",
            0.5 * np.einsum("ir,rs,is->i", scaled, difference, scaled),
        )
        metric = np.linalg.inv(np.linalg.inv(exact.noise) + ridge * identity)
        own = projected @ patterns @ np.linalg.inv(patterns.T @ usual)
        yield (
            f"weights, score {ridge:g}",
            -np.einsum("im,im->i", own, projected @ metric @ (weights - usual)),
        )
    yield (
        "standard deviations, score",
        (np.square(residuals) - 1.0) @ (np.log(file.sd) - np.log(exact.sd)),
    )


def compute_auc(inside: FloatArray, outside: FloatArray) -> float:
    return float(mannwhitneyu(inside, outside).statistic / (len(inside) * len(outside)))


def coarsen_scaled(
    model: ri.FittedModel, reference: FloatArray | None, scale: float
) -> ri.FittedModel:
    """Return the published file of a model, with all steps of rounding
    times a factor.
    """
    with patch.object(
        publish, "round_to", lambda values, step: scale * round_to(values / scale, step)
    ):
        return coarsen_model(model, reference)


class Population:
    """The attacker's others, the people who did not take part, and fitted models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.others = self.fit(OTHERS_SIZE, OTHERS_SEED, False)
        self.new = draw(NEW_SIZE, NEW_SEED)
        self.outside = People.read(self.new.cohort, self.others)
        self.is_report = np.arange(len(self.outside.logs)) % 2 == 1

    def fit(
        self, size: tuple[int, int], seed: int, with_reference: bool
    ) -> ri.FittedModel:
        path = (
            self.folder
            / f"{size[0]}_{size[1]}_{seed}_{int(with_reference)}.safetensors"
        )
        if not path.exists():
            reference = make_reference() if with_reference else None
            cohort, runs = draw(size, seed).cohort, self.folder / "runs"
            ri.fit(
                cohort,
                PATTERNS,
                members=MEMBERS,
                seed=seed,
                workers=1,
                reference=reference,
                runs=runs,
            ).save(path)
        return ri.load(path)

    def publish(
        self,
        model: ri.FittedModel,
        size: tuple[int, int],
        seed: int,
        with_reference: bool,
    ) -> ri.FittedModel:
        """Publish a model as the command does."""
        model_section = {"patterns": [PATTERNS], "members": MEMBERS}
        sections = {
            "data": {"volumes": "memory"},
            "model": model_section,
            "run": {"seed": seed},
        }
        config = make_study(sections, "benchmark")
        people = StudyPeople(Study(draw(size, seed).cohort, config), config.model)
        assert people.seen is not None
        means = np.array([pipeline.standardiser.mean for pipeline in people.pipelines])
        rows = [
            int(np.abs(means - each.standardiser.mean).sum(axis=1).argmin())
            for each in model.pipelines
        ]
        reference = make_reference() if with_reference else None
        return publish_model(model, people.cohort, people.seen[rows], reference)

    def attack(
        self,
        model: ri.FittedModel,
        others: ri.FittedModel,
        size: tuple[int, int],
        seed: int,
    ) -> "Scores":
        exact = Parameters.read(self.others)
        file, usual = (
            Parameters.read(each, exact.patterns) for each in (model, others)
        )
        inside = People.read(draw(size, seed).cohort, self.others)
        scores = [
            compute_scores(file, usual, exact, people)
            for people in (inside, self.outside)
        ]
        names = list(scores[0])
        arrays = [
            np.column_stack([np.nan_to_num(each[name]) for name in names])
            for each in scores
        ]
        return Scores(names, arrays[0], arrays[1], inside.is_patient)

    def coarsen_others(
        self, size: tuple[int, int], with_reference: bool, scale: float = 1.0
    ) -> ri.FittedModel:
        """Return the others' file, with as many factors as that of the study."""
        trained_on = {"people": sum(size), "controls": size[0], "patients": size[1]}
        model = replace(
            self.others,
            card=self.others.card.model_copy(update={"trained_on": trained_on}),
        )
        reference = (
            make_reference_correlation(make_reference(), model.regions)
            if with_reference
            else None
        )
        return coarsen_scaled(model, reference, scale)

    def make_files(
        self, size: tuple[int, int], seed: int, kind: str
    ) -> tuple[ri.FittedModel, ri.FittedModel]:
        """Return the file that is attacked, and the one of the others."""
        with_reference = "reference" in kind
        owner = self.fit(size, seed, with_reference)
        if kind.startswith("owner"):
            return owner, self.others
        return self.publish(owner, size, seed, with_reference), self.coarsen_others(
            size, with_reference
        )


class Scores(NamedTuple):
    """Scores of people who took part (N, S) and of others."""

    names: list[str]
    inside: FloatArray
    outside: FloatArray
    is_patient: BoolArray

    def split(
        self, outside_patient: BoolArray, rows: BoolArray
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the scores of controls, then of patients; ``rows``: of those who did
        not take part.
        """
        for label in (False, True):
            yield (
                self.inside[self.is_patient == label],
                self.outside[(outside_patient == label) & rows],
            )


class Attack(NamedTuple):
    """Combination of scores, by group, learnt from studies whose people are known."""

    combinations: list[Any]

    @classmethod
    def learn(cls, studies: Sequence[Scores], population: Population) -> "Attack":
        groups = [
            list(each.split(population.outside.is_patient, ~population.is_report))
            for each in studies
        ]
        learnt = []
        for label in (0, 1):
            values = np.concatenate([np.concatenate(each[label]) for each in groups])
            took_part = np.concatenate(
                [
                    np.repeat([1, 0], [len(part) for part in each[label]])
                    for each in groups
                ]
            )
            regression = LogisticRegression(
                C=0.02, class_weight="balanced", max_iter=2000
            )
            learnt.append(
                make_pipeline(StandardScaler(), regression).fit(values, took_part)
            )
        return cls(learnt)

    def measure(
        self, study: Scores, population: Population
    ) -> dict[str, dict[str, float]]:
        """Return AUC and true positives at 1 % false positives of each score, averaged
        over people of both groups.
        """
        figures: dict[str, dict[str, float]] = {}
        pairs = list(study.split(population.outside.is_patient, population.is_report))
        share = float(study.is_patient.mean())
        for column, name in enumerate([*study.names, "logistic regression"]):
            by_group = []
            for (inside, outside), combination in zip(
                pairs, self.combinations, strict=True
            ):
                if column < len(study.names):
                    own, other = inside[:, column], outside[:, column]
                else:
                    own, other = (
                        combination.decision_function(values)
                        for values in (inside, outside)
                    )
                by_group.append(
                    (
                        compute_auc(own, other),
                        float((own > np.quantile(other, 0.99)).mean()),
                    )
                )
            auc, power = (1 - share) * np.array(by_group[0]) + share * np.array(
                by_group[1]
            )
            figures[name] = {
                "auc": auc,
                "controls": by_group[0][0],
                "patients": by_group[1][0],
                "tpr": power,
            }
        return figures


@cache
def make_reference() -> NormalReference:
    return NormalReference.fit(draw(OTHERS_SIZE, OTHERS_SEED).cohort, "others")


@cache
def draw(size: tuple[int, int], seed: int) -> SimulatedCohort:
    return ri.simulate_cohort(
        replace(TASKS["basic"], n_controls=size[0], n_patients=size[1]), seed=seed
    )


def measure_use(model: ri.FittedModel, population: Population) -> dict[str, float]:
    """Return the accuracy of a file on people who did not take part."""
    cohort, names = population.new.cohort, model.index_names
    patients = model.apply(cohort.take(cohort.is_patient))
    score = pattern_c_index(population.new.truth, patients[names].to_numpy())
    controls = cohort.take(cohort.is_control)
    rng, sd = np.random.default_rng(0), population.others.preprocessing.standardiser.sd
    logs = np.log(controls.volumes[list(model.regions)].to_numpy())
    for row in logs:
        regions = rng.choice(len(row), 5, replace=False)
        row[regions] += 3.0 * sd[regions] * rng.choice([-1.0, 1.0], 5)
    shifted = replace(
        controls, volumes=pd.DataFrame(np.exp(logs), columns=list(model.regions))
    )
    usual = model.apply(controls)
    return {
        "c_index": float(score.mean),
        "unusual": compute_auc(
            model.apply(shifted)["outlier_score"].to_numpy(),
            usual["outlier_score"].to_numpy(),
        ),
        "novel": float(usual["outside_training_range"].mean()),
        "width": float(
            np.mean(
                [patients[f"{name}_high"] - patients[f"{name}_low"] for name in names]
            )
        ),
    }


def measure_report(
    population: Population, finished: list[dict[str, Any]]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows after each study; rows that are finished are not
    measured again.
    """
    rows, attacks = list(finished), dict[tuple[Any, str], Attack]()
    for seed, size, kind in product(REPORT_SEEDS, SIZES, KINDS):
        row: dict[str, Any] = {
            "size": f"{size[0]} + {size[1]}",
            "kind": kind,
            "seed": seed,
        }
        if any(row.items() <= each.items() for each in rows):
            continue
        file, others = population.make_files(size, seed, kind)
        row["card"] = None if file.card.membership is None else file.card.membership.auc
        row["use"] = measure_use(file, population)
        row["attacks"] = {}
        if kind != "owner, with reference":
            if (size, kind) not in attacks:
                seeds = (
                    CHOICE_SEEDS[:1]
                    if size == SIZES[1] or "reference" in kind
                    else CHOICE_SEEDS
                )
                known = [
                    population.attack(
                        *population.make_files(size, each, kind), size, each
                    )
                    for each in seeds
                ]
                attacks[size, kind] = Attack.learn(known, population)
            row["attacks"] = attacks[size, kind].measure(
                population.attack(file, others, size, seed), population
            )
        rows.append(row)
        yield rows


def measure_choice(
    population: Population, _: list[dict[str, Any]]
) -> Iterator[list[dict[str, Any]]]:
    """Return figures for other steps of rounding; the regression is trained on one
    study and attacks the other.
    """
    rows = []
    for size in SIZES:
        first, second = CHOICE_SEEDS
        for scale in SCALES:
            files = [
                coarsen_scaled(population.fit(size, seed, False), None, scale)
                for seed in CHOICE_SEEDS
            ]
            others = population.coarsen_others(size, False, scale)
            known, target = (
                population.attack(file, others, size, seed)
                for file, seed in zip(files, (first, second), strict=True)
            )
            figures = Attack.learn([known], population).measure(target, population)
            patients = population.new.cohort.take(population.new.cohort.is_patient)
            scores = [
                pattern_c_index(
                    population.new.truth,
                    each.apply(patients)[each.index_names].to_numpy(),
                ).mean
                for each in (population.fit(size, second, False), files[1])
            ]
            best = max(figures.values(), key=lambda each: each["auc"])
            row = {
                "size": f"{size[0]} + {size[1]}",
                "scale": scale,
                "auc": best["auc"],
                "tpr": best["tpr"],
            }
            rows.append(row | {"loss": float(scores[0] - scores[1])})
            yield rows


def format_page(results: dict[str, Any]) -> str:
    lines = [
        "# Who took part",
        "",
        "Written by `python -m benchmarks.membership`, whose docstring says what was done.",
        "",
    ]
    if "report" in results:
        lines += [
            "Means over studies of seeds 900 to 902. TPR: true positives at 1 % false positives.",
            "",
        ]
        lines += [
            "| people | file | AUC of the strongest attack | highest | TPR | which | logistic regression | card |"
        ]
        lines[-1] += " c-index | loss | unusual | novel controls | width of intervals |"
        lines += ["|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
        rows, losses = results["report"], {}
        for size in dict.fromkeys(row["size"] for row in rows):
            for kind in KINDS:
                cell = [
                    row for row in rows if row["size"] == size and row["kind"] == kind
                ]
                if not cell:
                    continue
                use = {
                    name: float(np.mean([row["use"][name] for row in cell]))
                    for name in cell[0]["use"]
                }
                losses[size, kind] = use["c_index"]
                mean = {
                    name: np.mean([row["attacks"][name]["auc"] for row in cell])
                    for name in cell[0]["attacks"]
                }
                if not mean:
                    continue
                best = max(mean, key=lambda name: mean[name])
                highest = max(row["attacks"][best]["auc"] for row in cell)
                power = np.mean([row["attacks"][best]["tpr"] for row in cell])
                card = (
                    ""
                    if cell[0]["card"] is None
                    else f"{np.mean([row['card'] for row in cell]):.2f}"
                )
                loss = losses[size, kind.replace("published", "owner")] - use["c_index"]
                line = f"| {size} | {kind} | {mean[best]:.3f} | {highest:.3f} | {power:.3f} | {best} "
                line += f"| {mean['logistic regression']:.3f} | {card} | {use['c_index']:.4f} | {loss:.4f} "
                lines.append(
                    line
                    + f"| {use['unusual']:.3f} | {use['novel']:.3f} | {use['width']:.3f} |"
                )
        lines += [
            "",
            "## Each part of a published file",
            "",
            "Highest AUC of the scores of a part, mean over studies.",
            "",
        ]
        parts = dict.fromkeys(name.split(",")[0] for name in rows[0]["attacks"])
        lines += [
            f"| people | file | {' | '.join(parts)} |",
            "|---|---|" + "---|" * len(parts),
        ]
        for size, kind in losses:
            cell = [
                row
                for row in rows
                if row["size"] == size and row["kind"] == kind and row["attacks"]
            ]
            if not cell:
                continue
            figures = [
                max(
                    float(np.mean([row["attacks"][name]["auc"] for row in cell]))
                    for name in cell[0]["attacks"]
                    if name.split(",")[0] == part
                )
                for part in parts
            ]
            lines.append(
                f"| {size} | {kind} | {' | '.join(f'{figure:.3f}' for figure in figures)} |"
            )
        lines.append("")
    if "choice" in results:
        lines += [
            "## Privacy against accuracy",
            "",
            "Seed 101; all steps of rounding times a factor; 1 was chosen.",
            "",
        ]
        lines += [
            "| people | factor | AUC of the strongest attack | TPR | loss of c-index |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {row['size']} | {row['scale']:g} | {row['auc']:.3f} | {row['tpr']:.3f} | {row['loss']:.4f} |"
            for row in results["choice"]
        ]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=Path)
    parser.add_argument("--parts", default="choice,report")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    population = Population(options.models or Path(mkdtemp()))
    results = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
    measures = {"choice": measure_choice, "report": measure_report}
    for part in options.parts.split(","):
        for rows in measures[part](population, results.get(part, [])):
            results[part] = rows
            print(
                part,
                {name: value for name, value in rows[-1].items() if name != "attacks"},
                flush=True,
            )
            write_atomically(OUT, (json.dumps(results, indent=1) + "\n").encode())
            write_atomically(OUT.with_suffix(".md"), format_page(results).encode())


if __name__ == "__main__":
    main()
