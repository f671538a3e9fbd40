"""The task of heart and blood: signed and skewed features, an exact oracle, and a
learner that comes close to it.
"""

import numpy as np

from benchmarks.suites.cases import get_suite_tasks
from benchmarks.suites.oracle import compute_oracle_severities, recover_logs
from rindices.experiments.reference import (
    PATTERNS,
    express_features,
    list_features,
    load_organ_reference,
)
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.selection.agreement import pattern_c_index


def test_latents_are_recovered_from_features() -> None:
    latents, covariates = load_organ_reference().draw(50, np.random.default_rng(0))
    features = express_features(latents.to_numpy())
    np.testing.assert_allclose(
        recover_logs(features), np.log(latents.to_numpy()), atol=1e-12
    )
    assert list(covariates) == ["age", "sex"]


def test_features_are_signed_skewed_and_of_different_scales() -> None:
    cohort = simulate_cohort("organs", 0).cohort
    values = cohort.volumes[cohort.is_control]
    assert (cohort.unit, cohort.source) == ("any", "table")
    assert (values.max() < 0).any()
    assert values.std().max() / values.std().min() > 1000
    assert (values.skew() > 1).sum() >= 8
    assert set(" ".join(PATTERNS["organs"]).split()) <= {
        feature.name for feature in list_features()
    }


def test_patterns_are_written_as_changes_of_features() -> None:
    patterns = simulate_cohort("organs", 0).patterns.set_index("feature")
    assert patterns.loc["lv_ejection_fraction", "s1"] < -2
    assert patterns.loc["nt_probnp", "s1"] > 2
    assert patterns.loc["crp", "s1"] == 0


def test_a_learner_on_logarithms_of_skewed_features_is_close_to_the_oracle() -> None:
    simulated = simulate_cohort("organs", 0)
    oracle = compute_oracle_severities(
        simulated, TASKS["organs"], adjusted=True, n_levels=7
    )
    case = get_suite_tasks("stress", adjusted=True)["organs"](0)
    inferred = (
        ContrastiveICA(n_patterns=3).fit(case.X, case.y).transform(case.X[case.y == 1])
    )
    limit, score = (
        pattern_c_index(simulated.truth, values).mean for values in (oracle, inferred)
    )
    assert limit > 0.88
    assert score > limit - 0.02
