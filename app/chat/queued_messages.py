"""The messages that wait for the end of an answer, in lines above the message field.

Knows texts, and why they wait; not what sends them. The user's wishes are sent as signals.
"""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QWidget

from app.layout import column_of, row_of
from app.theme.labels import ShortenedLabel
from app.theme.style import sign_button
from models.in_words import one_line

_LONGEST_TIP = 500  # characters


class QueuedMessages(QWidget):
    """Hidden while no message waits. Attribute: `texts`, in the order in which they are sent.

    Signals:
        edit_asked(int), removal_asked(int): take the message with this index back into the field,
            or out of the queue.
        sending_asked: send the first message now.
    """

    edit_asked = Signal(int)
    removal_asked = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.texts: tuple[str, ...] = ()
        self._reason = ShortenedLabel(tone="muted", scale=0.9)
        self._send = QPushButton("Send now")
        self._send.setAccessibleName("Send the first queued message now")
        self.sending_asked = self._send.clicked
        self._lines: list[QWidget] = []
        head = row_of((self._reason, 1), self._send)
        self._column = column_of(head, on=self, margins=(0, 0, 6, 6), gap=2)
        self.setAccessibleName("Queued messages")
        self.hide()

    def show_queue(self, texts: Sequence[str], reason: str, *, sends: bool) -> None:
        """Show these messages, why they wait, and whether the user can send the first one."""
        if tuple(texts) != self.texts:
            self.texts = tuple(texts)
            for line in self._lines:
                self._column.removeWidget(line)
                line.hide()
                line.deleteLater()
            self._lines = [self._line(place, text) for place, text in enumerate(texts)]
            for line in self._lines:
                self._column.addWidget(line)
                line.show()
        self._reason.say(reason)
        self._send.setVisible(sends)
        self.setVisible(bool(texts))

    def _line(self, place: int, text: str) -> QWidget:
        line = QWidget()
        words = ShortenedLabel()
        words.say(one_line(text), tip=text[:_LONGEST_TIP])
        row = row_of((words, 1), on=line, margins=0, gap=2)
        for label, name, signal in (
            ("Edit", f"Edit queued message {place + 1}", self.edit_asked),
            ("Remove", f"Remove queued message {place + 1}", self.removal_asked),
        ):
            row.addWidget(sign_button(label, name, partial(signal.emit, place)))
        return line
