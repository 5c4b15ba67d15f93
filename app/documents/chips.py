"""Chips: a document in a line, with what the model gets of it and what it lacks.

Knows how a chip looks, not what becomes of what is asked for: that goes out as signals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QSizePolicy, QVBoxLayout, QWidget

from app.status_line import Standing, StatusLine
from app.theme.hover_button import HoverButton
from app.theme.icons import Sign, draw_sign
from app.theme.style import colours_of, set_ink, small_font
from engine.documents import Document, SectionKind
from engine.documents.prompt import SentDocument, in_passages
from models.in_words import one_line

_COUNTED: tuple[SectionKind, ...] = ("sheet", "slide", "chapter", "cell")
_LONGEST_NOTE = 120  # characters
_SIDE = 14.0
_REMOVE = "Remove"


@dataclass(frozen=True, slots=True)
class Chip:
    """`words` stand beside the name, each of `notes` in a line below; `warning`: the notes say that
    something must be done. `tip` has all of what they shorten. `shows`: its text can be shown;
    `removes`: it can be taken away."""

    name: str
    words: str = ""
    notes: tuple[str, ...] = ()
    warning: bool = False
    tip: str = ""
    shows: bool = True
    removes: bool = True


class DocumentChips(QWidget):
    """Some chips below each other; takes no room while there are none.

    Signals: `view_asked(int)`, `remove_asked(int)`: of the chip with this place, from 0.
    """

    view_asked = Signal(int)
    remove_asked = Signal(int)

    def __init__(self, *, removal: str, parent: QWidget | None = None) -> None:
        """`removal` is what removing is called: at a button "Remove", in the menu anything else."""
        super().__init__(parent)
        self._removal = removal
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._remark = StatusLine(wraps=True)
        self._remark.setContentsMargins(8, 0, 4, 0)
        self._remark.hide()
        self._column.addWidget(self._remark)
        self.chips: list[ChipWidget] = []
        self.setAccessibleName("Documents")
        self.hide()

    @property
    def remark(self) -> str:
        """The line below the chips."""
        return self._remark.text

    def say(self, remark: str, standing: Standing = "warning") -> None:
        """Show a line on all of them; empty for none."""
        if remark != self.remark:
            self._remark.say(remark, standing)
            self._remark.setVisible(bool(remark))

    def show_chips(self, chips: Sequence[Chip]) -> None:
        """Show these. A widget stays while its place does, and with it the focus."""
        for widget in self.chips[len(chips) :]:
            self._column.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        del self.chips[len(chips) :]
        for place in range(len(self.chips), len(chips)):
            widget = ChipWidget(removal=self._removal)
            widget.view.clicked.connect(partial(self.view_asked.emit, place))
            widget.removal_asked.connect(partial(self.remove_asked.emit, place))
            self._column.insertWidget(place, widget)
            self.chips.append(widget)
        for widget, chip in zip(self.chips, chips, strict=True):
            widget.show_chip(chip)
        self.setVisible(bool(chips))

    @property
    def buttons(self) -> tuple[HoverButton, ...]:
        """All buttons, from the first chip to the last."""
        return tuple(button for chip in self.chips for button in chip.buttons)


class ChipWidget(QWidget):
    """One chip. Attributes: `view`, the button that shows the text; `buttons`. Signals:
    `removal_asked`."""

    removal_asked = Signal()

    def __init__(self, *, removal: str) -> None:
        super().__init__()
        self._removal = removal
        self._name, self._words, self._notes = _Elided(), QLabel(), QLabel()
        for label in (self._name, self._words, self._notes):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._notes.setWordWrap(True)
        colours = colours_of(self)
        self.view = HoverButton("View", parent=self, font=self.font(), colours=colours)
        self._remove = HoverButton(_REMOVE, parent=self, font=self.font(), colours=colours)
        self._remove.clicked.connect(self.removal_asked)
        self.buttons = (self.view, self._remove) if removal == _REMOVE else (self.view,)
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addSpacing(round(_SIDE) + 4)  # for the sign
        row.addWidget(self._name)
        row.addWidget(self._words)
        row.addStretch(1)
        for button in self.buttons:
            row.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 3, 4, 3)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(self._notes)
        self._notes.setContentsMargins(round(_SIDE) + 10, 0, 4, 3)
        self._chip = Chip("")
        self._recolour()

    def show_chip(self, chip: Chip) -> None:
        """Be the chip of this document, as it is now."""
        self._chip = chip
        name = one_line(chip.name)
        self._name.setText(name)
        self._words.setText(chip.words)
        self._notes.setText("\n".join(chip.notes))
        self._notes.setVisible(bool(chip.notes))
        self.setToolTip(chip.tip or name)
        self.setAccessibleName(", ".join((name, chip.words, *chip.notes)))
        self.view.setVisible(chip.shows)
        self.view.setAccessibleName(f"View what the model gets of {name}")
        self._remove.setVisible(chip.removes and self._removal == _REMOVE)
        self._remove.setAccessibleName(f"Remove {name}")
        self._recolour()

    def menu(self) -> QMenu:
        """What can be done with it."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("View what the model gets", self.view.click).setEnabled(self._chip.shows)
        menu.addAction(self._removal, self.removal_asked.emit).setEnabled(self._chip.removes)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu().popup(event.globalPos())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(colours.card))
            painter.setPen(QColor(colours.edge))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 7, 7)
            middle = self._name.geometry().center().y() + 0.5
            box = QRectF(8, middle - _SIDE / 2, _SIDE, _SIDE)
            sign: Sign = "warning" if self._chip.warning else "document"
            draw_sign(painter, sign, box, colours.warning if self._chip.warning else colours.muted)

    def _recolour(self) -> None:
        colours = colours_of(self)
        small = small_font(self.font(), scale=0.9)
        bold = QFont(small)
        bold.setWeight(QFont.Weight.DemiBold)
        self._name.setFont(bold)
        self._words.setFont(small)
        self._notes.setFont(small)
        set_ink(self._words, colours.muted)
        set_ink(self._notes, colours.warning if self._chip.warning else colours.muted)
        for button in (self.view, self._remove):
            button.set_appearance(self.font(), colours)
        self.update()


class _Elided(QLabel):
    """A name, its middle left out where it is too long, as the end tells the kind of file."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:
        return QSize(60, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideMiddle, self.width()
        )
        with QPainter(self) as painter:
            painter.setPen(self.palette().windowText().color())
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, shown)


def size_in_words(document: Document) -> str:
    """How many pages it has, or sheets, slides, files; empty where nothing is to be counted."""
    kind = document.sections[0].kind if document.sections else "lines"
    if document.format == "folder":
        return _counted(len({section.label for section in document.sections}), "file")
    if kind == "page":
        pages = (*(section.number for section in document.sections), *document.without_text)
        return _counted(max(pages), "page")
    if kind not in _COUNTED:
        return ""
    return _counted(len({(part.number, part.label) for part in document.sections}), kind)


def lacks(document: Document) -> tuple[str, ...]:
    """What a person should know of the text that was read, in a line each, whole."""
    lines = []
    if pages := document.without_text:
        all_pages = size_in_words(document)
        have = "has" if len(pages) == 1 else "have"
        lines.append(f"{len(pages)} of {all_pages} {have} no text: {', '.join(map(str, pages))}.")
    if document.hidden:
        was = "was" if document.hidden == 1 else "were"
        lines.append(f"{_counted(document.hidden, 'hidden character')} {was} left out.")
    if document.faint:
        are = "is" if document.faint == 1 else "are"
        lines.append(
            f"{_counted(document.faint, 'character')} {are} white or tiny: "
            "people overlook them, and the model reads them."
        )
    if document.left_out:
        lines.append(f"Left out: {'; '.join(document.left_out)}.")
    return tuple(map(one_line, lines))


def shortened(line: str) -> str:
    """A line as it stands on a chip."""
    return line if len(line) <= _LONGEST_NOTE else line[: _LONGEST_NOTE - 1].rstrip(" ,;") + "…"


def chip_of_sent(sent: SentDocument) -> Chip:
    """The chip of a document in a message that was sent."""
    if not sent.ranges:
        return Chip(sent.name, "deleted", removes=False)
    return Chip(sent.name, in_passages(sent.passages, sent.among) if sent.passages else "whole")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
