"""The parts that all windows share: one store, one engine with its model, the answers in progress.

Starts and closes them in the right order. Knows no window.
"""

from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app import files
from app.chat.answers import Answers
from app.chat.listing import Listing
from app.chat.titles import TitleWriter
from app.cluster.several_macs import SeveralMacs
from app.commands import CommandRunner
from app.conversations.store import Store
from app.documents.attachments import Read
from app.engine_client.engine_process import EngineProcess
from app.markdown.formulas import FormulaLayouts
from app.models.library import Library
from app.models.loader import ModelLoader
from app.models.readiness import Readiness
from app.race.race import Race
from app.server.local_server import LocalServer
from app.settings import Settings
from app.steps import Stepper, Steps
from app.theme.style import Theme
from app.tools.toolbox import Toolbox
from engine.documents.reading import read_document
from engine.process.protocol import Loaded
from models.errors import Problem

_BACK_UP_MS = 5 * 60 * 1000


class Application(QObject):
    """Attributes: its parts; `begun`, whether `begin` was called; `backups`, the backup timer.

    Signals: `settings_changed()`: the user changed a setting other than the theme's;
    `troubled(Problem)`: a setting could not be applied.
    """

    settings_changed = Signal()
    troubled = Signal(Problem)

    def __init__(
        self,
        store: Store,
        engine: EngineProcess,
        *,
        loader: ModelLoader,
        settings: Settings,
        theme: Theme,
        library: Library,
        server: LocalServer,
        tools: Toolbox,
        read: Read = read_document,
        cluster: CommandRunner | None = None,
    ) -> None:
        """`tools` runs what models call. `read` reads attached files. `cluster` runs commands on
        several Macs."""
        super().__init__()
        self.store, self.engine, self.loader = store, engine, loader
        self.settings, self.theme, self.library = settings, theme, library
        self.server, self.tools, self.read = server, tools, read
        self.begun = False
        self._stepper = Stepper(self)
        self._learning = settings.learn  # otherwise learned answers would not be deleted yet
        tools.setParent(self)
        self.answers = Answers(store, engine, tools=tools, target=self._target, parent=self)
        self.listing = Listing(store, parent=self)
        self.readiness = Readiness(engine, loader, self.answers, parent=self)
        loader.busy = lambda: self.answers.busy
        self.macs = SeveralMacs(engine, loader, settings=settings, commands=cluster, parent=self)
        self.titles = TitleWriter(
            store,
            engine,
            self.answers,
            wanted=lambda: settings.switched("titles", default=True),
            target=self._target,
            parent=self,
        )
        self.formulas = FormulaLayouts(self)
        self.race = Race(engine, parent=self)
        self.backups = QTimer(self, interval=_BACK_UP_MS)
        self.backups.timeout.connect(store.back_up_if_due)
        self.answers.begun.connect(self.listing.refresh)
        self.titles.titled.connect(self.listing.refresh)
        self.settings_changed.connect(self._learn_or_forget)
        self.answers.finished.connect(loader.load_next)
        self.settings_changed.connect(loader.load_again)
        loader.loaded_now.connect(self._on_loaded)
        files.set_last_folder(settings.last_folder)

    def begin(self) -> None:
        """Load the model and tidy the store. Further calls do nothing."""
        if self.begun:
            return
        self.begun = True
        self.store.purge()  # documents deleted long ago
        self.store.back_up_if_due()
        self.backups.start()
        self._learn_or_forget()
        self.listing.refresh()
        self.loader.begin()
        self.tools.begin()
        if self.settings.server_at_start:
            self.server.switch(True)

    def _on_loaded(self, loaded: Loaded) -> None:
        """Ask for the models on this machine once, and for the drafters of another target."""
        if not self.library.inventory.answered:
            self.library.refresh()
        if loaded.target != self.library.target:
            self.library.refresh_candidates(loaded.target)

    def _target(self) -> Path | None:
        loaded = self.loader.loaded
        return Path(loaded.target) if loaded else None

    def _learn_or_forget(self) -> None:
        self._stepper.run(self._keep_or_drop(), failed=self.troubled.emit)

    def _keep_or_drop(self) -> Steps:
        """Keep earlier answers if `learn` is on, or else delete them all. The store works in order,
        so the last change wins."""
        before, self._learning = self._learning, self.settings.learn
        if self._learning:
            yield self.store.keep_earlier_answers()
        elif before:
            try:
                yield self.store.drop_earlier_answers()
            except Problem:
                self._learning = True  # so that the next change tries again
                raise

    def close(self) -> None:
        """Save everything and stop the engine. Waits for both."""
        self.settings.last_folder = files.last_folder()
        self.settings.save()
        self.formulas.close()
        self.server.close()
        self.macs.close()
        self.answers.close()
        self.titles.close()
        self.loader.close()
        self.engine.stop()
        self.answers.save()
        self.tools.close()
        self.backups.stop()
        self.listing.close()
        self._stepper.close()
        self.store.close()
