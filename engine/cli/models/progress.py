"""Draws progress: as a bar in a terminal, else as a line for each change, or not at all.

Knows bytes done and bytes in all, records of downloads, and a console.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)
from rich.table import Column
from rich.text import Text

from engine.cli.models.show import show_download
from engine.cli.streams import new_console
from models.in_words import clean, left, share, size
from models.records import Download


@contextmanager
def bytes_bar(
    what: str, *, console: Console | None = None, quiet: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that draws a bar from (done, total) bytes; it appears with the first call.

    The bar is drawn on standard error, or on `console`; other output appears above it.
    """
    console = console or new_console(errors=True)
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    task = progress.add_task(clean(what))

    def show(done: int, total: int) -> None:
        progress.start()
        progress.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        if progress.live.is_started:
            progress.stop()


class Steps:
    """Reports the steps before an answer: a line as each one-time step begins, and at the end the
    seconds of all steps. Without a one-time step nothing is written."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock
        self._begun: list[tuple[str, float]] = []
        self._printed = False

    def begin(self, name: str, line: str = "") -> None:
        """Begin a step, which ends the last one. A step that happens every time has no line."""
        self._begun.append((name, self._clock()))
        if line:
            self._printed = True
            self._print(line)

    def end(self) -> None:
        """End the last step."""
        names = [name for name, _ in self._begun]
        moments = [*(moment for _, moment in self._begun), self._clock()]
        if self._printed:
            seconds = (after - before for before, after in pairwise(moments))
            took = [f"{name} {spent:.0f} s" for name, spent in zip(names, seconds, strict=True)]
            self._print(f"Ready: {', '.join(took)}.")

    def _print(self, line: str) -> None:
        self.console.print(line, style="dim", highlight=False, markup=False)


class DownloadView:
    """Draws downloads. Must be closed, which restores the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            _Figures(table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            expand=True,
        )
        self._bars: dict[str, TaskID] = {}
        self._statuses: dict[str, str] = {}

    def show(self, download: Download) -> None:
        """Draw the current state of a download."""
        name = download.repository
        if self._console.is_terminal:
            self._draw(name, download)
        if self._statuses.get(name) != download.status:
            self._statuses[name] = download.status
            if not (self._console.is_terminal and download.status in ("queued", "running")):
                show_download(self._console, download)

    def close(self) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def _draw(self, name: str, download: Download) -> None:
        self._progress.start()
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(clean(name), total=None)
        self._progress.update(
            self._bars[name],
            completed=download.done_bytes,
            total=download.total_bytes or None,
            visible=download.status in ("queued", "running"),
            figures=_figures(download),
        )


class _Figures(ProgressColumn):
    """A download's own figures, which survive a restart; rich would start from zero."""

    def render(self, task: Task) -> Text:
        return Text(str(task.fields.get("figures", "")), style="dim")


def _figures(download: Download) -> str:
    if download.status == "queued":
        return "waiting"
    parts = [size(download.done_bytes)]
    if download.total_bytes:
        parts = [share(download.done_bytes, download.total_bytes)]
    if download.bytes_per_second:
        parts.append(f"{size(download.bytes_per_second)}/s")
    if download.seconds_left is not None:
        parts.append(left(download.seconds_left))
    return "  ".join(parts)
