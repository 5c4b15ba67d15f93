"""The window: places its parts and connects them to the open conversation.

Knows which part listens to which, nothing of how a conversation, an answer or a pair works.
"""

from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent, QKeyEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QApplication,
    QHBoxLayout,
    QMainWindow,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from app import files
from app.about import README, AboutDialog, Places, ProblemReport, open_path
from app.attention import Attention
from app.chat.answer_notices import AnswerNotices
from app.chat.answers import Answers, Writing
from app.chat.composer import Composer
from app.chat.conversation import DEFAULTS, OpenConversation, can_go_on
from app.chat.presenter import ConversationPresenter
from app.chat.provenance import Legend
from app.chat.rounds_side import RoundsSide
from app.chat.titles import TitleWriter
from app.chat.transcript import WIDEST_TEXT, Transcript
from app.conversations.records import Message, settings_from_json
from app.conversations.store import Store
from app.engine_client.engine_process import EngineProcess
from app.engine_client.token_counter import TokenCounter
from app.engine_status import EngineStatus
from app.markdown.formats import Formats
from app.markdown.formulas import FormulaLayouts
from app.markdown.links import ask_to_open
from app.menus import KeysDialog, Menus
from app.models.controller import LibraryController
from app.models.library import Library
from app.models.loader import ModelLoader
from app.models.memory_dialog import MemoryDialog
from app.models.pair_bar import PairBar
from app.models.pair_controller import PairController
from app.models.words import drafter_name, target_name
from app.notices import Notices, Offer
from app.race.dialog import RaceDialog
from app.race.race import Race
from app.rounds.lane import DraftLane
from app.sampling.dialog import SamplingDialog
from app.sampling.presets import presets_from_json, presets_to_json
from app.settings import Pair, Settings
from app.settings_dialog import SettingsDialog
from app.side_panels import SidePanels
from app.sidebar.controller import SidebarController
from app.sidebar.sidebar import Sidebar
from app.theme.focus_ring import FocusRing
from app.theme.style import STYLE_SHEET, Theme
from app.welcome import Welcome
from engine.request import BALANCED
from engine.rounds import EventOrRound, Round
from models.errors import Problem
from models.files import models_folder
from models.in_words import one_line

_KEEP_UNSENT_MS = 600


class Window(QMainWindow):
    """Slipstream's window.

    Attributes: the parts. Signals: `painted()`, once, after the first paint.
    """

    painted = Signal()

    def __init__(
        self,
        store: Store,
        engine: EngineProcess,
        *,
        loader: ModelLoader,
        settings: Settings,
        theme: Theme,
        library: Library,
    ) -> None:
        super().__init__()
        self.store, self.engine, self.loader = store, engine, loader
        self.settings, self.theme = settings, theme
        self.answers = Answers(store, engine, parent=self)
        self.conversation = OpenConversation(
            store,
            self.answers,
            names=lambda: loader.names,
            beginning=lambda: (
                settings.new_system_prompt,
                settings_from_json(settings.new_settings),
            ),
            parent=self,
        )
        self.notices, self.composer = Notices(), Composer()
        self.legend = Legend(theme.font, theme.colours)
        self._formulas = FormulaLayouts(self)
        formats = Formats(theme.font, theme.colours, formulas=self._formulas)
        self.transcript, self.lane = Transcript(formats), DraftLane()
        self.welcome = Welcome(loader, theme)
        self.transcript.set_empty(self.welcome)
        self.presenter = ConversationPresenter(
            self.conversation, self.answers, self.transcript, self.lane
        )
        AnswerNotices(self.conversation, self.answers, self.notices)
        self.rounds = RoundsSide(self.conversation, self.answers)
        self.engine_status = EngineStatus(
            engine, loader, self.answers, notices=self.notices, composer=self.composer
        )
        self.attention = Attention(self, self.answers)
        self.sidebar, self.pair_bar = Sidebar(), PairBar()
        self.sidebar_controller = SidebarController(
            self.sidebar, store, self.conversation, self.answers
        )
        self.titles = TitleWriter(
            store,
            engine,
            self.answers,
            wanted=lambda: settings.switched("titles", default=True),
            target=lambda: Path(loader.loaded.target) if loader.loaded else None,
            parent=self,
        )
        self.titles.titled.connect(self.sidebar_controller.show_title)
        self.pair_controller = PairController(
            self.pair_bar,
            loader,
            engine,
            self.answers,
            settings=settings,
            library=library,
        )
        self.library = library
        self.library_controller = LibraryController(library, loader, settings=settings, parent=self)
        self.tokens = TokenCounter(self)
        self.report = ProblemReport(parent=self)
        self._race = Race(engine, parent=self)
        self._race_wanted = False  # when the model is loaded
        self.editing = 0  # the id of the message that is being edited; 0 for none
        self._painted = False
        self._unsent = QTimer(self, singleShot=True, interval=_KEEP_UNSENT_MS)
        self._unsent.timeout.connect(self._keep_unsent)
        self.menus = Menus(self, given=_given(self.sidebar))
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self._arrange()
        self._connect()
        self._connect_commands()
        self._restore()
        self._follow_theme()
        self._follow_settings()
        self._enable_commands()

    def _arrange(self) -> None:
        below = QVBoxLayout()
        below.setContentsMargins(0, 0, 0, 14)
        below.setSpacing(8)
        below.addWidget(self.legend, 0, Qt.AlignmentFlag.AlignHCenter)
        below.addWidget(self.notices)
        below.addWidget(self.composer)
        inner = QWidget()
        inner.setMaximumWidth(WIDEST_TEXT)
        inner.setLayout(below)
        under = QHBoxLayout()
        under.setSpacing(0)
        under.addStretch(0)  # these share what is left of a wide window
        under.addWidget(inner, 1)
        under.addStretch(0)
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.presenter.finder.bar)
        column.addWidget(self.transcript, 1)
        column.addLayout(under)
        self.columns.addWidget(self.sidebar)
        self.columns.addWidget(middle)
        self.columns.addWidget(self.rounds)
        self.columns.setHandleWidth(1)
        self.columns.setStretchFactor(self.columns.indexOf(middle), 1)
        for place in range(self.columns.count()):
            self.columns.setCollapsible(place, False)
        self.columns.setSizes([230, 680, 350])
        self.sides = SidePanels(
            self.columns,
            {"sidebar": self.sidebar, "rounds": self.rounds},
            middle=middle,
            actions=self.menus.actions,
            settings=self.settings,
        )
        whole = QWidget()
        rows = QVBoxLayout(whole)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        rows.addWidget(self.pair_bar)
        rows.addWidget(self.columns, 1)
        self.setCentralWidget(whole)
        for part in self.rounds.findChildren(QAbstractScrollArea):
            FocusRing(part)
        self.setStyleSheet(STYLE_SHEET)
        bar = self.transcript.verticalScrollBar()
        bar.ensurePolished()  # else it would have another width than it is shown with
        under.setContentsMargins(16, 0, 16 + bar.sizeHint().width(), 0)  # in line with the messages
        self.setMinimumWidth(max(self.sides.narrowest, self.pair_bar.minimumSizeHint().width()))
        self.resize(1280, 840)

    def _connect(self) -> None:
        conversation = self.conversation
        conversation.opened.connect(self._on_opened)
        conversation.changed.connect(self._on_changed)
        conversation.described.connect(self._name)
        conversation.refused.connect(self._on_refused)
        conversation.failed.connect(self._on_problem)
        conversation.remarked.connect(lambda line: self.notices.say("remark", line, seconds=8.0))
        self.answers.begun.connect(self._on_changed)
        self.answers.happened.connect(self._on_happened)
        self.answers.finished.connect(self._on_finished)
        self.answers.saved.connect(lambda message: self._count())
        self.composer.sent.connect(self._send)
        self.composer.stopped.connect(conversation.stop)
        self.composer.changed.connect(lambda text: self._unsent.start())
        self.composer.field.textChanged.connect(self._count)
        for change in (
            conversation.changed,
            self.answers.begun,
            self.answers.finished,
            self.answers.saved,
            self.rounds.scrubber.moved,
        ):
            change.connect(lambda *_: self._enable_commands())
        self.tokens.counted.connect(self._on_counted)
        self.loader.loaded_now.connect(lambda loaded: self.tokens.use(Path(loaded.target)))
        self.loader.loaded_now.connect(lambda loaded: self._on_model(loaded=True))
        self.loader.failed.connect(lambda problem: self._on_model(loaded=False))
        self.presenter.selected.connect(self.rounds.show_answer)
        self.presenter.edit_asked.connect(self.edit)
        self.presenter.link_asked.connect(lambda address: ask_to_open(self, address))
        self.theme.changed.connect(self._follow_theme)
        conversation.reached.connect(self.presenter.reveal)
        self.rounds.stepped.connect(self.presenter.show_answer)
        self.sidebar.find_action.triggered.connect(lambda: self.sides.show("sidebar"))
        self.sidebar.new_asked.connect(self.new)
        self.attention.chosen.connect(self._come_to)
        self.sidebar_controller.left.connect(self._leave)
        self.sidebar_controller.reported.connect(
            lambda line: self.notices.say("done", line, "good", seconds=6.0)
        )
        self.sidebar_controller.failed.connect(self._on_problem)
        self.pair_controller.retry_asked.connect(self.engine_status.try_again)
        self.pair_bar.more_targets_asked.connect(self.library_controller.open)
        self.pair_bar.more_drafters_asked.connect(lambda: self.library_controller.open("drafters"))
        self.welcome.library_asked.connect(self.library_controller.open)
        self.welcome.asked.connect(self._compose)
        self.welcome.explanation_asked.connect(self.rounds.explain)
        self.library_controller.chosen.connect(self.pair_controller.use)
        self.library_controller.drafter_chosen.connect(self.pair_controller.use_drafter)
        self.library_controller.forgotten.connect(self.pair_controller.show_choices)
        self.library_controller.ready.connect(self._on_ready)
        self.library_controller.reported.connect(
            lambda line: self.notices.say("library", line, seconds=8.0)
        )
        self.report.copied.connect(
            lambda facts: self.notices.say(
                "report", "The facts of this machine are copied. Paste them into your report."
            )
        )
        self.report.failed.connect(self._on_problem)
        self.rounds.export_wanted.connect(self._ask_to_export_trace)
        self.legend.explanation_asked.connect(self.rounds.explain)

    def _connect_commands(self) -> None:
        commands = {
            "quit": self.close,
            "rounds": lambda: self.sides.switch("rounds"),
            "sidebar": lambda: self.sides.switch("sidebar"),
            "provenance": self._switch_provenance,
            "larger": lambda: self.theme.zoom(+1.0),
            "smaller": lambda: self.theme.zoom(-1.0),
            "own_size": lambda: self.theme.zoom(0.0),
            "full_screen": self._switch_full_screen,
            "find": self.presenter.finder.open,
            "find_next": lambda: self.presenter.finder.step(1),
            "find_previous": lambda: self.presenter.finder.step(-1),
            "send": self.composer.send,
            "stop": self.conversation.stop,
            "edit": self._edit_last,
            "regenerate": self._regenerate_last,
            "go_on": self._go_on_with_last,
            "copy_answer": self._copy_last_answer,
            "previous_version": lambda: self._turn_last_answer(-1),
            "next_version": lambda: self._turn_last_answer(+1),
            "next_conversation": lambda: self.sidebar.step(+1),
            "previous_conversation": lambda: self.sidebar.step(-1),
            "go_to_conversations": self._go_to_conversations,
            "go_to_messages": self._go_to_messages,
            "go_to_composer": lambda: self.composer.setFocus(Qt.FocusReason.ShortcutFocusReason),
            "before": lambda: self.rounds.step(-1),
            "after": lambda: self.rounds.step(1),
            "explain_rounds": self.rounds.explain,
            "export_trace": self.rounds.scrubber.export,
            "starter": lambda: self.loader.load(type(self.loader.pair)()),
            "memory": lambda: MemoryDialog(self.loader, self.settings, parent=self).open(),
            "measure": self.loader.measure_again,
            "unload": self.loader.unload,
            "restart": self.engine_status.try_again,
            "sampling": self._configure,
            "settings": self._show_settings,
            "race": self.race,
            "about": self._tell_about,
            "readme": lambda: self._open_path(README),
            "data_folder": lambda: self._open_path(self._places.data),
            "log": lambda: self._open_path(self._places.log),
            "report": self.report.begin,
            "library": self.library_controller.open,
            "load": self.pair_controller.ask_for_folder,
            "load_file": self.pair_controller.ask_for_file,
            "keys": lambda: KeysDialog(self.menus, self).open(),
        }
        self.menus.actions["readme"].setVisible(README.is_file())
        for name, act in commands.items():
            self.menus.actions[name].triggered.connect(lambda checked=False, act=act: act())

    # What is said

    def new(self) -> None:
        """Begin an empty conversation."""
        self._leave()
        self.conversation.new()
        self.composer.setFocus()

    def edit(self, message: int) -> None:
        """Put a message back into the composer, to send another version of it."""
        found = self.conversation.message(message)
        if found is None or found.role != "user":
            return
        if not self.editing:
            self._keep_unsent()
        self.editing = message
        self.composer.set_text(found.content)
        self.composer.setFocus()
        self.notices.say(
            "edit",
            "Sending writes another version of your message; this one stays.",
            offer=Offer("Cancel", self._end_edit),
            lasting=True,
        )

    def _compose(self, text: str) -> None:
        """Put a text into the composer, to be sent or changed."""
        self.composer.set_text(text)
        self.composer.setFocus()

    def _send(self, text: str) -> None:
        self._unsent.stop()
        if self.editing:
            message, self.editing = self.editing, 0
            self.notices.take_back("edit")
            self.conversation.edit(message, text)
            self._show_unsent()
        else:
            self.settings.unsent = ""
            self.conversation.say(text)

    def _end_edit(self) -> None:
        self.editing = 0
        self.notices.take_back("edit")
        self._show_unsent()

    def _leave(self) -> None:
        """Keep the unsent text before another conversation is opened."""
        if self.editing:
            self._end_edit()
        self._keep_unsent()

    def _count(self) -> None:
        """Count how much of the context is used; the composer shows it once it is known."""
        system_prompt, _ = self.conversation.configured
        branch = self.conversation.branch
        texts = (system_prompt, *(message.content for message in branch))
        writing = self.answers.writing(branch[-1].id) if branch else None
        self.tokens.count(
            (*texts, self.composer.text), written=writing.tokens if writing is not None else 0
        )

    def _on_happened(self, writing: Writing, happening: EventOrRound) -> None:
        if isinstance(happening, Round) and happening.verdict is not None:
            self._count()

    def _on_counted(self, tokens: int) -> None:
        loaded = self.loader.loaded
        limit = loaded.context_length if loaded else None
        leaves_out = self.conversation.settings.overflow != "stop"
        self.composer.set_tokens(tokens, limit, leaves_out=leaves_out)

    def _keep_unsent(self) -> None:
        self._unsent.stop()
        if self.editing:
            return
        if self.conversation.record is None:
            self.settings.unsent = self.composer.text
        else:
            self.conversation.keep_unsent(self.composer.text)

    def _show_unsent(self) -> None:
        record = self.conversation.record
        self.composer.set_text(self.settings.unsent if record is None else record.unsent)

    def _edit_last(self) -> None:
        said = [message.id for message in self.conversation.branch if message.role == "user"]
        if said:
            self.edit(said[-1])

    def _regenerate_last(self) -> None:
        if self.conversation.branch:
            self.conversation.regenerate(self.conversation.branch[-1].id)

    def _go_on_with_last(self) -> None:
        if self.conversation.branch:
            self.conversation.go_on(self.conversation.branch[-1].id)

    def _last_answer(self) -> Message | None:
        answers = [found for found in self.conversation.branch if found.role == "assistant"]
        return answers[-1] if answers else None

    def _copy_last_answer(self) -> None:
        if (answer := self._last_answer()) is not None:
            self.presenter.copy(answer.id)

    def _turn_last_answer(self, by: int) -> None:
        if (answer := self._last_answer()) is not None:
            self.conversation.switch(answer.id, answer.place + by)

    def _go_to_conversations(self) -> None:
        self.sides.show("sidebar")
        self.sidebar.focus_list()

    def _go_to_messages(self) -> None:
        if self.conversation.branch:
            self.presenter.reveal(self.conversation.branch[-1].id)

    def race(self) -> None:
        """Race plain against speculative decoding, on the composer's text or the last message."""
        self._race_wanted = False
        lines = self.conversation.asked(self.composer.text)
        if not lines:
            self._on_problem(Problem("There is nothing to race with.", "Write a message first."))
        elif self.loader.resting:
            self._race_wanted = True
            self.loader.wake()
            self.notices.say("race", "The model is being loaded. Then the race begins.")
        elif self.loader.loaded is None:
            self._on_problem(Problem("There is no model yet.", "Race when the model is ready."))
        elif self.answers.busy or self._race.running:
            self._on_problem(Problem("The engine is busy.", "Race when the answer has finished."))
        else:
            target, drafter = self.loader.names
            dialog = RaceDialog(
                self._race,
                lines,
                self.conversation.settings,
                names=(target, drafter_name(drafter)),
                parent=self,
            )
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.open()

    def _on_model(self, *, loaded: bool) -> None:
        """Begin a race that waited for its model; none where that could not be loaded."""
        self.notices.take_back("race")
        if self._race_wanted and loaded:
            self.race()
        self._race_wanted = False

    def _configure(self) -> None:
        """Let the person choose the system prompt and the sampling of this conversation."""
        loaded, settings = self.loader.loaded, self.settings
        dialog = SamplingDialog(
            *self.conversation.configured,
            defaults=DEFAULTS,
            models_default=loaded.sampling if loaded else BALANCED,
            own=presets_from_json(settings.presets),
            keep=lambda own: setattr(settings, "presets", presets_to_json(own)),
            parent=self,
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.applied.connect(
            lambda prompt, request: self.conversation.configure(
                system_prompt=prompt, settings=request
            )
        )
        dialog.open()

    def _show_settings(self) -> None:
        """Show the settings, which apply at once."""
        dialog = SettingsDialog(
            self.settings,
            self.theme,
            folders={"Models": models_folder(), "Conversations": self.store.path.parent},
            updates=self.menus.actions["automatic_updates"],
            parent=self,
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self._follow_settings)
        dialog.show()

    def _follow_settings(self) -> None:
        self.composer.set_enter_sends(self.settings.enter_sends)
        self._count()

    # What happened

    def _on_opened(self) -> None:
        record = self.conversation.record
        self.settings.conversation = None if record is None else record.id
        self.notices.leave_conversation()
        self._show_unsent()
        self._name()

    def _on_changed(self) -> None:
        self._count()
        self.composer.set_answering(self.conversation.writing is not None)
        if self.conversation.record:
            self.settings.conversation = self.conversation.record.id

    def _enable_commands(self) -> None:
        """Disable the commands for which there is nothing to act on."""
        conversation, branch = self.conversation, self.conversation.branch
        free, answer = not conversation.busy, self._last_answer()
        answers = sum(message.role == "assistant" for message in branch)
        self.menus.enable(
            {
                "stop": conversation.writing is not None,
                "edit": free and any(message.role == "user" for message in branch),
                "regenerate": free and bool(branch),
                "go_on": free and bool(branch) and can_go_on(branch[-1]),
                "copy_answer": answer is not None,
                "previous_version": answer is not None and answer.place > 1,
                "next_version": answer is not None and answer.place < answer.siblings,
                "before": answers > 1,
                "after": answers > 1,
                "export_trace": bool(self.rounds.scrubber.events),
                "go_to_messages": bool(branch),
            }
        )

    def _on_finished(self, writing: Writing) -> None:
        self.composer.set_answering(self.conversation.writing is not None)

    def _on_ready(self, pair: Pair) -> None:
        use = Offer("Use it", lambda: self.pair_controller.use(pair))
        self.notices.say(
            "library", f"{target_name(pair.target)} finished downloading.", "good", offer=use
        )

    def _ask_to_export_trace(self, document: str) -> None:
        def write(path: Path) -> None:
            try:
                files.write_text(path, document)
            except Problem as problem:
                self._on_problem(problem)

        record = self.conversation.record
        name = f"{record.title if record else ''} trace.json"
        files.ask_to_save(self, "Export the trace", name, write)

    def _on_refused(self, text: str, problem: Problem) -> None:
        """Put a text that could not be stored back into the composer."""
        self.composer.set_text("\n\n".join(filter(None, (text, self.composer.text))))
        self._on_problem(problem)

    def _on_problem(self, problem: Problem) -> None:
        self.notices.say("problem", str(problem), "warning", of_conversation=True)

    def _tell_about(self) -> None:
        about = AboutDialog(self._places, parent=self)
        about.shown.connect(self._open_path)
        about.facts_asked.connect(self.report.begin)
        about.open()

    @property
    def _places(self) -> Places:
        return Places(self.store.path.parent, self.store.path, self.engine.log_path)

    def _open_path(self, path: Path | None) -> None:
        try:
            open_path(path)
        except Problem as problem:
            self._on_problem(problem)

    def _name(self) -> None:
        record = self.conversation.record
        title = record.title if record and record.title else "New conversation"
        self.setWindowTitle(f"{one_line(title)} \u2013 Slipstream")

    # How it looks

    def _follow_theme(self) -> None:
        font, colours = self.theme.font, self.theme.colours
        self.transcript.set_formats(Formats(font, colours, formulas=self._formulas))
        self.legend.set_appearance(font, colours)
        self.composer.field.setFont(font)

    def _switch_provenance(self) -> None:
        shown = not self.presenter.provenance
        self._show_provenance(shown)
        self.settings.switch("provenance", shown)

    def _show_provenance(self, shown: bool) -> None:
        self.presenter.show_provenance(shown)
        self.legend.setVisible(shown)
        self.menus.actions["provenance"].setChecked(shown)

    def _switch_full_screen(self) -> None:
        self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen)

    def _restore(self) -> None:
        """Restore the window as it was when it was closed."""
        files.set_last_folder(self.settings.last_folder)
        self.restoreGeometry(self.settings.place("window"))
        self.rounds.parts.restoreState(self.settings.place("rounds"))
        self.sides.restore()
        self.sides.fit()
        self._show_provenance(self.settings.switched("provenance", default=False))

    def begin(self) -> None:
        """Open the conversation that was open last, and have the engine load its model."""
        if self.store.notice:
            self.notices.say("store", self.store.notice, "warning")
        if self.settings.conversation is not None:
            self.conversation.open(self.settings.conversation)
        else:
            self.conversation.new()
        self.store.purge()  # what was deleted long ago
        self.store.back_up_if_due()
        self.sidebar_controller.refresh()
        self.loader.begin()
        self.composer.setFocus()

    def _come_to(self, conversation: int) -> None:
        self.come_forward()
        self._leave()
        self.conversation.open(conversation)

    def come_forward(self) -> None:
        """Show the window in front of others, as far as the system lets it."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()
        QApplication.alert(self)  # where it was not let

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self, self.painted.emit)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.sides.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle Esc where no part of the window has its own use for it."""
        if event.key() == Qt.Key.Key_Escape and self.editing:
            self._end_edit()
        elif event.key() == Qt.Key.Key_Escape and self.conversation.writing is not None:
            self.conversation.stop()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save everything and stop the engine before the window goes."""
        self._leave()
        self.settings.keep_place("window", self.saveGeometry())
        self.sides.keep()
        self.settings.keep_place("rounds", self.rounds.parts.saveState())
        self.settings.last_folder = files.last_folder()
        self.settings.save()
        self.hide()  # at once: the engine may take a moment
        self._formulas.close()
        self.library_controller.close()
        self.report.close()
        self.answers.close()
        self.titles.close()
        self.engine.stop()
        self.answers.save()
        self.sidebar_controller.close()
        self.store.close()
        event.accept()


def _given(sidebar: Sidebar) -> dict[str, QAction]:
    """The actions that the sidebar has made, by the command's name."""
    return {
        "new": sidebar.new_action,
        "search": sidebar.find_action,
        "rename": sidebar.rename_action,
        "pin": sidebar.pin_action,
        "archive": sidebar.archive_action,
        "new_folder": sidebar.new_folder_action,
        "delete": sidebar.delete_action,
        "restore": sidebar.undo_action,
        "import": sidebar.import_action,
        "export_all": sidebar.export_all_action,
        "export_markdown": sidebar.export_markdown_action,
        "export_json": sidebar.export_json_action,
    }
