"""A copy made in the window outlasts it, and the process ends in order."""

import subprocess
import sys

from PySide6.QtGui import QGuiApplication

COPYING = """
import sys
from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QApplication
from app.clipboard import leave_texts

application = QApplication([])
data = QMimeData()
data.setText("copied")
QApplication.clipboard().setMimeData(data)
if sys.argv[1] == "left":
    leave_texts()
assert QApplication.clipboard().text() == "copied"
"""


def ended(how: str) -> int:
    return subprocess.run([sys.executable, "-c", COPYING, how], timeout=60).returncode


def test_the_process_ends_in_order() -> None:
    assert ended("left") == 0


def test_it_would_not_without() -> None:
    assert QGuiApplication.platformName() == "offscreen"
    assert ended("held") != 0
