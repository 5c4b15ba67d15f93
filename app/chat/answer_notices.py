"""Shows notices about the answer in sight: it repeats itself, or the model reads only a part, or
what followed its earlier version is hidden.

Knows the open conversation and its answers. Each notice appears once, and disappears when it no
longer applies.
"""

from PySide6.QtCore import QObject

from app.chat.answers import Answers
from app.chat.conversation import OpenConversation
from app.chat.writing import Writing
from app.notices import Notices, Offer
from app.rounds.figures import count
from engine.conversation.rounds import EventOrRound, Round
from engine.events import Prefill

_LOOP, _LEFT_OUT, _HIDDEN = "loop", "left out", "hidden"
_ROUNDS = 8  # how often to search an answer for a loop, which takes a fraction of a millisecond


class AnswerNotices(QObject):
    """Shows notices about the answer at the end of the open conversation."""

    def __init__(self, conversation: OpenConversation, answers: Answers, notices: Notices) -> None:
        super().__init__(conversation)
        self._conversation, self._notices = conversation, notices
        self._loops = 0  # the id of the answer that was reported to repeat itself
        self._left_out = (0, 0)  # the messages that were reported as left out
        self._hidden = 0  # the last message that was reported as hidden
        answers.happened.connect(self._hear)
        answers.finished.connect(self._on_finished)
        conversation.opened.connect(self._on_opened)
        conversation.changed.connect(self._on_changed)
        conversation.hid.connect(self._show_hidden)

    def _on_finished(self, writing: Writing) -> None:
        if writing.message.id == self._loops:
            self._notices.take_back(_LOOP)

    def _on_opened(self) -> None:
        self._left_out = (0, 0)
        for matter in (_LOOP, _LEFT_OUT, _HIDDEN):
            self._notices.take_back(matter)

    def _on_changed(self) -> None:
        if self._conversation.message(self._hidden) is not None:
            self._notices.take_back(_HIDDEN)

    def _show_hidden(self, count: int, last: int) -> None:
        shown, self._hidden = self._conversation.shown or 0, last
        which = f"{count:,} later messages belong" if count > 1 else "later message belongs"
        show = Offer("Show", lambda: self._conversation.open(shown, at=last))
        self._notices.say(_HIDDEN, f"The {which} to the earlier version.", offer=show)

    def _hear(self, writing: Writing, happening: EventOrRound) -> None:
        if writing is not self._conversation.writing:
            return
        match happening:
            case Prefill():
                self._show_left_out(happening)
            case Round(verdict=None):
                pass
            case Round() if happening.number % _ROUNDS == 0:
                self._show_loop(writing)

    def _show_loop(self, writing: Writing) -> None:
        if writing.message.id != self._loops and writing.loops:
            self._loops = writing.message.id
            offer = Offer("Stop", self._conversation.stop)
            self._notices.say(
                _LOOP, "The answer repeats itself.", offer=offer, dismissal="Continue"
            )

    def _show_left_out(self, prefill: Prefill) -> None:
        gap = (prefill.left_out_from, prefill.left_out)
        if gap == self._left_out:
            return
        self._left_out = gap
        if prefill.left_out:
            where = "at the beginning" if prefill.left_out_from <= 1 else "in the middle"
            self._notices.say(
                _LEFT_OUT,
                f"Outside the context of {prefill.context:,} tokens: "
                f"{count(prefill.left_out, 'message')} {where}.",
            )
        else:
            self._notices.take_back(_LEFT_OUT)
