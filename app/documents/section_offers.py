"""Offers to answer section by section, below the last answer of the open conversation, if it asked
about all of documents but got only passages, or if the notes were stopped.

Connects the conversation, the transcript and the documents' controller. Knows no pixel.
"""

from PySide6.QtCore import QObject

from app.chat.answers import Answers
from app.chat.conversation import OpenConversation
from app.chat.message_row import MessageRow
from app.chat.transcript import Transcript
from app.conversations.records import Message
from app.documents.controller import BY_SECTION, DocumentsController
from app.documents.planner import Noting
from app.steps import Stepper, Steps
from engine.documents.prompt import SentDocument
from engine.documents.question import asks_about_all

_FROM_NOTES = "Answer from the notes so far"


class SectionOffers(QObject):
    """The window calls `refresh` when another model is loaded, and closes it."""

    def __init__(
        self,
        conversation: OpenConversation,
        answers: Answers,
        transcript: Transcript,
        documents: DocumentsController,
    ) -> None:
        super().__init__(transcript)
        self._conversation, self._answers = conversation, answers
        self._transcript, self._documents = transcript, documents
        self._stepper = Stepper(self)
        self._estimated = False  # whether the offer's figures are estimates
        conversation.changed.connect(self.refresh)
        answers.saved.connect(self.refresh)
        documents.counted.connect(self._on_counted)
        transcript.built.connect(self._on_built)

    def refresh(self, *_: object) -> None:
        """Update the offer."""
        last = self._last
        for row in self._transcript.messages:
            if last is None or row is not last[2]:
                self._transcript.set_offer(row, "", "")
        if last is None:
            return
        question, answer, row = last
        stopped = _stopped(question)
        if any(one.notes for one in stopped):
            words = " and ".join(one.in_words for one in stopped)
            label = "" if answer.content else _FROM_NOTES
            self._transcript.set_offer(row, label, f"There are {words}.")
        elif stopped or _passages_only(question):
            # If there is no room for a part, offer nothing.
            self._stepper.run(
                self._steps(question), failed=lambda problem: self._offer(question, "", "")
            )
        else:
            self._transcript.set_offer(row, "", "")

    def close(self) -> None:
        """Stop offering."""
        self._stepper.close()

    def _steps(self, question: Message) -> Steps:
        self._estimated = self._documents.estimates
        noting: Noting = yield self._documents.noting_again(question)
        if (ask := noting.ask) is not None:
            why = "The model got passages only. " if _passages_only(question) else ""
            words = f"{why}All of it has {self._documents.in_parts(ask)}."
            self._offer(question, BY_SECTION, words)

    def _offer(self, question: Message, label: str, words: str) -> None:
        """Show this offer below the answer, if it is still the last one."""
        last = self._last
        if last is not None and last[0].id == question.id:
            self._transcript.set_offer(last[2], label, words)

    def _on_counted(self) -> None:
        if self._estimated and not self._documents.estimates:
            self._estimated = False
            self.refresh()

    def _on_built(self, row: MessageRow) -> None:
        if row.widget is not None:
            row.widget.offer.button.clicked.connect(self._take)

    def _take(self) -> None:
        if (last := self._last) is None:
            return
        question, _, _ = last
        if any(one.notes for one in _stopped(question)):
            self._conversation.regenerate(question.id)
        else:
            self._conversation.note(question.id, self._documents.noting_again(question))

    @property
    def _last(self) -> tuple[Message, Message, MessageRow] | None:
        """The last question, its answer and the answer's row; None unless the answer is saved."""
        branch, rows = self._conversation.branch, self._transcript.messages
        if len(branch) < 2 or len(rows) != len(branch):
            return None
        question, answer = branch[-2:]
        if answer.role != "assistant" or self._answers.writing(answer.id) is not None:
            return None
        return question, answer, rows[-1]


def _stopped(question: Message) -> list[SentDocument]:
    """Return the documents with notes on some of their parts, but not on all."""
    sent = question.sent.documents if question.sent else ()
    return [one for one in sent if one.noted and one.notes < one.among]


def _passages_only(question: Message) -> bool:
    """Return whether a question about all of its documents was sent with passages only."""
    sent = question.sent.documents if question.sent else ()
    return any(one.passages for one in sent) and asks_about_all(question.content)
