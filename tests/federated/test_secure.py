"""Masked sums: the total is that of plain sums, and an answer alone is random."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from rindices.federated import kinds, secure
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.masks import SiteKey, compute_fingerprint
from rindices.federated.messages import Answer, ExchangeError, RefusedError, Request
from rindices.federated.rounds import InMemoryTransport
from rindices.federated.site import Site
from rindices.study.config import ModelConfig
from rindices.tables.cohort import Cohort
from tests.federated.sites import simulate_people, split_cohort

N_REGIONS = simulate_people().volumes.shape[1]
DIFFERENCE = ModelConfig(method="mean-difference", members=2)


def make_keys(names: Sequence[str]) -> dict[str, SiteKey]:
    """Return keys of sites that accepted each other."""
    private = {name: X25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"k")[:32]) for name in names}
    prints = {name: compute_fingerprint(name, SiteKey(key).public) for name, key in private.items()}
    return {name: SiteKey(key, frozenset(set(prints.values()) - {prints[name]})) for name, key in private.items()}


class Recording(InMemoryTransport):
    """Sites in memory whose messages are kept."""

    def ask(self, request: Request) -> Mapping[str, Answer]:
        answers = super().ask(request)
        self.__dict__.setdefault("messages", []).append((request, answers))
        return answers


def make_sites(cohorts: dict[str, Cohort], masked: bool = True, fewest: int = 10) -> Recording:
    keys = make_keys(sorted(cohorts)) if masked else {}
    return Recording([Site(name, cohorts[name], fewest, key=keys.get(name)) for name in sorted(cohorts)])


def run(
    cohorts: dict[str, Cohort],
    model: ModelConfig = DIFFERENCE,
    masked: bool = True,
    harmonise: bool = False,
    fewest: int = 10,
) -> tuple[FederatedResult, Recording]:
    transport = make_sites(cohorts, masked, fewest)
    return run_federated_study(transport, FederatedSettings(model, harmonise=harmonise, masked=masked)), transport


@pytest.mark.parametrize("harmonise", [False, True])
def test_the_result_is_that_of_plain_sums(harmonise: bool) -> None:
    cohorts = split_cohort(simulate_people(), 3)
    # where nothing is refused, all groups of a site have five folds without masks, too
    masked = run(cohorts, harmonise=harmonise, fewest=2)[0].model
    plain = run(cohorts, masked=False, harmonise=harmonise, fewest=0)[0].model
    assert masked is not None
    assert plain is not None
    np.testing.assert_allclose(masked.patterns, plain.patterns, rtol=0, atol=1e-9)
    own = [Site("site-1", cohorts["site-1"], 2).tabulate_people(model)["r1"] for model in (masked, plain)]
    np.testing.assert_allclose(*own, rtol=0, atol=1e-9)
    if harmonise:  # without masks, sites send their effects
        assert masked.preprocessing.harmoniser is not None
        assert masked.preprocessing.harmoniser.sites == ()
    else:
        pooled = run(split_cohort(simulate_people(), 1), masked=False, fewest=0)[0].model
        assert pooled is not None
        np.testing.assert_allclose(masked.patterns, pooled.patterns, rtol=0, atol=1e-9)


finite = st.floats(-1e15, 1e15, allow_nan=False)


@given(st.lists(arrays(float, 5, elements=finite), min_size=1, max_size=4))
def test_integers_add_up_as_exact_numbers_do(values: list[np.ndarray]) -> None:
    """The other way is Python's integers, which have no limit."""
    request = Request("means", 2, {"n_columns": 5, "sites": {f"s{k}": {} for k in range(len(values))}})
    shapes = kinds.get_answer_shapes(request)
    assert shapes == {"sum": (2, 5)}
    answers = {}
    for k, value in enumerate(values):
        sums = Answer(request.digest, [k, 0], {"sum": np.stack([value, 0.0 * value])})
        integers = secure.write_numbers(sums, request)
        python = [int(low) + (int(high) << 64) for low, high in integers]
        exact = [round(Fraction(float(number)) * 2**64) % 2**128 for number in (k, 0, *value)]
        assert python[: len(exact)] == exact
        answers[f"s{k}"] = Answer(request.digest, arrays={secure.MASKED: integers})
    total = secure.add_answers(answers, request)
    expected = [float(sum(Fraction(float(value[j])) for value in values)) for j in range(5)]
    np.testing.assert_allclose(total.arrays["sum"][0], expected, rtol=1e-15, atol=1e-15)
    assert total.numbers == [sum(range(len(values))), 0]


def test_sums_that_are_too_large_are_refused() -> None:
    request = Request("means", 2, {"n_columns": 1, "sites": {"a": {}, "b": {}}})
    sums = {"sum": np.array([[3e18], [0.0]])}
    with pytest.raises(RefusedError, match="overflow"):
        secure.write_numbers(Answer(request.digest, [1, 0], sums), request)


def test_two_splits_leave_the_same_totals_and_random_answers() -> None:
    """The same people in two and in three sites: requests and totals are equal, and all else is random.

    Groups of a site have at least 40 people; folds of smaller ones are dealt within the site.
    """
    splits = [split_cohort(simulate_people(), number, seed) for number, seed in ((3, 0), (2, 1))]
    assert min(cohort.n_controls for split in splits for cohort in split.values()) >= 40
    transports = [run(split)[1] for split in splits]
    for (request, answers), (other, others) in zip(*(each.messages for each in transports), strict=True):
        assert request.kind == other.kind
        if request.kind == kinds.DESCRIBE:
            continue
        first, second = (secure.add_answers(*each) for each in ((answers, request), (others, other)))
        assert first.numbers == second.numbers
        for name, array in first.arrays.items():
            scale = np.abs(array).max()
            np.testing.assert_allclose(array, second.arrays[name], rtol=0, atol=1e-9 * scale)
            np.testing.assert_allclose(other.arrays.get(name, 0.0), request.arrays.get(name, 0.0), atol=1e-9)
        for answer in [*answers.values(), *others.values()]:
            assert (answer.numbers, answer.facts, set(answer.arrays)) == ([], {}, {secure.MASKED})
            content = answer.arrays[secure.MASKED].tobytes()
            counts = np.bincount(np.frombuffer(content, dtype=np.uint8), minlength=256)
            statistic = ((counts - len(content) / 256) ** 2).sum() / (len(content) / 256)
            assert 1e-6 < chi2.sf(statistic, 255) < 1.0 - 1e-6
    # with the answer of one site less, the total is random, too
    request, answers = transports[0].messages[-1]
    with pytest.raises(ExchangeError, match="do not cancel"):
        secure.add_answers({name: answers[name] for name in ("site-1", "site-2")}, request)


def test_the_same_sums_have_other_masks_in_each_round() -> None:
    keys = make_keys(["a", "b"])
    site = {name: Site(name, simulate_people(), key=keys[name]) for name in "ab"}["a"]
    sites = {name: {"key": keys[name].public, "controls": 150, "patients": 200} for name in "ab"}
    settings = {"sites": sites, "n_columns": N_REGIONS, "codings": [], "regions": list(site.regions), "adjust": "log"}
    first, second, again = (site.answer(Request("means", number, settings)) for number in (2, 3, 2))
    assert (first.arrays[secure.MASKED] != second.arrays[secure.MASKED]).all()
    np.testing.assert_array_equal(first.arrays[secure.MASKED], again.arrays[secure.MASKED])


@pytest.mark.slow
def test_sites_that_are_too_small_take_part_under_masks_alone() -> None:
    """The minimum holds for all sites together: 12 sites, some with fewer than 10 controls."""
    cohorts = split_cohort(simulate_people(), 20)
    assert min(cohort.n_controls for cohort in cohorts.values()) < 10
    with pytest.raises(RefusedError, match="the fewest are 10"):
        run(cohorts, masked=False)
    result, transport = run(cohorts)
    assert result.counts == {"controls": 150, "patients": 200}
    moments = [
        secure.add_answers(answers, request) for request, answers in transport.messages if request.kind == "moments"
    ]
    assert min(moments[0].numbers) >= 10
    few = {name: cohort.take(np.arange(len(cohort)) < 3) for name, cohort in split_cohort(simulate_people(), 3).items()}
    with pytest.raises(RefusedError, match="few-people"):
        run(few)
