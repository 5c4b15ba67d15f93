"""Shows what Slipstream is and where it keeps its files; copies the facts for a problem report.

Knows versions, places and the doctor's checks; no conversations.
"""

import json
import sys
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QGridLayout, QWidget

from app.commands import CommandRunner
from app.layout import column_of, row_of, text_button
from app.theme.dialog import Dialog
from app.theme.labels import closing, plain_label
from app.theme.style import scaled_font
from models.errors import Problem

README = Path(__file__).parents[1] / "README.md"  # in the bundle too
_WORDS = (
    "A chat with models on this computer. Speculative decoding makes it answer faster without "
    "changing the answers, and it shows how."
)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of Slipstream's files. `log` is None if no log can be written."""

    data: Path
    conversations: Path
    log: Path | None


class AboutDialog(Dialog):
    """Signals: `shown(Path)`: open this folder or file; `facts_asked()`: copy the facts."""

    shown = Signal(Path)
    facts_asked = Signal()

    def __init__(self, places: Places, *, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Slipstream")
        package = metadata.metadata("slipstream")
        label = partial(plain_label, wraps=True, selectable=True)
        title, words = label("Slipstream"), label(_WORDS)
        title.setFont(scaled_font(title.font(), 1.6, bold=True))
        facts = QGridLayout()
        facts.setHorizontalSpacing(16)
        facts.setVerticalSpacing(6)
        facts.setColumnStretch(1, 1)
        for row, (name, value) in enumerate(
            (
                ("Version", package["Version"]),
                ("License", package["License-Expression"] or "see LICENSE"),
                ("Data folder", str(places.data)),
                ("Conversations", str(places.conversations)),
                ("Log", str(places.log or "The log cannot be written.")),
            )
        ):
            facts.addWidget(label(name), row, 0, Qt.AlignmentFlag.AlignTop)
            facts.addWidget(label(value), row, 1)
        log = text_button("Show log", lambda: self.shown.emit(places.log))
        log.setEnabled(places.log is not None)
        actions = row_of(
            text_button("Show data folder", lambda: self.shown.emit(places.data)),
            log,
            text_button("Copy system information", self.facts_asked.emit),
        )
        if README.is_file():
            actions.addWidget(text_button("Read me", lambda: self.shown.emit(README)))
        parts = (title, words, facts, actions, closing(self))
        column_of(*parts, on=self, margins=(20, 18, 20, 14), gap=12)
        self.setMinimumWidth(560)


class ProblemReport(QObject):
    """Copies the doctor's report on this machine to the clipboard.

    Signals: `copied(str)`: the text on the clipboard; `failed(Problem)`.
    """

    copied = Signal(str)
    failed = Signal(object)

    def __init__(self, commands: CommandRunner | None = None, *, parent: QObject) -> None:
        """`commands` replaces the runner of the engine's commands."""
        super().__init__(parent)
        engine = (sys.executable, "-m", "engine")
        self._commands = commands or CommandRunner(
            engine, name="The doctor", read=json.loads, parent=self
        )
        self._facts = ""

    def begin(self) -> None:
        """Run the doctor, which takes a few seconds."""
        self._facts = ""
        running = self._commands.start("doctor", "--json", "--no-pair")
        running.line_received.connect(self._on_line)
        running.done.connect(lambda answer: self._copy())
        running.failed.connect(self._on_failed)

    def close(self) -> None:
        """Stop the doctor."""
        self._commands.close()

    def _on_line(self, answer: object) -> None:
        self._facts = facts_text(answer) or self._facts

    def _on_failed(self, problem: Problem) -> None:
        if self._facts:  # a doctor that found a problem ends with an error
            self._copy()
        else:
            self.failed.emit(problem)

    def _copy(self) -> None:
        QApplication.clipboard().setText(self._facts)
        self.copied.emit(self._facts)


def facts_text(answer: object) -> str:
    """Return the doctor's answer as lines, with each remedy; empty if it has no checks."""
    lines = []
    for check in answer.get("lines", ()) if isinstance(answer, dict) else ():
        lines.append(f"{check.get('name', '')}: {check.get('fact', '')}")
        if check.get("remedy"):
            lines.append(f"  -> {check['remedy']}")
    return "\n".join(lines)


def open_path(path: Path | None) -> None:
    """Open a folder or file with the system's program for it. `path` is None without a log.

    Raises Problem.
    """
    if path is None:
        raise Problem("The log cannot be found.", "Check that you may write to the log folder.")
    if not path.exists():
        raise Problem(f"{path} does not exist.", "It appears with the first entry.")
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(path))):
        raise Problem(f"No program can open {path}.", "Open it in another program.")
