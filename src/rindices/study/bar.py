"""A bar of progress on a terminal, with a line below it.

Imported where there is a terminal, because of rich.
"""

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text


class Bar(Progress):
    """A bar with one task.

    title: name of the task.
    """

    def __init__(self, title: str) -> None:
        self._line = ""
        texts = (
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[status]}"),
        )
        console = Console(stderr=True)
        super().__init__(
            texts[0],
            BarColumn(),
            TimeElapsedColumn(),
            texts[1],
            console=console,
            transient=True,
        )
        self.add_task(title, total=None, status="begun")

    def show_line(self, line: str) -> None:
        """Show another line below the bar; an empty one removes it."""
        self._line = line

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar and the line."""
        yield from super().get_renderables()
        if self._line:
            yield Text(self._line)
