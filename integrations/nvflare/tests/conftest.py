from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import ADMIN, LEAD, SERVER, Lab
from tests.people import SIZES
from tests.study import write_sites


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server, four sites and two admins with start kits, all on this machine."""
    made = Lab(tmp_path_factory.mktemp("lab"), list(SIZES))
    made.provision_all([SERVER, ADMIN, LEAD, *SIZES])
    yield made
    made.stop_all()


@pytest.fixture(scope="session")
def tables(lab: Lab) -> dict[str, Path]:
    """Study files of the four sites."""
    return write_sites(lab.folder / "tables")
