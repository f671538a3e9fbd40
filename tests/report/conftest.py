"""Pages of a small finished study."""

from pathlib import Path

import pytest

import rindices as ri
from tests.report.helpers import omit_pictures


@pytest.fixture(scope="session")
def page(study: Path) -> str:
    return ri.write_report(study).read_text("utf-8")


@pytest.fixture(scope="session")
def staged_page(staged_study: Path) -> str:
    with omit_pictures():
        return ri.write_report(staged_study).read_text("utf-8")
