"""The suites real-factors and real-base, on people with known factors and, where they
are at hand, on real ones.
"""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from benchmarks import real_factors as command
from benchmarks.suites import factor_tables
from benchmarks.suites.factor_methods import (
    METHODS,
    Fold,
    FoldMethod,
    Reader,
    Reading,
    Training,
    find_folds,
    join_folds,
)
from benchmarks.suites.factor_tables import (
    BaseDescription,
    Factor,
    Source,
    TableDescription,
    draw_base,
    draw_table,
    find_tables,
    list_bases,
    list_tables,
    read_rules,
)
from benchmarks.suites.real_factors import Trial, list_trials, measure_separation
from rindices.errors import SimulationError
from rindices.tables.cohort import GROUP, ID, SITE

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the tables of real people are not here"
)
N_PEOPLE, N_REGIONS = 400, 12
TABLE = TableDescription(
    name="made-up",
    role="choosing",
    people="made-up people",
    source="made-up",
    factors={
        "age": Factor(column="age", without="age < 50", present="age >= 50"),
        "head": Factor(
            column="head_size",
            without="head_size > head_size.median()",
            present="head_size <= head_size.median()",
        ),
    },
)
BASE = BaseDescription(
    name="made-up", people="made-up people", source="made-up", change=0.3
)


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Made-up people, in whom age shrinks one half of the regions and a small head the
    other half.
    """
    rng = np.random.default_rng(0)
    age, head = rng.uniform(20, 80, N_PEOPLE), rng.normal(1500, 100, N_PEOPLE)
    regions = rng.normal(0, 0.15, (N_PEOPLE, N_REGIONS))
    regions[:, ::2] -= 0.015 * (age[:, None] - 50)
    regions[:, 1::2] += 0.001 * (head[:, None] - 1500)
    index = pd.Index([f"p{k:03d}" for k in range(N_PEOPLE)], name="person")
    names = [f"region{k}_volume" for k in range(N_REGIONS)]
    known = pd.DataFrame(
        {"age": age, "head_size": head, "site": rng.choice(["a", "b"], N_PEOPLE)},
        index=index,
    )
    source = Source(
        pd.DataFrame(1000 * np.exp(regions), index=index, columns=names), known
    )
    monkeypatch.setitem(factor_tables._SOURCES, "made-up", lambda data: source)
    return tmp_path


def test_the_factors_themselves_are_separated_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(1000, 1))
    factors = np.hstack([shared + rng.normal(size=(1000, 2)), shared])
    pair = factors[:, :2]
    assert measure_separation(pair, np.exp(-pair[:, ::-1])).gap == pytest.approx(
        1.0
    )  # neither order, sign nor scale
    assert measure_separation(factors, factors).gap == pytest.approx(1.0)
    assert measure_separation(pair, rng.normal(size=(1000, 2))).gap < 0.07
    both = pair.mean(axis=1, keepdims=True)
    assert measure_separation(pair, np.hstack([both, both])).gap == pytest.approx(0.0)
    assert measure_separation(pair, both).gap < 0.05
    assert measure_separation(pair, pair[:, :1]).gap == pytest.approx(
        0.5
    )  # one of the two, with one index
    assert measure_separation(pair, np.zeros((1000, 0))).gap == 0.0


def test_associations_are_those_of_the_formula_of_partial_correlation() -> None:
    rng = np.random.default_rng(1)
    truth = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 300)
    truth[:, 1] = truth[:, 1] > 0.3  # a binary factor
    indices = truth @ rng.normal(size=(2, 2)) + rng.normal(size=(300, 2))
    partial = np.empty((2, 2))
    for k, j in product(range(2), range(2)):
        xy, xz, yz = (
            spearmanr(a, b).statistic
            for a, b in (
                (truth[:, k], indices[:, j]),
                (truth[:, k], truth[:, 1 - k]),
                (indices[:, j], truth[:, 1 - k]),
            )
        )
        partial[k, j] = abs(xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    order = [0, 1] if np.trace(partial) > np.trace(partial[:, ::-1]) else [1, 0]
    found = measure_separation(truth, indices)
    np.testing.assert_allclose(
        found.own, [partial[0, order[0]], partial[1, order[1]]], atol=1e-10
    )
    np.testing.assert_allclose(
        found.cross, [partial[0, order[1]], partial[1, order[0]]], atol=1e-10
    )


def test_controls_have_no_factor_and_patients_at_least_one(people: Path) -> None:
    table = draw_table(TABLE, 0, people)
    source = factor_tables._SOURCES["made-up"](people).people
    healthy = (source["age"] < 50) & (
        source["head_size"] > source["head_size"].median()
    )
    assert set(table.cohort.people.loc[table.cohort.is_control, ID]) <= set(
        source.index[healthy]
    )
    assert set(table.cohort.people.loc[table.cohort.is_patient, ID]) <= set(
        source.index[~healthy]
    )
    assert table.cohort.n_controls == round(0.85 * healthy.sum())
    assert table.cohort.n_patients == round(0.85 * (~healthy).sum())
    assert list(table.truth.index) == list(table.cohort.people[ID])
    np.testing.assert_array_equal(
        table.truth["age"], source.loc[table.cohort.people[ID], "age"]
    )
    seen = {*table.cohort.people, *table.cohort.covariates, *table.cohort.volumes}
    assert not seen & {"age", "head", "head_size"}  # nobody is told
    again, other = draw_table(TABLE, 0, people), draw_table(TABLE, 1, people)
    assert (
        again.cohort.fingerprint()
        == table.cohort.fingerprint()
        != other.cohort.fingerprint()
    )


def test_cells_bound_the_number_of_patients_with_each_factor(people: Path) -> None:
    table = draw_table(
        replace(TABLE, cells=(40, 20, 60), told=("age",), sites=2), 0, people
    )
    old = table.truth["age"] >= 50
    small = (
        table.truth["head"]
        <= factor_tables._SOURCES["made-up"](people).people["head_size"].median()
    )
    patient = table.cohort.is_patient
    assert patient.sum() == round(0.85 * 120)
    assert [
        (patient & cell).sum() <= size
        for cell, size in ((~old & small, 40), (old & ~small, 20), (old & small, 60))
    ]
    assert list(table.cohort.covariates) == ["age"]
    controls = table.cohort.people[SITE][table.cohort.is_control].value_counts()
    assert controls.min() >= read_rules().least_controls_of_a_site
    assert set(table.cohort.people[SITE]) == set(controls.index)


@pytest.mark.parametrize(
    ("method", "least"),
    [("ridge", 0.7), ("pca", 0.5), ("ica", 0.2), ("factor-analysis", 0.5)],
)
def test_methods_separate_what_is_easy_to_separate(
    people: Path, method: str, least: float
) -> None:
    row = Trial("real-factors", TABLE, method, "", 0).measure(people)
    assert row["gap"] > least
    assert row["gap"] == pytest.approx(
        np.mean([row["own"][k] - row["cross"][k] for k in ("age", "head")]), abs=1e-4
    )


def test_an_imposed_pattern_changes_regions_of_half_of_the_people(people: Path) -> None:
    imposed = Factor(column="imposed", without="imposed == 0", present="imposed > 0")
    table = replace(
        TABLE, factors={"age": TABLE.factors["age"], "imposed": imposed}, imposed=0.5
    )
    drawn = draw_table(table, 0, people)
    severity = drawn.truth["imposed"].to_numpy()
    patient = drawn.cohort.is_patient
    assert (severity[~patient] == 0).all()
    assert (drawn.truth["age"].to_numpy()[~patient] < 50).all()
    assert 0.5 < (severity[patient] > 0).mean() < 0.8
    volumes = drawn.cohort.volumes.to_numpy(dtype=float)
    lost = volumes[severity > 0.8].mean() / volumes[severity == 0].mean()
    assert lost < 0.8  # all 12 regions are among the 13 of a pattern


@pytest.mark.slow
@pytest.mark.parametrize("method", ["default", "default-members", "contrastive"])
def test_our_methods_run_on_a_table(people: Path, method: str) -> None:
    row = Trial("real-factors", TABLE, method, "x", 0).measure(people)
    assert 0 <= row["gap"] <= 1
    assert row["patterns"] in (1, 2)


def test_a_supervised_method_learns_nothing_of_random_factors(people: Path) -> None:
    """In-sample, least squares on 12 regions would follow anything."""
    table = draw_table(TABLE, 0, people)
    rng = np.random.default_rng(0)
    table.truth[:] = rng.normal(size=table.truth.shape)
    indices = METHODS["regression"].infer(table, 0).indices
    assert np.isfinite(indices).all()
    assert (
        measure_separation(
            table.patient_truth, indices[table.cohort.is_patient]
        ).own.max()
        < 0.2
    )


def test_only_supervised_methods_see_the_truth(people: Path) -> None:
    class Spy(FoldMethod):
        label = "spy"
        told: list[bool] = []  # noqa: RUF012

        def learn(self, training: Training) -> Reader:
            self.told.append(training.truth is not None)
            return lambda z: z[:, :2]

    table, spy = draw_table(TABLE, 0, people), Spy()
    spy.infer(table, 0)
    assert spy.told == [False] * 5
    spy.is_supervised = True
    spy.infer(table, 0)
    assert spy.told[5:] == [True] * 5


def test_folds_leave_everyone_out_once_and_are_joined_in_one_order(
    people: Path,
) -> None:
    table = draw_table(TABLE, 0, people)
    masks, patient = find_folds(table.cohort, 0), table.cohort.is_patient
    np.testing.assert_array_equal((~masks).sum(axis=0), 1)
    z = np.random.default_rng(0).normal(size=(len(patient), 5))
    plain = join_folds([Fold(z, seen, lambda x: x[:, :2]) for seen in masks], patient)
    readers: list[Reader] = [lambda x: x[:, :2], *[lambda x: -3 * x[:, 1::-1]] * 4]
    mixed = join_folds(
        [Fold(z, seen, read) for seen, read in zip(masks, readers, strict=True)],
        patient,
    )
    np.testing.assert_allclose(mixed, plain)
    assert np.isnan(
        join_folds([Fold(z, masks[0], lambda x: x[:, :2])], patient)[masks[0]]
    ).all()


def test_a_base_has_its_patterns_in_patients_alone(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factor_tables, "PATTERN_SIZE", 4)
    table = draw_base(BASE, 0, people)
    assert (table.truth[table.cohort.is_control] == 0).all(axis=None)
    before = factor_tables._SOURCES["made-up"](people).volumes.loc[
        table.cohort.people[ID], list(table.cohort.regions)
    ]
    lost = 1 - table.cohort.volumes.to_numpy() / before.to_numpy()
    np.testing.assert_allclose(lost[table.cohort.is_control], 0, atol=1e-12)
    assert (
        np.abs(lost).max(axis=0) > 0.1
    ).sum() == 3 * 2 + 3  # two regions of their own each, three shared ones
    row = Trial("real-base", BASE, "ridge", "", 0).measure(people)
    assert row["c_index"] > 0.7


class Counted(FoldMethod):
    """The first two regions."""

    label = "counted"
    is_ours = True
    n_calls = 0

    def infer(self, table: Any, seed: int) -> Reading:
        type(self).n_calls += 1
        return super().infer(table, seed)

    def learn(self, training: Training) -> Reader:
        return lambda z: z[:, :2]


def test_rows_that_are_there_are_not_measured_again(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "counted", Counted())
    monkeypatch.setitem(list_tables(), "made-up", TABLE)
    monkeypatch.setattr(Counted, "n_calls", 0)

    def run(*options: str) -> dict[str, Any]:
        arguments = [
            "measure",
            "--tables",
            "made-up",
            "--data",
            str(people),
            "--out",
            str(people),
            *options,
        ]
        monkeypatch.setattr("sys.argv", ["real_factors", *arguments])
        command.main()
        rows: dict[str, Any] = json.loads((people / "rows.json").read_text("utf-8"))
        return rows

    first = run("--methods", "counted,pca", "--splits", "0:2", "--label", "old")
    assert Counted.n_calls == 2
    assert (
        len(run("--methods", "counted,pca", "--splits", "0:2", "--label", "old")) == 4
    )
    assert Counted.n_calls == 2
    rows = run("--methods", "counted,pca", "--splits", "0:2", "--label", "new")
    assert Counted.n_calls == 4
    assert len(rows) == 6  # PCA has no version
    gaps = [
        first[f"real-factors made-up counted old {split}"]["gap"] for split in range(2)
    ]
    error = abs(gaps[0] - gaps[1]) / 2
    assert f"{np.mean(gaps):.2f} ± {error:.2f}" in (people / "table.md").read_text(
        "utf-8"
    )


def test_a_later_version_is_compared_with_the_better_of_pca_and_the_first_one() -> None:
    gaps = {
        "fcon_sex_head": {
            ("pca", ""): 0.30,
            ("default", "0.1.0"): 0.20,
            ("default", "next"): 0.22,
        },
        "autism_age_head": {
            ("pca", ""): 0.10,
            ("default", "0.1.0"): 0.20,
            ("default", "next"): 0.40,
        },
        "oasis_age_sex": {
            ("pca", ""): 0.90,
            ("default", "0.1.0"): 0.90,
            ("default", "next"): 0.10,
        },
    }
    rows = [
        {
            "suite": "real-factors",
            "table": table,
            "method": method,
            "label": label,
            "split": split,
        }
        | {
            "controls": 30 if table == "oasis_age_sex" else 60,
            "patients": 90,
            "patterns": 2,
            "gap": gap + 0.02 * split,
        }
        for table, measured in gaps.items()
        for (method, label), gap in measured.items()
        for split in range(2)
    ]
    assert command.list_judged(rows) == ["fcon_sex_head", "autism_age_head"]
    report = command.format_report(rows)
    assert "| `fcon_sex_head` | -0.08 ± 0.00 | yes |" in report
    assert "| `autism_age_head` | 0.20 ± 0.00 | no |" in report
    assert "| `oasis_age_sex` | 0" not in report
    assert (
        "OASIS-1 without dementia, cortical thickness by ANTs), not judged | 30 + 90 |"
        in report
    )
    summary = next(
        line for line in report.splitlines() if line.startswith("| default (next) |")
    )
    assert summary == "| default (next) |  |  | 0.32 ± 0.01 | 0.11 ± 0.00 |"


def test_unknown_names_are_refused_with_a_hint() -> None:
    with pytest.raises(SimulationError, match=r"no table 'ants_age'.*ants_age_sex"):
        list_trials("real-factors", "ants_age", "pca", range(1))
    with pytest.raises(SimulationError, match=r"no method 'pcas'.*pca"):
        list_trials("real-factors", "scenario", "pcas", range(1))
    with pytest.raises(SimulationError, match=r"no table 'fcons'.*fcon"):
        list_trials("real-base", "fcons", "pca", range(1))


def test_the_fixed_tables_are_as_many_as_were_written_down() -> None:
    roles = [table.role for table in list_tables().values()]
    assert {role: roles.count(role) for role in factor_tables.ROLES} == {
        "scenario": 5,
        "choosing": 20,
        "reporting": 12,
        "apart": 2,
        "mixed": 9,
    }
    assert {table.name for table in find_tables("scenario,fcon_sex_head")} >= {
        "ants_age_sex",
        "fcon_sex_head",
    }
    assert set(list_bases()) == {"fcon", "dlmuse", "ants"}


def list_similar_tables() -> list[tuple[TableDescription, TableDescription]]:
    """Return reporting tables with the tables of the same source and factors that were
    used for choices.
    """
    tables = list(list_tables().values())
    chosen = [table for table in tables if table.role in ("scenario", "choosing")]
    reporting = [table for table in tables if table.role == "reporting"]
    pairs = [
        (table, other)
        for table in reporting
        for other in chosen
        if other.source == table.source
    ]
    return [
        (table, other)
        for table, other in pairs
        if set(table.factors) == set(other.factors)
    ]


def test_reporting_tables_are_of_people_or_factors_that_no_choice_used() -> None:
    for table, other in list_similar_tables():
        assert {table.keep, other.keep} == {"autism == 1", "autism == 0"}, (
            table.name,
            other.name,
        )


@needs_data
@pytest.mark.slow
def test_nobody_of_a_reporting_table_is_in_a_choosing_table_with_the_same_factors() -> (
    None
):
    for table, other in list_similar_tables():
        first, second = (
            set(draw_table(each, 0, DATA).cohort.people[ID]) for each in (table, other)
        )
        assert not first & second, (table.name, other.name)


@needs_data
@pytest.mark.slow
def test_every_table_can_be_drawn() -> None:
    for table in list_tables().values():
        drawn = draw_table(table, 0, DATA)
        assert np.isfinite(drawn.truth.to_numpy()).all()
        assert (drawn.cohort.volumes > 0).all(axis=None)
        assert list(drawn.cohort.covariates) == list(table.told)
        assert drawn.cohort.people[GROUP].value_counts().min() >= 15
    for base in list_bases().values():
        assert draw_base(base, 0, DATA).cohort.n_patients > 150
