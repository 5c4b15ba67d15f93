"""Shows the local server in its panel, and carries out the panel's commands.

Knows the server, the panel and the loaded model; no process, and no pixels.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.models.formatting import target_name
from app.server.local_server import LocalServer, ServerState
from app.server.panel import ServerPanel
from app.settings import Settings
from app.theme.labels import Tone
from engine.process.protocol import Loaded
from engine.server.clients import client_setups
from engine.server.target import name_of
from models.errors import Problem

_NONE_ASKED = "Requests appear here."
_OFF = "Off. Turn it on to let other programs use your models."


class ServerController(QObject):
    """Belongs to one panel."""

    def __init__(
        self,
        panel: ServerPanel,
        server: LocalServer,
        settings: Settings,
        *,
        loaded: Callable[[], Loaded | None],
    ) -> None:
        super().__init__(panel)
        self._panel, self._server, self._settings, self._loaded = panel, server, settings, loaded
        panel.switched.connect(server.switch)
        panel.restart_asked.connect(server.restart)
        panel.port_chosen.connect(self._use_port)
        panel.at_start_chosen.connect(self._use_at_start)
        panel.models_chosen.connect(self._use_models)
        server.changed.connect(self.show)
        self.show()

    def show(self) -> None:
        """Show all as it is now."""
        server, panel, loaded = self._server, self._panel, self._loaded()
        line, tone = self._line()
        failed = server.state is ServerState.FAILED
        panel.show_state(line, tone, on=server.on, can_restart=failed and server.on)
        address = server.status.address or f"http://127.0.0.1:{self._settings.server_port}"
        try:
            key = server.key
        except Problem:
            key = ""  # the line says it, once the server is on
        panel.show_place(
            address=f"{address}/v1",
            key=key,
            port=self._settings.server_port,
            at_start=self._settings.server_at_start,
        )
        panel.show_models(server.models, others=self._settings.server_models)
        model = name_of(loaded.target) if loaded else "MODEL"
        context = loaded.context_length if loaded else 4096
        panel.show_setups(client_setups(address, model, key=key or "KEY", context=context))
        asked = ", ".join(
            f"{one.client or 'unnamed'} ({one.requests:,})" for one in server.status.clients
        )
        panel.show_requests(
            server.status.requests,
            asked=f"Programs so far: {asked}." if asked else _NONE_ASKED,
        )

    def _line(self) -> tuple[str, Tone]:
        server = self._server
        match server.state:
            case ServerState.OFF:
                return _OFF, "muted"
            case ServerState.STARTING:
                return "Starting\u2026", "muted"
            case ServerState.ENDING:
                return "Stopping\u2026", "muted"
            case ServerState.FAILED:
                return server.problem, "warning"
            case ServerState.ON:
                loaded = self._loaded()
                own = loaded is not None or server.can_wake
                others = len(server.status.models) - own
                if others > 0:
                    named = f"{target_name(loaded.target)} and " if loaded else ""
                    return (
                        f"On. Programs on this machine can use {named}{others} other "
                        f"model{'' if others == 1 else 's'} with the key.",
                        "good",
                    )
                if loaded is None and self._server.can_wake:
                    return "On. The next request loads the model again.", "good"
                if loaded is None:
                    return "On. No model is loaded, so requests are refused.", "warning"
                name = target_name(loaded.target)
                return f"On. Programs on this machine can use {name} with the key.", "good"

    def _use_port(self, port: int) -> None:
        if port != self._settings.server_port:
            self._settings.server_port = port
            if self._server.on:
                self._server.restart()
            self.show()

    def _use_models(self, others: bool) -> None:
        if others != self._settings.server_models:
            self._settings.server_models = others
            if self._server.on:
                self._server.restart()
            self.show()

    def _use_at_start(self, on: bool) -> None:
        self._settings.server_at_start = on
