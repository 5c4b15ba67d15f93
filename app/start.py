"""Makes the application and everything that its windows need, and runs it.

Knows where data is kept, and the order of the start: the first paint comes before the engine.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QMessageBox

from app.application import Application
from app.conversations.store import Store
from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess
from app.housekeeping import GcScheduler, Program, SignalWatch, leave_texts
from app.markdown.highlight import USUAL, get_ready
from app.models.library import Library
from app.models.loader import ModelLoader
from app.one_window import SecondStarts, show_first_window
from app.server.local_server import LocalServer
from app.settings import Settings
from app.theme.style import Theme
from app.tools.tool_process import ToolProcess
from app.tools.toolbox import Toolbox
from app.window import Window
from app.windows import Windows
from engine.tools.configuration import configuration_file
from models.errors import Problem
from models.files import HOME_VARIABLE, data_folder, log_folder

NAME = "Slipstream"
_GET_READY_MS, _GET_READY_APART_MS = 500, 100
_SWITCH_SECONDS = 0.001  # how long the window's thread waits for the thread that stores an answer


def run_window(arguments: Sequence[str], *, begin: Callable[[Window], None] = Window.begin) -> int:
    """Open the windows that were open at the end, and run until the last one is closed. Returns the
    exit status.

    `begin` is called once the first window is painted.
    """
    home = data_folder()
    if show_first_window(home):
        return 0
    qt = make_application(arguments)
    settings = Settings(stored_settings(home))
    theme = Theme(qt, settings)
    try:
        store = Store.open(home / "conversations.sqlite")
    except Problem as problem:
        print(problem, file=sys.stderr)
        QMessageBox.critical(None, NAME, str(problem))
        return 1
    logs = log_folder()
    engine = EngineProcess(EngineLog(logs))
    loader = ModelLoader(engine, settings)
    server = LocalServer(
        engine,
        loader,
        EngineLog(logs, name="server"),
        settings=settings,
        key_file=home / "server-key",
    )
    process = ToolProcess(EngineLog(logs, name="tools"))
    application = Application(
        store,
        engine,
        loader=loader,
        settings=settings,
        theme=theme,
        library=Library(hostfile=lambda: settings.macs.hosts),
        server=server,
        tools=Toolbox(configuration_file(home), process, logs=logs),
    )
    windows = Windows(application)
    window, *others = windows.restore()
    window.painted.connect(lambda: begin(window))
    for other in others:
        other.painted.connect(other.begin)
    SignalWatch(windows.close, parent=qt)
    qt.file_given.connect(windows.attach)
    second_starts = SecondStarts(home, parent=windows)
    second_starts.asked.connect(windows.come_forward)
    qt.aboutToQuit.connect(second_starts.close)
    window.painted.connect(lambda: run_idle_work(windows))
    qt.aboutToQuit.connect(leave_texts)
    for window in reversed(windows.all):
        window.show()
    return qt.exec()


def run_idle_work(windows: Windows) -> GcScheduler:
    """Do slow work while no one waits: collect garbage, load the lexers of common languages."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    answers = windows.application.answers
    scheduler = GcScheduler(lambda: answers.busy, parent=windows)
    answers.finished.connect(scheduler.request_full)
    windows.let_go.connect(scheduler.request_full)
    for place, language in enumerate(USUAL, start=1):
        wait_ms = _GET_READY_MS + place * _GET_READY_APART_MS
        QTimer.singleShot(wait_ms, windows, partial(get_ready, language))
    return scheduler


def make_application(arguments: Sequence[str]) -> Program:
    """Return the application, with its names, style and icon."""
    application = Program(list(arguments))
    application.setApplicationName(NAME)
    application.setOrganizationName(NAME)
    if sys.platform != "darwin":
        application.setStyle("Fusion")
    icon = Path(__file__).parents[1] / "resources" / "icons" / "slipstream.png"
    if icon.is_file():
        application.setWindowIcon(QIcon(str(icon)))
    return application


def stored_settings(home: Path) -> QSettings:
    """Return the platform's settings, or those in the folder SLIPSTREAM_HOME if it is set."""
    if os.environ.get(HOME_VARIABLE):
        return QSettings(str(home / "settings.ini"), QSettings.Format.IniFormat)
    return QSettings(NAME, NAME)
