"""The plan of a study: keys of member sets, values of methods, weights of the grid."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import rindices as ri
from rindices.errors import StudyError
from rindices.study.config import ModelConfig
from rindices.study.study import make_plan


def test_what_changes_the_fingerprint() -> None:
    model = ModelConfig(method="surreal-gan", patterns=(3,), orthogonality=(0.2,))

    def keys(changed: ModelConfig = model, seed: int = 0, data: str = "x") -> list[str]:
        return [work.key for work in make_plan(changed, seed, data)]

    def with_(**changes: Any) -> ModelConfig:
        return model.model_copy(update=changes)

    assert keys() == keys()
    for other in (
        keys(seed=1),
        keys(data="y"),
        keys(with_(method_settings={"near_zero": 7.0})),
        keys(with_(method_settings={"max_steps": 300_000})),
        keys(with_(correlated=True)),
        keys(with_(orthogonality=(0.4,))),
        keys(with_(method="contrastive")),
    ):
        assert not set(keys()) & set(other)
    assert set(keys()) < set(
        keys(with_(members=20))
    )  # more members keep the first ones
    assert set(keys()) < set(keys(with_(patterns=(2, 3))))


def test_one_value_in_the_table_changes_the_fingerprint(folder: Path) -> None:
    asked = {"group": "group", "covariates": ["age"]}
    table = pd.read_csv(folder / "volumes.csv")
    first = ri.read_cohort(
        folder / "volumes.csv", folder / "participants.tsv", **asked
    ).fingerprint()
    table.sample(frac=1, random_state=0).to_csv(folder / "shuffled.csv", index=False)
    assert (
        ri.read_cohort(
            folder / "shuffled.csv", folder / "participants.tsv", **asked
        ).fingerprint()
        == first
    )
    table.iloc[5, 7] += 0.01
    table.to_csv(folder / "changed.csv", index=False)
    assert (
        ri.read_cohort(
            folder / "changed.csv", folder / "participants.tsv", **asked
        ).fingerprint()
        != first
    )


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        ({}, (None,)),
        ({"method": "surreal-gan"}, (0.1, 0.2, 0.4, 0.6, 0.8)),
        ({"method": "contrastive"}, (None,)),
        ({"method": "contrastive", "orthogonality": (0.4,)}, (None,)),
        ({"method": "surreal-gan", "orthogonality": (0.4, 0.8, 0.4)}, (0.4, 0.8)),
    ],
)
def test_lambda_is_the_methods_where_it_is_left_open(
    changes: dict[str, Any], weights: tuple[float | None, ...]
) -> None:
    plan = make_plan(ModelConfig(patterns=(2,), members=1, **changes), 0, "x")
    assert tuple(work.point.orthogonality for work in plan) == weights


def test_a_copula_is_learnt_where_it_is_asked_for() -> None:
    assert [
        ModelConfig(method="surreal-gan", correlated=c).resolve_values()["correlated"]
        for c in (False, True)
    ] == [
        0,
        1,
    ]


def test_misspelt_method_values_are_suggested() -> None:
    model = ModelConfig(method="surreal-gan", method_settings={"max_step": 5})
    with pytest.raises(ri.RindicesError, match="did you mean 'max_steps'"):
        make_plan(model, 0, "x")
    with pytest.raises(StudyError, match="contrastive has no max_steps"):
        make_plan(
            ModelConfig(method="contrastive", method_settings={"max_steps": 5}), 0, "x"
        )
