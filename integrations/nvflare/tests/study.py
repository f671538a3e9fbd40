"""The study of the tests: four unequal sites, in processes and in memory."""

from pathlib import Path
from typing import Any

from rindices_nvflare.core import (
    DESCRIBE,
    PUBLIC,
    Answer,
    FederatedResult,
    Request,
    Site,
    make_settings,
    open_site,
    read_job_study,
    run_study,
)
from tests.people import SIZES, simulate_site, write_site

JOB_STUDY = """[model]
patterns = [2]
members = 5

[run]
seed = 3
"""


def write_sites(folder: Path, sizes: dict[str, tuple[int, int]] = SIZES, n_regions: int = 10) -> dict[str, Path]:
    """Write the tables of all sites and return their study files."""
    return {
        name: write_site(folder / name, simulate_site(name, *size, n_regions=n_regions)) for name, size in sizes.items()
    }


def run_in_memory(
    studies: dict[str, Path], job_study: Path, out: Path, masked: bool
) -> tuple[FederatedResult, list[Site]]:
    """Run the study on the same people in this process, by sums without masks, and return its result and the sites."""
    names = sorted(studies)
    sites = [open_site(name, studies[name], 10, names if masked else ()) for name in names]

    def ask(request: Request) -> dict[str, Answer]:
        answers = {}
        for site in sites:
            answer = site.answer(Request.decode(request.encode()))
            facts: dict[str, Any] = dict(answer.facts)
            if request.kind == DESCRIBE and masked:
                facts["key"] = PUBLIC
            answers[site.name] = Answer(request.digest, answer.numbers, answer.arrays, facts, site.name)
        return answers

    settings = make_settings(read_job_study(job_study), masked)
    out.mkdir(parents=True, exist_ok=True)
    return run_study(ask, settings, out, lambda text: None), sites
