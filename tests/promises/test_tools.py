"""From the panel to an answer, with real servers: a program, and the tools that come along."""

import json
import sys

import psutil
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.chat.approval_card import ApprovalCard
from app.tools.panel import ToolsPanel
from app.tools.server_rows import Place
from engine.tools.client import host_command
from engine.tools.protocol import OWN
from tests.support.app.fake_tools import called
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import (
    ROOT,
    events_file,
    toolbox,
)
from tests.support.app.window_use import send

SERVER = ROOT / "tests" / "support" / "tools" / "scripted_server.py"
KEY = "a-key-that-nobody-may-see"
LAST = "The sum is 42, and the echo came back."


def switch_on(panel, server, tool, until):
    place = Place(server, "tool", tool)
    until(lambda: place in panel.items)
    panel.items[place].setCheckState(0, Qt.CheckState.Checked)


def allow(window, until):
    """Press the button that runs a call once, as the user does: until the card has gone."""

    def cards():
        found = window.findChildren(ApprovalCard)
        return [card for card in found if card.isVisible() and card.buttons["once"].isEnabled()]

    until(cards)
    card = cards()[0]

    def pressed():
        QTest.mouseClick(card.buttons["once"], Qt.MouseButton.LeftButton)
        return card not in cards()

    until(pressed)


def test_a_model_acts_with_what_was_switched_on(open_window, until, tmp_path, monkeypatch):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    entry = {"command": sys.executable, "args": [str(SERVER), "well"], "env": {"API_KEY": KEY}}
    (tmp_path / "tools.json").write_text(json.dumps({"mcpServers": {"scripted": entry}}))
    steps = (
        called("I add first.", ("calculate", '{"expression": "40 + 2"}')),
        called("And now the echo.", ("echo", '{"text": "<b>hello</b>"}')),
        made_trace(LAST),
    )
    files = [events_file(tmp_path, step, name=f"{n}.jsonl") for n, step in enumerate(steps)]
    played = " ".join(f"take play:{file}" for file in files)
    box = toolbox(tmp_path, host_command())
    window = open_window(f"ready take load {played} serve", tools=box)
    until(lambda: window.loader.loaded and box.set_up)
    assert box.process.pid == 0, "nothing is on"
    window.menus.actions["tools"].trigger()
    (panel,) = window.findChildren(ToolsPanel)
    switch_on(panel, OWN, "calculate", until)
    switch_on(panel, "scripted", "echo", until)
    until(lambda: len(box.offered()) == 2)
    panel.close()
    children = psutil.Process(box.process.pid).children(recursive=True)
    send(window, "What is 40 + 2? Then say hello.")
    for _ in range(2):
        allow(window, until)
    until(lambda: len(window.conversation.branch) == 2)
    id = window.conversation.branch[-1].id
    until(lambda: window.store.message(id).result().state == "complete")
    answer = window.store.message(id).result()
    calls = [call for step in answer.steps for call in step.calls]
    assert [(call.server, call.tool, call.state) for call in calls] == [
        (OWN, "calculate", "done"),
        ("scripted", "echo", "done"),
    ]
    assert "42" in calls[0].result
    assert calls[1].result == "<b>hello</b>"
    assert answer.content.endswith(LAST)
    window.close()
    assert box.process.pid == 0
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == [], "servers end with the window"
    said = (path for path in tmp_path.rglob("*.log"))
    assert not any(KEY in path.read_text(errors="replace") for path in said)
