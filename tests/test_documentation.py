"""Pages for strangers: short, and the first sentence of every page says who needs it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("guides/*.md")])
WORDS_PER_MINUTE = 200


def count_words(page: Path) -> int:
    """Return the number of words, as ``wc -w`` counts them."""
    return len(page.read_text("utf-8").split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_first_sentence_says_who_needs_the_page(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    title = next(number for number, line in enumerate(lines) if line.startswith("# "))
    assert lines[title + 1].startswith("For ")


@pytest.mark.parametrize("page", [page for page in PAGES if count_words(page) > 1500], ids=lambda page: page.stem)
def test_long_pages_state_their_reading_time(page: Path) -> None:
    (minutes,) = re.findall(r"Reading time: (\d+) minutes\.", page.read_text("utf-8"))
    assert int(minutes) == pytest.approx(count_words(page) / WORDS_PER_MINUTE, abs=1.5)


def test_readme_and_pages_are_short() -> None:
    assert count_words(ROOT / "README.md") <= 500
    assert sum(map(count_words, DOCS.glob("*.md"))) <= 20_000


def test_the_ten_questions_are_one_click_from_the_index_and_each_has_its_page() -> None:
    assert "(questions.md)" in (DOCS / "index.md").read_text("utf-8")
    questions = re.split(r"^\d+\. ", (DOCS / "questions.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert len(questions) == 10
    for question in questions:
        links = re.findall(r"\]\(([\w/.]+\.md)", question)
        assert links, question
        assert [link for link in links if not (DOCS / link).is_file()] == []
