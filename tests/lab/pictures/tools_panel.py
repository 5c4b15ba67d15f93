"""Pictures of the panel of tools: empty, with three servers, each kind of row; what adds servers.

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
from app.tools.server_rows import Place, Row, rows_of
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


def shown(setup: Configuration, count: int) -> list[Row]:
    """The rows of the first servers, as they are."""
    servers = list(zip((Server(OWN), *SERVERS), STATES, strict=True))[:count]
    return [row for server, state in servers for row in rows_of(server, state, setup, log=LOG)]


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
    panel.line.say("")
    panel.show()
    panel.show_rows(shown(NONE, 1))
    take("empty", panel)
    panel.show_rows(shown(SETUP, 4))
    take("own", panel)
    for name, place in (
        ("folder", Place(OWN, "folder", SETUP.folders[0])),
        ("tool", Place("files", "tool", "read_text_file")),
        ("changed", Place("files", "tool", "write_file")),
        ("server", Place("files")),
        ("failed", Place("git")),
        ("starting", Place("search")),
    ):
        panel.tree.setCurrentItem(panel.items[place])
        take(name, panel)
    panel.resize(panel.minimumSize())
    panel.tree.setCurrentItem(panel.items[Place("files")])
    take("small", panel)
    programs = ("Claude Desktop", "Claude Desktop", "LM Studio")
    found = list(zip(programs, SERVERS, strict=True))
    add = ServerDialog(found=(), parent=panel)
    add.show()
    take("add", add)
    add.text.setPlainText("npx -y @modelcontextprotocol/server-filesystem ~/Notes")
    take("type", add)
    add.text.setPlainText('{ "mcpServers": {\n  "files": { "command": \n}')
    take("wrong", add)
    add = ServerDialog(found=found, parent=panel)
    add.show()
    first = add.list.topLevelItem(0)
    assert first is not None
    first.setCheckState(0, Qt.CheckState.Checked)
    take("import", add)
    add.text.setPlainText(written(Configuration(SERVERS)))
    take("paste", add)
    edit = ServerDialog(SERVERS[0], found=(), parent=panel)
    edit.show()
    take("edit", edit)
    panel.close()
    panel.deleteLater()


if __name__ == "__main__":
    main()
