"""Read a page as a person sees it: its menu, its paragraphs and rows in order, and
where each of them stands.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
BLOCKS = HEADINGS | {
    "p",
    "li",
    "tr",
    "section",
    "article",
    "figure",
    "figcaption",
    "caption",
    "dt",
    "dd",
    "summary",
}
BLOCKS |= {
    "div",
    "nav",
    "table",
    "pre",
    "button",
    "header",
    "footer",
    "main",
    "ul",
    "ol",
    "dl",
    "details",
    "text",
}
UNREAD = {"script", "style", "template", "title", "metadata"}
VOID = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "track",
    "wbr",
}
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9“])")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A paragraph, a row of a table, or a label of a chart.

    Attributes
    ----------
    text : str
        Its text, with minus signs as hyphens and blanks as single blanks.
    tag : str
        Name of its element; ``text`` for a label in a chart.
    ids : tuple of str
        Identifiers of the elements around it, outermost first.
    headings : tuple of str
        The headings above it, of the largest size first.
    cells : tuple of str
        Cells of a row, else empty.
    header : tuple of str
        The first row of the table, for a row.
    """

    text: str
    tag: str
    ids: tuple[str, ...]
    headings: tuple[str, ...]
    cells: tuple[str, ...] = ()
    header: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where to find it."""
        return f"report, #{self.ids[-1]}" if self.ids else "report"


@dataclass(kw_only=True)
class Page:
    """A page.

    Attributes
    ----------
    lines : list of Line
        Everything that is written on it, in order.
    menu : list of tuple
        Text and address of each link of the first navigation.
    ids : set of str
        Identifiers to which links can lead.
    n_pictures : int
        Number of pictures; charts are not among them.
    """

    lines: list[Line] = field(default_factory=list)
    menu: list[tuple[str, str]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    n_pictures: int = 0

    @property
    def first_sentence(self) -> str:
        """The first sentence after the heading and the menu."""
        paragraphs = (
            line.text for line in self.lines if line.tag == "p" and "main" in line.ids
        )
        return SENTENCE_END.split(next(paragraphs, ""))[0]

    def describe(self) -> str:
        """Return the menu and the first sentence, as they are written beside a picture
        of the page.
        """
        return f"Menu: {', '.join(text for text, _ in self.menu)}\nFirst sentence: {self.first_sentence}\n"


def tidy(text: str) -> str:
    """Return a text with plain minus signs and single blanks."""
    return " ".join(text.replace("\N{MINUS SIGN}", "-").split())


class _Reader(HTMLParser):
    """Collect the lines of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.open: list[tuple[str, str]] = []  # element and identifier
        self.text = ""
        self.cells: list[str] = []
        self.header: tuple[str, ...] = ()
        self.headings: dict[str, str] = {}  # by size
        self.n_menus, self.address = 0, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in BLOCKS:
            self.end_line()
        elif tag in ("td", "th"):
            self.cells.append("")
        if tag == "nav":
            self.n_menus += 1
        if tag == "img":
            self.page.n_pictures += 1
        if tag == "table":
            self.header = ()
        if identifier := values.get("id"):
            self.page.ids.add(identifier)
        if tag == "a" and self.n_menus == 1 and self.is_inside("nav"):
            self.page.menu.append(("", values.get("href") or ""))
        if tag not in VOID:
            self.open.append((tag, "main" if tag == "main" else values.get("id") or ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS:
            self.end_line()
        while self.is_inside(tag) and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if any(name in UNREAD for name, _ in self.open):
            return
        if (
            self.open
            and self.open[-1][0] == "a"
            and self.n_menus == 1
            and self.is_inside("nav")
        ):
            text, address = self.page.menu[-1]
            self.page.menu[-1] = (tidy(text + data), address)
        self.text += data
        if self.cells:
            self.cells[-1] += data

    def is_inside(self, tag: str) -> bool:
        """Whether an element is open."""
        return any(name == tag for name, _ in self.open)

    def end_line(self) -> None:
        """Keep what was read since the last block began."""
        text, cells = tidy(self.text), tuple(map(tidy, self.cells))
        self.text, self.cells = "", []
        if not text:
            return
        tag = next((name for name, _ in reversed(self.open) if name in BLOCKS), "")
        if tag in HEADINGS:
            self.headings = {
                size: each for size, each in self.headings.items() if size < tag
            } | {tag: text}
        ids = tuple(identifier for _, identifier in self.open if identifier)
        headings = tuple(self.headings.values())
        line = Line(
            text=" | ".join(cells) or text,
            tag=tag,
            ids=ids,
            headings=headings,
            cells=cells,
            header=self.header,
        )
        self.page.lines.append(line)
        self.header = self.header or cells


def read_page(path: Path) -> Page:
    """Read a page."""
    reader = _Reader()
    reader.feed(path.read_text("utf-8"))
    reader.end_line()
    return reader.page
