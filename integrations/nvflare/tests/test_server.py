"""The server's rounds with sites in memory: totals, checkpoints, and what ends a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rindices_nvflare import masks, wire
from rindices_nvflare.checkpoint import Checkpoint
from rindices_nvflare.core import (
    ALL_SITES,
    DESCRIBE,
    MASKED,
    Request,
    StudyError,
    describe_table,
    open_site,
    sum_people,
)
from rindices_nvflare.job import describe_columns
from rindices_nvflare.server import SiteRounds
from tests.people import simulate_site, write_site

SIZES = {"site-1": (30, 25), "site-2": (40, 50), "site-3": (20, 30)}


class MemorySites:
    """Sites of a job in this process, each with a mask of its own that cancels in the total."""

    def __init__(self, folder: Path, sizes: dict[str, tuple[int, int]] = SIZES) -> None:
        studies = {name: write_site(folder / name, simulate_site(name, *size, 4)) for name, size in sizes.items()}
        self.sites = sorted(sizes)
        self.own = {name: open_site(name, studies[name]) for name in self.sites}
        self.facts = {name: describe_table(site, 10) for name, site in self.own.items()}
        self.columns, self.asked = describe_columns(self.facts["site-1"].facts), list[str]()
        self.wrong = ""

    def ask_sites(self, task: str, message: bytes, refuse: bool = True) -> dict[str, Any]:
        self.asked.append(task)
        if task == wire.SEEDS:
            return {}
        if task == wire.HELLO:
            return {
                name: {
                    "people": np.array(facts.numbers),
                    "facts": wire.encode_facts(facts.facts, self.columns),
                }
                for name, facts in self.facts.items()
            }
        request, told = Request.decode(message), {}
        plain = {name: sum_people(site, request)[1][MASKED] for name, site in self.own.items()}
        seed = bytes(32)
        for name, integers in plain.items():
            seeds = {other: seed for other in self.sites if other != name and self.wrong not in (name, other)}
            told[name] = {
                MASKED: masks.mask(integers, name, seeds if name != self.wrong else {"x": seed}, request.round)
            }
        return told


def begin(tmp_path: Path, sites: MemorySites) -> SiteRounds:
    plan = {"settings": {"masked": True}, "sites": sites.sites, "columns": sites.columns}
    controller: Any = sites
    return SiteRounds(controller, Checkpoint(tmp_path / "out", plan), plan, 10)


def make_means(sites: MemorySites) -> Request:
    settings = {"codings": [], "regions": sites.columns["regions"], "adjust": "log", "n_columns": 4}
    return Request("means", 2, settings, {})


def test_a_total_is_kept_and_used_again(tmp_path: Path) -> None:
    sites = MemorySites(tmp_path)
    rounds, request = begin(tmp_path, sites), make_means(sites)
    answers = rounds.ask(request)
    total = answers[ALL_SITES]
    expected = sum(np.log(site.cohort.volumes[site.cohort.is_control]).sum().to_numpy() for site in sites.own.values())
    assert total.numbers == [90, 105]
    np.testing.assert_allclose(total.arrays["sum"][0], expected, rtol=1e-12)
    kept = list((tmp_path / "out" / "rounds").glob("*.npz"))
    with np.load(kept[0]) as stored:  # the total, and not the answer of a site
        assert set(stored.files) == {"digest", MASKED}
        np.testing.assert_allclose(masks.to_numbers(stored[MASKED])[2:6], total.arrays["sum"][0])
    asked = list(sites.asked)
    again = begin(tmp_path, sites).ask(request)
    assert sites.asked == asked
    assert (again[ALL_SITES].arrays["sum"] == total.arrays["sum"]).all()


def test_masks_that_do_not_cancel_end_the_study(tmp_path: Path) -> None:
    sites = MemorySites(tmp_path)
    sites.wrong = "site-2"
    with pytest.raises(StudyError, match="do not cancel"):
        begin(tmp_path, sites).ask(make_means(sites))


def test_all_sites_but_one_have_enough_people(tmp_path: Path) -> None:
    sites = MemorySites(tmp_path, {"site-1": (300, 300), "site-2": (4, 30), "site-3": (5, 30)})
    with pytest.raises(StudyError, match="all sites but site-1 have 9 controls together"):
        begin(tmp_path, sites).ask(Request(DESCRIBE, 1))


def test_a_category_of_few_people_is_refused_in_the_total(tmp_path: Path) -> None:
    sites = MemorySites(tmp_path)
    for name, site in sites.own.items():
        sexes = np.where(np.arange(len(site.cohort)) < (3 if name == "site-1" else 0), "X", "F")
        site.cohort = replace(site.cohort, covariates=site.cohort.covariates.assign(sex=sexes))
    request = make_means(sites)
    codings = [{"kind": "categorical", "name": "sex", "levels": ["F", "X"]}]
    settings = {**request.settings, "codings": codings, "n_columns": 5}
    with pytest.raises(StudyError, match=r"all sites: .* has a sum over 3 people"):
        begin(tmp_path, sites).ask(Request("means", 2, settings, {}))
