"""What has the focus can be seen and is told to a screen reader, as answers are; Tab comes by
everything once; text can be seen on its ground."""

from itertools import groupby

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QPalette, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget

from app.chat.announce import LONGEST, Announcer
from app.theme.labels import ElidedLabel, PartsLabel, StatusLine, ToneLabel, plain_label
from app.theme.palette import DARK, LIGHT, contrast
from app.theme.style import qt_palette
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, events_file
from tests.support.app.window_use import answered, send

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
TEXT = "Two blocks:\n\n```python\nprint(1)\n```\n\nand another:\n\n```\nb\n```\n\nThat is all.\n"


@pytest.fixture
def window(open_window, until, tmp_path):
    """With two questions and answers, a notice, an undo bar, and something in the composer."""
    path = events_file(tmp_path, made_trace(TEXT))
    window = open_window(f"ready take load take play:{path} take play:{path} take rest")
    window.resize(1500, 1200)
    window.menus.actions["rounds"].trigger()
    window.activateWindow()
    until(lambda: window.loader.loaded)
    for number in (1, 2):
        send(window, f"Question {number}")
        until(answered(window, 2 * number))
    window.transcript.write_all()
    window.composer.set_text("unsent")
    window.notices.say("problem", "It broke.", "warning")
    until(lambda: window.rounds.panel.stats.rounds)
    return window


def interfaces(of):
    """This one and all below it."""
    children = (of.child(number) for number in range(of.childCount()))
    return [of, *(found for child in children if child for found in interfaces(child))]


def stops(window, key=Qt.Key.Key_Tab):
    """Where Tab stops, from the composer on, once around."""
    window.composer.field.setFocus()
    found = []
    while (part := QApplication.focusWidget()) not in found:
        found.append(part)
        QTest.keyClick(part, key)
    return found


def picture(part):
    """The part of the window around it."""
    window = part.window()
    box = QRect(part.mapTo(window, QPoint(0, 0)), part.size()).adjusted(-16, -40, 16, 16)
    return window.grab(box & window.rect()).toImage()


def test_tab_and_arrows_lead_everywhere_where_the_focus_has_a_name_and_shows(window):
    areas = {
        "toolbar": window.pair_bar,
        "sidebar": window.sidebar,
        "messages": window.transcript,
        "notices": window.notices,
        "composer": window.composer,
        "rounds": window.rounds,
    }

    def area(part):
        return next(name for name, area in areas.items() if area.isAncestorOf(part))

    order = ["composer", "rounds", "sidebar", "toolbar", "messages", "notices"]
    back = [order[0], *reversed(order[1:])]
    for key, there in ((Qt.Key.Key_Tab, order), (Qt.Key.Key_Backtab, back)):
        reached = stops(window, key)
        found = [name for name, _ in groupby(map(area, reached))]
        # The composer has two stops, and either way once around begins at the first.
        assert found[: len(order)] == there
        assert found[len(order) :] in ([], [order[0]])
    inside = [part for part in reached if window.transcript.isAncestorOf(part)]
    assert [part.accessibleName() for part in inside] == ["Tiny: message", "You: message"] * 2
    focusable = []
    for interface in interfaces(QAccessible.queryAccessibleInterface(window)):
        part = interface.object()
        if not isinstance(part, QWidget) or not part.isVisible():
            continue
        if part.focusPolicy() is not Qt.FocusPolicy.NoFocus or isinstance(part, QAbstractButton):
            focusable.append((type(part).__name__, interface.text(QAccessible.Text.Name)))
    assert len(focusable) > 20
    assert [kind for kind, name in focusable if not name] == []
    unseen = []
    for part in reached:
        window.setFocus()
        without = picture(part)
        part.setFocus(Qt.FocusReason.ShortcutFocusReason)
        if picture(part) == without:
            unseen.append((type(part).__name__, part.accessibleName()))
    assert unseen == []

    def press(key):
        QTest.keyClick(QApplication.focusWidget(), key)
        return QApplication.focusWidget()

    view = window.transcript.messages[1].view
    view.setFocus(Qt.FocusReason.TabFocusReason)
    view.moveCursor(QTextCursor.MoveOperation.Start)
    assert press(Qt.Key.Key_Up).accessibleName() == "Show how each word was written"
    reached = [press(Qt.Key.Key_Right).accessibleName() for _ in range(4)]
    assert reached[-2:] == ["Copy the message by Tiny", "Write this answer again"]
    while press(Qt.Key.Key_Right).accessibleName() != "Copy this code":
        pass
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
    assert QApplication.clipboard().text() == "print(1)"
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left):  # the second is the last
        assert press(key).accessibleName() == "Copy this code"
    assert press(Qt.Key.Key_Down) is view


def test_sentences_are_said_when_they_end_long_ones_in_parts_and_the_rest_at_the_end():
    heard = []
    announcer = Announcer(None, heard.append)
    for token in ["It ", "is", " 3", ".", "5", " **pounds*", "*", ". And", " so"]:
        announcer.append(token)
    assert heard == ["It is 3.5 pounds ."]
    announcer.append(" on!\n- a\n\n---\n")
    assert heard[1:] == ["And so on!", "- a"]
    announcer.append("word " * 300)
    announcer.append("\u202eend")
    announcer.finish()
    assert " ".join(heard[3:]) == " ".join(["word"] * 300) + " end"
    assert max(map(len, heard)) <= LONGEST


@pytest.mark.parametrize("listening", [True, False])
def test_an_answer_is_announced_politely(qtbot, monkeypatch, listening):
    widget, heard = QWidget(), []
    qtbot.addWidget(widget)
    monkeypatch.setattr(QAccessible, "updateAccessibility", heard.append)
    monkeypatch.setattr(QAccessible, "isActive", lambda: listening)
    Announcer(widget).append("A sentence. And")
    polite = QAccessible.AnnouncementPoliteness.Polite
    told = [(event.object(), event.message(), event.politeness()) for event in heard]
    assert told == ([(widget, "A sentence.", polite)] if listening else [])


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_text_and_the_edges_of_fields_can_be_seen_on_their_ground(colours):
    made = qt_palette(colours)
    roles = QPalette.ColorRole
    for ink, ground, least in (
        (roles.WindowText, roles.Window, 4.5),
        (roles.Text, roles.Base, 4.5),
        (roles.ButtonText, roles.Button, 4.5),
        (roles.PlaceholderText, roles.Base, 4.5),
        (roles.ToolTipText, roles.ToolTipBase, 4.5),
        (roles.HighlightedText, roles.Highlight, 4.5),
        (roles.Link, roles.Base, 4.5),
        (roles.Shadow, roles.Base, 3),
    ):
        assert contrast(made.color(ink).name(), made.color(ground).name()) >= least, ink


def colours_in(widget):
    image = widget.grab().toImage()
    places = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return {image.pixelColor(x, y).name() for x, y in places}


def test_labels_have_the_colour_of_their_tone_after_the_theme_has_changed(qtbot):
    said = ToneLabel(tone="good"), ToneLabel(), StatusLine()
    said[0].say("\u2588")
    said[1].say("\u2588", "muted")
    said[2].say("\u2588", "warning")
    elided = ElidedLabel(Qt.TextElideMode.ElideRight, least=9, tone="muted")
    elided.setText("\u2588")
    parts = PartsLabel()
    parts.setText("\u2588")
    labels = (*said, elided, parts, plain_label("\u2588", tone="warning"), plain_label("\u2588"))
    for label in labels:
        qtbot.addWidget(label)
    for colours in (LIGHT, DARK):
        tones = (colours.accepted, colours.muted, colours.warning)
        for label, ink in zip(
            labels, (*tones, colours.muted, *tones[1:], colours.text), strict=True
        ):
            label.setPalette(qt_palette(colours))
            assert ink in colours_in(label), label
