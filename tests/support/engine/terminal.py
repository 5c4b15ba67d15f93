"""A chat in the terminal whose lines are given and whose printing is kept."""

import signal
from io import StringIO

from rich.console import Console

from engine.cli.attaching import Attachments
from engine.cli.chat import TerminalChat
from engine.conversation.pair import make_policy
from engine.conversation.session import Session
from engine.draft_length.policy import Fixed
from engine.events import Done
from engine.request import Request, chat
from models.errors import Problem

SHORT = Request(max_tokens=12)


class Watched(Session):
    """Answers in this process as a `ChildSession` does. Keeps its events, and presses a key after
    those that `press` picks: Ctrl-C, if the signal is not another."""

    def __init__(self, target, **options):
        super().__init__(target, policy=Fixed(3), **options)
        self.context_length = target.context_length
        self.answers = []
        self.press = lambda event: False
        self.signal = signal.SIGINT

    def answer(self, messages, *args, **options):
        events = super().answer(messages, *args, **options)
        self.answers.append([])
        return self._watch(events)

    def count(self, messages):
        return len(self.encode(chat(messages)))

    def count_text(self, text):
        return len(self.target.tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def keep(self, cancelled):
        return ()

    def draft(self, *, drafter=None, draft_length=None):
        if drafter is not None:
            self.use_drafter(drafter)
        if draft_length is not None:
            self.policy = make_policy(draft_length)
        return " ".join(remark.value for remark in self.calibrate())

    def _watch(self, events):
        for event in events:
            self.answers[-1].append(event)
            if self.press(event):
                signal.raise_signal(self.signal)
            yield event


class Table:
    """A chat, its session and all that it printed.

    `files`: what `/attach` and `/image` read, by name, instead of the disk.
    """

    def __init__(self, target, *, system="", request=SHORT, files=None, **options):
        self.session = Watched(target, **options)
        session = self.session
        self.file = StringIO()
        self.files = files or {}
        console = Console(file=self.file, width=200)
        self.attachments = Attachments(session, console)
        readers = {} if files is None else {"read": self._read, "see": self._read}
        self.chat = TerminalChat(
            session, console, request, self.attachments, system=system, **readers
        )

    def _read(self, path, *_, **options):
        if path.name not in self.files:
            raise Problem(f"{path.name} was not found.", "Look for it.")
        return self.files[path.name]

    def say(self, *lines):
        """Run the chat on these lines, then the end of the input; returns what it printed."""
        place, rest = self.file.tell(), iter(lines)

        def read():
            line = next(rest, EOFError)
            if isinstance(line, str):
                return line
            raise line

        handler = signal.getsignal(signal.SIGINT)
        self.chat.run(read)
        assert signal.getsignal(signal.SIGINT) is handler
        self.file.seek(place)
        printed = self.file.read()
        assert "\x1b" not in printed
        return printed

    @property
    def messages(self):
        return self.chat.messages

    @property
    def roles(self):
        return [message.role for message in self.messages]

    @property
    def done(self):
        """The end of the last answer."""
        done = self.session.answers[-1][-1]
        assert isinstance(done, Done)
        return done

    @property
    def asked(self):
        """The user's messages, as the model got them."""
        return [message for message in self.messages if message.role == "user"]
