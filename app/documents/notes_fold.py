"""The notes from which an answer was written, folded at first."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.markdown.formats import Formats
from app.theme.hover_button import HoverButton
from app.theme.labels import plain_label
from app.theme.style import set_ink, small_font


class NotesFold(QWidget):
    """Hidden without notes. Attribute: `button`, which folds and unfolds them."""

    def __init__(self, formats: Formats) -> None:
        super().__init__()
        self._title = ""
        self.button = HoverButton("", parent=self, font=formats.font, colours=formats.colours)
        self.button.set_raised()
        self.button.setCheckable(True)
        self.button.toggled.connect(self._show)
        self._text = plain_label(wraps=True, selectable=True)
        self._text.setContentsMargins(8, 2, 8, 4)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._text)
        self.set_formats(formats)
        self.set_notes("", "")

    @property
    def text(self) -> str:
        """The notes."""
        return self._text.text()

    def set_notes(self, title: str, text: str) -> None:
        """Show these notes, folded or unfolded as before; hidden without a title."""
        self._title = title
        self._text.setText(text)
        self._show()
        self.setVisible(bool(title))

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours."""
        self.button.set_appearance(formats.font, formats.colours)
        self._text.setFont(small_font(formats.font, scale=0.9))
        set_ink(self._text, formats.colours.muted)

    def _show(self) -> None:
        opened = self.button.isChecked()
        self.button.setText(f"{'▾' if opened else '▸'} {self._title}")
        self.button.setAccessibleName(f"{'Hide' if opened else 'Show'} the notes: {self._title}")
        self.button.updateGeometry()
        self._text.setVisible(opened)
