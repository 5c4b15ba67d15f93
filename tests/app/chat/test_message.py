"""A message: its text, its actions, its ending, what is copied."""

from base64 import b64decode
from dataclasses import fields, replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.chat.message import MessageWidget
from app.chat.message_view import Ending, MessageCommands
from app.conversations.answer_figures import AnswerFigures
from app.markdown.formulas import FormulaLayouts, FormulaOutline
from app.theme.hover_button import HoverButton


@pytest.fixture
def asked():
    """The commands that were given, each with its values."""
    return []


@pytest.fixture
def commands(asked):
    def given(name):
        return lambda *values: asked.append((name, *values))

    return MessageCommands(**{field.name: given(field.name) for field in fields(MessageCommands)})


@pytest.fixture
def make(qtbot, formats, commands):
    windows = []

    def made(text, *, role="assistant"):
        window = QWidget()
        qtbot.addWidget(window)
        windows.append(window)
        message = MessageWidget(role, id=7, name="Qwen", formats=formats, commands=commands)
        message.setParent(window)
        window.resize(700, 600)
        message.resize(600, 400)
        window.show()
        message.append(text)
        while message.step():
            pass
        message.refresh()
        return message

    return made


def show(message, **changes):
    message.show_view(replace(message.shown, **changes))


def button(message, words):
    return next(b for b in message.findChildren(HoverButton) if words in b.accessibleName())


def texts(message):
    return [label.text() for label in message.findChildren(QLabel) if label.isVisible()]


@pytest.mark.parametrize(
    ("role", "shown"), [("assistant", "a\nb [U+202E]"), ("user", "# a\n**b** [U+202E]")]
)
def test_markdown_is_for_the_model_only(make, role, shown):
    assert make("# a\n**b** \u202e\n", role=role).view.toPlainText() == shown


def test_copying_the_message_and_its_code(make):
    text = "# a\n**b**\u202e <i>\n\n```py\na = 1\n```\n\n```\nb\n```\n"
    message = make(text)
    told = []
    message.copied.connect(told.append)
    button(message, "Copy the message").click()
    assert QGuiApplication.clipboard().text() == text.replace("\u202e", "")
    assert message.written == text
    assert [b for b in message.buttons if b.acknowledged] == [button(message, "Copy the message")]
    button(message, "this code").click()
    assert QGuiApplication.clipboard().text() == "a = 1"
    assert len(told) == 2


def test_a_message_has_its_actions_and_an_answer_with_rounds_those_of_its_show(make, asked):
    message, question = make("a"), make("b", role="user")
    button(message, "Write this answer again").click()
    button(question, "Edit").click()
    show(message, branch=(2, 3))
    assert "2/3" in texts(message)
    button(message, "Previous version").click()
    button(message, "Next version").click()
    show(message, branch=(3, 3), ending=Ending())
    assert not button(message, "Next version").isEnabled()
    names = ("Show how each word was written", "Replay", "Compare speed")
    assert not any(button(message, name).isVisible() for name in names), "it has no rounds"
    show(message, figures=AnswerFigures(10, 1.0, 0.1, "end"))
    for name in names:
        assert button(message, name).isVisible()
        button(message, name).click()
    given = ("regenerate", 7), ("edit", 7), ("show_version", 7, 1), ("show_version", 7, 3)
    assert asked == [*given, ("show_tokens", 7, True), ("replay", 7), ("race", 7)]


def test_the_line_of_figures_begins_with_what_drafting_gained(make):
    message = make("a")
    show(message, ending=Ending())
    line = message.figures_line
    assert line.text() == ""
    gain, free = "1.6 times as fast as plain", "44 of 84 tokens came free"
    speed, tokens = "8.4 tokens/s", "84 tokens"
    own = AnswerFigures(84, 10.0, None, "end")
    for figures, good, rest in (
        (replace(own, times_plain=1.63, accepted=44), [gain, free], [speed]),
        (replace(own, times_plain=1.63), [gain], [speed, tokens]),  # of an earlier version
        (replace(own, accepted=44), [free], [speed]),
        (replace(own, times_plain=1.04, accepted=44), [], [speed, tokens]),  # nothing to boast of
        (replace(own, times_plain=0.84), [], ["0.8 times as fast as plain", speed, tokens]),
        (replace(own, first_token_seconds=0.423), [], [speed, tokens, "first after 0.42 s"]),
        (AnswerFigures(1412, 0.0, None, ""), [], ["1,412 tokens"]),
    ):
        show(message, figures=figures)
        assert line.text().split(" \u00b7 ") == [*good, *rest]
        assert line.good == " \u00b7 ".join(good)
    for ending, more in (("complete", 1), ("length", 0)):
        show(message, figures=replace(own, stop_reason="stop string"))
        show(message, ending=Ending(ending))
        assert len(line.text().split(" \u00b7 ")) == 2 + more, "or it is said above it already"


def entries(menu):
    return {action.text(): action for action in menu.actions() if not action.isSeparator()}


def test_the_menus_of_an_answer_and_of_a_question(make, asked):
    message = make("# Head\n\none **two** three\nfour\n")
    found = entries(message.menu(QPoint()))
    assert not found["Copy"].isEnabled()
    found["Regenerate"].trigger()
    found["Copy answer"].trigger()
    copied = QGuiApplication.clipboard()
    assert copied.text() == message.written
    assert "<strong>two</strong>" in copied.mimeData().html()
    message.view.setTextCursor(message.view.document().find("two"))
    show(message, ending=Ending("length"))
    found = entries(message.menu(QPoint()))
    assert "Continue" in found
    found["Copy"].trigger()
    assert QGuiApplication.clipboard().text() == "two"
    found["Copy as Markdown"].trigger()
    assert QGuiApplication.clipboard().text() == "one **two** three"
    question = make("b", role="user")
    for entry in ("Edit", "Duplicate conversation up to here", "Delete"):
        entries(question.menu(QPoint()))[entry].trigger()
    assert asked == [("regenerate", 7), ("edit", 7), ("duplicate", 7), ("delete", 7)]
    for part in (message.view.viewport(), message.figures_line):
        place = QPoint(3, 3)
        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, part.mapToGlobal(place))
        QApplication.sendEvent(part, event)
        opened = QApplication.activePopupWidget()
        assert "Regenerate" in entries(opened), "its own menu, anywhere"
        opened.close()


def test_a_link_and_the_picture_of_a_formula_can_be_copied(make, qtbot, formats):
    message = make("[a link](https://example.org/x)")
    view = message.view
    place = view.cursorRect(view.document().find("link")).center()
    found = entries(message.menu(view.viewport().mapToGlobal(place)))
    found["Copy link address"].trigger()
    assert QGuiApplication.clipboard().text() == "https://example.org/x"
    outline = FormulaOutline(0.5, 0.5, 0.0, [("M 0 0 L 50 -50 L 50 0 Z", 0.0, "")])
    formats.formulas = FormulaLayouts()
    formats.formulas.find = {"$x$": outline}.get
    message = MessageWidget("assistant", name="Qwen", formats=formats)
    qtbot.addWidget(message)
    message.append("It is $x$, not $y$.")
    message.copy()
    copied = QGuiApplication.clipboard().mimeData().html()
    before, _, encoded = copied.partition('src="data:image/png;base64,')
    picture = QImage.fromData(b64decode(encoded.partition('"')[0]))
    assert before.endswith("It is <img alt='$x$' width='8' height='8' ".replace("'", '"'))
    assert (picture.pixelColor(20, 20).alpha(), picture.pixelColor(2, 2).alpha()) == (255, 0)
    assert '<code class="formula">$y$</code>' in encoded


CUT = ("interrupted", "cancelled", "length", "failed")


@pytest.mark.parametrize("state", CUT)
def test_an_answer_that_was_cut_says_how_and_can_be_gone_on_with(make, asked, state):
    answer, empty, said = make("a"), make(""), make("a", role="user")
    show(answer, ending=Ending("complete"))
    before = texts(answer)
    assert not answer.go_on.isVisible()
    for message in (answer, empty, said):
        show(message, ending=Ending(state))
    (mark,) = set(texts(answer)) - set(before)
    assert [Ending(other).text for other in CUT].count(mark) == 1
    shown = [message.go_on.isVisible() for message in (answer, empty, said)]
    assert shown == [True, state == "failed", False]
    answer.go_on.click()
    empty.go_on.click()
    assert asked == [("go_on", 7), ("regenerate", 7)]
    show(answer, ending=Ending(state, "Out of <b>memory</b>.", "Choose a smaller pair."))
    assert ("Out of <b>memory</b>. Choose a smaller pair." in texts(answer)) == (state == "failed")
    formats = {label.textFormat() for label in answer.findChildren(QLabel)}
    assert formats == {Qt.TextFormat.PlainText}
