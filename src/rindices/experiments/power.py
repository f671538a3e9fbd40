"""How many people are needed? Accuracy, the right number of patterns and intervals by simulation, size by size."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices._version import __version__
from rindices.errors import InputError, SimulationError
from rindices.experiments.cached_parallel import JobCallback, run_jobs
from rindices.experiments.figures import PLOT_COLOURS
from rindices.experiments.reference import FittedHealthyReference
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import MAX_PATTERNS, make_task_with_patterns
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from rindices.study.evidence import count_cohort_dimensions
from rindices.tables.cohort import Cohort

GROUP_SIZES = ((80, 100), (150, 200), (300, 400), (492, 900))
LOSS_RATES = (0.1, 0.2, 0.3)
N_COHORTS = 6
FIRST_SEED = 10_000  # far from the seeds of the benchmark's suites, so that the two do not share people


@dataclass(frozen=True)
class PowerConfig:
    """What a power study simulates.

    Attributes
    ----------
    people : tuple of (controls, patients)
    rates : tuple of float
        Share of volume that a pattern takes at severity 1.
    patterns : int
        True number of patterns.
    cohorts : int
        Simulated cohorts a size and rate.
    covariates : tuple of str
        To adjust for; none: normal variation with age, sex and head size stays in.
    healthy : Cohort, optional
        Healthy people whose distribution is simulated instead of the reference generator's.
    """

    people: tuple[tuple[int, int], ...] = GROUP_SIZES
    rates: tuple[float, ...] = LOSS_RATES
    patterns: int = 3
    cohorts: int = N_COHORTS
    covariates: tuple[str, ...] = ()
    healthy: Cohort | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if min(min(pair) for pair in self.people) < 10:
            raise InputError("give at least 10 controls and 10 patients.")
        if not 1 <= self.patterns <= MAX_PATTERNS or not all(0 < rate < 1 for rate in self.rates):
            raise InputError(f"give 1 to {MAX_PATTERNS} patterns, and rates between 0 and 1.")


@dataclass(frozen=True)
class PowerJob:
    """One simulated cohort of a power study."""

    setting: PowerConfig
    n_controls: int
    n_patients: int
    rate: float
    seed: int

    @property
    def key(self) -> str:
        """A name that is the same for the same work, and for nothing else."""
        who = "reference" if self.setting.healthy is None else self.setting.healthy.fingerprint()[:12]
        what = f"m{self.setting.patterns}-{'_'.join(self.setting.covariates)}-{who}"
        return f"power-{self.n_controls}-{self.n_patients}-{self.rate:g}-{self.seed}-{what}-v{__version__}"


def run_power(
    setting: PowerConfig, store: Path | None = None, workers: int = -1, told: JobCallback | None = None
) -> dict[str, Any]:
    """Simulate all sizes and effects, and return a row for each.

    Returns
    -------
    dict
        ``patterns``, ``cohorts``, ``covariates`` and ``rows``: controls, patients, rate, and mean and standard error
        of ``accuracy`` (pattern-c-index), ``right`` (the test finds the true number), ``any`` (it finds at least one
        pattern) and ``width`` (of the 95 % interval of a person's severity, severities being 0 to 1).
    """
    pairs = [(n, m, rate) for rate in setting.rates for n, m in setting.people]
    draws = [PowerJob(setting, *pair, FIRST_SEED + seed) for pair in pairs for seed in range(setting.cohorts)]
    found = run_jobs(draws, measure_power_job, store, workers, told)
    rows = []
    for place, (n_controls, n_patients, rate) in enumerate(pairs):
        own = found[place * setting.cohorts : (place + 1) * setting.cohorts]
        row: dict[str, Any] = {"controls": n_controls, "patients": n_patients, "rate": rate}
        for name in ("accuracy", "right", "any", "width"):
            values = np.array([float(one[name]) for one in own])
            row[name] = float(values.mean())
            row[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        rows.append(row)
    asked = {"patterns": setting.patterns, "cohorts": setting.cohorts, "covariates": list(setting.covariates)}
    return asked | {"rows": rows}


def measure_power_job(draw: PowerJob) -> dict[str, Any]:
    """Simulate one cohort, learn from it, hold it against the truth."""
    setting = draw.setting
    spec = make_task_with_patterns(setting.patterns)
    task = replace(spec, n_controls=draw.n_controls, n_patients=draw.n_patients, rate=draw.rate)
    reference = None if setting.healthy is None else FittedHealthyReference.fit(setting.healthy)
    made = simulate_cohort(task, draw.seed, reference=reference)
    absent = [name for name in setting.covariates if name not in made.cohort.covariates]
    if absent:
        raise SimulationError(f"there is no covariate {absent[0]}: there is {', '.join(made.cohort.covariates)}.")
    cohort = replace(made.cohort, covariates=made.cohort.covariates[list(setting.covariates)])
    X, y = Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    indices = ContrastiveICA(setting.patterns, draw.seed).fit(X, y).transform(X[y == 1])
    score = pattern_c_index(made.truth, indices)
    number = count_cohort_dimensions(cohort, draw.seed).number
    width = compute_interval_width(made.truth, indices[:, score.matching])
    return {"accuracy": score.mean, "right": number == setting.patterns, "any": number > 0, "width": width}


def compute_interval_width(truth: FloatArray, indices: FloatArray) -> float:
    """Return the mean width of the 95 % interval of a severity, given its R-index: (N, M) x2."""
    widths = []
    for severity, index in zip(truth.T, indices.T, strict=True):
        slope, level = np.polyfit(index, severity, 1)
        widths.append(2 * 1.96 * float(np.std(severity - slope * index - level, ddof=2)))
    return float(np.mean(widths))


def format_markdown(result: dict[str, Any]) -> str:
    """Return the rows as a table."""
    lines = ["| share lost | controls | patients | accuracy | right number | any pattern | interval |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in result["rows"]:
        error = "" if row["accuracy_se"] is None else f" +- {row['accuracy_se']:.3f}"
        cells = [f"{row['rate']:.0%}", str(row["controls"]), str(row["patients"]), f"{row['accuracy']:.3f}{error}"]
        cells += [f"{row['right']:.0%}", f"{row['any']:.0%}", f"{row['width']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    foot = (
        f"{result['cohorts']} simulated cohorts a row, {result['patterns']} patterns. Share lost: of a region at the "
        "highest severity. Accuracy: pattern-c-index, 1 perfect, 0.5 chance. Interval: width of the 95 % interval of a "
        "person's severity, severities being 0 to 1."
    )
    return "\n".join([*lines, "", foot, ""])


def plot_power(result: dict[str, Any], path: Path) -> None:
    """Draw accuracy, the chance of the right number and the intervals against the number of people, into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    frame = pd.DataFrame(result["rows"])
    sizes = sorted({(row["controls"], row["patients"]) for row in result["rows"]})
    figure = Figure(figsize=(10.5, 3.8), layout="constrained")
    panels = {
        "accuracy": "accuracy (pattern-c-index)",
        "right": "chance of the right number",
        "width": "width of a person's 95 % interval",
    }
    for axes, (name, label) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        for (rate, rows), colour in zip(frame.groupby("rate"), PLOT_COLOURS, strict=False):
            people, error = rows["controls"] + rows["patients"], rows[f"{name}_se"].astype(float).fillna(0.0)
            axes.errorbar(
                people, rows[name], error, color=colour, marker="o", ms=4, capsize=2, label=f"{rate:.0%} lost"
            )
        axes.set_xscale("log")
        axes.set_xticks([n + m for n, m in sizes], [f"{n}\n+ {m}" for n, m in sizes])
        axes.set_xticks([], minor=True)
        axes.set_title(label, loc="left", fontsize="medium")
        axes.set_ylim(*{"accuracy": (0.5, 1.0), "right": (-0.03, 1.03), "width": (0.0, None)}[name])
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_xlabel("controls + patients")
    figure.axes[0].legend(frameon=False, fontsize="small")
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150)
