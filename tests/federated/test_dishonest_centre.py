"""A dishonest centre asks a real site for sums from which single people could be computed.

Each attack returns guesses of the values of single people. What the centre has anyway are totals, so that its best
guess is their mean: no guess of an attack may be nearer to anybody than the mean is to the person nearest to it.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rindices.federated import kinds
from rindices.federated.messages import (
    Preparation,
    RefusedError,
    Request,
    number_arrays,
    pack_preparations,
    pack_symmetric,
    unpack_symmetric,
)
from rindices.federated.site import Site
from rindices.federated.subsets import EVERYONE, SubsetPlan
from rindices.learners.severity_posterior import N_STEPS
from rindices.tables.cohort import ID, Cohort
from tests.federated.sites import prepare_rounds, simulate_people, split_cohort

N_REGIONS = simulate_people().volumes.shape[1]
Attack = Callable[[Site], Iterator[np.ndarray]]


@cache
def get_preparation() -> Preparation:
    return prepare_rounds(split_cohort(simulate_people(), 1))[1].preparations[0]


def prepare(cohort: Cohort) -> np.ndarray:
    """Return the values (N, R) about which the centre asks."""
    preparation = get_preparation()
    return preparation.head.prepare(preparation.preprocessing.transform(cohort))


def ask(
    site: Site, kind: str, settings: dict[str, Any], arrays: dict[str, np.ndarray] | None = None, **plan: Any
) -> Any:
    """Return the sums of a site about people who are prepared as in an honest study."""
    prepared, prepared_arrays = pack_preparations({"0": get_preparation(), EVERYONE: get_preparation()})
    settings = {"plan": {"seed": 0, "members": 2, **plan}, "members": [0], **settings, **prepared}
    return site.answer(Request(kind, 5, settings, {**prepared_arrays, **(arrays or {})}))


def sum_set(site: Site, name: str, **plan: Any) -> tuple[np.ndarray, int]:
    """Return the sum of the patients of a set and their number."""
    ((total, number),) = sum_sets(site, name, **plan)
    return total, number


def sum_sets(site: Site, *names: str, **plan: Any) -> list[tuple[np.ndarray, int]]:
    """Return the sums of the patients of sets, and their numbers."""
    answer = ask(site, kinds.MOMENTS, {"sets": [[0, name, "patients"] for name in names]}, **plan)
    return list(zip(answer.arrays["sum"], answer.numbers, strict=True))


def measure_error(guess: np.ndarray, people: np.ndarray) -> float:
    """Return the root mean square error of a guess (R,) of the person (N, R) who is nearest to it."""
    return float(np.sqrt(((people - guess) ** 2).mean(axis=1)).min())


def assert_nobody_is_found(attack: Attack, site: Site, refusal: str) -> None:
    """Run an attack until the site refuses, and compare its guesses with the mean of all."""
    people, guesses = prepare(site.cohort), []
    with pytest.raises(RefusedError, match=refusal):
        guesses.extend(attack(site))
    least = measure_error(people[site.cohort.is_patient].mean(axis=0), people)
    assert all(measure_error(guess, people) > 0.9 * least for guess in guesses)


def combine_three_sets(site: Site) -> Iterator[np.ndarray]:
    """All, a member and a fold of a smaller plan: each two differ in many people, all - A - B is one person."""
    for seed in range(30):
        (everyone, n_everyone), (member, n_member) = sum_sets(site, "all", "member-0", seed=seed)
        fold, n_fold = sum_set(site, "held-out-0", seed=seed, patients=0.94)
        if n_everyone - n_member - n_fold == 1:
            yield everyone - member - fold


def open_windows(site: Site) -> Iterator[np.ndarray]:
    """A rotation with a steep map is a window around a value of one region."""
    for place in np.linspace(-4.0, 4.0, 41):
        linear_map, offset = 1e-3 * np.eye(N_REGIONS), np.zeros(N_REGIONS)
        linear_map[0, 0], offset[0] = 200.0, 200.0 * place
        arrays = {"map": linear_map, "offset": offset, "directions": np.eye(N_REGIONS)[None]}
        yield from read_windows(site, arrays)


def ask_for_rotation(site: Site, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return both contrast functions of the first direction, each with its derivatives."""
    answer = ask(site, kinds.ROTATION, {"tasks": [["half-0-0", ""]]}, number_arrays([arrays]))
    return np.asarray(answer.arrays["sums.0"][0, 0].reshape(2, -1))


def read_windows(site: Site, arrays: dict[str, np.ndarray]) -> Iterator[np.ndarray]:
    """Return the values of the person whom the window of a rotation sees, if it is one."""
    sums = ask_for_rotation(site, arrays)
    values, gradients = sums[:, 0], sums[:, 1 : 1 + N_REGIONS]
    place = values[0] / max(values[1], 1e-300)
    if values[1] > 1e-6 and abs(np.exp(-0.5 * place**2) / values[1] - 1.0) < 1e-3:  # a single person
        white = gradients[1] / -values[0]
        yield (white + arrays["offset"]) @ np.linalg.inv(arrays["map"])


def ask_for_blocks(site: Site, coding: dict[str, Any], coefficient: float, **blocks: int) -> Any:
    """Return the sums of blocks, where the values of region 0 have some of a column of a covariate."""
    coefficients = np.zeros((1, N_REGIONS))
    coefficients[0, 0] = coefficient
    settings = {
        "plan": {"seed": 0, "members": 2},
        "n_blocks": {"controls": 5, "patients": 5, **blocks},
        "codings": [coding],
        "regions": list(site.regions),
        "adjust": "log",
    }
    arrays = {"centre": np.zeros(1 + N_REGIONS), "coefficients": coefficients, "scale": np.ones(N_REGIONS)}
    return site.answer(Request(kinds.BLOCKS, 5, settings, arrays))


def compare_codings(site: Site, coding: dict[str, Any], number: float = 0.01) -> Iterator[np.ndarray]:
    """Two requests for blocks differ in the products of a column and the regions: sums over a category."""
    first, second = (ask_for_blocks(site, coding, coefficient).arrays for coefficient in (0.0, number))
    products = (unpack_symmetric(first["products"]) - unpack_symmetric(second["products"]))[:, 0] / number
    sizes = (first["sum"] - second["sum"])[:, 0] / number
    for size, total in zip(sizes, products, strict=True):
        if abs(size - 1.0) < 1e-6:
            yield np.r_[np.nan, total[1:]]


def code_age_as_category(site: Site) -> Iterator[np.ndarray]:
    age = f"{float(site.cohort.covariates['age'].iloc[7]):g}"
    return compare_codings(site, {"name": "age", "kind": "categorical", "levels": ["none", age]})


def test_three_sets_that_leave_one_person_are_refused() -> None:
    assert_nobody_is_found(combine_three_sets, Site("a", simulate_people()), "another-plan")


def test_windows_of_a_rotation_are_refused() -> None:
    assert_nobody_is_found(open_windows, Site("a", simulate_people()), "steep-map")


def test_a_number_as_a_category_is_refused() -> None:
    site = Site("a", simulate_people())
    volumes, guesses = np.log(site.cohort.volumes.to_numpy()), []
    with pytest.raises(RefusedError, match="other-coding"):
        guesses.extend(code_age_as_category(site))
    assert not any(np.nanmax(np.abs(volumes - guess), axis=1).min() < 1e-3 for guess in guesses)


def rename(cohort: Cohort) -> Cohort:
    return replace(cohort, people=cohort.people.assign(**{ID: "x" + cohort.people[ID].astype(str)}))


def test_renamed_people_are_the_same_people(tmp_path: Path) -> None:
    """The same people less one, with other ids, in another run."""
    cohort, ledger = simulate_people(), tmp_path / "ledger.json"

    def leave_one_out(site: Site) -> Iterator[np.ndarray]:
        everyone, _ = sum_set(site, "all")
        last = np.flatnonzero(cohort.is_patient)[-1]
        others = Site("a", rename(cohort.take(np.arange(len(cohort)) != last)), ledger=ledger)
        yield everyone - sum_set(others, "all")[0]

    assert_nobody_is_found(leave_one_out, Site("a", cohort, ledger=ledger), "a sum over 1 person")


def test_rounds_are_counted_over_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rindices.federated.privacy.MAX_ROUNDS", 100)
    cohort, ledger = simulate_people(), tmp_path / "ledger.json"
    for _ in range(4):
        site = Site("a", cohort, ledger=ledger)
        for number in range(25):
            site.answer(Request(kinds.DESCRIBE, number + 1))
    with pytest.raises(RefusedError, match="too-many-rounds"):
        Site("a", cohort, ledger=ledger).answer(Request(kinds.DESCRIBE, 1))


def combine_seeds(site: Site) -> Iterator[np.ndarray]:
    """Members of many seeds are random sets: the combination that has most of a patient is nearly that patient."""
    masks, sums = [], []
    ids, is_patient = site.cohort.people[ID].tolist(), site.cohort.is_patient
    for seed in range(45):
        names = [f"held-out-{k}" for k in range(5)]
        sums += [total for total, _ in sum_sets(site, *names, seed=seed)]
        subsets = site._make_subsets(SubsetPlan(seed, 2))
        masks += [subsets.find(name, "patients") for name in names]
    yield np.linalg.lstsq(np.array(masks).T.astype(float), np.eye(len(ids))[is_patient.argmax()])[0] @ np.array(sums)


def test_sets_of_other_seeds_are_refused() -> None:
    assert_nobody_is_found(combine_seeds, Site("a", simulate_people()), "another-plan")


def test_people_of_a_sex_in_a_block_are_not_told() -> None:
    """With the coding of an honest study: by two requests, or by one in which a region is mainly a covariate."""
    coding = {"name": "sex", "kind": "categorical", "levels": ["F", "M"]}
    site = Site("a", simulate_people())
    assert sorted(site.answer(Request(kinds.DESCRIBE, 1)).facts["covariates"]["sex"]["levels"]) == coding["levels"]
    with pytest.raises(RefusedError, match="another-blocks"):
        list(compare_codings(site, coding))
    with pytest.raises(RefusedError, match="other-preparation"):
        ask_for_blocks(Site("a", simulate_people()), coding, 1e6)


def test_a_refused_preparation_is_refused_again() -> None:
    """Regions that are mainly a covariate, in a request that is repeated."""
    site, (prepared, arrays) = Site("a", simulate_people()), pack_preparations({"0": get_preparation()})
    arrays["0/residualise.coefficients"] = arrays["0/residualise.coefficients"] + 1e6
    settings = {"plan": {"seed": 0, "members": 2}, "sets": [[0, "all", "patients"]], **prepared}
    for _ in range(2):
        with pytest.raises(RefusedError, match="other-preparation"):
            site.answer(Request(kinds.MOMENTS, 5, settings, arrays))


def test_other_numbers_of_blocks_are_refused() -> None:
    """The first four of five blocks and the first five of six differ in few people."""
    site, coding = Site("a", simulate_people()), {"name": "age", "kind": "numeric", "low": 0, "high": 0, "log": False}
    ask_for_blocks(site, coding, 0.0)
    with pytest.raises(RefusedError, match="another-blocks"):
        ask_for_blocks(site, coding, 0.0, patients=6)


def test_repeated_runs_with_another_scale_are_refused(tmp_path: Path) -> None:
    """The log transform has a kink: sums at three places of it are sums over the people between them."""
    ledger, (prepared, arrays) = tmp_path / "ledger.json", pack_preparations({"0": get_preparation()})
    settings = {"plan": {"seed": 0, "members": 2}, "members": [0], **prepared}
    others = make_step(0.1, 1.0)

    def ask_about(kind: str, place: float) -> None:
        moved = {**arrays, **others, "0/head.control_mean": arrays["0/head.control_mean"] + place}
        Site("a", simulate_people(), ledger=ledger).answer(
            Request(kind, 4, {**settings, "sets": [[0, "all", "patients"]]}, moved)
        )

    for kind in (kinds.TRANSFORM, kinds.MOMENTS):
        ask_about(kind, 0.0)
        with pytest.raises(RefusedError, match="another-"):
            ask_about(kind, 0.01)
    with pytest.raises(RefusedError, match="another-preparation"):
        ask_about(kinds.AGREEMENT, 0.01)


def test_a_window_at_the_edge_is_refused() -> None:
    """A rotation of variance 1 whose centre is far outside sees the outermost person alone."""
    site = Site("a", simulate_people())
    spread = prepare(site.cohort)[site.cohort.is_patient].std(axis=0)
    arrays = {"map": np.diag(1.0 / spread), "offset": np.zeros(N_REGIONS), "directions": np.eye(N_REGIONS)[None]}
    list(read_windows(site, arrays))
    arrays["offset"][0] = 15.0
    with pytest.raises(RefusedError, match="few-weights"):
        list(read_windows(site, arrays))


def make_step(place: float, steepness: float) -> dict[str, np.ndarray]:
    """Return the head of a pattern whose severity jumps from 0 to 1 where region 0 has a value."""
    weights, gram = np.zeros((N_REGIONS, N_STEPS)), np.zeros((N_STEPS, N_STEPS))
    weights[0, -1], gram[0, 0] = steepness * np.sign(place), 2.0 * steepness * abs(place)
    return {"weights.0": weights, "gram.0": pack_symmetric(gram), "correlation.0": np.ones(1)}


@pytest.mark.parametrize("kind", [kinds.AGREEMENT, kinds.DISTRIBUTION])
def test_an_index_of_one_person_is_refused(kind: str) -> None:
    """The index is 1 for the outermost person and 0 for all others."""
    site = Site("a", simulate_people())
    first, second = np.sort(prepare(site.cohort)[site.cohort.is_patient, 0])[[-1, -2]]
    settings = {"orders": [[0]]}
    ask(site, kind, settings, make_step(0.1, 1.0))
    with pytest.raises(RefusedError, match="few-weights"):
        ask(site, kind, settings, make_step((first + second) / 2.0, 1e4))


def test_a_likelihood_of_other_people_is_refused() -> None:
    site, head = Site("a", simulate_people()), make_step(0.1, 1.0)
    answer = ask(site, kinds.CURVES, {"tasks": [["member-0", "held-out-0"]]}, head)
    assert answer.arrays["likelihood.0"].shape == ()
    with pytest.raises(RefusedError, match="other-likelihood"):
        ask(site, kinds.CURVES, {"tasks": [["member-0", "half-0-1"]]}, head)


def test_losses_of_people_whom_a_member_has_seen_are_refused() -> None:
    site, head = Site("a", simulate_people()), make_step(0.1, 1.0)
    answer = ask(site, kinds.LOSSES, {"tasks": [["held-out-0", ""]]}, head)
    assert answer.arrays["losses.0"].shape == (2,)
    for name in ("member-0", "half-0-1"):
        with pytest.raises(RefusedError, match="other-losses"):
            ask(site, kinds.LOSSES, {"tasks": [[name, ""]]}, head)


def test_nearly_equal_steps_of_a_curve_are_not_refused() -> None:
    """What is not protected without masks, as docs/federated.md says: two steep curves differ in those between them."""
    site = Site("a", simulate_people())
    people, sums = prepare(site.cohort), []
    values = np.sort(people[site.cohort.is_patient, 0])
    for place in (values[19:40] + values[20:41]) / 2.0:  # between two patients each; an attack would take a grid
        answer = ask(site, kinds.CURVES, {"tasks": [["member-0", ""]]}, make_step(place, 1e5)).arrays
        sums.append(np.r_[answer["cross.0"][:, 1], answer["moments.0"][N_STEPS]])
    found = [each[:-1] for each in np.diff(sums, axis=0) if abs(each[-1] - 1.0) < 1e-3]
    assert min(measure_error(guess, people) for guess in found) < 1e-3


def test_allowed_windows_can_be_combined_to_narrow_ones() -> None:
    """What is not protected without masks, as docs/federated.md says: wide windows on a grid give a narrow one."""
    site = Site("a", simulate_people())
    people = prepare(site.cohort)
    values = people[site.cohort.is_patient, 0]
    steepness, places, sums = 3.5 / values.std(), [], []
    for place in np.linspace(values.min() - 0.5, values.max() + 0.5, 200):
        linear_map, offset = 1e-3 * np.eye(N_REGIONS), np.zeros(N_REGIONS)
        linear_map[0, 0], offset[0] = steepness, steepness * place
        arrays = {"map": linear_map, "offset": offset, "directions": np.eye(N_REGIONS)[None]}
        with suppress(RefusedError):
            sums.append(ask_for_rotation(site, arrays))
            places.append(place)
    grid = np.linspace(values.min() - 0.5, values.max() + 0.5, 2000)
    white = steepness * (grid[:, None] - np.array(places))
    inverse = np.linalg.pinv(white * np.exp(-0.5 * white**2), rcond=1e-11)
    errors = []
    for place in np.linspace(places[0] - 1.0, places[-1] + 1.0, 300):
        combined = np.tensordot(inverse @ np.exp(-0.5 * ((grid - place) / (0.1 * values.std())) ** 2), sums, 1)
        guess = combined[1, 1 : 1 + N_REGIONS] / (-1e-3 * combined[0, 0])
        guess[0] = place
        if abs(combined[0, 0] - 1.0) < 0.05:  # about one person
            errors.append(measure_error(guess, people))
    assert min(errors) < 0.4
