"""The panel of the local server: its switch, address, requests, models, and setup of programs.

Knows the server and its settings; no process.
"""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QTextOption
from PySide6.QtWidgets import QGridLayout, QSpinBox, QWidget

from app.choice_box import Choice, ChoiceBox
from app.copying import CopyButton, CopyField
from app.layout import FREE, column_of, quiet_tabs, row_of, text_area, text_button
from app.models.formatting import target_name
from app.server.local_server import LocalServer, ServerState
from app.settings import LEAST_PORT, MOST_PORT, Settings
from app.switch import Switch
from app.theme.dialog import Dialog
from app.theme.labels import StatusLine, Tone, ToneLabel, closing, plain_label
from app.theme.row_tree import RowTree
from app.theme.widgets import EdgedCheckBox
from engine.server.clients import ClientSetup, client_setups
from engine.server.status import ModelState, ModelStatus, RequestStatus
from engine.server.target import name_of
from models.errors import Problem
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
    """Not modal, so that the chat can go on. Attributes: its parts."""

    def __init__(self, server: LocalServer, settings: Settings, *, parent: QWidget) -> None:
        super().__init__(parent)
        self._server, self._settings = server, settings
        self.switch = Switch("Local server")
        self.line = StatusLine(wraps=True)
        self.restart = text_button("Restart", server.restart)
        self.address, self.key = CopyField("Address"), CopyField("Key", secret=True)
        self.port = QSpinBox()
        self.at_start = EdgedCheckBox("Start with Slipstream")
        self.requests = RowTree("Requests", wide=200)
        self.other_models = EdgedCheckBox("Load other models on request")
        self.models = RowTree("Models", wide=340)
        self.clients = ToneLabel(tone="muted")
        self.programs = ChoiceBox("Program")
        self.where = ToneLabel(tone="muted")
        self.lines = text_area(name="Lines to copy", fixed=True)
        self._setups: tuple[ClientSetup, ...] = ()
        self._tabs = quiet_tabs("Local server")
        self.setWindowTitle("Local server")
        self._arrange()
        self.switch.clicked.connect(server.switch)
        self.port.editingFinished.connect(lambda: self._use("server_port", self.port.value()))
        self.at_start.toggled.connect(lambda on: setattr(settings, "server_at_start", on))
        self.other_models.toggled.connect(lambda on: self._use("server_models", on))
        self.programs.chosen.connect(self._show_setup)
        server.changed.connect(self.refresh)
        self.refresh()

    def _arrange(self) -> None:
        self.port.setRange(LEAST_PORT, MOST_PORT)
        self.port.setKeyboardTracking(False)
        self.port.setGroupSeparatorShown(False)
        self.port.setAccessibleName("Port")
        top = Qt.AlignmentFlag.AlignTop
        first = row_of((self.switch, top), (self.line, 1), (self.restart, top), gap=12)
        first.setAlignment(self.line, Qt.AlignmentFlag.AlignVCenter)
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(8)
        for row, (name, field) in enumerate((("Address", self.address), ("Key", self.key))):
            grid.addWidget(plain_label(name, buddy=field.field), row, 0)
            grid.addWidget(field, row, 1)
        grid.addWidget(plain_label("Port", buddy=self.port), 2, 0)
        grid.addLayout(row_of(self.port, 16, self.at_start, FREE), 2, 1)
        grid.setColumnStretch(1, 1)
        self.lines.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self.lines.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        copy = CopyButton("Copy the lines", self.lines.toPlainText)
        about = plain_label(_OTHER_MODELS, tone="muted", wraps=True)
        choice = row_of((self.programs, 1), copy)
        for title, parts in (
            ("Requests", ((self.requests, 1), self.clients)),
            ("Set up a program", (choice, self.where, (self.lines, 1))),
            ("Models", (self.other_models, about, (self.models, 1))),
        ):
            page = QWidget()
            column_of(*parts, on=page, margins=(0, 10, 0, 0), gap=8)
            self._tabs.addTab(page, title)
        column_of(
            first, grid, (self._tabs, 1), closing(self), on=self, margins=(20, 18, 20, 14), gap=14
        )
        self.setMinimumSize(520, 440)
        self.resize(700, 600)

    def refresh(self) -> None:
        """Show all as it is now."""
        server, settings, loaded = self._server, self._settings, self._server.loaded
        line, tone = _state_line(server)
        self.switch.failed = tone == "warning"
        self.switch.setChecked(server.on)
        self.switch.update()
        self.line.say(line, tone)
        self.restart.setVisible(server.on and server.state is ServerState.FAILED)
        address = server.status.address or f"http://127.0.0.1:{settings.server_port}"
        try:
            key = server.key
        except Problem:
            key = ""  # the line says it, once the server is on
        self.address.show_text(f"{address}/v1")
        self.key.show_text(key)
        if not self.port.hasFocus():
            self.port.setValue(settings.server_port)
        self.at_start.setChecked(settings.server_at_start)
        self.other_models.setChecked(settings.server_models)
        self.models.show_lines([(model.name, _state(model)) for model in server.models])
        model = name_of(loaded.target) if loaded else "MODEL"
        context = loaded.context_length if loaded else 4096
        self._offer(client_setups(address, model, key=key or "KEY", context=context))
        requests, clients = server.status.requests, server.status.clients
        self.requests.show_lines([(one.client or _NAMELESS, _progress(one)) for one in requests])
        asked = ", ".join(f"{one.client or 'unnamed'} ({one.requests:,})" for one in clients)
        self.clients.say(f"Programs so far: {asked}." if asked else "Requests appear here.")
        self._tabs.setTabText(0, f"Requests ({len(requests):,})" if requests else "Requests")

    def _offer(self, setups: Sequence[ClientSetup]) -> None:
        """Offer these lines to copy."""
        if tuple(setups) != self._setups:
            self._setups = tuple(setups)
            chosen = self.programs.value or setups[0].name
            self.programs.set_choices(tuple(Choice(one.name, one.name) for one in setups))
            self.programs.set_value(chosen)
            self._show_setup(chosen)

    def _show_setup(self, name: str) -> None:
        for one in self._setups:
            if one.name == name:
                self.where.say(f"{one.where[:1].upper()}{one.where[1:]}.")
                self.lines.setPlainText(one.lines)

    def _use(self, setting: str, value: int) -> None:
        """Keep a setting of the server, which is started again with it."""
        if value != getattr(self._settings, setting):
            setattr(self._settings, setting, value)
            if self._server.on:
                self._server.restart()
            self.refresh()


def _state_line(server: LocalServer) -> tuple[str, Tone]:
    """Return the state of the server, and what programs can use."""
    loaded = server.loaded
    match server.state:
        case ServerState.OFF:
            return "Off. Turn it on to let other programs use your models.", "muted"
        case ServerState.STARTING:
            return "Starting\u2026", "muted"
        case ServerState.ENDING:
            return "Stopping\u2026", "muted"
        case ServerState.FAILED:
            return server.problem, "warning"
        case ServerState.ON:
            models = [target_name(loaded.target)] if loaded else []
            others = len(server.status.models) - (loaded is not None or server.can_wake)
            if others > 0:
                models.append(f"{others} other model{'' if others == 1 else 's'}")
            if models:
                named = " and ".join(models)
                return f"On. Programs on this machine can use {named} with the key.", "good"
            if server.can_wake:
                return "On. The next request loads the model again.", "good"
            return "On. No model is loaded, so requests are refused.", "warning"


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
