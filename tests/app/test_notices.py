"""Notices offer remedies, warnings come first, and nothing piles up."""

from PySide6.QtWidgets import QAbstractButton, QLabel

from app.notices import Notices, Offer
from app.theme.labels import StatusLine


def test_a_notice_offers_and_is_settled(qtbot):
    notices = Notices()
    qtbot.addWidget(notices)
    done = []
    notices.say("a", "It broke.", offer=Offer("Mend it", lambda: done.append("mended")))
    notices.say("b", "<b>other</b>", lasting=True)
    notices.say("b", "<i>later</i>", lasting=True)
    assert notices.texts == {"a": "It broke.", "b": "<i>later</i>"}
    labels = {label.textFormat().name for label in notices.findChildren(QLabel)}
    assert labels == {"PlainText"}
    notices.press("a")
    assert done == ["mended"]
    notices.say("c", "Exported.", "good")
    assert [line.tone for line in notices.findChildren(StatusLine)][-1] == "good"
    notices.take_back("c")
    notices.take_back("b")
    notices.take_back("b")
    assert notices.texts == {}
    assert notices.isHidden()


def test_a_notice_can_be_dismissed_or_goes_by_itself(qtbot):
    notices = Notices()
    qtbot.addWidget(notices)
    notices.say("a", "One.")
    (button,) = (
        button for button in notices.findChildren(QAbstractButton) if button.text() == "Dismiss"
    )
    button.click()
    assert notices.texts == {}
    notices.say("a", "Short.", seconds=0.01)
    notices.say("b", "Stays.")
    qtbot.waitUntil(lambda: notices.texts == {"b": "Stays."})


def test_one_is_shown_at_a_time_and_warnings_first(qtbot):
    notices = Notices()
    qtbot.addWidget(notices)
    notices.say("broken", "It broke.", "warning")
    notices.say("asks", "Use it?", offer=Offer("Use it", lambda: None))
    notices.say("news", "Something is new.")
    notices.say("done", "Exported.", "good")
    assert notices.shown == ("asks",)
    more = next(b for b in notices.findChildren(QAbstractButton) if b.text().startswith("3 "))
    assert not more.isHidden()
    notices.take_back("asks")
    assert notices.shown == ("broken",)
    more.click()
    assert notices.shown == ("broken", "news", "done")
    assert more.isHidden()
    notices.take_back("broken")
    notices.take_back("news")
    notices.say("later", "Something else is new.")
    assert notices.shown == ("later",)
    for full in ("store", "problem"):
        notices.say(full, "The disk is full.", "warning")
    assert [*notices.texts][2:] == ["store"]
    notices.say("disk", "The disk is full. The answer is kept in memory.", "warning")
    assert [*notices.texts][2:] == ["disk"]
    notices.say("sent", "It could not be sent.", "warning", of_conversation=True)
    notices.leave_conversation()
    assert {"sent", "disk"} & notices.texts.keys() == {"disk"}
