"""A message of the transcript, whose widget exists only near the part in sight.

Holds all that the widget shows, so that it can be removed and built again. Knows its height in the
page; not its neighbours.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from PySide6.QtGui import QFontMetricsF

from app.chat.message import MessageWidget
from app.chat.message_view import MessageView
from app.markdown.formats import Formats
from app.markdown.view import TextView
from engine.request import Role
from engine.stretches import said

_AROUND, _AROUND_ANSWER = 40, 66  # pixels of a message next to its text, about
_AROUND_DOCUMENT, _AROUND_PICTURE = 34, 144  # of each of its documents
_ASIDE = 32  # of each of its asides


class MessageRow:
    """A message with or without a widget.

    Attributes: `id`, `role`, `name`, `model`, `created`; `shown`, its state apart from its
    text; `widget`, None while it is not built; `top` and `height`, its place in the page; and
    `measured`, False while `height` is an estimate.
    """

    def __init__(
        self,
        role: Role,
        *,
        id: int,
        name: str,
        model: str,
        created: datetime | None,
        shown: MessageView,
        build: Callable[["MessageRow"], MessageWidget],
    ) -> None:
        """`build` builds the widget at once, when it is needed."""
        self.id = id
        self.role, self.name, self.model, self.created = role, name, model, created
        self.shown = shown
        self.widget: MessageWidget | None = None
        self.top = self.height = 0
        self.measured = False
        self._build = build
        self._parts: list[str] = []
        self._estimate = (0, 0.0, 0)  # its width, its font's height, and the result

    @property
    def written(self) -> str:
        """The text as it was given."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def view(self) -> TextView:
        """The text on the screen. Builds the widget."""
        return (self.widget or self._build(self)).view

    @property
    def bottom(self) -> int:
        """The first line of pixels below it."""
        return self.top + self.height

    @property
    def held(self) -> bool:
        """Whether it has the focus or a selection, so that its widget must stay."""
        if self.widget is None:
            return False
        return self.has_focus or self.widget.view.textCursor().hasSelection()

    @property
    def has_focus(self) -> bool:
        """Whether its text, or a button of it, has the focus of its window."""
        focus = None if self.widget is None else self.widget.window().focusWidget()
        return focus is not None and self.widget is not None and self.widget.isAncestorOf(focus)

    def append(self, delta: str) -> None:
        """Add text."""
        self._parts.append(delta)
        if self.widget is not None:
            self.widget.append(delta)

    def show(self, view: MessageView) -> bool:
        """Show the message so. The next steps write the changes in its text. Returns whether its
        height may change."""
        before, self.shown = self.shown, view
        resized = view.height_values != before.height_values
        self.measured = self.measured and not resized
        if self.widget is not None:
            self.widget.show_view(view)
        return resized

    def copy(self) -> None:
        """Copy the whole text."""
        (self.widget or self._build(self)).copy()

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours."""
        self.measured = False
        if self.widget is not None:
            self.widget.set_formats(formats)

    def fill(self, widget: MessageWidget) -> None:
        """Fill a new widget with everything; `step` writes its text."""
        self.widget = widget
        if self.written:
            widget.append(self.written)
        widget.show_view(self.shown)

    def fold(self) -> None:
        """Remove the widget. The height stays; the tokens, which need much memory, do not."""
        if self.widget is not None:
            self.widget.hide()
            self.widget.deleteLater()
            self.widget = None
        self.shown = replace(self.shown, pieces=None)

    def step(self) -> bool:
        """Write some text, for a limited time. Returns whether text is left."""
        return self.widget is not None and self.widget.step()

    def fit(self, width: int, metrics: QFontMetricsF, *, writing: bool) -> None:
        """Set the height at this width. While the text is rewritten, it does not shrink, so that
        the messages in sight do not jump."""
        if self.widget is None:
            if not self.measured:
                self.height = self._estimated(width, metrics)
            return
        height = self.widget.height_at(width)
        self.height = max(height, self.height) if writing else height
        self.measured = not writing

    def _estimated(self, width: int, metrics: QFontMetricsF) -> int:
        """Estimate the height from the length of the text alone."""
        if self._estimate[:2] != (width, metrics.height()):
            a_row = max(8.0, (width - 40) / metrics.averageCharWidth())
            text = said(self.written, self.shown.stretches)  # reasoning is folded
            blank = text.count("\n\n")
            lines = text.count("\n") + 1 - blank
            rows = lines + 0.4 * blank + max(0.0, len(text) / a_row - 0.6 * lines)
            around = _AROUND_ANSWER if self.role == "assistant" else _AROUND
            around += len(self.shown.asides) * _ASIDE
            for chip in self.shown.documents:
                around += _AROUND_PICTURE if chip.picture else _AROUND_DOCUMENT
            height = around + math.ceil(rows * 1.16 * metrics.height())
            self._estimate = (width, metrics.height(), height)
        return self._estimate[2]
