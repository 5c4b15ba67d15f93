"""The text field of the composer: plain text in a field that grows with it.

Knows keys, pasting and its own height. A line that is too long to be laid out at every key is
kept in several blocks; `text` and the clipboard have it whole.
"""

import math
import re
import sys
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QImage,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QPalette,
    QResizeEvent,
    QTextBlockFormat,
    QTextCursor,
    QTextFormat,
)
from PySide6.QtWidgets import QFrame, QMenu, QPlainTextEdit, QSizePolicy, QWidget

from app.chat.scroll_keys import scroll_of

MOST_CHARACTERS = 1_000_000  # of a message: more than any context holds
_MOST_LINES, _MOST_OF_AN_ANSWER = 8, 20  # lines to be seen at once
_LONGEST_LINE = 4_000  # characters that are laid out in one piece
_JOINED = int(QTextFormat.Property.UserProperty) + 20  # of a block that continues the line before
_VERSION_OF = int(QTextFormat.Property.UserProperty) + 21  # of the document's root
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029\ufdd0\ufdd1]")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f]")  # no keyboard makes them, and no font shows them
_DELETING = (Qt.Key.Key_Backspace, Qt.Key.Key_Delete)
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
CTRL_ENTER = "⌘Enter" if sys.platform == "darwin" else "Ctrl+Enter"  # Qt's Ctrl is a Mac's Cmd


class PromptEdit(QPlainTextEdit):
    """Several lines of plain text.

    Signals:
        submitted: Enter was pressed; with Shift or Alt, Enter starts a line. If `enter_sends` is
            off, only `CTRL_ENTER` submits.
        refused(str): something could not be pasted, and why.
        files_given(list[Path]): files and folders were pasted, or dropped here.
        picture_given(QImage): a picture was pasted, or dropped here.
        files_held(bool): files and folders are dragged over the field, or no longer.
    """

    submitted = Signal()
    refused = Signal(str)
    files_given = Signal(list)
    picture_given = Signal(QImage)
    files_held = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._placeholder, self._composes = "", False
        self.enter_sends = True
        self._joins = False  # whether some block may continue the line before
        self._most_lines = _MOST_LINES
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(2)
        self.viewport().setBackgroundRole(QPalette.ColorRole.NoRole)
        self.viewport().setAutoFillBackground(False)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def set_for_answer(self, on: bool) -> None:
        """Have room for an answer that is being edited, or for a message only."""
        self._most_lines = _MOST_OF_AN_ANSWER if on else _MOST_LINES
        self._fit()

    def text(self) -> str:
        """The text as it was written, with long lines whole."""
        if not self._joins:
            return _whole(self.document().toRawText())
        return self._between(0, self.document().characterCount() - 1)

    @property
    def version_of(self) -> int:
        """The message that gets this text as another version, 0 for none. The document has it, so
        that it is undone with the text."""
        return int(self.document().rootFrame().frameFormat().property(_VERSION_OF) or 0)

    def set_text(self, text: str, version_of: int = 0) -> None:
        """Show another text, with the cursor at its end. Nothing before it can be undone."""
        self.setUndoRedoEnabled(False)
        self.clear()
        self._joins = False
        self.replace_text(text, version_of)
        self.setUndoRedoEnabled(True)

    def replace_text(self, text: str, version_of: int = 0) -> None:
        """Show another text in this one's place, which can be undone."""
        changes, root = self.textCursor(), self.document().rootFrame()
        form = root.frameFormat()
        form.setProperty(_VERSION_OF, version_of)
        changes.beginEditBlock()
        self.selectAll()
        self._insert(_tidy(text))
        root.setFrameFormat(form)
        changes.endEditBlock()
        self.moveCursor(QTextCursor.MoveOperation.End)

    # Everything that removes a selection goes through `_insert`.

    def cut(self) -> None:
        """Move the selection to the clipboard."""
        if self.textCursor().hasSelection():
            self.copy()
            self._insert("")

    def make_menu(self) -> QMenu:
        """Return the menu of commands at the cursor."""
        menu = self.createStandardContextMenu()
        for action in menu.actions():
            act = {"edit-cut": self.cut, "edit-delete": lambda: self._insert("")}
            if action.objectName() in act:
                action.triggered.disconnect()
                action.triggered.connect(act[action.objectName()])
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.make_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        if event.preeditString() or event.commitString():
            self._take_selection()
        super().inputMethodEvent(event)
        self._composes = bool(event.preeditString())
        self.setPlaceholderText(self._placeholder)

    def setPlaceholderText(self, text: str) -> None:
        """Show `text` while the field is empty. Qt would draw it over words that are composed."""
        self._placeholder = text
        super().setPlaceholderText("" if self._composes else text)

    def event(self, event: QEvent) -> bool:
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.matches(QKeySequence.StandardKey.Undo)
            and not self.document().isUndoAvailable()
        ):
            event.ignore()  # the window may have something to undo
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Cut):
            self.cut()
            return
        if event.key() in _DELETING and self.textCursor().hasSelection():
            self._insert("")
            return
        if self._leaves(event):
            event.ignore()
            return
        if event.key() not in _ENTER:
            if types(event):
                self._take_selection()
            super().keyPressEvent(event)
            return
        keys, modifiers = Qt.KeyboardModifier, event.modifiers()
        sends = self.enter_sends or bool(modifiers & keys.ControlModifier)
        if modifiers & (keys.ShiftModifier | keys.AltModifier) or not sends:
            # Qt's own line break would stay in the block and inherit its "joined" mark.
            self.textCursor().insertBlock(QTextBlockFormat())
            self.ensureCursorVisible()
        else:
            self.submitted.emit()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() or bool(files_in(source)) or _is_of_picture(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        if files := files_in(source):
            self.files_given.emit(files)
            return
        if _is_of_picture(source):
            self.picture_given.emit(source.imageData())
            return
        text = _tidy(source.text())
        selected = len(self.textCursor().selectedText())
        present = self.document().characterCount() - 1 - selected
        if len(text) + present > MOST_CHARACTERS:
            written = f", with {present:,} written already" if present else ""
            self.refused.emit(
                f"Not pasted: {len(text):,} characters{written}. "
                f"A message may have {MOST_CHARACTERS:,}; paste a part."
            )
            return
        self._insert(text)
        self.ensureCursorVisible()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        super().dragEnterEvent(event)
        self.files_held.emit(bool(files_in(event.mimeData())))

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self.files_held.emit(False)

    def dropEvent(self, event: QDropEvent) -> None:
        self.files_held.emit(False)
        super().dropEvent(event)
        if files_in(event.mimeData()) or _is_of_picture(event.mimeData()):
            event.setDropAction(Qt.DropAction.CopyAction)  # a move would delete the dropped files

    def createMimeDataFromSelection(self) -> QMimeData:
        cursor = self.textCursor()
        data = QMimeData()
        data.setText(self._between(cursor.selectionStart(), cursor.selectionEnd()))
        return data

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self._height(self._lines()))

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._height(1))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.viewport().setFont(self.font())  # used by the placeholder
            self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _leaves(self, event: QKeyEvent) -> bool:
        """Return whether a key that scrolls has no use here: the conversation scrolls then."""
        scroll = scroll_of(event)
        if scroll in ("page up", "page down"):
            return self._lines() <= self._most_lines
        return scroll is not None and self.document().isEmpty()

    def _take_selection(self) -> None:
        """Remove the selection before Qt does, if it matters how."""
        if self._joins and self.textCursor().hasSelection():
            self._insert("")

    def _insert(self, text: str) -> None:
        """Replace the selection with this text."""
        cursor = self.textCursor()
        cursor.beginEditBlock()
        if cursor.hasSelection():
            # Otherwise Qt would keep the format of the selection's last block.
            first = self.document().findBlock(cursor.selectionStart()).blockFormat()
            cursor.removeSelectedText()
            cursor.setBlockFormat(first)
        plain, joined = QTextBlockFormat(), QTextBlockFormat()
        joined.setProperty(_JOINED, True)
        if max(map(len, text.split("\n"))) <= _LONGEST_LINE and not self._joins:
            cursor.insertText(text)
        else:
            self._joins = True
            for number, line in enumerate(text.split("\n")):
                if number:
                    cursor.insertBlock(plain)
                cursor.insertText(line[:_LONGEST_LINE])
                for begin in range(_LONGEST_LINE, len(line), _LONGEST_LINE):
                    cursor.insertBlock(joined)
                    cursor.insertText(line[begin : begin + _LONGEST_LINE])
        cursor.endEditBlock()
        self.setTextCursor(cursor)

    def _between(self, start: int, end: int) -> str:
        """Return the text as written between two places in the document."""
        parts: list[str] = []
        block = self.document().findBlock(start)
        while block.isValid() and block.position() <= end:
            if block.position() > start and not block.blockFormat().property(_JOINED):
                parts.append("\n")
            # Qt counts places in UTF-16.
            units = block.text().encode("utf-16-le", "surrogatepass")
            first, last = max(0, start - block.position()), end - block.position()
            parts.append(units[2 * first : 2 * last].decode("utf-16-le", "surrogatepass"))
            block = block.next()
        return _whole("".join(parts))

    def _lines(self) -> int:
        """Return the number of lines, up to the most that are shown. The document's own count is an
        estimate before it is laid out."""
        layout, lines = self.document().documentLayout(), 0
        block = self.document().firstBlock()
        while block.isValid() and lines <= self._most_lines:
            layout.blockBoundingRect(block)  # lays it out
            lines += block.lineCount()
            block = block.next()
        return max(1, lines)

    def _height(self, lines: int) -> int:
        first = self.document().firstBlock()
        # From the layout, which rounds differently from the font.
        line = first.layout().lineAt(0)
        pitch = line.height() if line.isValid() else self.fontMetrics().lineSpacing()
        return math.ceil(
            min(lines, self._most_lines) * pitch + 2 * self.document().documentMargin()
        )

    def _fit(self) -> None:
        """Be as high as the text, up to a limit. Beyond it, scroll."""
        lines = self._lines()
        scrolls = lines > self._most_lines
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if scrolls else policy.ScrollBarAlwaysOff
        )
        if self.height() != self._height(lines):
            self.setFixedHeight(self._height(lines))


def files_in(source: QMimeData) -> list[Path]:
    """Return the local files and folders that are pasted or dropped."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]


def _is_of_picture(source: QMimeData) -> bool:
    """Return whether a picture is pasted, and not text: a table may come with its picture."""
    return source.hasImage() and not source.hasText()


def types(event: QKeyEvent) -> bool:
    """Return whether a key writes a character, and is not a shortcut."""
    modifiers = event.modifiers()
    shortcut = modifiers & Qt.KeyboardModifier.ControlModifier and not (
        modifiers & Qt.KeyboardModifier.AltModifier  # together they are AltGr
    )
    return event.text().isprintable() and event.text() != "" and not shortcut


def _whole(text: str) -> str:
    """Return the text of a Qt document with ordinary line ends."""
    return text.replace("\u2029", "\n").replace("\u2028", "\n")


def _tidy(text: str) -> str:
    """Return text from elsewhere with one kind of line end and no invisible characters."""
    text = _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
