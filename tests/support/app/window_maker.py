"""Makes windows whose engine is the fake host, or any other, and whose data is in one folder."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication

from app.application import Application
from app.chat.tool_runner import ToolRunner
from app.commands import CommandRunner
from app.conversations.store import Store
from app.documents.attachments import Read
from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess, Patience
from app.models.library import Library
from app.models.loader import ModelLoader
from app.server.local_server import LocalServer
from app.settings import Settings
from app.theme.style import Theme
from app.tools.tool_process import ToolProcess
from app.tools.toolbox import Toolbox
from app.window import Window
from app.windows import Windows
from engine.documents.reading import read_document
from engine.events import Event, to_json
from tests.support.app.fake_commands import FakeCommandRunner, OpeningCommands

# Of the platform without a screen, whatever the window does.
OFFSCREEN_COMPLAINTS = ("propagateSizeHints", "does not support raise", "grabbing the keyboard")
BARE_PYTHON = (sys.executable, "-I", "-S")  # with the standard library alone: it starts at once
FAKE_HOST = Path(__file__).with_name("fake_host.py")
FAKE_TOOLS_HOST = FAKE_HOST.with_name("fake_tools_host.py")
FAKE_SERVER = FAKE_HOST.with_name("fake_server.py")
ROOT = Path(__file__).parents[3]


def scripted(program: Path, folder: Path, lives: str, steps: str) -> tuple[str, ...]:
    """The command for a fake process; `steps` as it has them, its lives counted in `folder`."""
    return (*BARE_PYTHON, str(program), str(folder / lives), *steps.split())


def fake_host(folder: Path, steps: str) -> tuple[str, ...]:
    return scripted(FAKE_HOST, folder, "lives", steps)


def fake_server(folder: Path, steps: str) -> tuple[str, ...]:
    return scripted(FAKE_SERVER, folder, "server lives", steps)


def fake_tools_host(folder: Path, steps: str) -> tuple[str, ...]:
    return scripted(FAKE_TOOLS_HOST, folder, "tools lives", steps)


def toolbox(folder: Path, command: Sequence[str]) -> Toolbox:
    """The tools that are set up in a folder, run by this command."""
    process = ToolProcess(EngineLog(folder / "log", name="tools"), command=command)
    return Toolbox(folder / "tools.json", process, logs=folder / "logs")


def events_file(folder: Path, events: Sequence[Event], *, name: str = "events.jsonl") -> Path:
    """A file of events, for the fake host to play."""
    path = folder / name
    path.write_text("".join(to_json(event) + "\n" for event in events), encoding="utf-8")
    return path


def make_windows(
    application: QApplication,
    folder: Path,
    command: Sequence[str],
    *,
    target: Path = Path("/models/tiny"),
    loading: CommandRunner | None = None,
    patience: Patience | None = None,
    dark: bool = False,
    commands: CommandRunner | None = None,
    server: Sequence[str] = ("no", "such", "server"),
    read: Read = read_document,
    cluster: CommandRunner | None = None,
    tools: ToolRunner | None = None,
) -> Windows:
    """What opens windows on the data in `folder`. `target` is what is taken for the starter model,
    unless the commands `loading` prepare it, and `commands`, which otherwise say nothing, for those
    on models; `server` is the command that starts a local one; `read` reads files that are
    attached; `cluster` runs commands on several Macs, which otherwise say nothing; `tools` runs
    what models call, which otherwise is nothing."""
    settings = Settings(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))
    engine = EngineProcess(
        EngineLog(folder / "log"), command=command, patience=patience, delays_seconds=(0.05,)
    )
    loader = ModelLoader(engine, settings, commands=loading or OpeningCommands(lambda text: target))
    return Windows(
        Application(
            Store.open(folder / "conversations.sqlite"),
            engine,
            loader=loader,
            settings=settings,
            theme=Theme(application, settings, dark=lambda: dark),
            library=Library(commands or FakeCommandRunner()),
            server=LocalServer(
                engine,
                loader,
                EngineLog(folder / "log", name="server"),
                settings=settings,
                key_file=folder / "server-key",
                command=server,
            ),
            tools=tools or toolbox(folder, ("no", "such", "tools")),
            read=read,
            cluster=cluster or FakeCommandRunner(),
        )
    )


def make_window(
    application: QApplication, folder: Path, command: Sequence[str], **options: Any
) -> Window:
    """The first of these windows; `options` as for `make_windows`."""
    return make_windows(application, folder, command, **options).restore()[0]


def windows_of(window: Window) -> Windows:
    """All windows of its process."""
    (windows,) = window.application.findChildren(Windows)
    return windows
