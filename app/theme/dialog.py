"""A dialog that is never larger than its screen, and a question. Knows nothing of contents."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from app.layout import column_of, scrolled

_RESIZED = Qt.WidgetAttribute.WA_Resized
_FRAME = QSize(8, 36)  # pixels that a window manager's frame takes


class Dialog(QDialog):
    """What a screen has no room for scrolls; the buttons below it stay in sight."""

    def open_once(self) -> None:
        """Open it. It is deleted when it is closed."""
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.open()

    def setVisible(self, visible: bool) -> None:
        """Fit the screen before the dialog is seen."""
        if visible and not self.isVisible():
            self.ensurePolished()
            self._fit()
        super().setVisible(visible)

    def event(self, event: QEvent) -> bool:
        """Fit the screen again when the content has grown: by a larger font, or wrapped lines."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest and self.isVisible():
            self._fit()
        return done

    def _fit(self) -> None:
        room = self.screen().availableSize() - _FRAME
        wanted = self.size() if self.testAttribute(_RESIZED) else self.sizeHint()
        column = self.layout()
        if isinstance(column, QVBoxLayout):
            least = column.totalMinimumSize()
            wanted = wanted.expandedTo(least)
            if least.height() > room.height():
                self._scroll(column)
        self.setMinimumSize(self.minimumSize().boundedTo(room))
        self.setMaximumSize(room)
        self.resize(wanted.boundedTo(room))

    def _scroll(self, column: QVBoxLayout) -> None:
        """Put all but the buttons into an area that scrolls."""
        buttons = self.findChildren(
            QDialogButtonBox, options=Qt.FindChildOption.FindDirectChildrenOnly
        )
        for box in buttons:
            column.removeWidget(box)
        page = QWidget()
        page.setLayout(column)
        area = scrolled(page, self.windowTitle())
        area.setMinimumWidth(
            column.totalMinimumSize().width() + area.verticalScrollBar().sizeHint().width()
        )
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column_of(area, *buttons, on=self)


def ask(
    parent: QWidget,
    title: str,
    question: str,
    detail: str,
    *,
    verb: str,
    then: Callable[[], object],
    role: QMessageBox.ButtonRole = QMessageBox.ButtonRole.DestructiveRole,
) -> QMessageBox:
    """Ask a question in plain text, and return it at once. The button with the `verb` calls
    `then`; Return and Esc press Cancel."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, title, question, parent=parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setInformativeText(detail)
    box.addButton(verb, role).clicked.connect(lambda: then())
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.open()
    return box
