"""One message: its author, its text, its buttons, and how it ended.

Knows how a message looks. What the user asks for is sent as a signal.
"""

import math
from collections.abc import Callable
from datetime import datetime
from functools import partial

from PySide6.QtCore import (
    QDateTime,
    QEvent,
    QLocale,
    QMargins,
    QMimeData,
    QObject,
    QPoint,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QEnterEvent,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QTextCursor,
)
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from app.chat.approval_card import Approval, ApprovalCard, in_tab_order
from app.chat.draft_ahead import DraftAhead
from app.chat.message_actions import MessageActions
from app.chat.message_view import NO_COMMANDS, Ending, MessageCommands, MessageView
from app.chat.provenance import Legend, Provenance
from app.chat.scroll_keys import scroll_of
from app.documents.answer_words import AnswerWords
from app.documents.chips import Chip, DocumentChips
from app.documents.word_marks import WordMarks
from app.layout import FREE, Part, column_of, menu_on, row_of
from app.markdown.blocks import BlockReader
from app.markdown.formats import Formats
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText
from app.markdown.view import TextView
from app.markdown.web import html_of, with_formulas
from app.rounds.figures import answer_line, gain
from app.theme.focus_ring import FocusRing
from app.theme.hover_button import BESIDE, HoverButton
from app.theme.labels import PartsLabel, plain_label, plain_tip
from app.theme.style import figures_font, small_font
from engine.request import Role
from models.in_words import clean

_BESIDE, _ABOVE, _RADIUS = 16, 9, 16  # pixels around the text of a bubble, and its corners
_BUBBLE = 0.8  # of the width, at most
_LONG = 2000  # characters: no such text fits into less
_LONGEST_FORMATTED = 20_000  # characters: a copy of more would take longer than the user waits
_NO_MODIFIERS = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
_STEPS: dict[int, int] = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}


class MessageWidget(QWidget):
    """A message in the transcript.

    Attributes: the parts; `shown`, its state.

    Signals:
        place_asked(CopiedSpan): show where these words of the answer are in a document.
        copied(str): the message or a part of it was copied; a line about it.
        focused(): the text got the focus.
    """

    copied = Signal(str)
    focused = Signal()

    def __init__(
        self,
        role: Role,
        *,
        name: str,
        formats: Formats,
        id: int = 0,
        created: datetime | None = None,
        model: str = "",
        commands: MessageCommands = NO_COMMANDS,
        reader: BlockReader | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """`name` is the author's; `model` is the whole name of the model that answers."""
        super().__init__(parent)
        self.role, self.id, self._commands = role, id, commands
        self.shown = MessageView()
        self.name, self._model = name, clean(model)
        self._formats = formats
        self._created = created
        answer = role == "assistant"
        self.view = TextView(formats, StreamingMarkdown(reader) if answer else StreamingPlainText())
        self.provenance = Provenance(self.view, formats.colours)
        self.word_marks = WordMarks(self.view, formats.colours)
        self.place_asked = self.word_marks.asked
        self.view.tip = lambda place: self.word_marks.tip(place) or self.provenance.tip(place)
        self.view.setAccessibleName(f"{name}: message")
        self.setAccessibleName(f"Message by {name}")
        self.documents = DocumentChips(removal="Delete document…")
        self._title = plain_label(clean(name), tone="muted")
        self._ending = plain_label(tone="warning", wraps=True, selectable=True)
        self._words = plain_label(tone="muted", wraps=True)
        self._note = plain_label(tone="warning", wraps=True, centred=True)
        for label in (self._ending, self._words, self._note):
            label.hide()
        self.go_on = HoverButton("Continue", formats.font, parent=self)
        self.go_on.set_raised()
        self.go_on.clicked.connect(self._go_on)
        self.go_on.hide()
        self.figures_line = PartsLabel()
        self.figures_line.setContentsMargins(0, 3, 8, 3)
        self.legend: Legend | None = None  # while the tokens are shown
        self.approval: ApprovalCard | None = None  # while the user is asked about a call
        self._ahead: DraftAhead | None = None  # while the answer is written
        self._to_show: Callable[[DraftAhead], None] | None = None  # when all text is written
        self._unwritten = False
        self._actions = MessageActions(
            name=name, answer=answer, formats=formats, id=id, commands=commands, copy=self.copy
        )
        self._arrange()
        self._show_formats()
        self._show_figures()
        self._wake(False)
        self.view.link_asked.connect(commands.open_link)
        self.view.aside_asked.connect(partial(commands.show_call, id))
        self.documents.view_asked.connect(partial(commands.show_document, id))
        self.documents.remove_asked.connect(partial(commands.delete_document, id))
        self.view.code_copied.connect(lambda: self.copied.emit("Code copied"))
        for part in (self.view, *self.buttons):
            part.installEventFilter(self)
        for button in (*self.buttons, self.go_on):
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        FocusRing(self.view, around=self)

    @property
    def buttons(self) -> tuple[HoverButton, ...]:
        """The buttons of the message: below its text."""
        return self._actions.buttons

    @property
    def inner(self) -> tuple[QAbstractButton, ...]:
        """The buttons that the arrow keys reach from the text, where Tab stops."""
        parts = (
            *self.documents.buttons,
            *self._actions.buttons,
            *(() if self.legend is None else self.legend.buttons),
            self.go_on,
            *self.view.code_buttons,
        )
        return tuple(part for part in parts if part.isVisibleTo(self) and part.isEnabled())

    @property
    def written(self) -> str:
        """The text as it was given."""
        return self.view.text.given

    @property
    def below_text(self) -> int:
        """The top of the row of buttons, in pixels."""
        return self._actions.y()

    def append(self, delta: str) -> None:
        """Add text. `step` shows it, and then the draft after it."""
        self.view.text.append(delta)
        self._look_ahead()

    def show_view(self, view: MessageView) -> None:
        """Show the message so. The next steps write the changes in the text."""
        before, self.shown = self.shown, view
        text = self.view.text
        if view.stretches != before.stretches:
            text.set_stretches(view.stretches)
        if view.asides != before.asides:
            text.set_asides(view.asides)
        if view.pieces is not None and view.pieces is not before.pieces:
            self.provenance.set_pieces(view.pieces)
        self.provenance.fades_after = view.fades_after  # of later pieces
        if (view.tokens, view.hidden) != (before.tokens, before.hidden):
            self.provenance.set_hidden(view.hidden)
            self._show_tokens(view.tokens)
        if view.reasoning != before.reasoning and view.reasoning is not None:
            tally = view.reasoning
            text.set_reasoning_figures(tokens=tally.tokens, seconds=tally.seconds)
        elif view.reasoned != before.reasoned and view.reasoning is None:
            text.set_reasoning_figures(tokens=view.reasoned)
        if view.documents != before.documents:
            self._show_documents(view.documents)
        if view.approval != before.approval:
            self._show_approval(view.approval)
        if view.words != before.words:
            self._show_words(view.words)
        if view.marked != before.marked:
            self.word_marks.set_shown(view.marked)
        if view.branch != before.branch:
            self._actions.set_branches(*view.branch)
        if view.edited != before.edited:
            self.setAccessibleDescription("You are editing it" if view.edited else "")
            self.update()
        if view.note != before.note:
            self._note.setText(view.note)
            self._note.setVisible(bool(view.note))
        if view.ending != before.ending and view.ending is not None:
            self._end(view.ending)
        elif view.ahead is not before.ahead:
            self._look_ahead()
        if (view.figures, view.ending) != (before.figures, before.ending):
            self._show_figures()
        if view.marks != before.marks:
            self.view.set_marks(view.marks)

    def step(self) -> bool:
        """Write some text, for a limited time. Returns whether text is left."""
        self._unwritten = self.view.step()
        return self._unwritten

    def refresh(self) -> None:
        """Draw all that lies over the text again. Call this after some steps."""
        self.view.place_buttons()
        self.view.lay_marks()
        self.provenance.refresh()
        if self.legend is not None:
            self.legend.refresh()
        if self._ahead is not None and self._unwritten and self._to_show is not None:
            self._ahead.hide()  # it shows an older draft, which may be in the text now
        elif self._ahead is not None and not self._unwritten:
            show, self._to_show = self._to_show, None
            show(self._ahead) if show is not None else self._ahead.follow()

    def _look_ahead(self) -> None:
        """Show the draft after the text, or the line before there is a text, once all text is
        written."""
        shown, share = self.shown.ahead, self.shown.share
        if self.shown.ending is not None or (shown is None and self._ahead is None):
            return
        if self._ahead is None:
            self._ahead = DraftAhead(self.view, self._formats.colours, over=self)
        self._ahead.calm = self.shown.calm
        if isinstance(shown, str):
            self._to_show = lambda ahead: ahead.say(shown, share=share)
        else:
            self._to_show = lambda ahead: ahead.show_round(shown)

    def _show_tokens(self, shown: bool) -> None:
        """Show or hide how each token was written, with a legend."""
        self.provenance.set_shown(shown)
        self._actions.check_tokens(shown)
        if shown and self.legend is None and self.role == "assistant":
            self.legend = Legend(self.provenance, explain=self._commands.explain_tokens)
            self.legend.set_appearance(self._formats.font)
            self._column.insertWidget(self._column.indexOf(self._note), self.legend)
            self.legend.show()
        elif not shown and self.legend is not None:
            self._column.removeWidget(self.legend)
            self.legend.deleteLater()
            self.legend = None
        self.updateGeometry()

    def height_at(self, width: int) -> int:
        """Return the height of the message at this width."""
        if width != self.width():
            self.resize(width, self.height())
        self._fit_bubble(width)
        column = self._column
        column.activate()
        if column.hasHeightForWidth():
            return column.totalHeightForWidth(width)
        return column.totalSizeHint().height()

    def _end(self, ending: Ending) -> None:
        self.view.text.finish()
        self._ending.setText(ending.text)
        self._ending.setVisible(bool(ending.text))
        failed = ending.state == "failed"
        self.go_on.setText("Try again" if failed else "Continue")
        self.go_on.setAccessibleName(self.go_on.text())
        cut = ending.state != "complete" and (self.written != "" or failed)
        self.go_on.setVisible(self.role == "assistant" and cut)
        if self._ahead is not None:
            self._ahead.deleteLater()
            self._ahead = self._to_show = None

    def _go_on(self) -> None:
        """Have an answer that was cut off continued, or written again if it has no text."""
        (self._commands.go_on if self.written else self._commands.regenerate)(self.id)

    def _show_documents(self, documents: tuple[Chip, ...]) -> None:
        """Show these documents above the text."""
        self.documents.show_chips(documents)
        for button in self.documents.buttons:
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the arrow keys reach the chips

    def _show_approval(self, approval: Approval | None) -> None:
        """Ask below the text whether a call may run, or no more."""
        if approval is None:
            if self.approval is not None:
                if self.approval.isAncestorOf(self.window().focusWidget() or self):
                    self._commands.leave()
                self._column.removeWidget(self.approval)
                self.approval.hide()
                self.approval.deleteLater()
                self.approval = None
            return
        if self.approval is None:
            self.approval = ApprovalCard()
            self.approval.decided.connect(partial(self._commands.decide, self.id))
            self._column.insertWidget(self._column.indexOf(self.view) + 1, self.approval)
            in_tab_order(self.approval, self.view)
        self.approval.show_approval(approval)

    def _show_words(self, words: AnswerWords) -> None:
        """Mark these words of the text."""
        self.word_marks.set_words(words)
        self._words.setText(clean(words.line))
        self._words.setVisible(bool(words.line))

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours. The next steps redraw the text."""
        self._formats = formats
        self.provenance.set_colours(formats.colours)
        self.word_marks.set_colours(formats.colours)
        self.view.set_formats(formats)
        self._actions.set_formats(formats)
        if self.legend is not None:
            self.legend.set_appearance(formats.font)
        if self._ahead is not None:
            self._ahead.set_colours(formats.colours)
        self.go_on.follow_font(formats.font)
        self._show_formats()
        self.update()

    def copy(self) -> None:
        """Copy the text as it was written, without the reasoning before it; an answer also as
        formatted text, for programs that take that."""
        text = clean(self.view.text.answer)
        data = QMimeData()
        data.setText(text)
        if self.role == "assistant" and len(text) <= _LONGEST_FORMATTED:
            data.setHtml(with_formulas(html_of(text), self._picture_of))
        QGuiApplication.clipboard().setMimeData(data)
        self._actions.acknowledge_copy()
        self.copied.emit("Message copied")

    def _picture_of(self, formula: str) -> str:
        layouts = self._formats.formulas
        outline = layouts.find(formula) if layouts is not None else None
        return outline.picture(formula) if outline is not None else ""

    def menu(self, place: QPoint) -> QMenu:
        """Return the menu for this place of the screen."""
        menu = menu_on(self)
        chosen = self.view.textCursor().hasSelection()
        menu.addAction("Copy", self.view.copy).setEnabled(chosen)
        answer = self.role == "assistant"
        if answer:
            copy = menu.addAction("Copy as Markdown", self.view.copy_as_written)
            copy.setEnabled(chosen)
        point = self.view.viewport().mapFromGlobal(place)
        position = self.view.position_at(point)
        if self.word_marks.leads(position):
            menu.addAction("Show in the document", lambda: self.word_marks.choose(position))
        address = self.view.anchorAt(point)
        if address:
            clipboard = QGuiApplication.clipboard()
            menu.addAction("Copy link address", lambda: clipboard.setText(clean(address)))
        menu.addAction("Copy answer" if answer else "Copy message", self.copy)
        menu.addSeparator()
        commands, id = self._commands, self.id
        if answer:
            menu.addAction("Regenerate", lambda: commands.regenerate(id))
            if not self.go_on.isHidden():
                menu.addAction(self.go_on.text(), self._go_on)
        menu.addAction("Edit", lambda: commands.edit(id))
        menu.addAction("Duplicate conversation up to here", lambda: commands.duplicate(id))
        menu.addAction("Delete", lambda: commands.delete(id))
        menu.addSeparator()
        menu.addAction("Select all", self.view.selectAll)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu(event.globalPos()).popup(event.globalPos())

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self._wake(True)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._wake(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key, plain = event.key(), event.modifiers() in _NO_MODIFIERS
            if plain and (self._open_place(watched, key) or self._move_focus(watched, key)):
                return True
            if scroll_of(event):
                event.ignore()  # the conversation scrolls, and not the cursor
                return True
        elif event.type() == QEvent.Type.FocusIn:
            self._wake(True)
            if watched is self.view:
                self.focused.emit()
        elif event.type() == QEvent.Type.FocusOut:
            self._wake(self.underMouse())
        return super().eventFilter(watched, event)

    def _open_place(self, at: QObject, key: int) -> bool:
        """Show the place in a document of the words at the cursor."""
        entered = key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and at is self.view
        return entered and self.word_marks.choose(self.view.textCursor().position())

    def _move_focus(self, at: QObject, key: int) -> bool:
        """Move from the text's first or last line to the buttons, along them, and back."""
        inner = self.inner
        places = range(len(inner))
        if at is self.view:
            place, leaves = 0, _leaves_text(self.view.textCursor(), key)
        else:
            now = next((n for n, button in enumerate(inner) if button is at), -1)
            if now >= 0 and key in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Escape):
                self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)
                return True
            place, leaves = now + _STEPS.get(key, 0), now >= 0 and key in _STEPS
        if leaves and place in places:
            inner[place].installEventFilter(self)  # a code block's button is new
            inner[place].setFocus(Qt.FocusReason.ShortcutFocusReason)
        return leaves and bool(inner)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, bubble = self._formats.colours, self.rect().toRectF().adjusted(1, 1, -1, -1)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            edge = QPen(QColor(colours.link), 2)
            painter.setPen(edge if self.shown.edited else Qt.PenStyle.NoPen)
            if self.role != "assistant":
                painter.setBrush(QColor(colours.own))
                bubble.setLeft(self._column.contentsMargins().left() - _BESIDE + 1)
                bubble.setBottom(self.view.geometry().bottom() + _ABOVE)
            painter.drawRoundedRect(bubble, _RADIUS, _RADIUS)

    def _fit_bubble(self, width: int) -> None:
        """Make the bubble of the user's message as wide as its text, in a message of `width`."""
        if self.role == "assistant":
            return
        most = round(_BUBBLE * width)
        below = (self._words, self._note, self._ending)
        alone = self.documents.isHidden() and all(part.isHidden() for part in below)
        if alone and len(self.written) < _LONG:
            metrics = QFontMetricsF(self._formats.font)
            lines = self.written.splitlines() or [""]
            wanted = max(metrics.horizontalAdvance(line) for line in lines)
            wanted += 2 * (_BESIDE + self.view.document().documentMargin() + 1)
            least = self._actions.sizeHint().width() + 2 * _BESIDE
            most = min(most, max(least, math.ceil(wanted)))
        margins = (width - most + _BESIDE, _ABOVE, _BESIDE, 0)
        if self._column.contentsMargins() != QMargins(*margins):
            self._column.setContentsMargins(*margins)

    def _arrange(self) -> None:
        answer = self.role == "assistant"
        self._head = row_of(self._title, FREE)
        ending = row_of((self._ending, 1), (self.go_on, Qt.AlignmentFlag.AlignTop), gap=10)
        parts: list[Part] = [self.documents, self.view, self._words, ending]
        if answer:
            parts = [self._head, *parts, self.figures_line, row_of(-BESIDE, self._actions, FREE)]
        else:
            self._title.hide()  # the bubble says whose it is
            parts += [_ABOVE, (self._actions, Qt.AlignmentFlag.AlignRight)]
        self._column = column_of(*parts, self._note, on=self, margins=(14, 4, 8, 4), gap=4)

    def _show_figures(self) -> None:
        figures, ending = self.shown.figures, self.shown.ending
        words = ""  # without figures: the title has the name
        if figures is not None:
            words = answer_line(figures, complete=ending is not None and ending.state == "complete")
        self._actions.set_shown(figures is not None)
        self.figures_line.good = gain(figures) if figures is not None else ""
        self.figures_line.setText(words)
        self.figures_line.setAccessibleName(words)
        when = ""
        if self._created is not None:
            local = QDateTime.fromSecsSinceEpoch(int(self._created.timestamp()))
            when = QLocale().toString(local, QLocale.FormatType.LongFormat)
        self._title.setToolTip(plain_tip(f"{self._model}\n{when}".strip()))
        self.figures_line.setToolTip(f"{words}\n{when}".strip())

    def _show_formats(self) -> None:
        self.documents.setFont(self._formats.font)
        small = small_font(self._formats.font, scale=0.9)
        self.figures_line.setFont(figures_font(small))
        for label in (self._ending, self._words, self._note):
            label.setFont(small)
        small.setBold(True)
        self._title.setFont(small)

    def _wake(self, awake: bool) -> None:
        self._actions.set_awake(awake)


def _leaves_text(cursor: QTextCursor, key: int) -> bool:
    """Return whether this key would move the cursor out of the text."""
    match key:
        case Qt.Key.Key_Up:
            return not cursor.movePosition(QTextCursor.MoveOperation.Up)
        case Qt.Key.Key_Down:
            return not cursor.movePosition(QTextCursor.MoveOperation.Down)
        case _:
            return False
