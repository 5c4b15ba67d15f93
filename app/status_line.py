"""A line on the state of something: a sign, and words that mean the same."""

from typing import Literal

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.theme.icons import Sign, sign_icon
from app.theme.style import colours_of, set_ink

Standing = Literal["plain", "good", "warning"]

_SIGNS: dict[Standing, Sign] = {"good": "check", "warning": "warning"}


class StatusLine(QWidget):
    """Attributes: `standing`, and `text`, which wraps, or else ends with … where it is too long."""

    def __init__(self, parent: QWidget | None = None, *, wraps: bool = False) -> None:
        super().__init__(parent)
        self.standing: Standing = "plain"
        self.text = ""
        self._wraps = wraps
        self._sign = QLabel()
        self._sign.setTextFormat(Qt.TextFormat.PlainText)
        self._words = QLabel()
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setWordWrap(wraps)
        self._words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        if not wraps:
            self._words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            self._words.setMinimumWidth(60)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self._sign)
        row.addWidget(self._words, 1)
        self.say("")

    def say(self, text: str, standing: Standing = "plain") -> None:
        """Show another line."""
        self.standing = standing
        self.text = text
        self._words.setAccessibleName(f"Warning: {text}" if standing == "warning" else text)
        self._recolour()
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()
            self._fit()

    def _fit(self) -> None:
        shown = self.text
        if not self._wraps:
            shown = self._words.fontMetrics().elidedText(
                shown, Qt.TextElideMode.ElideRight, self._words.width()
            )
        if self._words.text() != shown:
            self._words.setText(shown)

    def _recolour(self) -> None:
        colours = colours_of(self)
        warns = self.standing == "warning"
        words = colours.warning if warns else colours.muted
        set_ink(self._words, words)
        sign = _SIGNS.get(self.standing)
        self._sign.setVisible(sign is not None and bool(self.text))
        if sign is not None:
            ink = colours.warning if warns else colours.accepted
            side = self.fontMetrics().ascent() + 2
            icon = sign_icon(sign, ink=ink, faint=ink)
            self._sign.setPixmap(icon.pixmap(QSize(side, side), self.devicePixelRatioF()))
