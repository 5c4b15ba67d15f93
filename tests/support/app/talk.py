"""An open conversation with a store and a fake host, and no window."""

from concurrent.futures import Future
from pathlib import Path

from app.chat.answers import Answers
from app.chat.conversation import OpenConversation
from app.chat.listing import Listing
from app.conversations.store import Store
from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess
from models.errors import Problem
from tests.support.app.window_maker import fake_host


def refuse(*arguments, **options):
    raise Problem("The disk is full.", "Make room.")


def refused(*arguments, **options):
    """A future of what is refused, as a store gives it."""
    future = Future()
    future.set_exception(Problem("The disk is full.", "Make room."))
    return future


class Talk:
    """Attributes: `store`, `engine`, `answers`, `listing`, `conversation`; `told`, the names of the
    signals of `answers` and `conversation`, in order; `problems`, of whatever kind; `beginning`,
    how new conversations are configured.
    """

    def __init__(self, folder, steps, qtbot, *, tools=None):
        self.until = qtbot.waitUntil
        self.beginning = ("", None)
        self.store = Store.open(folder / "conversations.sqlite")
        self.engine = EngineProcess(
            EngineLog(folder), command=fake_host(folder, steps), delays_seconds=(0.0,)
        )
        self.answers = Answers(self.store, self.engine, tools=tools)
        self.listing = Listing(self.store, parent=self.answers)
        self.conversation = OpenConversation(
            self.store,
            self.answers,
            self.listing,
            names=lambda: ("tiny", "lookup"),
            beginning=lambda: self.beginning,
        )
        self.told = []
        self.words = []  # of the searches that led to a message
        self.problems = []
        self.refused = []
        for name in ("opened", "changed", "described", "reached"):
            getattr(self.conversation, name).connect(self._teller(name))
        self.conversation.reached.connect(lambda message, words: self.words.append(words))
        for name in ("begun", "finished", "saved", "saving_again"):
            getattr(self.answers, name).connect(self._teller(name))
        self.conversation.failed.connect(self.problems.append)
        self.answers.unsaved.connect(self.problems.append)
        self.conversation.refused.connect(self._on_refused)
        self.engine.load(Path("/models/tiny"))

    def _teller(self, name):
        return lambda *values: self.told.append(name)

    def _on_refused(self, text, problem):
        self.refused.append(text)
        self.problems.append(problem)

    def until_told(self, name, count=1):
        self.until(lambda: self.told.count(name) >= count)

    def ask(self, text):
        """Say something, and wait for the answer to be on the disk."""
        saved = self.told.count("saved")
        self.conversation.say(text)
        self.until_told("saved", saved + 1)

    @property
    def shown(self):
        """Role, text and state of each message on the branch."""
        branch = self.conversation.branch
        return [(message.role, message.content, message.state) for message in branch]

    def stored(self):
        """The same, as it is in the store."""
        record = self.conversation.record
        branch = self.store.branch(record.id).result()
        return [(message.role, message.content, message.state) for message in branch]

    @staticmethod
    def reopened(folder):
        """The store of a talk that is closed, as the next start finds it."""
        return Store.open(folder / "conversations.sqlite")

    def close(self):
        self.answers.close()
        self.engine.stop()
        self.answers.save()
        self.store.close()
