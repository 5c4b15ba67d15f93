"""Opens the dialogs over a window: the race, sampling, memory, settings, keys, About; and asks for
files, or shows folders in another program.

Knows the input of each; not its contents.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QDialog, QWidget

from app import files
from app.about import README, AboutDialog, Places, ProblemReport, open_path
from app.application import Application
from app.chat.composer import Composer
from app.chat.conversation import DEFAULTS, OpenConversation
from app.chat.rounds_side import RoundsSide
from app.cluster.panel import MacsPanel
from app.conversations.answer_steps import line, texts_of
from app.documents.controller import DocumentsController
from app.documents.text_dialog import TextDialog
from app.menus import KeysDialog, Menus
from app.models.formatting import drafts_in_words
from app.models.memory_dialog import MemoryDialog
from app.notices import Notices
from app.race.dialog import RaceDialog
from app.replay.scrubber import ReplayDialog
from app.rounds.replay_page import replay_page
from app.rounds.trace import Replay, to_document
from app.sampling.dialog import SamplingDialog
from app.sampling.presets import presets_from_json, presets_to_json
from app.server.panel import ServerPanel
from app.settings_dialog import SettingsDialog
from app.steps import Stepper, Steps, in_thread
from app.tools.controller import ToolsController
from app.tools.panel import ToolsPanel
from engine.process.protocol import Loaded
from engine.request import BALANCED, ChatMessage, Request
from engine.tools.steps import StepCall
from models.errors import Problem
from models.files import models_folder
from models.in_words import one_line


class WindowDialogs(QObject):
    """Signals: `failed(Problem)`: a command failed."""

    failed = Signal(Problem)

    def __init__(
        self,
        window: QWidget,
        application: Application,
        conversation: OpenConversation,
        *,
        composer: Composer,
        documents: DocumentsController,
        notices: Notices,
        menus: Menus,
        rounds: RoundsSide,
    ) -> None:
        """Dialogs open over `window`. A race uses the text in `composer`, with its documents."""
        super().__init__(window)
        self._window, self._application, self._conversation = window, application, conversation
        self._composer, self._notices, self._menus = composer, notices, menus
        self._documents = documents
        self._report = ProblemReport(parent=self)
        self._stepper = Stepper(self)
        self._race_wanted: tuple[Sequence[ChatMessage], Request] | None = None  # with a model
        self._report.copied.connect(self._on_copied)
        self._report.failed.connect(self.failed)
        application.loader.loaded_now.connect(self._on_loaded)
        application.loader.failed.connect(self._on_not_loaded)
        menus.actions["readme"].setVisible(README.is_file())
        menus.connect_commands(
            {
                "race": self.race,
                "replay": lambda: self.replay(rounds.answer),
                "export_trace": lambda: self._export_trace_of(rounds.answer),
                "sampling": self._configure,
                "memory": self._show_memory,
                "tools": self.show_tools,
                "server": self.show_server,
                "macs": self.show_macs,
                "settings": self._show_settings,
                "keys": self._show_keys,
                "about": self._show_about,
                "readme": lambda: self.open_path(README),
                "data_folder": lambda: self.open_path(self._places.data),
                "log": lambda: self.open_path(self._places.log),
                "report": self._report.begin,
            }
        )

    @property
    def _places(self) -> Places:
        store, engine = self._application.store, self._application.engine
        return Places(store.path.parent, store.path, engine.log_path)

    def close(self) -> None:
        """Close all of them."""
        for dialog in self._window.findChildren(QDialog):
            dialog.close()  # this stops a race, too
        self._report.close()
        self._stepper.close()

    def show_call(self, call: StepCall) -> None:
        """Show all of a call, and of what the model got of its result."""
        whole = "\n\n".join(f"{title}:\n\n{text}" for title, text in texts_of(call))
        remark = "The model’s call and its result."
        TextDialog(one_line(line(call)), whole, remark=remark, parent=self._window).open_once()

    @property
    def _title(self) -> str:
        record = self._conversation.record
        return record.title if record is not None else ""

    def race(self) -> None:
        """Race on the composer's text, or on the last message."""
        text = self._composer.text
        prompt = self._documents.prompt(text) if text.strip() else ""
        self._race(self._conversation.asked(prompt), self._conversation.settings)

    def race_answer(self, answer: int) -> None:
        """Race on the question of an answer."""
        self._race(self._conversation.asked_by(answer), self._conversation.settings)

    def _race(self, lines: Sequence[ChatMessage], settings: Request) -> None:
        self._race_wanted = None
        application, loader = self._application, self._application.loader
        if not lines:
            self.failed.emit(Problem("The race needs a message.", "Write a message first."))
        elif loader.resting:
            self._race_wanted = lines, settings
            loader.wake()
            self._notices.say("race", "The race starts when the model has loaded.")
        elif loader.loaded is None:
            self.failed.emit(Problem("No model is loaded.", "Race when a model is loaded."))
        elif application.race.running:
            self.failed.emit(Problem("A race is running.", "Wait until it ends, or stop it."))
        elif application.answers.busy:
            self.failed.emit(Problem("The engine is busy.", "Race when the answer has finished."))
        else:
            target, drafter = loader.names
            dialog = RaceDialog(
                application.race,
                lines,
                settings,
                names=(target, drafts_in_words(drafter, "auto")),
                parent=self._window,
            )
            dialog.open_once()

    def replay(self, answer: int) -> None:
        """Open the replay of an answer."""
        if answer:
            message = self._conversation.message(answer)
            steps = message.steps if message is not None else ()
            lines = [(step.place, line(call)) for step in steps for call in step.calls]
            asked = self._conversation.asked_by(answer)
            page = partial(
                replay_page,
                title=self._title,
                question=asked[-1].content[asked[-1].attached :] if asked else "",
                target=message.target if message is not None else "",
            )
            opened = partial(self._open_replay, self._title, page)
            self._conversation.trace(answer, partial(Replay, lines=lines), opened)

    def _open_replay(self, title: str, page: Callable[[Replay], str], replay: Replay) -> None:
        def steps() -> Steps:
            written = yield in_thread(lambda: page(replay))
            self._export("Save the replay as a page", f"{title} replay.html", written)

        dialog = ReplayDialog(replay, parent=self._window)
        dialog.scrubber.export_wanted.connect(partial(self._export_trace, title))
        dialog.scrubber.page_wanted.connect(
            lambda: self._stepper.run(steps(), failed=self.failed.emit)
        )
        dialog.open_once()

    def _export_trace_of(self, answer: int) -> None:
        if answer:
            self._conversation.trace(answer, to_document, partial(self._export_trace, self._title))

    def _export_trace(self, title: str, document: str) -> None:
        self._export("Export the trace", f"{title} trace.json", document)

    def _export(self, title: str, name: str, document: str) -> None:
        """Ask for a file name, and write the document."""

        def write(path: Path) -> None:
            try:
                files.write_text(path, document)
            except Problem as problem:
                self.failed.emit(problem)

        files.ask_to_save(self._window, title, name.strip(), write)

    def _configure(self) -> None:
        """Let the user choose the system prompt and the sampling of this conversation."""
        loaded, settings = self._application.loader.loaded, self._application.settings
        place = self._conversation.place
        dialog = SamplingDialog(
            *self._conversation.configured,
            defaults=DEFAULTS,
            models_default=loaded.sampling if loaded else BALANCED,
            stored=lambda: presets_from_json(settings.presets),
            keep=lambda own: setattr(settings, "presets", presets_to_json(own)),
            parent=self._window,
        )
        dialog.applied.connect(
            lambda prompt, request: self._conversation.configure(
                system_prompt=prompt, settings=request, place=place
            )
        )
        dialog.open_once()

    def _show_memory(self) -> None:
        loader, settings = self._application.loader, self._application.settings
        MemoryDialog(loader, settings, parent=self._window).open_once()

    def show_server(self) -> None:
        """Show the panel of the local server, which stays open next to the chat."""
        application = self._application
        make = partial(ServerPanel, application.server, application.settings)
        self._show_panel(ServerPanel, make)

    def show_tools(self) -> None:
        """Show the panel of tools, which stays open next to the chat."""

        def make(*, parent: QWidget) -> ToolsPanel:
            panel = ToolsPanel(parent)
            ToolsController(panel, self._application.tools)
            return panel

        self._show_panel(ToolsPanel, make)

    def show_macs(self) -> None:
        """Show the panel of several Macs, which stays open next to the chat."""
        self._show_panel(MacsPanel, partial(MacsPanel, self._application.macs))

    def _show_panel(self, kind: type[QDialog], make: Callable[..., QDialog]) -> None:
        """Show the panel of this kind in front, after making it if needed."""
        panel = self._window.findChild(kind)
        if panel is None:
            panel = make(parent=self._window)
            panel.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        panel.show()
        panel.raise_()
        panel.activateWindow()

    def _show_settings(self) -> None:
        """Show the settings, which apply at once."""
        application = self._application
        dialog = SettingsDialog(
            application.settings,
            application.theme,
            folders={"Models": models_folder(), "Conversations": self._places.data},
            parent=self._window,
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(application.settings_changed)
        dialog.tools_asked.connect(self.show_tools)
        store, stepper = application.store, Stepper(dialog)
        dialog.finished.connect(lambda result: stepper.close())

        def measure() -> Steps:
            dialog.show_kept((yield store.kept_bytes()))

        def delete() -> Steps:
            yield store.forget_kept()
            yield from measure()

        dialog.deletion_asked.connect(lambda: stepper.run(delete(), failed=self.failed.emit))
        stepper.run(measure(), failed=self.failed.emit)
        dialog.show()

    def _show_keys(self) -> None:
        KeysDialog(self._menus, self._window).open_once()

    def _show_about(self) -> None:
        about = AboutDialog(self._places, parent=self._window)
        about.shown.connect(self.open_path)
        about.facts_asked.connect(self._report.begin)
        about.open_once()

    def open_path(self, path: Path | None) -> None:
        """Show a folder or file in the system's program for it."""
        try:
            open_path(path)
        except Problem as problem:
            self.failed.emit(problem)

    def _on_copied(self, facts: str) -> None:
        self._notices.say("report", "System information copied. Paste it into your report.")

    def _on_loaded(self, loaded: Loaded) -> None:
        """Start the race that waited for its model."""
        self._notices.take_back("race")
        if self._race_wanted is not None:
            self._race(*self._race_wanted)

    def _on_not_loaded(self, problem: Problem) -> None:
        self._notices.take_back("race")
        self._race_wanted = None
