"""The commands on the last message and the last answer, enabled while they are possible.

Knows the open conversation and the menus; not how an answer is made.
"""

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.chat.answers import Answers
from app.chat.conversation import OpenConversation, can_go_on
from app.chat.presenter import ConversationPresenter
from app.chat.rounds_side import RoundsSide
from app.chat.writing import Writing
from app.composer_controller import ComposerController
from app.conversations.records import Message
from app.menus import Menus
from app.read_aloud import ReadAloud, say_program
from engine.stretches import said


class AnswerCommands(QObject):
    """Carries out the commands, and disables commands without an object. Attribute: `reader`."""

    def __init__(
        self,
        conversation: OpenConversation,
        answers: Answers,
        *,
        composer: ComposerController,
        presenter: ConversationPresenter,
        rounds: RoundsSide,
        menus: Menus,
    ) -> None:
        super().__init__(conversation)
        self._conversation, self._composer, self._answers = conversation, composer, answers
        self._presenter, self._rounds, self._menus = presenter, rounds, menus
        self.reader = ReadAloud(program := say_program(), parent=self)
        menus.actions["read_aloud"].setVisible(bool(program))
        menus.connect_commands(
            {
                "stop": conversation.stop,
                "answer_now": conversation.answer_now,
                "edit": lambda: self._edit("user"),
                "edit_answer": lambda: self._edit("assistant"),
                "delete_message": self._delete,
                "regenerate": self._regenerate,
                "go_on": self._go_on,
                "copy_answer": self._copy,
                "read_aloud": self._read_aloud,
                "previous_version": lambda: self._turn(-1),
                "next_version": lambda: self._turn(+1),
                "before": lambda: rounds.step(-1),
                "after": lambda: rounds.step(+1),
                "explain_rounds": rounds.explain,
                "go_to_messages": self._go_to_messages,
            }
        )
        for change in (
            conversation.changed,
            answers.begun,
            answers.finished,
            answers.saved,
            presenter.selected,
            self.reader.changed,
        ):
            change.connect(self.enable)
        if isinstance(application := QApplication.instance(), QApplication):
            application.focusChanged.connect(self.enable)
        conversation.opened.connect(self.reader.stop)
        self.enable()

    def enable(self) -> None:
        """Enable the commands that are possible, and disable all others."""
        conversation, branch = self._conversation, self._conversation.branch
        free, answer, turned = not conversation.busy, self._last("assistant"), self._turned()
        words = "Stop reading" if self.reader.reading else "Read answer aloud"
        self._menus.actions["read_aloud"].setText(words)
        shown = self._rounds.answer
        ended = shown != 0 and self._answers.writing(shown) is None
        answers = sum(message.role == "assistant" for message in branch)
        self._menus.enable(
            {
                "stop": conversation.writing is not None,
                "answer_now": conversation.writing is not None,
                "edit": free and self._last("user") is not None,
                "edit_answer": free and answer is not None and answer.state != "streaming",
                "delete_message": free and bool(branch),
                "regenerate": free and bool(branch),
                "go_on": free and bool(branch) and can_go_on(branch[-1]),
                "copy_answer": answer is not None,
                "read_aloud": self.reader.reading or answer is not None,
                "previous_version": turned is not None and turned.place > 1,
                "next_version": turned is not None and turned.place < turned.siblings,
                "before": answers > 1,
                "after": answers > 1,
                "export_trace": ended,
                "replay": ended,
                "go_to_messages": bool(branch),
            }
        )

    def _turned(self) -> Message | None:
        """Return the message whose versions are switched: the focused message, or else the last one
        on the branch, if it has versions."""
        branch = self._conversation.branch
        focused = self._conversation.message(self._presenter.focused)
        versions = (message for message in (focused, *reversed(branch)) if message is not None)
        return next((message for message in versions if message.siblings > 1), None)

    def _last(self, role: str) -> Message | None:
        branch = reversed(self._conversation.branch)
        return next((message for message in branch if message.role == role), None)

    def _edit(self, role: str) -> None:
        if (message := self._last(role)) is not None:
            self._composer.edit(message.id)

    def _delete(self) -> None:
        """Delete the message with the focus, or else the last one."""
        if branch := self._conversation.branch:
            self._conversation.delete_message(self._presenter.focused or branch[-1].id)

    def _regenerate(self) -> None:
        if self._conversation.branch:
            self._conversation.regenerate(self._conversation.branch[-1].id)

    def _go_on(self) -> None:
        if self._conversation.branch:
            self._conversation.go_on(self._conversation.branch[-1].id)

    def _copy(self) -> None:
        if (answer := self._last("assistant")) is not None:
            self._presenter.copy(answer.id)

    def _read_aloud(self) -> None:
        """Read the answer with the focus aloud, or else the last one; or stop reading."""
        if self.reader.reading:
            self.reader.stop()
            return
        focused = self._conversation.message(self._presenter.focused)
        if focused is None or focused.role != "assistant":
            focused = self._last("assistant")
        if focused is not None:
            whole = self._answers.writing(focused.id) or focused
            text = whole.text if isinstance(whole, Writing) else whole.content
            self.reader.read(said(text, whole.stretches) if whole.stretches else text)

    def _turn(self, by: int) -> None:
        if (turned := self._turned()) is not None:
            self._conversation.switch(turned.id, turned.place + by)

    def _go_to_messages(self) -> None:
        if self._conversation.branch:
            self._presenter.reveal(self._conversation.branch[-1].id)
