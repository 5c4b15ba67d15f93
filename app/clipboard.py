"""What was copied here, on its way out: it has to outlast Python.

What Qt's clipboard holds is destroyed when the process ends, after Python. An object that Python
made must not be among it.
"""

from PySide6.QtGui import QClipboard, QGuiApplication


def leave_texts() -> None:
    """Make what was copied the clipboard's own. For when the application is about to quit."""
    clipboard = QGuiApplication.clipboard()
    for mode in (QClipboard.Mode.Clipboard, QClipboard.Mode.Selection):
        text = clipboard.text(mode)
        if text:
            clipboard.setText(text, mode)
        else:
            clipboard.clear(mode)
