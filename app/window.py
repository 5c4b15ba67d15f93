"""A window: places its parts, connects them, and restores them at the next start.

Knows which part listens to which; not how a conversation, an answer or a pair works, and no other
window.
"""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QKeyEvent,
    QPaintEvent,
    QResizeEvent,
    QScreen,
)
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QMainWindow,
    QSplitter,
    QStyle,
    QWidget,
)

from app.answer_commands import AnswerCommands
from app.application import Application
from app.attention import mark
from app.chat.answer_notices import AnswerNotices
from app.chat.composer import Composer, SignButton
from app.chat.conversation import OpenConversation, with_thinking
from app.chat.message_view import MessageCommands
from app.chat.presenter import ConversationPresenter
from app.chat.prompt_edit import files_in, types
from app.chat.rounds_side import RoundsSide
from app.chat.transcript import Transcript
from app.composer_controller import ComposerController
from app.conversations.records import settings_from_json
from app.documents.page_panel import PagePanel
from app.documents.words_in_documents import WordsInDocuments
from app.layout import Free, column_of, row_of
from app.markdown.formats import Formats
from app.markdown.links import ask_to_open
from app.menus import COMMANDS, Command, Menus, come_forward, key_text
from app.models.controller import LibraryController
from app.models.formatting import target_name
from app.models.pair_bar import PairBar
from app.models.pair_controller import PairController
from app.models.readiness import RESTART, ProblemKind
from app.models.view import PageName
from app.notices import Notices, Offer
from app.settings import Pair
from app.side_panels import SidePanels
from app.sidebar.controller import SidebarController
from app.sidebar.sidebar import Sidebar
from app.theme.focus_ring import FocusRing
from app.theme.style import STYLE_SHEET, motion_is_reduced
from app.welcome import Welcome
from app.window_dialogs import WindowDialogs
from engine.documents.prompt import Sent
from engine.documents.reading import page_picture
from engine.request import Request
from models.errors import Problem
from models.in_words import one_line

_USUAL = QSize(1280, 840)
_APART = 32  # pixels between the corners of two windows
_OF_THE_CONVERSATION = ("find", "find_next", "find_previous", "attach", "go_to_messages")
_COVERING = Qt.WindowState.WindowMaximized | Qt.WindowState.WindowFullScreen
_TEMPORARY = "This chat is not saved. It is deleted when you leave it."


class Window(QMainWindow):
    """One of Slipstream's windows.

    Attributes: the parts; `number`, from 1; `own`, the settings of the window with that number.

    Signals:
        painted(): once, after the first paint.
        activated(): it became the active window.
        asked(int, object, str): show this conversation, at this message unless it is None; with the
            words of the search.
        closed(): it was closed.
        window_asked(object): show this conversation in another window; an empty one for None.
        quit_asked(): close all windows.
    """

    painted = Signal()
    activated = Signal()
    closed = Signal()
    window_asked = Signal(object)
    quit_asked = Signal()

    def __init__(
        self, application: Application, library_controller: LibraryController, *, number: int = 1
    ) -> None:
        super().__init__()
        self.application, self.number = application, number
        self.own = application.settings.window(number)
        self.store, self.engine, self.loader = (
            application.store,
            application.engine,
            application.loader,
        )
        self.settings, self.theme = application.settings, application.theme
        self.answers, self.library = application.answers, application.library
        self.library_controller = library_controller
        self.conversation = OpenConversation(
            self.store,
            self.answers,
            application.listing,
            names=lambda: application.loader.names,
            beginning=lambda: _beginning(application),
            parent=self,
        )
        self.notices, self.composer = Notices(), Composer()
        formats = Formats(self.theme.font, self.theme.colours, formulas=application.formulas)
        self.transcript = Transcript(formats)
        self.welcome = Welcome(self.loader, self.theme)
        self.transcript.set_empty(self.welcome)
        self.presenter = ConversationPresenter(self.conversation, self.answers, self.transcript)
        self.page_panel = PagePanel(page_picture, self.store.copy_of)
        self.words = WordsInDocuments(
            self.conversation, self.answers, self.transcript, self.store, self.page_panel
        )
        AnswerNotices(self.conversation, self.answers, self.notices)
        self.rounds = RoundsSide(self.conversation, self.answers)
        self.composer_controller = ComposerController(
            self.composer,
            self.conversation,
            application,
            notices=self.notices,
            settings=self.own,
        )
        self.sidebar, self.pair_bar = Sidebar(), PairBar()
        self.sidebar_controller = SidebarController(
            self.sidebar, self.store, application.listing, self.conversation, self.answers
        )
        self.asked = self.sidebar_controller.asked
        self.pair_controller = PairController(
            self.pair_bar,
            self.loader,
            self.engine,
            self.answers,
            settings=self.settings,
            library=self.library,
        )
        self.menus = Menus(self, given=_given(self.sidebar))
        self.answer_commands = AnswerCommands(
            self.conversation,
            self.answers,
            composer=self.composer_controller,
            presenter=self.presenter,
            rounds=self.rounds,
            menus=self.menus,
        )
        self.dialogs = WindowDialogs(
            self,
            application,
            self.conversation,
            composer=self.composer,
            documents=self.composer_controller.documents,
            notices=self.notices,
            menus=self.menus,
            rounds=self.rounds,
        )
        self.setAcceptDrops(True)
        self._painted = False
        self._colours = self.theme.colours
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self._figures = SignButton("panel")
        self._arrange()
        self.transcript.commands = self._message_commands()
        self._connect()
        self._connect_shared()
        self._connect_commands()
        self._restore()
        self._follow_theme()
        self._follow_settings()

    def _arrange(self) -> None:
        self._under = QWidget()
        column_of(self.notices, self.composer, on=self._under, margins=(0, 0, 0, 14), gap=8)
        # The sides share the free width of a wide window.
        under = row_of(Free(0), (self._under, 1), Free(0), gap=0)
        middle = QWidget()
        parts = (self.pair_bar, self.presenter.finder.bar, (self.transcript, 1), under)
        self._column = column_of(*parts, on=middle, margins=0, gap=0)
        self._figures.setAccessibleName("Answer statistics")
        self._figures.setToolTip(f"Answer statistics ({key_text(self.menus.actions['rounds'])})")
        keeps = self._figures.sizePolicy()
        keeps.setRetainSizeWhenHidden(True)
        self._figures.setSizePolicy(keeps)
        self.pair_bar.add_button(self._figures)
        self.columns.addWidget(self.sidebar)
        self.columns.addWidget(middle)
        self.columns.addWidget(self.page_panel)
        self.columns.addWidget(self.rounds)
        self.columns.setHandleWidth(1)
        self.columns.setStretchFactor(self.columns.indexOf(middle), 1)
        for place in range(self.columns.count()):
            self.columns.setCollapsible(place, False)
        self.columns.setSizes([230, 680, 420, 372])
        self.sides = SidePanels(
            self.columns,
            {"sidebar": self.sidebar, "rounds": self.rounds, "document": self.page_panel},
            middle=middle,
            actions=self.menus.actions,
            settings=self.own,
            hidden=("rounds", "document"),
        )
        self.setCentralWidget(self.columns)
        for part in self.rounds.findChildren(QAbstractScrollArea):
            FocusRing(part)
        self.setStyleSheet(STYLE_SHEET)
        bar = self.transcript.verticalScrollBar()
        bar.ensurePolished()  # otherwise it would have another width than is shown
        under.setContentsMargins(16, 0, 16 + bar.sizeHint().width(), 0)  # aligned with the messages
        self.setMinimumWidth(self.sides.narrowest)

    def _connect(self) -> None:
        """Connect the parts with each other."""
        conversation = self.conversation
        conversation.opened.connect(self._on_opened)
        conversation.changed.connect(self._remember_conversation)
        conversation.described.connect(self._remember_conversation)
        conversation.described.connect(self._name)
        conversation.refused.connect(lambda text, problem: self._on_problem(problem))
        conversation.failed.connect(self._on_problem)
        conversation.remarked.connect(lambda line: self.notices.say("remark", line, seconds=8.0))
        conversation.reached.connect(self.presenter.reveal)
        self.presenter.selected.connect(self.rounds.show_answer)
        documents = self.composer_controller.documents
        documents.failed.connect(self._on_problem)
        documents.remarked.connect(conversation.remarked)
        self.words.failed.connect(self._on_problem)
        self.words.panel_wanted.connect(lambda: self.sides.show("document"))
        self.page_panel.close_asked.connect(lambda: self.sides.switch("document"))
        self.rounds.stepped.connect(self.presenter.show_answer)
        self.composer.tools.settings_asked.connect(self.dialogs.show_tools)
        self.presenter.explained.connect(self._on_explained)
        for button in (self._figures, self.rounds.hides):
            button.clicked.connect(self.menus.actions["rounds"].trigger)
        self.menus.actions["rounds"].toggled.connect(self._figures.setHidden)
        self.welcome.asked.connect(self._ask)
        self.welcome.explanation_asked.connect(self.rounds.explain)
        self.dialogs.failed.connect(self._on_problem)
        self.sidebar.search_action.triggered.connect(lambda: self.sides.show("sidebar"))
        self.sidebar.new_asked.connect(self.new)
        self.sidebar.clicked.connect(self._go_to_composer)
        self.composer.files_given.connect(self.leave_library)
        self.sidebar.window_asked.connect(self.window_asked)
        self.sidebar_controller.files_wanted.connect(documents.attach)
        self.sidebar_controller.file_made.connect(self.dialogs.open_path)
        self.sidebar_controller.reported.connect(
            lambda line: self.notices.say("done", line, "good", seconds=6.0)
        )
        self.sidebar_controller.failed.connect(self._on_problem)

    def _message_commands(self) -> MessageCommands:
        conversation, documents = self.conversation, self.composer_controller.documents

        def with_document(show: Callable[[Sent, int], None], message: int, place: int) -> None:
            if (found := conversation.sent(message, place)) is not None:
                show(*found)

        def show_call(message: int, place: int) -> None:
            if (call := conversation.call(message, place)) is not None:
                self.dialogs.show_call(call)

        return MessageCommands(
            edit=self.composer_controller.edit,
            duplicate=self._duplicate,
            delete=conversation.delete_message,
            regenerate=conversation.regenerate,
            go_on=conversation.go_on,
            replay=self.dialogs.replay,
            race=self.dialogs.race_answer,
            show_version=conversation.switch,
            show_tokens=self.presenter.show_tokens,
            show_call=show_call,
            show_document=partial(with_document, documents.view),
            delete_document=partial(with_document, documents.ask_to_delete),
            decide=self.answers.decide,
            open_link=lambda address: ask_to_open(self, address),
            explain_tokens=self.rounds.explain,
            leave=self.composer.setFocus,
        )

    def _connect_shared(self) -> None:
        """Connect the parts with what all windows share.

        Only methods: their connection ends with the window.
        """
        application, readiness = self.application, self.application.readiness
        readiness.blocked_changed.connect(self._show_blocked)
        readiness.matter_changed.connect(self._show_matter)
        self._show_blocked()
        for matter in readiness.matters:
            self._show_matter(matter)
        self.composer.remedy_asked.connect(readiness.try_again)
        self.loader.loaded_now.connect(self.composer_controller.use)
        self.theme.changed.connect(self._follow_theme)
        application.settings_changed.connect(self._follow_settings)
        application.listing.failed.connect(self._on_problem)
        self.library_controller.left.connect(self._on_library_left)
        self.pair_bar.retry_asked.connect(readiness.try_again)
        self.pair_bar.library_asked.connect(self.open_library)
        self.pair_bar.memory_asked.connect(self.menus.actions["memory"].trigger)
        self.pair_bar.more_drafters_asked.connect(lambda: self.open_library("drafters"))
        self.welcome.library_asked.connect(self.open_library)

    def _connect_commands(self) -> None:
        for command in COMMANDS:
            if isinstance(command, Command) and (
                command.menu == "Answer" or command.name in _OF_THE_CONVERSATION
            ):
                self.menus.actions[command.name].triggered.connect(self.leave_library)
        self.menus.connect_commands(
            {
                "temporary": self._begin_temporary,
                "new_window": lambda: self.window_asked.emit(None),
                "close": self.close,
                "quit": self.quit_asked.emit,
                "minimize": self.showMinimized,
                "zoom": lambda: self._switch_state(Qt.WindowState.WindowMaximized),
                "rounds": lambda: self.sides.switch("rounds"),
                "sidebar": lambda: self.sides.switch("sidebar"),
                "document": lambda: self.sides.switch("document"),
                "provenance": lambda: self._switch_lens("provenance", self.presenter.provenance),
                "words": lambda: self._switch_lens("words", self.words.marked),
                "larger": lambda: self.theme.zoom(+1.0),
                "smaller": lambda: self.theme.zoom(-1.0),
                "own_size": lambda: self.theme.zoom(0.0),
                "full_screen": lambda: self._switch_state(Qt.WindowState.WindowFullScreen),
                "find": self.presenter.finder.open,
                "find_next": lambda: self.presenter.finder.step(1),
                "find_previous": lambda: self.presenter.finder.step(-1),
                "send": self.composer.send,
                "save_prompt": self.composer_controller.save_prompt,
                "attach": self.composer_controller.documents.ask,
                "next_conversation": lambda: self.sidebar.step(+1),
                "previous_conversation": lambda: self.sidebar.step(-1),
                "go_to_conversations": self._go_to_conversations,
                "go_to_composer": self._go_to_composer,
                "library": self.open_library,
                "load": self.pair_controller.ask_for_folder,
                "load_file": self.pair_controller.ask_for_file,
                "starter": lambda: self.loader.load(Pair()),
                "measure": self.loader.measure_again,
                "unload": self.loader.unload,
                "restart": self.application.readiness.try_again,
            }
        )

    # Conversations

    def begin(self) -> None:
        """Open the conversation that was open last in this window, and start what all windows
        share."""
        if self.store.notice and not self.application.begun:
            self.notices.say("store", self.store.notice, "warning")
        self.show_conversation(self.own.conversation)
        self.application.begin()
        self.composer.setFocus()

    def new(self) -> None:
        """Begin an empty conversation."""
        self.show_conversation(None)
        self.composer.setFocus()

    def _ask(self, question: str) -> None:
        """Send an example, or show it where nothing can be sent now. Unsent text stays."""
        if self.composer.blocked:
            self.composer_controller.compose(question)
        else:
            self.conversation.say(question)
            self.composer_controller.leave()  # a message that is sent empties the stored text
            self.composer.setFocus()

    def _begin_temporary(self) -> None:
        self.sidebar_controller.begin_temporary()
        self._go_to_composer()

    def _show_temporary(self) -> None:
        keep = Offer("Keep this chat", self._keep_temporary)
        self.notices.say("temporary", _TEMPORARY, offer=keep, lasting=True, of_conversation=True)

    def _keep_temporary(self) -> None:
        if self.conversation.busy:
            self._on_problem(Problem("An answer is in progress.", "Stop it, then keep the chat."))
            self._show_temporary()
        elif (record := self.conversation.record) is not None:
            self.sidebar_controller.keep_temporary(record.id, lambda: self.composer.text)

    def show_conversation(
        self, conversation: int | None, *, at: int | None = None, words: str = ""
    ) -> None:
        """Show this conversation, at the message `at` with these words of a search; an empty one
        for None."""
        self.leave_library()
        self.composer_controller.leave()
        if conversation is None:
            self.conversation.new()
        else:
            self.conversation.open(conversation, at=at, words=words)

    # The Library

    def open_library(self, page: PageName = "offers") -> None:
        """Show a page of the Library in the conversation's place, and in no other window."""
        view = self.library_controller.view
        if not self.isAncestorOf(view):
            view.leave()
            self.presenter.finder.close()
            self._column.insertWidget(self._column.indexOf(self.transcript), view, 1)
            self.transcript.hide()
            self.composer.hide()
            view.show()
            self.sides.rest(("rounds", "document"))  # they are about an answer
        self.library_controller.open(page)

    def leave_library(self) -> None:
        """Show the conversation again if the Library is in its place."""
        self.library_controller.leave(self)

    def _on_library_left(self) -> None:
        if self.transcript.isHidden():
            self.transcript.show()
            self.composer.show()
            self.sides.rest(())
            self.composer.setFocus()

    # The window's place

    def place_beside(self, other: "Window") -> None:
        """Take the size of another window, and a place a little below it, within the screen."""
        self.setWindowState(self.windowState() & ~_COVERING)
        self.resize(other.normalGeometry().size())
        place = other.normalGeometry().topLeft() + QPoint(_APART, _APART)
        self._stay_within(self._room(other.screen()), place)

    def _room(self, screen: QScreen) -> QRect:
        """Return the part of the screen for a window's contents, without its title bar."""
        title = self.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)
        return screen.availableGeometry().adjusted(0, 0, 0, -title)

    def _stay_within(self, room: QRect, place: QPoint) -> None:
        """Move the window to `place`, as far as it fits into `room`, and shrink it to `room`."""
        self.resize(self.size().boundedTo(room.size()))
        corner = room.bottomRight() - QPoint(self.width(), self.height())
        self.move(
            max(room.left(), min(place.x(), corner.x())),
            max(room.top(), min(place.y(), corner.y())),
        )

    def come_forward(self) -> None:
        """Bring the window to the front, if the system allows it."""
        come_forward(self)
        mark(self)  # if the system did not allow it

    def _duplicate(self, message: int) -> None:
        if (record := self.conversation.record) is not None:
            self.sidebar_controller.duplicate(record.id, message)

    def _on_opened(self) -> None:
        self._remember_conversation()
        self.notices.leave_conversation()
        self.composer.set_temporary(self.conversation.temporary)
        if self.conversation.temporary:
            self._show_temporary()
        self._name()

    def _remember_conversation(self) -> None:
        record = self.conversation.record
        stored = record is not None and not self.conversation.temporary
        self.own.conversation = record.id if record is not None and stored else None

    def _name(self) -> None:
        record = self.conversation.record
        title = record.title if record and record.title else "New conversation"
        self.setWindowTitle(f"{one_line(title)} \u2013 Slipstream")

    def _go_to_composer(self) -> None:
        self.leave_library()
        self.composer.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _go_to_conversations(self) -> None:
        self.sides.show("sidebar")
        self.sidebar.focus_list()

    # Notices

    def offer_pair(self, pair: Pair) -> None:
        """Offer to use a pair that has finished downloading."""
        use = Offer("Use it", lambda: self.loader.use(pair))
        self.notices.say(
            "library", f"{target_name(pair.target)} has finished downloading.", "good", offer=use
        )

    def _show_blocked(self) -> None:
        readiness = self.application.readiness
        self.composer.set_blocked(readiness.blocked, remedy=readiness.remedy)

    def _show_matter(self, matter: ProblemKind) -> None:
        """Show a problem with the engine or the disk, in a window that is opened later too."""
        readiness = self.application.readiness
        text = readiness.matters.get(matter, "")
        offer = Offer(RESTART, readiness.restart) if matter == "silence" else None
        if matter == "machine":
            self.rounds.panel.remark.say(text)
        elif text:
            self.notices.say(matter, text, "warning", offer=offer)
        else:
            self.notices.take_back(matter)

    def _on_problem(self, problem: Problem) -> None:
        self.notices.say("problem", str(problem), "warning", of_conversation=True)

    # Appearance

    def _follow_theme(self) -> None:
        font, colours = self.theme.font, self.theme.colours
        self.transcript.set_formats(Formats(font, colours, formulas=self.application.formulas))
        self.setFont(self.theme.interface_font)  # a widget with a style sheet keeps its font
        self.composer.field.setFont(font)
        self._under.setMaximumWidth(self.transcript.widest)
        self.sides.fit()
        if colours is not self._colours:
            self._colours = colours
            self.setStyleSheet(STYLE_SHEET)

    def _follow_settings(self) -> None:
        self.composer.set_enter_sends(self.settings.enter_sends)
        self.composer_controller.count()
        self.presenter.explains = not self.settings.tokens_explained
        self.presenter.show_drafts(self.settings.drafts_in_text, calm=motion_is_reduced())

    def _on_explained(self) -> None:
        self.settings.tokens_explained = True

    def _switch_lens(self, lens: str, shown: bool) -> None:
        self._show_lens("" if shown else lens)

    def _show_lens(self, lens: str) -> None:
        """Show the provenance of tokens, or the words from documents, or only the text."""
        self.presenter.show_provenance(lens == "provenance")
        self.words.mark(lens == "words")
        for name in ("provenance", "words"):
            self.menus.actions[name].setChecked(lens == name)
            self.own.switch(name, lens == name)

    def _switch_state(self, state: Qt.WindowState) -> None:
        self.setWindowState(self.windowState() ^ state)

    def _restore(self) -> None:
        """Restore the window as it was when it was closed, but no larger than the screen."""
        self.resize(_USUAL.boundedTo(self._room(self.screen()).size()))
        if self.restoreGeometry(self.own.place("window")) and not self.windowState() & _COVERING:
            self._stay_within(self._room(self.screen()), self.pos())
        self.sides.restore()
        self.sides.fit()
        tokens = self.own.switched("provenance", default=False)
        words = self.own.switched("words", default=not tokens)
        self._show_lens("provenance" if tokens else "words" if words else "")

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            self.activated.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self, self.painted.emit)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.sides.fit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if files_in(event.mimeData()):
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            self.composer.show_drop(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.composer.show_drop(False)

    def dropEvent(self, event: QDropEvent) -> None:
        self.composer.show_drop(False)
        event.setDropAction(Qt.DropAction.CopyAction)  # a move would delete the files
        event.accept()
        self.composer.files_given.emit(files_in(event.mimeData()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle what no part of the window uses: Esc, keys that scroll, and letters, which belong
        into the composer."""
        if self.composer.isHidden():
            if event.key() == Qt.Key.Key_Escape:
                self.leave_library()
        elif event.key() == Qt.Key.Key_Escape and self.composer_controller.editing:
            self.composer_controller.end_edit()
        elif event.key() == Qt.Key.Key_Escape and self.conversation.writing is not None:
            self.conversation.stop()
        elif types(event) and not event.text().isspace():
            self.composer.setFocus()
            self.composer.field.keyPressEvent(event)
        elif not self.transcript.scroll_by_key(event):
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Store the unsent text and the places of all parts, and stop this window's work."""
        self.leave_library()
        self.composer_controller.leave()
        self.own.keep_place("window", self.saveGeometry())
        self.sides.keep()
        self.hide()  # at once, as the rest may take a moment
        self.answer_commands.reader.stop()
        self.dialogs.close()
        self.sidebar_controller.close()
        self.composer_controller.documents.close()
        self.words.close()
        event.accept()
        self.closed.emit()


def _beginning(application: Application) -> tuple[str, Request | None]:
    """Return the system prompt and the settings of new conversations with the present model."""
    settings = application.settings
    thinking = settings.thinking(application.loader.pair.target)
    chosen = settings_from_json(settings.new_settings)
    return settings.new_system_prompt, with_thinking(chosen, thinking)


def _given(sidebar: Sidebar) -> dict[str, QAction]:
    """Return the actions that the sidebar made, by the command's name."""
    made = {name.removesuffix("_action"): made for name, made in vars(sidebar).items()}
    exports = {f"export_{form}": action for form, action in sidebar.export_actions.items()}
    return {name: each for name, each in made.items() if isinstance(each, QAction)} | exports
