"""Every dialog can be used with a screen reader and with the keyboard alone."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QWidget,
)

NAMES = (
    "settings", "sampling", "memory", "keys", "explain_rounds", "about", "server", "macs", "tools",
)  # fmt: skip
ONLY_SHOWN = ("about", "explain_rounds")


def name_of(widget):
    """What a screen reader says of it."""
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name) if interface else ""


def test_what_can_have_the_focus_has_a_name_and_escape_closes(open_window, until):
    window = open_window()
    until(lambda: window.loader.loaded)

    def shown():
        return [dialog for dialog in window.findChildren(QDialog) if dialog.isVisible()]

    for name in NAMES:
        window.menus.actions[name].trigger()
        (dialog,) = shown()
        focusable = [
            widget
            for widget in dialog.findChildren(QWidget)
            if widget.isVisible()
            and not isinstance(widget.parent(), QAbstractSpinBox | QComboBox)  # a part of that
            and (
                widget.focusPolicy() is not Qt.FocusPolicy.NoFocus
                or isinstance(widget, QAbstractButton)
            )
        ]
        assert focusable, name
        nameless = [type(widget).__name__ for widget in focusable if not name_of(widget)]
        assert (name, nameless) == (name, [])
        assert dialog.windowTitle(), name
        first = dialog.focusWidget() or dialog.nextInFocusChain()
        at_the_end = isinstance(first.parent(), QDialogButtonBox)
        assert not at_the_end or name in ONLY_SHOWN
        QTest.keyClick(dialog, Qt.Key.Key_Escape)
        until(lambda: not shown())
