"""Pages for strangers: the first sentence of every page says who needs it."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("guides/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_first_sentence_says_who_needs_the_page(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    title = next(number for number, line in enumerate(lines) if line.startswith("# "))
    assert lines[title + 1].startswith("For ")
