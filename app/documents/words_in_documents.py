"""Finds which words of the open conversation's answers are in its documents, or in the results of
its calls.

Looks at an answer when it is complete, in a thread, by what the model had by then. A result has a
number below zero among the documents.
Knows the store, the transcript and the panel; not how words are found or marked.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile

from PySide6.QtCore import QObject, Signal

from app.chat.answers import Answers
from app.chat.conversation import OpenConversation
from app.chat.message_row import MessageRow
from app.chat.transcript import Transcript
from app.conversations.records import Message
from app.conversations.store import Store
from app.documents.answer_words import AnswerWords, Given, copied_drafts, words_of
from app.documents.page_panel import PagePanel
from app.steps import Stepper, Steps, in_thread
from engine.documents import Document, Section
from engine.documents.copied import CopiedSpan, WordIndex
from engine.stretches import blanked
from engine.tools.steps import StepCall, arguments_in_words
from models.errors import Problem

_Key = tuple[int, str, tuple[int, ...]]  # an answer's id, text and documents


class WordsInDocuments(QObject):
    """Attribute: `marked`, whether the words are marked.

    Signals: `panel_wanted()`: show the panel, which has a place to show; `failed(Problem)`.
    """

    panel_wanted = Signal()
    failed = Signal(Problem)

    def __init__(
        self,
        conversation: OpenConversation,
        answers: Answers,
        transcript: Transcript,
        store: Store,
        panel: PagePanel,
    ) -> None:
        super().__init__(transcript)
        self.marked = False
        self._conversation, self._answers = conversation, answers
        self._transcript, self._store, self._panel = transcript, store, panel
        self._stepper = Stepper(self)
        self._documents: dict[int, Document] = {}
        self._results: dict[tuple[str, str], int] = {}  # their numbers, by call and text
        self._indexes: dict[int, WordIndex] = {}
        self._known: dict[_Key, AnswerWords] = {}
        self._record = 0  # the conversation of all these values
        self._finding = False
        conversation.changed.connect(self._find)
        answers.finished.connect(self._find)
        transcript.built.connect(self._on_built)

    def mark(self, marked: bool) -> None:
        """Show or hide the marks."""
        self.marked = marked
        self._transcript.mark_words(marked)

    def close(self) -> None:
        """Stop finding words: the window closes."""
        self._stepper.close()
        self._panel.close_all()

    def _find(self, *_: object) -> None:
        record = self._conversation.record
        if (record.id if record else 0) != self._record:
            self._record = record.id if record else 0
            self._documents, self._indexes, self._known = {}, {}, {}
            self._results = {}
            self._panel.clear()
        self._forget()
        for key, row in self._keys():
            self._transcript.set_words(row, self._known.get(key, AnswerWords()))
        if not self._finding:
            self._finding = True
            self._stepper.run(self._steps(), failed=self._on_failed)

    def _steps(self) -> Steps:
        while (key := self._next()) is not None:
            record, (answer, text, numbers) = self._record, key
            if any(number not in self._documents for number in numbers):
                stored = yield self._store.documents_of(record)
                if record != self._record:
                    continue
                self._documents |= {n: document for n, document in stored if n in numbers}
            documents = {n: self._documents[n] for n in numbers if n in self._documents}
            work = partial(
                _find_words,
                text,
                documents,
                dict(self._indexes),
                said=self._questions_before(answer),
                complete=max(numbers) > 0 and not self._deleted_before(answer),
            )
            found, indexes = yield in_thread(work)
            if record == self._record:
                self._indexes |= indexes
            writing = self._answers.writing(answer)
            events = writing.events if writing else (yield self._store.trace(answer))
            drafts = str(copied_drafts(events, self._given(answer)))
            found = replace(found, line=" · ".join(filter(None, (found.line, drafts))))
            for other, row in self._keys():
                if record == self._record and other == key:
                    self._known[key] = found
                    self._transcript.set_words(row, found)
            self._forget()
        self._finding = False

    def _forget(self) -> None:
        """Forget the documents that no answer has any more: they may have been deleted."""
        kept = {number for (_, _, numbers), _ in self._keys() for number in numbers}
        for held in (self._documents, self._indexes):
            for number in held.keys() - kept:
                del held[number]
        self._known = {key: found for key, found in self._known.items() if kept.issuperset(key[2])}
        if not kept.issuperset(self._panel.documents):
            self._panel.clear()

    def _next(self) -> _Key | None:
        """Return the newest answer that was not searched yet, or None."""
        return next((key for key, _ in reversed(self._keys()) if key not in self._known), None)

    def _keys(self) -> list[tuple[_Key, MessageRow]]:
        """Return the complete answers that had documents or results."""
        found: list[tuple[_Key, MessageRow]] = []
        numbers: set[int] = set()
        rows = self._transcript.messages
        for message, row in zip(self._conversation.branch, rows, strict=False):
            if message.sent is not None:
                numbers |= {one.number for one in message.sent.documents if not one.deleted}
            now = self._now(message)
            calls = (call for step in now.steps for call in step.calls if call.runs)
            numbers |= {self._result(call) for call in calls}
            if message.role == "assistant" and numbers:
                writing = self._answers.writing(message.id)
                if writing is None or writing.state != "streaming":
                    text = blanked(now.content, now.stretches)
                    found.append(((message.id, text, tuple(sorted(numbers))), row))
        return found

    def _now(self, message: Message) -> Message:
        """Return the message as it is now, if it is not stored yet."""
        if (writing := self._answers.writing(message.id)) is None:
            return message
        steps, stretches = writing.steps, writing.stretches
        return replace(message, content=writing.text, stretches=stretches, steps=steps)

    def _result(self, call: StepCall) -> int:
        """Return the number of a call's result, which is a document from now on."""
        name = f"{call.tool} {arguments_in_words(call.ran or call.arguments)}".strip()
        number = self._results.setdefault((name, call.result), -1 - len(self._results))
        if number not in self._documents:
            section = Section("lines", 1, call.result)
            self._documents[number] = Document(name, "text", call.id, (section,))
        return number

    def _before(self, answer: int) -> list[Message]:
        """Return the messages before the answer."""
        return list(takewhile(lambda message: message.id != answer, self._conversation.branch))

    def _questions_before(self, answer: int) -> list[str]:
        return [each.content for each in self._before(answer) if each.role == "user"]

    def _deleted_before(self, answer: int) -> bool:
        """Return whether a document of the answer was deleted since."""
        sent = (each.sent.documents for each in self._before(answer) if each.sent)
        return any(one.deleted for documents in sent for one in documents)

    def _given(self, answer: int) -> list[Given]:
        """Return for each message of the answer's prompts what of it was given."""
        system_prompt, _ = self._conversation.configured
        given: list[Given] = [None] * bool(system_prompt)
        for each in self._conversation.branch:
            lines = self._now(each).as_chat
            given += ("result" if line.role == "tool" else each.sent for line in lines)
            if each.id == answer:
                break
        return given

    def _on_built(self, row: MessageRow) -> None:
        if row.widget is not None:
            row.widget.place_asked.connect(self._show_place)

    def _show_place(self, span: CopiedSpan) -> None:
        if all(place.document in self._documents for place in span.places):
            self._panel.show_span(span, dict(self._documents))
            self.panel_wanted.emit()

    def _on_failed(self, problem: Problem) -> None:
        self._finding = False
        self.failed.emit(problem)


def _find_words(
    text: str,
    documents: Mapping[int, Document],
    known: Mapping[int, WordIndex],
    *,
    said: list[str],
    complete: bool,
) -> tuple[AnswerWords, dict[int, WordIndex]]:
    """Find words, in a thread, one answer at a time. Documents that are not `known` are indexed.
    Returns the words, and the index of each document."""
    indexes = {
        number: known[number] if number in known else WordIndex(document.text, document.starts)
        for number, document in documents.items()
    }
    found = words_of(text, documents=documents, indexes=indexes, said=said, complete=complete)
    return found, indexes
