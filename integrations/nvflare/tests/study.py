"""The study of the tests: four unequal sites, in processes and in memory."""

from pathlib import Path

from rindices_nvflare.core import (
    Answer,
    LocalPeople,
    Request,
    SumsResult,
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


def write_sites(
    folder: Path, sizes: dict[str, tuple[int, int]] = SIZES, n_regions: int = 10
) -> dict[str, Path]:
    """Write the tables of all sites and return their study files."""
    return {
        name: write_site(folder / name, simulate_site(name, *size, n_regions=n_regions))
        for name, size in sizes.items()
    }


def run_in_memory(
    studies: dict[str, Path], job_study: Path, out: Path, masked: bool
) -> tuple[SumsResult, list[LocalPeople]]:
    """Run the study on the same people in this process, by sums without masks, and
    return its result and the sites.
    """
    sites = [open_site(name, studies[name]) for name in sorted(studies)]

    def ask(request: Request) -> dict[str, Answer]:
        return {
            site.name: site.answer(Request.decode(request.encode())) for site in sites
        }

    settings = make_settings(read_job_study(job_study), masked)
    out.mkdir(parents=True, exist_ok=True)
    return run_study(ask, settings, out, lambda text: None), sites
