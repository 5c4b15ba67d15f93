"""Wide code and wide tables scroll sideways, each above its own scroll bar.

Qt can only scroll a document as a whole. So the laid out lines of the code are moved each time
before they are painted; the document does not change. A table is moved by its left margin. Knows a
text edit and the places of its code blocks and tables; not what else it shows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QObject, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QTextBlock, QTextTable, QWheelEvent
from PySide6.QtWidgets import QScrollBar, QTextEdit

from app.markdown.formats import CODE_PADDING, PANEL
from app.markdown.highlight import panel_blocks
from app.markdown.tables import slide, usual_left, wide_width

_BAR_HEIGHT = 6
_BAR_LOOKS = """
QScrollBar { background: transparent; height: 6px; }
QScrollBar::handle { background: palette(shadow); border-radius: 2px; min-width: 28px;
    margin: 1px 0; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: none; }
"""


class _Wide:
    """What may be wider than the view, with its scroll bar."""

    name = ""

    def __init__(self) -> None:
        self.bar: QScrollBar | None = None

    @property
    def offset(self) -> int:
        return self.bar.value() if self.bar is not None else 0


class _Panel(_Wide):
    """A code block: its label's place in the document, and its width as far as it was measured."""

    name = "code"

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position
        self.measured = position  # beginning of the last line that was measured
        self.width = 0.0
        self.moved = False  # whether its lines were ever moved

    def forget(self) -> None:
        """Measure it again."""
        self.measured, self.width = self.position, 0.0


class _Table(_Wide):
    """A table: the numbers of all its parts, if it was cut."""

    name = "table"

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []


class _Bar(QScrollBar):
    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the view has it: the page scrolls, or the code if it turns sideways


class Sideways(QObject):
    """The code blocks and tables of a view that are wider than the view.

    `panels` returns the beginnings of the code blocks in the document, by their numbers, and
    `tables` the tables. `below` is the height of the background below the last line of code, in
    pixels.
    """

    def __init__(
        self,
        view: QTextEdit,
        panels: Callable[[], Mapping[int, int]],
        tables: Callable[[], Sequence[QTextTable]],
        *,
        below: int,
    ) -> None:
        super().__init__(view)
        self._view, self._below = view, below
        self._numbers, self._all_tables = panels, tables
        self._panels: dict[int, _Panel] = {}
        self._tables: dict[int, _Table] = {}  # by the number of the first part
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
            area = self._area(panel)
            inner = area.adjusted(CODE_PADDING, 0, -CODE_PADDING, 0)
            self._place_bar(panel, inner, width=panel.width)
        self._place_tables()

    def _place_tables(self) -> None:
        found: dict[int, list[int]] = {}
        widths: dict[int, float] = {}
        number = 0
        for table in self._all_tables():
            if table.format().headerRowCount():  # otherwise it goes on with the one before
                number = table.objectIndex()
            if width := wide_width(table):
                found.setdefault(number, []).append(table.objectIndex())
                widths[number] = width
        for number in self._tables.keys() - found.keys():
            _drop_bar(self._tables.pop(number))
        for number, numbers in found.items():
            wide = self._tables.setdefault(number, _Table())
            wide.numbers = numbers
            self._place_bar(wide, self._area(wide), width=widths[number])
            self._scrolled(wide)

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
        areas = [self._area(wide) for wide in self._all() if wide.offset]
        for area in sorted(areas, key=QRect.top):
            if not area.intersects(clip) or area.left() <= 0:
                continue
            if area.top() > top:
                yield QRect(clip.left(), top, clip.width(), area.top() - top)
            yield area.intersected(clip)
            top = max(top, area.bottom() + 1)
        if top <= clip.bottom():
            yield QRect(clip.left(), top, clip.width(), clip.bottom() + 1 - top)

    def wheel(self, event: QWheelEvent) -> bool:
        """Scroll the part under the pointer if the wheel turns sideways. Returns whether it did."""
        delta = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta()
        across, down = delta.x(), delta.y()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and not across:
            across, down = down, 0
        if abs(across) <= abs(down):
            return False
        for wide in self._all():
            if wide.bar is not None and self._area(wide).contains(event.position().toPoint()):
                wide.bar.setValue(wide.bar.value() - across)
                return True
        return False

    def show_cursor(self) -> None:
        """Scroll the code or table at the cursor so that the cursor is visible. Call this after the
        user moved it."""
        cursor = self._view.textCursor()
        block = cursor.block()
        table = cursor.currentTable()
        for wide in self._tables.values():
            if table is not None and table.objectIndex() in wide.numbers:
                place = self._view.cursorRect(cursor).left()
                self._bring_into_sight(wide, place, self._area(wide))
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
        self._bring_into_sight(panel, place, self._area(panel))

    def _bring_into_sight(self, wide: _Wide, place: int, area: QRect) -> None:
        before = area.left() + CODE_PADDING - place
        following = place - area.right() + CODE_PADDING
        if wide.bar is not None and max(before, following) > 0:
            wide.bar.setValue(wide.bar.value() + (following if following > 0 else -before))

    def _measure(self, panel: _Panel) -> None:
        """Measure the width of its new lines, and of the last line measured before."""
        for block in self._blocks(panel):
            layout = block.layout()
            for number in range(layout.lineCount()):
                panel.width = max(panel.width, layout.lineAt(number).naturalTextWidth())
            panel.measured = block.position()

    def _place_bar(self, wide: _Panel | _Table, area: QRect, *, width: float) -> None:
        """Show a bar at the bottom of `area` if its contents are too wide."""
        spare = round(width) - area.width()
        if spare <= 0:
            if wide.bar is not None:
                _drop_bar(wide)
                self._scrolled(wide)
            return
        if wide.bar is None:
            wide.bar = self._make_bar(wide)
        wide.bar.setRange(0, spare)
        wide.bar.setPageStep(area.width())
        wide.bar.setGeometry(area.left(), area.bottom() - _BAR_HEIGHT, area.width(), _BAR_HEIGHT)

    def _make_bar(self, wide: _Panel | _Table) -> QScrollBar:
        bar = _Bar(Qt.Orientation.Horizontal, self._view.viewport())
        bar.setAccessibleName(f"Scroll this {wide.name} sideways")
        bar.setStyleSheet(_BAR_LOOKS)
        bar.setCursor(Qt.CursorShape.ArrowCursor)
        bar.valueChanged.connect(lambda: self._scrolled(wide))
        bar.show()
        return bar

    def _scrolled(self, wide: _Panel | _Table) -> None:
        if isinstance(wide, _Panel):
            wide.moved = True
            self._view.viewport().update(self._area(wide))
        else:
            for part in self._parts(wide):
                slide(part, wide.offset)

    def _parts(self, table: _Table) -> list[QTextTable]:
        """Return the parts of a table that are in the document still."""
        found = map(self._view.document().object, table.numbers)
        return [part for part in found if isinstance(part, QTextTable)]

    def _all(self) -> Iterator[_Panel | _Table]:
        yield from self._panels.values()
        yield from self._tables.values()

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

    def _area(self, wide: _Panel | _Table) -> QRect:
        """Return its place in the viewport."""
        return self._panel_area(wide) if isinstance(wide, _Panel) else self._table_area(wide)

    def _table_area(self, table: _Table) -> QRect:
        """Return its place in the viewport, with the room below it."""
        parts = self._parts(table)
        if not parts:
            return QRect()
        document, first = self._view.document(), parts[0]
        rect = document.documentLayout().blockBoundingRect
        following = document.findBlock(parts[-1].lastPosition() + 1)
        left = round(usual_left(first))
        top = round(rect(first.firstCursorPosition().block()).top() - first.format().cellPadding())
        bottom = round(rect(following).top())
        return QRect(left, top - 1, self._view.viewport().width() - left, bottom - top)

    def _panel_area(self, panel: _Panel) -> QRect:
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


def _drop_bar(wide: _Wide) -> None:
    if wide.bar is not None:
        wide.bar.hide()
        wide.bar.deleteLater()
        wide.bar = None
