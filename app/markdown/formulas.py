"""Formulas in a Qt document: laid out by another process, and drawn as objects of the text.

A formula without outlines, because it is malformed or not laid out yet, is drawn as its source.
Knows outlines (from `app.markdown.formula_layout`), painters and formats; no Markdown.
"""

import json
import math
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape

from PySide6.QtCore import (
    QBuffer,
    QIODevice,
    QObject,
    QPointF,
    QRect,
    QRectF,
    QSizeF,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QFontMetricsF,
    QImage,
    QPaintDevice,
    QPainter,
    QPainterPath,
    QPen,
    QPyTextObject,
    QTextCharFormat,
    QTextDocument,
    QTextFormat,
)

from app.engine_client.child_process import ChildProcess
from app.markdown.rules import latex_of
from app.steps import timer
from app.theme.icons import read_path

FORMULA_OBJECT = int(QTextFormat.ObjectTypes.UserObject) + 1
FORMULA = int(QTextFormat.Property.UserProperty) + 20  # of characters: the source of the formula
_EM = FORMULA + 1  # of characters: the size of the text around, in pixels

_COMMAND = (sys.executable, "-m", "app.markdown.formula_layout")
_LONGEST_LINE_BYTES = 1 << 22
_MOST_KEPT = 2_000
_ALL_SECONDS = 30.0  # for the formulas of an exported conversation
_TOGETHER_MS = 30  # formulas laid out within this time are shown together
_WRAPPED = int(Qt.TextFlag.TextWrapAnywhere | Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft)
_X_HEIGHT = 0.5  # of the formulas' font
_SMALLEST = 0.4  # of a formula that is wider than the text


@dataclass(slots=True)
class FormulaOutline:
    """A formula that is laid out: its extent above and below the baseline, and its paths, in units
    of the font's size."""

    width: float
    ascent: float
    descent: float
    shapes: list[tuple[str, float, str]]
    _paths: list[tuple[QPainterPath, float, str]] | None = None

    def draw(self, painter: QPainter, origin: QPointF, *, em: float, colour: QColor) -> None:
        """Draw it with the start of its baseline at `origin`."""
        if self._paths is None:  # made only when seen, as it takes about a millisecond
            self._paths = [(read_path(path), stroke, own) for path, stroke, own in self.shapes]
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(origin)
        painter.scale(em / 100, em / 100)
        for path, stroke, own in self._paths:
            drawn_in = QColor(own) if own and QColor.isValidColorName(own) else colour
            if stroke:
                painter.strokePath(path, QPen(drawn_in, stroke))
            else:
                painter.fillPath(path, drawn_in)
        painter.restore()

    def svg(self, written: str) -> str:
        """Return it for a web page, in the size and colour of the text around it."""
        paths = ""
        for path, stroke, own in self.shapes:
            ink = escape(own or "currentColor")
            line = f'fill="none" stroke="{ink}" stroke-width="{stroke}"'
            paths += f'<path d="{path}" {line if stroke else f'fill="{ink}"'}/>'
        height, ex = self.ascent + self.descent, 1 / _X_HEIGHT
        place = f"width:{self.width * ex:.2f}ex;height:{height * ex:.2f}ex;max-width:100%"
        return (
            f'<svg role="img" aria-label="{escape(written)}" '
            f'viewBox="0 {-100 * self.ascent:.1f} {100 * self.width:.1f} {100 * height:.1f}" '
            f'style="{place};vertical-align:{-self.descent * ex:.2f}ex">{paths}</svg>'
        )

    def picture(self, written: str) -> str:
        """Return it as a picture in HTML, for programs that draw no outlines."""
        em, fine = 16, 3
        width, height = math.ceil(self.width * em), math.ceil((self.ascent + self.descent) * em)
        image = QImage(width * fine, height * fine, QImage.Format.Format_ARGB32)
        image.fill(Qt.GlobalColor.transparent)
        with QPainter(image) as painter:
            start = QPointF(0, self.ascent * em * fine)
            self.draw(painter, start, em=em * fine, colour=QColor(Qt.GlobalColor.black))
        data = QBuffer()
        data.open(QIODevice.OpenModeFlag.WriteOnly)
        image.save(data, "PNG")  # type: ignore[call-overload]
        source = f"data:image/png;base64,{data.data().toBase64().toStdString()}"
        return f'<img alt="{escape(written)}" width="{width}" height="{height}" src="{source}" />'


Find = Callable[[str], FormulaOutline | None]
"""Returns the outline of a formula, by its source; None if it is malformed, or not known yet."""


def lay_out_all(formulas: Iterable[str]) -> dict[str, FormulaOutline | None]:
    """Lay out these formulas in a process of its own, and wait for it. In any thread."""
    asked, said = b"".join(map(_question, dict.fromkeys(formulas))), b""
    if not asked:
        return {}
    with suppress(OSError, subprocess.TimeoutExpired):  # then they are shown as they were written
        done = subprocess.run(_COMMAND, input=asked, capture_output=True, timeout=_ALL_SECONDS)
        said = done.stdout
    return dict(map(_answer, said.splitlines()))


def _question(written: str) -> bytes:
    latex, display = latex_of(written)
    return json.dumps({"written": written, "latex": latex, "display": display}).encode() + b"\n"


def _answer(line: bytes) -> tuple[str, FormulaOutline | None]:
    """Return a formula and its outline, from what the process says."""
    answer = json.loads(line)
    if answer["shapes"] is None:
        return answer["written"], None
    width, ascent, descent = (answer[key] / 100 for key in ("width", "ascent", "descent"))
    shapes = [(path, stroke, colour) for path, stroke, colour in answer["shapes"]]
    return answer["written"], FormulaOutline(width, ascent, descent, shapes)


class FormulaLayouts(QObject):
    """Lays out each formula once, in a process that starts with the first.

    Signals:
        laid_out(frozenset): the outlines of these formulas, given by their sources, are known now.
    """

    laid_out = Signal(object)

    def __init__(
        self,
        parent: QObject | None = None,
        *,
        command: Sequence[str] = _COMMAND,
        patience_seconds: float = 8.0,
        idle_seconds: float = 60.0,
    ) -> None:
        """`patience_seconds` is the time for one formula, with the start of the process. After
        `idle_seconds` without a formula the process is ended, as it takes memory."""
        super().__init__(parent)
        self._known: OrderedDict[str, FormulaOutline | None] = OrderedDict()
        self._asked: dict[str, None] = {}  # in the order of the requests
        self._new: set[str] = set()
        self._child = ChildProcess(command, limit=_LONGEST_LINE_BYTES, parent=self)
        self._child.said.connect(self._on_line)
        self._child.ended.connect(self._on_ended)
        self._closed = False
        self._patience = timer(self, round(1000 * patience_seconds), self._give_up)
        self._idle = timer(self, round(1000 * idle_seconds), self._stop)
        self._together = timer(self, _TOGETHER_MS, self._report)

    def find(self, written: str) -> FormulaOutline | None:
        """Return the outline of a formula; None if it is malformed, or not laid out yet: then it is
        requested."""
        if written in self._known:
            self._known.move_to_end(written)
            return self._known[written]
        if written not in self._asked and not self._closed:
            self._asked[written] = None
            self._ask(written)
        return None

    @property
    def pid(self) -> int:
        """The id of the process; 0 if none runs."""
        return self._child.pid

    @property
    def waiting(self) -> bool:
        """Whether a formula is being laid out."""
        return bool(self._asked or self._new)

    def close(self) -> None:
        """End the process. Nothing more is laid out."""
        self._closed = True
        self._asked.clear()
        self._new.clear()
        self._stop()

    def _ask(self, written: str) -> None:
        self._child.start()
        self._child.write(_question(written))
        self._idle.stop()
        if not self._patience.isActive():
            self._patience.start()

    def _on_line(self, line: bytes) -> None:
        self._keep(*_answer(line))
        self._patience.start()
        if not self._asked:
            self._patience.stop()
            self._idle.start()

    def _keep(self, written: str, outline: FormulaOutline | None) -> None:
        self._asked.pop(written, None)
        self._known[written] = outline
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        self._new.add(written)
        if not self._together.isActive():
            self._together.start()

    def _report(self) -> None:
        new, self._new = frozenset(self._new), set()
        self.laid_out.emit(new)

    def _give_up(self) -> None:
        """Treat a formula that takes too long as malformed, and request the others again."""
        self._child.fail()

    def _on_ended(self, reason: str, status: int | None) -> None:
        self._patience.stop()
        if self._asked:
            self._keep(next(iter(self._asked)), None)
            for written in self._asked:
                self._ask(written)

    def _stop(self) -> None:
        for waits in (self._patience, self._idle, self._together):
            waits.stop()
        self._child.close(kill=True)


class FormulaObjects(QPyTextObject):
    """Draws the formulas of a document."""

    def __init__(self, find: Find, document: QTextDocument) -> None:
        super().__init__(document)
        self._find = find
        document.documentLayout().registerHandler(FORMULA_OBJECT, self)

    def intrinsicSize(self, document: QTextDocument, place: int, format: QTextFormat) -> QSizeF:
        characters = format.toCharFormat()
        written = str(characters.property(FORMULA))
        room = _room(document, place)
        outline = self._find(written)
        if outline is None:
            metrics = QFontMetricsF(characters.font())
            box = metrics.boundingRect(QRectF(0, 0, room, 1e6), _WRAPPED, written)
            return QSizeF(math.ceil(box.width()) + 1, math.ceil(box.height()))
        em = _em(characters, outline, room)
        below = _below(characters)
        height = max(math.ceil(outline.ascent * em) + below, math.ceil(outline.descent * em))
        return QSizeF(outline.width * em + 0.1 * em, height)

    def drawObject(
        self,
        painter: QPainter,
        rect: QRectF | QRect,
        document: QTextDocument,
        place: int,
        format: QTextFormat,
    ) -> None:
        characters = format.toCharFormat()
        written = str(characters.property(FORMULA))
        outline = self._find(written)
        if outline is None:
            painter.setPen(characters.foreground().color())
            painter.setFont(characters.font())
            painter.drawText(QRectF(rect), _WRAPPED, written)
            return
        em = _em(characters, outline, _room(document, place))
        box = QRectF(rect)
        origin = QPointF(box.left() + 0.05 * em, box.bottom() - _below(characters))
        outline.draw(painter, origin, em=em, colour=characters.foreground().color())


def formula_format(
    characters: QTextCharFormat, written: str, *, em: float, find: Find
) -> QTextCharFormat:
    """Return the format of the object's character. `characters` is the format of its source.

    Qt places an object as far below the baseline as its font descends, so the format has a font
    with the right descent.
    """
    made = QTextCharFormat(characters)
    made.setObjectType(FORMULA_OBJECT)
    made.setProperty(FORMULA, written)
    made.setProperty(_EM, em)
    made.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
    return laid_out_format(made, find)


def laid_out_format(characters: QTextCharFormat, find: Find) -> QTextCharFormat:
    """Return the format of a formula's character again, as its outline may be known now."""
    outline = find(str(characters.property(FORMULA)))
    if outline is None:
        return characters
    made = QTextCharFormat(characters)
    made.clearBackground()  # which its source has
    below = math.ceil(outline.descent * float(characters.property(_EM)))
    if below <= 0:
        made.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignNormal)
    else:
        font = characters.font()
        font.setPixelSize(_size_that_descends(font, below))
        made.setFont(font)
    return made


def formula_size(font: QFont, *device: QPaintDevice) -> float:
    """Return the pixel size at which a formula's letters are as high as `font`'s on a device; on
    the screen without one."""
    return QFontMetricsF(font, *device).xHeight() / _X_HEIGHT


def _size_that_descends(font: QFont, below: int) -> int:
    """Return the pixel size at which a font descends `below` pixels under the baseline."""
    probe = QFont(font)
    probe.setPixelSize(100)
    size = max(1, round(100 * below / max(1, QFontMetrics(probe).descent())))
    probe.setPixelSize(size)
    while QFontMetrics(probe).descent() < below:
        size += 1
        probe.setPixelSize(size)
    while size > 1 and QFontMetrics(probe).descent() > below:
        size -= 1
        probe.setPixelSize(size)
    return size


def _below(characters: QTextCharFormat) -> int:
    """Return how far Qt places the object below the baseline."""
    if characters.verticalAlignment() != QTextCharFormat.VerticalAlignment.AlignBaseline:
        return 0
    return QFontMetrics(characters.font()).descent()


def _em(characters: QTextCharFormat, outline: FormulaOutline, room: float) -> float:
    em = float(characters.property(_EM))
    return em * max(_SMALLEST, min(1.0, room / (outline.width * em + 0.1 * em)))


def _room(document: QTextDocument, place: int) -> float:
    """Return the width of a line at this place of the document."""
    block = document.findBlock(place).blockFormat()
    beside = document.rootFrame().frameFormat().rightMargin()
    return max(40.0, document.textWidth() - beside - block.leftMargin() - block.rightMargin() - 1)
