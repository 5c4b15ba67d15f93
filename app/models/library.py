"""Everything the Library knows: installed models, offered pairs, search results, downloads, and
drafters for a target.

Knows the arguments and answers of `slipstream models`; not how commands run, and shows nothing.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.commands import CommandRunner, Question, expect
from app.models.downloads import Downloads
from models.answers import Found, Freed, Offered, Rated
from models.errors import Problem
from models.records import Candidate, Inventory, PairOffer, SearchResult


class Library(QObject):
    """Asks for the models and pairs that the Library shows, and carries out its requests.

    Attributes: the questions `inventory`, `offers`, `found` and `candidates`; `downloads`;
    `searched`, the text of the last search; `target`, the folder of the target of the candidates.

    Signals:
        done(int | None): a request was carried out; the bytes that it freed, if it could free any.
        failed(Problem): a request failed.
    """

    done = Signal(object)

    def __init__(
        self,
        commands: CommandRunner | None = None,
        *,
        hostfile: Callable[[], str] = lambda: "",
        parent: QObject | None = None,
    ) -> None:
        """`hostfile` returns the path for several Macs; empty for this Mac alone."""
        super().__init__(parent)
        self._hostfile = hostfile
        self._asks_macs = False
        self.commands = commands or CommandRunner(parent=self)
        self.inventory: Question[Inventory] = Question(
            self.commands, lambda answer: expect(Inventory, answer), empty=Inventory(), parent=self
        )
        self.offers: Question[tuple[PairOffer, ...]] = Question(
            self.commands, lambda answer: expect(Offered, answer).offers, empty=(), parent=self
        )
        self.found: Question[tuple[SearchResult, ...]] = Question(
            self.commands, lambda answer: expect(Found, answer).found, empty=(), parent=self
        )
        self.candidates: Question[tuple[Candidate, ...]] = Question(
            self.commands, lambda answer: expect(Rated, answer).candidates, empty=(), parent=self
        )
        self.downloads = Downloads(self.commands, parent=self)
        self.failed = self.downloads.failed
        self.searched = ""
        self.target = ""
        self._closed = False
        self.inventory.changed.connect(self._on_inventory)
        self.offers.changed.connect(self._on_offers)
        self.downloads.disk_changed.connect(self._refresh_all)

    def refresh(self) -> None:
        """Ask for the installed models and the queue."""
        self.downloads.begin_look()
        self.inventory.ask("list", "--json")

    def refresh_offers(self) -> None:
        """Ask for the catalog's pairs for this machine, or for several Macs together."""
        hostfile = self._hostfile()
        self._asks_macs = bool(hostfile)
        self.offers.ask("pair", "--json", *(("--hosts", hostfile) if hostfile else ()))

    def refresh_candidates(self, target: str) -> None:
        """Ask for the drafters that can draft for the model in this folder."""
        if target != self.target:
            self.target = target
            self.candidates.forget()
        self.candidates.ask("pair", "--json", "--target", target)

    def search(self, text: str) -> None:
        """Search the hub. An empty text only clears the results."""
        self.searched = text = " ".join(text.split())
        self.found.forget()
        if text:
            self.found.ask("search", "--json", "--", text)

    def remove(self, name: str) -> None:
        """Delete a model from the disk, given its name or its folder."""
        self._do("remove", "--json", "--yes", "--", name)

    def clean(self, name: str) -> None:
        """Delete the leftovers of an interrupted download."""
        self._do("remove", "--json", "--yes", "--incomplete", "--", name)

    def add_folder(self, folder: str) -> None:
        """List the models in another folder too."""
        self._do("folders", "--json", "--add", folder)

    def remove_folder(self, folder: str) -> None:
        """Stop listing the models in a folder. Nothing is deleted."""
        self._do("folders", "--json", "--remove", folder)

    def close(self) -> None:
        """Pause the downloads and end other commands. Waits up to 1.5 seconds for each download."""
        self._closed = True
        self.commands.close(patient=self.downloads.running)

    def _do(self, *command: str) -> None:
        running = self.commands.start(*command)
        running.done.connect(self._on_done)
        running.failed.connect(self._on_failed)

    def _on_done(self, answer: object) -> None:
        self.done.emit(answer.freed_bytes if isinstance(answer, Freed) else None)
        self._refresh_all()

    def _on_failed(self, problem: Problem) -> None:
        self.failed.emit(problem)
        self._refresh_all()

    def _on_inventory(self) -> None:
        if self.inventory.answered and not self.inventory.asking and self.inventory.problem is None:
            inventory = self.inventory.value
            self.downloads.take_queue(inventory.downloads, downloading=inventory.downloading)

    def _on_offers(self) -> None:
        """If the Macs do not answer, ask for the pairs for this machine alone."""
        if self._asks_macs and self.offers.problem is not None and not self.offers.asking:
            self._asks_macs = False
            self.offers.ask("pair", "--json")

    def _refresh_all(self) -> None:
        """Repeat all earlier questions, as the disk has changed."""
        if self._closed:
            return
        self.refresh()
        if self.offers.answered:
            self.refresh_offers()
        if self.candidates.answered:
            self.refresh_candidates(self.target)
