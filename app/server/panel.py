"""The panel of the local server: its switch, address, requests, and the setup of programs.

Knows its widgets; what the user does there goes out as signals.
"""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QTextOption
from PySide6.QtWidgets import (
    QGridLayout,
    QPlainTextEdit,
    QPushButton,
    QSpinBox,
    QTabWidget,
    QWidget,
)

from app.choice_box import Choice, ChoiceBox
from app.copying import CopyButton, CopyField
from app.layout import FREE, column_of, row_of
from app.settings import LEAST_PORT, MOST_PORT
from app.switch import Switch
from app.theme.dialog import Dialog
from app.theme.edged_check_box import EdgedCheckBox
from app.theme.labels import StatusLine, Tone, ToneLabel, closing, plain_label
from app.theme.row_tree import RowTree
from app.theme.style import STYLE_SHEET, TABS
from engine.server.clients import ClientSetup
from engine.server.status import ModelState, ModelStatus, RequestStatus
from models.in_words import size

_NAMELESS = "Unnamed program"
_STATES: dict[ModelState, str] = {
    "loaded": "Loaded",
    "loading": "Loading\u2026",
    "not loaded": "Not loaded",
}
_OTHER_MODELS = (
    "Programs choose a model by its name. It is unloaded after 10 minutes without a request, or "
    "when memory is needed."
)


class ServerPanel(Dialog):
    """Not modal, so that the chat can go on. Attributes: its parts.

    Signals: `switched(bool)`; `restart_asked()`; `port_chosen(int)`; `at_start_chosen(bool)`;
    `models_chosen(bool)`: whether other models are loaded when they are asked for.
    """

    switched = Signal(bool)
    restart_asked = Signal()
    port_chosen = Signal(int)
    at_start_chosen = Signal(bool)
    models_chosen = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.switch = Switch("Local server")
        self.line = StatusLine(wraps=True)
        self.restart = QPushButton("Restart")
        self.address, self.key = CopyField("Address"), CopyField("Key", secret=True)
        self.port = QSpinBox()
        self.at_start = EdgedCheckBox("Start with Slipstream")
        self.requests = RowTree("Requests", wide=200)
        self.other_models = EdgedCheckBox("Load other models on request")
        self.models = RowTree("Models", wide=340)
        self.clients = ToneLabel(tone="muted")
        self.programs = ChoiceBox("Program")
        self.where = ToneLabel(tone="muted")
        self.lines = QPlainTextEdit()
        self._setups: tuple[ClientSetup, ...] = ()
        self._tabs = QTabWidget()
        self.setWindowTitle("Local server")
        self.setModal(False)
        self.setStyleSheet(STYLE_SHEET)
        self._arrange()
        self.switch.clicked.connect(self.switched)
        self.restart.clicked.connect(self.restart_asked)
        self.port.editingFinished.connect(lambda: self.port_chosen.emit(self.port.value()))
        self.at_start.toggled.connect(self.at_start_chosen)
        self.other_models.toggled.connect(self.models_chosen)
        self.programs.chosen.connect(lambda name: self._show_setup())

    def _arrange(self) -> None:
        self.port.setRange(LEAST_PORT, MOST_PORT)
        self.port.setKeyboardTracking(False)
        self.port.setGroupSeparatorShown(False)
        self.port.setAccessibleName("Port")
        self.restart.setAutoDefault(False)
        top = Qt.AlignmentFlag.AlignTop
        first = row_of((self.switch, top), (self.line, 1), (self.restart, top), gap=12)
        first.setAlignment(self.line, Qt.AlignmentFlag.AlignVCenter)
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(8)
        for row, (name, field) in enumerate((("Address", self.address), ("Key", self.key))):
            grid.addWidget(plain_label(name, buddy=field.field), row, 0)
            grid.addWidget(field, row, 1)
        below = row_of(self.port, 16, self.at_start, FREE)
        grid.addWidget(plain_label("Port", buddy=self.port), 2, 0)
        grid.addLayout(below, 2, 1)
        grid.setColumnStretch(1, 1)
        self._tabs.setDocumentMode(True)
        self._tabs.tabBar().setDrawBase(False)
        self._tabs.tabBar().setCursor(Qt.CursorShape.PointingHandCursor)
        self._tabs.setStyleSheet(TABS)
        self._tabs.setAccessibleName("Local server")
        self._tabs.addTab(self._requests_page(), "Requests")
        self._tabs.addTab(self._programs_page(), "Set up a program")
        self._tabs.addTab(self._models_page(), "Models")
        column_of(
            first, grid, (self._tabs, 1), closing(self), on=self, margins=(20, 18, 20, 14), gap=14
        )
        self.setMinimumSize(520, 440)
        self.resize(700, 600)

    def _requests_page(self) -> QWidget:
        page = QWidget()
        column_of((self.requests, 1), self.clients, on=page, margins=(0, 6, 0, 0), gap=8)
        return page

    def _models_page(self) -> QWidget:
        page, about = QWidget(), ToneLabel(tone="muted")
        about.say(_OTHER_MODELS)
        column_of(self.other_models, about, (self.models, 1), on=page, margins=(0, 10, 0, 0), gap=8)
        return page

    def _programs_page(self) -> QWidget:
        page = QWidget()
        self.lines.setReadOnly(True)
        self.lines.setTabChangesFocus(True)
        self.lines.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self.lines.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.lines.setAccessibleName("Lines to copy")
        copy = CopyButton("Copy the lines", lambda: self.lines.toPlainText())
        above = row_of((self.programs, 1), copy)
        column_of(above, self.where, (self.lines, 1), on=page, margins=(0, 10, 0, 0), gap=8)
        return page

    def show_state(self, line: str, tone: Tone, *, on: bool, can_restart: bool = False) -> None:
        """Say how the server is."""
        self.switch.failed = tone == "warning"
        self.switch.setChecked(on)
        self.switch.update()
        self.line.say(line, tone)
        self.restart.setVisible(can_restart)

    def show_place(self, *, address: str, key: str, port: int, at_start: bool) -> None:
        """Show where it can be asked; the key is hidden at first."""
        self.address.show_text(address)
        self.key.show_text(key)
        if not self.port.hasFocus():
            self.port.setValue(port)
        self.at_start.setChecked(at_start)

    def show_models(self, models: Sequence[ModelStatus], *, others: bool) -> None:
        """Show what programs can ask for. `others`: more than the window's own model."""
        self.other_models.setChecked(others)
        self.models.show_lines([(model.name, _state(model)) for model in models])

    def show_setups(self, setups: Sequence[ClientSetup]) -> None:
        """Offer these lines to copy."""
        if tuple(setups) == self._setups:
            return
        self._setups = tuple(setups)
        chosen = self.programs.value or setups[0].name
        self.programs.set_choices(tuple(Choice(one.name, one.name) for one in setups))
        self.programs.set_value(chosen)
        self._show_setup()

    def show_requests(self, requests: Sequence[RequestStatus], *, asked: str) -> None:
        """Show the current requests, and a line about the programs that have `asked`."""
        self.requests.show_lines([(one.client or _NAMELESS, _progress(one)) for one in requests])
        self.clients.say(asked)
        count = len(requests)
        self._tabs.setTabText(0, f"Requests ({count:,})" if count else "Requests")

    def _show_setup(self) -> None:
        for one in self._setups:
            if one.name == self.programs.value:
                self.where.say(f"{one.where[:1].upper()}{one.where[1:]}.")
                self.lines.setPlainText(one.lines)


def _state(model: ModelStatus) -> str:
    """Return whether a model is loaded, the memory that it takes, and its remark."""
    held = size(model.needed_bytes) if model.needed_bytes and model.state == "loaded" else ""
    return ", ".join(filter(None, (_STATES[model.state], held, model.remark)))


def _progress(request: RequestStatus) -> str:
    """Return the program of a request, and the progress of its answer."""
    match request.state:
        case "waiting":
            progress = "waiting"
        case "reading":
            progress = f"reading {request.prompt_tokens:,} tokens"
        case "writing":
            progress = f"{request.tokens:,} token{'' if request.tokens == 1 else 's'} written"
    return " \u00b7 ".join(filter(None, (request.endpoint, request.model, progress)))
