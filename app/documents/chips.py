"""Chips: a document in a line, with the part that the model gets and the parts that were not read.

Knows how a chip looks. What the user asks for is sent as a signal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QFont, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QMenu,
    QScrollArea,
    QWidget,
)

from app.conversations.records import picture_of
from app.documents.picture_view import PictureView
from app.layout import FREE, column_of, menu_on, row_of
from app.theme.hover_button import HoverButton
from app.theme.icons import Sign, draw_sign
from app.theme.labels import ElidedLabel, StatusLine, Tone, plain_label, plain_tip, set_tone
from app.theme.style import colours_of, small_font
from app.theme.widgets import Card
from engine.documents.prompt import SentDocument
from models.in_words import one_line

_LONGEST_NOTE = 120  # characters
_SIDE = 14.0
_REMOVE = "Remove"
_SHORTEST_NAME = 60  # pixels
_NARROW = 2.5  # times the button's width: less has no room for words next to it
_USUAL_NAME = 140  # pixels that a name should have next to the words
_LEAST_WORDS = 230  # pixels of the words on a chip that was sent, whose name shrinks
_AFTER_NAME = 2  # in the row, after the sign and the name
_HIGHEST = 190  # pixels; more chips are scrolled
_SMALL, _LARGE = 44, 132  # pixels of a picture's height: before it is sent, and in a message


@dataclass(frozen=True, slots=True)
class Chip:
    """`words` are next to the name, each of `notes` in a line below. `warning`: the notes ask
    for action. `tip` is the unshortened text. `shows`: its text can be shown; `removes`: it can be
    removed. `picture`: the file of a picture, which is shown small."""

    name: str
    words: str = ""
    notes: tuple[str, ...] = ()
    warning: bool = False
    tip: str = ""
    shows: bool = True
    removes: bool = True
    picture: Path | None = None


class DocumentChips(QWidget):
    """Chips below each other; hidden while empty.

    Signals: `view_asked(int)`, `remove_asked(int)`: of the chip with this index;
    `choice_taken`: the button below them was pressed; `changed`: a chip or a line below changed.
    """

    view_asked = Signal(int)
    remove_asked = Signal(int)
    changed = Signal()

    def __init__(self, *, removal: str, parent: QWidget | None = None) -> None:
        """`removal` is the name of removing. "Remove" is a button; another name is only in the
        menu."""
        super().__init__(parent)
        self._removal = removal
        self._wide = removal == _REMOVE
        self._remark = StatusLine(wraps=True)
        self._remark.setContentsMargins(8, 0, 4, 0)
        self._remark.hide()
        self.choice = OfferLine()
        self.choice.setContentsMargins(30, 0, 4, 2)  # aligned with the words of the remark
        self.choice_taken = self.choice.button.clicked
        self._column = column_of(self._remark, self.choice, on=self, margins=0, gap=4)
        self.chips: list[ChipWidget] = []
        self.setAccessibleName("Documents")
        self.hide()

    @property
    def remark(self) -> str:
        """The line below the chips."""
        return self._remark.text

    def say(self, remark: str, tone: Tone = "warning") -> None:
        """Show a line below the chips; hidden if empty."""
        if remark != self.remark:
            self._remark.say(remark, tone)
            self._remark.setVisible(bool(remark))
            self.changed.emit()

    def offer_choice(self, label: str, words: str) -> None:
        """Show a button, with words: it changes how much the model gets. Hidden without a label."""
        if self.choice.show_offer(label, words):
            self.changed.emit()

    def show_chips(self, chips: Sequence[Chip]) -> None:
        """Show these. A widget keeps its place, and with it the focus."""
        for widget in self.chips[len(chips) :]:
            self._column.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        del self.chips[len(chips) :]
        for place in range(len(self.chips), len(chips)):
            widget = ChipWidget(removal=self._removal)
            widget.view.clicked.connect(partial(self.view_asked.emit, place))
            widget.removal_asked.connect(partial(self.remove_asked.emit, place))
            alignment = Qt.AlignmentFlag(0) if self._wide else Qt.AlignmentFlag.AlignLeft
            self._column.insertWidget(place, widget, 0, alignment)
            widget.show()  # only then does the layout make room for it
            self.chips.append(widget)
        for widget, chip in zip(self.chips, chips, strict=True):
            widget.show_chip(chip)
        before: QWidget = self
        for button in (*self.buttons, self.choice.button):
            QWidget.setTabOrder(before, button)  # otherwise Tab would reach it last of all
            before = button
        self.setVisible(bool(chips))
        self.changed.emit()

    def height_at(self, width: int) -> int:
        """Return the height at this width, at which notes are wrapped."""
        self._column.activate()
        if self._column.hasHeightForWidth():
            return self._column.totalHeightForWidth(width)
        return self._column.totalSizeHint().height()

    @property
    def buttons(self) -> tuple[HoverButton, ...]:
        """All buttons, from the first chip to the last."""
        return tuple(button for chip in self.chips for button in chip.buttons)


class ChipsArea(QScrollArea):
    """Chips that are scrolled beyond a certain height."""

    def __init__(self, chips: DocumentChips) -> None:
        super().__init__()
        self._chips = chips
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidgetResizable(True)
        self.setWidget(chips)
        self.viewport().setAutoFillBackground(False)
        chips.setAutoFillBackground(False)
        chips.installEventFilter(self)
        chips.changed.connect(self._fit)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:  # after another font, for example
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        shown = bool(self._chips.chips)
        if shown:
            self.setFixedHeight(min(self._chips.height_at(self.viewport().width()), _HIGHEST))
        self.setVisible(shown)


class ChipWidget(Card):
    """One chip. Attributes: `view`, the button that shows the text; `buttons`. Signals:
    `removal_asked`."""

    removal_asked = Signal()

    def __init__(self, *, removal: str) -> None:
        super().__init__(radius=7)
        self._removal = removal
        # Shortened in the middle, as the end names the kind of file.
        self._name = ElidedLabel(Qt.TextElideMode.ElideMiddle, least=_SHORTEST_NAME)
        least = _SHORTEST_NAME if removal == _REMOVE else _LEAST_WORDS
        self._words = ElidedLabel(Qt.TextElideMode.ElideRight, least=least, tone="muted")
        self._notes = plain_label(wraps=True)
        self.view = HoverButton("View", self.font(), parent=self)
        self._remove = HoverButton(_REMOVE, self.font(), parent=self)
        self._remove.clicked.connect(self.removal_asked)
        self.buttons = (self.view, self._remove) if removal == _REMOVE else (self.view,)
        for_sign = round(_SIDE) + 4
        self._row = row_of(for_sign, self._name, self._words, FREE, *self.buttons, gap=6)
        self.picture = PictureView(_SMALL if removal == _REMOVE else _LARGE)
        self.picture.clicked.connect(self.view.click)
        self.picture.hide()
        self._below = row_of(margins=(round(_SIDE) + 10, 0, 4, 3))
        self._below.setAlignment(Qt.AlignmentFlag.AlignLeft)
        column = column_of(self._row, self._below, self._notes, gap=0)
        self._whole = row_of(self.picture, (column, 1), on=self, gap=0)
        self._notes.setContentsMargins(round(_SIDE) + 10, 0, 4, 3)
        self._chip = Chip("")
        self._recolour()

    def show_chip(self, chip: Chip) -> None:
        """Show the chip of this document."""
        self._chip = chip
        name = one_line(chip.name)
        self._name.setText(name)
        self._words.setText(chip.words)
        self._notes.setText("\n".join(chip.notes))
        self._notes.setVisible(bool(chip.notes))
        self.setToolTip(plain_tip(chip.tip or name))
        self._place_words()
        self.setAccessibleName(", ".join((name, chip.words, *chip.notes)))
        self.view.setVisible(chip.shows)
        self.view.setAccessibleName(f"View what the model gets of {name}")
        self.picture.show_picture(chip.picture)
        self.picture.setVisible(chip.picture is not None)
        self._whole.setContentsMargins(0 if self._bare else 8, 3, 4, 3)
        self._name.setHidden(self._bare)
        self._words.setHidden(self._bare)
        self._remove.setVisible(chip.removes and self._removal == _REMOVE)
        self._remove.setAccessibleName(f"Remove {name}")
        self._recolour()

    def menu(self) -> QMenu:
        """Return the menu of the chip."""
        menu = menu_on(self)
        menu.addAction("View what the model gets", self.view.click).setEnabled(self._chip.shows)
        menu.addAction(self._removal, self.removal_asked.emit).setEnabled(self._chip.removes)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu().popup(event.globalPos())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_words()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()

    @property
    def _bare(self) -> bool:
        """Whether it is a picture in a message, which needs no name."""
        return self._chip.picture is not None and self._removal != _REMOVE

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._bare:
            super().paintEvent(event)
        if self._chip.picture is not None:
            return
        colours = colours_of(self)
        with QPainter(self) as painter:
            middle = self._name.geometry().center().y() + 0.5
            box = QRectF(8, middle - _SIDE / 2, _SIDE, _SIDE)
            sign: Sign = "warning" if self._chip.warning else "document"
            draw_sign(painter, sign, box, colours.warning if self._chip.warning else colours.muted)

    def _place_words(self) -> None:
        """Put the words below the name if both do not fit."""
        if self._removal != _REMOVE:  # other chips are as wide as they want
            return
        around = sum(button.sizeHint().width() for button in self.buttons) + 70
        room = self.width() - around - self._words.sizeHint().width()
        fits = room >= min(self._name.sizeHint().width(), _USUAL_NAME)
        self._name.setMaximumWidth(room if fits else max(self.width() - around, _SHORTEST_NAME))
        if fits == (self._below.count() > 0):
            left, taken = (self._below, self._row) if fits else (self._row, self._below)
            left.removeWidget(self._words)
            taken.insertWidget(_AFTER_NAME if fits else 0, self._words)

    def _recolour(self) -> None:
        small = small_font(self.font(), scale=0.9)
        bold = QFont(small)
        bold.setWeight(QFont.Weight.DemiBold)
        self._name.setFont(bold)
        self._words.setFont(small)
        self._notes.setFont(small)
        set_tone(self._notes, "warning" if self._chip.warning else "muted")
        for button in (self.view, self._remove):
            button.follow_font(self.font())
        self.update()


class OfferLine(QWidget):
    """A raised button with words next to it, or below it if there is little room. Attribute:
    `button`."""

    def __init__(self) -> None:
        super().__init__()
        self.button = HoverButton("", self.font(), parent=self)
        self.button.setAccessibleName("Nothing is offered")
        self.button.set_raised()
        self._words = plain_label(wraps=True, tone="muted")
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(8)
        self._row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        self._row.addWidget(self._words, 1)
        self.hide()

    @property
    def words(self) -> str:
        """The words next to the button."""
        return self._words.text()

    def show_offer(self, label: str, words: str) -> bool:
        """Show the button with this label and words; hidden without a label. Returns whether that
        changes anything."""
        if (label, words) == (self.button.text(), self.words):
            return False
        self.button.setText(label)
        if label:
            self.button.setAccessibleName(f"{label}, {words}")
        self._words.setText(words)
        self._recolour()
        self.setVisible(bool(label))
        return True

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < _NARROW * self.button.sizeHint().width()
        across = QBoxLayout.Direction.LeftToRight
        self._row.setDirection(QBoxLayout.Direction.TopToBottom if narrow else across)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()

    def _recolour(self) -> None:
        self._words.setFont(small_font(self.font(), scale=0.9))
        self.button.follow_font(self.font())
        self.button.updateGeometry()


def shortened(line: str) -> str:
    """Return a line that is short enough for a chip."""
    return line if len(line) <= _LONGEST_NOTE else line[: _LONGEST_NOTE - 1].rstrip(" ,;") + "…"


def chip_of_sent(sent: SentDocument, pictures: Path) -> Chip:
    """Return the chip of a document in a message that was sent. `pictures`: their folder."""
    picture = picture_of(sent, pictures)
    path = None if picture is None else Path(picture.path)
    lost = ": its copy was deleted" if sent.pixels and picture is None else ""
    words = f"{sent.in_words}{lost}"
    return Chip(sent.name, words, shows=not lost, removes=not sent.deleted, picture=path)
