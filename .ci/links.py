"""Check every internal link of the built documentation: ``python .ci/links.py
docs/_build``.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

TAGS = {"a": "href", "img": "src", "link": "href", "script": "src"}


class Page(HTMLParser):
    """Anchors and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        """Collect ids, links and pictures."""
        for name, value in attributes:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name == TAGS.get(tag):
                self.links.add(value)


def find_dead_links(folder: Path) -> list[str]:
    """Return every link to a missing file or anchor."""
    paths = [
        path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts
    ]  # templates
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in paths}
    dead = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            anchors = pages[target].anchors if target in pages else None
            if not target.is_file() or (
                parts.fragment
                and anchors is not None
                and unquote(parts.fragment) not in anchors
            ):
                dead.append(f"{path.relative_to(folder.resolve())}: {link}")
    return dead


if __name__ == "__main__":
    dead = find_dead_links(Path(sys.argv[1]))
    print("\n".join(dead) or "no dead internal link")
    sys.exit(1 if dead else 0)
