"""Pictures of notes on every part of a document: offered, made, stopped, and answered from."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel

from app.settings_dialog import SettingsDialog
from engine.events import Done, Stats, Text
from tests.support.app.attached import attach
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file, fake_host, make_window
from tests.support.documents.pdfs import lines, pdf

Save = Callable[[str, Callable[[str], None]], None]

_QUESTION = "List all dates of the lease, and what is due on them."
_CLAUSE = "The tenant pays the rent of clause {} on the first day of each month."
_NOTES = (
    "- First day of each month: the rent is due (clauses 1.1 to 7.16).",
    "Nothing.",
    "- First day of each month: the rent is due (clauses 15.1 to 21.16).\n"
    "- 1 November: the heating is looked after (clause 17.4).",
)
_ANSWER = (
    "The lease names two dates:\n\n"
    "- **The first day of each month:** the rent is due.\n"
    "- **1 November:** the heating is looked after, once a year.\n"
)
_PARTS = 5


def draw_sections(
    application: QApplication,
    folder: Path,
    save: Save,
    until: Callable[[Callable[[], object]], None],
    *,
    dark: bool,
) -> None:
    """One long PDF, asked all about."""
    home = folder / "sections"
    home.mkdir()
    notes = [
        events_file(home, [Text("", note), Done("", "stop", Stats())], name=f"{n}.jsonl")
        for n, note in enumerate(_NOTES)
    ]
    answer = events_file(home, made_trace(_ANSWER), name="answer.jsonl")
    cancelled = events_file(home, [Done("", "cancelled", Stats())], name="cancelled.jsonl")
    go_on, stopped = home / "go_on", home / "stopped"
    first = " ".join(f"take play:{note}" for note in notes[:2])
    rest = f"play:{notes[2]} " + f"take play:{notes[0]} " * (_PARTS - 3)
    steps = (
        f"ready take load take reading:2000:2000 play:{answer} {first} take reading:700:3000 "
        f"wait:{go_on} {rest} take play:{answer} "
        f"{first} take reading:2500:3000 wait:{stopped} play:{cancelled} serve"
    )
    window = make_window(application, home, fake_host(home, steps), dark=dark)
    window.resize(1000, 760)
    window.show()
    window.begin()
    until(lambda: window.loader.loaded is not None)
    window.sides.switch("rounds")
    pages = (lines([_CLAUSE.format(f"{page}.{n}") for n in range(1, 17)]) for page in range(1, 31))
    lease = home / "lease.pdf"
    lease.write_bytes(pdf(*pages))

    def saved(name: str) -> None:
        QTest.qWait(300)
        window.transcript.write_all()
        save(f"sections-{name}", lambda path: window.grab().save(path))

    def press(name: str) -> None:
        row = window.transcript.messages[-1]
        until(lambda: row.offer[0])
        window.transcript.write_all()
        saved(name)
        assert row.widget is not None
        row.widget.offer.button.click()

    window.composer.set_text(_QUESTION)
    attach(window, until, lease)
    window.composer.send()
    until(lambda: window.transcript.messages and not window.conversation.busy)
    press("under-an-answer")
    until(lambda: "part 3" in str(window.transcript.messages[-1].ahead))
    saved("progress")
    widget = window.transcript.messages[-1].widget
    assert widget is not None
    widget.notes.button.click()
    saved("progress-notes")
    go_on.touch()
    until(lambda: not window.conversation.busy)
    saved("answer-notes")
    widget = window.transcript.messages[-1].widget
    assert widget is not None
    widget.notes.button.setChecked(False)
    saved("answer")
    window.menus.actions["new"].trigger()
    window.composer.set_text(_QUESTION)
    attach(window, until, lease)
    until(lambda: window.composer.documents.offer.button.text())
    saved("composer")
    window.composer.documents.offer.button.click()
    until(lambda: "part 3" in str(window.transcript.messages[-1].ahead))
    window.conversation.stop()
    stopped.touch()
    until(lambda: window.transcript.messages[-1].offer[0])
    saved("stopped")
    window.store.kept = home / "kept"
    (window.store.kept / "some").mkdir(parents=True)
    with (window.store.kept / "some" / "a.safetensors").open("wb") as file:
        file.truncate(1_340_000_000)
    window.menus.actions["settings"].trigger()
    (dialog,) = window.findChildren(SettingsDialog)
    until(lambda: any(label.text().endswith("kept now.") for label in dialog.findChildren(QLabel)))
    QTest.qWait(300)
    save("settings", lambda path: dialog.grab().save(path))
    window.close()
