"""Finds out whether the user wants less motion on the screen."""

import sys

from PySide6.QtCore import QSettings
from PySide6.QtGui import QGuiApplication


def motion_is_reduced() -> bool:
    """Return whether the system is set to reduce motion.

    Qt knows it from version 6.12 on; before that, macOS's own setting is read. Untested on a Mac.
    """
    hints = QGuiApplication.styleHints().accessibility()
    if (preference := getattr(hints, "motionPreference", None)) is not None:
        return "Reduced" in str(preference())
    if sys.platform != "darwin":
        return False
    return bool(QSettings("apple.com", "universalaccess").value("reduceMotion", False, type=bool))
