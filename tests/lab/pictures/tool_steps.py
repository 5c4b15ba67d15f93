"""Pictures of answers that call tools: asked about, running, in three steps, refused and failed."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.markdown.asides import number_of
from engine.tools.protocol import Offered
from engine.tools.turn import Decision
from tests.support.app.fake_tools import READ, WRITE, FakeTools, called
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file, fake_host, make_window

Save = Callable[[str, Callable[[str], None]], None]

_CALCULATE = Offered("Slipstream", "calculate", schema='{"type": "object"}', read_only=True)
_QUESTION = "What do we still owe for the heating, by the invoices in my notes?"
_NOTES = (
    """# Heating
2026-03-02  Invoice 114, new pump: 1,240.00 (paid 2026-03-20)
2026-05-11  Invoice 131, pipes: 860.50, of which 400.00 are paid
2026-09-30  Invoice 170, yearly service: 145.00
"""
    + "".join(f"2025-{n:02}-01  Gas: {80 + n}.20\n" for n in range(1, 13)) * 3
)
_ANSWER = """Two invoices are open:

| invoice | for | open |
|---------|-----|-----:|
| 131 | pipes | 460.50 |
| 170 | yearly service | 145.00 |

Together **605.50**. Invoice 114 was paid on 20 March.
"""


def draw_tools(
    application: QApplication,
    folder: Path,
    save: Save,
    until: Callable[[Callable[[], object]], None],
    *,
    dark: bool,
) -> None:
    """One conversation with tools, whose answers take several steps."""
    home = folder / "tools"
    home.mkdir()
    steps = (
        called(
            "I look at your notes first.\n",
            ("read_file", '{"path": "notes/heating.md"}'),
            thought="The invoices are in the notes. I have to read them before I can add anything.",
        ),
        called("", ("calculate", '{"expression": "860.50 - 400 + 145"}'),
               ("calculate", '{"expression": "1240 - 1240"}')),
        made_trace(_ANSWER),
        called(
            "",
            ("write_file", '{"path": "notes/open.md", "content": "131: 460.50\\n170: 145.00"}'),
            ("read_file", '{"path": "notes/2024.md"}'),
        ),
        made_trace("I could not write the file, and there are no notes of 2024."),
    )  # fmt: skip
    files = (events_file(home, step, name=f"{n}.jsonl") for n, step in enumerate(steps))
    played = " ".join(f"take play:{file}" for file in files)
    tools = FakeTools(READ, WRITE, _CALCULATE)
    command = fake_host(home, f"ready take thinks {played} serve")
    window = make_window(application, home, command, dark=dark, tools=tools)
    window.resize(1000, 760)
    window.show()
    window.begin()
    until(lambda: window.loader.loaded is not None)

    def saved(name: str) -> None:
        QTest.qWait(300)
        window.transcript.write_all()
        save(f"tools-{name}", lambda path: window.grab().save(path))

    def decide(decision: Decision) -> None:
        until(lambda: window.transcript.messages[-1].approval is not None)
        QTest.qWait(100)
        widget = window.transcript.messages[-1].widget
        assert widget is not None
        assert widget.approval is not None
        widget.approval.buttons[decision].click()

    def until_called(count: int) -> None:
        until(lambda: len(tools.calls) >= count)

    window.composer.set_text(_QUESTION)
    window.composer.send()
    until(lambda: window.transcript.messages and window.transcript.messages[-1].approval)
    saved("approval")
    widget = window.transcript.messages[-1].widget
    assert widget is not None
    assert widget.approval is not None
    kept = widget.approval.arguments.toPlainText()
    widget.approval.arguments.setPlainText('{\n  "path": 7\n}')
    saved("wrong-arguments")
    widget.approval.arguments.setPlainText(kept)
    decide("once")
    until_called(1)
    tools.progress(1, 4, "reading")
    saved("running")
    tools.end(_NOTES)
    until(lambda: window.transcript.messages[-1].approval is not None)
    saved("several")
    decide("always")
    until_called(3)
    tools.end("605.5", call=1)
    tools.end("0", call=2)
    until(lambda: not window.conversation.busy)
    saved("answer")
    view = window.transcript.messages[-1].view
    view.text.fold(number_of(0))
    while view.step():
        pass
    saved("unfolded")
    view.text.fold(number_of(0))
    while view.step():
        pass
    window.composer.set_text("Write the open ones to a file. And what was it in 2024?")
    window.composer.send()
    decide("refuse")
    decide("once")
    until_called(4)
    tools.end("notes/2024.md: there is no such file", ending="failed")
    until(lambda: not window.conversation.busy)
    saved("refused-and-failed")
    menu = window.composer.tools.choices_menu()
    menu.ensurePolished()
    save("tools-menu", lambda path: menu.grab().save(path))
    menu.close()
    window.close()
