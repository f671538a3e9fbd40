"""Every question of the documentation's first list leads to its page."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_ten_questions_are_one_click_from_the_index_and_each_has_its_page() -> None:
    assert "(questions.md)" in (DOCS / "index.md").read_text("utf-8")
    questions = re.split(
        r"^\d+\. ", (DOCS / "questions.md").read_text("utf-8"), flags=re.MULTILINE
    )[1:]
    assert len(questions) == 10
    for question in questions:
        links = re.findall(r"\]\(([\w/.]+\.md)", question)
        assert links, question
        assert [link for link in links if not (DOCS / link).is_file()] == []
