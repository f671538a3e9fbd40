"""Regressions equal those of statsmodels, and held-out concordance finds
what predicts.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.metrics import roc_auc_score
from statsmodels.duration.survfunc import SurvfuncRight

from rindices.analysis.outcome_models import (
    N_FOLDS,
    CoxLikelihood,
    Outcome,
    check_proportional_hazards,
    compare_predictors,
    compare_survival,
    compute_concordance,
    draw_folds,
    estimate_survival,
    fit_outcome,
    fit_ridge,
)
from rindices.errors import AnalysisError


def simulate_survival(
    number: int = 150, seed: int = 0, tied: bool = True
) -> tuple[Outcome, np.ndarray]:
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(number, 3))
    time = rng.exponential(np.exp(-design @ [0.7, -0.4, 0.0]))
    censored = rng.exponential(2.0, number)
    event, time = time <= censored, np.minimum(time, censored)
    return Outcome(event, np.ceil(time * 8) / 8 if tied else time), design


def test_cox_equals_statsmodels_with_ties() -> None:
    outcome, design = simulate_survival()
    assert outcome.time is not None
    expected = sm.PHReg(
        outcome.time, design, status=outcome.event.astype(float), ties="efron"
    ).fit(tol=1e-12)
    fit = fit_outcome(outcome, design)
    np.testing.assert_allclose(fit.coefficients, expected.params, atol=1e-6)
    np.testing.assert_allclose(
        np.sqrt(np.diag(fit.covariance)), expected.bse, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore")
def test_cox_and_its_check_equal_lifelines() -> None:
    lifelines = pytest.importorskip(
        "lifelines",
        reason="lifelines needs pandas 2: install it without its dependencies",
    )
    from lifelines.statistics import proportional_hazard_test

    outcome, design = simulate_survival(tied=False)
    frame = pd.DataFrame(design, columns=["a", "b", "c"]).assign(
        time=outcome.time, event=outcome.event
    )
    model = lifelines.CoxPHFitter().fit(
        frame, "time", "event", fit_options={"precision": 1e-12}
    )
    fit = fit_outcome(outcome, design)
    np.testing.assert_allclose(fit.coefficients, model.params_, atol=1e-6)
    np.testing.assert_allclose(
        np.sqrt(np.diag(fit.covariance)), model.standard_errors_, atol=1e-6
    )
    expected = proportional_hazard_test(model, frame, time_transform="rank").p_value
    np.testing.assert_allclose(
        check_proportional_hazards(outcome, design, fit), expected, atol=1e-3
    )


def test_a_ridge_penalty_of_each_column_is_at_its_optimum() -> None:
    """The gradient of the penalised likelihood is zero, with an intercept that has no
    penalty.
    """
    survival, design = simulate_survival(200)
    penalty = np.array([1e-3, 5.0, 80.0])
    coefficients = fit_ridge(Outcome(survival.event), design, penalty)
    intercept = np.linspace(-3, 3, 60_001)
    linear = design @ coefficients
    total = (1 / (1 + np.exp(-linear[:, None] - intercept[::100]))).sum(axis=0)
    start = intercept[::100][np.argmin(np.abs(total - survival.event.sum()))]
    near = start + np.linspace(-0.01, 0.01, 2001)
    total = (1 / (1 + np.exp(-linear[:, None] - near))).sum(axis=0)
    best = near[np.argmin(np.abs(total - survival.event.sum()))]
    probability = 1 / (1 + np.exp(-linear - best))
    gradient = design.T @ (probability - survival.event) + penalty * coefficients
    np.testing.assert_allclose(gradient, 0, atol=5e-3)
    assert survival.time is not None
    likelihood = CoxLikelihood(survival.time, survival.event, design)
    found = fit_ridge(survival, design, penalty)
    np.testing.assert_allclose(
        likelihood.evaluate(found)[1] + penalty * found, 0, atol=1e-6
    )


def test_derivatives_are_those_of_the_likelihood() -> None:
    outcome, design = simulate_survival(60)
    assert outcome.time is not None
    likelihood, point, step = (
        CoxLikelihood(outcome.time, outcome.event, design),
        np.array([0.3, -0.2, 0.5]),
        1e-5,
    )
    _, gradient, hessian = likelihood.evaluate(point)
    for k in range(3):
        shift = step * np.eye(3)[k]
        high, low = (
            likelihood.evaluate(point + shift),
            likelihood.evaluate(point - shift),
        )
        assert gradient[k] == pytest.approx((high[0] - low[0]) / (2 * step), abs=1e-6)
        np.testing.assert_allclose(
            hessian[k], (high[1] - low[1]) / (2 * step), atol=1e-6
        )


def test_a_ridge_penalty_shrinks_and_separated_groups_are_not_estimable() -> None:
    outcome, design = simulate_survival()
    free, ridge = (
        fit_outcome(outcome, design),
        fit_ridge(outcome, design, np.full(3, 50.0)),
    )
    assert np.abs(ridge).sum() < 0.8 * np.abs(free.coefficients).sum()
    separated = Outcome(design[:, 0] > 0)
    assert not fit_outcome(separated, design).is_estimable.any()
    assert np.isfinite(fit_ridge(separated, design, np.ones(3))).all()


def test_the_check_finds_a_hazard_ratio_that_fades() -> None:
    rng = np.random.default_rng(2)
    group = np.repeat([0.0, 1.0], 200)
    early, late = rng.exponential(1 / np.exp(2 * group)), rng.exponential(1.0, 400)
    time = np.where(early < 0.3, early, 0.3 + late)  # groups differ before 0.3 alone
    outcome, design = (
        Outcome(np.ones(400, dtype=bool), time),
        np.column_stack([group, rng.normal(size=400)]),
    )
    p = check_proportional_hazards(outcome, design, fit_outcome(outcome, design))
    assert p[0] < 1e-4
    assert p[1] > 0.01


@pytest.mark.parametrize("is_survival", [True, False])
def test_columns_of_any_scale_and_a_category_without_events(is_survival: bool) -> None:
    """The other coefficients are those without the people of the category, who tell
    nothing of them.
    """
    survival, design = simulate_survival(180)
    rare, icv = np.arange(180) < 6, 1.5e6 + 1e5 * design[:, 2]
    event = survival.event & ~rare
    outcome = Outcome(event, survival.time if is_survival else None)
    fit = fit_outcome(outcome, np.column_stack([design[:, :2], icv, rare]))
    without = fit_outcome(
        outcome.take(~rare), np.column_stack([design[:, :2], icv])[~rare]
    )
    assert fit.is_estimable.tolist() == [True, True, True, False]
    np.testing.assert_allclose(
        fit.coefficients[:3] * [1, 1, 1e5],
        without.coefficients * [1, 1, 1e5],
        atol=1e-6,
    )
    errors = [
        np.sqrt(np.diag(each.covariance)[:3]) * [1, 1, 1e5] for each in (fit, without)
    ]
    np.testing.assert_allclose(*errors, atol=1e-6)
    collinear = fit_outcome(outcome, np.column_stack([design, design[:, 2]]))
    assert collinear.is_estimable.tolist() == [True, True, False, False]


def test_curves_equal_statsmodels() -> None:
    outcome, _ = simulate_survival()
    assert outcome.time is not None
    table = estimate_survival(outcome.time, outcome.event)
    expected = SurvfuncRight(outcome.time, outcome.event.astype(float))
    shown = table[table["events"] > 0]
    np.testing.assert_allclose(shown["time"], expected.surv_times)
    np.testing.assert_allclose(shown["survival"], expected.surv_prob)
    np.testing.assert_array_equal(shown["at_risk"], expected.n_risk)
    assert (table["low"] <= table["survival"]).all()
    assert (table["high"] >= table["survival"]).all()


def test_log_rank_of_groups_that_differ_by_far_and_of_none_at_risk() -> None:
    outcome, design = simulate_survival(2000)
    assert outcome.time is not None
    group = (design[:, 0] > 0).astype(int)
    p = compare_survival(np.where(group, 0.5, 1.0) * outcome.time, outcome.event, group)
    assert 0 < p < 1e-20
    late = np.where(np.arange(2000) < 1000, 100.0, outcome.time)
    none_at_risk = np.where(np.arange(2000) < 1000, 0.0, outcome.time)
    event = outcome.event & (np.arange(2000) >= 1000)
    assert np.isfinite(compare_survival(late, event, (np.arange(2000) < 1000) + 0))
    assert np.isnan(compare_survival(none_at_risk, event, (np.arange(2000) < 1000) + 0))


def test_concordance_counts_pairs() -> None:
    rng = np.random.default_rng(0)
    event, risk = rng.random(50) < 0.4, rng.integers(0, 9, 50).astype(float)
    assert compute_concordance(Outcome(event), risk) == pytest.approx(
        roc_auc_score(event, risk)
    )
    outcome = Outcome(
        np.array([True, True, False, False]), np.array([1.0, 2.0, 2.0, 0.5])
    )
    assert compute_concordance(
        outcome, np.array([3.0, 2.0, 2.0, 9.0])
    ) == pytest.approx((2 + 0.5) / 3)
    assert np.isnan(
        compute_concordance(Outcome(np.zeros(3, dtype=bool)), np.arange(3.0))
    )


def test_folds_share_nobody_and_have_equal_numbers_of_events() -> None:
    outcome, _ = simulate_survival()
    folds = draw_folds(outcome, N_FOLDS, [0])
    assert sorted(np.concatenate(folds)) == list(range(150))
    events = [outcome.event[fold].sum() for fold in folds]
    assert max(events) - min(events) <= 1
    assert max(map(len, folds)) - min(map(len, folds)) <= 1


def test_the_right_predictors_win_and_noise_does_not() -> None:
    outcome, design = simulate_survival(200)
    noise = np.random.default_rng(5).normal(size=(200, 8))
    sets = {
        "covariates": np.zeros((200, 0)),
        "index": design[:, :1],
        "regions": np.column_stack([design[:, :1] + noise[:, :1], noise]),
    }
    table = compare_predictors(outcome, design[:, 2:], sets, "regions").set_index(
        "predictors"
    )
    assert table.loc["covariates", "concordance"] == pytest.approx(0.5, abs=0.08)
    assert table.loc["index", "difference_low"] > 0
    assert table.loc["index", "concordance"] > table.loc["regions", "concordance"] > 0.5
    assert list(table["columns"]) == [1, 2, 10]


def test_few_events_are_refused() -> None:
    outcome = Outcome(np.arange(60) < 9)
    with pytest.raises(AnalysisError, match="9 of 60 people have the event"):
        compare_predictors(
            outcome, np.zeros((60, 0)), {"covariates": np.zeros((60, 0))}
        )
