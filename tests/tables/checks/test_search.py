from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rindices.tables.checks.block_table import (
    BlockKind,
    BlockTable,
    divide,
    make_block_table,
)
from rindices.tables.checks.search import search_blocks
from rindices.tables.options import TableOptions
from rindices.tables.readers import make_request
from rindices.tables.validate import validate_table
from tests.tables.checks.people import People, simulate_people


@pytest.fixture(scope="module")
def people() -> People:
    return simulate_people(1)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("with_groups", [False, True])
def test_sound_tables_are_not_suspicious(seed: int, with_groups: bool) -> None:
    assert simulate_people(seed).search(with_groups) == set()


def test_site_times_factor(people: People) -> None:
    changed = people.change(people.is_b, people.volumes[people.is_b] * 0.296)
    assert changed.search() == {("suspect_factor", "B")}


def test_factor_is_found_by_rounding_where_it_is_small(people: People) -> None:
    changed = people.change(people.is_b, people.volumes[people.is_b] * 1.037)
    table = changed.make_table()
    (suspicion,) = search_blocks(table)
    assert suspicion.block.label == "B"
    assert suspicion.statistic == pytest.approx(1.037, rel=1e-6)


def test_rounded_again_a_factor_is_found_by_its_size(people: People) -> None:
    changed = people.change(people.is_b, (people.volumes[people.is_b] * 1.3).round(2))
    (suspicion,) = search_blocks(changed.make_table())
    assert suspicion.block.label == "B"
    assert "1.2" in suspicion.what or "1.3" in suspicion.what


def test_factor_of_patients_is_found_but_not_lost_regions(people: People) -> None:
    is_patient = (people.participants["group"] == "patient").to_numpy()
    changed = people.change(is_patient, (people.volumes[is_patient] * 1.18).round(2))
    assert changed.search(with_groups=True) == {("suspect_factor", "patient")}
    lost = people.volumes[is_patient].copy()
    lost.iloc[:, :16] *= 0.75
    assert people.change(is_patient, lost.round(2)).search(with_groups=True) == set()


def test_sites_of_one_group_do_not_hide_a_factor_of_the_patients(
    people: People,
) -> None:
    group = people.participants["group"].mask(
        people.participants["site"].isin(["C", "D"]), "control"
    )
    people = people.rename("group", group)
    is_patient = (group == "patient").to_numpy()
    changed = people.change(is_patient, (people.volumes[is_patient] * 1.2).round(2))
    assert people.search(with_groups=True) == set()
    assert ("suspect_factor", "patient") in changed.search(with_groups=True)


def test_half_of_rows_times_factor_within_sites(people: People) -> None:
    order = np.argsort(
        people.participants.index % 2, kind="stable"
    )  # sites stand in both halves
    mixed = people.order(order)
    rows = np.arange(len(mixed.volumes)) < len(mixed.volumes) // 2
    found = mixed.change(rows, (mixed.volumes[rows] * 1.2).round(2)).search()
    assert {code for code, _ in found} == {"suspect_factor"}
    assert found <= {("suspect_factor", "1 to 140"), ("suspect_factor", "141 to 280")}


def test_half_of_the_sites_times_factor() -> None:
    people = simulate_people(4)
    names = np.repeat([f"site {k}" for k in range(8)], 35)
    people = people.rename("site", names)
    rows = np.arange(280) >= 140
    found = people.change(rows, (people.volumes[rows] * 1.35).round(2)).search()
    assert {code for code, _ in found} == {"suspect_factor"}


def test_sides_of_a_site(people: People) -> None:
    names = list(people.volumes)
    swapped = people.volumes[people.is_b][
        [name for k in range(0, len(names), 2) for name in (names[k + 1], names[k])]
    ]
    assert people.change(people.is_b, swapped.to_numpy()).search() == {
        ("suspect_sides", "B")
    }


def test_header_of_a_site(people: People) -> None:
    rolled = np.roll(people.volumes[people.is_b].to_numpy(), 1, axis=1)
    assert people.change(people.is_b, rolled).search() == {("suspect_columns", "B")}


def test_header_is_tested_where_every_other_column_hardly_changes() -> None:
    """Left and right alternate and are nearly alike, as in a table of thickness."""
    rng = np.random.default_rng(0)
    n_people, n_pairs = 160, 16
    means = np.repeat(np.log(rng.uniform(2.2, 4.2, n_pairs)), 2)
    logs = means + rng.normal(0, 0.09, (n_people, 2 * n_pairs))
    rows = np.arange(n_people) < n_people // 2
    logs[rows] = np.roll(logs[rows], 1, axis=1) + rng.normal(0, 0.05, 2 * n_pairs)
    names = [f"{side}_region{k}" for k in range(n_pairs) for side in ("L", "R")]
    table = make_block_table(
        values=pd.DataFrame(np.exp(logs), columns=names),
        measures=["thickness"] * (2 * n_pairs),
        ids=[f"s{k}" for k in range(n_people)],
        age=None,
        sex=None,
        head_size=None,
        groups=None,
        divisions=[],
    )
    assert table is not None
    assert "suspect_columns" in {str(each.code) for each in search_blocks(table)}


def test_rows_shifted_by_one_are_named(people: People) -> None:
    rows = people.is_b
    table = people.change(
        rows, np.roll(people.volumes[rows].to_numpy(), 1, axis=0)
    ).make_table()
    (suspicion,) = search_blocks(table)
    assert (suspicion.code, suspicion.block.label) == ("suspect_join", "B")
    assert "fit the row above" in suspicion.ending


def test_whole_table_shifted_by_two(people: People) -> None:
    everyone = np.ones(len(people.volumes), dtype=bool)
    table = people.change(
        everyone, np.roll(people.volumes.to_numpy(), 2, axis=0)
    ).make_table()
    (suspicion,) = search_blocks(table)
    assert (suspicion.code, suspicion.block.kind) == ("suspect_join", "table")
    assert "2 rows above" in suspicion.what


def test_shuffled_table(people: People) -> None:
    everyone = np.ones(len(people.volumes), dtype=bool)
    shuffled = people.volumes.sample(frac=1, random_state=0).to_numpy()
    assert people.change(everyone, shuffled).search() == {("suspect_join", "the table")}


def test_age_sorted_alone_at_a_site(people: People) -> None:
    ages = people.participants["age"].to_numpy().copy()
    ages[people.is_b] = np.sort(ages[people.is_b])
    assert people.rename("age", ages).search() == {("suspect_covariate", "B")}


def test_age_sorted_alone_where_people_were_scanned_in_the_order_of_age(
    people: People,
) -> None:
    """Then what is sorted alone still follows the regions a little."""
    ages = people.participants["age"].to_numpy()
    noise = np.random.default_rng(1).normal(0, 2.0 * ages.std(), len(ages))
    order = np.lexsort((ages + noise, people.participants["site"]))
    ordered = people.order(order)
    assert ordered.search() == set()
    is_b, ages = ordered.is_b, ordered.participants["age"].to_numpy().copy()
    ages[is_b] = np.sort(ages[is_b])
    assert ordered.rename("age", ages).search() == {("suspect_covariate", "B")}


def test_table_sorted_with_its_people_is_sound(people: People) -> None:
    order = np.argsort(people.participants["age"].to_numpy(), kind="stable")
    ordered = people.order(order)
    assert ordered.search() == set()


def test_age_filled_down(people: People) -> None:
    ages = people.participants["age"].to_numpy().copy()
    ages[people.is_b] = ages[people.is_b][0]
    assert ("suspect_covariate", "B") in people.rename("age", ages).search()


def test_sex_reversed_and_coded_in_two_ways(people: People) -> None:
    sex = people.participants["sex"].to_numpy().copy()
    reversed_sex = np.where(people.is_b, np.where(sex == "M", "F", "M"), sex)
    assert people.rename("sex", reversed_sex).search() == {("suspect_covariate", "B")}
    number = (sex == "M").astype(int)
    assert people.rename("sex", np.where(people.is_b, number + 1, number)).search() == {
        ("suspect_codes", "B")
    }


def test_units_of_covariates(people: People) -> None:
    ages, icv = (
        people.participants["age"].to_numpy(),
        people.participants["icv"].to_numpy(),
    )
    assert people.rename("age", np.where(people.is_b, ages * 12, ages)).search() == {
        ("suspect_units", "B")
    }
    assert people.rename("icv", np.where(people.is_b, icv / 1000, icv)).search() == {
        ("suspect_units", "B")
    }


def _append(people: People, volumes: np.ndarray, rows: np.ndarray) -> People:
    added = people.participants.iloc[rows].assign(
        participant_id=[f"new-{k}" for k in range(len(rows))]
    )
    frame = pd.DataFrame(volumes, columns=people.volumes.columns)
    return People(
        pd.concat([people.volumes, frame], ignore_index=True),
        pd.concat([people.participants, added], ignore_index=True),
    )


def _find(table: BlockTable, code: str) -> list[tuple[bool, set[int]]]:
    found = [each for each in search_blocks(table) if each.code == code]
    return [
        (each.stops, set(np.flatnonzero(each.block.rows).tolist())) for each in found
    ]


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.005])
def test_third_of_the_people_twice_with_noise(people: People, noise: float) -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(
        rng.choice(len(people.volumes), len(people.volumes) // 3, replace=False)
    )
    volumes = people.volumes.to_numpy()[rows]
    table = _append(
        people, volumes * np.exp(rng.normal(0, noise, volumes.shape)), rows
    ).make_table()
    copied = set(rows.tolist()) | set(
        range(len(people.volumes), len(people.volumes) + len(rows))
    )
    found = _find(table, "suspect_copies")
    assert [stops for stops, _ in found] == [True]
    assert len(copied & found[0][1]) >= 0.95 * len(copied)
    assert len(found[0][1] - copied) <= 2


def test_one_copied_person_is_a_warning(people: People) -> None:
    table = _append(
        people, people.volumes.to_numpy()[[5]] * 1.001, np.array([5])
    ).make_table()
    assert _find(table, "suspect_copies") == [(False, {5, 280})]


def test_copies_of_a_large_table_need_no_pairs_of_all() -> None:
    many = simulate_people(3, n_per_site=1_000)
    rows = np.arange(0, 200, 5)
    noise = np.random.default_rng(0).normal(
        0, 0.003, (len(rows), many.volumes.shape[1])
    )
    table = _append(
        many, many.volumes.to_numpy()[rows] * np.exp(noise), rows
    ).make_table()
    ((stops, copied),) = _find(table, "suspect_copies")
    assert not stops  # 2 % of the people
    assert len(copied & {*rows.tolist(), *range(4_000, 4_040)}) >= 78


def test_rows_of_means_and_of_one_value(people: People) -> None:
    rows = np.array([3, 4])
    mean = np.tile(people.volumes.mean().to_numpy(), (2, 1))
    assert _find(_append(people, mean, rows).make_table(), "suspect_rows") == [
        (True, {280, 281})
    ]
    constant = np.full(mean.shape, 1234.5)
    assert _find(_append(people, constant, rows).make_table(), "suspect_rows") == [
        (True, {280, 281})
    ]


def test_tables_that_hold_too_little() -> None:
    few = simulate_people(0, n_per_site=5)
    measures, ids = (
        ["volume"] * few.volumes.shape[1],
        few.participants["participant_id"].tolist(),
    )
    assert make_block_table(values=few.volumes, measures=measures, ids=ids) is None
    scores = simulate_people(0)
    z_scores = (scores.volumes - scores.volumes.mean()) / scores.volumes.std()
    ids = scores.participants["participant_id"].tolist()
    assert make_block_table(values=z_scores, measures=measures, ids=ids) is None


@pytest.mark.parametrize("seed", range(3))
def test_degenerate_tables_are_searched_without_a_warning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(12):
        people = simulate_people(number, n_per_site=int(rng.integers(8, 30)))
        volumes, about = people.volumes.copy(), people.participants.copy()
        for fault in rng.integers(0, 8, 3):
            if fault == 0:
                volumes.iloc[:, :] = volumes.iloc[:, [0]].to_numpy()
            if fault == 1:
                volumes.iloc[:, :] = volumes.iloc[[0]].to_numpy()
            if fault == 2:
                volumes = volumes.mask(rng.random(volumes.shape) < 0.5)
            if fault == 3:
                about["age"] = 50.0
            if fault == 4:
                about["age"] = about["age"].where(rng.random(len(about)) < 0.1)
            if fault == 5:
                about["sex"] = rng.choice(["M", "F", "3", "x"], len(about))
            if fault == 6:
                about["icv"] = rng.choice([np.nan, 0.0, 1e6], len(about))
            if fault == 7:
                about["site"] = rng.choice(list("ABCDEFGH"), len(about))
        try:
            table = People(volumes, about).make_table()
        except AssertionError:  # too little is left
            continue
        search_blocks(table)


def test_wide_tables_are_compared_in_a_part_of_their_regions(people: People) -> None:
    wide = pd.concat([people.volumes.add_suffix(f" {k}") for k in range(60)], axis=1)
    wide = wide * np.exp(np.random.default_rng(0).normal(0, 0.05, wide.shape))
    wide[people.is_b] *= 1.5
    table = People(wide, people.participants).make_table()
    assert 500 <= len(table.regions) <= 1_000
    assert [suspicion.block.label for suspicion in search_blocks(table)] == ["B"]


def test_what_could_not_be_tested_is_listed() -> None:
    small = simulate_people(2, n_per_site=10)
    table = small.make_table()
    search_blocks(table)
    assert {question for question, _ in table.untested} == {"age", "sex", "head size"}
    assert {"A", "B", "C", "D"} <= {block.label for _, block in table.untested}


@pytest.mark.parametrize("seed", range(6))
def test_small_site_shifted_by_one_row(seed: int) -> None:
    """Links of 24 people alone are too weak to miss, but the row above fits."""
    people = simulate_people(seed, n_per_site=24)
    rows = people.is_b
    rolled = np.roll(people.volumes[rows].to_numpy(), 1, axis=0)
    (suspicion,) = search_blocks(people.change(rows, rolled).make_table())
    assert (suspicion.code, suspicion.block.label) == ("suspect_join", "B")
    assert "fit the row above" in suspicion.ending


def test_shift_within_a_site_whose_people_are_scattered(people: People) -> None:
    rows = people.is_b
    rolled = np.roll(people.volumes[rows].to_numpy(), 1, axis=0)
    order = np.random.default_rng(0).permutation(len(rows))
    order[np.isin(order, np.flatnonzero(rows))] = np.flatnonzero(rows)
    (suspicion,) = search_blocks(people.change(rows, rolled).order(order).make_table())
    assert (suspicion.code, suspicion.block.label) == ("suspect_join", "B")
    assert "fit the row above" in suspicion.ending


@pytest.mark.parametrize("seed", range(12))
def test_every_shuffled_table_is_found(seed: int) -> None:
    """Cross-fitted correlations of shuffled people vary more than 1 / sqrt(N)."""
    people = simulate_people(seed, n_per_site=40)
    everyone = np.ones(len(people.volumes), dtype=bool)
    shuffled = people.volumes.sample(frac=1, random_state=seed).to_numpy()
    found = people.change(everyone, shuffled).search()
    assert ("suspect_join", "the table") in found


def test_all_regions_larger_in_patients_are_less_often_disease(people: People) -> None:
    """A disease takes; only a factor adds a quarter to all regions."""
    is_patient = (people.participants["group"] == "patient").to_numpy()
    n_regions = people.volumes.shape[1]
    spread = np.random.default_rng(0).permutation(np.linspace(-0.05, 0.05, n_regions))
    values = people.volumes[is_patient].to_numpy()
    gain, loss = (values * np.exp(sign * (0.21 + spread)) for sign in (1, -1))
    found = people.change(is_patient, gain).search(with_groups=True)
    assert {code for code, _ in found} == {"suspect_factor"}
    assert people.change(is_patient, loss).search(with_groups=True) == set()


def test_header_is_compared_in_the_order_of_the_file(people: People) -> None:
    """Regions are read in the order of their names, which is another one."""
    names = [f"{k * 7 % 48:02d}_{name}" for k, name in enumerate(people.volumes)]
    values = people.volumes.to_numpy(copy=True)
    values[people.is_b] = np.roll(values[people.is_b], 1, axis=1)
    frame = people.participants.join(pd.DataFrame(values, columns=names))
    options = TableOptions(id="participant_id", site="site", group="group")
    request = make_request(frame, None, options)
    result = validate_table(replace(request, searches_blocks=True))
    (problem,) = [each for each in result.problems if each.code == "suspect_columns"]
    assert problem.offenders == ("B",)
    assert f"{names[1]} to {names[-1]}" in problem.what


def test_factor_on_volumes_is_not_taken_for_a_shift_of_columns() -> None:
    """Each of a run of volumes is as large as the one beside it times the factor."""
    people = simulate_people(3)
    values, run = people.volumes.to_numpy(copy=True), np.arange(30, 42)
    values[:, run] *= 1e6 * 0.296 ** np.arange(12) / np.median(values[:, run], axis=0)
    values[people.is_b, 24:] *= 0.296
    table = make_block_table(
        values=pd.DataFrame(values, columns=people.volumes.columns),
        measures=["thickness"] * 24 + ["volume"] * 24,
        ids=people.participants["participant_id"].tolist(),
        divisions=[divide(BlockKind.SITE, people.participants["site"])],
    )
    assert table is not None
    (suspicion,) = search_blocks(table)
    assert (suspicion.code, suspicion.block.label) == ("suspect_factor", "B")
    assert suspicion.what.startswith("volumes")
