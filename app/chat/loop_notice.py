"""Tells a person that the answer in sight repeats itself, as long as it is being written."""

from PySide6.QtCore import QObject

from app.chat.answers import Answers, Writing
from app.chat.conversation import OpenConversation
from app.notices import Notices, Offer
from engine.rounds import EventOrRound, Round

_MATTER = "loop"
_ROUNDS = 8  # after so many it is looked for a loop, which takes a fraction of a millisecond


class LoopNotice(QObject):
    """Shows one notice for an answer, and takes it back when the answer ends or is left."""

    def __init__(self, conversation: OpenConversation, answers: Answers, notices: Notices) -> None:
        super().__init__(conversation)
        self._conversation, self._notices = conversation, notices
        self._told = 0  # the id of the answer that a notice was shown for
        answers.happened.connect(self._hear)
        answers.finished.connect(lambda writing: self._take_back())
        conversation.opened.connect(self._take_back)

    def _hear(self, writing: Writing, happening: EventOrRound) -> None:
        if not (isinstance(happening, Round) and happening.verdict) or happening.number % _ROUNDS:
            return
        new = writing is self._conversation.writing and writing.message.id != self._told
        if new and writing.loops:
            self._told = writing.message.id
            offer = Offer("Stop", self._conversation.stop)
            self._notices.say(_MATTER, "The answer repeats itself.", offer=offer)

    def _take_back(self) -> None:
        self._notices.take_back(_MATTER)
