"""The text of a replay: every token as it was written, and rejected tokens struck out in place.

The text is plain, not Markdown, so that each token is visible. Knows a replay and a place in it.
"""

from typing import Any, get_args

from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor, QPalette, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QTextEdit, QWidget

from app.rounds.marks import flat, marked
from app.rounds.trace import Piece, PieceKind, Replay
from app.theme.palette import LIGHT, Palette, line_of, tinted

_UNDERLINES = {
    "solid": QTextCharFormat.UnderlineStyle.SingleUnderline,
    "dash": QTextCharFormat.UnderlineStyle.DashUnderline,
    "dot": QTextCharFormat.UnderlineStyle.DotLine,
    "dash dot": QTextCharFormat.UnderlineStyle.DashDotLine,
}
_LONGEST_PIECE = 300  # characters of one piece; an answer without rounds is a single piece
_LONGEST_LINE = 2_000  # characters; Qt lays out a paragraph as a whole
_AT_ONCE = 300  # pieces; writing them takes a few milliseconds
_APART_MS = 10  # between two batches the window handles its events
_KINDS: tuple[PieceKind, ...] = get_args(PieceKind)


class ReplayText(QTextEdit):
    """Shows the pieces up to a place. Going on adds to the document, going back removes from it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUndoRedoEnabled(False)
        self.document().setDocumentMargin(0)
        self.setAccessibleName("The answer up to this round")
        self._replay = Replay(())
        self._starts = [0]  # the beginning of each piece in the document, and the end of the last
        self._formats: dict[PieceKind, QTextCharFormat] = {}
        self._place = 0
        self._more = QTimer(self, singleShot=True, interval=_APART_MS)
        self._more.timeout.connect(self._go_on)
        self._colours = LIGHT
        self.recolour(LIGHT)

    def show_replay(self, replay: Replay) -> None:
        """Show another answer, at its beginning."""
        self._replay, self._place = replay, 0
        empty = "The beginning: nothing is written yet" if len(replay) else "No answer to replay"
        self.setPlaceholderText(empty)
        self._empty()

    def go_to(self, place: int) -> None:
        """Show the answer after `place` rounds, and mark the last round. A long way takes time."""
        self._place = place
        self._go_on()

    def _go_on(self) -> None:
        pieces = self._replay.pieces_until(self._place)
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        if len(pieces) < len(self._starts) - 1:
            cursor.setPosition(self._starts[len(pieces)])
            cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
            del self._starts[len(pieces) + 1 :]
        cursor.movePosition(QTextCursor.MoveOperation.End)
        first = len(self._starts) - 1
        for index, piece in enumerate(pieces[first : first + _AT_ONCE], start=first):
            if cursor.positionInBlock() > _LONGEST_LINE:
                cursor.insertBlock()
            text = _shown(piece)
            space = len(text) - len(text.lstrip())  # underlined, it would look like a sign
            cursor.insertText(text[:space], QTextCharFormat())
            cursor.insertText(text[space:], self._formats[piece.kind])
            if index in self._replay.lines:
                quiet = QTextCharFormat()
                quiet.setForeground(QColor(self._colours.muted))
                cursor.insertText(flat(self._replay.lines[index]), quiet)
            self._starts.append(cursor.position())
        cursor.endEditBlock()
        if len(self._starts) <= len(pieces):
            self._more.start()
            return
        self._more.stop()
        self._mark_last()
        self.setTextCursor(cursor)
        self.ensureCursorVisible()

    def enlarge(self) -> None:
        """Use a larger font from now on."""
        font = self.font()
        font.setPointSizeF(font.pointSizeF() * 1.25)
        self.setFont(font)

    def recolour(self, colours: Palette) -> None:
        """Use these colours from now on."""
        self._colours = colours
        for kind in _KINDS:
            shape, line = QTextCharFormat(), line_of(kind)
            shape.setForeground(QColor(colours.of(kind)))
            if kind in ("rejected", "discarded"):
                shape.setFontStrikeOut(True)
                shape.setFontPointSize(max(7.0, self.font().pointSizeF() * 0.85))
            elif line in _UNDERLINES:
                shape.setUnderlineStyle(_UNDERLINES[line])
            self._formats[kind] = shape
        palette = QPalette()  # colours that are not set here are the window's
        palette.setColor(QPalette.ColorRole.Base, QColor(colours.paper))
        palette.setColor(QPalette.ColorRole.Text, QColor(colours.text))
        palette.setColor(QPalette.ColorRole.PlaceholderText, QColor(colours.muted))
        self.setPalette(palette)
        self._empty()
        self.go_to(self._place)

    def _empty(self) -> None:
        self.clear()
        self._starts = [0]

    def _mark_last(self) -> None:
        """Tint the background of the last round before the place."""
        self.setExtraSelections([])
        if not self._place:
            return
        first = len(self._replay.pieces_until(self._place - 1))
        selection: Any = QTextEdit.ExtraSelection()  # the annotations lack its fields
        selection.cursor = QTextCursor(self.document())
        selection.cursor.setPosition(self._starts[first])
        selection.cursor.setPosition(self._starts[-1], QTextCursor.MoveMode.KeepAnchor)
        tint = tinted(self._colours.paper, self._colours.text)
        selection.format.setBackground(QColor(tint))
        self.setExtraSelections([selection])


def _shown(piece: Piece) -> str:
    """Return the visible text: rejected tokens on one line with signs, written text unchanged."""
    text = piece.text
    if len(text) > _LONGEST_PIECE:
        text = f"{text[:_LONGEST_PIECE]}… ({len(text):,} characters)"
    return flat(text) if piece.written else marked(text)
