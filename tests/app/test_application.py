"""What all windows share begins once, and ends with the last window."""

import sys

from PySide6.QtWidgets import QApplication

from app.commands import CommandRunner
from models.answers import ANSWERS, Opened
from tests.support.children import children_with


def test_it_begins_once_and_a_closed_window_asks_nothing_of_its_store(
    open_window, until, monkeypatch
):
    # A backup that was due five minutes later ended as a traceback.
    window = open_window("ready take load take")
    until(lambda: window.loader.loaded)
    assert window.application.backups.isActive()
    begun = []
    monkeypatch.setattr(window.loader, "begin", lambda: begun.append(None))
    window.application.begin()
    assert (window.application.begun, begun) == (True, [])
    window.close()
    assert not window.application.backups.isActive()


def test_a_model_that_is_prepared_at_the_end_starts_no_engine(open_window, until):
    # The engine was started again behind the window that had been closed.
    line = ANSWERS.to_json(Opened("/models/tiny"))
    answer = f"print({line!r}, flush=True); sys.stdin.read()"
    command = (sys.executable, "-c", f"import sys; {answer}")
    window = open_window(loading=CommandRunner(command))
    until(lambda: window.engine.pid)
    window.close()
    assert window.engine.pid == 0
    assert children_with(command[2]) == []
    QApplication.processEvents()
    assert window.engine.pid == 0
