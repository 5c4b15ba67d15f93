"""Documents are attached, sent with a message, and shown above it; what was sent stays."""

from pathlib import Path

import pytest

from app.chat.message import MessageWidget
from app.window import Window
from engine.documents.prompt import Sent
from engine.request import ChatMessage
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, Open, Until
from tests.support.app.window_use import answered, send

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.txt"
    path.write_text("The roof leaks.", encoding="utf-8")
    return path


def attach(window: Window, until: Until, *paths: Path) -> None:
    before = len(window.composer.documents.chips)
    window.composer.files_given.emit(list(paths))
    documents = window.composer_controller.documents
    until(
        lambda: (
            not documents.attachments.reading
            and len(window.composer.documents.chips) == before + len(paths)
        )
    )


def asked(window: Window, monkeypatch: pytest.MonkeyPatch) -> list[list[ChatMessage]]:
    """What the engine is asked from now on."""
    seen: list[list[ChatMessage]] = []
    generate = window.engine.generate

    def spy(conversation: str, lines: tuple[ChatMessage, ...], request: object) -> str:
        seen.append(list(lines))
        return generate(conversation, lines, request)  # type: ignore[arg-type]

    monkeypatch.setattr(window.engine, "generate", spy)
    return seen


def question(window: Window) -> MessageWidget:
    widget = window.transcript.messages[0].widget
    assert widget is not None
    return widget


def sent(window: Window, place: int = 0) -> Sent:
    found = window.conversation.branch[place].sent
    assert found is not None
    return found


def test_a_file_is_attached_sent_answered_and_there_when_it_is_opened_again(
    open_window: Open, until: Until, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window()
    seen = asked(window, monkeypatch)
    attach(window, until, file)
    send(window, "What leaks?")
    until(answered(window, 2))
    ((line,),) = seen
    assert line.content == sent(window).text
    assert "The roof leaks." in line.content
    assert line.content.endswith("What leaks?")
    assert window.composer.documents.chips == []
    assert question(window).written == "What leaks?"
    assert [chip.accessibleName() for chip in question(window).documents.chips] == [
        "plan.txt, whole"
    ]
    record = window.conversation.record
    assert record is not None
    window.menus.actions["new"].trigger()
    window.show_conversation(record.id)
    until(lambda: len(window.transcript.messages) == 2)
    send(window, "Anything else?")
    until(answered(window, 4))
    assert seen[1][0] == line, "it is never made anew"
