"""The windows: opens, finds and closes them, and lets shared parts speak through one of them.

Closing the last window ends the application. Knows which window shows which conversation; not what
is in a window.
"""

from collections.abc import Collection
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.application import Application
from app.attention import Attention
from app.chat.queue_sender import send_next
from app.conversations.records import Message
from app.conversations.store import is_temporary
from app.models.controller import LibraryController
from app.notices import Offer
from app.server.local_server import ServerState
from app.settings import Pair
from app.steps import Stepper, Steps
from app.theme.labels import Tone
from app.window import Window
from models.errors import Problem


class Windows(QObject):
    """Attributes: `application`; `library_controller`, with the Library that all windows share;
    `attention`; `current`, the last active window.

    Signals:
        opened(Window): a window was opened.
        let_go(): a conversation is no longer shown, or a window was closed.
    """

    opened = Signal(Window)
    let_go = Signal()

    def __init__(self, application: Application) -> None:
        super().__init__(application)
        self.application = application
        self._windows: list[Window] = []  # in the order of their last activity
        self._ended = False
        self._told: dict[str, str] = {}  # the texts of notices on what windows share
        self._stepper = Stepper(self)
        self.library_controller = LibraryController(
            application.library, application.loader, settings=application.settings, parent=self
        )
        self.attention = Attention(
            application.answers,
            windows=lambda: tuple(reversed(self._windows)),
            wanted=lambda: application.settings.notifications,
            parent=self,
        )
        self.let_go.connect(self._forget_temporary)
        application.answers.begun.connect(self._forget_temporary)
        application.answers.saved.connect(self._forget_temporary)
        application.answers.saved.connect(self._send_queued)
        library = self.library_controller
        library.forgotten.connect(self._on_forgotten)
        library.ready.connect(self._on_ready)
        library.reported.connect(self._report)
        self.attention.chosen.connect(self.show_conversation)
        application.server.changed.connect(self._on_server)
        application.macs.changed.connect(self._on_macs)
        application.tools.changed.connect(self._on_tools)
        application.troubled.connect(self._show_trouble)

    @property
    def all(self) -> tuple[Window, ...]:
        """The open windows; the last active one is at the end."""
        return tuple(self._windows)

    @property
    def current(self) -> Window:
        """The last active window."""
        return self._windows[-1]

    def restore(self) -> tuple[Window, ...]:
        """Make the windows that were open at the end, with their conversations. They are not shown
        or begun yet."""
        shown: set[int | None] = set()
        for number in self.application.settings.open_windows:
            own = self.application.settings.window(number)
            if own.conversation in shown:
                own.conversation = None
            shown.add(own.conversation)
            self._make(number)
        return self.all

    def open(self, conversation: int | None = None) -> Window:
        """Show a conversation in another window; an empty one for None.

        The window has the smallest free number, and the settings of that number: its place, and an
        unsent text.
        """
        taken = {window.number for window in self._windows}
        number = next(n for n in range(1, len(taken) + 2) if n not in taken)
        self.application.settings.window(number).conversation = conversation
        window = self._make(number)
        window.show()
        window.begin()
        return window

    def _make(self, number: int) -> Window:
        window = Window(self.application, self.library_controller, number=number)
        if self._windows and not window.own.placed:
            window.place_beside(self.current)
        self._windows.append(window)
        window.activated.connect(lambda: self._on_activated(window))
        window.asked.connect(
            lambda conversation, at, words: self._show(window, conversation, at=at, words=words)
        )
        window.closed.connect(lambda: self._on_closed(window))
        window.quit_asked.connect(self.close)
        window.sidebar_controller.leaving.connect(self._leave)
        window.window_asked.connect(lambda conversation: self._open_beside(window, conversation))
        window.conversation.opened.connect(self.let_go)
        window.conversation.opened.connect(self._mark)
        window.conversation.described.connect(self._mark)
        self._mark()
        self._remember()
        self.opened.emit(window)
        return window

    def attach(self, path: Path) -> None:
        """Attach a file or folder in the last active window."""
        self.come_forward()
        self.current.composer.files_given.emit([path])

    def come_forward(self) -> None:
        """Bring the last active window to the front."""
        self.current.come_forward()

    def show_conversation(self, conversation: int) -> None:
        """Show a conversation in front of everything: in the window that shows it already, or else
        in the last active one."""
        window = self._showing(conversation) or self.current
        window.come_forward()
        self._show(window, conversation)

    def close(self) -> None:
        """Close all windows, and so the application."""
        for window in self.all:
            window.close()

    def _show(
        self, asking: Window, conversation: int, *, at: int | None = None, words: str = ""
    ) -> None:
        """Show a conversation in `asking`, or where it is shown already: never in two windows."""
        showing = self._showing(conversation) or asking
        if showing is not asking:
            showing.come_forward()
        if showing is asking or at is not None:
            showing.show_conversation(conversation, at=at, words=words)

    def _showing(self, conversation: int) -> Window | None:
        """Return the window that shows this conversation, or None."""
        found = (window for window in self._windows if window.conversation.shown == conversation)
        return next(found, None)

    def _open_beside(self, asking: Window, conversation: int | None) -> None:
        """Show a conversation in a new window, and no longer in `asking`. If another window shows
        it, that one comes to the front instead."""
        showing = None if conversation is None else self._showing(conversation)
        if showing is asking:
            asking.show_conversation(None)
        if showing is None or showing is asking:
            self.open(conversation)
        else:
            showing.come_forward()

    def _leave(self, conversations: Collection[int]) -> None:
        """Show a neighbour, or an empty conversation, in place of each of these."""
        for window in self.all:
            if window.conversation.shown in conversations:
                taken = {shown for other in self._windows if (shown := other.conversation.shown)}
                window.show_conversation(window.sidebar.neighbour(taken.union(conversations)))

    def _forget_temporary(self) -> None:
        """Stop and forget the temporary conversations that no window shows."""
        store, answers = self.application.store, self.application.answers
        parts = [window.conversation for window in self._windows]
        shown = {id for part in parts if (id := part.shown)}
        answers.cancel_in(set(filter(is_temporary, answers.conversations - shown)))
        sent_in = {id for part in parts for place in part.sends if (id := place.conversation)}
        store.drop_temporary(but=shown | sent_in | answers.conversations)  # until all is stored

    def _send_queued(self, answer: Message) -> None:
        application, window = self.application, self._showing(answer.conversation)
        if window is not None and not window.conversation.opening:
            return  # it sends them itself

        def send_in_window(answer: Message) -> bool:
            window = self._showing(answer.conversation)
            return window is not None and window.composer_controller.send_next(answer)

        steps = send_next(
            answer,
            application.store,
            application.answers,
            shown=lambda conversation: self._showing(conversation) is not None,
            send_in_window=send_in_window,
            names=lambda: application.loader.names,
        )
        self._stepper.run(steps, failed=lambda problem: None)  # it stays queued

    def _mark(self) -> None:
        """Mark in each sidebar what the other windows show."""
        for window in self._windows:
            others = (other.conversation.shown for other in self._windows if other is not window)
            window.sidebar.set_elsewhere({shown for shown in others if shown is not None})

    def _remember(self) -> None:
        """Store the open windows for the next start."""
        if not self._ended:
            numbers = [window.number for window in self._windows]
            self.application.settings.open_windows = numbers

    def _on_activated(self, window: Window) -> None:
        if window in self._windows:
            self._windows.remove(window)
            self._windows.append(window)

    def _on_closed(self, window: Window) -> None:
        if window not in self._windows:
            return
        if len(self._windows) > 1:
            self._windows.remove(window)
            self._stepper.run(self._delete(window), failed=lambda problem: None)
            self._mark()
            self.let_go.emit()
            # Later: windows that are closed together were open together at the end.
            QTimer.singleShot(0, self, self._remember)
        else:
            self._ended = True
            self._stepper.close()
            self.library_controller.close()
            self.application.close()

    def _delete(self, window: Window) -> Steps:
        """Delete a closed window when its last messages are stored, or given back."""
        yield self.application.listing.refresh()  # after all earlier requests to the store
        while window.conversation.sends:
            yield self.application.listing.refresh()
        window.composer_controller.leave()
        window.deleteLater()

    def _on_forgotten(self) -> None:
        for window in self._windows:
            window.pair_controller.show_choices()

    def _on_ready(self, pair: Pair) -> None:
        self.current.offer_pair(pair)

    def _on_macs(self) -> None:
        """Show a notice if no model can be loaded on several Macs."""
        macs = self.application.macs
        text = (
            "No model could be loaded on several Macs. To use only this Mac, turn off Several Macs."
        )
        failed = macs.used and macs.finding is not None
        show = Offer("Several Macs\u2026", lambda: self.current.dialogs.show_macs())
        self._follow("macs", text if failed else "", "muted", show)

    def _on_server(self) -> None:
        """Show a notice if the local server does not work: its panel may be closed."""
        server = self.application.server
        failed = server.state is ServerState.FAILED
        show = Offer("Show", lambda: self.current.dialogs.show_server())
        self._follow("server", server.problem if failed else "", "warning", show)

    def _on_tools(self) -> None:
        """Show a notice if tools that were switched on cannot be used."""
        show = Offer("Tools\u2026", lambda: self.current.dialogs.show_tools())
        self._follow("tools", self.application.tools.trouble, "warning", show)

    def _follow(self, matter: str, text: str, tone: Tone, show: Offer) -> None:
        """Show a notice on a matter once it has another text, and take it back without one."""
        if text == self._told.get(matter, "") or self._ended:
            return
        self._told[matter] = text
        for window in self._windows:
            window.notices.take_back(matter)
        if text:
            self.current.notices.say(matter, text, tone, offer=show)

    def _show_trouble(self, problem: Problem) -> None:
        self.current.notices.say("setting", str(problem), "warning")

    def _report(self, line: str) -> None:
        self.current.notices.say("library", line, seconds=8.0)
