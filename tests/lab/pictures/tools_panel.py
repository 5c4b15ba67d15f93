"""Pictures of the panel of tools: empty, with three servers, a page of each, and what adds servers.

python -m tests.lab.pictures.tools_panel FOLDER
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.settings import Settings
from app.theme.style import Theme
from app.tools.panel import ToolsPanel
from app.tools.server_dialog import ServerDialog
from app.tools.server_now import ServerNow
from engine.tools.configuration import Configuration, written
from engine.tools.protocol import OWN, Offered, Server, State

PATH = {"type": "string", "description": "The path of the file."}
SCHEMA = json.dumps({"type": "object", "properties": {"path": PATH}, "required": ["path"]})
OURS = tuple(
    Offered(OWN, name, description=words, schema=SCHEMA, read_only=True)
    for name, words in (
        ("list_files", "List a folder that the user has shared."),
        ("read_file", "Read a file in a shared folder as text, also a PDF, Word or Excel file."),
        ("calculate", "Calculate exactly. Operators: + - * / // % **. Functions: sqrt, round."),
        ("today", "Tell the date, the weekday, the time and the zone."),
    )
)
READ = (
    "Read the complete contents of a file from the file system as text. Handles various text "
    "encodings and says in detail what is wrong if the file cannot be read. Use this tool to "
    "examine the contents of a single file. Only works within allowed directories."
)
FILES = tuple(
    Offered("files", name, description=words, schema=SCHEMA, read_only=reads)
    for name, words, reads in (
        ("read_text_file", READ, True),
        ("write_file", "Create a new file, or overwrite an existing file.", False),
        ("edit_file", "Make line-based edits to a text file.", False),
        ("list_directory", "Get a detailed listing of all files in a path.", True),
    )
)
WROTE = replace(FILES[1], description="Create a new file. Never overwrites one.")
SERVERS = (
    Server(
        "files",
        "npx",
        ("-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Notes"),
        {"API_KEY": "a-secret-key"},
    ),
    Server("git", "uvx", ("mcp-server-git",)),
    Server("search", url="https://search.example/mcp", headers={"Authorization": "Bearer abc123"}),
)
STATES = (
    State(OWN, "running", OURS),
    State("files", "running", FILES, "secure-filesystem 0.2.0", "Ask before you write."),
    State(
        "git",
        "failed",
        message="There is no program uvx.",
        remedy="Install uv, or write the whole path of the program.",
    ),
    State("search", "starting"),
)
NONE = Configuration()
SETUP = Configuration(
    SERVERS,
    trusted=frozenset({"files"}),
    folders=("/Users/me/Documents/Notes", "/Users/me/Recipes"),
).switched(*OURS[:3], FILES[0], FILES[3], WROTE, on=True)
LOG = "-- started, process 4711\nSecure filesystem server running on stdio\n"


def shown(setup: Configuration, count: int) -> list[ServerNow]:
    """The first servers, as they are."""
    before = {("files", "write_file"): WROTE}
    servers = (Server(OWN), *SERVERS)
    return [
        ServerNow(server, state, setup, before, "" if server.name == OWN else LOG)
        for server, state in list(zip(servers, STATES, strict=True))[:count]
    ]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from app.start import make_application

    application = make_application(["pictures"])
    for dark in (False, True):
        with tempfile.TemporaryDirectory() as home:
            stored = QSettings(f"{home}/settings.ini", QSettings.Format.IniFormat)
            theme = Theme(application, Settings(stored), dark=lambda dark=dark: dark)
            draw(lambda name, part, dark=dark: save(folder, name, part, dark=dark))
            theme.deleteLater()


def save(folder: Path, name: str, part: QWidget, *, dark: bool) -> None:
    QTest.qWait(200)
    part.grab().save(str(folder / f"tools-panel-{name}-{'dark' if dark else 'light'}.png"))


def draw(take: Callable[[str, QWidget], None]) -> None:
    """The panel and its dialogs, in each state."""
    panel = ToolsPanel()
    panel.say("")
    panel.show()
    panel.show_servers(shown(NONE, 1))
    take("empty", panel)
    panel.show_servers(shown(SETUP, 4))
    take("own", panel)
    panel.choose("files")
    take("page", panel)
    row = panel.page.tools.rows["write_file"]
    row.more.click()
    QTest.qWait(100)
    panel.page.tools.ensureWidgetVisible(row)
    take("changed", panel)
    panel.page.tabs.setCurrentIndex(2)
    take("log", panel)
    for name in ("git", "search"):
        panel.choose(name)
        take(name, panel)
    panel.resize(panel.minimumSize())
    panel.choose("files")
    take("small", panel)
    found = {"Claude Desktop": SERVERS[:2], "LM Studio": SERVERS[2:]}
    add = ServerDialog(found=found, parent=panel)
    edit = ServerDialog(SERVERS[0], found={}, parent=panel)
    add.show()
    add.list.item(0).setCheckState(Qt.CheckState.Checked)
    take("import", add)
    add.tabs.setCurrentIndex(1)
    add.paste.setPlainText('{ "mcpServers": {\n  "files": { "command": \n}')
    take("wrong", add)
    add.paste.setPlainText(written(Configuration(SERVERS)))
    take("paste", add)
    add.tabs.setCurrentIndex(0)
    take("type", add)
    edit.show()
    take("edit", edit)
    panel.close()
    panel.deleteLater()


if __name__ == "__main__":
    main()
