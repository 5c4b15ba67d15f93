"""A text is shown exactly as it is; long lines in several, which are not copied so."""

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton

from app.documents.text_dialog import TextDialog

TEXT = "<b>bold</b>\n\n" + "long " * 10_000 + "\nend"


def test_all_of_it_is_there(qtbot):
    dialog = TextDialog("a.pdf", TEXT, remark="As it is.")
    qtbot.addWidget(dialog)
    shown = dialog.view.toPlainText()
    assert shown.replace("\n", "") == TEXT.replace("\n", "")
    assert shown.startswith("<b>bold</b>\n\nlong")
    assert shown.endswith("\nend")
    assert max(map(len, shown.split("\n"))) < 10_000
    assert dialog.view.isReadOnly()
    copy = next(b for b in dialog.findChildren(QPushButton) if "Copy" in b.text())
    copy.click()
    assert QGuiApplication.clipboard().text() == TEXT
