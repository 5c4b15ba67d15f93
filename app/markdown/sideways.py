"""Wide code scrolls sideways, each block under its own scroll bar.

Qt can only scroll a document as a whole. So the laid out lines of the code are moved each time
before they are painted; the document does not change. Knows a text edit and the places of its code
blocks; not what else it shows.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from PySide6.QtCore import QObject, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QTextBlock, QWheelEvent
from PySide6.QtWidgets import QScrollBar, QTextEdit

from app.markdown.formats import CODE_PADDING, PANEL
from app.markdown.highlight import panel_blocks

_BAR_HEIGHT = 6
_BAR_LOOKS = """
QScrollBar { background: transparent; height: 6px; }
QScrollBar::handle { background: palette(placeholder-text); border-radius: 2px; min-width: 28px;
    margin: 1px 0; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: none; }
"""
_STEP = 40  # pixels


class _Panel:
    """A code block: its label's place in the document, its width as far as it was measured, and its
    scroll bar."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.measured = position  # beginning of the last line that was measured
        self.width = 0.0
        self.bar: QScrollBar | None = None
        self.moved = False  # whether its lines were ever moved

    def forget(self) -> None:
        """Measure it again."""
        self.measured, self.width = self.position, 0.0

    @property
    def offset(self) -> int:
        return self.bar.value() if self.bar is not None else 0


class SidewaysCode(QObject):
    """The code blocks of a view that are wider than the view.

    `panels` returns the beginnings of the code blocks in the document, by their numbers. `below` is
    the height of the background below the last line of code, in pixels.
    """

    def __init__(
        self, view: QTextEdit, panels: Callable[[], Mapping[int, int]], *, below: int
    ) -> None:
        super().__init__(view)
        self._view = view
        self._numbers = panels
        self._below = below
        self._panels: dict[int, _Panel] = {}
        # Wide lines make the document wide, but it must not scroll as a whole.
        bar = view.horizontalScrollBar()
        bar.rangeChanged.connect(lambda *_: bar.setRange(0, 0))
        view.document().contentsChange.connect(self._on_change)

    def place(self) -> None:
        """Measure new lines, and place the scroll bars. Call this after each change."""
        numbers = self._numbers()
        for number in self._panels.keys() - numbers.keys():
            _drop_bar(self._panels.pop(number))
        for number, position in numbers.items():
            panel = self._panels.get(number)
            if panel is None or panel.position != position:
                if panel is not None:
                    _drop_bar(panel)
                panel = self._panels[number] = _Panel(position)
            self._measure(panel)
            self._place_bar(panel)

    def move_lines(self, clip: QRect) -> None:
        """Move the visible lines of scrolled code to where they are to be painted."""
        if not any(panel.moved for panel in self._panels.values()):
            return
        layout = self._view.document().documentLayout()
        block = self._view.cursorForPosition(clip.topLeft()).block()
        while block.isValid() and layout.blockBoundingRect(block).top() <= clip.bottom():
            panel = self._panels.get(block.blockFormat().property(PANEL))
            if panel is not None and panel.moved:
                self._move(panel, block, offset=panel.offset)
            block = block.next()

    def parts(self, clip: QRect) -> Iterator[QRect]:
        """Iterate over parts of `clip`, so that scrolled code is painted only on its own
        background."""
        top = clip.top()
        for panel in self._panels.values():
            area = self._area(panel) if panel.offset else QRect()
            if not area.intersects(clip) or area.left() <= 0:
                continue
            if area.top() > top:
                yield QRect(clip.left(), top, clip.width(), area.top() - top)
            yield area.intersected(clip)
            top = max(top, area.bottom() + 1)
        if top <= clip.bottom():
            yield QRect(clip.left(), top, clip.width(), clip.bottom() + 1 - top)

    def wheel(self, event: QWheelEvent) -> bool:
        """Scroll the code under the pointer if the wheel turns sideways. Returns whether it did."""
        delta = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta()
        across, down = delta.x(), delta.y()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and not across:
            across, down = down, 0
        if abs(across) <= abs(down):
            return False
        for panel in self._panels.values():
            if panel.bar is not None and self._area(panel).contains(event.position().toPoint()):
                panel.bar.setValue(panel.bar.value() - across)
                return True
        return False

    def show_cursor(self) -> None:
        """Scroll the code at the cursor so that the cursor is visible. Call this after a person
        moved it."""
        cursor = self._view.textCursor()
        block = cursor.block()
        panel = self._panels.get(block.blockFormat().property(PANEL))
        if panel is None or panel.bar is None or block.position() == panel.position:
            return
        line = block.layout().lineForTextPosition(cursor.positionInBlock())
        if not line.isValid():
            return
        self._move(panel, block, offset=0)  # Qt knows no place left of the view
        x: Any = line.cursorToX(cursor.positionInBlock())  # a pair, although the annotation differs
        place = round(block.layout().position().x() + x[0]) - panel.offset
        self._move(panel, block, offset=panel.offset)
        area = self._area(panel)
        before = area.left() + CODE_PADDING - place
        behind = place - area.right() + CODE_PADDING
        if before > 0:
            panel.bar.setValue(panel.bar.value() - before)
        elif behind > 0:
            panel.bar.setValue(panel.bar.value() + behind)

    def _measure(self, panel: _Panel) -> None:
        """Measure the width of its new lines, and of the last line measured before."""
        for block in self._blocks(panel):
            layout = block.layout()
            for number in range(layout.lineCount()):
                panel.width = max(panel.width, layout.lineAt(number).naturalTextWidth())
            panel.measured = block.position()

    def _place_bar(self, panel: _Panel) -> None:
        area = self._area(panel)
        spare = round(panel.width) - (area.width() - 2 * CODE_PADDING)
        if spare <= 0:
            if panel.bar is not None:
                _drop_bar(panel)
                self._scrolled(panel)
            return
        if panel.bar is None:
            panel.bar = self._make_bar(panel)
        panel.bar.setRange(0, spare)
        panel.bar.setPageStep(area.width() - 2 * CODE_PADDING)
        panel.bar.setGeometry(
            area.left() + CODE_PADDING,
            area.bottom() - _BAR_HEIGHT,
            area.width() - 2 * CODE_PADDING,
            _BAR_HEIGHT,
        )

    def _make_bar(self, panel: _Panel) -> QScrollBar:
        bar = QScrollBar(Qt.Orientation.Horizontal, self._view.viewport())
        bar.setAccessibleName("Scroll this code sideways")
        bar.setStyleSheet(_BAR_LOOKS)
        bar.setSingleStep(_STEP)
        bar.setCursor(Qt.CursorShape.ArrowCursor)
        bar.valueChanged.connect(lambda: self._scrolled(panel))
        bar.show()
        return bar

    def _scrolled(self, panel: _Panel) -> None:
        panel.moved = True
        self._view.viewport().update(self._area(panel))

    def _move(self, panel: _Panel, block: QTextBlock, *, offset: int) -> None:
        label = self._view.document().findBlock(panel.position)
        if block.position() == label.position() or not label.layout().lineCount():
            return
        left = label.layout().lineAt(0).x() - offset
        layout = block.layout()
        for number in range(layout.lineCount()):
            line = layout.lineAt(number)
            if line.x() != left:
                line.setPosition(QPointF(left, line.y()))

    def _on_change(self, position: int, removed: int, added: int) -> None:
        if removed == added:  # mainly colours
            return
        for panel in self._panels.values():
            if position < panel.measured:
                panel.forget()

    def _blocks(self, panel: _Panel) -> Iterator[QTextBlock]:
        """Iterate over its lines from the last measured line on."""
        document = self._view.document()
        if panel.measured != panel.position:
            yield document.findBlock(panel.measured)
        yield from panel_blocks(document, panel.measured)

    def _area(self, panel: _Panel) -> QRect:
        """Return its background in the viewport."""
        document = self._view.document()
        layout = document.documentLayout()
        label = document.findBlock(panel.position)
        top = layout.blockBoundingRect(label).top() - self._below
        last = document.findBlock(panel.measured)
        bottom = layout.blockBoundingRect(last).bottom() + self._below
        left = label.blockFormat().leftMargin() - CODE_PADDING
        width = self._view.viewport().width() - left
        return QRectF(left, top, width, bottom - top).toAlignedRect()


def _drop_bar(panel: _Panel) -> None:
    if panel.bar is not None:
        panel.bar.hide()
        panel.bar.deleteLater()
        panel.bar = None
