"""Change of R-indices: shrunken slopes, level and power of the comparison of groups,
and real patients.

    python -m benchmarks.change [--nulls 1000] [--by-hand 20] [--data DIR]

Tables of real people are read from ``../shared/data`` or ``RINDICES_DATA``. Results:
``results/change.md``, ``.json``.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import rindices
from benchmarks.suites.patients import read_psychosis_visits
from rindices.analysis.change import change_per_year
from rindices.analysis.slopes import Visits, compare_slopes, estimate_slopes

RESULTS = Path(__file__).parent / "results"
DATA = Path(
    os.environ.get("RINDICES_DATA", Path(__file__).parents[2] / "shared" / "data")
)


def simulate_visits(
    n_people: int, n_visits: int, seed: int
) -> tuple[Visits, np.ndarray]:
    """Return visits at uneven times of people of whom a third does not change, and
    their true slopes.
    """
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), n_visits)
    time = np.tile(np.arange(float(n_visits)), n_people) + rng.uniform(
        -0.3, 0.3, len(person)
    )
    slopes = np.where(rng.random(n_people) < 1 / 3, 0.0, rng.gamma(4, 0.015, n_people))
    values = (
        rng.beta(1, 2, n_people)[person]
        + slopes[person] * time
        + rng.normal(0, 0.05, len(person))
    )
    return Visits(
        values=values[:, None], time=time, person=person, n_people=n_people
    ), slopes


def measure_shrinkage() -> list[dict[str, float]]:
    rows = []
    for n_visits in (3, 4, 6):
        errors = []
        for seed in range(20):
            visits, truth = simulate_visits(100, n_visits, seed)
            result, lines = estimate_slopes(visits), visits.lines.slope[:, 0]
            covered = np.mean(np.abs(result.slopes - truth) < 1.645 * result.errors)
            errors.append(
                (
                    np.mean((lines - truth) ** 2),
                    np.mean((result.slopes - truth) ** 2),
                    covered,
                )
            )
        least, shrunken, covered = np.mean(errors, axis=0)
        rows.append(
            {
                "visits": n_visits,
                "least_squares": least,
                "shrunken": shrunken,
                "coverage": covered,
            }
        )
    return rows


def share_significant(
    number: int, effect: float, n_people: int, n_visits: int, unequal: bool = False
) -> float:
    """Return the share of cohorts in which the groups differ with p < 0.05."""
    from scipy.special import stdtr

    significant = 0
    for seed in range(number):
        rng = np.random.default_rng([seed, 7])
        visits, slopes = simulate_visits(n_people, n_visits, seed)
        is_patient = (np.arange(n_people) % 2).astype(float)
        age = rng.normal(size=(n_people, 1)) + 0.5 * is_patient[:, None]
        spread = (slopes - 0.04) * (
            is_patient if unequal else 0
        )  # patients' slopes vary twice as much
        extra = (effect * is_patient + 0.01 * age[:, 0] + spread)[
            visits.person
        ] * visits.time
        moved = Visits(
            values=visits.values + extra[:, None],
            time=visits.time,
            person=visits.person,
            n_people=n_people,
        )
        result = compare_slopes(moved, is_patient, age)
        significant += bool(
            2 * stdtr(result.freedom, -abs(result.value / result.error)) < 0.05
        )
    return significant / number


def compare_with_statsmodels(number: int) -> dict[str, float]:
    """Return how far estimates and decisions are from statsmodels' MixedLM, on values
    of unit scale.
    """
    from scipy.stats import norm
    from statsmodels.regression.mixed_linear_model import MixedLM

    ours, theirs, errors, converged = [], [], [], 0
    for seed in range(number):
        visits, _ = simulate_visits(60, 4, seed)
        is_patient = (np.arange(60) % 2).astype(float)
        values = (
            visits.values[:, 0] + 0.02 * is_patient[visits.person] * visits.time
        ) / 0.05
        scaled = Visits(
            values=values[:, None], time=visits.time, person=visits.person, n_people=60
        )
        result = compare_slopes(scaled, is_patient, np.zeros((60, 0)))
        between = np.column_stack([np.ones(60), is_patient])[visits.person]
        design = np.column_stack([between, between * visits.time[:, None]])
        z = np.column_stack([np.ones_like(visits.time), visits.time])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = MixedLM(values, design, groups=visits.person, exog_re=z).fit(
                reml=True, method=["lbfgs"]
            )
        converged += bool(expected.converged)
        ours.append(result.value / result.error)
        theirs.append(expected.fe_params[3] / expected.bse_fe[3])
        errors.append(abs(result.value - expected.fe_params[3]) / expected.bse_fe[3])
    limit = norm.ppf(0.975)
    return {
        "cohorts": number,
        "statsmodels_converged": converged,
        "median_difference_in_errors": float(np.median(errors)),
        "power_here": float(np.mean(np.abs(ours) > limit)),
        "power_statsmodels": float(np.mean(np.abs(theirs) > limit)),
        "same_decision": float(
            np.mean((np.abs(ours) > limit) == (np.abs(theirs) > limit))
        ),
    }


def measure_psychosis(data: Path) -> dict[str, list[dict[str, object]]]:
    """Fit the early-psychosis study, and compare the change of the groups by the
    cross-fitted indices of its visits.
    """
    visits = read_psychosis_visits(data / "patients")
    model = rindices.fit(visits, 1, method="mean-difference", workers=1)
    indices = model.visit_indices
    assert indices is not None
    frame = pd.concat(
        [
            indices[
                [name for name in indices if name not in ("group", *visits.covariates)]
            ],
            visits.covariates,
            visits.people["group"],
        ],
        axis=1,
    )
    frame["age"] = frame["age"].to_numpy(dtype=float)
    models = change_per_year(frame, "age", covariates=["age", "sex"])
    assert models.groups is not None
    assert models.retest is not None
    return {
        name: getattr(models, name).to_dict("records")
        for name in ("groups", "retest", "trial")
    }


def format_rows(rows: list[dict[str, object]]) -> list[str]:
    def show(value: object) -> str:
        return (
            ("n/a" if np.isnan(value) else f"{value:.4g}")
            if isinstance(value, float)
            else str(value)
        )

    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return [
        *lines,
        *(f"| {' | '.join(show(row[name]) for name in names)} |" for row in rows),
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nulls", type=int, default=1000)
    parser.add_argument("--by-hand", type=int, default=20)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    shrinkage = measure_shrinkage()
    level = [
        {
            "case": name,
            "people": people,
            "visits": visits,
            "effect": effect,
            "cohorts": number,
            "p_below_0.05": share,
        }
        for name, people, visits, effect, number, unequal in (
            ("null", 80, 3, 0.0, options.nulls, False),
            ("null, two visits", 80, 2, 0.0, options.nulls, False),
            (
                "null, slopes of patients vary more",
                80,
                3,
                0.0,
                options.nulls // 2,
                True,
            ),
            ("power", 80, 3, 0.02, options.nulls // 5, False),
        )
        for share in [share_significant(number, effect, people, visits, unequal)]
    ]
    by_hand = compare_with_statsmodels(options.by_hand)
    psychosis = (
        measure_psychosis(options.data)
        if (options.data / "patients" / "psychosis").is_dir()
        else {}
    )
    result = {
        "shrinkage": shrinkage,
        "groups": level,
        "statsmodels": by_hand,
        "psychosis": psychosis,
    }
    (RESULTS / "change.json").write_text(
        json.dumps(result, indent=1).replace("NaN", "null") + "\n"
    )
    text = ["# Change of R-indices", "", "`python -m benchmarks.change`", ""]
    text += [
        "## Slopes of 100 people: mean squared error, 20 cohorts",
        "",
        *format_rows(shrinkage),
    ]
    text += ["## Comparison of two groups, adjusted for age", "", *format_rows(level)]
    text += [
        "## The same by statsmodels (60 people, 4 visits)",
        "",
        *format_rows([by_hand]),
    ]
    for name, rows in psychosis.items():
        text += [f"## Early psychosis: {name}", "", *format_rows(rows)]
    (RESULTS / "change.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
