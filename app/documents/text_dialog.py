"""A dialog with a text exactly as the model gets it. Knows nothing of its origin."""

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialogButtonBox, QWidget

from app.layout import column_of, text_area
from app.theme.dialog import Dialog
from app.theme.labels import closing, plain_label

_LONGEST_LINE = 2_000  # characters: Qt lays out longer lines slowly


class TextDialog(Dialog):
    """Attributes: `text`, unchanged; `view`, which shows it with long lines divided."""

    def __init__(
        self, title: str, text: str, *, remark: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.text = text
        self.setWindowTitle(title)
        said = plain_label(remark, wraps=True)
        self.view = text_area(_folded(text), name=title, fixed=True)
        buttons = closing(self)
        copy = buttons.addButton("Copy all", QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(text))
        column_of(said, (self.view, 1), buttons, on=self)
        self.resize(720, 640)


def _folded(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        line[begin : begin + _LONGEST_LINE]
        for line in lines
        for begin in range(0, max(len(line), 1), _LONGEST_LINE)
    )
