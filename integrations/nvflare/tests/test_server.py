"""The server's rounds with sites in memory: totals, checkpoints, and what
ends a study.
"""

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
    count_sets,
    describe_table,
    make_settings,
    open_site,
    read_job_study,
    run_study,
    sum_people,
)
from rindices_nvflare.job import describe_columns
from rindices_nvflare.server import SiteRounds
from tests.people import simulate_site, write_site

SIZES = {"site-1": (30, 25), "site-2": (40, 50), "site-3": (20, 30)}


class MemorySites:
    """Sites of a job in this process, each with a mask of its own that cancels in the
    total.
    """

    def __init__(self, folder: Path, sizes: dict[str, tuple[int, int]] = SIZES) -> None:
        studies = {
            name: write_site(folder / name, simulate_site(name, *size, 4))
            for name, size in sizes.items()
        }
        self.sites = sorted(sizes)
        self.own = {name: open_site(name, studies[name]) for name in self.sites}
        self.facts = {name: describe_table(site, 10) for name, site in self.own.items()}
        self.columns, self.asked = (
            describe_columns(self.facts["site-1"].facts),
            list[str](),
        )
        self.wrong, self.messages, self.totals = "", list[bytes](), list[Any]()

    def ask_sites(
        self, task: str, message: bytes, refuse: bool = True
    ) -> dict[str, Any]:
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
        self.messages.append(message)
        plain = {
            name: sum_people(site, request)[1][MASKED]
            for name, site in self.own.items()
        }
        seed = bytes(32)
        for name, integers in plain.items():
            seeds = {
                other: seed
                for other in self.sites
                if other != name and self.wrong not in (name, other)
            }
            told[name] = {
                MASKED: masks.mask(
                    integers,
                    name,
                    seeds if name != self.wrong else {"x": seed},
                    request.round,
                )
            }
        total = masks.to_numbers(masks.add_all(each[MASKED] for each in told.values()))
        self.totals.append(total[count_sets(request) :])
        return told


def begin(
    tmp_path: Path, sites: MemorySites, settings: dict[str, Any] | None = None
) -> SiteRounds:
    plan = {
        "settings": settings or {"masked": True},
        "sites": sites.sites,
        "columns": sites.columns,
    }
    controller: Any = sites
    return SiteRounds(controller, Checkpoint(tmp_path / "out", plan), plan, 10)


def make_means(sites: MemorySites) -> Request:
    settings = {
        "codings": [],
        "regions": sites.columns["regions"],
        "adjust": "log",
        "n_columns": 4,
    }
    return Request(kind="means", round=2, settings=settings, arrays={})


def test_a_total_is_kept_and_used_again(tmp_path: Path) -> None:
    sites = MemorySites(tmp_path)
    rounds, request = begin(tmp_path, sites), make_means(sites)
    answers = rounds.ask(request)
    total = answers[ALL_SITES]
    expected = sum(
        np.log(site.cohort.volumes[site.cohort.is_control]).sum().to_numpy()
        for site in sites.own.values()
    )
    assert total.numbers == [90, 105]
    assert rounds.bytes_sent == 16 * (2 + 2 * 4)  # two numbers of people, four regions
    np.testing.assert_allclose(total.arrays["sum"][0], expected, rtol=1e-12)
    kept = list((tmp_path / "out" / "rounds").glob("*.npz"))
    with np.load(kept[0]) as stored:  # the total, and not the answer of a site
        assert set(stored.files) == {"digest", MASKED}
        np.testing.assert_allclose(
            masks.to_numbers(stored[MASKED])[2:6], total.arrays["sum"][0]
        )
    asked = list(sites.asked)
    again = begin(tmp_path, sites).ask(request)
    assert sites.asked == asked
    assert (again[ALL_SITES].arrays["sum"] == total.arrays["sum"]).all()


def test_masks_that_do_not_cancel_end_the_study(tmp_path: Path) -> None:
    sites = MemorySites(tmp_path)
    sites.wrong = "site-2"
    with pytest.raises(StudyError, match="do not cancel"):
        begin(tmp_path, sites).ask(make_means(sites))


def test_all_sites_but_one_have_enough_people_for_each_fold(tmp_path: Path) -> None:
    sites = MemorySites(
        tmp_path, {"site-1": (300, 300), "site-2": (24, 30), "site-3": (25, 30)}
    )
    with pytest.raises(
        StudyError, match="all sites but site-1 have 49 controls together"
    ):
        begin(tmp_path, sites).ask(Request(kind=DESCRIBE, round=1))


def test_a_category_of_few_people_is_refused_in_the_total(tmp_path: Path) -> None:
    sites = MemorySites(tmp_path)
    for name, site in sites.own.items():
        sexes = np.where(
            np.arange(len(site.cohort)) < (3 if name == "site-1" else 0), "X", "F"
        )
        site.cohort = replace(
            site.cohort, covariates=site.cohort.covariates.assign(sex=sexes)
        )
    request = make_means(sites)
    codings = [{"kind": "categorical", "name": "sex", "levels": ["F", "X"]}]
    settings = {**request.settings, "codings": codings, "n_columns": 5}
    with pytest.raises(StudyError, match=r"all sites: .* has a sum over 3 people"):
        begin(tmp_path, sites).ask(
            Request(kind="means", round=2, settings=settings, arrays={})
        )


def test_a_site_is_sent_neither_answers_nor_totals_nor_names_of_others(
    tmp_path: Path,
) -> None:
    """What the attack of a hospital that waits for the answers of others needs."""
    sites = MemorySites(
        tmp_path, {"site-1": (64, 60), "site-2": (75, 90), "site-3": (110, 130)}
    )
    study = tmp_path / "job.toml"
    study.write_text("[model]\npatterns = [2]\nmembers = 2\n")
    settings = make_settings(read_job_study(study), masked=True)
    rounds = begin(tmp_path, sites, settings)
    result = run_study(rounds.ask, settings, tmp_path / "out", lambda text: None)
    assert result.finding == "patterns"
    assert len(sites.messages) == len(result.rounds) - 1  # but for the first one
    sent = b"".join(sites.messages)
    assert b"region_0" in sent
    assert not [name for name in sites.sites if name.encode() in sent]
    for total in sites.totals:
        assert total[:4].tobytes() not in sent
